#include "train/strategy.h"

aorta_status aorta_strategy_create(const struct aorta_train_context *context, struct aorta_strategy **strategy) {
    const struct aorta_train_options *options = context->options;
    bool replicated = options->distributed.mode == AORTA_MODE_DDP || options->fsdp.sharding_strategy == AORTA_NO_SHARD;
    return replicated ? aorta_replicated_create(context, strategy) : aorta_sharded_create(context, strategy);
}
