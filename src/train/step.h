/* One training step: its work, streams and order. */
#ifndef AORTA_TRAIN_STEP_H
#define AORTA_TRAIN_STEP_H

#include "train/data.h"
#include "train/strategy.h"

/* The report of a finished step; pinned memory, one per slot. */
struct aorta_step_result {
    struct aorta_step_state state;
    float stop; /* > 0: a rank was asked to stop when it queued this step */
};

/* Called once in the middle of the step, when the last forward pass is queued: the place to queue the next input. */
struct aorta_step_hook {
    aorta_status (*call)(void *user);
    void *user;
};

struct aorta_step;

AORTA_MUST_USE aorta_status aorta_step_create(const struct aorta_train_context *context,
                                              struct aorta_strategy *strategy, struct aorta_step **step);
void aorta_step_destroy(struct aorta_step *step);

/* Forward and backward over all micro-batches of `input` (device memory), gradients reduced and their squares summed;
 * the hook may be NULL. Reads the stop flag at *stop (pinned). */
AORTA_MUST_USE aorta_status aorta_step_gradients(struct aorta_step *step, const struct aorta_batch_layout *layout,
                                                 const void *input, const float *stop,
                                                 const struct aorta_step_hook *hook);
/* Norm and stop flag summed over all ranks, clipping, AdamW; then compute waits for every stream. `result` (pinned)
 * receives the state before step_end. */
AORTA_MUST_USE aorta_status aorta_step_optimize(struct aorta_step *step, struct aorta_step_result *result);

#endif
