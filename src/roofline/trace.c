/* The roofline of a recorded rank: shapes from the operations that launched its kernels. */
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
                                          const struct aorta_trace_work *work) {
    const struct aorta_trace *trace = reading->rank->trace;
    const struct name_facts *facts = facts_of(reading, work->name);
    struct aorta_roofline_work part = {
        .start_ns = work->start_ns > window->start_ns ? work->start_ns : window->start_ns,
        .end_ns = work->end_ns < window->end_ns ? work->end_ns : window->end_ns,
        .class = facts->class,
        .arithmetic = AORTA_ARITHMETIC_UNKNOWN,
        .kernel = aorta_trace_text(trace, work->name),
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
    part.dims = aorta_trace_text(trace, shape->dims);
    return part;
}

static aorta_status add_window(struct reading *reading, const struct aorta_trace_window *window,
                               struct aorta_roofline_build *build) {
    for (size_t i = 0; i < window->profile.range_count; i++) {
        if (window->profile.ranges[i].info.kind != AORTA_RANGE_COMPUTE) continue;
        const struct aorta_roofline_work work = work_of(reading, window, &reading->rank->work[window->work[i]]);
        AORTA_TRY(aorta_roofline_build_work(build, &work));
    }
    aorta_roofline_build_step(build, window->overlap.lead_ns + window->overlap.span_ns);
    return NULL;
}

static struct aorta_device_facts device_of(const struct aorta_trace_rank *rank) {
    const struct aorta_trace *trace = rank->trace;
    struct aorta_device_facts facts = {.memory_bytes = -1, .multiprocessors = -1, .major = -1, .minor = -1};
    for (size_t i = 0; i < trace->device_count; i++) {
        const struct aorta_trace_device *device = &trace->devices[i];
        if (device->id != rank->device || device->name == AORTA_TRACE_NONE) continue;
        facts = (struct aorta_device_facts){aorta_trace_text(trace, device->name), device->memory_bytes,
                                            device->multiprocessors, device->major, device->minor};
        break;
    }
    return facts;
}

void aorta_rank_peaks(const struct aorta_trace_rank *rank, struct aorta_peaks *peaks) {
    const struct aorta_device_facts facts = device_of(rank);
    aorta_peaks_find(&facts, peaks);
}

static aorta_status find_device(const struct aorta_trace_rank *rank, struct aorta_roofline *roofline) {
    const struct aorta_device_facts facts = device_of(rank);
    aorta_peaks_find(&facts, &roofline->peaks);
    roofline->device_name = facts.name ? strdup(facts.name) : NULL;
    return facts.name && !roofline->device_name ? AORTA_ERROR(AORTA_MEMORY, "no memory for the roofline") : NULL;
}

aorta_status aorta_roofline_of_trace(const struct aorta_trace_analysis *analysis, size_t rank,
                                     struct aorta_roofline *roofline) {
    struct reading reading = {.rank = &analysis->ranks[rank]};
    struct aorta_roofline_build build;
    memset(roofline, 0, sizeof *roofline);
    AORTA_TRY(find_device(reading.rank, roofline));
    aorta_roofline_build_begin(&build, roofline);
    reading.names = calloc(aorta_trace_text_count(reading.rank->trace) + 1, sizeof *reading.names);
    aorta_status status = reading.names ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for the roofline");
    for (size_t i = 0; !status && i < reading.rank->window_count; i++)
        if (aorta_trace_window_counts(analysis, &reading.rank->windows[i]))
            status = add_window(&reading, &reading.rank->windows[i], &build);
    free(reading.names);
    return aorta_roofline_build_end(&build, status);
}
