/* Device work by what launched it or what it does (--by): one table for each way. */
#include "report/trace_tables_internal.h"

#include "analysis/breakdown.h"
#include "verdict/roofline.h"

#include <math.h>
#include <stdio.h>

enum { LABEL_SIZE = 768 };

struct by_values {
    const char *label, *name, *dims, *types;
    int64_t runs, count, count_within, ns, ns_within;
    double share, share_within, mean_ns;
    double flops, bytes, intensity, tflops, gbytes_per_s, share_of_peak;
    const char *arithmetic, *bound;
    char text[LABEL_SIZE];
};

#define AT(member) offsetof(struct by_values, member)
#define LABEL_ROW                                                                                                      \
    { NULL, AORTA_ROW_LABEL, AT(label), .shown_only = true }
#define NAME_ROW                                                                                                       \
    { "name", AORTA_ROW_TEXT, AT(name), .heading = "name", .help = "null: all other work" }
#define OWN_ROWS                                                                                                       \
    {"count", AORTA_ROW_INT, AT(count), .heading = "count", .help = "kernels, copies and fills"},                      \
        {"ms", AORTA_ROW_NS, AT(ns), .heading = "ms", .help = "their times added up; all rows give all work"},         \
        {"share", AORTA_ROW_NUMBER, AT(share), "share", 9, "share", .help = "of all work"}, {                          \
        "mean_ms", AORTA_ROW_MEAN_NS, AT(mean_ns), "ms", 9, "mean ms", .help = "of one"                                \
    }
#define WITHIN_ROWS                                                                                                    \
    {"runs", AORTA_ROW_INT, AT(runs), .heading = "runs", .help = "of those of this name that launch anything"},        \
        {"count_within", AORTA_ROW_INT, AT(count_within), .heading = "count, with inner",                              \
         .help = "with those launched by what runs within"},                                                           \
        {"ms_within", AORTA_ROW_NS, AT(ns_within), .heading = "ms, with inner", .help = "the same of their times"}, {  \
        "share_within", AORTA_ROW_NUMBER, AT(share_within), "share", 9, "share, with inner", .help = "of all work"     \
    }

static const struct aorta_row work_rows[] = {LABEL_ROW, NAME_ROW, OWN_ROWS, {0}};
static const struct aorta_row kernel_rows[] = {
    {"name", AORTA_ROW_KERNEL, AT(name), .heading = "kernel", .help = "its name"}, OWN_ROWS, {0}};
static const struct aorta_row nested_rows[] = {LABEL_ROW, NAME_ROW, OWN_ROWS, WITHIN_ROWS, {0}};
static const struct aorta_row shape_rows[] = {
    LABEL_ROW,
    NAME_ROW,
    {"dims", AORTA_ROW_TEXT, AT(dims), .heading = "inputs", .help = "shapes of the inputs, as in the file"},
    {"types", AORTA_ROW_TEXT, AT(types), .help = "of the inputs"},
    OWN_ROWS,
    WITHIN_ROWS,
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
                                                   {"share", "share", 6, .decimals = 1},
                                                   {"mean_ms", "mean us", 9, 2, true},
                                                   {0}};
static const struct aorta_column nested_columns[] = {{"runs", "runs", .width = 7},
                                                     {"ms", "itself ms", 10, .decimals = 3},
                                                     {"ms_within", "in all ms", 10, .decimals = 3},
                                                     {"share_within", "share", 6, .decimals = 1},
                                                     {0}};

static const struct aorta_column shape_columns[] = {{"runs", "runs", .width = 7},
                                                    {"ms", "itself ms", 10, .decimals = 3},
                                                    {"share", "share", 6, .decimals = 1},
                                                    {"ms_within", "in all ms", 10, .decimals = 3},
                                                    {"tflops", "TFLOP/s", 8, .decimals = 1},
                                                    {"gbytes_per_s", "GB/s", 8, .decimals = 1},
                                                    {0}};

static const struct aorta_breakdown *breakdown_of(const void *of) {
    return ((const struct aorta_trace_of *)of)->made;
}

static size_t row_count(const void *of) {
    return breakdown_of(of)->count;
}

static double share_of(int64_t ns, int64_t all_ns) {
    return all_ns ? (double)ns / (double)all_ns : NAN;
}

/* Against the device's peaks; 0 and NaN: there is no such amount. */
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

static bool fill(const void *of, size_t index, void *values) {
    const struct aorta_breakdown *breakdown = breakdown_of(of);
    const struct aorta_trace *trace = trace_rank_of(of)->trace;
    const struct aorta_breakdown_row *row = &breakdown->rows[index];
    struct by_values *out = values;
    out->name = row->name;
    out->runs = (int64_t)row->runs;
    out->count = (int64_t)row->pieces;
    out->ns = row->ns;
    out->share = share_of(row->ns, breakdown->total_ns);
    out->mean_ns = row->pieces ? (double)row->ns / (double)row->pieces : NAN;
    out->count_within = (int64_t)row->pieces_within;
    out->ns_within = row->ns_within;
    out->share_within = share_of(row->ns_within, breakdown->total_ns);
    out->label = row->name ? row->name : "(not known)";
    fill_rates(of, row, out);
    if (row->inputs == AORTA_TRACE_NONE) return true;
    out->dims = trace_text_of(trace, trace->inputs[row->inputs].dims);
    out->types = trace_text_of(trace, trace->inputs[row->inputs].types);
    snprintf(out->text, sizeof out->text, "%s %s", out->label, out->dims ? out->dims : "");
    out->label = out->text;
    return true;
}

#define TABLE(id, title_, help_, rows_, columns_)                                                                      \
    static const struct aorta_result_table id = {.key = #id,                                                           \
                                                 .title = (title_),                                                    \
                                                 .help = (help_),                                                      \
                                                 .section = "kernels",                                                 \
                                                 .rows = (rows_),                                                      \
                                                 .size = sizeof(struct by_values),                                     \
                                                 .count = row_count,                                                   \
                                                 .fill = fill,                                                         \
                                                 .whole = true,                                                        \
                                                 .columns = (columns_)}
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

const struct aorta_result_table *const aorta_by_tables[] = {&by_op,
                                                            &by_shape,
                                                            &by_module,
                                                            &by_function,
                                                            &by_annotation,
                                                            &by_category,
                                                            &by_phase,
                                                            &by_kernel,
                                                            &trace_table_by_sequence,
                                                            &trace_table_by_time,
                                                            &trace_table_by_stream,
                                                            &trace_table_by_memory,
                                                            &trace_table_by_path,
                                                            &trace_table_by_arrival,
                                                            NULL};

/* ---- all that is asked for ---- */

enum { PARTS = 100 }; /* of time, in files and on the page */

/* What a table is made of beside its rank. */
struct source {
    const struct trace_by *from;
    uint32_t place; /* of the rank; UINT32_MAX: all */
    size_t parts;
};

static aorta_status make(const struct aorta_trace_rank *rank, enum aorta_by by, const struct source *source,
                         union trace_made *made) {
    static const struct aorta_critical_path none = {.reason = "it was not made"};
    if (by < AORTA_BY_BREAKDOWN_COUNT) return aorta_breakdown_make(rank, by, source->from->of, &made->breakdown);
    if (by == AORTA_BY_SEQUENCE) return aorta_sequences_make(rank, &made->sequences);
    if (by == AORTA_BY_MEMORY) return aorta_memory_make(rank, &made->memory);
    if (by == AORTA_BY_PATH)
        return aorta_path_rows_make(source->from->path ? source->from->path : &none, source->place, &made->path);
    if (by == AORTA_BY_ARRIVAL) return NULL; /* it is in the analysis */
    return aorta_series_make(rank, source->parts, &made->series);
}

static void end(enum aorta_by by, union trace_made *made) {
    if (by < AORTA_BY_BREAKDOWN_COUNT)
        aorta_breakdown_free(&made->breakdown);
    else if (by == AORTA_BY_SEQUENCE)
        aorta_sequences_free(&made->sequences);
    else if (by == AORTA_BY_MEMORY)
        aorta_memory_free(&made->memory);
    else if (by == AORTA_BY_PATH)
        aorta_path_rows_free(&made->path);
    else if (by != AORTA_BY_ARRIVAL)
        aorta_series_free(&made->series);
}

/* Why the table says nothing, or not all that it could; NULL: it says all. */
static const char *reason_of(const struct aorta_trace_analysis *analysis, enum aorta_by by,
                             const union trace_made *made) {
    if (by < AORTA_BY_BREAKDOWN_COUNT) return made->breakdown.reason;
    if (by == AORTA_BY_SEQUENCE) return made->sequences.reason;
    if (by == AORTA_BY_MEMORY) return made->memory.reason;
    if (by == AORTA_BY_PATH) return made->path.reason;
    if (by == AORTA_BY_ARRIVAL)
        return analysis->alignment.shared_count ? NULL : "no collective is in the files of several ranks";
    return made->series.launched ? NULL : "no work has its launch in the file: queues and delays are not known";
}

static uint32_t place_of(const struct aorta_trace_of *of) {
    return (uint32_t)(of->rank - of->analysis->ranks);
}

static void write_json(const struct aorta_trace_of *of, enum aorta_by by, const struct trace_by *from,
                       struct aorta_json *json) {
    union trace_made made;
    const struct aorta_trace_of whole = {of->analysis, of->rank, &made};
    aorta_status status = make(of->rank, by, &(struct source){from, place_of(of), PARTS}, &made);
    if (status) {
        json->out->failed = true;
        aorta_status_free(status);
        return;
    }
    aorta_table_json(aorta_by_tables[by], &whole, json);
    if (by == AORTA_BY_MEMORY) trace_memory_peak_json(of->rank, &made.memory, json);
    if (reason_of(of->analysis, by, &made)) {
        char key[48];
        snprintf(key, sizeof key, "%s_reason", aorta_by_tables[by]->key);
        aorta_json_key_string(json, key, reason_of(of->analysis, by, &made));
    }
    end(by, &made);
}

void aorta_trace_by_json(const struct aorta_trace_of *of, unsigned by, const struct trace_by *from,
                         struct aorta_json *json) {
    for (int i = 0; i < AORTA_BY_COUNT; i++)
        if (by & 1u << i) write_json(of, (enum aorta_by)i, from, json);
    if (!from->of.phase && !from->of.within) return;
    aorta_json_key(json, "by_of");
    aorta_json_object(json);
    aorta_json_key_string(json, "phase", from->of.phase);
    aorta_json_key_string(json, "within", from->of.within);
    aorta_json_object_end(json);
}

static aorta_status add_csv(const struct aorta_trace_analysis *analysis, size_t place, enum aorta_by by,
                            const struct trace_by *from, struct aorta_text *csv) {
    union trace_made made;
    char rank[16];
    snprintf(rank, sizeof rank, "%d", analysis->ranks[place].rank);
    AORTA_TRY(make(&analysis->ranks[place], by, &(struct source){from, (uint32_t)place, PARTS}, &made));
    aorta_table_csv_lines(aorta_by_tables[by], &(struct aorta_trace_of){analysis, &analysis->ranks[place], &made}, rank,
                          csv);
    end(by, &made);
    return NULL;
}

aorta_status aorta_trace_by_csv(const struct aorta_trace_analysis *analysis, enum aorta_by by,
                                const struct trace_by *from, const char *folder) {
    struct aorta_text csv = {0};
    aorta_status status = NULL;
    aorta_table_csv_header(aorta_by_tables[by], "rank", &csv);
    for (size_t i = 0; i < analysis->rank_count && !status; i++) status = add_csv(analysis, i, by, from, &csv);
    if (!status) status = aorta_csv_write(folder, aorta_by_tables[by]->key, &csv);
    aorta_text_free(&csv);
    return status;
}

aorta_status aorta_trace_by_text(const struct aorta_trace_of *of, enum aorta_by by, const struct trace_by *from,
                                 const struct aorta_table_view *view, struct aorta_text *out) {
    union trace_made made;
    AORTA_TRY(make(of->rank, by, &(struct source){from, UINT32_MAX, view->most}, &made));
    const struct aorta_result_table *table = aorta_by_tables[by];
    const struct aorta_trace_of whole = {of->analysis, of->rank, &made};
    const char *reason = reason_of(of->analysis, by, &made);
    const size_t count = table->count(&whole);
    if (reason) aorta_text_printf(out, "%s: %s\n", table->title, reason);
    if (by == AORTA_BY_MEMORY) trace_memory_peak_text(of->rank, &made.memory, out);
    if (!reason || by == AORTA_BY_TIME) aorta_table_text(table, &whole, view, out);
    if (!reason && count > view->most)
        aorta_text_printf(out, "  … and %zu more (--top %zu, --json)\n", count - view->most, count);
    end(by, &made);
    return NULL;
}
