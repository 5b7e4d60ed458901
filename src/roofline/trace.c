/* The roofline of a recorded rank: shapes from the operations that launched its kernels, or that a recorder of ours
 * measured. */
#include "roofline/remedy_internal.h"
#include "roofline/roofline_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a name says, found out once. */
struct name_facts {
    bool known, tf32;
    enum aorta_work_class class;
};

struct reading {
    const struct aorta_trace_rank *rank;
    struct name_facts *names; /* by text */
};

static const struct name_facts *facts_of(struct reading *reading, uint32_t name) {
    struct name_facts *facts = &reading->names[name];
    if (facts->known) return facts;
    const char *text = aorta_trace_text(reading->rank->trace, name);
    *facts = (struct name_facts){true, aorta_kernel_uses_tf32(text), aorta_kernel_work_class(text)};
    return facts;
}

/* Both are known, and so is the type of the arithmetic where there is any. */
static bool is_counted(const struct aorta_work_amount *amount) {
    return !isnan(amount->flops) && !isnan(amount->bytes) &&
           (amount->flops <= 0 || amount->arithmetic != AORTA_ARITHMETIC_UNKNOWN);
}

/* The part of a kernel within the window has that part of its operation's arithmetic. */
static struct aorta_roofline_work work_of(struct reading *reading, const struct aorta_trace_window *window,
                                          size_t range) {
    const struct aorta_trace_work *work = &reading->rank->work[window->work[range]];
    const struct aorta_trace *trace = reading->rank->trace;
    const struct name_facts *facts = facts_of(reading, work->name);
    struct aorta_roofline_work part = {
        .start_ns = work->start_ns > window->start_ns ? work->start_ns : window->start_ns,
        .end_ns = work->end_ns < window->end_ns ? work->end_ns : window->end_ns,
        .class = facts->class,
        .arithmetic = AORTA_ARITHMETIC_UNKNOWN,
        .kernel = window->profile.ranges[range].info.tag,
    };
    if (work->shape == AORTA_TRACE_NONE) return part;
    const struct aorta_trace_shape *shape = &trace->shapes[work->shape];
    const struct aorta_work_amount *amount = &shape->amount;
    const int64_t whole_ns = work->end_ns - work->start_ns;
    const double share = !work->leads ? 0 : whole_ns ? (double)(part.end_ns - part.start_ns) / (double)whole_ns : 1;
    part.class = amount->class;
    part.covered = is_counted(amount);
    if (!part.covered) return part;
    part.arithmetic = facts->tf32 && amount->arithmetic == AORTA_IN_FP32 ? AORTA_IN_TF32 : amount->arithmetic;
    part.runs = work->leads && work->start_ns >= window->start_ns;
    part.flops = share * amount->flops;
    part.bytes = share * amount->bytes;
    part.operation = aorta_trace_text(trace, shape->op);
    part.dims = shape->dims == AORTA_TRACE_NONE ? NULL : aorta_trace_text(trace, shape->dims);
    return part;
}

/* What the products and the attention of a pass do belongs to its kernels of these classes together. */
static aorta_status add_pass(const struct aorta_trace_shape *shape, struct aorta_roofline_work work,
                             struct aorta_roofline_build *build) {
    work.runs = true;
    work.start_ns = work.end_ns;
    work.class = AORTA_WORK_GEMM;
    work.flops = shape->amount.flops;
    work.bytes = shape->amount.bytes;
    AORTA_TRY(aorta_roofline_build_amount(build, &work));
    work.class = AORTA_WORK_ATTENTION;
    work.flops = shape->attention.flops;
    work.bytes = shape->attention.bytes;
    return work.flops > 0 ? aorta_roofline_build_amount(build, &work) : NULL;
}

/* A pass of a unit, or a kernel of it, which is known by its name. */
static aorta_status add_part_of_pass(const struct reading *reading, const struct aorta_trace_window *window,
                                     size_t range, struct aorta_roofline_build *build) {
    const struct aorta_trace *trace = reading->rank->trace;
    const struct aorta_trace_work *row = &reading->rank->work[window->work[range]];
    const struct aorta_trace_shape *shape = &trace->shapes[row->shape];
    const double flops = shape->amount.flops + shape->attention.flops;
    const bool kernel = shape->extent == AORTA_SHAPE_KERNEL_OF_PASS;
    const bool typed = shape->amount.arithmetic != AORTA_ARITHMETIC_UNKNOWN;
    struct aorta_roofline_work work = {.start_ns = row->start_ns,
                                       .end_ns = row->end_ns,
                                       .class = shape->amount.class,
                                       .arithmetic = shape->amount.arithmetic,
                                       .operation = aorta_trace_text(trace, shape->op),
                                       .kernel = window->profile.ranges[range].info.tag};
    work.covered =
        kernel && (work.class == AORTA_WORK_GEMM || work.class == AORTA_WORK_ATTENTION) && (typed || flops <= 0);
    if (!kernel) aorta_roofline_build_flops(build, work.arithmetic, flops);
    AORTA_TRY(aorta_roofline_build_work(build, &work));
    return kernel && flops > 0 && typed ? add_pass(shape, work, build) : NULL;
}

static bool is_part_of_pass(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    return work->shape != AORTA_TRACE_NONE && trace->shapes[work->shape].extent != AORTA_SHAPE_OPERATION;
}

static aorta_status add_window(struct reading *reading, const struct aorta_trace_window *window,
                               struct aorta_roofline_build *build) {
    for (size_t i = 0; i < window->profile.range_count; i++) {
        if (window->profile.ranges[i].info.kind != AORTA_RANGE_COMPUTE) continue;
        if (is_part_of_pass(reading->rank->trace, &reading->rank->work[window->work[i]])) {
            AORTA_TRY(add_part_of_pass(reading, window, i, build));
            continue;
        }
        const struct aorta_roofline_work work = work_of(reading, window, i);
        AORTA_TRY(aorta_roofline_build_work(build, &work));
    }
    build->roofline->lower_bound |= reading->rank->trace->on_gpu && window->profile.source == AORTA_SOURCE_RANGE;
    aorta_roofline_build_step(build, window->overlap.lead_ns + window->overlap.span_ns);
    return NULL;
}

/* ---- the device ---- */

/* A few runs before the first step say little on a busy machine: what the run's own operations reached, the machine can
 * do. Short ones, and data that fits a cache, say nothing. */
static void raise_peaks(const struct aorta_profile *profile, struct aorta_peaks *peaks) {
    static const int64_t long_ns = 100000, large_bytes = 8 << 20;
    for (size_t i = 0; i < profile->range_count; i++) {
        const struct aorta_range *range = &profile->ranges[i];
        const enum aorta_arithmetic arithmetic = aorta_arithmetic_of(range->info.dtype);
        const double ns = (double)(range->end_ns - range->start_ns);
        if (range->info.kind != AORTA_RANGE_COMPUTE || range->end_ns - range->start_ns < long_ns) continue;
        if (arithmetic != AORTA_ARITHMETIC_UNKNOWN && range->info.flops > 0)
            peaks->tflops[arithmetic] = fmax(peaks->tflops[arithmetic], range->info.flops / ns / 1e3);
        if (range->info.bytes >= large_bytes)
            peaks->gbytes_per_s = fmax(peaks->gbytes_per_s, (double)range->info.bytes / ns);
    }
}

/* Of all ranks, as they are on devices of one sort. */
static void take_measured(const struct aorta_trace_analysis *analysis, const struct aorta_trace_device *device,
                          struct aorta_peaks *peaks) {
    peaks->device = "this device";
    peaks->source = "measured: the fastest product and the fastest move of much data, of the run and of a product of "
                    "512 x 512 x 512 and a copy of 32 MiB before its first step";
    peaks->reason = NULL;
    memcpy(peaks->tflops, device->peaks.tflops, sizeof peaks->tflops);
    peaks->gbytes_per_s = device->peaks.gbytes_per_s;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace *trace = analysis->ranks[i].trace;
        for (size_t j = 0; trace->measured && j < trace->step_count; j++)
            raise_peaks(trace->measured[j].profile, peaks);
    }
}

static const struct aorta_trace_device *device_of(const struct aorta_trace_rank *rank) {
    const struct aorta_trace_device *device = aorta_trace_device_of(rank->trace, rank->device);
    return device && (device->name != AORTA_TRACE_NONE || device->measured) ? device : NULL;
}

void aorta_rank_peaks(const struct aorta_trace_analysis *analysis, size_t rank, struct aorta_peaks *peaks) {
    const struct aorta_trace *trace = analysis->ranks[rank].trace;
    const struct aorta_trace_device *device = device_of(&analysis->ranks[rank]);
    struct aorta_device_facts facts = {.memory_bytes = -1, .multiprocessors = -1, .major = -1, .minor = -1};
    if (device)
        facts =
            (struct aorta_device_facts){device->name == AORTA_TRACE_NONE ? NULL : aorta_trace_text(trace, device->name),
                                        device->memory_bytes, device->multiprocessors, device->major, device->minor};
    if (facts.name && device->isa && strcmp(facts.name, "AMD Radeon Graphics") == 0) facts.name = device->isa;
    aorta_peaks_find(&facts, peaks);
    if (device && device->measured) take_measured(analysis, device, peaks);
}

static aorta_status find_device(const struct aorta_trace_analysis *analysis, size_t rank,
                                struct aorta_roofline *roofline) {
    const struct aorta_trace_device *device = device_of(&analysis->ranks[rank]);
    aorta_rank_peaks(analysis, rank, &roofline->peaks);
    if (!device || device->name == AORTA_TRACE_NONE) return NULL;
    const char *name = aorta_trace_text(analysis->ranks[rank].trace, device->name);
    struct aorta_text text = {0}; /* some versions of ROCm leave the name empty */
    if (!name[0] && roofline->peaks.device)
        aorta_text_puts(&text, roofline->peaks.device);
    else if (!name[0] && device->multiprocessors > 0 && device->memory_bytes > 0)
        aorta_text_printf(&text, "%d compute units, %.0f GB", device->multiprocessors,
                          (double)device->memory_bytes / 1e9);
    else
        aorta_text_puts(&text, name);
    roofline->device_name = text.data;
    return roofline->device_name ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for the roofline");
}

aorta_status aorta_roofline_of_trace(const struct aorta_trace_analysis *analysis, size_t rank,
                                     struct aorta_roofline *roofline) {
    struct reading reading = {.rank = &analysis->ranks[rank]};
    struct aorta_roofline_build build;
    memset(roofline, 0, sizeof *roofline);
    AORTA_TRY(find_device(analysis, rank, roofline));
    aorta_roofline_build_begin(&build, roofline);
    reading.names = calloc(aorta_trace_text_count(reading.rank->trace) + 1, sizeof *reading.names);
    aorta_status status = reading.names ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for the roofline");
    for (size_t i = 0; !status && i < reading.rank->window_count; i++)
        if (aorta_trace_window_counts(analysis, &reading.rank->windows[i]))
            status = add_window(&reading, &reading.rank->windows[i], &build);
    free(reading.names);
    return aorta_roofline_build_end(&build, status);
}
