/* Where in the program hosts pause: between which calls, by what these launched. The three places at which they pause
 * longest in all have a removal each, since each has a reason of its own. A place whose pauses end when the device has
 * finished is no pause but a wait that no call shows (XLA waits for its own threads). */
#include "replay/graph_build_internal.h"

#include <stdlib.h>

enum { PLACES = AORTA_WITHOUT_HOST_PAUSE_ELSE - AORTA_WITHOUT_HOST_PAUSE };

struct place {
    size_t begin, end; /* of the sorted pauses */
    int64_t sum_ns;
};

static int by_place(const void *left, const void *right) {
    const struct aorta_pause *a = left, *b = right;
    if (a->before != b->before) return a->before < b->before ? -1 : 1;
    if (a->after != b->after) return a->after < b->after ? -1 : 1;
    return (a->edge > b->edge) - (a->edge < b->edge);
}

/* Keeps the longest places, longest first. */
static void keep_longest(struct place *longest, struct place place) {
    for (int i = 0; i < PLACES; i++) {
        if (longest[i].sum_ns >= place.sum_ns) continue;
        struct place shorter = longest[i];
        longest[i] = place;
        place = shorter;
    }
}

static uint32_t removal_of(const struct place *longest, size_t pause) {
    for (int i = 0; i < PLACES; i++)
        if (pause >= longest[i].begin && pause < longest[i].end) return (uint32_t)(AORTA_WITHOUT_HOST_PAUSE + i);
    return AORTA_WITHOUT_HOST_PAUSE_ELSE;
}

enum {
    ENDS_NS = 500000, /* after the end of the device's work, at most, a wait for it ends, or */
    ENDS_PART = 50,   /* … this part of the wait after it: threads that slept long wake up late */
    SLACK_NS = 2000,  /* between clocks of host and device */
    FEWEST = 3,       /* pauses of a place that can be called waits */
    LOOK_BACK = 64,   /* spans */
};

static bool is_busy_at(const struct aorta_replay_rank *rank, int64_t time_ns) {
    uint32_t next = 0, high = rank->span_count;
    while (next < high) {
        const uint32_t middle = next + (high - next) / 2;
        if (rank->spans[middle].start_ns <= time_ns)
            next = middle + 1;
        else
            high = middle;
    }
    for (uint32_t i = 0; i < LOOK_BACK && i < next; i++)
        if (rank->spans[next - 1 - i].end_ns > time_ns) return true;
    return false;
}

/* The span whose end the pause may have waited for: the device's last, with nothing after it; NONE. */
static uint32_t awaited_by(const struct aorta_graph_builder *builder, const struct aorta_pause *pause) {
    const struct aorta_graph *graph = builder->graph;
    const uint32_t to = graph->to[pause->edge], rank = graph->rank[to];
    const int64_t from_ns = graph->time_ns[graph->from[pause->edge]], to_ns = graph->time_ns[to];
    const struct aorta_replay_rank *one = &builder->recording->ranks[rank];
    const uint32_t span =
        aorta_last_ended(builder, rank, from_ns, to_ns + SLACK_NS, AORTA_GRAPH_NONE, AORTA_GRAPH_NONE);
    const int64_t part_ns = (to_ns - from_ns) / ENDS_PART, latest_ns = part_ns > ENDS_NS ? part_ns : ENDS_NS;
    if (span == AORTA_GRAPH_NONE || to_ns - one->spans[span].end_ns > latest_ns) return AORTA_GRAPH_NONE;
    return is_busy_at(one, to_ns + SLACK_NS) ? AORTA_GRAPH_NONE : span;
}

static void turn_into_wait(const struct aorta_graph_builder *builder, const struct aorta_pause *pause, uint32_t span) {
    struct aorta_graph *graph = builder->graph;
    const uint32_t to = graph->to[pause->edge], rank = graph->rank[to];
    const int64_t lag_ns = graph->time_ns[to] - builder->recording->ranks[rank].spans[span].end_ns;
    graph->kind[pause->edge] = AORTA_EDGE_GAP;
    if (graph->lag_ns[pause->edge] > pause->left_ns) graph->lag_ns[pause->edge] = pause->left_ns;
    aorta_graph_edge(graph, aorta_span_end(builder, rank, span), to, lag_ns > 0 ? lag_ns : 0, AORTA_EDGE_WAIT, true);
}

/* Of the pauses of each place (sorted) those that are waits go; returns how many are left. */
static size_t without_waits(const struct aorta_graph_builder *builder, struct aorta_pause *pauses, size_t count) {
    size_t left = 0;
    for (size_t begin = 0, end; begin < count; begin = end) {
        size_t waits = 0;
        for (end = begin;
             end < count && pauses[end].before == pauses[begin].before && pauses[end].after == pauses[begin].after;
             end++)
            waits += awaited_by(builder, &pauses[end]) != AORTA_GRAPH_NONE;
        const bool place = waits >= FEWEST && 4 * waits >= 3 * (end - begin);
        for (size_t i = begin; i < end; i++) {
            const uint32_t span = place ? awaited_by(builder, &pauses[i]) : AORTA_GRAPH_NONE;
            if (span != AORTA_GRAPH_NONE)
                turn_into_wait(builder, &pauses[i], span);
            else
                pauses[left++] = pauses[i];
        }
    }
    return left;
}

void aorta_place_pauses(struct aorta_graph_builder *builder) {
    struct aorta_pause *pauses = builder->pauses;
    size_t count = builder->pause_count;
    struct place longest[PLACES] = {0};
    if (count) qsort(pauses, count, sizeof *pauses, by_place);
    count = without_waits(builder, pauses, count);
    for (size_t begin = 0, end; begin < count; begin = end) {
        struct place place = {.begin = begin};
        for (end = begin;
             end < count && pauses[end].before == pauses[begin].before && pauses[end].after == pauses[begin].after;
             end++)
            place.sum_ns += pauses[end].lag_ns;
        place.end = end;
        keep_longest(longest, place);
    }
    for (size_t i = 0; i < count; i++)
        aorta_graph_change(builder->graph, pauses[i].edge, removal_of(longest, i), pauses[i].left_ns);
}
