/* The checks of several options at once. */
#include "train/context.h"
#include "train/options.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- without the number of ranks ---- */

/* The error of `key`, followed by the place of `other`: the user may want to change either. */
AORTA_PRINTF(4, 5)
static aorta_status conflict(const struct aorta_train_options *options, const char *key, const char *other,
                             const char *format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    struct aorta_text place = {0};
    aorta_config_place(&options->config, other, &place);
    aorta_status status = aorta_text_check(&place);
    if (!status) status = aorta_config_error(&options->config, key, "%s (%s: %s)", message, other, place.data);
    aorta_text_free(&place);
    return status;
}

static int64_t nearest_multiple(int64_t value, int64_t of) {
    int64_t down = value / of * of, up = down + of;
    return down > 0 && value - down <= up - value ? down : up;
}

static aorta_status check_heads(const struct aorta_train_options *options) {
    const struct aorta_model_shape *model = &options->model;
    if (model->model_dim % model->num_heads == 0) return NULL;
    return conflict(options, "model.num_heads", "model.model_dim",
                    "%lld heads do not divide model.model_dim %lld; make model_dim %lld or choose a divisor",
                    (long long)model->num_heads, (long long)model->model_dim,
                    (long long)nearest_multiple(model->model_dim, model->num_heads));
}

static aorta_status check_vocabulary(const struct aorta_train_options *options) {
    if (options->dataset.vocab_size <= options->model.vocab_size) return NULL;
    return conflict(options, "dataset.vocab_size", "model.vocab_size",
                    "ids up to %lld do not fit the %lld rows of the embedding; make it at most %lld",
                    (long long)options->dataset.vocab_size - 1, (long long)options->model.vocab_size,
                    (long long)options->model.vocab_size);
}

static aorta_status check_equal(const struct aorta_train_options *options, const char *key, int64_t value,
                                const char *model_key, int64_t model_value) {
    if (value == model_value) return NULL;
    return conflict(options, key, model_key, "%lld differs from %s %lld; make them equal", (long long)value, model_key,
                    (long long)model_value);
}

/* Rejects sizes whose product fits no machine and would overflow later. The error names the factors. */
static aorta_status check_size(const struct aorta_train_options *options, const char *key, const char *what,
                               double elements) {
    static const double most = 1099511627776.0; /* 2^40 elements: 4 TiB in fp32 */
    if (elements <= most) return NULL;
    return aorta_config_error(&options->config, key, "%s would have %.3g elements (at most %.3g); make it smaller",
                              what, elements, most);
}

static aorta_status check_sizes(const struct aorta_train_options *options) {
    const struct aorta_model_shape *model = &options->model;
    double positions = (double)options->training.batch_size * (double)options->dataset.sequence_length;
    double widest = fmax(3.0 * (double)model->model_dim, (double)model->mlp_hidden_dim);
    AORTA_TRY(check_size(options, "model.vocab_size", "the embedding (vocab_size x embedding_dim)",
                         (double)model->vocab_size * (double)model->embedding_dim));
    AORTA_TRY(check_size(options, "dataset.num_dense_features",
                         "a batch (batch_size x sequence_length x num_dense_features x dense_dim)",
                         positions * (double)model->num_dense_features * (double)model->dense_dim));
    AORTA_TRY(check_size(options, "dataset.sparse_features", "a batch (batch_size x sequence_length x sparse_features)",
                         positions * (double)options->dataset.sparse_features));
    AORTA_TRY(check_size(options, "training.batch_size",
                         "the attention weights (batch_size x num_heads x sequence_length squared)",
                         positions * (double)model->num_heads * (double)options->dataset.sequence_length));
    return check_size(options, "training.batch_size", "an activation (batch_size x sequence_length x width)",
                      positions * widest);
}

static aorta_status check_profiling(const struct aorta_train_options *options) {
    const struct aorta_profiling_options *profiling = &options->profiling;
    size_t length = strlen(profiling->trace_filename);
    if (strchr(profiling->trace_filename, '/'))
        return aorta_config_error(&options->config, "profiling.trace_filename",
                                  "a name without a folder is needed: the file is put into training.output_dir, in "
                                  "chrome_trace/rankN; remove the \"/\"");
    if (strcmp(profiling->trace_filename, ".") == 0 || strcmp(profiling->trace_filename, "..") == 0)
        return aorta_config_error(&options->config, "profiling.trace_filename",
                                  "that is a folder; choose a name that ends in .json");
    if (length > 3 && strcmp(profiling->trace_filename + length - 3, ".gz") == 0)
        return aorta_config_error(&options->config, "profiling.trace_filename",
                                  "traces are written without compression; choose a name that ends in .json, and "
                                  "compress the file later if need be");
    if (!profiling->enabled) return NULL;
    if (profiling->record_every > 1)
        return conflict(options, "profiling.enabled", "profiling.record_every",
                        "traces are made of recorded steps, which profiling.wait, warmup and active choose; set "
                        "profiling.record_every to 1");
    return NULL;
}

static aorta_status check_fullgraph(const struct aorta_train_options *options) {
    const struct aorta_compile_options *compile = &options->compile;
    bool demanded = compile->fullgraph && aorta_compile_captures(compile);
    if (!demanded || !options->training.dump_dir) return NULL;
    return conflict(options, "compile.fullgraph", "training.dump_dir",
                    "dumped steps cannot be captured; set compile.fullgraph to false");
}

static aorta_status check_texts(const struct aorta_train_options *options) {
    const struct {
        const char *key, *value;
    } paths[] = {
        {"training.output_dir", options->training.output_dir},
        {"training.dump_dir", options->training.dump_dir},
        {"training.init_from", options->training.init_from},
        {"profiling.trace_filename", options->profiling.trace_filename},
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        if (!paths[i].value || *paths[i].value) continue;
        return aorta_config_error(&options->config, paths[i].key, "the empty text names no file; give a name");
    }
    return NULL;
}

/* The optimizer computes in single precision. */
static aorta_status check_optimizer(const struct aorta_train_options *options) {
    const struct aorta_optimizer_options *optimizer = &options->optimizer;
    const struct {
        const char *key;
        double value;
    } finite[] = {{"optimizer.lr", optimizer->lr},
                  {"optimizer.weight_decay", optimizer->weight_decay},
                  {"training.grad_clip_norm", options->training.grad_clip_norm}};
    for (size_t i = 0; i < sizeof finite / sizeof *finite; i++)
        if (isinf((float)finite[i].value))
            return aorta_config_error(&options->config, finite[i].key,
                                      "%g is infinite in single precision; make it smaller", finite[i].value);
    for (int i = 0; i < 2; i++)
        if ((float)optimizer->betas[i] >= 1)
            return aorta_config_error(&options->config, "optimizer.betas",
                                      "%.10g is 1 in single precision; make it at most 0.9999999", optimizer->betas[i]);
    if ((float)optimizer->eps > 0) return NULL;
    return aorta_config_error(&options->config, "optimizer.eps", "%g is 0 in single precision; make it at least 1e-45",
                              optimizer->eps);
}

aorta_status aorta_train_options_check_cpu(const struct aorta_train_options *options, int world_size) {
    if (options->fsdp.symmetric_memory && world_size > 1)
        return aorta_config_error(
            &options->config, "fsdp.symmetric_memory",
            "true needs GPUs, whose memory NCCL can share, and this run is on the CPU device; set "
            "it to false");
    if (!options->device.allow_tf32) return NULL;
    return aorta_config_error(&options->config, "device.allow_tf32",
                              "true needs a GPU, and this run is on the CPU device; set it to false");
}

aorta_status aorta_train_options_check_gpu(const struct aorta_train_options *options, int64_t most_head_dim,
                                           int64_t most_model_dim) {
    const struct aorta_model_shape *model = &options->model;
    const int64_t head_dim = model->model_dim / model->num_heads;
    if (model->model_dim > most_model_dim)
        return aorta_config_error(&options->config, "model.model_dim",
                                  "%lld is more than kernels on a GPU take, %lld; make it smaller",
                                  (long long)model->model_dim, (long long)most_model_dim);
    if (head_dim <= most_head_dim) return NULL;
    return aorta_config_error(
        &options->config, "model.num_heads",
        "heads of %lld elements (model.model_dim %lld / %lld) are more than kernels on a GPU take, "
        "%lld; choose at least %lld heads",
        (long long)head_dim, (long long)model->model_dim, (long long)model->num_heads, (long long)most_head_dim,
        (long long)((model->model_dim + most_head_dim - 1) / most_head_dim));
}

aorta_status aorta_train_options_check_shared(const struct aorta_train_options *options) {
    struct aorta_injected injected;
    AORTA_TRY(aorta_injections_read(options, -1, &injected));
    if (injected.loader_ns && options->dataloader.device == AORTA_BATCHES_DEVICE)
        return conflict(options, "dataloader.device", "training.inject",
                        "slow_loader slows the host's threads, which make no batches then; choose host or auto");
    AORTA_TRY(check_texts(options));
    return check_profiling(options);
}

aorta_status aorta_train_options_check_alone(const struct aorta_train_options *options) {
    AORTA_TRY(aorta_train_options_check_shared(options));
    if (options->device.kind == AORTA_TRAIN_CPU) AORTA_TRY(aorta_train_options_check_cpu(options, 1));
    AORTA_TRY(check_optimizer(options));
    AORTA_TRY(check_fullgraph(options));
    AORTA_TRY(check_heads(options));
    AORTA_TRY(check_vocabulary(options));
    AORTA_TRY(check_equal(options, "dataset.num_dense_features", options->dataset.num_dense_features,
                          "model.num_dense_features", options->model.num_dense_features));
    AORTA_TRY(check_equal(options, "dataset.dense_dim", options->dataset.dense_dim, "model.dense_dim",
                          options->model.dense_dim));
    return check_sizes(options);
}

/* ---- with it ---- */

int aorta_train_shard_degree(const struct aorta_train_options *options, int world_size) {
    if (options->distributed.mode == AORTA_MODE_DDP || options->fsdp.sharding_strategy == AORTA_NO_SHARD) return 1;
    if (options->fsdp.sharding_strategy == AORTA_HYBRID_SHARD) return (int)options->fsdp.hybrid_shard_gpus_per_node;
    return world_size;
}

static aorta_status check_hybrid(const struct aorta_train_options *options, int world_size) {
    bool hybrid = options->distributed.mode == AORTA_MODE_FSDP && options->fsdp.sharding_strategy == AORTA_HYBRID_SHARD;
    int64_t group = options->fsdp.hybrid_shard_gpus_per_node;
    if (!hybrid) return NULL;
    if (group == 0) {
        return conflict(options, "fsdp.hybrid_shard_gpus_per_node", "fsdp.sharding_strategy",
                        "hybrid_shard needs the number of ranks in one group; set it to a divisor of the number of "
                        "ranks");
    }
    if (group <= world_size && world_size % group == 0) return NULL;
    return aorta_config_error(&options->config, "fsdp.hybrid_shard_gpus_per_node",
                              "groups of %lld do not divide %d %s; choose a divisor of %d or start a multiple of "
                              "%lld ranks",
                              (long long)group, world_size, world_size == 1 ? "rank" : "ranks", world_size,
                              (long long)group);
}

static aorta_status check_samples(const struct aorta_train_options *options, int world_size) {
    int64_t each = options->training.batch_size * options->training.gradient_accumulation;
    int64_t samples = options->dataset.num_samples;
    if (samples / world_size >= each) return NULL;
    return aorta_config_error(
        &options->config, "dataset.num_samples",
        "%lld samples give each of %d %s %lld, but one step takes %lld of each rank (training.batch_size %lld x "
        "training.gradient_accumulation %lld); make it at least %lld",
        (long long)samples, world_size, world_size == 1 ? "rank" : "ranks", (long long)samples / world_size,
        (long long)each, (long long)options->training.batch_size, (long long)options->training.gradient_accumulation,
        (long long)each * world_size);
}

/* Parameters are split over their first dimension in pieces of ceil(rows / shards) (torch.chunk): the last rank owns
 * nothing of a parameter when the earlier pieces reach the end. So a rank owns something exactly if it owns a part of
 * the parameter with most rows. */
static aorta_status check_shards(const struct aorta_train_options *options, int world_size) {
    const struct aorta_model_shape *model = &options->model;
    int64_t shards = aorta_train_shard_degree(options, world_size);
    if (shards < 2) return NULL;
    int64_t attention_rows = 3 * model->model_dim; /* in_proj_weight */
    bool by_mlp = model->mlp_hidden_dim > attention_rows;
    int64_t most = by_mlp ? model->mlp_hidden_dim : attention_rows;
    int64_t piece = (most + shards - 1) / shards;
    if (!options->fsdp.use_orig_params || (shards - 1) * piece < most) return NULL; /* flat ones split by element */
    return aorta_config_error(
        &options->config, by_mlp ? "model.mlp_hidden_dim" : "model.model_dim",
        "more shards than rows: an encoder layer has at most %lld rows (%s), so that %lld shards leave rank %lld with "
        "none; widen the model, shard over fewer ranks (fsdp.sharding_strategy hybrid_shard) or set "
        "fsdp.use_orig_params to false",
        (long long)most, by_mlp ? "linear1.weight" : "self_attn.in_proj_weight", (long long)shards,
        (long long)shards - 1);
}

/* NCCL 2.28.3 gives wrong values for several pieces of such memory in one collective. */
static aorta_status check_symmetric(const struct aorta_train_options *options, int world_size) {
    if (!options->fsdp.symmetric_memory || world_size == 1) return NULL;
    if (aorta_train_shard_degree(options, world_size) == 1)
        return aorta_config_error(&options->config, "fsdp.symmetric_memory",
                                  "nothing is sharded, so nothing is gathered: it goes with distributed.mode fsdp and "
                                  "fsdp.sharding_strategy full_shard, shard_grad_op or, in groups of more than one "
                                  "rank, hybrid_shard; else set it to false");
    if (!options->fsdp.use_orig_params) return NULL;
    return conflict(options, "fsdp.symmetric_memory", "fsdp.use_orig_params",
                    "NCCL does not gather several pieces of symmetric memory at once; set use_orig_params to "
                    "false, which makes each unit one piece");
}

aorta_status aorta_train_options_check(const struct aorta_train_options *options, int world_size) {
    AORTA_TRY(check_hybrid(options, world_size));
    if (options->device.kind == AORTA_TRAIN_CPU) AORTA_TRY(aorta_train_options_check_cpu(options, world_size));
    AORTA_TRY(check_symmetric(options, world_size));
    AORTA_TRY(aorta_injections_check(options, world_size));
    AORTA_TRY(check_samples(options, world_size));
    return check_shards(options, world_size);
}

/* ---- keys without effect ---- */

/* Whether work runs on the stream of the role reducescatter. */
static bool uses_reducescatter(const struct aorta_train_options *o, bool gathers, bool scatters) {
    const bool runs[AORTA_FLOW_COUNT] = {[AORTA_FLOW_ALL_GATHER] = gathers,
                                         [AORTA_FLOW_REDUCE_SCATTER] = scatters,
                                         [AORTA_FLOW_ALL_REDUCE] = true,
                                         [AORTA_FLOW_PREFETCH] = true,
                                         [AORTA_FLOW_OPTIMIZER] = true};
    bool used = o->streams.count < AORTA_ROLE_COUNT;
    for (int i = 0; i < AORTA_FLOW_COUNT; i++) used |= runs[i] && o->streams.assignment[i] == AORTA_ROLE_REDUCESCATTER;
    return used;
}

enum { REASONS = 34 };

static void find_reasons(const struct aorta_train_options *o, int ranks, bool gpu,
                         struct aorta_option_reason reasons[REASONS]) {
    const bool ddp = o->distributed.mode == AORTA_MODE_DDP, compiled = o->compile.enabled;
    const enum aorta_sharding sharding = ddp ? AORTA_NO_SHARD : o->fsdp.sharding_strategy;
    const bool replicated = sharding == AORTA_NO_SHARD, hybrid = sharding == AORTA_HYBRID_SHARD;
    const enum aorta_precision precision = o->training.mixed_precision;
    const bool halves = precision == AORTA_PRECISION_BF16 || precision == AORTA_PRECISION_FP16;
    const bool scatters = !replicated || (ddp && o->distributed.overlap_reduce_scatter);
    const struct aorta_option_reason now[REASONS] = {
        {!o->training.dump_dir, "training.dump_dir is not set", {"training.dump_steps"}},
        {!o->training.inject_allreduce_copies,
         "training.inject_allreduce_copies is false",
         {"training.allreduce_stress_level"}},
        {!o->training.additional_compute_streams,
         "training.additional_compute_streams is 0",
         {"training.lightweight_ops_per_stream", "training.lightweight_op_size", "training.lightweight_op_waves",
          "training.use_useful_lightweight_ops"}},
        {o->training.use_useful_lightweight_ops,
         "training.use_useful_lightweight_ops=true works on the batch",
         {"training.lightweight_op_size"}},
        {o->optimizer.name != AORTA_OPTIMIZER_SHAMPOO,
         "optimizer.name is not shampoo",
         {"optimizer.precondition_frequency"}},
        {ddp,
         "distributed.mode=ddp shards nothing",
         {"fsdp.sharding_strategy", "fsdp.backward_prefetch", "fsdp.use_orig_params", "fsdp.limit_all_gathers",
          "fsdp.forward_prefetch", "fsdp.symmetric_memory", "fsdp.hybrid_shard_gpus_per_node"}},
        {!ddp && replicated,
         "fsdp.sharding_strategy=no_shard shards nothing",
         {"fsdp.backward_prefetch", "fsdp.use_orig_params", "fsdp.limit_all_gathers", "fsdp.forward_prefetch",
          "fsdp.symmetric_memory"}},
        {!hybrid, "fsdp.sharding_strategy is not hybrid_shard", {"fsdp.hybrid_shard_gpus_per_node"}},
        {sharding == AORTA_SHARD_GRAD_OP,
         "shard_grad_op gathers nothing in the backward pass",
         {"fsdp.backward_prefetch"}},
        {!replicated && !o->distributed.enable_overlap,
         "distributed.enable_overlap is false",
         {"fsdp.backward_prefetch", "fsdp.forward_prefetch", "fsdp.limit_all_gathers"}},
        {!replicated && !aorta_train_gathers_ahead(o), "nothing is gathered ahead", {"fsdp.limit_all_gathers"}},
        {ranks == 1, "there is one rank", {"fsdp.sync_module_states"}},
        {!replicated && aorta_train_shard_degree(o, ranks) == 1,
         "a group of one rank shards nothing",
         {"fsdp.use_orig_params", "fsdp.symmetric_memory"}},
        {o->fsdp.param_init_device == AORTA_INIT_META,
         "fsdp.param_init_device=meta: each rank makes its own shards",
         {"fsdp.sync_module_states"}},
        {!ddp,
         "distributed.mode is not ddp",
         {"distributed.bucket_cap_mb", "distributed.gradient_as_bucket_view", "distributed.static_graph",
          "distributed.find_unused_parameters", "distributed.overlap_reduce_scatter",
          "distributed.overlap_clone_for_reduce_scatter"}},
        {!o->distributed.find_unused_parameters,
         "distributed.find_unused_parameters is false",
         {"distributed.static_graph"}},
        {!o->distributed.overlap_reduce_scatter,
         "distributed.overlap_reduce_scatter is false",
         {"distributed.overlap_clone_for_reduce_scatter"}},
        {!compiled,
         "compile.enabled is false",
         {"compile.backend", "compile.mode", "compile.fullgraph", "compile.dynamic", "compile.options"}},
        {compiled && o->compile.backend == AORTA_COMPILE_FUSED,
         "compile.backend=fused captures no steps",
         {"compile.enabled", "compile.mode", "compile.fullgraph"}},
        {o->training.dump_dir && !o->training.dump_steps.items,
         "every step is dumped (training.dump_dir), and dumped steps are not captured",
         {"compile.enabled"}},
        {o->compile.mode && strcmp(o->compile.mode, "default") != 0,
         "every mode is the same capture",
         {"compile.mode"}},
        {true, "the shapes of a captured step are fixed", {"compile.dynamic"}},
        {true, "they are options of PyTorch's backend", {"compile.options"}},
        {aorta_train_device_batches(o, gpu),
         "the device makes its batches; dataloader.device=host uses threads",
         {"dataloader.num_workers", "dataloader.pin_memory", "dataloader.prefetch_factor"}},
        {!o->dataloader.num_workers, "dataloader.num_workers is 0", {"dataloader.prefetch_factor"}},
        {!o->profiling.enabled,
         "profiling.enabled is false",
         {"profiling.wait", "profiling.warmup", "profiling.active", "profiling.repeat", "profiling.record_shapes",
          "profiling.profile_memory", "profiling.with_stack", "profiling.with_flops", "profiling.tensorboard",
          "profiling.chrome_trace", "profiling.trace_filename"}},
        {o->profiling.enabled && !o->profiling.tensorboard && !o->profiling.chrome_trace,
         "tensorboard and chrome_trace are false: no trace is written",
         {"profiling.enabled", "profiling.wait", "profiling.warmup", "profiling.active", "profiling.repeat",
          "profiling.record_shapes", "profiling.profile_memory", "profiling.with_stack", "profiling.with_flops",
          "profiling.trace_filename"}},
        {true, "no Python runs here", {"profiling.with_stack"}},
        {!o->profiling.chrome_trace, "profiling.chrome_trace is false", {"profiling.trace_filename"}},
        {replicated, "nothing is gathered", {"streams.assignment.all_gather"}},
        {!scatters, "there are no reduce-scatters", {"streams.assignment.reduce_scatter"}},
        {!replicated && (!hybrid || o->fsdp.hybrid_shard_gpus_per_node == ranks),
         "gradients are not all-reduced",
         {"streams.assignment.all_reduce"}},
        {!uses_reducescatter(o, !replicated, scatters),
         "nothing runs on that stream",
         {"streams.priorities.reducescatter"}},
        {halves && !o->training.additional_compute_streams && o->optimizer.name != AORTA_OPTIMIZER_SHAMPOO,
         "no product is in fp32",
         {"device.allow_tf32"}},
    };
    memcpy(reasons, now, sizeof now);
}

void aorta_train_options_without_effect(const struct aorta_train_options *options, int ranks, bool gpu,
                                        struct aorta_text *lines) {
    struct aorta_option_reason reasons[REASONS];
    find_reasons(options, ranks, gpu, reasons);
    aorta_config_without_effect(&options->config, reasons, REASONS, lines);
    aorta_config_ignored(&options->config, lines);
}

void aorta_train_options_reasons(struct aorta_text *text) {
    struct aorta_option_reason reasons[REASONS];
    find_reasons(&(struct aorta_train_options){0}, 1, false, reasons); /* whether they hold is not written */
    aorta_option_reasons_markdown(reasons, REASONS, text);
}
