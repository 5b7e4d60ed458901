#include "replay/trace_graph.h"

#include "base/arena.h"
#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    for (uint32_t i = 0; i < graph->change_count; i++) {
        struct aorta_graph_change *change = &copy->changes[i];
        const int64_t before_ns = graph->lag_ns[change->edge], after_ns = copy->lag_ns[change->edge];
        if (before_ns > 0 && after_ns != before_ns)
            change->lag_ns = llround((double)change->lag_ns * ((double)after_ns / (double)before_ns));
    }
}

/* ---- what is gone ---- */

enum { STAYS, GONE, UNPREPARED };

/* Calls of one trace all of whose work is gone. NULL: no memory. */
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

/* A pause that is longer than what prepares a call has reasons of its own. */
static void drop_call(const struct aorta_graph *graph, uint32_t point, uint8_t gone, struct aorta_graph *scaled) {
    enum { PREPARES_NS = 4000000 };
    for (uint32_t i = graph->first_edge[point]; i < graph->first_edge[point + 1]; i++) {
        const uint8_t kind = graph->kind[i];
        const bool prepares = gone == UNPREPARED && kind == AORTA_EDGE_PAUSE && graph->lag_ns[i] <= PREPARES_NS;
        if (kind == AORTA_EDGE_GAP || prepares || kind == AORTA_EDGE_CALL) shorten(scaled, i, 0);
    }
}

/* ---- what is added ---- */

/* The edge of the host's own time before a call, or of the call. */
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
    if (graph->rank[point] != rank || aorta_subject_kind(graph->subject[point]) != AORTA_SUBJECT_CALL)
        return AORTA_TRACE_NONE;
    return aorta_subject_row(graph->subject[point]);
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
        added[call] = 0; /* of a call's two points one */
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
