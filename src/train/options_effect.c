/* When keys of `aorta train` change nothing, and why: for the run's messages and for docs/configuration.md. */
#include "train/options.h"

#include <string.h>

struct facts {
    const struct aorta_train_options *o;
    int ranks;
    bool gpu;
};

static const struct aorta_train_options *of(const void *facts) {
    return ((const struct facts *)facts)->o;
}

/* ---- training, optimizer ---- */

static bool no_dump(const void *f) {
    return !of(f)->training.dump_dir;
}

static bool no_injected_reduces(const void *f) {
    return !of(f)->training.inject_allreduce_copies;
}

static bool no_additional_streams(const void *f) {
    return !of(f)->training.additional_compute_streams;
}

static bool statistics(const void *f) {
    return of(f)->training.use_useful_lightweight_ops;
}

static bool not_shampoo(const void *f) {
    return of(f)->optimizer.name != AORTA_OPTIMIZER_SHAMPOO;
}

/* ---- fsdp, distributed ---- */

static bool ddp(const void *f) {
    return of(f)->distributed.mode == AORTA_MODE_DDP;
}

static bool not_ddp(const void *f) {
    return !ddp(f);
}

static bool strategy(const void *f, enum aorta_sharding strategy) {
    return !ddp(f) && of(f)->fsdp.sharding_strategy == strategy;
}

static bool no_shard(const void *f) {
    return strategy(f, AORTA_NO_SHARD);
}

static bool replicated(const void *f) {
    return ddp(f) || no_shard(f);
}

static bool shard_grad_op(const void *f) {
    return strategy(f, AORTA_SHARD_GRAD_OP);
}

static bool not_hybrid(const void *f) {
    return !strategy(f, AORTA_HYBRID_SHARD);
}

static bool no_overlap(const void *f) {
    return !replicated(f) && !of(f)->distributed.enable_overlap;
}

static bool nothing_ahead(const void *f) {
    return !replicated(f) && !aorta_train_gathers_ahead(of(f));
}

static bool one_rank(const void *f) {
    return ((const struct facts *)f)->ranks == 1;
}

static bool one_shard(const void *f) {
    return !replicated(f) && aorta_train_shard_degree(of(f), ((const struct facts *)f)->ranks) == 1;
}

static bool made_by_shard(const void *f) {
    return of(f)->fsdp.param_init_device == AORTA_INIT_META;
}

static bool no_search(const void *f) {
    return !of(f)->distributed.find_unused_parameters;
}

static bool no_additional_scatter(const void *f) {
    return !of(f)->distributed.overlap_reduce_scatter;
}

/* ---- compile ---- */

static bool not_compiled(const void *f) {
    return !of(f)->compile.enabled;
}

static bool fused(const void *f) {
    return of(f)->compile.enabled && of(f)->compile.backend == AORTA_COMPILE_FUSED;
}

static bool all_dumped(const void *f) {
    return of(f)->training.dump_dir && !of(f)->training.dump_steps.items;
}

static bool other_mode(const void *f) {
    return of(f)->compile.mode && strcmp(of(f)->compile.mode, "default") != 0;
}

static bool always(const void *f) {
    (void)f;
    return true;
}

/* ---- dataloader, profiling, streams, device ---- */

static bool device_batches(const void *f) {
    return aorta_train_device_batches(of(f), ((const struct facts *)f)->gpu);
}

static bool no_workers(const void *f) {
    return !of(f)->dataloader.num_workers;
}

static bool no_traces(const void *f) {
    return !of(f)->profiling.enabled;
}

static bool no_files(const void *f) {
    return of(f)->profiling.enabled && !of(f)->profiling.tensorboard && !of(f)->profiling.chrome_trace;
}

static bool no_chrome(const void *f) {
    return !of(f)->profiling.chrome_trace;
}

static bool no_reduce_scatter(const void *f) {
    return replicated(f) && !(ddp(f) && of(f)->distributed.overlap_reduce_scatter);
}

static bool no_all_reduce(const void *f) {
    const bool one_group = of(f)->fsdp.hybrid_shard_gpus_per_node == ((const struct facts *)f)->ranks;
    return !replicated(f) && (not_hybrid(f) || one_group);
}

static bool nothing_on_reducescatter(const void *f) {
    const struct aorta_stream_assignment *a = &of(f)->streams.assignment;
    const enum aorta_role roles[] = {a->all_reduce, a->prefetch, a->optimizer};
    bool used = of(f)->streams.count < AORTA_ROLE_COUNT;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) used |= roles[i] == AORTA_ROLE_REDUCESCATTER;
    used |= !replicated(f) && a->all_gather == AORTA_ROLE_REDUCESCATTER;
    used |= !no_reduce_scatter(f) && a->reduce_scatter == AORTA_ROLE_REDUCESCATTER;
    return !used;
}

static bool no_fp32_products(const void *f) {
    const enum aorta_precision precision = of(f)->training.mixed_precision;
    const bool halves = precision == AORTA_PRECISION_BF16 || precision == AORTA_PRECISION_FP16;
    return halves && no_additional_streams(f) && not_shampoo(f);
}

/* ---- the table ---- */

static const struct aorta_option_reason reasons[] = {
    {"training.dump_dir is not set", no_dump, {"training.dump_steps"}},
    {"training.inject_allreduce_copies is false", no_injected_reduces, {"training.allreduce_stress_level"}},
    {"training.additional_compute_streams is 0",
     no_additional_streams,
     {"training.lightweight_ops_per_stream", "training.lightweight_op_size", "training.lightweight_op_waves",
      "training.use_useful_lightweight_ops"}},
    {"training.use_useful_lightweight_ops=true works on the batch", statistics, {"training.lightweight_op_size"}},
    {"optimizer.name is not shampoo", not_shampoo, {"optimizer.precondition_frequency"}},
    {"distributed.mode=ddp shards nothing",
     ddp,
     {"fsdp.sharding_strategy", "fsdp.backward_prefetch", "fsdp.use_orig_params", "fsdp.limit_all_gathers",
      "fsdp.forward_prefetch", "fsdp.symmetric_memory", "fsdp.hybrid_shard_gpus_per_node"}},
    {"fsdp.sharding_strategy=no_shard shards nothing",
     no_shard,
     {"fsdp.backward_prefetch", "fsdp.use_orig_params", "fsdp.limit_all_gathers", "fsdp.forward_prefetch",
      "fsdp.symmetric_memory"}},
    {"fsdp.sharding_strategy is not hybrid_shard", not_hybrid, {"fsdp.hybrid_shard_gpus_per_node"}},
    {"shard_grad_op gathers nothing in the backward pass", shard_grad_op, {"fsdp.backward_prefetch"}},
    {"distributed.enable_overlap is false",
     no_overlap,
     {"fsdp.backward_prefetch", "fsdp.forward_prefetch", "fsdp.limit_all_gathers"}},
    {"nothing is gathered ahead", nothing_ahead, {"fsdp.limit_all_gathers"}},
    {"there is one rank", one_rank, {"fsdp.sync_module_states"}},
    {"a group of one rank shards nothing", one_shard, {"fsdp.use_orig_params", "fsdp.symmetric_memory"}},
    {"fsdp.param_init_device=meta: each rank makes its own shards", made_by_shard, {"fsdp.sync_module_states"}},
    {"distributed.mode is not ddp",
     not_ddp,
     {"distributed.bucket_cap_mb", "distributed.gradient_as_bucket_view", "distributed.static_graph",
      "distributed.find_unused_parameters", "distributed.overlap_reduce_scatter",
      "distributed.overlap_clone_for_reduce_scatter"}},
    {"distributed.find_unused_parameters is false", no_search, {"distributed.static_graph"}},
    {"distributed.overlap_reduce_scatter is false",
     no_additional_scatter,
     {"distributed.overlap_clone_for_reduce_scatter"}},
    {"compile.enabled is false",
     not_compiled,
     {"compile.backend", "compile.mode", "compile.fullgraph", "compile.dynamic", "compile.options"}},
    {"compile.backend=fused captures no steps", fused, {"compile.enabled", "compile.mode", "compile.fullgraph"}},
    {"every step is dumped (training.dump_dir), and dumped steps are not captured", all_dumped, {"compile.enabled"}},
    {"every mode is the same capture", other_mode, {"compile.mode"}},
    {"the shapes of a captured step are fixed", always, {"compile.dynamic"}},
    {"they are options of PyTorch's backend", always, {"compile.options"}},
    {"the device makes its batches; dataloader.device=host uses threads",
     device_batches,
     {"dataloader.num_workers", "dataloader.pin_memory", "dataloader.prefetch_factor"}},
    {"dataloader.num_workers is 0", no_workers, {"dataloader.prefetch_factor"}},
    {"profiling.enabled is false",
     no_traces,
     {"profiling.wait", "profiling.warmup", "profiling.active", "profiling.repeat", "profiling.record_shapes",
      "profiling.profile_memory", "profiling.with_stack", "profiling.with_flops", "profiling.tensorboard",
      "profiling.chrome_trace", "profiling.trace_filename"}},
    {"tensorboard and chrome_trace are false: no trace is written",
     no_files,
     {"profiling.enabled", "profiling.wait", "profiling.warmup", "profiling.active", "profiling.repeat",
      "profiling.record_shapes", "profiling.profile_memory", "profiling.with_stack", "profiling.with_flops",
      "profiling.trace_filename"}},
    {"no Python runs here", always, {"profiling.with_stack"}},
    {"profiling.chrome_trace is false", no_chrome, {"profiling.trace_filename"}},
    {"nothing is gathered", replicated, {"streams.assignment.all_gather"}},
    {"there are no reduce-scatters", no_reduce_scatter, {"streams.assignment.reduce_scatter"}},
    {"gradients are not all-reduced", no_all_reduce, {"streams.assignment.all_reduce"}},
    {"nothing runs on that stream", nothing_on_reducescatter, {"streams.priorities.reducescatter"}},
    {"no product is in fp32", no_fp32_products, {"device.allow_tf32"}},
};
enum { REASONS = sizeof reasons / sizeof *reasons };

void aorta_train_options_without_effect(const struct aorta_train_options *options, int ranks, bool gpu,
                                        struct aorta_text *lines) {
    const struct facts facts = {options, ranks, gpu};
    aorta_config_without_effect(&options->config, reasons, REASONS, &facts, lines);
    aorta_config_ignored(&options->config, lines);
}

void aorta_train_options_reasons(struct aorta_text *text) {
    aorta_option_reasons_markdown(reasons, REASONS, text);
}
