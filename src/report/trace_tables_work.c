/* Tables of a rank's device work and of its host's waits: kernels, copies, matrix products, calls. */
#include "report/trace_tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 512 };

/* ---- kernels and copies ---- */

static const char *const class_names[] = {"compute", "collective", "copy", "fill"};

static const char *class_name(int class) {
    return class_names[class];
}

static int class_of(const struct aorta_trace_kernel_row *row) {
    if (row->kind == AORTA_TRACE_COPY) return 2;
    if (row->kind == AORTA_TRACE_FILL) return 3;
    return row->class == AORTA_KERNEL_COLLECTIVE;
}

struct kernel_values {
    struct aorta_trace_kernel_row row;
    const char *name;
    int class;
    double gbps, count_per_step, ms_per_step, step_share, step_p50_ns, step_p95_ns;
};

#define AT(member) offsetof(struct kernel_values, member)
/* All but the name. */
static const struct aorta_row work_rows[] = {
    {"class", AORTA_ROW_CHOICE, AT(class), .heading = "class", .name = class_name, .names = 4, .help = "one of"},
    TRACE_TIMES(AT(row.times)),
    {"share", AORTA_ROW_NUMBER, AT(row.share), "share", 9, "share", .help = "of all device work of the rank"},
    {"count_per_step", AORTA_ROW_NUMBER, AT(count_per_step), NULL, 6, "count per step",
     .help = "in the steps that the verdict is of; null: no steps are known"},
    {"ms_per_step", AORTA_ROW_NUMBER, AT(ms_per_step), "ms", 9, "ms per step", .help = "likewise"},
    {"step_p50_ms", AORTA_ROW_MEAN_NS, AT(step_p50_ns), "ms", 9, "p50 in steps ms",
     .help = "median of those that begin in these steps"},
    {"step_p95_ms", AORTA_ROW_MEAN_NS, AT(step_p95_ns), "ms", 9, .help = "likewise"},
    {"step_share", AORTA_ROW_NUMBER, AT(step_share), "share", 9, .help = "of all device work in these steps"},
    {0}};
static const struct aorta_row kernel_rows[] = {
    {"name", AORTA_ROW_KERNEL, AT(name), .heading = "kernel", .help = "of the kernel, or kind of copy"},
    {NULL, AORTA_ROW_PART, 0, .part = work_rows},
    {0}};
static const struct aorta_row copy_rows[] = {
    {"name", AORTA_ROW_KERNEL, AT(name), .heading = "copy", .help = "of the kernel, or kind of copy"},
    {NULL, AORTA_ROW_PART, 0, .part = work_rows},
    {"bytes", AORTA_ROW_NATURAL, AT(row.bytes), "bytes", .heading = "bytes", .help = "sum"},
    {"gbps", AORTA_ROW_NUMBER, AT(gbps), "GB/s", 6, "GB/s", .help = "bytes / time"},
    {0}};
#undef AT

static enum aorta_line fill_work(const void *of, size_t index, void *values) {
    if (index >= trace_rank_of(of)->kernel_count) return AORTA_LINE_END;
    const struct aorta_trace_rank *rank = trace_rank_of(of);
    const struct aorta_trace_kernel_row *row = &rank->kernels[index];
    const double steps = trace_analysis_of(of)->stepped ? (double)rank->steps : NAN;
    if (((const struct aorta_trace_of *)of)->of_steps && row->step_ns <= 0) return AORTA_LINE_SKIP;
    const bool sized = row->bytes > 0 && row->times.total_ns > 0;
    *(struct kernel_values *)values =
        (struct kernel_values){.row = *row,
                               .name = trace_text_of(rank->trace, row->name),
                               .class = class_of(row),
                               .gbps = sized ? (double)row->bytes / (double)row->times.total_ns : NAN,
                               .count_per_step = (double)row->step_count / steps,
                               .ms_per_step = (double)row->step_ns / 1e6 / steps,
                               .step_share = (double)row->step_ns / (double)rank->step_work_ns,
                               .step_p50_ns = row->step_count ? row->step_p50_ns : NAN,
                               .step_p95_ns = row->step_count ? row->step_p95_ns : NAN};
    return AORTA_LINE;
}

static enum aorta_line fill_kernel(const void *of, size_t index, void *values) {
    if (index >= trace_rank_of(of)->kernel_count) return AORTA_LINE_END;
    return trace_rank_of(of)->kernels[index].kind == AORTA_TRACE_KERNEL ? fill_work(of, index, values)
                                                                        : AORTA_LINE_SKIP;
}

static enum aorta_line fill_copy(const void *of, size_t index, void *values) {
    if (index >= trace_rank_of(of)->kernel_count) return AORTA_LINE_END;
    return trace_rank_of(of)->kernels[index].kind != AORTA_TRACE_KERNEL ? fill_work(of, index, values)
                                                                        : AORTA_LINE_SKIP;
}

static const struct aorta_column kernel_columns[] = {
    {"count", "count", .width = 7},         {"total_ms", "total ms", 9, .decimals = 3},
    {"share", "of work", 8, .decimals = 1}, {"p50_ms", "p50 us", 9, 2, true},
    {"p95_ms", "p95 us", 9, 2, true},       {0}};
AORTA_TABLE(trace_table_kernels, "kernels", "Kernels", "kernels by name", "kernels",
            AORTA_LINES(kernel_rows, struct kernel_values, fill_kernel), .whole = true);
AORTA_TABLE(trace_table_copies, "copies", "Copies", "copies and fills by kind", "kernels",
            AORTA_LINES(copy_rows, struct kernel_values, fill_copy), .whole = true);
AORTA_TABLE(aorta_table_work, "work", "kernels and copies", AORTA_LINES(kernel_rows, struct kernel_values, fill_work),
            .columns = kernel_columns);

const struct aorta_column trace_work_step_columns[] = {
    {"count_per_step", "count", 7, .decimals = 1}, {"ms_per_step", "ms", 9, .decimals = 3},
    {"step_share", "of work", 8, .decimals = 1},   {"step_p50_ms", "p50 us", 9, 2, true},
    {"step_p95_ms", "p95 us", 9, 2, true},         {0}};

/* ---- matrix products ---- */

struct gemm_values {
    struct aorta_trace_gemm_row row;
    struct aorta_product product;
    const char *kernel, *op, *dims, *types, *geometry;
    double tflops;
};

#define AT(member) offsetof(struct gemm_values, member)
static const struct aorta_row gemm_rows[] = {
    {"kernel", AORTA_ROW_KERNEL, AT(kernel), .heading = "kernel", .help = "its name"},
    {"op", AORTA_ROW_TEXT, AT(op), .heading = "operation", .help = "of the framework"},
    {"dims", AORTA_ROW_TEXT, AT(dims), .help = "of its inputs"},
    {"types", AORTA_ROW_TEXT, AT(types), .help = "of its inputs"},
    {"batch", AORTA_ROW_NATURAL, AT(product.batch), .help = "products at once"},
    {"m", AORTA_ROW_NATURAL, AT(product.m), .heading = "m", .help = "rows of the result"},
    {"n", AORTA_ROW_NATURAL, AT(product.n), .heading = "n", .help = "columns of the result"},
    {"k", AORTA_ROW_NATURAL, AT(product.k), .heading = "k", .help = "terms of each sum"},
    {"geometry", AORTA_ROW_TEXT, AT(geometry), .heading = "grid",
     .help = "blocks and threads, where the shape is not known"},
    TRACE_TIMES(AT(row.times)),
    {"flops", AORTA_ROW_NUMBER, AT(row.flops), "FLOP", .help = "of one"},
    {"tflops_p50", AORTA_ROW_NUMBER, AT(tflops), "TFLOP/s", 6, "TFLOP/s", .help = "at the median time"},
    {"runs_alone", AORTA_ROW_INT, AT(row.alone), .help = "without a collective"},
    {"runs_beside_comm", AORTA_ROW_INT, AT(row.beside), .heading = "during collectives",
     .help = "with a collective for at least half their time"},
    {"alone_p50_ms", AORTA_ROW_MEAN_NS, AT(row.alone_p50_ns), "ms", 9, .help = "their median times"},
    {"beside_comm_p50_ms", AORTA_ROW_MEAN_NS, AT(row.beside_p50_ns), "ms", 9,
     .help = "and of those during collectives"},
    {"slowdown", AORTA_ROW_NUMBER, AT(row.slowdown), NULL, 6, "slowdown",
     .help = "during collectives / alone; null below 8 of each"},
    {0}};
#undef AT

static enum aorta_line fill_gemm(const void *of, size_t index, void *values) {
    if (index >= trace_rank_of(of)->gemm_count) return AORTA_LINE_END;
    static const struct aorta_trace_shape none = {
        .op = AORTA_TRACE_NONE, .dims = AORTA_TRACE_NONE, .types = AORTA_TRACE_NONE, .product = {-1, -1, -1, -1}};
    const struct aorta_trace_rank *rank = trace_rank_of(of);
    const struct aorta_trace *trace = rank->trace;
    const struct aorta_trace_gemm_row *row = &rank->gemms[index];
    const struct aorta_trace_shape *shape = row->shape == AORTA_TRACE_NONE ? &none : &trace->shapes[row->shape];
    *(struct gemm_values *)values = (struct gemm_values){.row = *row,
                                                         .product = shape->product,
                                                         .kernel = trace_text_of(trace, row->name),
                                                         .op = trace_text_of(trace, shape->op),
                                                         .dims = trace_text_of(trace, shape->dims),
                                                         .types = trace_text_of(trace, shape->types),
                                                         .geometry = trace_text_of(trace, row->geometry),
                                                         .tflops = row->flops / row->times.p50_ns / 1e3};
    return AORTA_LINE;
}

AORTA_TABLE(trace_table_gemms, "gemms", "GEMMs", "matrix products by kernel and shape", "gemms",
            AORTA_LINES(gemm_rows, struct gemm_values, fill_gemm), .whole = true);

/* ---- calls that wait for the device ---- */

struct sync_values {
    const char *label, *call, *operation, *function, *range;
    struct aorta_trace_times times;
    double count_per_step, ms_per_step;
    char name[NAME_SIZE];
};

#define AT(member) offsetof(struct sync_values, member)
static const struct aorta_row sync_rows[] = {
    {NULL, AORTA_ROW_LABEL, AT(label), .shown_only = true},
    {"call", AORTA_ROW_TEXT, AT(call), .heading = "call", .help = "of the host"},
    {"operation", AORTA_ROW_TEXT, AT(operation), .heading = "operation", .help = "of the framework that made it"},
    {"function", AORTA_ROW_TEXT, AT(function), .heading = "function", .help = "of Python"},
    {"range", AORTA_ROW_TEXT, AT(range), .heading = "range", .help = "that the program had marked"},
    TRACE_TIMES(AT(times)),
    {"count_per_step", AORTA_ROW_NUMBER, AT(count_per_step), NULL, 6, "count per step",
     .help = "where steps are known"},
    {"ms_per_step", AORTA_ROW_NUMBER, AT(ms_per_step), "ms", 9, "ms per step", .help = "where steps are known"},
    {0}};
#undef AT

static enum aorta_line fill_sync(const void *of, size_t index, void *values) {
    if (index >= trace_rank_of(of)->sync_count) return AORTA_LINE_END;
    const struct aorta_trace_rank *rank = trace_rank_of(of);
    const struct aorta_trace_sync_row *row = &rank->syncs[index];
    struct sync_values *out = values;
    const double steps_seen = (double)rank->steps;
    out->call = trace_text_of(rank->trace, row->name);
    out->operation = trace_text_of(rank->trace, row->operation);
    out->function = trace_text_of(rank->trace, row->function);
    out->range = trace_text_of(rank->trace, row->range);
    out->times = row->times;
    out->count_per_step = (double)row->times.count / steps_seen;
    out->ms_per_step = (double)row->times.total_ns / 1e6 / steps_seen;
    out->label = aorta_trace_sync_name(rank->trace, row, out->name, sizeof out->name);
    return AORTA_LINE;
}

static const struct aorta_column sync_columns[] = {
    {"count_per_step", "count", 7, .decimals = 1},
    {"ms_per_step", "ms", 9, .decimals = 3},
    {"max_ms", "max us", 9, 2, true}, /* one long call may be most of the time */
    {0}};
AORTA_TABLE(aorta_table_synchronisations, "synchronisations", "Calls that wait", "calls that wait for the device",
            "kernels", AORTA_LINES(sync_rows, struct sync_values, fill_sync), .columns = sync_columns);

/* ---- kernels shorter than their launch ---- */

struct short_values {
    struct aorta_trace_kernel_row row;
    const char *kernel;
    double launch_ns, share;
};

#define AT(member) offsetof(struct short_values, member)
static const struct aorta_row short_rows[] = {
    {"kernel", AORTA_ROW_KERNEL, AT(kernel), .heading = "kernel", .help = "its name"},
    {"launched", AORTA_ROW_INT, AT(row.launched), .heading = "launches",
     .help = "with a launch of their own in the file"},
    {"shorter", AORTA_ROW_INT, AT(row.shorter), .heading = "shorter",
     .help = "kernels that took less than their launch"},
    {"shorter_share", AORTA_ROW_NUMBER, AT(share), "share", 6, "of the launches", .help = "shorter / launched"},
    {"mean_ms", AORTA_ROW_MEAN_NS, AT(row.times.mean_ns), "ms", 9, "kernel, mean ms",
     .help = "of all kernels of the name"},
    {"launch_mean_ms", AORTA_ROW_MEAN_NS, AT(launch_ns), "ms", 9, "launch, mean ms", .help = "of the launches"},
    {0}};
#undef AT

static enum aorta_line fill_short(const void *of, size_t index, void *values) {
    if (index >= trace_rank_of(of)->kernel_count) return AORTA_LINE_END;
    const struct aorta_trace_rank *rank = trace_rank_of(of);
    const struct aorta_trace_kernel_row *row = &rank->kernels[index];
    if (2 * row->shorter <= row->launched) return AORTA_LINE_SKIP; /* most are */
    *(struct short_values *)values = (struct short_values){.row = *row,
                                                           .kernel = trace_text_of(rank->trace, row->name),
                                                           .launch_ns = (double)row->launch_ns / (double)row->launched,
                                                           .share = (double)row->shorter / (double)row->launched};
    return AORTA_LINE;
}

static AORTA_TABLE(short_kernels, "short_kernels", "Kernels shorter than their launch",
                   "kernels of which most take less time than their launch by the host: fusing or capturing them helps",
                   "kernels", AORTA_LINES(short_rows, struct short_values, fill_short), .whole = true);

/* ---- kernels that may be communication ---- */

struct possible_values {
    struct aorta_trace_kernel_row row;
    const char *kernel, *pattern;
    char text[NAME_SIZE];
};

#define AT(member) offsetof(struct possible_values, member)
static const struct aorta_row possible_rows[] = {
    {"kernel", AORTA_ROW_KERNEL, AT(kernel), .heading = "kernel", .help = "its name"},
    {"count", AORTA_ROW_INT, AT(row.times.count), .heading = "count", .help = "how many there were"},
    {"total_ms", AORTA_ROW_NS, AT(row.times.total_ns), .heading = "total ms", .help = "their times added up"},
    {"share", AORTA_ROW_NUMBER, AT(row.share), "share", 9, "share", .help = "of all device work of the rank"},
    {"comm_pattern", AORTA_ROW_TEXT, AT(pattern), .heading = "--comm-pattern", .help = "that has it"},
    {0}};
#undef AT

static enum aorta_line fill_possible(const void *of, size_t index, void *values) {
    if (index >= trace_rank_of(of)->kernel_count) return AORTA_LINE_END;
    static const double least = 0.01;
    const struct aorta_trace_rank *rank = trace_rank_of(of);
    const struct aorta_trace_kernel_row *row = &rank->kernels[index];
    struct possible_values *out = values;
    const char *name = aorta_trace_text(rank->trace, row->name);
    if (row->class != AORTA_KERNEL_COMPUTE || row->kind != AORTA_TRACE_KERNEL || row->share < least)
        return AORTA_LINE_SKIP;
    if (!aorta_kernel_may_communicate(name)) return AORTA_LINE_SKIP;
    aorta_kernel_pattern_of(name, out->text, sizeof out->text);
    out->kernel = name;
    out->pattern = out->text;
    out->row = *row;
    return AORTA_LINE;
}

/* Distinct patterns, longest time first. */
struct possible {
    char patterns[4][NAME_SIZE];
    size_t count;
    int64_t ns;
};

static void find_all_possible(const struct aorta_trace_rank *rank, struct possible *all) {
    const struct aorta_trace_of of = {.rank = rank};
    for (size_t i = 0; i < rank->kernel_count; i++) {
        struct possible_values values = {0};
        size_t known = 0;
        if (fill_possible(&of, i, &values) != AORTA_LINE) continue;
        while (known < all->count && strcmp(all->patterns[known], values.text) != 0) known++;
        if (known == sizeof all->patterns / sizeof *all->patterns) continue;
        if (known == all->count) memcpy(all->patterns[all->count++], values.text, sizeof values.text);
        all->ns += values.row.times.total_ns;
    }
}

/* Whether the pattern also matches a kernel with a known category. */
static bool is_of_others(const struct aorta_trace_rank *rank, const char *space) {
    char pattern[NAME_SIZE];
    AORTA_EACH (const struct aorta_trace_kernel_row, row, rank->kernels, rank->kernel_count) {
        const char *name = aorta_trace_text(rank->trace, row->name);
        if (row->class != AORTA_KERNEL_COMPUTE || row->kind != AORTA_TRACE_KERNEL) continue;
        aorta_kernel_pattern_of(name, pattern, sizeof pattern);
        if (strstr(pattern, space) && aorta_kernel_category(name) != AORTA_CATEGORY_OTHER) return true;
    }
    return false;
}

/* The common namespace of all, with "::", if no other kernel is in it; else "". */
static void common_space(const struct aorta_trace_rank *rank, const struct possible *all, char *space) {
    size_t length = strlen(all->patterns[0]);
    for (size_t i = 1; i < all->count; i++)
        while (strncmp(all->patterns[0], all->patterns[i], length) != 0) length--;
    while (length > 2 && strncmp(all->patterns[0] + length - 2, "::", 2) != 0) length--;
    snprintf(space, NAME_SIZE, "%.*s", length > 2 ? (int)length : 0, all->patterns[0]);
    if (*space && is_of_others(rank, space)) *space = 0;
}

bool aorta_trace_possible_collectives(const struct aorta_trace_rank *rank, struct aorta_text *sentence) {
    struct possible all = {.count = 0};
    char space[NAME_SIZE] = "";
    find_all_possible(rank, &all);
    if (!all.count) return false;
    const bool several = all.count > 1;
    if (several) common_space(rank, &all, space);
    aorta_text_puts(sentence, all.patterns[0]);
    if (several) aorta_text_printf(sentence, " and %zu more", all.count - 1);
    aorta_text_printf(
        sentence, " (%.3f ms on rank %d) %s as compute, but may be communication by %s; if %s:", (double)all.ns / 1e6,
        rank->rank, several ? "count" : "counts", several ? "their names" : "its name", several ? "they are" : "it is");
    if (*space) aorta_text_printf(sentence, " --comm-pattern '%s'", space);
    for (size_t i = 0; !*space && i < all.count; i++)
        aorta_text_printf(sentence, " --comm-pattern '%s'", all.patterns[i]);
    return true;
}

static AORTA_TABLE(
    possible_collectives, "possible_collectives", "Kernels that may be communication",
    "kernels of a hundredth of the work and more that are called as communication is, and that no table knows",
    "kernels", AORTA_LINES(possible_rows, struct possible_values, fill_possible));

/* ---- all tables of a rank after its roofline: a new table joins at the end ---- */

AORTA_TABLES(aorta_rank_tables_after, &aorta_table_collectives, &aorta_table_collective_sizes,
             &aorta_table_synchronisations, &trace_table_streams, &trace_table_queues, &trace_table_gaps,
             &trace_table_warnings, &short_kernels, &possible_collectives);
