#include "ops/ops.h"
#include "train/step.h"

#include <stdlib.h>

enum { REDUCED = 1 << 20 }; /* elements of an all-reduce, 4 MiB */

/* One more stream of compute. */
struct beside {
    struct aorta_stream *stream;
    struct aorta_event *joined;
    float *result;
};

struct aorta_stress {
    struct aorta_train_context *context;
    struct beside *streams;
    int stream_count;
    struct aorta_event *launched; /* on compute */
    float *operands;              /* two matrices, which all streams read */
    float *first, *second, *host; /* of the all-reduces; host: pinned */
};

static const struct aorta_training_options *options_of(const struct aorta_stress *stress) {
    return &stress->context->options->training;
}

size_t aorta_stress_ranges(const struct aorta_train_options *options) {
    const struct aorta_training_options *o = &options->training;
    size_t waves = (size_t)(o->additional_compute_streams * AORTA_WAVE_COUNT * o->gradient_accumulation);
    return waves + (o->inject_allreduce_copies ? (size_t)o->allreduce_stress_level * 8 : 0);
}

/* ---- life ---- */

static aorta_status alloc_floats(struct aorta_stress *stress, int64_t count, float **floats) {
    return aorta_own_memory(&stress->context->owned, (size_t)count * sizeof **floats, "additional work", floats);
}

/* Values that no product makes large; not zeros, which cost a GPU less power. */
static aorta_status fill_operands(struct aorta_stress *stress) {
    const int64_t size = options_of(stress)->lightweight_op_size, count = 2 * size * size;
    struct aorta_stream *compute = aorta_train_compute(stress->context);
    float *values = malloc((size_t)count * sizeof *values);
    if (!values) return AORTA_ERROR(AORTA_MEMORY, "no memory for matrices of %lld rows", (long long)size);
    for (int64_t i = 0; i < count; i++) values[i] = (float)((uint32_t)i * 2654435761u >> 8) * 0x1p-24f - 0.5f;
    aorta_status status = aorta_copy(compute, stress->operands, values, (size_t)count * sizeof *values);
    status = aorta_status_join(status, aorta_stream_synchronize(compute));
    free(values);
    return status;
}

static aorta_status build_stream(struct aorta_stress *stress, struct beside *beside) {
    struct aorta_train_context *c = stress->context;
    const int64_t size = options_of(stress)->lightweight_op_size;
    AORTA_TRY(
        aorta_train_open_stream(c, "lightweight", c->options->streams.priorities[AORTA_ROLE_COMPUTE], &beside->stream));
    AORTA_TRY(aorta_ops_prepare(beside->stream));
    AORTA_TRY(aorta_own_event(&c->owned, &beside->joined));
    return alloc_floats(stress, size * size, &beside->result);
}

static aorta_status build_streams(struct aorta_stress *stress) {
    const struct aorta_training_options *o = options_of(stress);
    struct aorta_train_context *c = stress->context;
    stress->stream_count = (int)o->additional_compute_streams;
    stress->streams = aorta_arena_alloc(&c->arena, (size_t)stress->stream_count * sizeof *stress->streams);
    AORTA_TRY(aorta_arena_check(&c->arena, "more streams"));
    AORTA_TRY(aorta_own_event(&c->owned, &stress->launched));
    AORTA_TRY(alloc_floats(stress, 2 * o->lightweight_op_size * o->lightweight_op_size, &stress->operands));
    AORTA_TRY(fill_operands(stress));
    for (int i = 0; i < stress->stream_count; i++) AORTA_TRY(build_stream(stress, &stress->streams[i]));
    return NULL;
}

static aorta_status build_reduces(struct aorta_stress *stress) {
    struct aorta_stream *compute = aorta_train_compute(stress->context);
    AORTA_TRY(aorta_own_pinned(&stress->context->owned, REDUCED * sizeof(float), "additional work", &stress->host));
    AORTA_TRY(alloc_floats(stress, REDUCED, &stress->first));
    AORTA_TRY(alloc_floats(stress, REDUCED, &stress->second));
    AORTA_TRY(aorta_fill(compute, stress->first, AORTA_F32, REDUCED, 0)); /* sums of it stay as they are */
    return aorta_stream_synchronize(compute);
}

aorta_status aorta_stress_create(struct aorta_train_context *context, struct aorta_stress **out) {
    const struct aorta_training_options *o = &context->options->training;
    if (!o->additional_compute_streams && !o->inject_allreduce_copies) return NULL;
    struct aorta_stress *stress = *out = aorta_arena_alloc(&context->arena, sizeof *stress);
    if (!stress) return aorta_arena_check(&context->arena, "additional work");
    stress->context = context;
    if (o->additional_compute_streams) AORTA_TRY(build_streams(stress));
    return o->inject_allreduce_copies ? build_reduces(stress) : NULL;
}

/* ---- products on streams of their own ---- */

static aorta_status run_products(const struct aorta_stress *stress, const struct beside *beside) {
    const int64_t size = options_of(stress)->lightweight_op_size;
    const struct aorta_linear shape = {.dtype = AORTA_F32, .rows = size, .in = size, .out = size};
    for (int64_t i = 0; i < options_of(stress)->lightweight_ops_per_stream; i++)
        AORTA_TRY(aorta_linear_forward(
            beside->stream,
            &(struct aorta_linear_args){
                .shape = shape, .x = stress->operands, .weight = stress->operands + size * size, .y = beside->result}));
    return NULL;
}

/* A statistic of the batch: the sum of the squares of its dense features. */
static aorta_status run_statistics(const struct aorta_stress *stress, const struct beside *beside,
                                   const struct aorta_batch *batch, int64_t count) {
    for (int64_t i = 0; i < options_of(stress)->lightweight_ops_per_stream; i++) {
        AORTA_TRY(aorta_fill(beside->stream, beside->result, AORTA_F32, 1, 0));
        AORTA_TRY(aorta_square_sum(beside->stream, batch->dense, count, beside->result));
    }
    return NULL;
}

static aorta_status launch(const struct aorta_stress *stress, const struct beside *beside, const char *tag,
                           const struct aorta_batch *batch, int64_t dense_count) {
    const struct aorta_training_options *o = options_of(stress);
    const int64_t size = o->lightweight_op_size, operations = o->lightweight_ops_per_stream;
    const bool useful = o->use_useful_lightweight_ops;
    const int64_t each = useful ? 2 * dense_count : 2 * size * size * size;
    const struct aorta_range_info info = {.tag = tag,
                                          .function = useful ? "batch_statistics" : "lightweight_products",
                                          .role = AORTA_ROLE_COMPUTE,
                                          .kind = AORTA_RANGE_COMPUTE,
                                          .layer = -1,
                                          .flops = (double)each * (double)operations,
                                          .dtype = AORTA_F32};
    struct aorta_recorder *recorder = stress->context->recorder;
    AORTA_TRY(aorta_stream_wait(beside->stream, stress->launched));
    AORTA_TRY(aorta_range_begin(recorder, beside->stream, &info));
    AORTA_TRY(useful ? run_statistics(stress, beside, batch, dense_count) : run_products(stress, beside));
    return aorta_range_end(recorder);
}

aorta_status aorta_stress_launch(struct aorta_stress *stress, enum aorta_stress_wave wave,
                                 const struct aorta_batch *batch, int64_t dense_count) {
    static const char *const tags[AORTA_WAVE_COUNT] = {"before forward", "before backward", "after backward"};
    if (!stress || !stress->stream_count || (int64_t)wave >= options_of(stress)->lightweight_op_waves) return NULL;
    AORTA_TRY(aorta_event_record(stress->launched, aorta_train_compute(stress->context)));
    for (int i = 0; i < stress->stream_count; i++)
        AORTA_TRY(launch(stress, &stress->streams[i], tags[wave], batch, dense_count));
    return NULL;
}

aorta_status aorta_stress_join(struct aorta_stress *stress) {
    for (int i = 0; stress && i < stress->stream_count; i++)
        AORTA_TRY(aorta_train_follow(aorta_train_compute(stress->context), stress->streams[i].stream,
                                     stress->streams[i].joined));
    return NULL;
}

/* ---- all-reduces and copies ---- */

static aorta_status all_reduce(const struct aorta_stress *stress, float *values) {
    return aorta_train_sum(stress->context, AORTA_FLOW_OPTIMIZER, stress->context->control, 0,
                           "inject_allreduce_copies", values, REDUCED);
}

static aorta_status copy(const struct aorta_stress *stress, const char *function, float *to, const float *from) {
    const struct aorta_train_context *c = stress->context;
    const size_t bytes = REDUCED * sizeof *to;
    AORTA_TRY(aorta_train_begin(c, AORTA_FLOW_OPTIMIZER, AORTA_RANGE_COPY, "inject_allreduce_copies", function,
                                (int64_t)bytes));
    AORTA_TRY(aorta_copy(aorta_train_stream(c, AORTA_FLOW_OPTIMIZER), to, from, bytes));
    return aorta_train_end(c);
}

static aorta_status wait_for_copy(const struct aorta_stress *stress) {
    struct aorta_stream *stream = aorta_train_stream(stress->context, AORTA_FLOW_OPTIMIZER);
    return aorta_stream_capturing(stream) ? NULL : aorta_train_synchronize(stress->context, stream);
}

/* All-reduce, copy on the device, all-reduce, copy to the host and back, all-reduce, copy on the device. */
static aorta_status reduce_and_copy(const struct aorta_stress *stress) {
    AORTA_TRY(all_reduce(stress, stress->first));
    AORTA_TRY(copy(stress, "copy_on_device", stress->second, stress->first));
    AORTA_TRY(all_reduce(stress, stress->second));
    AORTA_TRY(copy(stress, "copy_to_host", stress->host, stress->second));
    AORTA_TRY(wait_for_copy(stress));
    AORTA_TRY(copy(stress, "copy_from_host", stress->second, stress->host));
    AORTA_TRY(all_reduce(stress, stress->second));
    return copy(stress, "copy_on_device", stress->first, stress->second);
}

aorta_status aorta_stress_reduce(struct aorta_stress *stress) {
    if (!stress || !stress->first) return NULL;
    for (int64_t i = 0; i < options_of(stress)->allreduce_stress_level; i++) AORTA_TRY(reduce_and_copy(stress));
    return NULL;
}

/* ---- copies of layers' outputs ---- */

struct aorta_copies {
    struct aorta_train_context *context;
    int32_t *flags;              /* by layer; device memory */
    struct aorta_event *made;    /* on compute: the output is made */
    struct aorta_event **copied; /* by layer; used in captures */
};

static aorta_status build(struct aorta_copies *copies) {
    struct aorta_stream *compute = aorta_train_compute(copies->context);
    struct aorta_owned *owned = &copies->context->owned;
    const size_t layers = (size_t)aorta_model_unit_count(copies->context->model) - 1;
    AORTA_TRY(aorta_own_zeros(owned, compute, layers * sizeof *copies->flags, "flags of copies", &copies->flags));
    copies->copied = aorta_arena_alloc(&copies->context->arena, layers * sizeof *copies->copied);
    AORTA_TRY(aorta_arena_check(&copies->context->arena, "the events of copies"));
    AORTA_TRY(aorta_own_event(owned, &copies->made));
    for (size_t layer = 0; layer < layers; layer++) AORTA_TRY(aorta_own_event(owned, &copies->copied[layer]));
    return aorta_stream_synchronize(compute);
}

aorta_status aorta_copies_create(struct aorta_train_context *context, struct aorta_copies **out) {
    if (!context->options->workload.async_wait) return NULL;
    struct aorta_copies *copies = *out = aorta_arena_alloc(&context->arena, sizeof *copies);
    if (!copies) return aorta_arena_check(&context->arena, "the table of copies");
    copies->context = context;
    return build(copies);
}

/* The branches of a graph may run one after the other in any order that its edges allow. So an event must order the
 * wait after the copy. */
static bool needs_event(const struct aorta_copies *copies) {
    return aorta_stream_capturing(aorta_train_compute(copies->context));
}

aorta_status aorta_copies_begin(struct aorta_copies *copies, int layer) {
    const struct aorta_train_context *c = copies->context;
    struct aorta_layer_output output = aorta_model_output(c->model, layer);
    struct aorta_stream *stream = aorta_train_stream(c, AORTA_FLOW_PREFETCH);
    AORTA_TRY(aorta_train_follow(stream, aorta_train_compute(c), copies->made));
    AORTA_TRY(aorta_train_begin(c, AORTA_FLOW_PREFETCH, AORTA_RANGE_COPY, aorta_model_unit_name(c->model, layer),
                                "copy_output", (int64_t)output.bytes));
    AORTA_TRY(aorta_copy(stream, output.copy, output.made, output.bytes));
    AORTA_TRY(aorta_train_end(c));
    AORTA_TRY(aorta_flag_raise(stream, &copies->flags[layer]));
    return needs_event(copies) ? aorta_event_record(copies->copied[layer], stream) : NULL;
}

aorta_status aorta_copies_await(struct aorta_copies *copies, int layer) {
    const struct aorta_train_context *c = copies->context;
    struct aorta_stream *compute = aorta_train_compute(c);
    struct aorta_range_info info = {.tag = aorta_model_unit_name(c->model, layer),
                                    .function = "await_copy",
                                    .role = AORTA_ROLE_COMPUTE,
                                    .kind = AORTA_RANGE_COMPUTE,
                                    .layer = layer};
    if (needs_event(copies)) AORTA_TRY(aorta_stream_wait(compute, copies->copied[layer]));
    AORTA_TRY(aorta_range_begin(c->recorder, compute, &info));
    AORTA_TRY(aorta_flag_await(compute, &copies->flags[layer], c->options->distributed.timeout_s));
    return aorta_range_end(c->recorder);
}
