/* What is left of the step without all causes: the path that decides it, by what it runs along. */
#include "replay/replay.h"
#include "replay/trace_graph.h"
#include "verdict/gains.h"

#include <stddef.h>

struct walk {
    const struct aorta_trace_graph *built;
    const struct aorta_graph *graph;
    struct aorta_verdict_left sums; /* ns */
};

static const struct aorta_trace_work *work_at(const struct walk *walk, uint32_t point) {
    const struct aorta_graph *graph = walk->graph;
    const struct aorta_replay_source *source = &walk->built->sources[graph->rank[point]];
    if (aorta_subject_kind(graph->subject[point]) != AORTA_SUBJECT_SPAN) return NULL;
    return &source->trace->work[source->works[aorta_subject_row(graph->subject[point])]];
}

static enum aorta_collective kind_of(const struct walk *walk, uint32_t point, const struct aorta_trace_work *work) {
    return aorta_trace_collective_kind(walk->built->sources[walk->graph->rank[point]].trace, work);
}

static double *sum_of(struct walk *walk, uint32_t point, uint32_t edge) {
    struct aorta_verdict_left *sums = &walk->sums;
    /* Up to a start within its predecessor it is that which runs. */
    const bool within = aorta_graph_begins_within(walk->graph, edge);
    const uint32_t runs = within ? walk->graph->from[edge] : point;
    const struct aorta_trace_work *work = work_at(walk, runs);
    const bool copies = work && work->kind != AORTA_TRACE_KERNEL;
    switch (within ? (copies ? AORTA_EDGE_COPY : AORTA_EDGE_KERNEL) : (enum aorta_edge_kind)walk->graph->kind[edge]) {
    case AORTA_EDGE_KERNEL:
    case AORTA_EDGE_TRANSFER:
        return work && aorta_trace_is_collective(work) ? &sums->collective_ms[kind_of(walk, runs, work)]
                                                       : &sums->compute_ms;
    case AORTA_EDGE_COPY:
        return &sums->copy_ms;
    case AORTA_EDGE_LAUNCH:
    case AORTA_EDGE_STREAM:
    case AORTA_EDGE_DEPENDENCY:
    case AORTA_EDGE_QUEUE:
    case AORTA_EDGE_ORDER:
    case AORTA_EDGE_READY:
    case AORTA_EDGE_EARLIER:
    case AORTA_EDGE_CONSUME:
    case AORTA_EDGE_ARRIVAL:
        return &sums->starts_ms;
    default:
        return &sums->host_ms;
    }
}

static void visit(void *user, uint32_t point, uint32_t edge, int64_t lag_ns, int64_t residual_ns) {
    struct walk *walk = user;
    *sum_of(walk, point, edge) += (double)lag_ns;
    walk->sums.unexplained_ms += (double)residual_ns;
}

/* Kernels of all ranks that are no collectives, as they were measured: mean of the ranks. */
static double own_compute_ns(const struct walk *walk) {
    const struct aorta_graph *graph = walk->graph;
    double sum_ns = 0;
    for (uint32_t i = 0; i < graph->point_count; i++) {
        const bool first = graph->time_ns[i] <= graph->ranks[graph->rank[i]].from_ns; /* replayed, not measured */
        const struct aorta_trace_work *work = aorta_graph_measured(graph, i) && !first ? work_at(walk, i) : NULL;
        if (!work || work->kind != AORTA_TRACE_KERNEL || aorta_trace_is_collective(work)) continue;
        for (uint32_t j = graph->first_edge[i]; j < graph->first_edge[i + 1]; j++)
            if (graph->kind[j] == AORTA_EDGE_KERNEL && graph->lag_ns[j] > 0) sum_ns += (double)graph->lag_ns[j];
    }
    return graph->rank_count ? sum_ns / graph->rank_count : 0;
}

static double total_of(const struct aorta_verdict_left *left) {
    double sum = left->compute_ms + left->copy_ms + left->starts_ms + left->host_ms + left->unexplained_ms;
    for (int i = 0; i < AORTA_COLLECTIVE_COUNT; i++) sum += left->collective_ms[i];
    return sum;
}

void aorta_verdict_walk_left(const struct aorta_trace_graph *built, const struct aorta_graph *graph, double floor_ms,
                             struct aorta_verdict_left *left, struct aorta_arena *memory) {
    struct walk walk = {.built = built, .graph = graph};
    *left = (struct aorta_verdict_left){0};
    aorta_replay_walk(graph, aorta_removal_bit(AORTA_REMOVAL_COUNT) - 1, visit, &walk, memory);
    const double total_ns = total_of(&walk.sums);
    if (!(total_ns > 0)) return;
    const double scale = floor_ms / total_ns, alone_ns = walk.sums.compute_ms - own_compute_ns(&walk);
    *left = walk.sums;
    double *const parts[] = {&left->compute_ms, &left->copy_ms, &left->starts_ms, &left->host_ms,
                             &left->unexplained_ms};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) *parts[i] *= scale;
    for (int i = 0; i < AORTA_COLLECTIVE_COUNT; i++) left->collective_ms[i] *= scale;
    left->alone_ms = graph->rank_count > 1 && alone_ns > 0 ? scale * alone_ns : 0;
}
