/* The roofline of a recorded rank: sums of work by class and by operation. Shapes come from the operations that
 * launched the kernels, or from our own recorder. */
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
    double flops, bytes;                   /* 0 except on the operation's first kernel */
    const char *operation, *dims, *kernel; /* dims NULL: unknown */
};

/* Runs of one operation and shape. */
struct group {
    struct aorta_roofline_row row; /* its kernel: the longest run */
    int64_t longest_ns;
};

/* Properties of a name, found once per text. */
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
    struct aorta_table table;                                                            /* index of groups[] */
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

/* Finds or adds a group. Groups are in order of arrival, as sums must not depend on addresses. NULL: no memory. */
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

/* ns of work at a rate in TFLOP/s or TB/s; 0 without work, even if the rate is NaN. */
static double time_at(double amount, double per_ps) {
    return amount > 0 ? amount / per_ps / 1e3 : 0;
}

static double peak_of(const struct aorta_peaks *peaks, enum aorta_arithmetic arithmetic) {
    return arithmetic == AORTA_ARITHMETIC_UNKNOWN ? NAN : peaks->tflops[arithmetic];
}

/* NaN if one of the two is unknown. */
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

/* Flops and bytes are known, and the type if there is arithmetic. */
static bool is_counted(const struct aorta_work_amount *amount) {
    return !isnan(amount->flops) && !isnan(amount->bytes) &&
           (amount->flops <= 0 || amount->arithmetic != AORTA_ARITHMETIC_UNKNOWN);
}

/* The part of a kernel within the window. It has the same part of its operation's arithmetic. */
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

/* Adds the arithmetic of a pass: of its products, and of its attention. It belongs to all kernels of these classes. */
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

/* Adds a pass of a unit, or a kernel of a pass, which has the class of its name. */
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
    /* Arithmetic of a whole pass belongs to no single kernel. It counts for MFU only. */
    if (!kernel) build->roofline->loose_ns += time_at(flops, peak_of(&build->roofline->peaks, work.arithmetic));
    add_work(build, &work);
    if (kernel && flops > 0 && typed) add_pass(shape, work, build);
}

static void add_window(const struct aorta_trace_window *window, struct build *build) {
    struct aorta_roofline *roofline = build->roofline;
    for (size_t i = 0; i < window->profile.range_count; i++) {
        if (window->profile.ranges[i].info.kind != AORTA_RANGE_COMPUTE) continue;
        const uint32_t shape = build->rank->work[window->work[i]].shape;
        if (shape != AORTA_TRACE_NONE && build->rank->trace->shapes[shape].extent != AORTA_SHAPE_OPERATION) {
            add_part_of_pass(window, i, build);
            continue;
        }
        const struct work work = work_of(build, window, i);
        add_work(build, &work);
    }
    roofline->lower_bound |= build->rank->trace->on_gpu && window->profile.source == AORTA_SOURCE_RANGE;
    roofline->steps++;
    roofline->step_ns += window->profile.overlap.lead_ns + window->profile.overlap.span_ns;
    for (int i = 0; i < AORTA_WORK_CLASS_COUNT; i++) {
        roofline->classes[i].ns += aorta_intervals_length(&build->all[i]);
        roofline->classes[i].covered_ns += aorta_intervals_length(&build->covered[i]);
        aorta_intervals_clear(&build->all[i]);
        aorta_intervals_clear(&build->covered[i]);
    }
}

/* ---- rows and classes ---- */

/* fp32 that is faster than its peak was computed in TF32, even if the kernel's name does not show it. */
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

/* Keeps the rows with the largest loss, in order. */
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
    AORTA_EACH (struct aorta_roofline_row, row, roofline->rows, roofline->row_count) {
        row->operation = aorta_arena_strdup(&roofline->texts, row->operation);
        if (row->kernel) row->kernel = aorta_arena_strdup(&roofline->texts, row->kernel);
        if (row->dims) row->dims = aorta_arena_strdup(&roofline->texts, row->dims);
    }
}

aorta_status aorta_roofline_of_trace(const struct aorta_trace_analysis *analysis, size_t rank,
                                     struct aorta_roofline *roofline) {
    struct build build = {.rank = &analysis->ranks[rank], .roofline = roofline};
    memset(roofline, 0, sizeof *roofline);
    aorta_rank_peaks(analysis, rank, &roofline->peaks);
    roofline->device_name = aorta_rank_device_name(analysis, rank, &roofline->peaks, &roofline->texts);
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

static bool is_rated(double covered) {
    static const double RATED = 0.2; /* less time is not representative */
    return covered >= RATED;
}

bool aorta_roofline_rated(const struct aorta_roofline_class *class) {
    return is_rated(aorta_roofline_covered(class));
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

/* ---- as rows of JSON, CSV and the page ---- */

static double ms_a_step(const struct aorta_roofline *roofline, double ns) {
    return ns / 1e6 / (double)roofline->steps;
}

/* ---- peaks ---- */

#define AT(member) offsetof(struct aorta_peaks, member)
const struct aorta_row aorta_roofline_peak_rows[] = {
    {"device", AORTA_ROW_TEXT, AT(device), .help = "as the table of devices calls it"},
    {"source", AORTA_ROW_TEXT, AT(source), .help = "where the rates are from"},
    {"clock", AORTA_ROW_TEXT, AT(clock), .help = "`boost`: the vendor's rates; absent where they were measured",
     .omit = true},
    {"tflops", AORTA_ROW_NUMBER, AT(tflops), "TFLOP/s", .help = "by type, without sparsity",
     .name = aorta_arithmetic_name, .names = AORTA_ARITHMETIC_COUNT},
    {"gbytes_per_s", AORTA_ROW_NUMBER, AT(gbytes_per_s), "GB/s", .help = "of the device's memory"},
    {0}};
#undef AT

static void write_peaks(const struct aorta_peaks *peaks, struct aorta_json *json) {
    if (!peaks->reason) {
        aorta_rows_object("peaks", aorta_roofline_peak_rows, peaks, 0, json);
        return;
    }
    aorta_json_key_null(json, "peaks");
    aorta_json_key_string(json, "peaks_reason", peaks->reason);
}

/* ---- all kernels ---- */

struct head_values {
    bool lower_bound;
    int64_t steps;
    double mfu, covered;
    const char *reason;
};

#define AT(member) offsetof(struct head_values, member)
const struct aorta_row aorta_roofline_head_rows[] = {
    {"rates_are_lower_bounds", AORTA_ROW_BOOL, AT(lower_bound), .help = "times of ranges contain gaps"},
    {"steps", AORTA_ROW_INT, AT(steps), .help = "that figures are means of"},
    {"mfu", AORTA_ROW_NUMBER, AT(mfu), "share", .help = "arithmetic of the step at the peak of each type, of the step"},
    {"mfu_covered_share", AORTA_ROW_NUMBER, AT(covered), "share",
     .help = "of the time of products, convolutions and attention whose arithmetic is known"},
    {"mfu_reason", AORTA_ROW_TEXT, AT(reason), .help = "why it is null", .omit = true},
    {0}};
#undef AT

static void write_head(const struct aorta_roofline *roofline, struct aorta_json *json) {
    struct head_values values = {.lower_bound = roofline->lower_bound, .steps = (int64_t)roofline->steps};
    values.mfu = aorta_roofline_mfu(roofline, &values.covered);
    const bool few = !isnan(values.covered) && !is_rated(values.covered);
    if (few) values.mfu = NAN;
    if (few && !roofline->peaks.reason)
        values.reason = "the recording has the shapes of less than a fifth of their time";
    else if (isnan(values.mfu))
        values.reason =
            roofline->peaks.reason ? roofline->peaks.reason : "no product, convolution or attention of known shape ran";
    aorta_rows_json(aorta_roofline_head_rows, &values, 0, json);
}

/* ---- classes of kernels ---- */

struct class_values {
    int class;
    double kernels, ms, tflops, gbytes_per_s, share, bound_ms, covered;
    const char *bound, *reason;
};

#define AT(member) offsetof(struct class_values, member)
const struct aorta_row aorta_roofline_class_rows[] = {
    {"kernels", AORTA_ROW_NUMBER, AT(kernels), .heading = "kernels per step", .help = "a step"},
    {"ms", AORTA_ROW_NUMBER, AT(ms), "ms", .heading = "ms per step", .help = "a step: the union of their times"},
    {"tflops", AORTA_ROW_NUMBER, AT(tflops), "TFLOP/s", .heading = "TFLOP/s", .help = "of those with known shapes"},
    {"gbytes_per_s", AORTA_ROW_NUMBER, AT(gbytes_per_s), "GB/s", .heading = "GB/s", .help = "likewise"},
    {"share_of_peak", AORTA_ROW_NUMBER, AT(share), "share", .heading = "of peak",
     .help = "of the peak that bounds them"},
    {"bound", AORTA_ROW_TEXT, AT(bound), .heading = "limited by", .help = "`arithmetic` or `memory`"},
    {"bound_ms", AORTA_ROW_NUMBER, AT(bound_ms), "ms", .heading = "ms at the peak", .help = "a step, at the peaks"},
    {"covered_share", AORTA_ROW_NUMBER, AT(covered), "share", .help = "of their time with known shapes"},
    {"reason", AORTA_ROW_TEXT, AT(reason), .help = "why figures are null", .omit = true},
    {0}};
static const struct aorta_row named_class_rows[] = {{"class", AORTA_ROW_CHOICE, AT(class), .heading = "class",
                                                     .help = "one of", .name = aorta_work_class_name,
                                                     .names = AORTA_WORK_CLASS_COUNT},
                                                    {NULL, AORTA_ROW_PART, 0, .part = aorta_roofline_class_rows},
                                                    {0}};
#undef AT

static const char *class_reason(const struct aorta_roofline *roofline, const struct aorta_roofline_class *class) {
    if (!class->covered_ns) return "the recording has no shapes of these kernels";
    if (!aorta_roofline_rated(class)) return "the recording has the shapes of less than a fifth of their time";
    return roofline->peaks.reason;
}

static enum aorta_line fill_class(const void *of, size_t index, void *values) {
    static const char *const bounds[] = {NULL, "arithmetic", "memory"};
    if (index >= AORTA_WORK_CLASS_COUNT) return AORTA_LINE_END;
    const struct aorta_roofline *roofline = of;
    const struct aorta_roofline_class *class = &roofline->classes[index];
    const bool rated = aorta_roofline_rated(class);
    if (!class->kernels) return AORTA_LINE_SKIP;
    *(struct class_values *)values =
        (struct class_values){.class = (int)index,
                              .kernels = (double)class->kernels / (double)roofline->steps,
                              .ms = ms_a_step(roofline, (double)class->ns),
                              .tflops = rated ? aorta_roofline_tflops(class) : NAN,
                              .gbytes_per_s = rated ? aorta_roofline_gbytes_per_s(class) : NAN,
                              .share = rated ? aorta_roofline_share(class) : NAN,
                              .bound = rated ? bounds[aorta_roofline_bound(class)] : NULL,
                              .bound_ms = rated ? ms_a_step(roofline, class->bound_ns) : NAN,
                              .covered = aorta_roofline_covered(class),
                              .reason = class_reason(roofline, class)};
    return AORTA_LINE;
}

/* ---- operations ---- */

struct loss_values {
    const char *operation, *dims, *kernel, *arithmetic, *bound;
    int class;
    double runs, ms, tflops, gbytes_per_s, share, lost_ms;
};

#define AT(member) offsetof(struct loss_values, member)
static const struct aorta_row loss_rows[] = {
    {"operation", AORTA_ROW_TEXT, AT(operation), .heading = "operation", .help = "of the framework, or ours"},
    {"dims", AORTA_ROW_TEXT, AT(dims), .heading = "shape", .help = "null in our own runs"},
    {"kernel", AORTA_ROW_KERNEL, AT(kernel), .heading = "kernel", .help = "the longest of it; in our own runs the tag"},
    {"class", AORTA_ROW_CHOICE, AT(class), .help = "one of", .name = aorta_work_class_name,
     .names = AORTA_WORK_CLASS_COUNT},
    {"arithmetic", AORTA_ROW_TEXT, AT(arithmetic), .help = "of its products"},
    {"runs", AORTA_ROW_NUMBER, AT(runs), .heading = "runs per step", .help = "a step"},
    {"ms", AORTA_ROW_NUMBER, AT(ms), "ms", .heading = "ms per step", .help = "a step"},
    {"tflops", AORTA_ROW_NUMBER, AT(tflops), "TFLOP/s", .heading = "TFLOP/s", .help = "while it ran"},
    {"gbytes_per_s", AORTA_ROW_NUMBER, AT(gbytes_per_s), "GB/s", .heading = "GB/s", .help = "likewise"},
    {"share_of_peak", AORTA_ROW_NUMBER, AT(share), "share", .heading = "of its bound", .help = "of its bound"},
    {"bound", AORTA_ROW_TEXT, AT(bound), .heading = "bound", .help = "`arithmetic` or `memory`"},
    {"lost_ms", AORTA_ROW_NUMBER, AT(lost_ms), "ms", .heading = "ms above the bound",
     .help = "a step, against its bound"},
    {0}};
#undef AT

static enum aorta_line fill_loss(const void *of, size_t index, void *values) {
    if (index >= ((const struct aorta_roofline *)of)->row_count) return AORTA_LINE_END;
    const struct aorta_roofline *roofline = of;
    const struct aorta_roofline_row *row = &roofline->rows[index];
    const bool typed = row->arithmetic != AORTA_ARITHMETIC_UNKNOWN;
    *(struct loss_values *)values =
        (struct loss_values){.operation = row->operation,
                             .dims = row->dims,
                             .kernel = row->kernel,
                             .arithmetic = typed ? aorta_arithmetic_name(row->arithmetic) : NULL,
                             .bound = row->arithmetic_ns >= row->memory_ns ? "arithmetic" : "memory",
                             .class = (int)row->class,
                             .runs = (double)row->runs / (double)roofline->steps,
                             .ms = ms_a_step(roofline, (double)row->ns),
                             .tflops = per_ns(row->flops, row->ns) / 1e3,
                             .gbytes_per_s = per_ns(row->bytes, row->ns),
                             .share = per_ns(row->bound_ns, row->ns),
                             .lost_ms = ms_a_step(roofline, (double)row->ns - row->bound_ns)};
    return AORTA_LINE;
}

static AORTA_TABLE(classes, "roofline_classes", "Compute by class of kernel", "kernels by what they do",
                   AORTA_LINES(named_class_rows, struct class_values, fill_class));
static AORTA_TABLE(losses, "largest_losses", "Operations that lose most against their bound",
                   "the ten operations and shapes that lose most",
                   AORTA_LINES(loss_rows, struct loss_values, fill_loss));
AORTA_TABLES(aorta_roofline_tables, &classes, &losses);

/* ---- JSON ---- */

void aorta_roofline_write(const struct aorta_roofline *roofline, struct aorta_json *json) {
    if (!roofline) {
        aorta_json_key_null(json, "roofline");
        return;
    }
    aorta_json_key_object(json, "roofline");
    aorta_json_key_string(json, "device", roofline->device_name);
    write_peaks(&roofline->peaks, json);
    write_head(roofline, json);
    aorta_json_key_object(json, "classes");
    for (int i = 0; i < AORTA_WORK_CLASS_COUNT; i++) {
        struct class_values values;
        if (fill_class(roofline, (size_t)i, &values) == AORTA_LINE)
            aorta_rows_object(aorta_work_class_name(i), aorta_roofline_class_rows, &values, 0, json);
    }
    aorta_json_object_end(json);
    aorta_table_json(&losses, roofline, json);
    aorta_json_object_end(json);
}
