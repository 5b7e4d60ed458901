#include "train/strategy.h"

static aorta_status create(const struct aorta_train_context *context, struct aorta_strategy **strategy) {
    const struct aorta_train_options *options = context->options;
    bool replicated = options->distributed.mode == AORTA_MODE_DDP || options->fsdp.sharding_strategy == AORTA_NO_SHARD;
    return replicated ? aorta_replicated_create(context, strategy) : aorta_sharded_create(context, strategy);
}

aorta_status aorta_strategy_create(const struct aorta_train_context *context, struct aorta_strategy **out) {
    *out = NULL;
    struct aorta_strategy *strategy;
    AORTA_TRY(create(context, &strategy));
    const struct aorta_place *loans = strategy->table->loans ? strategy->table->loans(strategy) : NULL;
    aorta_status status = aorta_model_take_memory(context->model, loans);
    if (status)
        strategy->table->destroy(strategy);
    else
        *out = strategy;
    return status;
}
