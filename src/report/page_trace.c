/* The pages of `aorta trace analyze --html` and `compare --html`: their JSON, and lanes of streams and of the threads
 * that launch. */
#include "report/page.h"
#include "report/page_lanes.h"
#include "report/trace_report.h"
#include "report/trace_tables.h"
#include "timeline/call_trees.h"
#include "verdict/verdict.h"

#include <stdio.h>
#include <stdlib.h>

enum { STREAMS_PER_RANK = 16, THREADS_PER_TRACE = 4, MOST_LANES = 256 };

static enum aorta_page_kind kind_of_work(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    if (work->kind == AORTA_TRACE_COPY) return AORTA_PAGE_COPY;
    if (work->kind == AORTA_TRACE_FILL) return AORTA_PAGE_FILL;
    if (!aorta_trace_is_collective(work)) return AORTA_PAGE_COMPUTE;
    if (work->collective != AORTA_TRACE_NONE && trace->collectives[work->collective].named)
        return aorta_page_collective(trace->collectives[work->collective].kind);
    return work->named ? aorta_page_collective((enum aorta_collective)work->by_name) : AORTA_PAGE_OTHER_COLLECTIVE;
}

static enum aorta_page_kind kind_of_call(const struct aorta_trace *trace, const struct aorta_trace_call *call) {
    if (call->kind == AORTA_CALL_DATA_WAIT || call->kind == AORTA_CALL_COLLECTIVE) return AORTA_PAGE_WAIT;
    if (aorta_trace_call_waits(trace, call)) return AORTA_PAGE_WAIT;
    if (call->kind == AORTA_CALL_OTHER || call->kind == AORTA_CALL_MEMORY) return AORTA_PAGE_OTHER_CALL;
    return AORTA_PAGE_LAUNCH;
}

/* Busiest streams first, as in the table. */
static aorta_status add_streams(const struct aorta_trace_rank *rank, int64_t shift_ns, struct aorta_page_lanes *lanes) {
    const struct aorta_trace *trace = rank->trace;
    size_t *lane_of = malloc((trace->stream_count + 1) * sizeof *lane_of), first = lanes->count;
    if (!lane_of) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu streams", trace->stream_count);
    for (size_t i = 0; i < trace->stream_count; i++) lane_of[i] = SIZE_MAX;
    aorta_status status = NULL;
    for (size_t i = 0; !status && i < rank->stream_count && i < STREAMS_PER_RANK && lanes->count < MOST_LANES; i++) {
        char label[32];
        snprintf(label, sizeof label, "stream %lld", (long long)trace->streams[rank->streams[i].row].id);
        status = aorta_page_lane_add(lanes, rank->rank, label, &lane_of[rank->streams[i].row]);
    }
    for (size_t i = 0; !status && lanes->count > first && i < rank->work_count; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        const size_t lane = work->stream == AORTA_TRACE_NONE ? SIZE_MAX : lane_of[work->stream];
        struct aorta_page_span span = {work->start_ns - shift_ns, work->end_ns - shift_ns, 0,
                                       (uint8_t)kind_of_work(trace, work)};
        if (lane == SIZE_MAX) continue;
        status = aorta_page_name(lanes, aorta_trace_text(trace, work->name), NULL, &span.name);
        if (!status) status = aorta_page_span_add(lanes, lane, span);
    }
    free(lane_of);
    return status;
}

/* Calls from the first to the last work of the rank, whose thread launches. */
static aorta_status add_threads(const struct aorta_trace_rank *rank, int64_t shift_ns, struct aorta_page_lanes *lanes) {
    const struct aorta_trace *trace = rank->trace;
    bool *launches = aorta_trace_launching_threads(trace);
    size_t *lane_of = malloc((trace->thread_count + 1) * sizeof *lane_of), threads = 0;
    aorta_status status =
        launches && lane_of ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for %zu threads", trace->thread_count);
    for (size_t i = 0; !status && i < trace->thread_count; i++) {
        char label[48];
        lane_of[i] = SIZE_MAX;
        if (!launches[i] || threads >= THREADS_PER_TRACE || lanes->count >= MOST_LANES) continue;
        snprintf(label, sizeof label, "host, thread %lld", (long long)trace->threads[i].id);
        status = aorta_page_lane_add(lanes, rank->rank, label, &lane_of[i]);
        threads++;
    }
    for (size_t i = 0; !status && i < trace->call_count; i++) {
        const struct aorta_trace_call *call = &trace->calls[i];
        if (call->thread == AORTA_TRACE_NONE || lane_of[call->thread] == SIZE_MAX) continue;
        if (call->end_ns < rank->figures.start_ns || call->start_ns > rank->figures.end_ns) continue;
        struct aorta_page_span span = {call->start_ns - shift_ns, call->end_ns - shift_ns, 0,
                                       (uint8_t)kind_of_call(trace, call)};
        status = aorta_page_name(lanes, aorta_trace_text(trace, call->name), NULL, &span.name);
        if (!status) status = aorta_page_span_add(lanes, lane_of[call->thread], span);
    }
    free(launches);
    free(lane_of);
    return status;
}

static enum aorta_page_kind kind_of_piece(const struct aorta_path_piece *piece) {
    static const uint8_t kinds[AORTA_PATH_KIND_COUNT] = {
        [AORTA_PATH_KERNEL] = AORTA_PAGE_COMPUTE, [AORTA_PATH_COLLECTIVE] = AORTA_PAGE_OTHER_COLLECTIVE,
        [AORTA_PATH_COPY] = AORTA_PAGE_COPY,      [AORTA_PATH_LAUNCH] = AORTA_PAGE_LAUNCH,
        [AORTA_PATH_BEHIND] = AORTA_PAGE_WAIT,    [AORTA_PATH_CALL] = AORTA_PAGE_OTHER_CALL,
        [AORTA_PATH_RETURN] = AORTA_PAGE_WAIT,    [AORTA_PATH_HOST] = AORTA_PAGE_OTHER_CALL,
        [AORTA_PATH_DATA] = AORTA_PAGE_WAIT,      [AORTA_PATH_UNEXPLAINED] = AORTA_PAGE_WAIT,
    };
    return (enum aorta_page_kind)kinds[piece->kind];
}

/* A lane of each rank that has a part of it. */
static aorta_status add_path(const struct aorta_trace_analysis *analysis, size_t place,
                             const struct aorta_critical_path *path, struct aorta_page_lanes *lanes) {
    const int64_t shift_ns = analysis->alignment.clocks[place].shift_ns;
    size_t lane = SIZE_MAX;
    for (size_t i = 0; path && i < path->count; i++) {
        const struct aorta_path_piece *piece = &path->pieces[i];
        if (piece->rank != place) continue;
        if (lane == SIZE_MAX) {
            if (lanes->count >= MOST_LANES) return NULL;
            AORTA_TRY(aorta_page_lane_add(lanes, analysis->ranks[place].rank, "critical path", &lane));
        }
        struct aorta_page_span span = {piece->start_ns - shift_ns, piece->end_ns - shift_ns, 0,
                                       (uint8_t)kind_of_piece(piece)};
        AORTA_TRY(aorta_page_name(lanes, aorta_path_kind_name(piece->kind), piece->name, &span.name));
        AORTA_TRY(aorta_page_span_add(lanes, lane, span));
    }
    return NULL;
}

static aorta_status gather(const struct aorta_trace_analysis *analysis, const struct aorta_critical_path *path,
                           struct aorta_page_lanes *lanes) {
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        const int64_t shift_ns = analysis->alignment.clocks[i].shift_ns;
        const bool first_of_trace = i == 0 || analysis->ranks[i - 1].trace != rank->trace;
        AORTA_TRY(add_path(analysis, i, path, lanes));
        if (first_of_trace) AORTA_TRY(add_threads(rank, shift_ns, lanes));
        AORTA_TRY(add_streams(rank, shift_ns, lanes));
        for (size_t j = 0; i == 0 && j < rank->window_count; j++)
            if (rank->windows[j].number != INT64_MIN)
                AORTA_TRY(aorta_page_step_add(lanes, rank->windows[j].start_ns - shift_ns, rank->windows[j].number));
    }
    return NULL;
}

static aorta_status write_timeline(const struct aorta_trace_analysis *analysis, const struct aorta_critical_path *path,
                                   size_t most, struct aorta_json *json) {
    struct aorta_page_lanes lanes = {0};
    aorta_status status = gather(analysis, path, &lanes);
    if (!status) status = aorta_page_lanes_write(&lanes, most, json);
    aorta_page_lanes_free(&lanes);
    return status;
}

/* Keys and values of "headline" and "results". */
static aorta_status write_results(const struct aorta_trace_report *report, struct aorta_json *json) {
    struct aorta_text results = {0};
    aorta_page_headline(report->verdict, json);
    aorta_trace_report_json(report, 0, &results);
    aorta_status status = aorta_text_check(&results);
    aorta_json_key(json, "results");
    aorta_json_text(json, results.data ? results.data : "null");
    aorta_text_free(&results);
    return status;
}

static aorta_status add_names(const struct aorta_trace_analysis *analysis, struct aorta_intern *names) {
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        for (size_t j = 0; j < rank->kernel_count; j++)
            if (!aorta_intern(names, aorta_trace_text(rank->trace, rank->kernels[j].name)))
                return AORTA_ERROR(AORTA_MEMORY, "no memory for the names of kernels");
    }
    return NULL;
}

static void write_columns(const struct aorta_result_table *const *tables, struct aorta_json *json) {
    for (; *tables; tables++) aorta_table_page_json(*tables, json);
}

/* What the page needs to show the tables of "results": headings and kinds of columns, and short names. */
static void write_tables(const struct aorta_intern *names, unsigned by, struct aorta_json *json) {
    aorta_page_short_names(names, json);
    aorta_json_key_array(json, "tables");
    write_columns(aorta_rank_tables, json);
    write_columns(aorta_rank_tables_after, json);
    for (int i = 0; i < AORTA_BY_COUNT; i++)
        if (by & 1u << i) aorta_table_page_json(aorta_by_tables[i], json);
    write_columns(aorta_world_tables, json);
    aorta_json_array_end(json);
}

static void begin(const char *kind, struct aorta_text *data, struct aorta_json *json) {
    aorta_json_begin(json, data, 0);
    aorta_json_object(json);
    aorta_json_key_int(json, "schema_version", 1);
    aorta_json_key_string(json, "kind", kind);
}

/* ---- the flame view ---- */

/* Key and value: [[parent, name, ms in all, ms itself], …], of all ranks; nodes below a five thousandth of the whole
 * are left out. */
static void write_nodes(const struct aorta_call_trees *trees, const double *within, uint32_t *numbers,
                        struct aorta_json *json) {
    static const double least = 1.0 / 5000;
    uint32_t written = 0;
    aorta_json_key_array(json, "flame");
    for (size_t i = 0; i < trees->count; i++) {
        const uint32_t parent = trees->nodes[i].parent;
        numbers[i] = UINT32_MAX;
        if (i && (numbers[parent] == UINT32_MAX || within[i] < least * within[0])) continue;
        char name[512];
        numbers[i] = written++;
        aorta_json_array(json);
        aorta_json_int(json, i ? (int64_t)numbers[parent] : -1);
        aorta_json_string(json, i ? aorta_call_trees_name(trees, (uint32_t)i, name, sizeof name) : "all work");
        aorta_json_fixed(json, within[i] / 1e6, 6);
        aorta_json_fixed(json, trees->ns[i] / 1e6, 6);
        aorta_json_array_end(json);
    }
    aorta_json_array_end(json);
}

static aorta_status write_flame(const struct aorta_trace_analysis *analysis, struct aorta_json *json) {
    const struct aorta_trace_compare_input input = {.path = "", .label = "", .analysis = analysis};
    struct aorta_call_trees trees;
    aorta_status status = aorta_call_trees_make(&input, 1, &trees);
    double *within = calloc(trees.count + 1, sizeof *within);
    uint32_t *numbers = calloc(trees.count + 1, sizeof *numbers);
    if (!status && (!within || !numbers))
        status = AORTA_ERROR(AORTA_MEMORY, "no memory for a tree of %zu operations", trees.count);
    for (size_t i = trees.count; !status && i-- > 0;) { /* parents come before their children */
        within[i] += trees.ns[i];
        if (i) within[trees.nodes[i].parent] += within[i];
    }
    if (!status && trees.any) write_nodes(&trees, within, numbers, json);
    free(within);
    free(numbers);
    aorta_call_trees_free(&trees);
    return status;
}

aorta_status aorta_trace_report_html(const struct aorta_trace_report *report, struct aorta_text *out) {
    struct aorta_text data = {0};
    struct aorta_json json;
    struct aorta_intern names = {0};
    begin("trace", &data, &json);
    aorta_status status = add_names(report->analysis, &names);
    write_tables(&names, report->by, &json);
    if (!status) status = write_results(report, &json);
    if (!status) status = write_flame(report->analysis, &json);
    aorta_json_key_array(&json, "timelines");
    if (!status) status = write_timeline(report->analysis, report->path, AORTA_PAGE_SPANS, &json);
    aorta_json_array_end(&json);
    aorta_json_object_end(&json);
    if (!status) status = aorta_page_make("AORTA: recording", &data, out);
    aorta_intern_free(&names);
    aorta_text_free(&data);
    return status;
}

/* ---- several recordings ---- */

static aorta_status write_recording(const struct aorta_trace_compare_input *input, struct aorta_json *json) {
    struct aorta_verdict verdict;
    AORTA_TRY(aorta_verdict_make(input->analysis, &verdict));
    aorta_json_object(json);
    aorta_json_key_string(json, "label", input->label);
    aorta_status status =
        write_results(&(struct aorta_trace_report){.analysis = input->analysis, .verdict = &verdict}, json);
    aorta_json_object_end(json);
    aorta_verdict_free(&verdict);
    return status;
}

aorta_status aorta_trace_comparison_html(const struct aorta_trace_comparison *comparison,
                                         const struct aorta_differences *differences, double threshold,
                                         struct aorta_text *out) {
    struct aorta_text data = {0}, results = {0};
    struct aorta_json json;
    aorta_status status = NULL;
    struct aorta_intern names = {0};
    aorta_trace_comparison_json(comparison, differences, threshold, &results);
    begin("trace_comparison", &data, &json);
    for (size_t i = 0; i < comparison->input_count && !status; i++)
        status = add_names(comparison->inputs[i].analysis, &names);
    write_tables(&names, 0, &json);
    aorta_json_key(&json, "results");
    aorta_json_text(&json, results.data ? results.data : "null");
    data.failed |= results.failed;
    aorta_json_key_array(&json, "recordings");
    for (size_t i = 0; i < comparison->input_count && !status; i++)
        status = write_recording(&comparison->inputs[i], &json);
    aorta_json_array_end(&json);
    aorta_json_key_array(&json, "timelines");
    for (size_t i = 0; i < comparison->input_count && !status; i++)
        status =
            write_timeline(comparison->inputs[i].analysis, NULL, AORTA_PAGE_SPANS / comparison->input_count, &json);
    aorta_json_array_end(&json);
    aorta_json_object_end(&json);
    if (!status) status = aorta_page_make("AORTA: recordings side by side", &data, out);
    aorta_intern_free(&names);
    aorta_text_free(&results);
    aorta_text_free(&data);
    return status;
}
