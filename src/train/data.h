/* The synthetic data set, and the threads that make batches of it ahead of the training step if the device does not.
 *
 * A sample depends on (dataset.seed, its index) alone: dense N(0, 1) [T, F, d], categorical uniform ids [T, S], target
 * and importance uniform in [0, 1). Each epoch is shuffled again and dealt to the ranks in turn; step s of an epoch
 * uses samples [s·G, (s+1)·G) of the shuffled order, G being the global batch, for any number of ranks; the last
 * samples of the epoch that fill no step are dropped. */
#ifndef AORTA_TRAIN_DATA_H
#define AORTA_TRAIN_DATA_H

#include "device/device.h"
#include "model/model.h"
#include "train/context.h"
#include "train/options.h"

/* The layout of one step's input in one piece of memory: `micro_batches` pieces of [B, T, …] each. */
struct aorta_batch_layout {
    int64_t rows;          /* B·T of one micro-batch */
    int64_t micro_batches; /* gradient_accumulation */
    int64_t dense_columns, sparse_columns;
    size_t dense, categorical, target, importance; /* byte offsets, aligned to 256 */
    size_t bytes;
};
struct aorta_batch_layout aorta_batch_layout(const struct aorta_train_options *options);
struct aorta_batch aorta_batch_at(const struct aorta_batch_layout *layout, const void *memory, int64_t micro_batch);

struct aorta_dataset;
AORTA_MUST_USE aorta_status aorta_dataset_create(const struct aorta_train_options *options, int rank, int world_size,
                                                 struct aorta_dataset **dataset);
void aorta_dataset_destroy(struct aorta_dataset *dataset);
int64_t aorta_dataset_steps_per_epoch(const struct aorta_dataset *dataset);
/* Fills host memory of the layout's size with this rank's input of a step; thread-safe. */
void aorta_dataset_fill(const struct aorta_dataset *dataset, int64_t global_step, void *memory);
/* Threads that fill buffers ahead, in order. One consumer. */
struct aorta_loader;
AORTA_MUST_USE aorta_status aorta_loader_create(struct aorta_device *device, const struct aorta_train_options *options,
                                                const struct aorta_dataset *dataset, int64_t steps,
                                                struct aorta_loader **loader);
/* Ends the threads; no copy out of a buffer may still be queued. */
void aorta_loader_destroy(struct aorta_loader *loader);
bool aorta_loader_ready(struct aorta_loader *loader); /* the next batch would come without waiting */
/* The next step's batch; waits for it if needed. It stays valid until it is given back. */
AORTA_MUST_USE aorta_status aorta_loader_next(struct aorta_loader *loader, const void **memory);
/* Gives the oldest batch back for reuse. Called when its copy to the device has run. */
void aorta_loader_release(struct aorta_loader *loader);

/* Batches on the device ahead of the steps that read them: copied from the data loader, or made there
 * (dataloader.device). Steps take turns in AORTA_INPUT_SLOTS pieces of memory. */

enum { AORTA_INPUT_SLOTS = 2 };

struct aorta_input;

/* Makes the input of `steps` steps. `done`: an event by slot, recorded after its step; borrowed until the end. */
AORTA_MUST_USE aorta_status aorta_input_create(struct aorta_train_context *context, const struct aorta_dataset *dataset,
                                               int64_t steps, struct aorta_event *const done[AORTA_INPUT_SLOTS],
                                               struct aorta_input **input);
/* Ends its threads; no copies are in flight. Its memory ends with the context. NULL is fine. */
void aorta_input_end(struct aorta_input *input);
AORTA_MUST_USE aorta_status aorta_input_synchronize(struct aorta_input *input);

const struct aorta_batch_layout *aorta_input_layout(const struct aorta_input *input);
void *aorta_input_memory(const struct aorta_input *input, int64_t step); /* on the device */

/* Steps whose input has been queued, from the first on. */
int64_t aorta_input_queued(const struct aorta_input *input);
/* Waits until the data loader has made the next batch. Returns at once if the device makes the batches. */
AORTA_MUST_USE aorta_status aorta_input_await(struct aorta_input *input);
/* Queues the next one, with its range; waits for the data loader if need be. */
AORTA_MUST_USE aorta_status aorta_input_queue(struct aorta_input *input);
/* Queues the next batch if one is left and available without waiting. */
AORTA_MUST_USE aorta_status aorta_input_prefetch(struct aorta_input *input);
/* Work queued next on `stream` waits for the input of a step that has been queued. */
AORTA_MUST_USE aorta_status aorta_input_wait(struct aorta_input *input, int64_t step, struct aorta_stream *stream);
/* Called when the oldest step that still has a batch is over. The loader may then fill that memory. */
void aorta_input_release(struct aorta_input *input);

#endif
