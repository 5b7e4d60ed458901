/* The roofline of a recorded rank: sums of work by class and by operation. Shapes are those of the operations that
 * launched the rank's kernels, or that a recorder of ours measured. */
#include "verdict/roofline.h"

#include "base/interval.h"
#include "base/table.h"

#include <math.h>
#include <string.h>

/* ---- operations ---- */

/* A kernel, or its part within a step. Texts are compared by address. */
struct work {
    int64_t start_ns, end_ns;
    enum aorta_work_class class;
    enum aorta_arithmetic arithmetic;
    bool covered;                          /* its operation's flops and bytes are known */
    bool runs;                             /* counts as a run of its operation: the first of its kernels */
    double flops, bytes;                   /* 0 but on the operation's first kernel */
    const char *operation, *dims, *kernel; /* dims NULL: not known */
};

/* Runs of one operation and shape. */
struct group {
    struct aorta_roofline_row row; /* its kernel: the one that ran longest */
    int64_t longest_ns;
};

/* What a name says, found out once. */
struct name_facts {
    bool known, tf32;
    enum aorta_work_class class;
};

struct build {
    const struct aorta_trace_rank *rank;
    struct aorta_roofline *roofline;
    struct aorta_arena memory;
    struct name_facts *names; /* by text */
    struct group *groups;     /* in order of arrival */
    size_t group_count, group_capacity;
    struct aorta_table table;                                                            /* of the groups */
    struct aorta_intervals all[AORTA_WORK_CLASS_COUNT], covered[AORTA_WORK_CLASS_COUNT]; /* of the step */
};

static uint64_t hash_of_work(const char *operation, const char *dims, int class, int arithmetic) {
    const uint64_t texts = aorta_hash_add((uintptr_t)operation, (uintptr_t)dims);
    return aorta_hash_add(aorta_hash_add(texts, (uint64_t) class), (uint64_t)arithmetic);
}

static uint64_t hash_of(const void *of, uint32_t number) {
    const struct aorta_roofline_row *row = &((const struct build *)of)->groups[number].row;
    return hash_of_work(row->operation, row->dims, row->class, row->arithmetic);
}

static bool is_of(const void *of, uint32_t number, const void *key) {
    const struct aorta_roofline_row *row = &((const struct build *)of)->groups[number].row;
    const struct work *work = key;
    return row->operation == work->operation && row->dims == work->dims && row->class == work->class &&
           row->arithmetic == work->arithmetic;
}

/* In order of arrival, so that sums do not depend on addresses of texts. NULL: no memory. */
static struct group *group_of(struct build *build, const struct work *work) {
    struct group *groups =
        aorta_arena_grow(&build->memory, build->groups, build->group_count, &build->group_capacity, sizeof *groups);
    if (groups) build->groups = groups;
    build->memory.failed |= !aorta_table_reserve(&build->table, build->group_count + 1, hash_of, build);
    if (build->memory.failed) return NULL;
    const uint64_t hash = hash_of_work(work->operation, work->dims, work->class, work->arithmetic);
    uint32_t *slot = aorta_table_slot(&build->table, hash, is_of, build, work);
    if (!*slot) {
        groups[build->group_count++] = (struct group){.row = {.operation = work->operation,
                                                              .dims = work->dims,
                                                              .class = work->class,
                                                              .arithmetic = work->arithmetic}};
        *slot = (uint32_t)build->group_count;
    }
    return &groups[*slot - 1];
}

/* ns of work at so many TFLOP/s or TB/s: none takes no time, whatever the peak. */
static double time_at(double amount, double per_ps) {
    return amount > 0 ? amount / per_ps / 1e3 : 0;
}

static double peak_of(const struct aorta_peaks *peaks, enum aorta_arithmetic arithmetic) {
    return arithmetic == AORTA_ARITHMETIC_UNKNOWN ? NAN : peaks->tflops[arithmetic];
}

/* NaN where one of the two is not known. */
static double longer(double a, double b) {
    return isnan(a) || isnan(b) ? NAN : fmax(a, b);
}

static void add_amount(struct build *build, const struct work *work) {
    const struct aorta_peaks *peaks = &build->roofline->peaks;
    struct group *group = group_of(build, work);
    if (!group) return;
    struct aorta_roofline_row *row = &group->row;
    const int64_t ns = work->end_ns - work->start_ns;
    const double arithmetic_ns = time_at(work->flops, peak_of(peaks, work->arithmetic));
    const double memory_ns = time_at(work->bytes, peaks->gbytes_per_s / 1e3);
    row->runs += work->runs;
    row->ns += ns;
    row->flops += work->flops;
    row->bytes += work->bytes;
    row->arithmetic_ns += arithmetic_ns;
    row->memory_ns += memory_ns;
    row->bound_ns += longer(arithmetic_ns, memory_ns);
    if (row->kernel && ns <= group->longest_ns) return;
    row->kernel = work->kernel;
    group->longest_ns = ns;
}

static void add_work(struct build *build, const struct work *work) {
    build->roofline->classes[work->class].kernels++;
    aorta_intervals_add(&build->all[work->class], work->start_ns, work->end_ns);
    if (!work->covered) return;
    aorta_intervals_add(&build->covered[work->class], work->start_ns, work->end_ns);
    add_amount(build, work);
}

/* ---- the kernels of a step ---- */

static const struct name_facts *facts_of(struct build *build, uint32_t name) {
    struct name_facts *facts = &build->names[name];
    if (facts->known) return facts;
    const char *text = aorta_trace_text(build->rank->trace, name);
    *facts = (struct name_facts){true, aorta_kernel_uses_tf32(text), aorta_kernel_work_class(text)};
    return facts;
}

/* Both are known, and so is the type of the arithmetic where there is any. */
static bool is_counted(const struct aorta_work_amount *amount) {
    return !isnan(amount->flops) && !isnan(amount->bytes) &&
           (amount->flops <= 0 || amount->arithmetic != AORTA_ARITHMETIC_UNKNOWN);
}

/* The part of a kernel within the window has that part of its operation's arithmetic. */
static struct work work_of(struct build *build, const struct aorta_trace_window *window, size_t range) {
    const struct aorta_trace_work *work = &build->rank->work[window->work[range]];
    const struct aorta_trace *trace = build->rank->trace;
    const struct name_facts *facts = facts_of(build, work->name);
    struct work part = {
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
static void add_pass(const struct aorta_trace_shape *shape, struct work work, struct build *build) {
    work.runs = true;
    work.start_ns = work.end_ns;
    work.class = AORTA_WORK_GEMM;
    work.flops = shape->amount.flops;
    work.bytes = shape->amount.bytes;
    add_amount(build, &work);
    work.class = AORTA_WORK_ATTENTION;
    work.flops = shape->attention.flops;
    work.bytes = shape->attention.bytes;
    if (work.flops > 0) add_amount(build, &work);
}

/* A pass of a unit, or a kernel of it, which is known by its name. */
static void add_part_of_pass(const struct aorta_trace_window *window, size_t range, struct build *build) {
    const struct aorta_trace *trace = build->rank->trace;
    const struct aorta_trace_work *row = &build->rank->work[window->work[range]];
    const struct aorta_trace_shape *shape = &trace->shapes[row->shape];
    const double flops = shape->amount.flops + shape->attention.flops;
    const bool kernel = shape->extent == AORTA_SHAPE_KERNEL_OF_PASS;
    const bool typed = shape->amount.arithmetic != AORTA_ARITHMETIC_UNKNOWN;
    struct work work = {.start_ns = row->start_ns,
                        .end_ns = row->end_ns,
                        .class = shape->amount.class,
                        .arithmetic = shape->amount.arithmetic,
                        .operation = aorta_trace_text(trace, shape->op),
                        .kernel = window->profile.ranges[range].info.tag};
    work.covered =
        kernel && (work.class == AORTA_WORK_GEMM || work.class == AORTA_WORK_ATTENTION) && (typed || flops <= 0);
    /* Arithmetic of a whole pass belongs to no kernel in particular: it counts for MFU only. */
    if (!kernel) build->roofline->loose_ns += time_at(flops, peak_of(&build->roofline->peaks, work.arithmetic));
    add_work(build, &work);
    if (kernel && flops > 0 && typed) add_pass(shape, work, build);
}

static bool is_part_of_pass(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    return work->shape != AORTA_TRACE_NONE && trace->shapes[work->shape].extent != AORTA_SHAPE_OPERATION;
}

static void add_window(const struct aorta_trace_window *window, struct build *build) {
    struct aorta_roofline *roofline = build->roofline;
    for (size_t i = 0; i < window->profile.range_count; i++) {
        if (window->profile.ranges[i].info.kind != AORTA_RANGE_COMPUTE) continue;
        if (is_part_of_pass(build->rank->trace, &build->rank->work[window->work[i]])) {
            add_part_of_pass(window, i, build);
            continue;
        }
        const struct work work = work_of(build, window, i);
        add_work(build, &work);
    }
    roofline->lower_bound |= build->rank->trace->on_gpu && window->profile.source == AORTA_SOURCE_RANGE;
    roofline->steps++;
    roofline->step_ns += window->overlap.lead_ns + window->overlap.span_ns;
    for (int i = 0; i < AORTA_WORK_CLASS_COUNT; i++) {
        roofline->classes[i].ns += aorta_intervals_length(&build->all[i]);
        roofline->classes[i].covered_ns += aorta_intervals_length(&build->covered[i]);
        aorta_intervals_clear(&build->all[i]);
        aorta_intervals_clear(&build->covered[i]);
    }
}

/* ---- rows and classes ---- */

/* Single precision that is faster than its peak was computed in TF32: kernels do not always say so. */
static void recognise_tf32(const struct aorta_peaks *peaks, struct aorta_roofline_row *row) {
    if (row->arithmetic != AORTA_IN_FP32 || !(row->arithmetic_ns > (double)row->ns)) return;
    const double faster_ns = time_at(row->flops, peaks->tflops[AORTA_IN_TF32]);
    if (isnan(faster_ns)) return;
    row->arithmetic = AORTA_IN_TF32;
    row->arithmetic_ns = faster_ns;
    row->bound_ns = longer(faster_ns, row->memory_ns);
}

static void add_to_class(struct aorta_roofline_class *class, const struct aorta_roofline_row *row) {
    class->flops += row->flops;
    class->bytes += row->bytes;
    class->arithmetic_ns += row->arithmetic_ns;
    class->memory_ns += row->memory_ns;
    class->bound_ns += row->bound_ns;
}

static void find_types(struct aorta_roofline *roofline, double flops[][AORTA_ARITHMETIC_COUNT + 1]) {
    for (int i = 0; i < AORTA_WORK_CLASS_COUNT; i++) {
        enum aorta_arithmetic *most = &roofline->classes[i].arithmetic;
        *most = AORTA_ARITHMETIC_UNKNOWN;
        for (int j = 0; j < AORTA_ARITHMETIC_COUNT; j++)
            if (flops[i][j] > 0 && (*most == AORTA_ARITHMETIC_UNKNOWN || flops[i][j] > flops[i][*most]))
                *most = (enum aorta_arithmetic)j;
    }
}

static double lost_ns(const struct aorta_roofline_row *row) {
    return isnan(row->bound_ns) ? 0 : (double)row->ns - row->bound_ns;
}

/* Rows are in order of what they lose. */
static void keep_row(struct aorta_roofline *roofline, const struct aorta_roofline_row *row) {
    size_t place = roofline->row_count;
    if (!(lost_ns(row) > 0)) return;
    while (place > 0 && lost_ns(&roofline->rows[place - 1]) < lost_ns(row)) place--;
    if (place == AORTA_ROOFLINE_ROWS) return;
    if (roofline->row_count == AORTA_ROOFLINE_ROWS) roofline->row_count--;
    memmove(&roofline->rows[place + 1], &roofline->rows[place], (roofline->row_count++ - place) * sizeof *row);
    roofline->rows[place] = *row;
}

static void finish(struct build *build) {
    struct aorta_roofline *roofline = build->roofline;
    double flops[AORTA_WORK_CLASS_COUNT][AORTA_ARITHMETIC_COUNT + 1] = {{0}};
    for (size_t i = 0; i < build->group_count; i++) {
        struct aorta_roofline_row *row = &build->groups[i].row;
        recognise_tf32(&roofline->peaks, row);
        add_to_class(&roofline->classes[row->class], row);
        flops[row->class][row->arithmetic] += row->flops;
        keep_row(roofline, row);
    }
    find_types(roofline, flops);
    for (size_t i = 0; i < roofline->row_count; i++) {
        struct aorta_roofline_row *row = &roofline->rows[i];
        row->operation = aorta_arena_strdup(&roofline->texts, row->operation);
        if (row->kernel) row->kernel = aorta_arena_strdup(&roofline->texts, row->kernel);
        if (row->dims) row->dims = aorta_arena_strdup(&roofline->texts, row->dims);
    }
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

/* Takes the highest measured rates of all ranks, since their devices are of one model. */
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

static void find_device(const struct aorta_trace_analysis *analysis, size_t rank, struct aorta_roofline *roofline) {
    const struct aorta_trace_device *device = device_of(&analysis->ranks[rank]);
    aorta_rank_peaks(analysis, rank, &roofline->peaks);
    if (!device || device->name == AORTA_TRACE_NONE) return;
    const char *name = aorta_trace_text(analysis->ranks[rank].trace, device->name);
    if (!name[0] && roofline->peaks.device) name = roofline->peaks.device; /* some versions of ROCm leave it empty */
    if (!name[0] && device->multiprocessors > 0 && device->memory_bytes > 0)
        roofline->device_name = aorta_arena_printf(&roofline->texts, "%d compute units, %.0f GB",
                                                   device->multiprocessors, (double)device->memory_bytes / 1e9);
    else
        roofline->device_name = aorta_arena_strdup(&roofline->texts, name);
}

aorta_status aorta_roofline_of_trace(const struct aorta_trace_analysis *analysis, size_t rank,
                                     struct aorta_roofline *roofline) {
    struct build build = {.rank = &analysis->ranks[rank], .roofline = roofline};
    memset(roofline, 0, sizeof *roofline);
    find_device(analysis, rank, roofline);
    build.names =
        aorta_arena_alloc(&build.memory, (aorta_trace_text_count(build.rank->trace) + 1) * sizeof *build.names);
    for (size_t i = 0; build.names && i < build.rank->window_count; i++)
        if (aorta_trace_window_counts(analysis, &build.rank->windows[i])) add_window(&build.rank->windows[i], &build);
    finish(&build);
    bool failed = build.memory.failed;
    for (int i = 0; i < AORTA_WORK_CLASS_COUNT; i++) {
        failed |= build.all[i].failed || build.covered[i].failed;
        aorta_intervals_free(&build.all[i]);
        aorta_intervals_free(&build.covered[i]);
    }
    aorta_table_free(&build.table);
    aorta_arena_free(&build.memory);
    roofline->texts.failed |= failed;
    aorta_status status = aorta_arena_check(&roofline->texts, "the roofline");
    if (status) aorta_roofline_free(roofline);
    return status;
}

void aorta_roofline_free(struct aorta_roofline *roofline) {
    aorta_arena_free(&roofline->texts);
    memset(roofline, 0, sizeof *roofline);
}

/* ---- several ranks ---- */

void aorta_roofline_join(const struct aorta_roofline *ranks, size_t count, struct aorta_roofline *joined) {
    memset(joined, 0, sizeof *joined);
    if (!count) return;
    joined->peaks = ranks[0].peaks;
    for (int i = 0; i < AORTA_WORK_CLASS_COUNT; i++) joined->classes[i].arithmetic = ranks[0].classes[i].arithmetic;
    for (size_t i = 0; i < count; i++) {
        joined->lower_bound |= ranks[i].lower_bound;
        joined->steps += ranks[i].steps;
        joined->step_ns += ranks[i].step_ns;
        joined->loose_ns += ranks[i].loose_ns;
        for (int j = 0; j < AORTA_WORK_CLASS_COUNT; j++) {
            struct aorta_roofline_class *sum = &joined->classes[j];
            const struct aorta_roofline_class *one = &ranks[i].classes[j];
            sum->kernels += one->kernels;
            sum->ns += one->ns;
            sum->covered_ns += one->covered_ns;
            sum->flops += one->flops;
            sum->bytes += one->bytes;
            sum->arithmetic_ns += one->arithmetic_ns;
            sum->memory_ns += one->memory_ns;
            sum->bound_ns += one->bound_ns;
        }
    }
}

/* ---- figures ---- */

static double per_ns(double amount, int64_t ns) {
    return ns > 0 && amount > 0 ? amount / (double)ns : NAN;
}

double aorta_roofline_tflops(const struct aorta_roofline_class *class) {
    return per_ns(class->flops, class->covered_ns) / 1e3;
}

double aorta_roofline_gbytes_per_s(const struct aorta_roofline_class *class) {
    return per_ns(class->bytes, class->covered_ns);
}

enum aorta_bound aorta_roofline_bound(const struct aorta_roofline_class *class) {
    if (!(class->bound_ns > 0)) return AORTA_BOUND_NOT_KNOWN;
    return class->arithmetic_ns >= class->memory_ns ? AORTA_BOUND_ARITHMETIC : AORTA_BOUND_MEMORY;
}

double aorta_roofline_share(const struct aorta_roofline_class *class) {
    if (aorta_roofline_bound(class) == AORTA_BOUND_NOT_KNOWN) return NAN;
    return per_ns(fmax(class->arithmetic_ns, class->memory_ns), class->covered_ns);
}

double aorta_roofline_covered(const struct aorta_roofline_class *class) {
    return class->ns ? (double)class->covered_ns / (double)class->ns : NAN;
}

bool aorta_roofline_share_rated(double covered) {
    static const double RATED = 0.2; /* below, the rate would be that of a few */
    return covered >= RATED;
}

bool aorta_roofline_rated(const struct aorta_roofline_class *class) {
    return aorta_roofline_share_rated(aorta_roofline_covered(class));
}

double aorta_roofline_mfu(const struct aorta_roofline *roofline, double *covered) {
    double arithmetic_ns = roofline->loose_ns;
    int64_t ns = 0, covered_ns = 0;
    for (int i = 0; i < AORTA_WORK_CLASS_COUNT; i++) {
        const struct aorta_roofline_class *class = &roofline->classes[i];
        arithmetic_ns += class->arithmetic_ns;
        if (i != AORTA_WORK_GEMM && i != AORTA_WORK_CONVOLUTION && i != AORTA_WORK_ATTENTION) continue;
        ns += class->ns;
        covered_ns += class->covered_ns;
    }
    *covered = ns ? (double)covered_ns / (double)ns : NAN;
    return per_ns(arithmetic_ns, roofline->step_ns);
}
