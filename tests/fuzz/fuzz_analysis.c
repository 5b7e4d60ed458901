/* Any JSON traces that can be read give figures that add up, a verdict, and text, JSON and page of both. A byte 0
 * separates the traces of two ranks; the first byte asks for steps. */
#include "analysis/breakdown.h"
#include "analysis/series.h"
#include "fuzz.h"
#include "json_memory.h"
#include "replay/critical_path.h"
#include "report/page_recordings.h"
#include "trace/captures.h"
#include "trace/infer.h"
#include "trace/operation_inputs.h"
#include "trace/reader.h"
#include "verdict/verdict.h"

static void read_part(const uint8_t *data, size_t size, const char *name, struct aorta_trace_list *list) {
    static const struct aorta_trace_options options = {.recover = true, .functions = true};
    struct aorta_json_stream *stream;
    aorta_status status = json_memory((const char *)data, size, 0, name, &stream);
    fuzz_require(!status);
    aorta_status_free(aorta_trace_read_json(stream, &options, list));
    aorta_json_stream_close(stream);
}

static void check_rank(const struct aorta_trace_rank *rank) {
    const struct aorta_trace_figures *figures = &rank->figures;
    int64_t blamed_ns = 0;
    fuzz_require(figures->busy_ns + figures->idle_ns == figures->span_ns);
    fuzz_require(figures->overlap_ns <= figures->comm_ns && figures->overlap_ns <= figures->compute_ns);
    fuzz_require(figures->overlap_ns + figures->exposed_comm_ns == figures->comm_ns);
    fuzz_require(aorta_idle_total(&rank->idle) == figures->idle_ns);
    for (size_t i = 0; i < rank->collective_count; i++) blamed_ns += rank->collectives[i].blamed_ns;
    fuzz_require(blamed_ns == figures->exposed_comm_ns);
}

/* Each piece of work counts once in itself, and no more than once within anything. */
static void check_breakdowns(const struct aorta_trace_rank *rank) {
    for (int by = 0; by < AORTA_BY_BREAKDOWN_COUNT; by++) {
        struct aorta_arena arena = {0};
        struct aorta_breakdown breakdown;
        int64_t sum_ns = 0;
        aorta_status status =
            aorta_breakdown_make(rank, (enum aorta_by)by, (struct aorta_breakdown_of){0}, &arena, &breakdown);
        fuzz_require(!status);
        for (size_t i = 0; i < breakdown.count; i++) {
            sum_ns += breakdown.rows[i].ns;
            fuzz_require(breakdown.rows[i].ns <= breakdown.rows[i].ns_within);
            fuzz_require(breakdown.rows[i].ns_within <= breakdown.total_ns);
        }
        fuzz_require(sum_ns == breakdown.total_ns);
        aorta_arena_free(&arena);
    }
}

/* Work within a range is a part of all work. */
static void check_within(const struct aorta_trace_rank *rank) {
    struct aorta_arena arena = {0};
    struct aorta_breakdown whole, part;
    aorta_status status = aorta_breakdown_make(rank, AORTA_BY_KERNEL, (struct aorta_breakdown_of){0}, &arena, &whole);
    fuzz_require(!status);
    status =
        aorta_breakdown_make(rank, AORTA_BY_KERNEL, (struct aorta_breakdown_of){.within = "[aN] *\\["}, &arena, &part);
    fuzz_require(!status);
    fuzz_require(part.count <= whole.count && part.total_ns <= whole.total_ns);
    aorta_arena_free(&arena);
}

/* Parts of time hold all of it, once. */
static void check_series(const struct aorta_trace_rank *rank) {
    struct aorta_arena arena = {0};
    struct aorta_series series;
    int64_t compute_ns = 0, comm_ns = 0, overlap_ns = 0;
    aorta_series_make(rank, 7, &arena, &series);
    fuzz_require(!arena.failed);
    for (size_t i = 0; i < series.count; i++) {
        fuzz_require(series.parts[i].start_ns <= series.parts[i].end_ns);
        fuzz_require(!i || series.parts[i].start_ns == series.parts[i - 1].end_ns);
        compute_ns += series.parts[i].compute_ns;
        comm_ns += series.parts[i].comm_ns;
        overlap_ns += series.parts[i].overlap_ns;
    }
    fuzz_require(compute_ns == rank->figures.compute_ns && comm_ns == rank->figures.comm_ns);
    fuzz_require(overlap_ns == rank->figures.overlap_ns);
    aorta_arena_free(&arena);
}

static void check_counters(const struct aorta_trace_rank *rank) {
    struct aorta_arena arena = {0};
    struct aorta_counters counters;
    aorta_counters_make(rank, &arena, &counters);
    fuzz_require(!arena.failed);
    for (int kind = 0; kind < AORTA_COUNTER_COUNT; kind++)
        for (size_t i = 1; i < counters.of[kind].count; i++)
            fuzz_require(counters.of[kind].points[i - 1].at_ns < counters.of[kind].points[i].at_ns);
    aorta_arena_free(&arena);
}

/* What stood at the peak is what its rows have. */
static void check_memory(const struct aorta_trace_rank *rank) {
    struct aorta_arena arena = {0};
    struct aorta_memory memory;
    int64_t rows = 0, uses = 0;
    aorta_memory_make(rank, &arena, &memory);
    fuzz_require(!arena.failed);
    for (size_t i = 0; i < memory.count; i++) rows += memory.rows[i].bytes;
    for (int use = 0; use < AORTA_MEMORY_USE_COUNT; use++) uses += memory.peak_use[use];
    fuzz_require(uses == memory.peak_bytes && (rows == memory.peak_bytes || !memory.peak_bytes));
    aorta_arena_free(&arena);
}

static void print(const struct aorta_trace_report *report) {
    struct aorta_text text = {0}, json = {0}, page = {0}, by = {0};
    aorta_trace_report_text(report, NULL, &text);
    aorta_trace_report_json(report, 0, &json);
    const struct aorta_page_recording recording = {.label = "recording", .report = *report};
    const struct aorta_page_recordings whole = {.title = "page", .items = &recording, .count = 1};
    struct aorta_json data;
    aorta_json_begin(&data, &page, 0);
    aorta_page_recordings_json(&whole, &data);
    aorta_trace_report_by(report, NULL, &by);
    fuzz_require(!page.failed && !text.failed && !by.failed);
    fuzz_require_json(json.data);
    fuzz_require_json(page.data);
    aorta_text_free(&text);
    aorta_text_free(&json);
    aorta_text_free(&page);
    aorta_text_free(&by);
}

static aorta_status analyse(struct aorta_trace_list *list, bool all_steps) {
    const struct aorta_trace_analysis_options options = {.all_steps = all_steps};
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    AORTA_TRY(aorta_trace_join_captures(list));
    for (size_t i = 0; i < list->count; i++) AORTA_TRY(aorta_trace_count_requests(list->items[i]));
    AORTA_TRY(aorta_trace_mark_steps(list, NULL));
    AORTA_TRY(aorta_trace_infer_steps(list));
    AORTA_TRY(aorta_trace_analyze(list, &options, &analysis));
    for (size_t i = 0; i < analysis.rank_count; i++) {
        check_rank(&analysis.ranks[i]);
        check_breakdowns(&analysis.ranks[i]);
        check_within(&analysis.ranks[i]);
        check_series(&analysis.ranks[i]);
        check_counters(&analysis.ranks[i]);
        check_memory(&analysis.ranks[i]);
    }
    aorta_status status = aorta_verdict_make(&analysis, &verdict);
    if (!status) {
        struct aorta_critical_path path;
        status = aorta_critical_path_make(&analysis, &path);
        fuzz_require(!status);
        for (size_t p = 0; p < path.count; p++) fuzz_require(path.pieces[p].start_ns < path.pieces[p].end_ns);
        print(&(struct aorta_trace_report){
            .analysis = &analysis, .verdict = &verdict, .by = (1u << AORTA_BY_COUNT) - 1, .top = 3, .path = &path});
        aorta_critical_path_free(&path);
        aorta_verdict_free(&verdict);
    }
    aorta_trace_analysis_free(&analysis);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    const struct fuzz_halves halves = fuzz_split(data + 1, size - 1);
    struct aorta_trace_list list = {0};
    read_part(halves.first.data, halves.first.size, "rank0.json", &list);
    if (halves.second.size) read_part(halves.second.data, halves.second.size, "rank1.json", &list);
    aorta_status status = analyse(&list, data[0] & 1);
    if (status && !strstr(aorta_status_message(status), "json") && !strstr(aorta_status_message(status), "--step") &&
        !strstr(aorta_status_message(status), "the list")) {
        fprintf(stderr, "no file is named: %s\n", aorta_status_message(status));
        abort();
    }
    aorta_status_free(status);
    aorta_trace_list_free(&list);
    return 0;
}
