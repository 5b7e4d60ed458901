/* Shampoo as the optimizer: each rank's part of a parameter is preconditioned in blocks. When every rank holds all
 * parameters (ddp, no_shard), each rank computes the directions of some matrices, and an all-gather distributes them.
 */
#ifndef AORTA_TRAIN_SHAMPOO_H
#define AORTA_TRAIN_SHAMPOO_H

#include "train/strategy.h"

struct aorta_shampoo_state;

/* NULL in *shampoo for other optimizers. Waits for its memory to be zeroed. */
AORTA_MUST_USE aorta_status aorta_shampoo_create(const struct aorta_train_context *context,
                                                 struct aorta_strategy *strategy, struct aorta_shampoo_state **shampoo);
void aorta_shampoo_destroy(struct aorta_shampoo_state *shampoo); /* NULL is fine */
/* On the optimizer's stream, after the state's update: directions of all matrices. */
AORTA_MUST_USE aorta_status aorta_shampoo_compute(struct aorta_shampoo_state *shampoo);
AORTA_MUST_USE aorta_status aorta_shampoo_gather(struct aorta_shampoo_state *shampoo);
/* Parameters [first, first + count) of the optimizer's memory take the step; `copy` belongs to the first of them. */
AORTA_MUST_USE aorta_status aorta_shampoo_apply(struct aorta_shampoo_state *shampoo, struct aorta_stream *stream,
                                                int64_t first, int64_t count, void *copy);

#endif
