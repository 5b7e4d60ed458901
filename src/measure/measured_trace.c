#include "base/intern.h"
#include "measure/run_files.h"

#include "base/array.h"
#include "base/sort.h"
#include "base/statistics.h"
#include "trace/builder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAUSE_NS = 1000000, /* a launch contains a pause if it takes this long and PAUSE_TIMES as long as usual */
    PAUSE_TIMES = 8,
};

/* While a trace is made. Ranges are numbered from 1 on, in the order of the steps: the correlations of their work. */
struct build {
    const struct aorta_measured_rank *rank;
    struct aorta_trace_builder *builder;
    struct aorta_arena arena;
    struct aorta_trace *trace; /* once the builder is finished */
    int64_t *shift_ns;         /* per step: added to its times, which may be relative to its start */
    struct aorta_trace_call *launches;
    size_t launch_count;
    uint32_t *row_of;         /* of each range: row of work[] */
    struct aorta_texts keys;  /* of shapes */
    struct aorta_texts kinds; /* of ranges: struct kind_key */
    struct kind *known;       /* of each */
    size_t kind_capacity;
};

/* Key of ranges with the same names. Names are interned, so their addresses identify them. */
struct kind_key {
    const char *function, *tag, *operation;
    uint64_t within;
};
struct kind {
    uint32_t name, operation; /* texts; NONE: not set yet */
    bool classed;
    enum aorta_work_class class;
};

static const struct aorta_profile *profile_of(const struct build *build, size_t step) {
    return build->rank->steps[step].profile;
}

/* Places steps whose times are relative to their own start one after the other, without gaps. */
static void place_steps(struct build *build) {
    int64_t next_ns = 0;
    for (size_t i = 0; i < build->rank->step_count; i++) {
        const struct aorta_profile *profile = profile_of(build, i);
        build->shift_ns[i] = profile->own_clock ? next_ns - profile->start_ns : 0;
        next_ns = profile->end_ns + build->shift_ns[i];
    }
}

static uint32_t text_of(struct build *build, const char *text) {
    return aorta_trace_builder_text(build->builder, text, strlen(text));
}

/* ---- the host ---- */

static uint32_t thread_of(struct build *build) {
    return aorta_trace_builder_thread(build->builder, 0, 0);
}

/* Whether there is a launch at this time already: a graph's kernels have one launch. Searches the last few launches,
 * as launches of other work may come in between. */
static bool has_launch(const struct build *build, int64_t start_ns) {
    enum { BESIDE = 4 };
    for (size_t i = 0; i < BESIDE && i < build->launch_count; i++)
        if (build->launches[build->launch_count - 1 - i].start_ns == start_ns) return true;
    return false;
}

/* Adds the host's launches. A launch lasts until the next launch or host wait. A graph is one launch. */
static void add_launches(struct build *build, size_t step, uint64_t first) {
    const struct aorta_profile *profile = profile_of(build, step);
    const uint32_t launch = text_of(build, "aortaLaunchKernel"), graph = text_of(build, "aortaGraphLaunch");
    for (size_t i = 0; i < profile->range_count; i++) {
        const struct aorta_range *range = &profile->ranges[i];
        if (range->enqueue_ns == INT64_MIN) continue;
        const int64_t start_ns = range->enqueue_ns + build->shift_ns[step];
        if (has_launch(build, start_ns)) continue;
        build->launches[build->launch_count++] =
            (struct aorta_trace_call){.start_ns = start_ns,
                                      .end_ns = aorta_range_launched_by(profile, i) + build->shift_ns[step],
                                      .correlation = first + i,
                                      .name = range->graph ? graph : launch,
                                      .thread = thread_of(build)};
    }
}

/* Shortens launches that contain a pause to the usual length: launches seem to last until the next launch even if the
 * host did other work. */
static void end_long_launches(struct build *build) {
    const size_t count = build->launch_count;
    struct aorta_trace_call *launches = build->launches;
    int64_t *times_ns = aorta_arena_raw(&build->arena, count * sizeof *times_ns);
    size_t used = 0;
    if (!times_ns) return;
    for (size_t i = 0; i < count; i++)
        if (launches[i].end_ns > launches[i].start_ns) times_ns[used++] = launches[i].end_ns - launches[i].start_ns;
    const int64_t usual_ns = aorta_median_int64(times_ns, used);
    for (size_t i = 0; i < count; i++) {
        const int64_t ns = launches[i].end_ns - launches[i].start_ns;
        if (ns >= PAUSE_NS && ns > PAUSE_TIMES * usual_ns) launches[i].end_ns = launches[i].start_ns + usual_ns;
        aorta_trace_builder_call(build->builder, &launches[i]);
    }
}

/* Names of host waits, like those of vendors' calls and of PyTorch's loader. */
static const char *const waits[AORTA_HOST_KIND_COUNT] = {[AORTA_HOST_DATA_WAIT] = "enumerate(DataLoader)#aorta",
                                                         [AORTA_HOST_SYNC] = "aortaStreamSynchronize",
                                                         [AORTA_HOST_ALLOCATION] = "aortaMalloc"};

static void add_waits(struct build *build, size_t step) {
    const struct aorta_profile *profile = profile_of(build, step);
    for (size_t i = 0; i < profile->host_count; i++) {
        const struct aorta_host_range *wait = &profile->host[i];
        const uint32_t name = text_of(build, waits[wait->kind]);
        const int64_t start_ns = wait->start_ns + build->shift_ns[step], end_ns = wait->end_ns + build->shift_ns[step];
        const struct aorta_trace_annotation data = {start_ns, end_ns, name, thread_of(build)};
        const struct aorta_trace_call call = {
            .start_ns = start_ns, .end_ns = end_ns, .name = name, .thread = thread_of(build)};
        if (wait->kind == AORTA_HOST_DATA_WAIT)
            aorta_trace_builder_annotation(build->builder, &data);
        else
            aorta_trace_builder_call(build->builder, &call);
    }
}

/* ---- the device ---- */

/* Returns NULL if memory is exhausted. Valid until the next call. */
static struct kind *kind_of(struct build *build, const struct aorta_range_info *info) {
    const struct kind_key key = {info->function, info->tag, info->operation, info->within != NULL};
    const size_t known = build->kinds.count;
    const uint32_t number = aorta_texts_add(&build->kinds, (const char *)&key, sizeof key);
    if (number == UINT32_MAX) return NULL;
    if (number == known) {
        if (!aorta_array_fit(&build->known, &build->kind_capacity, known + 1, sizeof *build->known)) return NULL;
        build->known[number] = (struct kind){.name = AORTA_TRACE_NONE, .operation = AORTA_TRACE_NONE};
    }
    return &build->known[number];
}

/* The operation where it is known, else the pass. */
static const char *function_of(const struct aorta_range_info *info) {
    return info->operation ? info->operation : info->function ? info->function : "work";
}

/* Whether the tag only repeats the function. The original toolkit's tags do, possibly with the step before it
 * ("epoch0_step5_forward"). */
static bool says_no_more(const char *tag, const char *function) {
    const size_t length = strlen(tag), own = strlen(function);
    if (strcmp(tag, function) == 0) return true;
    return strncmp(tag, "epoch", 5) == 0 && length > own && strcmp(tag + length - own, function) == 0;
}

/* "linear_forward (encoder.layers.3.linear1)" */
static uint32_t name_of(struct build *build, const struct aorta_range_info *info) {
    char name[1024];
    const char *function = function_of(info), *tag = info->tag ? info->tag : "";
    struct kind *kind = kind_of(build, info);
    if (kind && kind->name != AORTA_TRACE_NONE) return kind->name;
    if (says_no_more(tag, function)) tag = "";
    const int length = snprintf(name, sizeof name, *tag ? "%s (%s)" : "%s", function, tag);
    const uint32_t text = aorta_trace_builder_text(build->builder, name, strnlen(name, (size_t)length));
    if (kind) kind->name = text;
    return text;
}

/* The group of the range's collective, with its ranks if known. */
static uint32_t group_of(struct build *build, const struct aorta_range_info *info) {
    const uint32_t name = text_of(build, aorta_role_name(info->role));
    const int size = info->group_size, stride = info->group_stride ? info->group_stride : 1;
    int32_t *ranks = size > 0 ? malloc((size_t)size * sizeof *ranks) : NULL;
    for (int i = 0; ranks && i < size; i++) ranks[i] = info->group + i * stride;
    const uint32_t group = aorta_trace_builder_group(build->builder, name, AORTA_TRACE_NONE, size > 0 ? size : -1,
                                                     ranks, ranks ? (size_t)size : 0);
    free(ranks);
    return group;
}

/* Collectives of one kind and group are numbered within their step. */
static struct aorta_trace_collective collective_of(struct build *build, size_t step, const struct aorta_range *range) {
    const struct aorta_range_info *info = &range->info;
    struct aorta_trace_collective facts = aorta_trace_unknown_collective;
    facts.bytes = info->bytes > 0 ? info->bytes : -1;
    facts.dtype = info->dtype < AORTA_DTYPE_COUNT ? text_of(build, aorta_dtype_name(info->dtype)) : AORTA_TRACE_NONE;
    facts.group = group_of(build, info);
    facts.group_size = info->group_size > 0 ? info->group_size : -1;
    facts.kind = info->collective;
    facts.named = true;
    facts.simulated = info->simulated;
    facts.sequence = (build->rank->steps[step].number << 24) + range->sequence;
    return facts;
}

/* A profile has fills among the copies. */
static uint8_t kind_of_work(const struct aorta_range_info *info) {
    if (info->kind != AORTA_RANGE_COPY) return AORTA_TRACE_KERNEL;
    return info->tag && strcmp(info->tag, "fill") == 0 ? AORTA_TRACE_FILL : AORTA_TRACE_COPY;
}

static void add_range(struct build *build, size_t step, const struct aorta_range *range, uint64_t number) {
    const bool collective = range->info.kind == AORTA_RANGE_COLLECTIVE;
    const struct aorta_trace_work work = {
        .start_ns = range->start_ns + build->shift_ns[step],
        .end_ns = range->end_ns + build->shift_ns[step],
        .bytes = range->info.kind == AORTA_RANGE_COPY && range->info.bytes > 0 ? range->info.bytes : -1,
        .correlation = number,
        .name = name_of(build, &range->info),
        .stream = aorta_trace_builder_stream(build->builder, 0, -1, range->stream),
        .queue = AORTA_TRACE_NONE,
        .kind = kind_of_work(&range->info),
        .graph = range->graph,
    };
    struct aorta_trace_collective facts;
    if (collective) facts = collective_of(build, step, range);
    aorta_trace_builder_work(build->builder, &work, -1, collective ? &facts : NULL, -1);
}

static void add_steps(struct build *build) {
    uint64_t number = 1;
    for (size_t i = 0; i < build->rank->step_count; i++) {
        const struct aorta_profile *profile = profile_of(build, i);
        for (size_t j = 0; j < profile->range_count; j++) add_range(build, i, &profile->ranges[j], number + j);
        add_launches(build, i, number);
        add_waits(build, i);
        number += profile->range_count;
    }
    end_long_launches(build);
}

/* ---- what an operation does ---- */

/* Operations of the model and the optimizer by prefix. `counted`: the recorder always has arithmetic or bytes, so the
 * kernel that has them represents all kernels of the range. */
static const struct {
    const char *begin;
    enum aorta_work_class class;
    bool counted;
} functions[] = {
    {"linear_", AORTA_WORK_GEMM, true},          {"attention_", AORTA_WORK_ATTENTION, true},
    {"norm_", AORTA_WORK_REDUCTION, true},       {"gelu_", AORTA_WORK_POINTWISE, true},
    {"add", AORTA_WORK_POINTWISE, false},        {"cast", AORTA_WORK_POINTWISE, false},
    {"embedding_", AORTA_WORK_POINTWISE, false}, {"bce_with_logits", AORTA_WORK_REDUCTION, false},
    {"dense_", AORTA_WORK_GEMM, true},           {"adamw_", AORTA_WORK_POINTWISE, true},
    {"square_sum", AORTA_WORK_REDUCTION, true},
};

/* A unit's whole pass, as it is recorded on GPUs. */
static bool is_pass(const struct aorta_range_info *info) {
    static const char *const passes[] = {"layer_", "input_", "head"};
    if (info->operation) return false;
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        if (strncmp(info->function, passes[i], strlen(passes[i])) == 0) return true;
    return false;
}

static bool is_typed(const struct aorta_range_info *info) {
    return info->flops <= 0 || info->dtype < AORTA_DTYPE_COUNT;
}

static void fill_operation(const struct aorta_range_info *info, struct aorta_trace_shape *shape) {
    bool covered = (info->flops > 0 || info->bytes > 0) && is_typed(info);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strncmp(function_of(info), functions[i].begin, strlen(functions[i].begin)) != 0) continue;
        shape->amount.class = functions[i].class;
        covered |= functions[i].counted && info->within;
        break;
    }
    if (!is_typed(info)) shape->extent = AORTA_SHAPE_PASS; /* arithmetic that no peak is known of */
    shape->amount.flops = covered || !is_typed(info) ? info->flops : NAN;
    shape->amount.bytes = covered ? (double)info->bytes : NAN;
}

/* What a pass's products and its attention do together is on its longest kernel, whichever that is. */
static void fill_pass(const struct aorta_range_info *info, struct aorta_trace_shape *shape) {
    shape->extent = info->within ? AORTA_SHAPE_KERNEL_OF_PASS : AORTA_SHAPE_PASS;
    if (!info->within) shape->amount.class = AORTA_WORK_OTHER;
    shape->amount.flops = info->flops - info->attention_flops;
    shape->amount.bytes = (double)(info->bytes - info->attention_bytes);
    shape->attention.flops = info->attention_flops;
    shape->attention.bytes = (double)info->attention_bytes;
}

/* The row of an equal shape, or a new row. NONE if memory is exhausted. */
static uint32_t number_shape(struct build *build, const struct aorta_trace_shape *shape, size_t *capacity) {
    struct aorta_trace *trace = build->trace;
    const uint32_t number = aorta_texts_add(&build->keys, (const char *)shape, sizeof *shape);
    if (number == UINT32_MAX || number < trace->shape_count) return number;
    const bool added = aorta_array_append(&trace->shapes, capacity, &trace->shape_count, shape, sizeof *shape);
    return added ? number : AORTA_TRACE_NONE;
}

/* Writes dims and types as in other formats. Not for a pass, whose dims are the batch's. */
static void take_dims(struct build *build, const struct aorta_range_info *info, struct aorta_trace_shape *shape) {
    struct aorta_texts *texts = build->trace->texts;
    char dims[AORTA_RANGE_DIMS_TEXT], types[64];
    shape->dims = shape->types = AORTA_TRACE_NONE;
    if (is_pass(info) || info->dtype >= AORTA_DTYPE_COUNT || !*aorta_range_dims_text(info, dims)) return;
    const char *type = aorta_dtype_cxx_name(info->dtype);
    const int length = info->dims[1][0] ? snprintf(types, sizeof types, "[\"%s\", \"%s\"]", type, type)
                                        : snprintf(types, sizeof types, "[\"%s\"]", type);
    shape->dims = aorta_texts_add(texts, dims, strlen(dims));
    shape->types = aorta_texts_add(texts, types, (size_t)length);
}

static void add_shape(struct build *build, const struct aorta_range_info *info, struct aorta_trace_work *work,
                      size_t *capacity) {
    struct aorta_trace_shape shape;
    struct kind *kind = kind_of(build, info);
    build->arena.failed |= !kind;
    if (!kind) return;
    if (!kind->classed) {
        const char *function = function_of(info);
        kind->operation = aorta_texts_add(build->trace->texts, function, strlen(function));
        kind->class = aorta_kernel_work_class(info->within ? info->tag : info->function);
        kind->classed = true;
    }
    memset(&shape, 0, sizeof shape); /* including padding, as shapes are compared by bytes */
    shape.op = kind->operation;
    take_dims(build, info, &shape);
    shape.product.batch = shape.product.m = shape.product.n = shape.product.k = -1;
    shape.amount.class = kind->class;
    shape.amount.arithmetic = shape.attention.arithmetic =
        is_typed(info) ? aorta_arithmetic_of(info->dtype) : AORTA_ARITHMETIC_UNKNOWN;
    shape.attention.class = AORTA_WORK_ATTENTION;
    if (is_pass(info))
        fill_pass(info, &shape);
    else
        fill_operation(info, &shape);
    work->shape = number_shape(build, &shape, capacity);
    work->leads = info->flops > 0 || info->bytes > 0;
    build->arena.failed |= work->shape == AORTA_TRACE_NONE || shape.op == UINT32_MAX;
}

/* ---- what the builder cannot know ---- */

/* The launch that starts at this time. */
static uint32_t launch_at(const struct aorta_trace *trace, int64_t time_ns) {
    size_t low = aorta_count_before(trace->calls, trace->call_count, sizeof *trace->calls,
                                    offsetof(struct aorta_trace_call, start_ns), time_ns);
    for (; low < trace->call_count && trace->calls[low].start_ns == time_ns; low++)
        if (trace->calls[low].kind == AORTA_CALL_LAUNCH || trace->calls[low].kind == AORTA_CALL_GRAPH_LAUNCH)
            return (uint32_t)low;
    return AORTA_TRACE_NONE;
}

static const uint8_t classes[] = {[AORTA_RANGE_COMPUTE] = AORTA_KERNEL_COMPUTE,
                                  [AORTA_RANGE_COLLECTIVE] = AORTA_KERNEL_COLLECTIVE,
                                  [AORTA_RANGE_COPY] = AORTA_KERNEL_COMPUTE};

/* Sets kinds from ranges, as names may not show them. Ranges of a graph have the graph's launch. */
static void complete_work(struct build *build) {
    struct aorta_trace *trace = build->trace;
    int64_t unknown = 0;
    size_t number = 0, capacity = 0;
    for (size_t i = 0; i < build->rank->step_count; i++) {
        const struct aorta_profile *profile = profile_of(build, i);
        for (size_t j = 0; j < profile->range_count; j++) {
            const struct aorta_range *range = &profile->ranges[j];
            struct aorta_trace_work *work = &trace->work[build->row_of[number++]];
            work->class = classes[range->info.kind];
            work->call = range->enqueue_ns == INT64_MIN ? AORTA_TRACE_NONE
                                                        : launch_at(trace, range->enqueue_ns + build->shift_ns[i]);
            unknown += work->call == AORTA_TRACE_NONE;
            if (range->info.kind == AORTA_RANGE_COMPUTE) add_shape(build, &range->info, work, &capacity);
        }
    }
    trace->warnings[AORTA_REASON_NO_LAUNCH] = (struct aorta_trace_warning){.count = unknown, .offset = -1};
    trace->warnings[AORTA_REASON_NO_COLLECTIVE] = (struct aorta_trace_warning){.count = 0, .offset = -1};
}

static void widen(struct aorta_interval *span, int64_t start_ns, int64_t end_ns) {
    if (start_ns < span->start_ns) span->start_ns = start_ns;
    if (end_ns > span->end_ns) span->end_ns = end_ns;
}

/* The host's time for a step, from its first launch or wait to its last. Both INT64_MIN if there is none. */
static struct aorta_interval host_span(const struct build *build, size_t step) {
    const struct aorta_profile *profile = profile_of(build, step);
    const int64_t shift_ns = build->shift_ns[step];
    struct aorta_interval span = {INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < profile->range_count; i++)
        if (profile->ranges[i].enqueue_ns != INT64_MIN)
            widen(&span, profile->ranges[i].enqueue_ns, profile->ranges[i].enqueue_ns + 1);
    for (size_t i = 0; i < profile->host_count; i++) widen(&span, profile->host[i].start_ns, profile->host[i].end_ns);
    if (span.start_ns == INT64_MAX) return (struct aorta_interval){INT64_MIN, INT64_MIN};
    return (struct aorta_interval){span.start_ns + shift_ns, span.end_ns + shift_ns};
}

static bool follows(const struct build *build, size_t step) {
    const struct aorta_measured_step *steps = build->rank->steps;
    return step + 1 < build->rank->step_count && steps[step].number + 1 == steps[step + 1].number;
}

static void complete_steps(struct build *build) {
    struct aorta_trace *trace = build->trace;
    const size_t count = build->rank->step_count;
    free(trace->steps);
    trace->step_count = 0;
    trace->steps = calloc(count + 1, sizeof *trace->steps);
    trace->measured = calloc(count + 1, sizeof *trace->measured);
    build->arena.failed |= !trace->steps || !trace->measured;
    size_t number = 0;
    for (size_t i = 0; !build->arena.failed && i < count; i++) {
        const struct aorta_measured_step *step = &build->rank->steps[i];
        const int64_t next_ns = follows(build, i) ? host_span(build, i + 1).start_ns : INT64_MIN;
        const struct aorta_interval host = host_span(build, i); /* it lasts until the next step's begins */
        trace->steps[i] = (struct aorta_trace_step){.number = step->number,
                                                    .start_ns = host.start_ns,
                                                    .end_ns = next_ns == INT64_MIN ? host.end_ns : next_ns,
                                                    .device_start_ns = step->profile->start_ns + build->shift_ns[i],
                                                    .device_end_ns = step->profile->end_ns + build->shift_ns[i]};
        uint32_t *work = malloc((step->profile->range_count + 1) * sizeof *work);
        build->arena.failed |= !work;
        for (size_t j = 0; work && j < step->profile->range_count; j++) work[j] = build->row_of[number++];
        trace->measured[i] = (struct aorta_trace_measured){step->step_ns, step->profile, work};
        trace->step_count++;
    }
    trace->steps_by = AORTA_STEPS_MEASURED;
}

static aorta_status complete(struct build *build) {
    struct aorta_trace *trace = build->trace;
    for (size_t i = 0; i < trace->work_count; i++) build->row_of[trace->work[i].correlation - 1] = (uint32_t)i;
    complete_work(build);
    complete_steps(build);
    return aorta_arena_check(&build->arena, "the ranges of a run");
}

/* ---- all of it ---- */

static void add_head(struct build *build) {
    const struct aorta_measured_rank *rank = build->rank;
    struct aorta_trace *head = aorta_trace_builder_head(build->builder);
    head->rank = rank->rank;
    head->world = rank->world_size;
    head->on_gpu = rank->on_gpu;
    const struct aorta_metrics_device *known = rank->device;
    if (!known || (!known->name && !known->measured)) return;
    const struct aorta_trace_device device = {.name = known->name ? text_of(build, known->name) : AORTA_TRACE_NONE,
                                              .isa = known->isa ? aorta_trace_text(head, text_of(build, known->isa))
                                                                : NULL,
                                              .memory_bytes = known->memory_bytes,
                                              .multiprocessors = (int32_t)known->multiprocessors,
                                              .major = -1,
                                              .minor = -1,
                                              .measured = known->measured,
                                              .peaks = known->peaks};
    aorta_trace_builder_device(build->builder, &device);
}

static aorta_status fill(struct build *build) {
    size_t count = 0;
    for (size_t i = 0; i < build->rank->step_count; i++) count += profile_of(build, i)->range_count;
    build->shift_ns = aorta_arena_alloc(&build->arena, build->rank->step_count * sizeof *build->shift_ns);
    build->launches = aorta_arena_raw(&build->arena, count * sizeof *build->launches);
    build->row_of = aorta_arena_alloc(&build->arena, count * sizeof *build->row_of);
    AORTA_TRY(aorta_arena_check(&build->arena, "the ranges of a run"));
    place_steps(build);
    add_head(build);
    add_steps(build);
    return aorta_arena_check(&build->arena, "the ranges of a run");
}

aorta_status aorta_trace_of_measured(const struct aorta_measured_rank *rank, struct aorta_trace **trace) {
    struct build build = {.rank = rank};
    AORTA_TRY(aorta_trace_builder_create(AORTA_TRACE_METRICS, rank->path, NULL, &build.builder));
    aorta_status status = fill(&build);
    if (status)
        aorta_trace_builder_destroy(build.builder);
    else
        status = aorta_trace_builder_finish(build.builder, &build.trace);
    if (!status) status = complete(&build);
    aorta_arena_free(&build.arena);
    aorta_texts_free(&build.keys);
    aorta_texts_free(&build.kinds);
    free(build.known);
    if (status)
        aorta_trace_free(build.trace);
    else
        *trace = build.trace;
    return status;
}
