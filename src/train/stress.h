/* Additional work, as in the original toolkit's stress tests: products on their own streams
 * (training.additional_compute_streams), and all-reduces with copies after the optimizer
 * (training.inject_allreduce_copies). None of it changes a loss. */
#ifndef AORTA_TRAIN_STRESS_H
#define AORTA_TRAIN_STRESS_H

#include "train/context.h"

/* Where a wave of products is launched; training.lightweight_op_waves has the first so many. */
enum aorta_stress_wave { AORTA_WAVE_FORWARD, AORTA_WAVE_BACKWARD, AORTA_WAVE_REDUCE, AORTA_WAVE_COUNT };

struct aorta_stress;

/* NULL in *stress where the configuration asks for none. */
AORTA_MUST_USE aorta_status aorta_stress_create(const struct aorta_train_context *context,
                                                struct aorta_stress **stress);
void aorta_stress_destroy(struct aorta_stress *stress);                /* its streams are idle; NULL is fine */
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

/* *copies is NULL when the option is off; then nothing is to be called but destroy. */
AORTA_MUST_USE aorta_status aorta_copies_create(const struct aorta_train_context *context,
                                                struct aorta_copies **copies);
void aorta_copies_destroy(struct aorta_copies *copies);
/* The forward pass of the layer is queued: its output is copied on the prefetch flow's stream. */
AORTA_MUST_USE aorta_status aorta_copies_begin(struct aorta_copies *copies, int layer);
/* Compute work queued from now on finds the copy. Once for each begin. */
AORTA_MUST_USE aorta_status aorta_copies_await(struct aorta_copies *copies, int layer);

#endif
