/* Which points of a graph end collectives, and of which kind, group and size. */
#include "replay/whatif.h"

#include <string.h>

/* Rows whose group is not known have 0 ranks until `finish`. */
static void add(struct aorta_whatif_collectives *collectives, uint32_t point, const struct aorta_range_info *info) {
    struct aorta_whatif_collective *item = &collectives->items[collectives->count];
    *item = (struct aorta_whatif_collective){.kind = AORTA_COLLECTIVE_OTHER};
    if (info)
        *item = (struct aorta_whatif_collective){info->collective, info->group_size > 0 ? info->group_size : 0,
                                                 info->bytes > 0 ? info->bytes : 0};
    collectives->of_point[point] = collectives->count++;
    if (item->ranks > collectives->ranks) collectives->ranks = item->ranks;
}

static void finish(struct aorta_whatif_collectives *collectives) {
    for (uint32_t i = 0; i < collectives->count; i++)
        if (!collectives->items[i].ranks) collectives->items[i].ranks = collectives->ranks;
}

static void begin(const struct aorta_graph *graph, struct aorta_whatif_collectives *collectives) {
    *collectives = (struct aorta_whatif_collectives){.ranks = (int)graph->rank_count};
    collectives->items = aorta_arena_raw(&collectives->memory, graph->point_count * sizeof *collectives->items);
    collectives->of_point = aorta_arena_raw(&collectives->memory, graph->point_count * sizeof *collectives->of_point);
    for (uint32_t i = 0; collectives->of_point && i < graph->point_count; i++)
        collectives->of_point[i] = AORTA_GRAPH_NONE;
}

void aorta_whatif_collectives_free(struct aorta_whatif_collectives *collectives) {
    aorta_arena_free(&collectives->memory);
    *collectives = (struct aorta_whatif_collectives){0};
}

static bool ends_span(const struct aorta_graph *graph, uint32_t point, uint32_t rank) {
    return graph->rank[point] == rank && graph->ends[point] &&
           aorta_subject_kind(graph->subject[point]) == AORTA_SUBJECT_SPAN;
}

/* ---- traces ---- */

/* What the windows say of each row of the trace's work. */
static const struct aorta_range_info **infos_of(const struct aorta_trace_rank *rank, struct aorta_arena *memory) {
    const struct aorta_range_info **infos = aorta_arena_alloc(memory, rank->trace->work_count * sizeof *infos);
    for (size_t i = 0; infos && i < rank->window_count; i++) {
        const struct aorta_trace_window *window = &rank->windows[i];
        for (size_t j = 0; j < window->profile.range_count; j++) {
            uint32_t row = rank->source ? rank->source[window->work[j]] : window->work[j];
            infos[row] = &window->profile.ranges[j].info;
        }
    }
    return infos;
}

aorta_status aorta_whatif_of_trace(const struct aorta_trace_analysis *analysis, const struct aorta_trace_graph *built,
                                   struct aorta_whatif_collectives *collectives) {
    const struct aorta_graph *graph = &built->graph;
    begin(graph, collectives);
    for (uint32_t rank = 0; !collectives->memory.failed && rank < graph->rank_count; rank++) {
        struct aorta_arena scratch = {0};
        const struct aorta_range_info **infos = infos_of(&analysis->ranks[rank], &scratch);
        for (uint32_t i = 0; infos && i < graph->point_count; i++) {
            if (!ends_span(graph, i, rank)) continue;
            uint32_t row = built->sources[rank].works[aorta_subject_row(graph->subject[i])];
            if (aorta_trace_is_collective(&analysis->ranks[rank].trace->work[row])) add(collectives, i, infos[row]);
        }
        aorta_arena_end(&scratch, &collectives->memory);
    }
    finish(collectives);
    aorta_status status = aorta_arena_check(&collectives->memory, "the collectives of a graph");
    if (status) aorta_whatif_collectives_free(collectives);
    return status;
}
