/* Lanes of a recording: streams, exposed communication, and threads that launch. */
#include "analysis/compare.h"
#include "base/arena.h"
#include "base/array.h"
#include "base/sort.h"
#include "report/page_recordings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- gathering ---- */

uint32_t aorta_page_name(struct aorta_page_lanes *lanes, const char *first, const char *second) {
    const char *const pair[] = {first, second};
    const size_t before = lanes->named.count;
    const uint32_t number = aorta_texts_add(&lanes->named, (const char *)pair, sizeof pair);
    lanes->names.failed |= number == UINT32_MAX;
    if (lanes->names.failed) return 0;
    if (number == before) {
        struct aorta_text whole = {0};
        struct aorta_json json;
        aorta_text_printf(&whole, "%s%s%s", first, second ? " " : "", second ? second : "");
        if (number) aorta_text_puts(&lanes->names, ",");
        aorta_json_begin(&json, &lanes->names, 0);
        aorta_json_string(&json, whole.data);
        aorta_text_end(&whole, &lanes->names);
    }
    return number + 1;
}

size_t aorta_page_lane_add(struct aorta_page_lanes *lanes, int rank, const char *label, bool derived) {
    struct aorta_page_lane lane = {.rank = rank, .derived = derived};
    snprintf(lane.label, sizeof lane.label, "%.47s", label);
    lanes->names.failed |= !aorta_array_append(&lanes->items, &lanes->capacity, &lanes->count, &lane, sizeof lane);
    return lanes->names.failed ? SIZE_MAX : lanes->count - 1;
}

void aorta_page_span_add(struct aorta_page_lanes *lanes, size_t place, struct aorta_page_span span) {
    struct aorta_page_lane *lane = place == SIZE_MAX ? NULL : &lanes->items[place];
    if (lane)
        lanes->names.failed |= !aorta_array_append(&lane->spans, &lane->capacity, &lane->count, &span, sizeof span);
}

static void add_step(struct aorta_page_lanes *lanes, int64_t start_ns, int64_t number) {
    const struct aorta_page_step step = {start_ns, number};
    lanes->names.failed |=
        !aorta_array_append(&lanes->steps, &lanes->step_capacity, &lanes->step_count, &step, sizeof step);
}

static void cut_lanes(struct aorta_page_lanes *lanes, int64_t from_ns, int64_t to_ns) {
    AORTA_EACH (struct aorta_page_lane, lane, lanes->items, lanes->count) {
        size_t stays = 0;
        for (size_t j = 0; j < lane->count; j++) {
            struct aorta_page_span span = lane->spans[j];
            if (span.end_ns <= from_ns || span.start_ns >= to_ns) continue;
            if (span.start_ns < from_ns) span.start_ns = from_ns;
            if (span.end_ns > to_ns) span.end_ns = to_ns;
            lane->spans[stays++] = span;
        }
        lane->count = stays;
    }
}

void aorta_page_lanes_free(struct aorta_page_lanes *lanes) {
    for (size_t i = 0; i < lanes->count; i++) free(lanes->items[i].spans);
    free(lanes->items);
    free(lanes->steps);
    aorta_texts_free(&lanes->named);
    aorta_text_free(&lanes->names);
    memset(lanes, 0, sizeof *lanes);
}

/* ---- thinning: neighbours of one kind that are closer than can be seen become one ---- */

static void sort(struct aorta_page_lane *lane) {
    for (size_t i = 1; i < lane->count; i++)
        if (lane->spans[i].start_ns < lane->spans[i - 1].start_ns) {
            qsort(lane->spans, lane->count, sizeof *lane->spans, aorta_by_int64_pair);
            return;
        }
}

static bool joins(const struct aorta_page_span *last, const struct aorta_page_span *next, int64_t closer_ns) {
    return last->kind == next->kind && next->start_ns - last->end_ns < closer_ns;
}

static size_t count_joined(const struct aorta_page_lanes *lanes, int64_t closer_ns) {
    size_t count = 0;
    AORTA_EACH (const struct aorta_page_lane, lane, lanes->items, lanes->count)
        for (size_t j = 0; j < lane->count; j++)
            count += j == 0 || !joins(&lane->spans[j - 1], &lane->spans[j], closer_ns);
    return count;
}

static void join(struct aorta_page_lane *lane, int64_t closer_ns) {
    size_t count = 0;
    for (size_t i = 0; i < lane->count; i++) {
        struct aorta_page_span *last = count ? &lane->spans[count - 1] : NULL;
        if (!last || !joins(last, &lane->spans[i], closer_ns)) {
            lane->spans[count++] = lane->spans[i];
            continue;
        }
        if (lane->spans[i].end_ns > last->end_ns) last->end_ns = lane->spans[i].end_ns;
        last->name = 0;
    }
    lane->count = count;
}

/* Returns the distance below which neighbours were joined; 0 if none were. */
static int64_t thin(struct aorta_page_lanes *lanes, int64_t length_ns, size_t most) {
    size_t all = 0;
    int64_t closer_ns = 1000;
    for (size_t i = 0; i < lanes->count; i++) all += lanes->items[i].count;
    if (all <= most) return 0;
    while (closer_ns < length_ns && count_joined(lanes, closer_ns) > most) closer_ns *= 2;
    for (size_t i = 0; i < lanes->count; i++) join(&lanes->items[i], closer_ns);
    return closer_ns;
}

/* ---- writing ---- */

/* Seven bits a byte, the lowest first; the eighth says that more follow (as in LEB128). */
static size_t put_number(uint64_t value, unsigned char *bytes) {
    size_t count = 0;
    for (; value >= 0x80; value >>= 7) bytes[count++] = (unsigned char)(value | 0x80);
    bytes[count++] = (unsigned char)value;
    return count;
}

static void put_base64(const unsigned char *bytes, size_t count, char *text) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3, text += 4) {
        const uint32_t three = (uint32_t)bytes[i] << 16 | (i + 1 < count ? (uint32_t)bytes[i + 1] << 8 : 0) |
                               (i + 2 < count ? bytes[i + 2] : 0);
        text[0] = letters[three >> 18];
        text[1] = letters[three >> 12 & 63];
        text[2] = i + 1 < count ? letters[three >> 6 & 63] : '=';
        text[3] = i + 2 < count ? letters[three & 63] : '=';
    }
    *text = '\0';
}

/* For each span: start after the start before it, length, name and kind. */
static void write_spans(const struct aorta_page_lane *lane, int64_t origin_ns, struct aorta_json *json) {
    enum { BYTES_PER_SPAN = 26, KIND_BITS = 4 };
    struct aorta_arena scratch = {0};
    unsigned char *bytes = aorta_arena_raw(&scratch, lane->count * BYTES_PER_SPAN);
    char *text = aorta_arena_raw(&scratch, lane->count * BYTES_PER_SPAN * 4 / 3 + 8);
    size_t length = 0;
    int64_t last_ns = origin_ns;
    for (size_t i = 0; text && i < lane->count; i++) {
        const struct aorta_page_span *span = &lane->spans[i];
        length += put_number((uint64_t)(span->start_ns - last_ns), bytes + length);
        length += put_number((uint64_t)(span->end_ns - span->start_ns), bytes + length);
        length += put_number((uint64_t)span->name << KIND_BITS | span->kind, bytes + length);
        last_ns = span->start_ns;
    }
    if (text) put_base64(bytes, length, text);
    aorta_json_key_string(json, "spans", text);
    aorta_text_arena_end(json->out, &scratch);
}

static void find_ends(const struct aorta_page_lanes *lanes, int64_t *start_ns, int64_t *end_ns) {
    *start_ns = INT64_MAX;
    *end_ns = INT64_MIN;
    AORTA_EACH (const struct aorta_page_lane, lane, lanes->items, lanes->count) {
        if (lane->count && lane->spans[0].start_ns < *start_ns) *start_ns = lane->spans[0].start_ns;
        for (size_t j = 0; j < lane->count; j++)
            if (lane->spans[j].end_ns > *end_ns) *end_ns = lane->spans[j].end_ns;
    }
    if (*end_ns < *start_ns) *start_ns = *end_ns = 0;
}

void aorta_page_lanes_write(struct aorta_page_lanes *lanes, size_t most, struct aorta_json *json) {
    int64_t start_ns, end_ns;
    for (size_t i = 0; i < lanes->count; i++) sort(&lanes->items[i]);
    find_ends(lanes, &start_ns, &end_ns);
    const int64_t thinned_ns = thin(lanes, end_ns - start_ns, most);
    aorta_json_object(json);
    aorta_json_key_int(json, "length_ns", end_ns - start_ns);
    aorta_json_key_int(json, "thinned_ns", thinned_ns);
    aorta_json_key_array(json, "steps");
    for (size_t i = 0; i < lanes->step_count; i++) {
        aorta_json_array(json);
        aorta_json_int(json, lanes->steps[i].start_ns - start_ns);
        aorta_json_int(json, lanes->steps[i].number);
        aorta_json_array_end(json);
    }
    aorta_json_array_end(json);
    aorta_json_key_array(json, "lanes");
    for (size_t i = 0; i < lanes->count; i++) {
        if (!lanes->items[i].count) continue;
        aorta_json_object(json);
        aorta_json_key_int(json, "rank", lanes->items[i].rank);
        aorta_json_key_string(json, "label", lanes->items[i].label);
        if (lanes->items[i].derived) aorta_json_key_bool(json, "derived", true);
        aorta_json_key_int(json, "count", (int64_t)lanes->items[i].count);
        write_spans(&lanes->items[i], start_ns, json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
    aorta_json_key_array(json, "names");
    if (lanes->names.length) aorta_text_append(json->out, lanes->names.data, lanes->names.length);
    aorta_json_array_end(json);
    aorta_json_object_end(json);
    json->out->failed |= lanes->names.failed;
}

enum { STREAMS_PER_RANK = 16, THREADS_PER_TRACE = 4, MOST_LANES = 256 };

static enum aorta_page_kind kind_of_work(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    if (work->kind == AORTA_TRACE_COPY) return AORTA_PAGE_COPY;
    if (work->kind == AORTA_TRACE_FILL) return AORTA_PAGE_FILL;
    if (!aorta_trace_is_collective(work)) return AORTA_PAGE_COMPUTE;
    const enum aorta_collective kind = aorta_trace_collective_kind(trace, work);
    if (kind == AORTA_ALL_GATHER) return AORTA_PAGE_ALL_GATHER;
    if (kind == AORTA_REDUCE_SCATTER) return AORTA_PAGE_REDUCE_SCATTER;
    return kind == AORTA_ALL_REDUCE ? AORTA_PAGE_ALL_REDUCE : AORTA_PAGE_OTHER_COLLECTIVE;
}

static enum aorta_page_kind kind_of_call(const struct aorta_trace *trace, const struct aorta_trace_call *call) {
    if (call->kind == AORTA_CALL_DATA_WAIT || call->kind == AORTA_CALL_COLLECTIVE) return AORTA_PAGE_WAIT;
    if (aorta_trace_call_waits(trace, call)) return AORTA_PAGE_WAIT;
    if (call->kind == AORTA_CALL_OTHER || call->kind == AORTA_CALL_MEMORY) return AORTA_PAGE_OTHER_CALL;
    return AORTA_PAGE_LAUNCH;
}

/* ---- the lanes of a rank ---- */

/* The shift from a rank's times to those of the lanes. */
static int64_t shift_of(const struct aorta_trace_analysis *analysis, size_t place) {
    if (!analysis->common_clock) return analysis->ranks[place].figures.start_ns; /* ranks begin together */
    return analysis->alignment.clocks[place].shift_ns;
}

/* The role of a stream; NULL if unknown, as in recordings of other programs. */
static const char *role_of(const struct aorta_trace_rank *rank, uint32_t stream) {
    AORTA_EACH (const struct aorta_trace_window, window, rank->windows, rank->window_count) {
        for (size_t j = 0; window->borrowed && j < window->profile.range_count; j++)
            if (rank->work[window->work[j]].stream == stream)
                return aorta_role_name(window->profile.ranges[j].info.role);
    }
    return NULL;
}

/* Busiest streams first, as in the table. */
static void add_streams(const struct aorta_trace_rank *rank, int64_t shift_ns, struct aorta_page_lanes *lanes) {
    const struct aorta_trace *trace = rank->trace;
    struct aorta_arena scratch = {0};
    size_t *lane_of = aorta_arena_raw(&scratch, trace->stream_count * sizeof *lane_of), first = lanes->count;
    for (size_t i = 0; lane_of && i < trace->stream_count; i++) lane_of[i] = SIZE_MAX;
    for (size_t i = 0; lane_of && i < rank->stream_count && i < STREAMS_PER_RANK && lanes->count < MOST_LANES; i++) {
        const uint32_t stream = rank->streams[i].row;
        const char *role = role_of(rank, stream);
        char label[48];
        snprintf(label, sizeof label, "stream %lld%s%s%s", (long long)trace->streams[stream].id, role ? " (" : "",
                 role ? role : "", role ? ")" : "");
        lane_of[stream] = aorta_page_lane_add(lanes, rank->rank, label, false);
    }
    for (size_t i = 0; lanes->count > first && i < rank->work_count; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        if (work->stream == AORTA_TRACE_NONE || lane_of[work->stream] == SIZE_MAX) continue;
        const uint32_t name = aorta_page_name(lanes, aorta_trace_text(trace, work->name), NULL);
        const struct aorta_page_span span = {work->start_ns - shift_ns, work->end_ns - shift_ns, name,
                                             kind_of_work(trace, work)};
        aorta_page_span_add(lanes, lane_of[work->stream], span);
    }
    aorta_text_arena_end(&lanes->names, &scratch);
}

/* Windows that our recorder measured use the clock of their step. All other windows use the clock of the lanes. */
static void add_exposed(const struct aorta_trace_rank *rank, int64_t shift_ns, struct aorta_page_lanes *lanes) {
    size_t lane = SIZE_MAX;
    uint32_t name = 0;
    AORTA_EACH (const struct aorta_trace_window, window, rank->windows, rank->window_count) {
        const int64_t ns = window->borrowed ? window->start_ns - window->profile.start_ns - shift_ns : 0;
        AORTA_EACH (const struct aorta_exposed, exposed, window->profile.overlap.exposed,
                    window->profile.overlap.exposed_count) {
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

/* Calls of threads that launch, from the first to the last work of the rank. */
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
        const struct aorta_page_span span = {call->start_ns - shift_ns, call->end_ns - shift_ns, name,
                                             kind_of_call(trace, call)};
        aorta_page_span_add(lanes, lane_of[call->thread], span);
    }
    aorta_text_arena_end(&lanes->names, &scratch);
}

static const enum aorta_page_kind path_kinds[AORTA_PATH_KIND_COUNT] = {
    [AORTA_PATH_KERNEL] = AORTA_PAGE_COMPUTE, [AORTA_PATH_COLLECTIVE] = AORTA_PAGE_OTHER_COLLECTIVE,
    [AORTA_PATH_COPY] = AORTA_PAGE_COPY,      [AORTA_PATH_LAUNCH] = AORTA_PAGE_LAUNCH,
    [AORTA_PATH_BEHIND] = AORTA_PAGE_WAIT,    [AORTA_PATH_CALL] = AORTA_PAGE_OTHER_CALL,
    [AORTA_PATH_RETURN] = AORTA_PAGE_WAIT,    [AORTA_PATH_HOST] = AORTA_PAGE_OTHER_CALL,
    [AORTA_PATH_DATA] = AORTA_PAGE_WAIT,      [AORTA_PATH_UNEXPLAINED] = AORTA_PAGE_WAIT,
};

/* A lane for each rank with a part of the critical path. */
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
        const struct aorta_page_span span = {piece->start_ns - shift_ns, piece->end_ns - shift_ns, name,
                                             path_kinds[piece->kind]};
        aorta_page_span_add(lanes, lane, span);
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
                add_step(lanes, rank->windows[j].start_ns - shift_ns, rank->windows[j].number);
    }
}

void aorta_page_step(const struct aorta_trace_analysis *analysis, size_t window, size_t most, struct aorta_json *json) {
    const struct aorta_trace_rank *rank = analysis->ranks;
    const int64_t shift_ns = shift_of(analysis, 0);
    struct aorta_page_lanes lanes = {0};
    add_threads(rank, shift_ns, &lanes);
    add_streams(rank, shift_ns, &lanes);
    add_exposed(rank, shift_ns, &lanes);
    cut_lanes(&lanes, rank->windows[window].start_ns - shift_ns, rank->windows[window].end_ns - shift_ns);
    aorta_page_lanes_write(&lanes, most, json);
    aorta_page_lanes_free(&lanes);
}

void aorta_page_timeline(const struct aorta_trace_report *report, size_t most, struct aorta_json *json) {
    struct aorta_page_lanes lanes = {0};
    if (report->analysis) gather(report, &lanes);
    aorta_page_lanes_write(&lanes, most, json);
    aorta_page_lanes_free(&lanes);
}

/* The flame view of a recording: modules and operations by the work that was launched within them. */

/* Key and value: [[parent, name, total ms, own ms], …] of all ranks, without nodes below 1/5000 of the total. */
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

void aorta_page_flame(const struct aorta_trace_analysis *analysis, struct aorta_json *json) {
    const struct aorta_trace_compare_input input = {.path = "", .label = "", .analysis = analysis};
    struct aorta_arena memory = {0};
    struct aorta_call_trees trees = aorta_call_trees_make(&input, 1, &memory);
    double *within = aorta_arena_alloc(&memory, trees.count * sizeof *within);
    uint32_t *numbers = aorta_arena_raw(&memory, trees.count * sizeof *numbers);
    for (size_t i = trees.count; numbers && i-- > 0;) { /* parents come before their children */
        within[i] += trees.ns[i];
        if (i) within[trees.nodes[i].parent] += within[i];
    }
    if (numbers && trees.any) write_nodes(&trees, within, numbers, json);
    aorta_call_trees_free(&trees);
    aorta_text_arena_end(json->out, &memory);
}
