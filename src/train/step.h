/* One training step: its work, streams and order. */
#ifndef AORTA_TRAIN_STEP_H
#define AORTA_TRAIN_STEP_H

#include "train/context.h"
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

/* It ends with the context, as do its parts below. */
AORTA_MUST_USE aorta_status aorta_step_create(struct aorta_train_context *context, struct aorta_strategy *strategy,
                                              struct aorta_step **step);

/* Forward and backward over all micro-batches of `input` (device memory), gradients reduced and their squares summed;
 * the hook may be NULL. Reads the stop flag at *stop (pinned). */
AORTA_MUST_USE aorta_status aorta_step_gradients(struct aorta_step *step, const struct aorta_batch_layout *layout,
                                                 const void *input, const float *stop,
                                                 const struct aorta_step_hook *hook);
/* Norm and stop flag summed over all ranks, clipping, AdamW; then compute waits for every stream. `result` (pinned)
 * receives the state before step_end. */
AORTA_MUST_USE aorta_status aorta_step_optimize(struct aorta_step *step, struct aorta_step_result *result);

/* Shampoo as the optimizer: each rank's part of a parameter is preconditioned in blocks. When every rank holds all
 * parameters (ddp, no_shard), each rank computes the directions of some matrices, and an all-gather distributes them.
 */

struct aorta_shampoo_state;

/* NULL in *shampoo for other optimizers. Waits for its memory to be zeroed. */
AORTA_MUST_USE aorta_status aorta_shampoo_create(struct aorta_train_context *context, struct aorta_strategy *strategy,
                                                 struct aorta_shampoo_state **shampoo);
/* On the optimizer's stream, after the state's update: directions of all matrices. */
AORTA_MUST_USE aorta_status aorta_shampoo_compute(struct aorta_shampoo_state *shampoo);
AORTA_MUST_USE aorta_status aorta_shampoo_gather(struct aorta_shampoo_state *shampoo);
/* Updates parameters [first, first + count) of the optimizer's memory; `copy` belongs to the first of them. */
AORTA_MUST_USE aorta_status aorta_shampoo_apply(struct aorta_shampoo_state *shampoo, struct aorta_stream *stream,
                                                int64_t first, int64_t count, void *copy);

/* Additional work, as in the original toolkit's stress tests: products on their own streams
 * (training.additional_compute_streams), and all-reduces with copies after the optimizer
 * (training.inject_allreduce_copies). None of it changes a loss. */

/* Where a wave of products is launched; training.lightweight_op_waves is how many of them run. */
enum aorta_stress_wave { AORTA_WAVE_FORWARD, AORTA_WAVE_BACKWARD, AORTA_WAVE_REDUCE, AORTA_WAVE_COUNT };

struct aorta_stress;

/* NULL in *stress where the configuration asks for none. */
AORTA_MUST_USE aorta_status aorta_stress_create(struct aorta_train_context *context, struct aorta_stress **stress);
size_t aorta_stress_ranges(const struct aorta_train_options *options); /* a step records at most so many of it */

/* In this order within a step; each returns at once where nothing is to be done or `stress` is NULL. */
/* Runs after work queued on compute. Useful products read dense features of the batch. */
AORTA_MUST_USE aorta_status aorta_stress_launch(struct aorta_stress *stress, enum aorta_stress_wave wave,
                                                const struct aorta_batch *batch, int64_t dense_count);
/* On the optimizer's stream. The host waits for it as for a blocking copy, unless the step is being captured. */
AORTA_MUST_USE aorta_status aorta_stress_reduce(struct aorta_stress *stress);
/* Compute waits for the streams. */
AORTA_MUST_USE aorta_status aorta_stress_join(struct aorta_stress *stress);

/* ---- copies of layers' outputs ----
 * workload.async_wait: each layer's output is copied to a second buffer as soon as it is made, during compute, and the
 * backward pass reads the copy after a kernel that waits for it. */

struct aorta_copies;

/* *copies is NULL if the option is off; then the functions below must not be called. */
AORTA_MUST_USE aorta_status aorta_copies_create(struct aorta_train_context *context, struct aorta_copies **copies);
/* Called when the layer's forward pass is queued. Copies its output on the prefetch flow's stream. */
AORTA_MUST_USE aorta_status aorta_copies_begin(struct aorta_copies *copies, int layer);
/* Compute work queued from now on waits for the copy. Called once for each begin. */
AORTA_MUST_USE aorta_status aorta_copies_await(struct aorta_copies *copies, int layer);

#endif
