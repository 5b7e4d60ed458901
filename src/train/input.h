/* Batches on the device ahead of the steps that read them: copied from the data loader, or made there
 * (dataloader.device). Steps take turns in AORTA_INPUT_SLOTS pieces of memory. */
#ifndef AORTA_TRAIN_INPUT_H
#define AORTA_TRAIN_INPUT_H

#include "train/context.h"
#include "train/data.h"

enum { AORTA_INPUT_SLOTS = 2 };

struct aorta_input;

/* For `steps` steps. done: of the steps in each slot, recorded after them; borrowed, and read later than this call. */
AORTA_MUST_USE aorta_status aorta_input_create(const struct aorta_train_context *context,
                                               const struct aorta_dataset *dataset, int64_t steps,
                                               struct aorta_event *const done[AORTA_INPUT_SLOTS],
                                               struct aorta_input **input);
void aorta_input_destroy(struct aorta_input *input); /* waits for copies in flight; NULL is fine */
AORTA_MUST_USE aorta_status aorta_input_synchronize(struct aorta_input *input);

const struct aorta_batch_layout *aorta_input_layout(const struct aorta_input *input);
void *aorta_input_memory(const struct aorta_input *input, int64_t step); /* on the device */

/* Steps whose input has been queued, from the first on. */
int64_t aorta_input_queued(const struct aorta_input *input);
/* The data loader has made the next one, or makes it now; nothing to wait for where the device makes it. */
AORTA_MUST_USE aorta_status aorta_input_await(struct aorta_input *input);
/* Queues the next one, with its range; waits for the data loader if need be. */
AORTA_MUST_USE aorta_status aorta_input_queue(struct aorta_input *input);
/* Queues the next one only if there is one and nothing to wait for. */
AORTA_MUST_USE aorta_status aorta_input_prefetch(struct aorta_input *input);
/* Work queued next on `stream` waits for the input of a step that has been queued. */
AORTA_MUST_USE aorta_status aorta_input_wait(struct aorta_input *input, int64_t step, struct aorta_stream *stream);
/* The oldest step that has not released its batch is over: the loader may fill that memory. */
void aorta_input_release(struct aorta_input *input);

#endif
