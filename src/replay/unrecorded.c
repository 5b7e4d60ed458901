#include "replay/unrecorded.h"

#include "replay/replay.h"

#include <stdlib.h>
#include <string.h>

/* What was found against what was measured, and what the same program differs by from run to run (docs/results.md). */
enum { SHORTEST, LONGEST, FOUND, WEIGHTS };
static const struct aorta_recording_weight weights[WEIGHTS] = {
    [SHORTEST] = {1.4, 0.92}, [LONGEST] = {0.6, 1.1}, [FOUND] = {1, 1}};
static const double DEVICE_VARIES = 0.02; /* of a step that the device limits */

/* Hosts come one after the other, so that the stamps of one are in memory and not those of all. */
struct unrecording {
    struct aorta_trace_graph *built;
    struct aorta_recording_cost *cost; /* of the host at hand */
    int64_t *lags[WEIGHTS];            /* of each edge */
    struct aorta_replay replay;
};

static const struct aorta_replay_source *source_of(const struct unrecording *work, uint32_t point) {
    const struct aorta_trace_graph *built = work->built;
    return &built->sources[built->hosts[built->sources[built->graph.rank[point]].host]];
}

static bool is_call(const struct aorta_graph *graph, uint32_t point) {
    return aorta_subject_kind(graph->subject[point]) == AORTA_SUBJECT_CALL;
}

static const struct aorta_trace_call *call_of(const struct unrecording *work, uint32_t point) {
    const struct aorta_replay_source *source = source_of(work, point);
    return &source->trace->calls[source->calls[aorta_subject_row(work->built->graph.subject[point])]];
}

/* ---- shorter edges ---- */

/* Between two calls of the host, of one thread or of one that goes on after the other. */
static int64_t cost_between(const struct unrecording *work, uint32_t from, uint32_t to) {
    const struct aorta_graph *graph = &work->built->graph;
    const struct aorta_replay_source *source = source_of(work, to);
    const int64_t from_ns = graph->time_ns[from] + source->shift_ns, to_ns = graph->time_ns[to] + source->shift_ns;
    const uint32_t thread = call_of(work, to)->thread, before = call_of(work, from)->thread;
    int64_t sum_ns = aorta_recording_cost_between(work->cost, thread, from_ns, to_ns);
    if (before != thread) sum_ns += aorta_recording_cost_between(work->cost, before, from_ns, to_ns);
    return sum_ns;
}

/* The lag of an edge to a point of the host without what recording cost on the way: all of it between two calls,
 * CUPTI's part of a launch. Others load a batch as fast as before. */
static int64_t lag_without(const struct unrecording *work, uint32_t edge, uint32_t to,
                           struct aorta_recording_weight weight) {
    const struct aorta_graph *graph = &work->built->graph;
    const uint32_t from = graph->from[edge];
    const int64_t lag_ns = graph->lag_ns[edge];
    if (lag_ns <= 0 || aorta_graph_pinned(graph, from) || !is_call(graph, from)) return lag_ns;
    if (graph->kind[edge] == AORTA_EDGE_BATCH) return (int64_t)(weight.own * (double)lag_ns);
    if (graph->kind[edge] == AORTA_EDGE_LAUNCH) {
        const int64_t own_ns = (int64_t)(weight.cost * aorta_recording_costs(work->cost)->within_ns);
        return own_ns < lag_ns / 2 ? lag_ns - own_ns : lag_ns - lag_ns / 2;
    }
    if (!is_call(graph, to) || source_of(work, from)->host != source_of(work, to)->host) return lag_ns;
    const int64_t distance_ns = graph->time_ns[to] - graph->time_ns[from], own_ns = cost_between(work, from, to);
    if (distance_ns <= lag_ns || own_ns <= 0) return lag_ns - own_ns > 0 ? lag_ns - own_ns : 0;
    return lag_ns > own_ns ? lag_ns - own_ns : lag_ns / 2; /* the rest of it waits for the device */
}

/* Of edges to these points, all of the host at hand. */
static void shorten(struct unrecording *work, const uint32_t *points, size_t count) {
    const struct aorta_graph *graph = &work->built->graph;
    for (int w = 0; w < WEIGHTS; w++) {
        aorta_recording_cost_sum(work->cost, weights[w]);
        for (size_t i = 0; i < count; i++)
            for (uint32_t j = graph->first_edge[points[i]]; j < graph->first_edge[points[i] + 1]; j++)
                work->lags[w][j] = lag_without(work, j, points[i], weights[w]);
    }
}

/* Points by their host, in their order; those of each end at ends[host]. NULL: no memory. */
static uint32_t *points_by_host(const struct unrecording *work, size_t *ends, size_t hosts) {
    const struct aorta_graph *graph = &work->built->graph;
    uint32_t *points = malloc(((size_t)graph->point_count + 1) * sizeof *points);
    for (uint32_t i = 0; points && i < graph->point_count; i++) ends[source_of(work, i)->host]++;
    for (size_t h = 0, first = 0; points && h < hosts; h++) {
        const size_t count = ends[h];
        ends[h] = first;
        first += count;
    }
    for (uint32_t i = 0; points && i < graph->point_count; i++) points[ends[source_of(work, i)->host]++] = i;
    return points;
}

/* Once the first host's stamps are made, which takes more memory than they do. */
static aorta_status make_lags(struct unrecording *work) {
    const uint32_t count = work->built->graph.edge_count;
    for (int w = 0; w < WEIGHTS && !work->lags[WEIGHTS - 1]; w++) {
        work->lags[w] = malloc(((size_t)count + 1) * sizeof *work->lags[w]);
        if (!work->lags[w]) return AORTA_ERROR(AORTA_MEMORY, "no memory for the lags of %u edges", count);
    }
    return NULL;
}

static aorta_status shorten_host(struct unrecording *work, size_t host, const uint32_t *points, size_t count) {
    const struct aorta_trace_graph *built = work->built;
    AORTA_TRY(aorta_recording_cost_make(built->sources[built->hosts[host]].trace, &work->cost));
    AORTA_TRY(make_lags(work));
    shorten(work, points, count);
    aorta_recording_cost_free(work->cost);
    work->cost = NULL;
    return NULL;
}

static aorta_status shorten_all(struct unrecording *work) {
    const struct aorta_trace_graph *built = work->built;
    size_t hosts = 0;
    for (size_t i = 0; i < built->source_count; i++)
        if (built->sources[i].host >= hosts) hosts = built->sources[i].host + 1;
    size_t *ends = calloc(hosts + 1, sizeof *ends);
    uint32_t *points = ends ? points_by_host(work, ends, hosts) : NULL;
    aorta_status status =
        points ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for what recording %zu hosts cost", hosts);
    for (size_t h = 0, first = 0; h < hosts && !status; first = ends[h++])
        status = shorten_host(work, h, points + first, ends[h] - first);
    free(points);
    free(ends);
    return status;
}

/* ---- replaying ---- */

static aorta_status replay_without(struct unrecording *work, int weight, double *step_ns) {
    struct aorta_graph *graph = &work->built->graph;
    int64_t *recorded = graph->lag_ns;
    graph->lag_ns = work->lags[weight];
    aorta_status status = aorta_replay_run(graph, 0, &work->replay);
    graph->lag_ns = recorded;
    *step_ns = work->replay.step_ns;
    return status;
}

/* The graph's times become the replay's. Ends that are not measured stay so, wherever they come to lie. */
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
    memcpy(graph->lag_ns, work->lags[FOUND], graph->edge_count * sizeof *graph->lag_ns);
    for (uint32_t i = 0; i < graph->rank_count; i++)
        if (end_ns[i] != INT64_MIN) graph->ranks[i].end_ns = end_ns[i];
    for (uint32_t i = 0; i < graph->point_count; i++) {
        for (uint32_t j = graph->first_edge[i]; j < graph->first_edge[i + 1]; j++) {
            const int64_t distance_ns = graph->time_ns[i] - graph->time_ns[graph->from[j]];
            if (graph->lag_ns[j] > distance_ns) graph->lag_ns[j] = distance_ns; /* alternatives, which bind nothing */
        }
    }
}

static bool brings_batch(const struct unrecording *work, uint32_t point) {
    const struct aorta_trace_call *call = call_of(work, point);
    return call->kind == AORTA_CALL_DATA_WAIT &&
           strstr(aorta_trace_text(source_of(work, point)->trace, call->name), "MultiProcessing");
}

static bool loads_beside(const struct unrecording *work) {
    const struct aorta_graph *graph = &work->built->graph;
    for (uint32_t i = 0; i < graph->point_count; i++)
        if (is_call(graph, i) && brings_batch(work, i)) return true;
    return false;
}

static aorta_status unrecord(struct unrecording *work, struct aorta_unrecorded *unrecorded) {
    AORTA_TRY(shorten_all(work));
    AORTA_TRY(aorta_replay_run(&work->built->graph, 0, &work->replay));
    unrecorded->recorded_ns = work->replay.step_ns;
    AORTA_TRY(replay_without(work, SHORTEST, &unrecorded->range_ns[0]));
    AORTA_TRY(replay_without(work, LONGEST, &unrecorded->range_ns[1]));
    AORTA_TRY(replay_without(work, FOUND, &unrecorded->step_ns));
    const double least_ns = (1 - DEVICE_VARIES) * unrecorded->step_ns,
                 most_ns = (1 + DEVICE_VARIES) * unrecorded->step_ns;
    if (unrecorded->range_ns[0] > least_ns) unrecorded->range_ns[0] = least_ns;
    if (unrecorded->range_ns[1] < most_ns) unrecorded->range_ns[1] = most_ns;
    if (loads_beside(work) && unrecorded->range_ns[1] < unrecorded->recorded_ns)
        unrecorded->range_ns[1] = unrecorded->recorded_ns; /* loaders may be no faster than that */
    adopt(work);
    unrecorded->known = true;
    return NULL;
}

aorta_status aorta_trace_graph_unrecord(struct aorta_trace_graph *built, struct aorta_unrecorded *unrecorded) {
    struct unrecording work = {.built = built};
    *unrecorded = (struct aorta_unrecorded){0};
    for (size_t i = 0; i < built->source_count; i++) {
        const struct aorta_trace *trace = built->sources[i].trace;
        if (trace->own || trace->format == AORTA_TRACE_LIVE || trace->format == AORTA_TRACE_METRICS) return NULL;
    }
    aorta_status status = unrecord(&work, unrecorded);
    aorta_recording_cost_free(work.cost);
    for (int w = 0; w < WEIGHTS; w++) free(work.lags[w]);
    aorta_replay_free(&work.replay);
    if (aorta_status_code(status) != AORTA_UNSUPPORTED) return status;
    aorta_status_free(status);
    unrecorded->reason = "what recording cost is not known: nothing of the host that shows it was recorded";
    return NULL;
}
