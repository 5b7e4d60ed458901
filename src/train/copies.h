/* workload.async_wait: each layer's output is copied to a second buffer as soon as it is made, during compute, and the
 * backward pass reads the copy after a kernel that waits for it. */
#ifndef AORTA_TRAIN_COPIES_H
#define AORTA_TRAIN_COPIES_H

#include "train/context.h"

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
