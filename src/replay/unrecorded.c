/* The graph of the program without the cost of recording, and copies with scaled or removed work. */
#include "replay/unrecorded.h"
#include "base/parallel.h"
#include "base/sort.h"
#include "base/statistics.h"
#include "replay/replay.h"

#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint8_t stamped_call(const char *name) {
    enum aorta_trace_call_kind kind;
    if (!aorta_trace_call_classify(name, &kind)) return AORTA_STAMPED_CALL;
    if (kind == AORTA_CALL_SYNC || (kind == AORTA_CALL_COPY && !strstr(name, "Async"))) return AORTA_STAMPED_WAIT;
    const bool launches = kind == AORTA_CALL_LAUNCH || kind == AORTA_CALL_GRAPH_LAUNCH || kind == AORTA_CALL_FILL;
    return launches || kind == AORTA_CALL_COPY ? AORTA_STAMPED_LAUNCH : AORTA_STAMPED_CALL;
}

static uint8_t stamped_operation(const char *name) {
    static const char *const ends[] = {"Backward", "AccumulateGrad"};
    if (!strncmp(name, "autograd::engine", 16)) return AORTA_STAMPED_ENGINE;
    size_t length = strlen(name);
    if (!strncmp(name, "aten::", 6)) return AORTA_STAMPED_OPERATION;
    while (length && name[length - 1] >= '0' && name[length - 1] <= '9') length--;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t end = strlen(ends[i]);
        if (length >= end && !memcmp(name + length - end, ends[i], end)) return AORTA_STAMPED_NODE;
    }
    return AORTA_STAMPED_OPERATION;
}

/* By text: 1 + enum aorta_stamped of an operation or call with this name; 0: not yet classified. */
struct meanings {
    const struct aorta_trace *trace;
    uint8_t *operations, *calls;
};

static uint8_t meaning_of(const struct meanings *meanings, uint32_t text, bool call) {
    uint8_t *known = call ? meanings->calls : meanings->operations;
    if (text == AORTA_TRACE_NONE) return AORTA_STAMPED_FUNCTION;
    if (!known[text]) {
        const char *name = aorta_trace_text(meanings->trace, text);
        known[text] = (uint8_t)(1 + (call ? stamped_call(name) : stamped_operation(name)));
    }
    return known[text] - 1;
}

static AORTA_ORDER(event_order, struct aorta_stamped_event, AORTA_UP(start_ns) AORTA_DOWN(end_ns) AORTA_UP(stamped));

static uint8_t stamped_frame(const struct meanings *meanings, const struct aorta_trace_frame *frame) {
    if (frame->kind == AORTA_FRAME_RANGE) return AORTA_STAMPED_RANGE;
    if (frame->kind == AORTA_FRAME_FUNCTION) return AORTA_STAMPED_FUNCTION;
    return meaning_of(meanings, frame->name, frame->kind == AORTA_FRAME_CALL);
}

/* The position of each thread's next event. The first pass only counts events. */
struct places {
    const struct aorta_trace *trace;
    const struct meanings *meanings;
    const bool *wanted; /* by thread */
    size_t *next;
    struct aorta_stamped_event *events; /* NULL: to be counted */
};

static void add_event(struct places *places, int64_t start_ns, int64_t end_ns, uint32_t name, uint32_t thread,
                      uint8_t stamped) {
    if (!places->wanted[thread]) return;
    const size_t place = places->next[thread]++;
    if (places->events)
        places->events[place] = (struct aorta_stamped_event){.start_ns = start_ns,
                                                             .end_ns = end_ns,
                                                             .name = name & AORTA_STAMPED_TEXTS,
                                                             .parent = AORTA_TRACE_NONE,
                                                             .only = AORTA_TRACE_NONE,
                                                             .stamped = stamped & 15};
}

static void add_operations(struct places *places) {
    const struct aorta_trace *trace = places->trace;
    AORTA_EACH (const struct aorta_trace_operation, row, trace->operations, trace->operation_count) {
        add_event(places, row->start_ns, row->end_ns, row->name, row->thread,
                  row->range ? AORTA_STAMPED_RANGE : meaning_of(places->meanings, row->name, false));
    }
}

/* A step's range is written when the step is over. Ranges are added separately, as they would be out of order among the
 * other frames. */
static void add_frames(struct places *places, bool ranges) {
    const struct aorta_trace *trace = places->trace;
    AORTA_EACH (const struct aorta_trace_frame, frame, trace->frames, trace->frame_count) {
        if (frame->kind != AORTA_FRAME_SYSTEM && (frame->kind == AORTA_FRAME_RANGE) == ranges)
            add_event(places, frame->start_ns, frame->end_ns, frame->name, frame->thread,
                      stamped_frame(places->meanings, frame));
    }
}

/* Kineto's calls of no known kind are frames, and its waits for data are ranges. */
static bool is_own_call(const struct aorta_trace *trace, const struct aorta_trace_call *call) {
    if (trace->format != AORTA_TRACE_KINETO) return true;
    return call->kind != AORTA_CALL_DATA_WAIT && call->kind != AORTA_CALL_OTHER;
}

static void add_calls(struct places *places) {
    const struct aorta_trace *trace = places->trace;
    AORTA_EACH (const struct aorta_trace_call, call, trace->calls, trace->call_count) {
        if (is_own_call(trace, call))
            add_event(places, call->start_ns, call->end_ns, call->name, call->thread,
                      meaning_of(places->meanings, call->name, true));
    }
}

/* Kineto records all stamped events, `aorta trace run` only calls. */
static void add_all(struct places *places) {
    add_operations(places);
    add_frames(places, false);
    add_frames(places, true);
    add_calls(places);
}

/* Collects a thread's events: first its operations, which are in order, then all other events, which mostly are. */
static void collect(struct places *places, struct aorta_stamped_events *events, struct aorta_arena *memory) {
    const size_t threads = places->trace->thread_count;
    add_all(places);
    for (size_t i = 0; i < threads; i++) {
        const size_t count = places->next[i];
        places->next[i] = events->count;
        events->count += count;
    }
    events->items = aorta_arena_raw(memory, (events->count + 1) * sizeof *events->items);
    if (!events->items) return;
    places->events = events->items;
    add_all(places);
    for (size_t i = 0, first = 0; i < threads; first = places->next[i++])
        aorta_sort_rows(events->items + first, places->next[i] - first, sizeof *events->items, event_order);
}

/* Threads that launch, and threads with ranges of steps. */
static bool *wanted_threads(const struct aorta_trace *trace, struct aorta_arena *memory) {
    bool *wanted = aorta_trace_launching_threads(trace, memory);
    for (size_t i = 0; wanted && i < trace->frame_count; i++)
        if (trace->frames[i].kind == AORTA_FRAME_RANGE) wanted[trace->frames[i].thread] = true;
    return wanted;
}

/* Nests the events first … end - 1 in each other, and moves them to `count` and after; returns where they end. */
static size_t nest(struct aorta_stamped_event *events, size_t first, size_t end, size_t count) {
    uint32_t open = AORTA_TRACE_NONE;
    for (size_t i = first; i < end; i++) {
        struct aorta_stamped_event event = events[i];
        while (open != AORTA_TRACE_NONE && events[open].end_ns <= event.start_ns) open = events[open].parent;
        if (open != AORTA_TRACE_NONE) {
            struct aorta_stamped_event *around = &events[open];
            if (aorta_stamped_is_call(around)) {
                if (event.stamped == AORTA_STAMPED_LAUNCH) around->stamped = event.stamped;
                continue;
            }
            if (event.end_ns > around->end_ns) event.end_ns = around->end_ns;
            around->only = around->only == AORTA_TRACE_NONE ? (uint32_t)count : (uint32_t)AORTA_STAMPED_SEVERAL;
        }
        event.parent = open;
        open = (uint32_t)count;
        events[count++] = event;
    }
    return count;
}

struct aorta_stamped_events aorta_stamped_events_make(const struct aorta_trace *trace, struct aorta_arena *memory,
                                                      struct aorta_arena *scratch) {
    const size_t texts = aorta_trace_text_count(trace) + 1;
    bool *wanted = wanted_threads(trace, scratch);
    const struct meanings meanings = {trace, aorta_arena_alloc(scratch, texts), aorta_arena_alloc(scratch, texts)};
    struct aorta_stamped_events events = {.ends =
                                              aorta_arena_alloc(scratch, (trace->thread_count + 1) * sizeof(size_t))};
    struct places places = {.trace = trace, .meanings = &meanings, .wanted = wanted, .next = events.ends};
    if (wanted && !scratch->failed) collect(&places, &events, memory);
    scratch->failed |= memory->failed;
    if (scratch->failed || !events.items) return events;
    events.count = 0;
    for (size_t i = 0, first = 0; i < trace->thread_count; i++) {
        const size_t end = events.ends[i];
        events.ends[i] = events.count = nest(events.items, first, end, events.count);
        first = end;
    }
    return events;
}

/* Bounds of the estimate, from comparing estimates with measurements, and from differences between runs of the same
 * program (docs/results.md). */
enum { SHORTEST, LONGEST, FOUND, WEIGHTS };
static const struct aorta_recording_weight weights[WEIGHTS] = {
    [SHORTEST] = {1.4, 0.85}, [LONGEST] = {0.6, 1.18}, [FOUND] = {1, 1}};
static const double DEVICE_VARIES = 0.02; /* of a step that the device limits */

/* Lags of the edges from one host's calls. Recording lengthens no other edges. */
struct lags {
    struct aorta_arena memory;
    int64_t *ns[WEIGHTS]; /* by weight */
    size_t at;
};

struct unrecording {
    struct aorta_trace_graph *built;
    struct aorta_arena memory;
    struct lags *lags; /* by rank; only for the first rank of each trace */
    struct aorta_replay replay;
};

/* ---- shorter edges ---- */

/* The cost between two calls of a host, summed over both threads if they differ. */
static int64_t cost_between(const struct aorta_trace_graph *built, struct aorta_recording_cost *cost, uint32_t from,
                            uint32_t to) {
    const int64_t shift_ns = aorta_trace_graph_shift(built, to);
    const int64_t from_ns = built->graph.time_ns[from] + shift_ns, to_ns = built->graph.time_ns[to] + shift_ns;
    const uint32_t thread = aorta_trace_graph_call(built, to)->thread,
                   before = aorta_trace_graph_call(built, from)->thread;
    int64_t sum_ns = aorta_recording_cost_between(cost, thread, from_ns, to_ns);
    if (before != thread) sum_ns += aorta_recording_cost_between(cost, before, from_ns, to_ns);
    return sum_ns;
}

static bool is_call(const struct aorta_graph *graph, uint32_t point) {
    return aorta_subject_kind(graph->subject[point]) == AORTA_SUBJECT_CALL;
}

/* The rank of the call that the edge comes from; NONE if it comes from no call or from a pinned one. */
static uint32_t host_of(const struct aorta_graph *graph, uint32_t edge) {
    const uint32_t from = graph->from[edge];
    return is_call(graph, from) && !aorta_graph_pinned(graph, from) ? graph->rank[from] : AORTA_GRAPH_NONE;
}

/* The lag of an edge from a call without the cost of recording: for an edge between two calls without all of that cost,
 * for a launch without CUPTI's part. Loaders take as long for a batch as before. Stalls and waits for data vary as the
 * host's own time does, whatever recording costs. */
static int64_t lag_without(const struct aorta_trace_graph *built, struct aorta_recording_cost *cost, uint32_t edge,
                           uint32_t to, struct aorta_recording_weight weight) {
    const struct aorta_graph *graph = &built->graph;
    const uint32_t from = graph->from[edge];
    const uint8_t kind = graph->kind[edge];
    const bool own = kind == AORTA_EDGE_BATCH || kind == AORTA_EDGE_DATA || kind == AORTA_EDGE_PAUSE;
    const int64_t lag_ns = own ? (int64_t)(weight.own * (double)graph->lag_ns[edge]) : graph->lag_ns[edge];
    if (lag_ns <= 0 || kind == AORTA_EDGE_BATCH) return lag_ns;
    if (kind == AORTA_EDGE_LAUNCH) {
        const int64_t own_ns = (int64_t)(weight.cost * aorta_recording_costs(cost)->within_ns);
        return own_ns < lag_ns / 2 ? lag_ns - own_ns : lag_ns - lag_ns / 2;
    }
    if (!is_call(graph, to) || graph->rank[from] != graph->rank[to]) return lag_ns;
    const int64_t distance_ns = graph->time_ns[to] - graph->time_ns[from], own_ns = cost_between(built, cost, from, to);
    if (distance_ns <= lag_ns || own_ns <= 0) return lag_ns - own_ns > 0 ? lag_ns - own_ns : 0;
    return lag_ns > own_ns ? lag_ns - own_ns : lag_ns / 2; /* the remaining lag is a wait for the device */
}

/* Each processor handles one host at a time, so that stamps of only a few hosts are in memory. The lags reuse the
 * memory of the estimate. */
static aorta_status shorten_host(void *user, size_t rank) {
    const struct unrecording *work = user;
    const struct aorta_graph *graph = &work->built->graph;
    struct lags *lags = &work->lags[rank];
    struct aorta_recording_cost *cost;
    size_t edges = 0;
    if (aorta_first_of_trace(work->built->analysis, rank) != rank) return NULL;
    AORTA_TRY(aorta_recording_cost_make(work->built->analysis->ranks[rank].trace, &cost));
    for (uint32_t i = 0; i < graph->edge_count; i++) edges += host_of(graph, i) == rank;
    for (int w = 0; w < WEIGHTS; w++) {
        int64_t *lag_ns = lags->ns[w] = aorta_arena_raw(&lags->memory, edges * sizeof *lag_ns);
        aorta_recording_cost_weigh(cost, weights[w]);
        for (uint32_t i = 0; lag_ns && i < graph->point_count; i++)
            for (uint32_t j = graph->first_edge[i]; j < graph->first_edge[i + 1]; j++)
                if (host_of(graph, j) == rank) *lag_ns++ = lag_without(work->built, cost, j, i, weights[w]);
    }
    aorta_recording_cost_free(cost);
    return aorta_arena_check(&lags->memory, "the edges of hosts");
}

/* ---- replaying ---- */

static void swap_lags(const struct unrecording *work, int weight) {
    struct aorta_graph *graph = &work->built->graph;
    for (uint32_t i = 0; i < graph->rank_count; i++) work->lags[i].at = 0;
    for (uint32_t i = 0; i < graph->edge_count; i++) {
        const uint32_t host = host_of(graph, i);
        if (host == AORTA_GRAPH_NONE) continue;
        int64_t *lag_ns = &work->lags[host].ns[weight][work->lags[host].at++];
        const int64_t given_ns = graph->lag_ns[i];
        graph->lag_ns[i] = *lag_ns;
        *lag_ns = given_ns;
    }
}

static double replay_without(struct unrecording *work, int weight) {
    swap_lags(work, weight);
    aorta_replay_run(&work->built->graph, 0, &work->replay);
    if (weight != FOUND) swap_lags(work, weight);
    return work->replay.step_ns;
}

/* The graph has the lags that were found, and gets the replay's times. Ends that are not measured stay so, wherever
 * they are then. */
static void adopt(struct unrecording *work) {
    struct aorta_graph *graph = &work->built->graph;
    int64_t *end_ns = work->replay.rank_ns; /* not needed any more */
    for (uint32_t i = 0; i < graph->rank_count; i++) end_ns[i] = INT64_MIN;
    for (uint32_t i = 0; i < graph->point_count; i++) {
        const uint32_t rank = graph->rank[i];
        graph->ends[i] = aorta_graph_measured(graph, i);
        if (graph->ends[i] && work->replay.point_ns[i] > end_ns[rank]) end_ns[rank] = work->replay.point_ns[i];
    }
    memcpy(graph->time_ns, work->replay.point_ns, graph->point_count * sizeof *graph->time_ns);
    for (uint32_t i = 0; i < graph->rank_count; i++)
        if (end_ns[i] != INT64_MIN) graph->ranks[i].end_ns = end_ns[i];
    for (uint32_t i = 0; i < graph->point_count; i++) {
        for (uint32_t j = graph->first_edge[i]; j < graph->first_edge[i + 1]; j++) {
            const int64_t distance_ns = graph->time_ns[i] - graph->time_ns[graph->from[j]];
            if (graph->lag_ns[j] > distance_ns) graph->lag_ns[j] = distance_ns; /* alternatives, which bind nothing */
        }
    }
}

static bool loads_beside(const struct aorta_trace_graph *built) {
    for (uint32_t i = 0; i < built->graph.point_count; i++) {
        const struct aorta_trace_call *call = aorta_trace_graph_call(built, i);
        if (call && call->kind == AORTA_CALL_DATA_WAIT &&
            strstr(aorta_trace_text(aorta_trace_graph_trace(built, i), call->name), "MultiProcessing"))
            return true;
    }
    return false;
}

static aorta_status unrecord(struct unrecording *work, struct aorta_unrecorded *unrecorded) {
    const struct aorta_trace_graph *built = work->built;
    work->lags = aorta_arena_alloc(&work->memory, built->graph.rank_count * sizeof *work->lags);
    AORTA_TRY(aorta_arena_check(&work->memory, "the edges of hosts"));
    AORTA_TRY(aorta_parallel(built->graph.rank_count, shorten_host, work));
    aorta_replay_run(&work->built->graph, 0, &work->replay);
    AORTA_TRY(aorta_arena_check(&work->replay.memory, "the times of a replay")); /* which later replays use again */
    unrecorded->recorded_ns = work->replay.step_ns;
    unrecorded->range_ns[0] = replay_without(work, SHORTEST);
    unrecorded->range_ns[1] = replay_without(work, LONGEST);
    unrecorded->step_ns = replay_without(work, FOUND);
    const double least_ns = (1 - DEVICE_VARIES) * unrecorded->step_ns,
                 most_ns = (1 + DEVICE_VARIES) * unrecorded->step_ns;
    if (unrecorded->range_ns[0] > least_ns) unrecorded->range_ns[0] = least_ns;
    if (unrecorded->range_ns[1] < most_ns) unrecorded->range_ns[1] = most_ns;
    if (loads_beside(built) && unrecorded->range_ns[1] < unrecorded->recorded_ns)
        unrecorded->range_ns[1] = unrecorded->recorded_ns; /* loaders may be no faster than that */
    adopt(work);
    unrecorded->known = true;
    return NULL;
}

aorta_status aorta_trace_graph_unrecord(struct aorta_trace_graph *built, struct aorta_unrecorded *unrecorded) {
    struct unrecording work = {.built = built};
    *unrecorded = (struct aorta_unrecorded){0};
    for (size_t i = 0; i < built->analysis->rank_count; i++) {
        const struct aorta_trace *trace = built->analysis->ranks[i].trace;
        if (trace->own || trace->format == AORTA_TRACE_METRICS) return NULL;
    }
    malloc_trim(0); /* stamps and lags do not fit where making the graph gave memory back */
    aorta_status status = unrecord(&work, unrecorded);
    for (size_t i = 0; work.lags && i < built->graph.rank_count; i++) aorta_arena_free(&work.lags[i].memory);
    aorta_arena_free(&work.memory);
    aorta_replay_free(&work.replay);
    if (aorta_status_code(status) != AORTA_UNSUPPORTED) return status;
    aorta_status_free(status);
    const enum aorta_trace_format format = built->analysis->ranks[0].trace->format;
    unrecorded->reason = format == AORTA_TRACE_KINETO || format == AORTA_TRACE_SPOOL
                             ? "the cost of the profiler is not known (no events of the host)"
                             : "the cost of this profiler is not known; record with aorta trace run";
    return NULL;
}

/* ---- copies with other lags ---- */

void aorta_graph_copy_lags(const struct aorta_graph *graph, struct aorta_graph *copy) {
    int64_t *lags = copy->lag_ns;
    struct aorta_graph_change *changes = copy->changes;
    *copy = *graph;
    copy->lag_ns = lags ? lags : malloc(((size_t)graph->edge_count + 1) * sizeof *lags);
    copy->changes = changes ? changes : malloc(((size_t)graph->change_count + 1) * sizeof *changes);
    copy->failed |= !copy->lag_ns || !copy->changes;
    if (copy->failed) return;
    copy->lag_ns[graph->edge_count] = 0;
    if (graph->edge_count) memcpy(copy->lag_ns, graph->lag_ns, graph->edge_count * sizeof *graph->lag_ns);
    if (graph->change_count) memcpy(copy->changes, graph->changes, graph->change_count * sizeof *graph->changes);
}

void aorta_graph_scaled_free(struct aorta_graph *scaled) {
    free(scaled->lag_ns);
    free(scaled->changes);
    scaled->lag_ns = NULL;
    scaled->changes = NULL;
}

void aorta_graph_follow_lags(const struct aorta_graph *graph, struct aorta_graph *copy) {
    AORTA_EACH (struct aorta_graph_change, change, copy->changes, graph->change_count) {
        const int64_t before_ns = graph->lag_ns[change->edge], after_ns = copy->lag_ns[change->edge];
        if (before_ns > 0 && after_ns != before_ns)
            change->lag_ns = llround((double)change->lag_ns * ((double)after_ns / (double)before_ns));
    }
}

/* ---- what is gone ---- */

enum { STAYS, GONE, UNPREPARED };

/* Marks the calls of a trace whose work is all gone. Returns NULL without memory. */
static uint8_t *gone_calls(const struct aorta_trace *trace, const struct aorta_work_scale *scales,
                           struct aorta_arena *memory) {
    uint8_t *gone = aorta_arena_alloc(memory, trace->call_count + 1);
    bool *stays = aorta_arena_alloc(memory, trace->call_count + 1);
    if (memory->failed) return NULL;
    for (size_t i = 0; i < trace->work_count; i++) {
        const uint32_t call = trace->work[i].call;
        if (call == AORTA_TRACE_NONE) continue;
        stays[call] |= !scales[i].gone;
        gone[call] = scales[i].prepared ? UNPREPARED : GONE;
    }
    for (size_t i = 0; i < trace->call_count; i++)
        if (stays[i]) gone[i] = STAYS;
    return gone;
}

static void shorten(struct aorta_graph *scaled, uint32_t edge, double left) {
    if (scaled->lag_ns[edge] > 0) scaled->lag_ns[edge] = llround((double)scaled->lag_ns[edge] * left);
}

bool aorta_graph_begins_within(const struct aorta_graph *graph, uint32_t edge) {
    const uint32_t from = graph->from[edge];
    if (graph->kind[edge] != AORTA_EDGE_STREAM || aorta_subject_kind(graph->subject[from]) != AORTA_SUBJECT_SPAN)
        return false;
    for (uint32_t i = graph->first_edge[from]; i < graph->first_edge[from + 1]; i++)
        if (graph->kind[i] == AORTA_EDGE_KERNEL || graph->kind[i] == AORTA_EDGE_COPY) return false; /* its end */
    return true;
}

static void scale_overlap(const struct aorta_graph *graph, uint32_t point, const struct aorta_work_scale *scales,
                          struct aorta_graph *scaled) {
    for (uint32_t i = graph->first_edge[point]; i < graph->first_edge[point + 1]; i++)
        if (aorta_graph_begins_within(graph, i))
            shorten(scaled, i, (double)scales[aorta_subject_row(graph->subject[graph->from[i]])].left);
}

static void scale_span(const struct aorta_graph *graph, uint32_t point, struct aorta_work_scale scale,
                       struct aorta_graph *scaled) {
    for (uint32_t i = graph->first_edge[point]; i < graph->first_edge[point + 1]; i++) {
        const uint8_t kind = graph->kind[i];
        if (kind == AORTA_EDGE_KERNEL || kind == AORTA_EDGE_COPY || kind == AORTA_EDGE_TRANSFER)
            shorten(scaled, i, (double)scale.left);
        if (kind == AORTA_EDGE_STREAM && scale.gone) shorten(scaled, i, 0);
    }
}

/* A pause longer than PREPARES_NS has other reasons than preparing the call. */
static void drop_call(const struct aorta_graph *graph, uint32_t point, uint8_t gone, struct aorta_graph *scaled) {
    enum { PREPARES_NS = 4000000 };
    for (uint32_t i = graph->first_edge[point]; i < graph->first_edge[point + 1]; i++) {
        const uint8_t kind = graph->kind[i];
        const bool prepares = gone == UNPREPARED && kind == AORTA_EDGE_PAUSE && graph->lag_ns[i] <= PREPARES_NS;
        if (kind == AORTA_EDGE_GAP || prepares || kind == AORTA_EDGE_CALL) shorten(scaled, i, 0);
    }
}

/* ---- what is added ---- */

/* The edge of the host's own time before a call, else of the call. UINT32_MAX if there is neither. */
static uint32_t host_edge(const struct aorta_graph *graph, uint32_t point) {
    uint32_t found = UINT32_MAX;
    for (uint32_t i = graph->first_edge[point]; i < graph->first_edge[point + 1]; i++)
        if (graph->kind[i] == AORTA_EDGE_GAP || (graph->kind[i] == AORTA_EDGE_CALL && found == UINT32_MAX)) found = i;
    return found;
}

/* The number of launches added before each call; NULL: none, or no memory. */
static uint8_t *added_calls(const struct aorta_trace *trace, const struct aorta_work_scale *scales,
                            struct aorta_arena *memory) {
    uint8_t *added = NULL;
    for (size_t i = 0; i < trace->work_count; i++) {
        if (!scales[i].added || scales[i].gone || trace->work[i].call == AORTA_TRACE_NONE) continue;
        if (!added) added = aorta_arena_alloc(memory, trace->call_count + 1);
        if (!added) return NULL;
        added[trace->work[i].call] = scales[i].added;
    }
    return added;
}

static uint32_t call_of(const struct aorta_trace_graph *built, uint32_t rank, uint32_t point) {
    const struct aorta_graph *graph = &built->graph;
    const bool of_rank = graph->rank[point] == rank && is_call(graph, point);
    return of_rank ? aorta_subject_row(graph->subject[point]) : AORTA_TRACE_NONE;
}

/* Median time of the rank's launches on its host, over edges of these kinds (bits). */
static int64_t launch_time(const struct aorta_trace_graph *built, uint32_t rank, uint32_t kinds,
                           struct aorta_arena *memory) {
    const struct aorta_graph *graph = &built->graph;
    const struct aorta_trace *trace = built->analysis->ranks[rank].trace;
    int64_t *times_ns = aorta_arena_alloc(memory, (trace->call_count + 1) * sizeof *times_ns);
    size_t count = 0;
    if (!times_ns) return 0;
    for (uint32_t i = 0; i < graph->point_count; i++) {
        const uint32_t call = call_of(built, rank, i);
        if (call == AORTA_TRACE_NONE || trace->calls[call].kind != AORTA_CALL_LAUNCH) continue;
        for (uint32_t j = graph->first_edge[i]; j < graph->first_edge[i + 1]; j++)
            if (kinds & 1u << graph->kind[j]) times_ns[call] += graph->lag_ns[j];
    }
    for (size_t i = 0; i < trace->call_count; i++)
        if (times_ns[i] > 0) times_ns[count++] = times_ns[i];
    return count ? aorta_median_int64(times_ns, count) : 0;
}

static void add_launches(const struct aorta_trace_graph *built, uint32_t rank, const struct aorta_work_scale *scales,
                         struct aorta_graph *scaled, struct aorta_arena *memory) {
    const struct aorta_graph *graph = &built->graph;
    uint8_t *added = added_calls(built->analysis->ranks[rank].trace, scales, memory);
    if (!added) return;
    const int64_t usual_ns = launch_time(built, rank, 1u << AORTA_EDGE_GAP | 1u << AORTA_EDGE_CALL, memory);
    for (uint32_t i = 0; i < graph->point_count; i++) {
        const uint32_t call = call_of(built, rank, i);
        const uint32_t edge = call == AORTA_TRACE_NONE ? UINT32_MAX : host_edge(graph, i);
        if (edge == UINT32_MAX) continue;
        scaled->lag_ns[edge] += added[call] * usual_ns;
        added[call] = 0; /* only once, as a call has two points */
    }
}

/* After it launched a collective, the host records events and makes the collective's handle. Without the collective
 * only the usual time is left until the next launch. */
static void drop_handles(const struct aorta_trace_graph *built, uint32_t rank, const uint8_t *gone,
                         struct aorta_graph *scaled, struct aorta_arena *memory) {
    const struct aorta_graph *graph = &built->graph;
    const struct aorta_trace *trace = built->analysis->ranks[rank].trace;
    bool *collective = aorta_arena_alloc(memory, trace->call_count + 1);
    if (!collective) return;
    for (size_t i = 0; i < trace->work_count; i++)
        if (trace->work[i].call != AORTA_TRACE_NONE && aorta_trace_is_collective(&trace->work[i]))
            collective[trace->work[i].call] = gone[trace->work[i].call] != STAYS;
    const int64_t usual_ns = launch_time(built, rank, 1u << AORTA_EDGE_GAP, memory);
    for (uint32_t i = 0; i < graph->edge_count; i++) {
        if (graph->kind[i] != AORTA_EDGE_GAP || scaled->lag_ns[i] <= usual_ns) continue;
        const uint32_t call = call_of(built, rank, graph->from[i]);
        if (call != AORTA_TRACE_NONE && collective[call]) scaled->lag_ns[i] = usual_ns;
    }
}

static void scale_points(const struct aorta_trace_graph *built, const struct aorta_work_scale *const *scales,
                         uint8_t *const *gone, struct aorta_graph *scaled) {
    const struct aorta_graph *graph = &built->graph;
    for (uint32_t i = 0; i < graph->point_count; i++) {
        const uint32_t rank = graph->rank[i], row = aorta_subject_row(graph->subject[i]);
        const enum aorta_subject kind = aorta_subject_kind(graph->subject[i]);
        if (kind == AORTA_SUBJECT_SPAN && scales[rank]) {
            scale_span(graph, i, scales[rank][row], scaled);
            scale_overlap(graph, i, scales[rank], scaled);
        }
        if (kind == AORTA_SUBJECT_CALL && gone[rank] && gone[rank][row]) drop_call(graph, i, gone[rank][row], scaled);
    }
}

void aorta_graph_scale(const struct aorta_trace_graph *built, const struct aorta_work_scale *const *scales,
                       struct aorta_graph *scaled) {
    struct aorta_arena scratch = {0};
    const size_t ranks = built->analysis->rank_count;
    uint8_t **gone = aorta_arena_alloc(&scratch, (ranks + 1) * sizeof *gone);
    /* Ranks of one trace share its calls, and each has its own work: only calls of a trace of one rank can be gone. */
    for (size_t i = 0; gone && i < ranks; i++)
        if (scales[i] && aorta_is_only_of_trace(built->analysis, i))
            gone[i] = gone_calls(built->analysis->ranks[i].trace, scales[i], &scratch);
    aorta_graph_copy_lags(&built->graph, scaled);
    scaled->failed |= scratch.failed || !gone;
    if (!scaled->failed) {
        scale_points(built, scales, gone, scaled);
        aorta_graph_follow_lags(&built->graph, scaled);
        for (uint32_t i = 0; i < ranks; i++) {
            if (!scales[i] || !aorta_is_only_of_trace(built->analysis, i)) continue;
            if (gone[i]) drop_handles(built, i, gone[i], scaled, &scratch);
            add_launches(built, i, scales[i], scaled, &scratch);
        }
        scaled->failed |= scratch.failed;
    }
    aorta_arena_free(&scratch);
}
