/* The analysis as JSON; docs/metrics-format.md lists the keys. Milliseconds with six decimals are exact nanoseconds. */
#include "report/trace_report.h"
#include "report/trace_tables_internal.h"
#include "report/verdict_text.h"

/* Tables that the page shows by itself have a line for each step or collective; others are short. */
static void write_tables(const struct aorta_result_table *const *tables, const struct aorta_trace_of *of,
                         size_t most_lines, struct aorta_json *json) {
    for (; *tables; tables++) aorta_table_json_some(*tables, of, (*tables)->section ? 0 : most_lines, json);
}

/* ---- ranks ---- */

/* As the roofline names it, since files may give cards no name. */
static const char *device_name(const struct aorta_verdict *verdict, size_t place) {
    return place < verdict->roofline_count ? verdict->rooflines[place].device_name : NULL;
}

struct rank_values {
    int64_t rank, device;
    const char *file, *format, *device_name;
    struct aorta_trace_figures figures;
};

#define AT(member) offsetof(struct rank_values, member)
const struct aorta_row aorta_trace_rank_rows[] = {
    {"rank", AORTA_ROW_INT, AT(rank), .help = "of the job"},
    {"file", AORTA_ROW_TEXT, AT(file), .help = "its recording"},
    {"format", AORTA_ROW_TEXT, AT(format), .help = "of the file"},
    {"device", AORTA_ROW_INT, AT(device), .help = "the file's number"},
    {"device_name", AORTA_ROW_TEXT, AT(device_name), .help = "null: the file does not say"},
    {NULL, AORTA_ROW_PART, AT(figures), .part = aorta_trace_figure_rows},
    {0}};
#undef AT

struct clock_values {
    int64_t shift_ns, residual_ns, shared, late, late_ns;
};

#define AT(member) offsetof(struct clock_values, member)
const struct aorta_row aorta_trace_clock_rows[] = {
    {"shift_ns", AORTA_ROW_INT, AT(shift_ns), "ns", .help = "taken from its times, so that the ranks' clocks agree"},
    {"residual_ns", AORTA_ROW_INT, AT(residual_ns), "ns",
     .help = "half of its collectives end within that of the other ranks'"},
    {"shared_collectives", AORTA_ROW_INT, AT(shared), .help = "collectives that this was found with"},
    {"came_last", AORTA_ROW_INT, AT(late), .help = "collectives that waited for this rank"},
    {"late_ms", AORTA_ROW_NS, AT(late_ns), .help = "how late it was, in all"},
    {0}};
#undef AT

static void write_clock(struct aorta_json *json, const struct aorta_align_clock *clock) {
    const struct clock_values values = {clock->shift_ns,
                                        clock->residual_ns < 0 ? AORTA_ROW_UNKNOWN : clock->residual_ns,
                                        (int64_t)clock->shared, (int64_t)clock->late, clock->late_ns};
    aorta_rows_object("clock", aorta_trace_clock_rows, &values, 0, json);
}

static void write_rank(struct aorta_json *json, const struct aorta_trace_report *report, size_t place) {
    const struct aorta_trace_analysis *analysis = report->analysis;
    const struct aorta_verdict *verdict = report->verdict;
    const struct aorta_trace_rank *rank = &analysis->ranks[place];
    const struct aorta_trace_of of = {analysis, rank, NULL};
    const struct rank_values values = {rank->rank,
                                       rank->device,
                                       rank->trace->path,
                                       aorta_trace_format_name(rank->trace->format),
                                       device_name(verdict, place),
                                       rank->figures};
    aorta_json_object(json);
    aorta_rows_json(aorta_trace_rank_rows, &values, 0, json);
    aorta_trace_idle_json(rank->trace, &rank->idle, json);
    if (analysis->rank_count > 1) write_clock(json, &analysis->alignment.clocks[place]);
    if (rank->stamps) {
        aorta_json_key_int(json, "stamps", rank->stamps);
        aorta_json_key_ms(json, "stamps_ms", rank->stamps_ns);
    }
    aorta_json_key_string(json, "steps_by",
                          rank->trace->step_count ? aorta_step_source_name(rank->trace->steps_by) : NULL);
    write_tables(aorta_rank_tables, &of, report->most_lines, json);
    aorta_roofline_write(place < verdict->roofline_count ? &verdict->rooflines[place] : NULL, json);
    write_tables(aorta_rank_tables_after, &of, report->most_lines, json);
    aorta_trace_by_json(&of, report->by, &(struct trace_by){report->path, report->of}, json);
    aorta_json_object_end(json);
}

/* ---- all of it ---- */

struct slowdown_values {
    double ratio;
    int64_t shapes, by_grid, samples_alone, samples_beside;
    const char *reason;
};

#define AT(member) offsetof(struct slowdown_values, member)
const struct aorta_row aorta_trace_slowdown_rows[] = {
    {"ratio", AORTA_ROW_NUMBER, AT(ratio), .help = "time beside collectives / alone, of equal products"},
    {"shapes", AORTA_ROW_INT, AT(shapes), .help = "that ran both ways"},
    {"by_grid", AORTA_ROW_INT, AT(by_grid), .help = "of these, known by their grid only"},
    {"samples_alone", AORTA_ROW_INT, AT(samples_alone), .help = "products alone"},
    {"samples_beside", AORTA_ROW_INT, AT(samples_beside), .help = "and beside collectives"},
    {"reason", AORTA_ROW_TEXT, AT(reason), .help = "why there is no ratio"},
    {0}};
#undef AT

void aorta_trace_slowdown_json(const struct aorta_slowdown *slowdown, struct aorta_json *json) {
    const struct slowdown_values values = {slowdown->ratio,
                                           (int64_t)slowdown->shapes,
                                           (int64_t)slowdown->by_grid,
                                           (int64_t)slowdown->samples_alone,
                                           (int64_t)slowdown->samples_beside,
                                           slowdown->reason};
    aorta_rows_object("gemm_slowdown", aorta_trace_slowdown_rows, &values, 0, json);
}

void aorta_trace_report_json(const struct aorta_trace_report *report, int indent, struct aorta_text *out) {
    const struct aorta_trace_analysis *analysis = report->analysis;
    const struct aorta_verdict *verdict = report->verdict;
    struct aorta_json json;
    aorta_json_begin(&json, out, indent);
    aorta_json_object(&json);
    aorta_json_key_int(&json, "schema_version", 2);
    aorta_json_key_array(&json, "ranks");
    for (size_t i = 0; i < analysis->rank_count; i++) write_rank(&json, report, i);
    aorta_json_array_end(&json);
    write_tables(aorta_world_tables, &(struct aorta_trace_of){analysis, NULL, NULL}, report->most_lines, &json);
    aorta_trace_slowdown_json(&verdict->slowdown, &json);
    aorta_json_key_string(&json, "judged", analysis->stepped ? "steps" : "recording");
    aorta_json_key_int(&json, "warmup_steps", (int64_t)analysis->warmup);
    aorta_json_key_fixed(&json, "judged_ms_mean", verdict->step_ms_mean, 9);
    aorta_json_key_fixed(&json, "step_ms_p10", verdict->step_ms_p10, 9);
    aorta_json_key_fixed(&json, "step_ms_p90", verdict->step_ms_p90, 9);
    aorta_json_key_fixed(&json, "step_busy_ms", verdict->step_ms_mean - verdict->idle_ms, 9);
    aorta_json_key_fixed(&json, "step_comm_ms", verdict->comm_ms, 9);
    aorta_json_key_fixed(&json, "step_exposed_comm_ms", verdict->exposed_ms, 9);
    aorta_json_key_double(&json, "step_overlap_ratio", verdict->overlap_ratio);
    aorta_verdict_json(verdict, &json);
    aorta_json_key_int(&json, "ranks_missing", verdict->ranks_missing);
    aorta_json_key_int(&json, "ranks_outside", (int64_t)analysis->ranks_outside);
    aorta_json_key_string(&json, "remark", verdict->note);
    if (report->machine) aorta_recorded_machine_json(report->machine, &json);
    aorta_json_object_end(&json);
    aorta_text_puts(out, "\n");
}
