#include "report/trace_tables.h"
#include "report/trace_report.h"

#include <math.h>
#include <stdio.h>

/* ---- what tables share ---- */

const char *trace_text_of(const struct aorta_trace *trace, uint32_t text) {
    return text == AORTA_TRACE_NONE ? NULL : aorta_trace_text(trace, text);
}

const struct aorta_trace_rank *trace_rank_of(const void *of) {
    return ((const struct aorta_trace_of *)of)->rank;
}

const struct aorta_trace_analysis *trace_analysis_of(const void *of) {
    return ((const struct aorta_trace_of *)of)->analysis;
}

const void *trace_made_of(const void *of) {
    return ((const struct aorta_trace_of *)of)->made;
}

#define AT(member) offsetof(struct aorta_trace_times, member)
const struct aorta_row trace_times_rows[] = {
    {"count", AORTA_ROW_INT, AT(count), .heading = "count", .help = "how many there were"},
    {"total_ms", AORTA_ROW_NS, AT(total_ns), .heading = "total ms", .help = "their times added up"},
    {"mean_ms", AORTA_ROW_MEAN_NS, AT(mean_ns), "ms", 9, "mean ms", .help = "of their times"},
    {"p50_ms", AORTA_ROW_MEAN_NS, AT(p50_ns), "ms", 9, "p50 ms", .help = "the median, interpolated"},
    {"p95_ms", AORTA_ROW_MEAN_NS, AT(p95_ns), "ms", 9, "p95 ms", .help = "95% take no longer"},
    {"min_ms", AORTA_ROW_NS, AT(min_ns), .heading = "shortest ms", .help = "the shortest"},
    {"max_ms", AORTA_ROW_NS, AT(max_ns), .help = "the longest"},
    {0}};
#undef AT

/* Idle time by cause. */
struct idle_values {
    int64_t data_wait, host_sync, host_launch, launch_latency, unknown;
    const char *sync_reason, *launch_reason;
};

#define AT(member) offsetof(struct idle_values, member)
static const struct aorta_row idle_rows[] = {
    {"data_wait", AORTA_ROW_NS, AT(data_wait), .help = "the host waited for input"},
    {"host_sync", AORTA_ROW_NS, AT(host_sync), .help = "the host waited for the device", .reason_at = AT(sync_reason)},
    {"host_launch", AORTA_ROW_NS, AT(host_launch), .help = "the host had launched nothing for another reason",
     .reason_at = AT(launch_reason)},
    {"launch_latency", AORTA_ROW_NS, AT(launch_latency), .help = "launched, not started yet",
     .reason_at = AT(launch_reason)},
    {"unknown", AORTA_ROW_NS, AT(unknown), .help = "the launch is not recorded"},
    {0}};
#undef AT

static struct idle_values idle_of(const struct aorta_trace *trace, const struct aorta_idle *idle) {
    static const char no_calls[] = "calls were not recorded (--record kernels)";
    return (struct idle_values){
        .data_wait = idle->ns[AORTA_IDLE_DATA_WAIT],
        .host_sync = trace->no_waits ? AORTA_ROW_UNKNOWN : idle->ns[AORTA_IDLE_HOST_SYNC],
        .host_launch = trace->no_launches ? AORTA_ROW_UNKNOWN : idle->ns[AORTA_IDLE_HOST_LAUNCH],
        .launch_latency = trace->no_launches ? AORTA_ROW_UNKNOWN : idle->ns[AORTA_IDLE_LAUNCH_LATENCY],
        .unknown = idle->ns[AORTA_IDLE_UNKNOWN],
        .sync_reason = trace->no_launches
                           ? no_calls
                           : "waits were not recorded (--record kernels,launches): they are in host_launch",
        .launch_reason = no_calls};
}

void aorta_trace_idle_json(const struct aorta_trace *trace, const struct aorta_idle *idle, struct aorta_json *json) {
    const struct idle_values values = idle_of(trace, idle);
    aorta_rows_object("idle_causes_ms", idle_rows, &values, 0, json);
}

/* ---- ranks ---- */

#define AT(member) offsetof(struct aorta_trace_figures, member)
const struct aorta_row aorta_trace_figure_rows[] = {
    {"span_ms", AORTA_ROW_NS, AT(span_ns), .heading = "span ms", .help = "first start to last end"},
    {"busy_ms", AORTA_ROW_NS, AT(busy_ns), .help = "anything ran"},
    {"compute_ms", AORTA_ROW_NS, AT(compute_ns), .help = "compute ran"},
    {"comm_ms", AORTA_ROW_NS, AT(comm_ns), .help = "collectives ran"},
    {"memcpy_ms", AORTA_ROW_NS, AT(memcpy_ns), .help = "copies and fills ran"},
    {"idle_ms", AORTA_ROW_NS, AT(idle_ns), .help = "nothing ran"},
    {"overlap_ms", AORTA_ROW_NS, AT(overlap_ns), .help = "collectives and compute ran"},
    {"exposed_comm_ms", AORTA_ROW_NS, AT(exposed_comm_ns), .help = "collectives ran without compute"},
    {"exposed_copy_ms", AORTA_ROW_NS, AT(exposed_copy_ns), .help = "copies ran with nothing else"},
    {"overlap_ratio", AORTA_ROW_NUMBER, AT(overlap_ratio), "share", 9, .help = "overlap / communication",
     .reason = "no collective ran"},
    {"compute_overlap_ratio", AORTA_ROW_NUMBER, AT(compute_overlap_ratio), "share", 9, .help = "overlap / compute",
     .reason = "no compute ran"},
    {0}};
#undef AT

struct rank_values {
    int64_t rank;
    struct aorta_trace_figures figures;
    struct idle_values idle;
};

#define AT(member) offsetof(struct rank_values, member)
static const struct aorta_row rank_rows[] = {{"rank", AORTA_ROW_INT, AT(rank), .help = "of the job"},
                                             {NULL, AORTA_ROW_PART, AT(figures), .part = aorta_trace_figure_rows},
                                             {"idle_causes_ms", AORTA_ROW_PART, AT(idle), .part = idle_rows},
                                             {0}};
#undef AT

static enum aorta_line fill_rank(const void *of, size_t index, void *values) {
    if (index >= trace_analysis_of(of)->rank_count) return AORTA_LINE_END;
    const struct aorta_trace_rank *rank = &trace_analysis_of(of)->ranks[index];
    *(struct rank_values *)values = (struct rank_values){rank->rank, rank->figures, idle_of(rank->trace, &rank->idle)};
    return AORTA_LINE;
}

/* 80 columns in all; overlap is comm - exposed. */
static const struct aorta_column rank_columns[] = {{"rank", "rank", .width = 4},
                                                   {"span_ms", "span", 9, .decimals = 3},
                                                   {"busy_ms", "busy", 9, .decimals = 3},
                                                   {"compute_ms", "compute", 9, .decimals = 3},
                                                   {"comm_ms", "comm", 9, .decimals = 3},
                                                   {"exposed_comm_ms", "exposed", 9, .decimals = 3},
                                                   {"overlap_ratio", "hidden", 6, .decimals = 1},
                                                   {"memcpy_ms", "copies", 8, .decimals = 3},
                                                   {"idle_ms", "idle", 9, .decimals = 3},
                                                   {0}};
AORTA_TABLE(aorta_table_ranks, "ranks", "ranks", "what each rank's device did",
            AORTA_LINES(rank_rows, struct rank_values, fill_rank), .columns = rank_columns);

/* ---- steps ---- */

struct step_values {
    int64_t step, start_ns;
    struct aorta_overlap overlap;
    struct idle_values idle;
};

#define AT(member) offsetof(struct step_values, member)
static const struct aorta_row step_rows[] = {
    {"step", AORTA_ROW_INT, AT(step), .help = "its number"},
    {"start_ms", AORTA_ROW_NS, AT(start_ns), .help = "from the rank's first work on"},
    {"lead_ms", AORTA_ROW_NS, AT(overlap.lead_ns), .help = "gap before the step"},
    {"span_ms", AORTA_ROW_NS, AT(overlap.span_ns), .help = "first start to last end"},
    {"busy_ms", AORTA_ROW_NS, AT(overlap.busy_ns), .help = "as of the rank, and so on"},
    {"compute_ms", AORTA_ROW_NS, AT(overlap.compute_ns), .help = "compute ran"},
    {"comm_ms", AORTA_ROW_NS, AT(overlap.comm_ns), .help = "collectives ran"},
    {"memcpy_ms", AORTA_ROW_NS, AT(overlap.memcpy_ns), .help = "copies and fills ran"},
    {"idle_ms", AORTA_ROW_NS, AT(overlap.idle_ns), .help = "nothing ran, within the step"},
    {"overlap_ms", AORTA_ROW_NS, AT(overlap.overlap_ns), .help = "collectives and compute ran"},
    {"exposed_comm_ms", AORTA_ROW_NS, AT(overlap.exposed_comm_ns), .help = "collectives without compute"},
    {"overlap_ratio", AORTA_ROW_NUMBER, AT(overlap.overlap_ratio), "share", 9, .help = "null: no collective ran"},
    {"compute_overlap_ratio", AORTA_ROW_NUMBER, AT(overlap.compute_overlap_ratio), "share", 9,
     .help = "null: no compute ran"},
    {"idle_causes_ms", AORTA_ROW_PART, AT(idle), .part = idle_rows},
    {0}};
#undef AT

static enum aorta_line fill_step(const void *of, size_t index, void *values) {
    if (index >= trace_rank_of(of)->window_count) return AORTA_LINE_END;
    const struct aorta_trace_rank *rank = trace_rank_of(of);
    const struct aorta_trace_window *window = &rank->windows[index];
    if (window->number == INT64_MIN) return AORTA_LINE_SKIP;
    *(struct step_values *)values =
        (struct step_values){window->number, window->start_ns - rank->figures.start_ns, window->profile.overlap,
                             idle_of(rank->trace, &window->profile.overlap.idle)};
    return AORTA_LINE;
}

static AORTA_TABLE(steps, "steps", "steps", "the figures of each step",
                   AORTA_LINES(step_rows, struct step_values, fill_step));

/* ---- streams and queues ---- */

struct lane_values {
    int64_t id, context, queues;
    const char *type;
    struct aorta_trace_lane_row lane;
    double utilization;
};

#define AT(member) offsetof(struct lane_values, member)
static const struct aorta_row lane_rows[] = {
    {"count", AORTA_ROW_INT, AT(lane.count), .heading = "spans", .help = "kernels and copies"},
    {"busy_ms", AORTA_ROW_NS, AT(lane.busy_ns), .heading = "busy ms", .help = "anything ran on it"},
    {"compute_ms", AORTA_ROW_NS, AT(lane.compute_ns), .heading = "compute ms", .help = "compute ran"},
    {"comm_ms", AORTA_ROW_NS, AT(lane.comm_ns), .heading = "communication ms", .help = "collectives ran"},
    {"memcpy_ms", AORTA_ROW_NS, AT(lane.memcpy_ns), .heading = "copies ms", .help = "copies and fills ran"},
    {"utilization", AORTA_ROW_NUMBER, AT(utilization), "share", 9, "busy", .help = "of the rank's span"},
    {"overlapped_ms", AORTA_ROW_NS, AT(lane.overlapped_ns), .heading = "concurrent ms",
     .help = "two or more ran on it at once"},
    {0}};
static const struct aorta_row stream_rows[] = {
    {"stream", AORTA_ROW_INT, AT(id), .heading = "stream", .help = "the file's number"},
    {"context", AORTA_ROW_NATURAL, AT(context), .help = "of the device"},
    {NULL, AORTA_ROW_PART, 0, .part = lane_rows},
    {"queues_used", AORTA_ROW_NATURAL, AT(queues), .heading = "queues used", .help = "null: the file names no queues"},
    {0}};
static const struct aorta_row queue_rows[] = {
    {"queue", AORTA_ROW_INT, AT(id), .heading = "queue", .help = "the file's number"},
    {"type", AORTA_ROW_TEXT, AT(type), .help = "as the file calls it"},
    {NULL, AORTA_ROW_PART, 0, .part = lane_rows},
    {"streams_served", AORTA_ROW_INT, AT(lane.others), .heading = "streams served", .help = "whose work ran on it"},
    {0}};
#undef AT

static double part_of_span(const struct aorta_trace_rank *rank, const struct aorta_trace_lane_row *lane) {
    return rank->figures.span_ns ? (double)lane->busy_ns / (double)rank->figures.span_ns : NAN;
}

static enum aorta_line fill_stream(const void *of, size_t index, void *values) {
    if (index >= trace_rank_of(of)->stream_count) return AORTA_LINE_END;
    const struct aorta_trace_rank *rank = trace_rank_of(of);
    const struct aorta_trace_lane_row *lane = &rank->streams[index];
    *(struct lane_values *)values = (struct lane_values){.id = rank->trace->streams[lane->row].id,
                                                         .context = rank->trace->streams[lane->row].context,
                                                         .queues = rank->queue_count ? (int64_t)lane->others : -1,
                                                         .lane = *lane,
                                                         .utilization = part_of_span(rank, lane)};
    return AORTA_LINE;
}

static enum aorta_line fill_queue(const void *of, size_t index, void *values) {
    if (index >= trace_rank_of(of)->queue_count) return AORTA_LINE_END;
    const struct aorta_trace_rank *rank = trace_rank_of(of);
    const struct aorta_trace_lane_row *lane = &rank->queues[index];
    *(struct lane_values *)values =
        (struct lane_values){.id = rank->trace->queues[lane->row].id,
                             .type = trace_text_of(rank->trace, rank->trace->queues[lane->row].type),
                             .lane = *lane,
                             .utilization = part_of_span(rank, lane)};
    return AORTA_LINE;
}

AORTA_TABLE(trace_table_streams, "streams", "Streams", "what ran on each stream", "queues",
            AORTA_LINES(stream_rows, struct lane_values, fill_stream), .whole = true);
AORTA_TABLE(trace_table_queues, "queues", "Hardware queues", "what ran on each queue, where the file names them",
            "queues", AORTA_LINES(queue_rows, struct lane_values, fill_queue), .whole = true);

/* ---- gaps ---- */

struct gap_values {
    struct aorta_trace_gap gap;
    int64_t start_ns, duration_ns, stream;
    int cause;
    const char *next, *call, *range;
};

#define AT(member) offsetof(struct gap_values, member)
static const struct aorta_row gap_rows[] = {
    {"start_ms", AORTA_ROW_NS, AT(start_ns), .heading = "start ms", .help = "from the rank's first work on"},
    {"duration_ms", AORTA_ROW_NS, AT(duration_ns), .heading = "ms", .help = "nothing ran"},
    {"cause", AORTA_ROW_CHOICE, AT(cause), .heading = "cause", .help = "of its largest part", .name = aorta_idle_name,
     .names = AORTA_IDLE_CAUSE_COUNT},
    {"parts_ms", AORTA_ROW_NS, AT(gap.idle.ns), .help = "by cause", .name = aorta_idle_name,
     .names = AORTA_IDLE_CAUSE_COUNT},
    {"next", AORTA_ROW_KERNEL, AT(next), .heading = "next", .help = "what ran next"},
    {"stream", AORTA_ROW_INT, AT(stream), .heading = "stream", .help = "on which stream"},
    {"host_call", AORTA_ROW_TEXT, AT(call), .heading = "host call", .help = "the longest call meanwhile"},
    {"host_range", AORTA_ROW_TEXT, AT(range), .heading = "host range", .help = "that the program had marked there"},
    {"step", AORTA_ROW_INT, AT(gap.step), .heading = "step", .help = "null: in none"},
    {0}};
#undef AT

static enum aorta_line fill_gap(const void *of, size_t index, void *values) {
    if (index >= trace_rank_of(of)->gap_count) return AORTA_LINE_END;
    const struct aorta_trace_rank *rank = trace_rank_of(of);
    const struct aorta_trace *trace = rank->trace;
    const struct aorta_trace_gap *gap = &rank->gaps[index];
    const struct aorta_trace_work *next = &rank->work[gap->next];
    const bool called = gap->call != AORTA_TRACE_NONE, marked = gap->annotation != AORTA_TRACE_NONE;
    *(struct gap_values *)values = (struct gap_values){
        .start_ns = gap->start_ns - rank->figures.start_ns,
        .duration_ns = gap->end_ns - gap->start_ns,
        .stream = next->stream == AORTA_TRACE_NONE ? AORTA_ROW_UNKNOWN : trace->streams[next->stream].id,
        .gap = *gap,
        .cause = (int)aorta_idle_largest(&gap->idle),
        .next = trace_text_of(trace, next->name),
        .call = called ? trace_text_of(trace, trace->calls[gap->call].name) : NULL,
        .range = marked ? trace_text_of(trace, trace->annotations[gap->annotation].name) : NULL};
    return AORTA_LINE;
}

AORTA_TABLE(trace_table_gaps, "gaps", "Longest gaps", "the ten longest stretches in which nothing ran", "causes",
            AORTA_LINES(gap_rows, struct gap_values, fill_gap), .whole = true);

/* ---- warnings ---- */

struct warning_values {
    const char *reason, *text;
    struct aorta_trace_warning warning;
};

#define AT(member) offsetof(struct warning_values, member)
static const struct aorta_row warning_rows[] = {
    {"reason", AORTA_ROW_TEXT, AT(reason), .help = "as [trace-formats.md](trace-formats.md) has it"},
    {"count", AORTA_ROW_INT, AT(warning.count), .heading = "count", .help = "how often"},
    {"offset", AORTA_ROW_NATURAL, AT(warning.offset), "bytes", .help = "of the first in the file"},
    {"text", AORTA_ROW_TEXT, AT(text), .heading = "note", .help = "the same as a sentence"},
    {"about", AORTA_ROW_TEXT, AT(warning.about), .help = "what the first is: another file, or work"},
    {0}};
#undef AT

static enum aorta_line fill_warning(const void *of, size_t index, void *values) {
    if (index >= AORTA_REASON_COUNT) return AORTA_LINE_END;
    const struct aorta_trace_warning *warning = &trace_rank_of(of)->trace->warnings[index];
    const enum aorta_trace_reason reason = (enum aorta_trace_reason)index;
    if (!warning->count) return AORTA_LINE_SKIP;
    *(struct warning_values *)values = (struct warning_values){
        aorta_trace_reason_key(reason), aorta_trace_warning_text(trace_rank_of(of)->trace, reason), *warning};
    return AORTA_LINE;
}

AORTA_TABLE(trace_table_warnings, "warnings", "Notes of the reader", "what is odd in the file", "configuration",
            AORTA_LINES(warning_rows, struct warning_values, fill_warning));

/* ---- all of them ---- */

AORTA_TABLES(aorta_rank_tables, &steps, &trace_table_kernels, &trace_table_copies, &trace_table_gemms);
AORTA_TABLES(aorta_world_tables, &trace_table_shared_collectives, &aorta_table_differences, &trace_table_stragglers,
             &trace_table_uneven, &trace_table_pairs);

/* ---- CSV ---- */

enum { OF_ROOFLINE = AORTA_TABLE_OF_RANK - 1 };

void aorta_rank_table_csv(const struct aorta_trace_report *report, const struct aorta_result_table *table, int by,
                          struct aorta_text *csv) {
    const struct aorta_trace_analysis *analysis = report->analysis;
    const struct aorta_verdict *verdict = report->verdict;
    const size_t rooflines = verdict ? verdict->roofline_count : 0;
    aorta_table_csv_header(table, "rank", csv);
    for (size_t i = 0; i < (by == OF_ROOFLINE ? rooflines : analysis->rank_count); i++) {
        struct trace_made made = {.of = {.analysis = analysis, .rank = &analysis->ranks[i]}};
        char rank[16];
        snprintf(rank, sizeof rank, "%d", analysis->ranks[i].rank);
        if (by >= 0) trace_by_make(report, &analysis->ranks[i], (enum aorta_by)by, 0, &made);
        if (!made.arena.failed)
            aorta_table_csv_lines(table, by == OF_ROOFLINE ? (const void *)&verdict->rooflines[i] : &made.of, rank,
                                  csv);
        aorta_text_arena_end(csv, &made.arena);
    }
}

static aorta_status write_rank_csv(const struct aorta_trace_report *report, const struct aorta_result_table *table,
                                   int by, const char *folder) {
    struct aorta_text csv = {0};
    aorta_rank_table_csv(report, table, by, &csv);
    aorta_status status = aorta_csv_write(folder, table->key, &csv);
    aorta_text_free(&csv);
    return status;
}

static aorta_status write_rank_csvs(const struct aorta_trace_report *report,
                                    const struct aorta_result_table *const *tables, int by, const char *folder) {
    for (; *tables; tables++) AORTA_TRY(write_rank_csv(report, *tables, by, folder));
    return NULL;
}

aorta_status aorta_trace_report_csv(const struct aorta_trace_report *report, const char *folder) {
    const struct aorta_trace_of of = {.analysis = report->analysis};
    AORTA_TRY(aorta_table_csv(&aorta_table_ranks, &of, folder));
    if (report->verdict) AORTA_TRY(aorta_table_csv(&aorta_verdict_table, report->verdict, folder));
    AORTA_TRY(write_rank_csvs(report, aorta_rank_tables, AORTA_TABLE_OF_RANK, folder));
    AORTA_TRY(write_rank_csvs(report, aorta_rank_tables_after, AORTA_TABLE_OF_RANK, folder));
    AORTA_TRY(write_rank_csvs(report, aorta_roofline_tables, OF_ROOFLINE, folder));
    for (int i = 0; i < AORTA_BY_COUNT; i++)
        if (report->by & 1u << i) AORTA_TRY(write_rank_csv(report, aorta_by_tables[i], i, folder));
    for (size_t i = 0; aorta_world_tables[i]; i++) AORTA_TRY(aorta_table_csv(aorta_world_tables[i], &of, folder));
    return NULL;
}
