/* Full, unsharded tensors that a training run reads and writes: start values and parity dumps. */
#ifndef AORTA_TRAIN_WEIGHTS_H
#define AORTA_TRAIN_WEIGHTS_H

#include "train/data.h"
#include "train/strategy.h"

/* Start values of all parameters: from training.init_from, else drawn from training.seed. Rank 0's are broadcast where
 * fsdp.sync_module_states says so (with param_init_device meta there is nothing to broadcast: every rank draws its own
 * shard alone). AORTA_CONFIG names a tensor that is missing from the file or has another shape. */
AORTA_MUST_USE aorta_status aorta_weights_initialise(const struct aorta_train_context *context,
                                                     struct aorta_strategy *strategy);

/* Whether this step is dumped. */
bool aorta_dump_wanted(const struct aorta_train_options *options, int64_t step);
/* <dump_dir>/params_SSSS.safetensors and grads_SSSS.safetensors, by rank 0; called by all ranks, between steps or
 * between gradients and optimizer. Gradients are those of the mean over ranks, unscaled and unclipped. */
AORTA_MUST_USE aorta_status aorta_dump_parameters(const struct aorta_train_context *context,
                                                  struct aorta_strategy *strategy, int64_t step);
AORTA_MUST_USE aorta_status aorta_dump_gradients(const struct aorta_train_context *context,
                                                 struct aorta_strategy *strategy, int64_t step);
/* <dump_dir>/batch_SSSS_rankRR.safetensors from the input in host memory. */
AORTA_MUST_USE aorta_status aorta_dump_batch(const struct aorta_train_context *context,
                                             const struct aorta_batch_layout *layout, const void *input, int64_t step);

#endif
