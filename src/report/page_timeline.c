/* Lanes of a recording: its streams, communication that nothing hides, and the threads that launch. */
#include "report/page_lanes.h"
#include "report/page_recordings.h"

#include <stdio.h>
#include <string.h>

enum { STREAMS_PER_RANK = 16, THREADS_PER_TRACE = 4, MOST_LANES = 256 };

static enum aorta_page_kind kind_of_work(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    if (work->kind == AORTA_TRACE_COPY) return AORTA_PAGE_COPY;
    if (work->kind == AORTA_TRACE_FILL) return AORTA_PAGE_FILL;
    if (!aorta_trace_is_collective(work)) return AORTA_PAGE_COMPUTE;
    return aorta_page_collective(aorta_trace_collective_kind(trace, work));
}

static enum aorta_page_kind kind_of_call(const struct aorta_trace *trace, const struct aorta_trace_call *call) {
    if (call->kind == AORTA_CALL_DATA_WAIT || call->kind == AORTA_CALL_COLLECTIVE) return AORTA_PAGE_WAIT;
    if (aorta_trace_call_waits(trace, call)) return AORTA_PAGE_WAIT;
    if (call->kind == AORTA_CALL_OTHER || call->kind == AORTA_CALL_MEMORY) return AORTA_PAGE_OTHER_CALL;
    return AORTA_PAGE_LAUNCH;
}

/* ---- the lanes of a rank ---- */

/* Where a rank's times lie in the lanes. */
static int64_t shift_of(const struct aorta_trace_analysis *analysis, size_t place) {
    if (!analysis->common_clock) return analysis->ranks[place].figures.start_ns; /* ranks begin together */
    return analysis->alignment.clocks[place].shift_ns;
}

/* Of steps that our recorder measured: what each stream is for. NULL: not known. */
static const char *role_of(const struct aorta_trace_rank *rank, uint32_t stream) {
    for (size_t i = 0; i < rank->window_count; i++) {
        const struct aorta_trace_window *window = &rank->windows[i];
        for (size_t j = 0; window->borrowed && j < window->profile.range_count; j++)
            if (rank->work[window->work[j]].stream == stream)
                return aorta_role_name(window->profile.ranges[j].info.role);
    }
    return NULL;
}

static void name_stream(const struct aorta_trace_rank *rank, uint32_t stream, char *label, size_t size) {
    const char *role = role_of(rank, stream);
    snprintf(label, size, "stream %lld%s%s%s", (long long)rank->trace->streams[stream].id, role ? " (" : "",
             role ? role : "", role ? ")" : "");
}

/* Busiest streams first, as in the table. */
static void add_streams(const struct aorta_trace_rank *rank, int64_t shift_ns, struct aorta_page_lanes *lanes) {
    const struct aorta_trace *trace = rank->trace;
    struct aorta_arena scratch = {0};
    size_t *lane_of = aorta_arena_raw(&scratch, trace->stream_count * sizeof *lane_of), first = lanes->count;
    for (size_t i = 0; lane_of && i < trace->stream_count; i++) lane_of[i] = SIZE_MAX;
    for (size_t i = 0; lane_of && i < rank->stream_count && i < STREAMS_PER_RANK && lanes->count < MOST_LANES; i++) {
        char label[48];
        name_stream(rank, rank->streams[i].row, label, sizeof label);
        lane_of[rank->streams[i].row] = aorta_page_lane_add(lanes, rank->rank, label, false);
    }
    for (size_t i = 0; lanes->count > first && i < rank->work_count; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        if (work->stream == AORTA_TRACE_NONE || lane_of[work->stream] == SIZE_MAX) continue;
        const uint32_t name = aorta_page_name(lanes, aorta_trace_text(trace, work->name), NULL);
        aorta_page_span_add(lanes, lane_of[work->stream],
                            (struct aorta_page_span){work->start_ns - shift_ns, work->end_ns - shift_ns, name,
                                                     (uint8_t)kind_of_work(trace, work)});
    }
    lanes->names.failed |= scratch.failed;
    aorta_arena_free(&scratch);
}

/* Windows of steps that our recorder measured have the clock of their step, others that of the lanes. */
static void add_exposed(const struct aorta_trace_rank *rank, int64_t shift_ns, struct aorta_page_lanes *lanes) {
    size_t lane = SIZE_MAX;
    uint32_t name = 0;
    for (size_t i = 0; i < rank->window_count; i++) {
        const struct aorta_trace_window *window = &rank->windows[i];
        const int64_t ns = window->borrowed ? window->start_ns - window->profile.start_ns - shift_ns : 0;
        for (size_t j = 0; j < window->overlap.exposed_count; j++) {
            const struct aorta_exposed *exposed = &window->overlap.exposed[j];
            if (lane == SIZE_MAX) {
                lane = aorta_page_lane_add(lanes, rank->rank, "exposed communication", true);
                name = aorta_page_name(lanes, "communication without compute", NULL);
            }
            aorta_page_span_add(
                lanes, lane,
                (struct aorta_page_span){exposed->start_ns + ns, exposed->end_ns + ns, name, AORTA_PAGE_EXPOSED});
        }
    }
}

/* Calls from the first to the last work of the rank, whose thread launches. */
static void add_threads(const struct aorta_trace_rank *rank, int64_t shift_ns, struct aorta_page_lanes *lanes) {
    const struct aorta_trace *trace = rank->trace;
    struct aorta_arena scratch = {0};
    const bool *launches = aorta_trace_launching_threads(trace, &scratch);
    size_t *lane_of = aorta_arena_raw(&scratch, trace->thread_count * sizeof *lane_of), threads = 0;
    for (size_t i = 0; lane_of && i < trace->thread_count; i++) {
        char label[48];
        lane_of[i] = SIZE_MAX;
        if (!launches[i] || threads >= THREADS_PER_TRACE || lanes->count >= MOST_LANES) continue;
        snprintf(label, sizeof label, "host thread %lld", (long long)trace->threads[i].id);
        lane_of[i] = aorta_page_lane_add(lanes, rank->rank, label, false);
        threads++;
    }
    for (size_t i = 0; lane_of && i < trace->call_count; i++) {
        const struct aorta_trace_call *call = &trace->calls[i];
        if (call->thread == AORTA_TRACE_NONE || lane_of[call->thread] == SIZE_MAX) continue;
        if (call->end_ns < rank->figures.start_ns || call->start_ns > rank->figures.end_ns) continue;
        const uint32_t name = aorta_page_name(lanes, aorta_trace_text(trace, call->name), NULL);
        aorta_page_span_add(lanes, lane_of[call->thread],
                            (struct aorta_page_span){call->start_ns - shift_ns, call->end_ns - shift_ns, name,
                                                     (uint8_t)kind_of_call(trace, call)});
    }
    lanes->names.failed |= scratch.failed;
    aorta_arena_free(&scratch);
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
static void add_path(const struct aorta_trace_analysis *analysis, size_t place, const struct aorta_critical_path *path,
                     struct aorta_page_lanes *lanes) {
    const int64_t shift_ns = shift_of(analysis, place);
    size_t lane = SIZE_MAX;
    for (size_t i = 0; path && i < path->count; i++) {
        const struct aorta_path_piece *piece = &path->pieces[i];
        if (piece->rank != place) continue;
        if (lane == SIZE_MAX) {
            if (lanes->count >= MOST_LANES) return;
            lane = aorta_page_lane_add(lanes, analysis->ranks[place].rank, "critical path", true);
        }
        const uint32_t name = aorta_page_name(lanes, aorta_path_kind_name(piece->kind), piece->name);
        aorta_page_span_add(lanes, lane,
                            (struct aorta_page_span){piece->start_ns - shift_ns, piece->end_ns - shift_ns, name,
                                                     (uint8_t)kind_of_piece(piece)});
    }
}

/* ---- all of them ---- */

static void gather(const struct aorta_trace_report *report, struct aorta_page_lanes *lanes) {
    const struct aorta_trace_analysis *analysis = report->analysis;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        const int64_t shift_ns = shift_of(analysis, i);
        const bool first_of_trace = i == 0 || analysis->ranks[i - 1].trace != rank->trace;
        add_path(analysis, i, report->path, lanes);
        if (first_of_trace) add_threads(rank, shift_ns, lanes);
        add_streams(rank, shift_ns, lanes);
        add_exposed(rank, shift_ns, lanes);
        for (size_t j = 0; i == 0 && j < rank->window_count; j++)
            if (rank->windows[j].number != INT64_MIN)
                aorta_page_step_add(lanes, rank->windows[j].start_ns - shift_ns, rank->windows[j].number);
    }
}

void aorta_page_step(const struct aorta_trace_analysis *analysis, size_t window, size_t most, struct aorta_json *json) {
    const struct aorta_trace_rank *rank = analysis->ranks;
    const int64_t shift_ns = shift_of(analysis, 0);
    struct aorta_page_lanes lanes = {0};
    add_threads(rank, shift_ns, &lanes);
    add_streams(rank, shift_ns, &lanes);
    add_exposed(rank, shift_ns, &lanes);
    aorta_page_lanes_cut(&lanes, rank->windows[window].start_ns - shift_ns, rank->windows[window].end_ns - shift_ns);
    aorta_page_lanes_write(&lanes, most, json);
    aorta_page_lanes_free(&lanes);
}

void aorta_page_timeline(const struct aorta_trace_report *report, size_t most, struct aorta_json *json) {
    struct aorta_page_lanes lanes = {0};
    if (report->analysis) gather(report, &lanes);
    aorta_page_lanes_write(&lanes, most, json);
    aorta_page_lanes_free(&lanes);
}
