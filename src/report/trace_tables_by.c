/* Device work by what launched it or what it does (--by): one table for each way. */
#include "analysis/breakdown.h"
#include "report/trace_report.h"
#include "report/trace_tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the contents of a rank's device memory at its peak (--by memory) ---- */

enum { MEMORY_LABEL_SIZE = 1024 };

struct memory_values {
    struct aorta_memory_row row;
    const char *label, *operation, *function, *module;
    double share, mb;
    char text[MEMORY_LABEL_SIZE];
};

#define AT(member) offsetof(struct memory_values, member)
static const struct aorta_row memory_rows[] = {
    {NULL, AORTA_ROW_LABEL, AT(label), .shown_only = true},
    {"use", AORTA_ROW_CHOICE, AT(row.use), .heading = "use", .name = aorta_memory_use_name,
     .names = AORTA_MEMORY_USE_COUNT, .help = "one of"},
    {"operation", AORTA_ROW_TEXT, AT(operation), .heading = "operation",
     .help = "of the framework that allocated it; null: it stood before the recording, or none did"},
    {"function", AORTA_ROW_TEXT, AT(function), .heading = "Python line",
     .help = "of the program (with_stack=True); of a gradient that of its forward pass"},
    {"module", AORTA_ROW_TEXT, AT(module), .heading = "module", .help = "of PyTorch, likewise"},
    {"bytes", AORTA_ROW_INT, AT(row.bytes), "bytes", .heading = "bytes", .help = "that stood at the peak"},
    {"blocks", AORTA_ROW_INT, AT(row.blocks), .heading = "blocks", .help = "how many"},
    {"share", AORTA_ROW_NUMBER, AT(share), "share", 6, "of the peak", .help = "of all that stood then"},
    {"mb", AORTA_ROW_NUMBER, AT(mb), .shown_only = true},
    {0}};
#undef AT

static const char *use_for_line(int use) {
    return use == AORTA_MEMORY_BEFORE ? "allocated before the recording" : aorta_memory_use_name(use);
}

static enum aorta_line fill_memory(const void *of, size_t index, void *values) {
    const struct aorta_memory *memory = trace_made_of(of);
    if (index >= memory->count) return AORTA_LINE_END;
    const struct aorta_trace *trace = trace_rank_of(of)->trace;
    const struct aorta_memory_row *row = &memory->rows[index];
    struct memory_values *out = values;
    out->row = *row;
    out->operation = trace_text_of(trace, row->operation);
    out->function = trace_text_of(trace, row->function);
    out->module = aorta_module_name(aorta_trace_text(trace, row->module));
    out->share = memory->peak_bytes ? (double)row->bytes / (double)memory->peak_bytes : NAN;
    out->mb = (double)row->bytes / 1e6;
    const char *when = row->use == AORTA_MEMORY_WORKSPACE ? " (freed soon)" : "";
    snprintf(out->text, sizeof out->text, "%s%s%s%s%s%s%s%s", use_for_line((int)row->use), when,
             out->operation ? ", " : "", out->operation ? out->operation : "", out->module ? " in " : "",
             out->module ? out->module : "", out->function ? " at " : "", out->function ? out->function : "");
    out->label = out->text;
    return AORTA_LINE;
}

static const struct aorta_column memory_columns[] = {
    {"mb", "MB", 10, .decimals = 3}, {"share", "of peak", 8, .decimals = 1}, {"blocks", "blocks", .width = 7}, {0}};
AORTA_TABLE(trace_table_by_memory, "by_memory", "At the peak of memory",
            "what stood in the device's memory when most of it was allocated, by use and by what allocated it",
            "memory", AORTA_LINES(memory_rows, struct memory_values, fill_memory), .columns = memory_columns);

/* ---- the peak itself, and memory over time ---- */

struct peak_values {
    int64_t at_ns, bytes, reserved, use[AORTA_MEMORY_USE_COUNT];
};

#define AT(member) offsetof(struct peak_values, member)
const struct aorta_row trace_memory_peak_rows[] = {
    {"at_ms", AORTA_ROW_NS, AT(at_ns),
     .help = "from the rank's first work on; negative: before it; null: before the recording"},
    {"bytes", AORTA_ROW_INT, AT(bytes), "bytes", .help = "allocated then"},
    {"reserved_bytes", AORTA_ROW_NATURAL, AT(reserved), "bytes", .help = "of the device by the allocator then"},
    {"use_bytes", AORTA_ROW_INT, AT(use), "bytes", .help = "by use", .name = aorta_memory_use_name,
     .names = AORTA_MEMORY_USE_COUNT},
    {0}};
#undef AT

static struct peak_values peak_of(const struct aorta_trace_rank *rank, const struct aorta_memory *memory) {
    const bool before = memory->peak_ns == INT64_MIN; /* the peak was before the recording */
    struct peak_values values = {.at_ns = before ? AORTA_ROW_UNKNOWN : memory->peak_ns - rank->figures.start_ns,
                                 .bytes = memory->peak_bytes,
                                 .reserved = memory->peak_reserved};
    memcpy(values.use, memory->peak_use, sizeof values.use);
    return values;
}

static void put_peak_json(const struct aorta_trace_rank *rank, const struct aorta_memory *memory,
                          struct aorta_json *json) {
    if (memory->reason) return; /* there is no peak */
    const struct peak_values values = peak_of(rank, memory);
    aorta_rows_object("memory_peak", trace_memory_peak_rows, &values, 0, json);
}

static void put_peak_text(const struct aorta_trace_rank *rank, const struct aorta_memory *memory,
                          struct aorta_text *out) {
    if (memory->reason) return;
    const struct peak_values values = peak_of(rank, memory);
    const char *separator = " ";
    aorta_text_printf(out, "peak of memory: %.1f MB, ", (double)values.bytes / 1e6);
    if (values.at_ns == AORTA_ROW_UNKNOWN)
        aorta_text_puts(out, "before the recording");
    else
        aorta_text_printf(out, "%.3f ms %s the first work", fabs((double)values.at_ns) / 1e6,
                          values.at_ns < 0 ? "before" : "after");
    if (memory->peak_reserved >= 0)
        aorta_text_printf(out, ", of %.1f MB that the allocator holds", (double)memory->peak_reserved / 1e6);
    aorta_text_puts(out, "\n ");
    for (int use = 0; use < AORTA_MEMORY_USE_COUNT; use++) {
        if (!values.use[use]) continue;
        aorta_text_printf(out, "%s%s %.1f MB", separator, use_for_line(use), (double)values.use[use] / 1e6);
        separator = ", ";
    }
    aorta_text_puts(out, "\n");
}

enum { LABEL_SIZE = 768 };

struct by_values {
    struct aorta_breakdown_row row;
    const char *label, *dims, *types;
    double share, share_within, mean_ns;
    double flops, bytes, intensity, tflops, gbytes_per_s, share_of_peak;
    const char *arithmetic, *bound;
    char text[LABEL_SIZE];
};

#define AT(member) offsetof(struct by_values, member)
#define LABEL_ROW                                                                                                      \
    { NULL, AORTA_ROW_LABEL, AT(label), .shown_only = true }
#define NAME_ROW                                                                                                       \
    { "name", AORTA_ROW_TEXT, AT(row.name), .heading = "name", .help = "null: all other work" }
static const struct aorta_row own_rows[] = {
    {"count", AORTA_ROW_INT, AT(row.pieces), .heading = "count", .help = "kernels, copies and fills"},
    {"ms", AORTA_ROW_NS, AT(row.ns), .heading = "ms", .help = "their times added up; all rows give all work"},
    {"share", AORTA_ROW_NUMBER, AT(share), "share", 9, "share", .help = "of all work"},
    {"mean_ms", AORTA_ROW_MEAN_NS, AT(mean_ns), "ms", 9, "mean ms", .help = "of one"},
    {0}};
static const struct aorta_row both_rows[] = {
    {NULL, AORTA_ROW_PART, 0, .part = own_rows},
    {"runs", AORTA_ROW_INT, AT(row.runs), .heading = "runs", .help = "of those of this name that launch anything"},
    {"count_within", AORTA_ROW_INT, AT(row.pieces_within), .heading = "count, with inner",
     .help = "with those launched by what runs within"},
    {"ms_within", AORTA_ROW_NS, AT(row.ns_within), .heading = "ms, with inner", .help = "the same of their times"},
    {"share_within", AORTA_ROW_NUMBER, AT(share_within), "share", 9, "share, with inner", .help = "of all work"},
    {0}};
static const struct aorta_row work_rows[] = {LABEL_ROW, NAME_ROW, {NULL, AORTA_ROW_PART, 0, .part = own_rows}, {0}};
static const struct aorta_row kernel_rows[] = {
    {"name", AORTA_ROW_KERNEL, AT(row.name), .heading = "kernel", .help = "its name"},
    {NULL, AORTA_ROW_PART, 0, .part = own_rows},
    {0}};
static const struct aorta_row nested_rows[] = {LABEL_ROW, NAME_ROW, {NULL, AORTA_ROW_PART, 0, .part = both_rows}, {0}};
static const struct aorta_row shape_rows[] = {
    LABEL_ROW,
    NAME_ROW,
    {"dims", AORTA_ROW_TEXT, AT(dims), .heading = "inputs", .help = "shapes of the inputs, as in the file"},
    {"types", AORTA_ROW_TEXT, AT(types), .help = "of the inputs"},
    {NULL, AORTA_ROW_PART, 0, .part = both_rows},
    {"flops", AORTA_ROW_NUMBER, AT(flops), "FLOP", .heading = "FLOP",
     .help = "of one run, of its products; null, as what follows: not known of this operation"},
    {"bytes", AORTA_ROW_NUMBER, AT(bytes), "bytes", .heading = "bytes",
     .help = "that one run reads and writes at least"},
    {"arithmetic", AORTA_ROW_TEXT, AT(arithmetic), .heading = "type", .help = "of its products"},
    {"flops_per_byte", AORTA_ROW_NUMBER, AT(intensity), .heading = "FLOP/byte", .help = "of both"},
    {"tflops", AORTA_ROW_NUMBER, AT(tflops), "TFLOP/s", .heading = "TFLOP/s", .help = "while its own kernels ran"},
    {"gbytes_per_s", AORTA_ROW_NUMBER, AT(gbytes_per_s), "GB/s", .heading = "GB/s", .help = "likewise"},
    {"share_of_peak", AORTA_ROW_NUMBER, AT(share_of_peak), "share", .heading = "of its bound",
     .help = "of the device's peak that bounds it; above 1: out of a cache; null: no peak is known"},
    {"bound", AORTA_ROW_TEXT, AT(bound), .heading = "bound", .help = "`arithmetic` or `memory`"},
    {0}};
#undef AT

static const struct aorta_column work_columns[] = {{"count", "count", .width = 7},
                                                   {"ms", "ms", 10, .decimals = 3},
                                                   {"share", "of work", 8, .decimals = 1},
                                                   {"mean_ms", "mean us", 9, 2, true},
                                                   {0}};
static const struct aorta_column nested_columns[] = {{"runs", "runs", .width = 7},
                                                     {"ms", "itself ms", 10, .decimals = 3},
                                                     {"ms_within", "in all ms", 10, .decimals = 3},
                                                     {"share_within", "of work", 8, .decimals = 1},
                                                     {0}};

static const struct aorta_column shape_columns[] = {{"runs", "runs", .width = 7},
                                                    {"ms", "itself ms", 10, .decimals = 3},
                                                    {"share", "of work", 8, .decimals = 1},
                                                    {"ms_within", "in all ms", 10, .decimals = 3},
                                                    {"tflops", "TFLOP/s", 8, .decimals = 1},
                                                    {"gbytes_per_s", "GB/s", 8, .decimals = 1},
                                                    {0}};

static double share_of(int64_t ns, int64_t all_ns) {
    return all_ns ? (double)ns / (double)all_ns : NAN;
}

/* Rates relative to the device's peaks. 0 and NaN mean no amount. */
static void fill_rates(const struct aorta_trace_of *of, const struct aorta_breakdown_row *row, struct by_values *out) {
    const double ns = (double)row->counted_ns, runs = (double)row->counted_runs;
    out->flops = out->bytes = out->intensity = out->tflops = out->gbytes_per_s = out->share_of_peak = NAN;
    if (!row->counted_runs || !row->counted_ns) return;
    const bool products = row->flops > 0, typed = row->arithmetic != AORTA_ARITHMETIC_UNKNOWN;
    out->flops = row->flops / runs;
    out->bytes = row->bytes / runs;
    if (row->bytes > 0) out->gbytes_per_s = row->bytes / ns;
    if (products) out->tflops = row->flops / ns / 1e3;
    if (products && row->bytes > 0) out->intensity = row->flops / row->bytes;
    if (products && typed) out->arithmetic = aorta_arithmetic_name(row->arithmetic);
    struct aorta_peaks peaks;
    aorta_rank_peaks(of->analysis, (size_t)(of->rank - of->analysis->ranks), &peaks);
    const double of_arithmetic = !products ? 0 : typed ? out->tflops / peaks.tflops[row->arithmetic] : NAN;
    const double of_memory = row->bytes / ns / peaks.gbytes_per_s;
    if (peaks.reason || isnan(of_arithmetic) || isnan(of_memory)) return;
    out->share_of_peak = fmax(of_arithmetic, of_memory);
    out->bound = of_arithmetic >= of_memory ? "arithmetic" : "memory";
}

static enum aorta_line fill(const void *of, size_t index, void *values) {
    const struct aorta_breakdown *breakdown = trace_made_of(of);
    if (index >= breakdown->count) return AORTA_LINE_END;
    const struct aorta_trace *trace = trace_rank_of(of)->trace;
    const struct aorta_breakdown_row *row = &breakdown->rows[index];
    struct by_values *out = values;
    out->row = *row;
    out->share = share_of(row->ns, breakdown->total_ns);
    out->mean_ns = row->pieces ? (double)row->ns / (double)row->pieces : NAN;
    out->share_within = share_of(row->ns_within, breakdown->total_ns);
    out->label = row->name ? row->name : "(not known)";
    fill_rates(of, row, out);
    if (row->inputs == AORTA_TRACE_NONE) return AORTA_LINE;
    out->dims = trace_text_of(trace, trace->inputs[row->inputs].dims);
    out->types = trace_text_of(trace, trace->inputs[row->inputs].types);
    snprintf(out->text, sizeof out->text, "%s %s", out->label, out->dims ? out->dims : "");
    out->label = out->text;
    return AORTA_LINE;
}

#define TABLE(id, title, help, rows, columns_)                                                                         \
    static AORTA_TABLE(id, #id, title, help, "kernels", AORTA_LINES(rows, struct by_values, fill), .whole = true,      \
                       .columns = (columns_))
TABLE(by_op, "By operation", "work by the operation of the framework that launched it", nested_rows, nested_columns);
TABLE(by_shape, "By operation and shape", "the same by the shapes and types of the operation's inputs", shape_rows,
      shape_columns);
TABLE(by_module, "By module", "work by PyTorch's module; gradients count for the module of their forward pass",
      nested_rows, nested_columns);
TABLE(by_function, "By Python function", "work by the program's function; gradients likewise", nested_rows,
      nested_columns);
TABLE(by_annotation, "By range of the program", "work by the range that the program had marked", nested_rows,
      nested_columns);
TABLE(by_category, "By category", "work by what it does", work_rows, work_columns);
TABLE(by_phase, "By phase", "work by the part of the step that launched it", work_rows, work_columns);
TABLE(by_kernel, "By kernel", "work by name", kernel_rows, work_columns);
#undef TABLE
AORTA_TABLES(aorta_by_tables, &by_op, &by_shape, &by_module, &by_function, &by_annotation, &by_category, &by_phase,
             &by_kernel, &trace_table_by_sequence, &trace_table_by_time, &trace_table_by_stream, &trace_table_by_memory,
             &trace_table_by_path, &trace_table_by_arrival);

/* ---- all that is asked for ---- */

enum { PARTS = 100 }; /* of time, in files and on the page */

/* The pattern of --within has been checked before. */
static void make_breakdown(const struct aorta_trace_report *report, const struct aorta_trace_rank *rank,
                           enum aorta_by by, struct trace_made *made) {
    aorta_status status = aorta_breakdown_make(rank, by, report->of, &made->arena, &made->breakdown);
    made->arena.failed |= status != NULL;
    aorta_status_free(status);
}

void trace_by_make(const struct aorta_trace_report *report, const struct aorta_trace_rank *rank, enum aorta_by by,
                   size_t lines, struct trace_made *made) {
    static const struct aorta_critical_path none = {.reason = "it was not made"};
    struct aorta_arena *memory = &made->arena;
    *made = (struct trace_made){.of = {report->analysis, rank, &made->breakdown, false}};
    if (by < AORTA_BY_BREAKDOWN_COUNT)
        make_breakdown(report, rank, by, made);
    else if (by == AORTA_BY_SEQUENCE)
        aorta_sequences_make(rank, memory, &made->sequences);
    else if (by == AORTA_BY_MEMORY)
        aorta_memory_make(rank, memory, &made->memory);
    else if (by == AORTA_BY_PATH)
        aorta_path_rows_make(report->path ? report->path : &none,
                             lines ? UINT32_MAX : (uint32_t)(rank - report->analysis->ranks), memory, &made->path);
    else if (by != AORTA_BY_ARRIVAL) /* arrivals are in the analysis */
        aorta_series_make(rank, lines ? lines : PARTS, memory, &made->series);
}

/* Why the table is empty or incomplete; NULL if it is complete. */
static const char *reason_of(const struct trace_made *made, enum aorta_by by) {
    if (by < AORTA_BY_BREAKDOWN_COUNT) return made->breakdown.reason;
    if (by == AORTA_BY_SEQUENCE) return made->sequences.reason;
    if (by == AORTA_BY_MEMORY) return made->memory.reason;
    if (by == AORTA_BY_PATH) return made->path.reason;
    if (by == AORTA_BY_ARRIVAL)
        return made->of.analysis->alignment.shared_count ? NULL : "no collective is in the files of several ranks";
    return made->series.launched ? NULL : "no work has its launch in the file: queues and delays are not known";
}

static void write_json(const struct trace_made *made, enum aorta_by by, struct aorta_json *json) {
    char key[48];
    snprintf(key, sizeof key, "%s_reason", aorta_by_tables[by]->key);
    aorta_table_json(aorta_by_tables[by], &made->of, json);
    if (by == AORTA_BY_MEMORY) put_peak_json(made->of.rank, &made->memory, json);
    if (reason_of(made, by)) aorta_json_key_string(json, key, reason_of(made, by));
}

void trace_by_json(const struct aorta_trace_report *report, const struct aorta_trace_rank *rank,
                   struct aorta_json *json) {
    for (int i = 0; i < AORTA_BY_COUNT; i++) {
        struct trace_made made;
        if (!(report->by & 1u << i)) continue;
        trace_by_make(report, rank, (enum aorta_by)i, 0, &made);
        if (!made.arena.failed) write_json(&made, (enum aorta_by)i, json);
        aorta_text_arena_end(json->out, &made.arena);
    }
    if (!report->of.phase && !report->of.within) return;
    aorta_json_key_object(json, "by_of");
    aorta_json_key_string(json, "phase", report->of.phase);
    aorta_json_key_string(json, "within", report->of.within);
    aorta_json_object_end(json);
}

static void put_some(const struct aorta_result_table *table, const struct aorta_trace_of *of,
                     const struct aorta_table_view *view, bool counted, struct aorta_text *out) {
    const size_t count = aorta_table_count(table, of);
    aorta_table_text(table, of, view, out);
    if (counted && count > view->most)
        aorta_text_printf(out, "  … and %zu more (--top %zu, --json)\n", count - view->most, count);
}

/* The title is above: "By phase, whole recording, ms", and "phase" over the names. */
static void put_text(const struct trace_made *made, enum aorta_by by, const struct aorta_table_view *view,
                     struct aorta_text *out) {
    static const char mark[] = "By ";
    const struct aorta_result_table *table = aorta_by_tables[by];
    const char *reason = reason_of(made, by);
    const bool in_ms = strncmp(table->title, mark, strlen(mark)) == 0;
    char title[128];
    struct aorta_table_view titled = *view;
    snprintf(title, sizeof title, "%s%s%s", table->title, view->whole && table->whole ? ", whole recording" : "",
             in_ms ? ", ms" : "");
    titled.title = title;
    titled.name = in_ms ? table->title + strlen(mark) : "";
    if (reason) aorta_text_printf(out, "%s: %s\n", table->title, reason);
    if (by == AORTA_BY_MEMORY) put_peak_text(made->of.rank, &made->memory, out);
    if (!reason || by == AORTA_BY_TIME) put_some(table, &made->of, &titled, !reason, out);
}

/* Per step, like the table before the verdict, which refers to this table. */
static void put_kernels(const struct aorta_trace_report *report, const struct aorta_trace_rank *rank,
                        const struct aorta_table_view *view, struct aorta_text *out) {
    const struct aorta_trace_of of = {report->analysis, rank, NULL, true};
    struct aorta_table_view stepped = *view;
    stepped.title = "By kernel, per step, ms";
    stepped.name = "kernel or copy";
    stepped.columns = trace_work_step_columns;
    put_some(&aorta_table_work, &of, &stepped, true, out);
}

void trace_by_text(const struct aorta_trace_report *report, const struct aorta_trace_rank *rank, enum aorta_by by,
                   const struct aorta_table_view *view, struct aorta_text *out) {
    struct trace_made made;
    if (by == AORTA_BY_KERNEL && report->analysis->stepped && !report->of.phase && !report->of.within) {
        put_kernels(report, rank, view, out);
        return;
    }
    trace_by_make(report, rank, by, view->most, &made);
    if (!made.arena.failed) put_text(&made, by, view, out);
    aorta_text_arena_end(out, &made.arena);
}
