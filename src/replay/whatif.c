/* Times of collectives on other links, and of the steps that contain them. */
#include "replay/whatif.h"
#include "base/interval.h"
#include "replay/trace_graph.h"

#include <math.h>

/* ---- which points of a graph end collectives, and of which kind, group and size ---- */

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

/* The windows' information on each row of the trace's work; NULL where there is none. */
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
    const struct aorta_trace *first = analysis->rank_count ? analysis->ranks[0].trace : NULL;
    begin(graph, collectives);
    collectives->on_gpu = first && (first->measured ? first->on_gpu : !first->host_only);
    for (uint32_t rank = 0; !collectives->memory.failed && rank < graph->rank_count; rank++) {
        struct aorta_arena scratch = {0};
        const struct aorta_range_info **infos = infos_of(&analysis->ranks[rank], &scratch);
        for (uint32_t i = 0; infos && i < graph->point_count; i++) {
            if (!ends_span(graph, i, rank)) continue;
            uint32_t row = aorta_subject_row(graph->subject[i]);
            if (aorta_trace_is_collective(&analysis->ranks[rank].trace->work[row])) add(collectives, i, infos[row]);
        }
        aorta_arena_end(&scratch, &collectives->memory);
    }
    finish(collectives);
    aorta_status status = aorta_arena_check(&collectives->memory, "the collectives of a graph");
    if (status) aorta_whatif_collectives_free(collectives);
    return status;
}

static const double LEAST_WAITING = 10; /* percentile to fit if times contain waiting */
static const double LONGEST_NS = 3e18;  /* limit of a step: a hundred years */
/* A message between GPUs of a node takes no longer: NCCL's and RCCL's src/graph/tuning.cc, rings over PCIe. */
static const double MESSAGE_NS = 5700;

/* ---- what a transfer takes ---- */

/* The edge that is the collective's transfer: from its last arrival, or the collective's own time if no other rank
 * recorded it. NONE: no collective ends at the point. */
static uint32_t transfer_edge(const struct aorta_whatif *whatif, uint32_t point) {
    const struct aorta_graph *graph = whatif->graph;
    uint32_t found = AORTA_GRAPH_NONE;
    if (whatif->collectives->of_point[point] == AORTA_GRAPH_NONE) return AORTA_GRAPH_NONE;
    for (uint32_t i = graph->first_edge[point]; i < graph->first_edge[point + 1]; i++) {
        if (graph->kind[i] == AORTA_EDGE_TRANSFER) return i;
        if (graph->kind[i] == AORTA_EDGE_KERNEL) found = i;
    }
    return found;
}

static struct aorta_collective_time time_of(const struct aorta_whatif *whatif,
                                            const struct aorta_whatif_collective *collective,
                                            const struct aorta_whatif_resources *resources) {
    bool before = resources->as_before & UINT32_C(1) << collective->kind;
    int ranks = collective->ranks == whatif->collectives->ranks && !before ? resources->ranks : collective->ranks;
    return aorta_collective_model(before ? &whatif->recorded : &resources->network, collective->kind, ranks,
                                  collective->bytes);
}

static int64_t whole(double ns) {
    return llround(ns < LONGEST_NS ? ns : LONGEST_NS);
}

static double total(struct aorta_collective_time time) {
    return time.latency_ns + time.transfer_ns;
}

static int64_t transfer_lag(const struct aorta_whatif *whatif, const struct aorta_whatif_collective *collective,
                            const struct aorta_whatif_resources *resources, int64_t lag_ns) {
    double before_ns =
        total(aorta_collective_model(&whatif->recorded, collective->kind, collective->ranks, collective->bytes));
    double after_ns = total(time_of(whatif, collective, resources));
    if (after_ns >= before_ns || (double)lag_ns >= before_ns) return lag_ns + whole(after_ns - before_ns);
    return whole((double)lag_ns * (after_ns / before_ns));
}

/* ---- the graph with other lags ---- */

static void change_point(const struct aorta_whatif *whatif, const struct aorta_whatif_resources *resources,
                         uint32_t point, struct aorta_graph *changed) {
    const struct aorta_graph *graph = whatif->graph;
    uint32_t row = whatif->collectives->of_point[point], transfer = transfer_edge(whatif, point);
    if (transfer != AORTA_GRAPH_NONE)
        changed->lag_ns[transfer] =
            transfer_lag(whatif, &whatif->collectives->items[row], resources, graph->lag_ns[transfer]);
    if (row != AORTA_GRAPH_NONE) return;
    for (uint32_t i = graph->first_edge[point]; i < graph->first_edge[point + 1]; i++) {
        bool copy = graph->kind[i] == AORTA_EDGE_COPY;
        const bool compute = graph->kind[i] == AORTA_EDGE_KERNEL || aorta_graph_begins_within(graph, i);
        if ((copy || compute) && graph->lag_ns[i] > 0)
            changed->lag_ns[i] = whole((double)graph->lag_ns[i] / (copy ? resources->copies : resources->compute));
    }
}

/* Avoids overflow: a point's time is at most its recorded time plus these lags. */
static aorta_status check_length(const struct aorta_graph *changed) {
    double sum_ns = 0;
    for (uint32_t i = 0; i < changed->edge_count; i++)
        if (changed->kind[i] == AORTA_EDGE_TRANSFER || changed->kind[i] == AORTA_EDGE_KERNEL ||
            changed->kind[i] == AORTA_EDGE_COPY)
            sum_ns += (double)changed->lag_ns[i];
    if (sum_ns < LONGEST_NS) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "the steps take more than a hundred years with such resources; give larger ones");
}

/* ---- a step ---- */

static uint32_t start_of(const struct aorta_graph *graph, uint32_t point) {
    for (uint32_t i = graph->first_edge[point]; i < graph->first_edge[point + 1]; i++)
        if (graph->kind[i] == AORTA_EDGE_KERNEL) return graph->from[i];
    return AORTA_GRAPH_NONE;
}

/* Intervals of one rank's collectives of a kind (COUNT: all) and of its compute, within the measured time. */
static void collect_busy(const struct aorta_whatif *whatif, const int64_t *point_ns, uint32_t rank,
                         enum aorta_collective kind, struct aorta_intervals *comm, struct aorta_intervals *compute) {
    const struct aorta_graph *graph = whatif->graph;
    int64_t begin_ns = aorta_replay_begin(graph, point_ns, rank);
    for (uint32_t i = 0; i < graph->point_count; i++) {
        if (graph->rank[i] != rank || !aorta_graph_measured(graph, i)) continue;
        uint32_t start = start_of(graph, i);
        if (start == AORTA_GRAPH_NONE) continue;
        int64_t start_ns = point_ns[start] > begin_ns ? point_ns[start] : begin_ns;
        const uint32_t row = whatif->collectives->of_point[i];
        const bool collective = row != AORTA_GRAPH_NONE;
        if (collective && kind != AORTA_COLLECTIVE_COUNT && whatif->collectives->items[row].kind != kind) continue;
        aorta_intervals_add(collective ? comm : compute, start_ns, point_ns[i]);
    }
}

static aorta_status add_rank(const struct aorta_whatif *whatif, const int64_t *point_ns, uint32_t rank,
                             enum aorta_collective kind, struct aorta_whatif_step *step) {
    struct aorta_intervals comm = {0}, compute = {0}, alone = {0};
    double share = whatif->graph->longer / ((whatif->graph->ranks[rank].steps ? whatif->graph->ranks[rank].steps : 1) *
                                            (double)whatif->graph->rank_count);
    collect_busy(whatif, point_ns, rank, kind, &comm, &compute);
    step->comm_ns += (double)aorta_intervals_length(&comm) * share;
    aorta_intervals_normalise(&compute);
    aorta_intervals_subtract(&comm, &compute, &alone);
    aorta_status status = aorta_intervals_check(&alone);
    step->exposed_ns += (double)aorta_intervals_length(&alone) * share;
    aorta_intervals_free(&comm);
    aorta_intervals_free(&compute);
    aorta_intervals_free(&alone);
    return status;
}

static void add_model(const struct aorta_whatif *whatif, const struct aorta_whatif_resources *resources,
                      struct aorta_whatif_step *step) {
    const struct aorta_graph *graph = whatif->graph;
    const double share = graph->rank_count ? graph->longer / graph->rank_count : 1;
    for (uint32_t i = 0; i < graph->point_count; i++) {
        uint32_t row = whatif->collectives->of_point[i];
        if (row == AORTA_GRAPH_NONE || !aorta_graph_measured(graph, i)) continue;
        uint32_t steps = graph->ranks[graph->rank[i]].steps;
        struct aorta_collective_time time = time_of(whatif, &whatif->collectives->items[row], resources);
        step->latency_ns += time.latency_ns / (steps ? steps : 1) * share;
        step->transfer_ns += time.transfer_ns / (steps ? steps : 1) * share;
    }
}

static aorta_status replay(const struct aorta_whatif *whatif, const struct aorta_whatif_resources *resources,
                           struct aorta_replay *replayed) {
    struct aorta_graph changed = {0};
    aorta_graph_copy_lags(whatif->graph, &changed);
    for (uint32_t i = 0; !changed.failed && i < changed.point_count; i++) change_point(whatif, resources, i, &changed);
    if (!changed.failed) aorta_graph_follow_lags(whatif->graph, &changed);
    aorta_status status = changed.failed ? NULL : check_length(&changed);
    if (!status) {
        aorta_replay_run(&changed, resources->removed, replayed);
        status = aorta_arena_check(&replayed->memory, "the replay");
    }
    aorta_graph_scaled_free(&changed);
    return status;
}

aorta_status aorta_whatif_run(const struct aorta_whatif *whatif, const struct aorta_whatif_resources *resources,
                              struct aorta_whatif_step *step) {
    struct aorta_replay replayed = {0};
    *step = (struct aorta_whatif_step){0};
    aorta_status status = replay(whatif, resources, &replayed);
    if (!status) step->step_ns = replayed.step_ns;
    for (uint32_t i = 0; i < whatif->graph->rank_count && !status; i++)
        status = add_rank(whatif, replayed.point_ns, i, AORTA_COLLECTIVE_COUNT, step);
    if (!status) add_model(whatif, resources, step);
    aorta_replay_free(&replayed);
    return status;
}

aorta_status aorta_whatif_find_exposed(const struct aorta_whatif *whatif,
                                       const struct aorta_whatif_resources *resources,
                                       struct aorta_whatif_exposed *exposed) {
    struct aorta_replay replayed = {0};
    *exposed = (struct aorta_whatif_exposed){.kind = AORTA_COLLECTIVE_COUNT};
    aorta_status status = replay(whatif, resources, &replayed);
    for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT && !status; kind++) {
        struct aorta_whatif_step own = {0};
        for (uint32_t i = 0; i < whatif->graph->rank_count && !status; i++)
            status = add_rank(whatif, replayed.point_ns, i, (enum aorta_collective)kind, &own);
        if (own.exposed_ns > exposed->exposed_ns)
            *exposed = (struct aorta_whatif_exposed){(enum aorta_collective)kind, own.exposed_ns};
    }
    aorta_replay_free(&replayed);
    return status;
}

/* ---- what limits it ---- */

aorta_status aorta_whatif_find_limit(const struct aorta_whatif *whatif, const struct aorta_whatif_resources *resources,
                                     struct aorta_whatif_limit *limit) {
    struct aorta_whatif_step all, without;
    *limit = (struct aorta_whatif_limit){.kind = AORTA_COLLECTIVE_COUNT};
    AORTA_TRY(aorta_whatif_run(whatif, resources, &all));
    for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++) {
        struct aorta_whatif_resources other = *resources;
        other.as_before |= UINT32_C(1) << kind;
        AORTA_TRY(aorta_whatif_run(whatif, &other, &without));
        if (all.step_ns - without.step_ns <= limit->more_ns) continue;
        *limit = (struct aorta_whatif_limit){.kind = (enum aorta_collective)kind,
                                             .more_ns = all.step_ns - without.step_ns,
                                             .latency = all.latency_ns - without.latency_ns >
                                                        all.transfer_ns - without.transfer_ns};
    }
    return NULL;
}

/* ---- the recorded link ---- */

static size_t collect_samples(const struct aorta_whatif *whatif, enum aorta_edge_kind kind,
                              struct aorta_collective_sample *samples) {
    const struct aorta_graph *graph = whatif->graph;
    size_t count = 0;
    for (uint32_t i = 0; i < graph->point_count; i++) {
        uint32_t edge = transfer_edge(whatif, i);
        if (edge == AORTA_GRAPH_NONE || graph->kind[edge] != kind || !aorta_graph_measured(graph, i)) continue;
        const struct aorta_whatif_collective *collective =
            &whatif->collectives->items[whatif->collectives->of_point[i]];
        samples[count++] = (struct aorta_collective_sample){collective->kind, collective->ranks, collective->bytes,
                                                            (double)graph->lag_ns[edge], 0};
    }
    return count;
}

static aorta_status fit(struct aorta_whatif *whatif, int ranks_per_node, double latency_ns) {
    struct aorta_arena memory = {0};
    struct aorta_collective_sample *samples = aorta_arena_raw(&memory, whatif->collectives->count * sizeof *samples);
    aorta_status status = aorta_arena_check(&memory, "the collectives of a graph");
    size_t count = status ? 0 : collect_samples(whatif, AORTA_EDGE_TRANSFER, samples);
    if (!status) status = aorta_link_fit_make(samples, count, ranks_per_node, 50, latency_ns, &whatif->fit);
    if (!status && !whatif->fit.samples) {
        count = collect_samples(whatif, AORTA_EDGE_KERNEL, samples);
        status = aorta_link_fit_make(samples, count, ranks_per_node, LEAST_WAITING, latency_ns, &whatif->fit);
        whatif->waits = whatif->fit.samples > 0;
    }
    aorta_arena_free(&memory);
    if (whatif->collectives->on_gpu && whatif->collectives->ranks <= ranks_per_node)
        whatif->fit.link.latency_ns = fmin(whatif->fit.link.latency_ns, MESSAGE_NS);
    whatif->recorded = (struct aorta_network){whatif->fit.link, whatif->fit.link, ranks_per_node};
    return status;
}

aorta_status aorta_whatif_begin(const struct aorta_graph *graph, const struct aorta_whatif_collectives *collectives,
                                int ranks_per_node, double latency_ns, struct aorta_whatif *whatif) {
    struct aorta_arena scratch = {0};
    *whatif = (struct aorta_whatif){.graph = graph, .collectives = collectives};
    for (uint32_t i = 0; i < collectives->count; i++)
        whatif->subgroups |= collectives->items[i].ranks < collectives->ranks;
    aorta_status status = fit(whatif, ranks_per_node, latency_ns);
    whatif->measured_ns = aorta_replay_recorded(graph, &scratch);
    if (!status) status = aorta_arena_check(&scratch, "the recorded times");
    aorta_arena_free(&scratch);
    return status;
}
