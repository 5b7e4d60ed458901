/* Opens and closes the shared parts of a training run; collectives with their ranges. */
#include "train/context.h"

#include "base/clock.h"
#include "device/gpu.h"
#include "train/step.h"
#include "train/train.h"

#include <stdarg.h>
#include <string.h>

static enum aorta_dtype dtype_of(enum aorta_precision precision) {
    static const enum aorta_dtype dtypes[] = {[AORTA_PRECISION_NONE] = AORTA_F32,
                                              [AORTA_PRECISION_TF32] = AORTA_F32,
                                              [AORTA_PRECISION_BF16] = AORTA_BF16,
                                              [AORTA_PRECISION_FP16] = AORTA_F16};
    return dtypes[precision];
}

/* Opens the configured device, by index or by local rank. `auto` opens the first kind that this machine has. */
static aorta_status open_device_asked(struct aorta_train_context *context, struct aorta_device_warning *warning) {
    static const enum aorta_device_kind kinds[] = {[AORTA_TRAIN_CPU] = AORTA_DEVICE_CPU,
                                                   [AORTA_TRAIN_CUDA] = AORTA_DEVICE_CUDA,
                                                   [AORTA_TRAIN_HIP] = AORTA_DEVICE_HIP};
    const struct aorta_device_options *options = &context->options->device;
    int local_rank = context->ranks.local_rank;
    if (options->kind == AORTA_TRAIN_AUTO && options->index < 0)
        return aorta_annotate(aorta_device_open_best(local_rank, &context->device, warning),
                              "device.kind=auto (use device.kind cpu to run without a GPU)");
    enum aorta_device_kind kind = kinds[options->kind];
    int count;
    if (options->kind == AORTA_TRAIN_AUTO) AORTA_TRY(aorta_device_best_kind(&kind, &count));
    if (options->index >= 0)
        return aorta_annotate(aorta_device_open(kind, (int)options->index, &context->device), "device.index");
    return aorta_annotate(aorta_device_open_local(kind, local_rank, &context->device, warning),
                          "device.kind=%s (use device.kind cpu to run without a GPU)", aorta_device_kind_name(kind));
}

/* The first step compiles kernels that are not cached, which takes seconds without any other message. Opening
 * the device has already needed a kernel. If that kernel was compiled, all will be. */
static void log_compiling(const struct aorta_train_context *context) {
    const struct aorta_gpu_compiler info = aorta_gpu_compiler_info(context->device);
    if (context->ranks.rank != 0 || !info.compiled) return;
    aorta_log(context->log, AORTA_LOG_INFO, "the first step compiles kernels for this kind of GPU%s%s",
              info.cache[0] ? "; later runs find them in " : "; ", info.cache[0] ? info.cache : info.note);
}

static aorta_status prepare_gpu(const struct aorta_train_context *context) {
    const struct aorta_train_options *o = context->options;
    const struct aorta_ops_limits limits = aorta_ops_limits(context->device);
    const struct aorta_ops_settings settings = {.allow_tf32 = o->device.allow_tf32 ||
                                                              o->training.mixed_precision == AORTA_PRECISION_TF32};
    if (!context->workload) AORTA_TRY(aorta_train_options_check_gpu(o, limits.head_dim, limits.row));
    log_compiling(context);
    if (!context->workload)
        aorta_ops_expect_transformer(context->device, context->dtype, o->model.model_dim / o->model.num_heads);
    return aorta_ops_configure(context->device, &settings);
}

static aorta_status open_device(struct aorta_train_context *context) {
    struct aorta_device_warning warning = {0};
    struct aorta_train_workload *workload = context->workload;
    AORTA_TRY(open_device_asked(context, &warning));
    if (warning.text[0]) aorta_log(context->log, AORTA_LOG_WARNING, "%s", warning.text);
    if (workload) AORTA_TRY(workload->table->prepare(workload, context->device, context->log, context->ranks.rank));
    return aorta_device_is_gpu(context->device)
               ? prepare_gpu(context)
               : aorta_train_options_check_cpu(context->options, context->ranks.world_size);
}

void aorta_train_explain(const struct aorta_train_context *context, const char *format, ...) {
    char line[512];
    va_list arguments;
    if (context->ranks.rank != 0 || !context->log) return;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    aorta_log(context->log, AORTA_LOG_DEBUG, "%s", line);
}

/* A stream has the highest priority of the roles it serves. */
static enum aorta_priority priority_of(const struct aorta_train_options *options, int number) {
    enum aorta_priority highest = AORTA_PRIORITY_LOW;
    for (int role = 0; role < AORTA_ROLE_COUNT; role++) {
        enum aorta_priority own = options->streams.priorities[role];
        if (aorta_train_stream_of(options, (enum aorta_role)role) == number && own > highest) highest = own;
    }
    return highest;
}

aorta_status aorta_train_open_stream(struct aorta_train_context *context, const char *name,
                                     enum aorta_priority priority, struct aorta_stream **stream) {
    AORTA_TRY(aorta_stream_create(context->device, name, priority, stream));
    context->opened[context->opened_count++] = *stream;
    return NULL;
}

static aorta_status open_streams(struct aorta_train_context *context) {
    static const char *const priority_names[] = {"low", "normal", "high"};
    for (int role = 0; role < AORTA_ROLE_COUNT; role++) {
        int number = aorta_train_stream_of(context->options, (enum aorta_role)role);
        if (!context->own_streams[number])
            AORTA_TRY(aorta_train_open_stream(context, aorta_role_name(role), priority_of(context->options, number),
                                              &context->own_streams[number]));
        AORTA_TRY(aorta_own_event(&context->owned, &context->joined[role]));
        context->streams[role] = context->own_streams[number];
        aorta_train_explain(context, "streams: %s is stream %d, priority %s", aorta_role_name(role), number,
                            priority_names[priority_of(context->options, number)]);
    }
    /* Ranks that share the processors of a host have different ones. */
    AORTA_TRY(aorta_annotate(aorta_stream_limit(aorta_train_compute(context), context->options->workload.occupancy_cap,
                                                context->ranks.local_rank),
                             "workload.occupancy_cap"));
    return aorta_own_event(&context->owned, &context->begun);
}

aorta_status aorta_train_split(struct aorta_train_context *context, const int *ranks, int count,
                               struct aorta_comm **comm) {
    AORTA_TRY(aorta_comm_split(context->world, ranks, count, comm));
    context->groups[context->group_count++] = *comm;
    return NULL;
}

aorta_status aorta_train_duplicate_world(struct aorta_train_context *context, struct aorta_comm **comm) {
    int size = aorta_comm_size(context->world);
    int *everyone = aorta_arena_alloc(&context->arena, (size_t)size * sizeof *everyone);
    if (!everyone) return aorta_arena_check(&context->arena, "a list of the ranks");
    for (int i = 0; i < size; i++) everyone[i] = i;
    return aorta_train_split(context, everyone, size, comm);
}

static aorta_status open_groups(struct aorta_train_context *context) {
    struct aorta_comm_options options = {.device = context->device,
                                         .backend = context->options->distributed.backend,
                                         .backend_key = "distributed.backend",
                                         .ranks = context->ranks,
                                         .timeout_s = context->options->distributed.timeout_s};
    AORTA_TRY(aorta_comm_open(&options, &context->world));
    const char *note = aorta_comm_note(context->world);
    if (note && context->ranks.rank == 0) aorta_log(context->log, AORTA_LOG_INFO, "%s", note);
    return aorta_train_duplicate_world(context, &context->control);
}

static aorta_status build_model(struct aorta_train_context *context) {
    const struct aorta_train_options *o = context->options;
    struct aorta_model_shape shape = o->model;
    shape.batch = o->training.batch_size;
    shape.positions = o->dataset.sequence_length;
    shape.sparse_features = o->dataset.sparse_features;
    shape.dtype = context->dtype;
    shape.output_copies = o->workload.async_wait;
    return aorta_model_create(context->device, &shape, &context->model);
}

/* A generous limit. A layer records some 25 ranges per micro-batch. Everything else in a step records a few dozen and
 * one per bucket. A layer has 12 matrix products, the root unit 11. */
static size_t ranges_per_step(const struct aorta_train_context *context) {
    if (context->workload) return context->workload->table->ranges_per_step(context->workload);
    size_t micro_batches = (size_t)context->options->training.gradient_accumulation;
    size_t layers = (size_t)context->options->model.num_layers;
    size_t more_pieces = (size_t)context->options->workload.gemm_chunks - 1;
    return 256 + micro_batches * (64 + layers * 48 + more_pieces * (layers + 1) * 12) +
           (size_t)aorta_model_parameter_count(context->model) * 4 + aorta_stress_ranges(context->options);
}

static aorta_status open_state(struct aorta_train_context *context) {
    AORTA_TRY(aorta_own_memory(&context->owned, sizeof *context->state, "step state", &context->state));
    struct aorta_step_state start = {
        .loss_scale = context->options->training.mixed_precision == AORTA_PRECISION_FP16 ? 65536.0f : 1.0f,
        .finite = 1,
    };
    struct aorta_stream *compute = aorta_train_compute(context);
    AORTA_TRY(aorta_copy(compute, context->state, &start, sizeof start));
    return aorta_stream_synchronize(compute);
}

static aorta_status open_all(struct aorta_train_context *context) {
    AORTA_TRY(open_device(context));
    context->owned.device = context->device;
    AORTA_TRY(open_streams(context));
    AORTA_TRY(aorta_ops_prepare(aorta_train_compute(context))); /* the stream of all matrix products */
    AORTA_TRY(open_groups(context));
    if (!context->workload) AORTA_TRY(build_model(context));
    AORTA_TRY(aorta_recorder_create(context->device, 2, ranges_per_step(context), &context->recorder));
    AORTA_TRY(aorta_injections_open(context));
    return open_state(context);
}

aorta_status aorta_train_context_open(struct aorta_train_context *context, const struct aorta_train_options *options,
                                      const struct aorta_ranks *ranks, const struct aorta_log *log,
                                      struct aorta_train_workload *workload) {
    memset(context, 0, sizeof *context);
    context->options = options, context->log = log, context->ranks = *ranks, context->workload = workload;
    context->dtype = dtype_of(options->training.mixed_precision);
    return open_all(context);
}

void aorta_train_settle(const struct aorta_train_context *context) {
    for (int i = 0; i < context->opened_count; i++) aorta_status_free(aorta_stream_synchronize(context->opened[i]));
}

void aorta_train_context_close(struct aorta_train_context *context) {
    aorta_train_settle(context);
    aorta_owned_free(&context->owned);
    while (context->opened_count) aorta_stream_destroy(context->opened[--context->opened_count]);
    aorta_recorder_destroy(context->recorder);
    aorta_model_destroy(context->model);
    while (context->group_count) aorta_comm_close(context->groups[--context->group_count]);
    aorta_comm_close(context->world);
    aorta_device_close(context->device);
    aorta_arena_free(&context->arena);
    memset(context, 0, sizeof *context);
}

struct aorta_stream *aorta_train_compute(const struct aorta_train_context *context) {
    return context->streams[AORTA_ROLE_COMPUTE];
}

aorta_status aorta_train_synchronize(const struct aorta_train_context *context, struct aorta_stream *stream) {
    const int64_t start_ns = aorta_clock_ns();
    AORTA_TRY(aorta_stream_synchronize(stream));
    return aorta_recorder_host(context->recorder, AORTA_HOST_SYNC, start_ns, aorta_clock_ns());
}

enum aorta_role aorta_train_role(const struct aorta_train_context *context, enum aorta_flow flow) {
    return context->options->streams.assignment[flow];
}

struct aorta_stream *aorta_train_stream(const struct aorta_train_context *context, enum aorta_flow flow) {
    return context->streams[aorta_train_role(context, flow)];
}

aorta_status aorta_train_follow(struct aorta_stream *stream, struct aorta_stream *other, struct aorta_event *event) {
    if (stream == other) return NULL;
    AORTA_TRY(aorta_event_record(event, other));
    return aorta_stream_wait(stream, event);
}

aorta_status aorta_train_begin_step(const struct aorta_train_context *context, struct aorta_schedule schedule) {
    struct aorta_stream *compute = aorta_train_compute(context);
    AORTA_TRY(aorta_step_begin(compute, context->state, schedule));
    AORTA_TRY(aorta_event_record(context->begun, compute));
    for (int i = 0; i < AORTA_ROLE_COUNT; i++)
        if (context->own_streams[i] && context->own_streams[i] != compute)
            AORTA_TRY(aorta_stream_wait(context->own_streams[i], context->begun));
    return NULL;
}

aorta_status aorta_train_join_streams(const struct aorta_train_context *context) {
    for (int i = 0; i < AORTA_ROLE_COUNT; i++)
        if (context->own_streams[i])
            AORTA_TRY(aorta_train_follow(aorta_train_compute(context), context->own_streams[i], context->joined[i]));
    return NULL;
}

aorta_status aorta_train_collect(const struct aorta_train_context *context, const struct aorta_train_collective *c) {
    struct aorta_stream *stream = aorta_train_stream(context, c->flow);
    struct aorta_range_info info = {.tag = c->tag,
                                    .function = aorta_collective_name(c->call.kind),
                                    .role = aorta_train_role(context, c->flow),
                                    .kind = AORTA_RANGE_COLLECTIVE,
                                    .collective = c->call.kind,
                                    .group_size = aorta_comm_size(c->comm),
                                    .group = c->group,
                                    .group_stride = c->group_stride,
                                    .dtype = c->call.dtype,
                                    .layer = c->layer,
                                    .bytes = aorta_comm_bytes(&c->call, aorta_comm_size(c->comm)),
                                    .simulated = aorta_comm_simulated(c->comm)};
    AORTA_TRY(aorta_range_begin(context->recorder, stream, &info));
    AORTA_TRY(aorta_collective(c->comm, stream, &c->call));
    AORTA_TRY(aorta_inject_into_collective(context, c->call.kind, stream));
    return aorta_range_end(context->recorder);
}

aorta_status aorta_train_sum(const struct aorta_train_context *context, enum aorta_flow flow, struct aorta_comm *comm,
                             int group, const char *tag, float *values, int64_t count) {
    const struct aorta_train_collective collective = {
        .flow = flow,
        .comm = comm,
        .group = group,
        .tag = tag,
        .layer = -1,
        .call = aorta_train_call(AORTA_ALL_REDUCE, values, values, (size_t)count)};
    return aorta_train_collect(context, &collective);
}

aorta_status aorta_train_begin_on(const struct aorta_train_context *context, enum aorta_role role,
                                  enum aorta_range_kind kind, const char *tag, const char *function, int64_t bytes) {
    const struct aorta_range_info info = {
        .tag = tag, .function = function, .role = role, .kind = kind, .layer = -1, .bytes = bytes};
    return aorta_range_begin(context->recorder, context->streams[role], &info);
}

aorta_status aorta_train_begin(const struct aorta_train_context *context, enum aorta_flow flow,
                               enum aorta_range_kind kind, const char *tag, const char *function, int64_t bytes) {
    return aorta_train_begin_on(context, aorta_train_role(context, flow), kind, tag, function, bytes);
}

aorta_status aorta_train_end(const struct aorta_train_context *context) {
    return aorta_range_end(context->recorder);
}
