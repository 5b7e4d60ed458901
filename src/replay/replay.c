#include "replay/replay.h"

#include "base/parallel.h"
#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

/* ---- the removals ---- */

#define EDGE(kind) (UINT32_C(1) << AORTA_EDGE_##kind)

/* Effects of removals on kinds of edges. Effects on single edges (slower kernels, collectives) are in the graph's list
 * of changes. */
static const struct removal {
    const char *cause, *description;
    bool late;     /* the cause makes a rank late */
    uint32_t free; /* edges that take no time */
    uint32_t off;  /* edges that do not apply */
    uint32_t on;   /* alternatives that apply */
} removals[AORTA_REMOVAL_COUNT] = {
#define NO_REMOVAL(name, ...)
#define REMOVAL(name, ...) [AORTA_WITHOUT_##name] = {__VA_ARGS__},
#define REMOVAL_BY_PLACE(name, ...)                                                                                    \
    [AORTA_WITHOUT_##name] = {__VA_ARGS__}, [AORTA_WITHOUT_##name##_2] = {__VA_ARGS__},                                \
    [AORTA_WITHOUT_##name##_3] = {__VA_ARGS__}, [AORTA_WITHOUT_##name##_ELSE] = {__VA_ARGS__},
#define CAUSE(name, key, removal, description, late, free, off, on, ...)                                               \
    removal(name, key, description, late, free, off, on)
#include "replay/causes.def"
#undef CAUSE
#undef REMOVAL_BY_PLACE
#undef REMOVAL
#undef NO_REMOVAL
};

const char *aorta_removal_cause(enum aorta_removal removal) {
    return removals[removal].cause;
}

const char *aorta_removal_description(enum aorta_removal removal) {
    return removals[removal].description;
}

/* Bit masks of a set of removals for edges of one kind without changes. */
struct effect {
    int64_t holds; /* -1 if the edge applies, else 0 */
    int64_t takes; /* -1 if the edge takes its time, else 0 */
};

struct effects {
    uint32_t removed; /* including AORTA_WITHOUT_WAITING */
    struct effect of[AORTA_EDGE_KIND_COUNT];
};

/* A rank that waits for a late one has a collective that waits while its kernels run. Without what made that rank late
 * they would be as fast as alone; while the rank is still waited for, that changes nothing. */
static uint32_t with_waiting(uint32_t removed) {
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++)
        if (removals[i].late && removed & aorta_removal_bit((enum aorta_removal)i))
            return removed | aorta_removal_bit(AORTA_WITHOUT_WAITING);
    return removed;
}

static struct effects effects_of(uint32_t removed) {
    struct removal all = {0};
    struct effects effects = {.removed = with_waiting(removed)};
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) {
        if (!(removed & aorta_removal_bit((enum aorta_removal)i))) continue;
        all.free |= removals[i].free;
        all.off |= removals[i].off;
        all.on |= removals[i].on;
    }
    for (int kind = 0; kind < AORTA_EDGE_KIND_COUNT; kind++) {
        const uint32_t bit = UINT32_C(1) << kind;
        const bool alternative = aorta_edge_is_alternative((enum aorta_edge_kind)kind);
        effects.of[kind].holds = all.off & bit || (alternative && !(all.on & bit)) ? 0 : -1;
        effects.of[kind].takes = all.free & bit ? 0 : -1;
    }
    return effects;
}

/* The edge's lag without the removed causes: the smallest of the lag and of the changes of these causes.
 * `change`: the first change of this edge or of a later one. It advances past the changes of this edge. */
static inline int64_t left_of(const struct aorta_graph *graph, const struct effects *effects, uint32_t edge,
                              uint32_t *change) {
    int64_t lag_ns = graph->lag_ns[edge];
    if (lag_ns > 0) lag_ns &= effects->of[graph->kind[edge]].takes;
    for (; *change < graph->change_count && graph->changes[*change].edge == edge; ++*change)
        if (effects->removed & UINT32_C(1) << graph->changes[*change].cause && graph->changes[*change].lag_ns < lag_ns)
            lag_ns = graph->changes[*change].lag_ns;
    return lag_ns;
}

static uint32_t first_change(const struct aorta_graph *graph, uint32_t edge) {
    const struct aorta_graph_change key = {.edge = edge};
    return (uint32_t)aorta_count_below(graph->changes, graph->change_count, sizeof key, &key, aorta_by_uint32);
}

/* ---- replaying ---- */

/* A point whose edges are all removed keeps its recorded time. No point moves before its rank's start, because what a
 * host did before the device's first work saves no time later. */
static void evaluate(const struct aorta_graph *graph, uint32_t removed, int64_t *restrict point_ns) {
    const struct effects effects = effects_of(removed);
    uint32_t change = 0;
    for (uint32_t i = 0; i < graph->point_count; i++) {
        int64_t latest_ns = INT64_MIN;
        for (uint32_t j = graph->first_edge[i]; j < graph->first_edge[i + 1]; j++) {
            const int64_t lag_ns = left_of(graph, &effects, j, &change), holds = effects.of[graph->kind[j]].holds;
            const int64_t at_ns = ((point_ns[graph->from[j]] + lag_ns) & holds) | (INT64_MIN & ~holds);
            latest_ns = at_ns > latest_ns ? at_ns : latest_ns;
        }
        const bool stays = aorta_graph_pinned(graph, i) || latest_ns == INT64_MIN;
        const int64_t at_ns = latest_ns + graph->residual_ns[i], start_ns = graph->ranks[graph->rank[i]].start_ns;
        point_ns[i] = stays ? graph->time_ns[i] : at_ns > start_ns ? at_ns : start_ns;
    }
}

int64_t aorta_replay_begin(const struct aorta_graph *graph, const int64_t *point_ns, uint32_t rank) {
    uint32_t mark = graph->ranks[rank].mark;
    return mark == AORTA_GRAPH_NONE ? graph->ranks[rank].start_ns : point_ns[mark];
}

/* Sets the time of each rank, until its last measured point. Returns the step time, mean over ranks. */
static double measure_ranks(const struct aorta_graph *graph, const int64_t *point_ns, int64_t *rank_ns) {
    double step_ns = 0;
    memset(rank_ns, 0, graph->rank_count * sizeof *rank_ns);
    for (uint32_t i = 0; i < graph->point_count; i++) {
        if (!aorta_graph_measured(graph, i)) continue;
        const int64_t length_ns = point_ns[i] - aorta_replay_begin(graph, point_ns, graph->rank[i]);
        if (length_ns > rank_ns[graph->rank[i]]) rank_ns[graph->rank[i]] = length_ns;
    }
    for (uint32_t i = 0; i < graph->rank_count; i++)
        step_ns += (double)rank_ns[i] / (graph->ranks[i].steps ? graph->ranks[i].steps : 1);
    return graph->rank_count ? step_ns * graph->longer / graph->rank_count : step_ns;
}

void aorta_replay_run(const struct aorta_graph *graph, uint32_t removed, struct aorta_replay *replay) {
    struct aorta_arena *memory = &replay->memory;
    memory->failed |= graph->failed;
    if (!replay->point_ns) {
        replay->point_ns = aorta_arena_raw(memory, ((size_t)graph->point_count + 1) * sizeof *replay->point_ns);
        replay->rank_ns = aorta_arena_alloc(memory, ((size_t)graph->rank_count + 1) * sizeof *replay->rank_ns);
    }
    if (memory->failed) return;
    evaluate(graph, removed, replay->point_ns);
    replay->step_ns = measure_ranks(graph, replay->point_ns, replay->rank_ns);
}

double aorta_replay_recorded(const struct aorta_graph *graph, struct aorta_arena *memory) {
    int64_t *rank_ns = aorta_arena_alloc(memory, ((size_t)graph->rank_count + 1) * sizeof *rank_ns);
    return rank_ns ? measure_ranks(graph, graph->time_ns, rank_ns) : 0;
}

void aorta_replay_free(struct aorta_replay *replay) {
    aorta_arena_free(&replay->memory);
    *replay = (struct aorta_replay){0};
}

/* Sets of removals, the removal that each set is for, and the step without each set. */
struct sets {
    const struct aorta_graph *graph;
    uint32_t removed[AORTA_REMOVAL_COUNT + 1];
    enum aorta_removal of[AORTA_REMOVAL_COUNT + 1];
    double step_ns[AORTA_REMOVAL_COUNT + 1];
    size_t count;
};

static void add_set(struct sets *sets, uint32_t removed, enum aorta_removal of) {
    sets->removed[sets->count] = removed;
    sets->of[sets->count++] = of;
}

static aorta_status replay_set(void *user, size_t set) {
    struct sets *sets = user;
    struct aorta_replay replay = {0};
    aorta_replay_run(sets->graph, sets->removed[set], &replay);
    aorta_status status = aorta_arena_check(&replay.memory, "a replay");
    sets->step_ns[set] = replay.step_ns;
    aorta_replay_free(&replay);
    return status;
}

static void replay_each(struct sets *sets, struct aorta_arena *memory) {
    aorta_status status = aorta_parallel(sets->count, replay_set, sets);
    memory->failed |= status != NULL;
    aorta_status_free(status);
}

/* ---- paths ---- */

/* Returns the binding edge of the point, and its remaining lag. NONE if the point keeps its recorded time. */
static uint32_t deciding_edge(const struct aorta_graph *graph, const struct effects *effects, const int64_t *point_ns,
                              uint32_t point, int64_t *lag_ns) {
    uint32_t best = AORTA_GRAPH_NONE, change = first_change(graph, graph->first_edge[point]);
    int64_t latest_ns = INT64_MIN;
    for (uint32_t i = graph->first_edge[point]; i < graph->first_edge[point + 1]; i++) {
        const int64_t left_ns = left_of(graph, effects, i, &change);
        if (!effects->of[graph->kind[i]].holds || point_ns[graph->from[i]] + left_ns <= latest_ns) continue;
        latest_ns = point_ns[graph->from[i]] + left_ns;
        *lag_ns = left_ns;
        best = i;
    }
    return best;
}

static void walk(const struct aorta_graph *graph, uint32_t removed, const int64_t *point_ns, aorta_graph_visit visit,
                 void *user) {
    const struct effects effects = effects_of(removed);
    uint32_t point = AORTA_GRAPH_NONE;
    for (uint32_t i = 0; i < graph->point_count; i++)
        if (aorta_graph_measured(graph, i) && (point == AORTA_GRAPH_NONE || point_ns[i] > point_ns[point])) point = i;
    while (point != AORTA_GRAPH_NONE && graph->time_ns[point] > graph->ranks[graph->rank[point]].from_ns) {
        int64_t lag_ns = 0;
        const uint32_t edge = deciding_edge(graph, &effects, point_ns, point, &lag_ns);
        if (edge == AORTA_GRAPH_NONE) return;
        visit(user, point, edge, lag_ns, graph->residual_ns[point]);
        point = graph->from[edge];
    }
}

void aorta_replay_walk(const struct aorta_graph *graph, uint32_t removed, aorta_graph_visit visit, void *user,
                       struct aorta_arena *memory) {
    struct aorta_replay replay = {0};
    aorta_replay_run(graph, removed, &replay);
    if (!replay.memory.failed) walk(graph, removed, replay.point_ns, visit, user);
    aorta_arena_end(&replay.memory, memory);
}

void aorta_graph_walk(const struct aorta_graph *graph, aorta_graph_visit visit, void *user) {
    walk(graph, 0, graph->time_ns, visit, user);
}

struct measure {
    const struct aorta_graph *graph;
    struct aorta_graph_path path;
    int64_t pending_ns; /* lag within spans whose start the next edge explains */
};

/* The edge is within a span. An edge further back explains the span's start. */
static bool within_span(enum aorta_edge_kind kind) {
    return kind == AORTA_EDGE_KERNEL || kind == AORTA_EDGE_COPY || kind == AORTA_EDGE_TRANSFER ||
           kind == AORTA_EDGE_ARRIVAL || kind == AORTA_EDGE_READY;
}

static void measure_edge(void *user, uint32_t point, uint32_t edge, int64_t lag_ns, int64_t residual_ns) {
    struct measure *measure = user;
    enum aorta_edge_kind kind = (enum aorta_edge_kind)measure->graph->kind[edge];
    (void)point;
    measure->path.length_ns += lag_ns + residual_ns;
    measure->path.unexplained_ns += residual_ns;
    measure->pending_ns += lag_ns;
    if (within_span(kind)) return;
    if (measure->graph->inferred[edge])
        measure->path.inferred_ns += measure->pending_ns;
    else
        measure->path.recorded_ns += measure->pending_ns;
    measure->pending_ns = 0;
}

struct aorta_graph_path aorta_graph_critical(const struct aorta_graph *graph) {
    struct measure measure = {.graph = graph};
    aorta_graph_walk(graph, measure_edge, &measure);
    measure.path.recorded_ns += measure.pending_ns;
    return measure.path;
}

/* ---- gains ---- */

/* Never negative: without a cause the first step can shrink more than the measured steps, which then begin with less
 * lead. */
static double gain(double with_ns, double without_ns) {
    return without_ns < with_ns ? with_ns - without_ns : 0;
}

/* More than half of the other gain, but not larger. Such a cause comes before the cause that hides it, which gets the
 * remaining gain. */
static bool is_most_of(double own_ns, double other_ns) {
    static const double most = 0.5;
    return own_ns > most * other_ns && own_ns <= other_ns;
}

/* Free launches also hide what the host does elsewhere, so a specific cause comes before late launches. */
static double weight_above_launches(const struct aorta_gains *gains, int removal) {
    static const enum aorta_removal specific[] = {AORTA_WITHOUT_HOST_SYNC,  AORTA_WITHOUT_HOST_PAUSE,
                                                  AORTA_WITHOUT_DATA_WAIT,  AORTA_WITHOUT_HOST_COLLECTIVE,
                                                  AORTA_WITHOUT_ALLOCATION, AORTA_WITHOUT_COPY};
    const double launches_ns = gains->gain_ns[AORTA_WITHOUT_HOST_LAUNCH], own_ns = gains->gain_ns[removal];
    for (size_t i = 0; i < sizeof specific / sizeof *specific; i++)
        if ((int)specific[i] == removal && is_most_of(own_ns, launches_ns))
            return launches_ns + own_ns / launches_ns; /* among several the larger first */
    return own_ns;
}

/* A host that does not wait for the device runs ahead, which hides its pauses and its waits for data. */
static bool is_hidden_by_lead(int removal) {
    return (removal >= AORTA_WITHOUT_HOST_PAUSE && removal <= AORTA_WITHOUT_HOST_PAUSE_ELSE) ||
           removal == AORTA_WITHOUT_DATA_WAIT || removal == AORTA_WITHOUT_HOST_COLLECTIVE ||
           removal == AORTA_WITHOUT_ALLOCATION;
}

/* The sort key of a cause. A cause that the host's lead would hide comes before the wait for the device, which prevents
 * the lead. */
static double weight_of(const struct aorta_gains *gains, int removal) {
    const double waits_ns = gains->gain_ns[AORTA_WITHOUT_HOST_SYNC], own_ns = gains->gain_ns[removal];
    const double weight = weight_above_launches(gains, removal);
    if (!is_hidden_by_lead(removal) || !is_most_of(own_ns, waits_ns)) return weight;
    const double above = weight_above_launches(gains, AORTA_WITHOUT_HOST_SYNC) + own_ns / waits_ns;
    return above > weight ? above : weight;
}

static void order_gains(struct aorta_gains *gains) {
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) {
        int place = i;
        for (; place > 0 && weight_of(gains, (int)gains->order[place - 1]) < weight_of(gains, i); place--)
            gains->order[place] = gains->order[place - 1];
        gains->order[place] = (enum aorta_removal)i;
    }
}

/* Bits of the removals that change at least one edge, including AORTA_WITHOUT_WAITING. */
static uint32_t effective(const struct aorta_graph *graph) {
    uint32_t kinds = 0, found = 0;
    for (uint32_t i = 0; i < graph->edge_count; i++) kinds |= UINT32_C(1) << graph->kind[i];
    for (uint32_t i = 0; i < graph->change_count; i++) found |= UINT32_C(1) << graph->changes[i].cause;
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++)
        if ((removals[i].free | removals[i].off | removals[i].on) & kinds)
            found |= aorta_removal_bit((enum aorta_removal)i);
    return found;
}

/* A cause without a gain of its own may gain after other causes are removed. For example, a copy and the host's wait
 * for the copy hide each other. */
static void measure_gains(const struct aorta_graph *graph, struct aorta_gains *gains, struct aorta_arena *memory) {
    const uint32_t possible = effective(graph);
    struct sets alone = {.graph = graph, .count = 1}, after = {.graph = graph}; /* alone[0]: nothing is removed */
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) {
        const uint32_t bit = aorta_removal_bit((enum aorta_removal)i);
        if (with_waiting(bit) & possible) add_set(&alone, bit, (enum aorta_removal)i);
    }
    replay_each(&alone, memory);
    gains->replayed_ns = gains->floor_ns = alone.step_ns[0];
    for (size_t i = 1; i < alone.count; i++) gains->gain_ns[alone.of[i]] = gain(alone.step_ns[0], alone.step_ns[i]);
    order_gains(gains);
    uint32_t removed = 0;
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) {
        removed |= aorta_removal_bit(gains->order[i]);
        if (possible & aorta_removal_bit(gains->order[i])) add_set(&after, removed, gains->order[i]);
    }
    replay_each(&after, memory);
    for (size_t i = 0; i < after.count; i++) {
        gains->beyond_ns[after.of[i]] = gain(gains->floor_ns, after.step_ns[i]);
        gains->floor_ns -= gains->beyond_ns[after.of[i]];
    }
}

void aorta_gains_measure(const struct aorta_graph *graph, struct aorta_gains *gains, struct aorta_arena *memory) {
    *gains = (struct aorta_gains){0};
    measure_gains(graph, gains, memory);
    gains->measured_ns = aorta_replay_recorded(graph, memory);
    gains->path = aorta_graph_critical(graph);
    if (gains->path.length_ns > 0) {
        gains->inferred_share = (double)gains->path.inferred_ns / (double)gains->path.length_ns;
        gains->unexplained_share = (double)gains->path.unexplained_ns / (double)gains->path.length_ns;
    }
}

/* ---- where ---- */

struct search {
    const struct aorta_graph *graph;
    struct effects effects;
    int64_t *rank_ns;
    struct aorta_origin origin;
};

/* The time that the removal takes from an edge. */
static int64_t taken_from(const struct search *search, uint32_t edge) {
    const struct aorta_graph *graph = search->graph;
    const enum aorta_edge_kind kind = (enum aorta_edge_kind)graph->kind[edge];
    uint32_t change = first_change(graph, edge);
    if (aorta_edge_is_alternative(kind)) return 0;
    const int64_t left_ns = search->effects.of[kind].holds ? left_of(graph, &search->effects, edge, &change) : 0;
    const int64_t gone_ns = graph->lag_ns[edge] - left_ns;
    return gone_ns > 0 ? gone_ns : 0;
}

static void search_edge(void *user, uint32_t point, uint32_t edge, int64_t lag_ns, int64_t residual_ns) {
    struct search *search = user;
    (void)lag_ns;
    (void)residual_ns;
    int64_t gone_ns = taken_from(search, edge);
    const int64_t since_ns = search->graph->time_ns[point] - search->graph->ranks[search->graph->rank[point]].start_ns;
    if (gone_ns > since_ns) gone_ns = since_ns; /* earlier time is not replayed */
    if (gone_ns <= 0) return;
    search->origin.count++;
    search->origin.total_ns += gone_ns;
    if (search->origin.point != AORTA_GRAPH_NONE && gone_ns <= search->origin.largest_ns) return;
    search->origin.largest_ns = gone_ns;
    search->origin.point = point;
    search->origin.from = search->graph->from[edge];
}

/* Finds the largest edge anywhere if the critical path has none: a cause that gains only together with another one is
 * not on the critical path. */
static void search_all(struct search *search) {
    const struct aorta_graph *graph = search->graph;
    const bool nowhere = search->origin.point == AORTA_GRAPH_NONE;
    for (uint32_t i = 0; i < graph->point_count; i++) {
        const struct aorta_graph_rank *rank = &graph->ranks[graph->rank[i]];
        if (graph->time_ns[i] <= rank->start_ns || graph->time_ns[i] > rank->end_ns) continue;
        for (uint32_t j = graph->first_edge[i]; j < graph->first_edge[i + 1]; j++) {
            search->rank_ns[graph->rank[i]] += taken_from(search, j);
            if (nowhere) search_edge(search, i, j, 0, 0);
        }
    }
}

static uint32_t rank_that_stands_out(const struct search *search) {
    const struct aorta_graph *graph = search->graph;
    uint32_t most = 0;
    for (uint32_t i = 1; i < graph->rank_count; i++)
        if (search->rank_ns[i] > search->rank_ns[most]) most = i;
    for (uint32_t i = 0; i < graph->rank_count; i++)
        if (i != most && 2 * search->rank_ns[most] < 3 * search->rank_ns[i]) return AORTA_GRAPH_NONE;
    return most;
}

void aorta_replay_origin(const struct aorta_graph *graph, enum aorta_removal removal, struct aorta_origin *origin,
                         struct aorta_arena *memory) {
    struct search search = {.graph = graph,
                            .effects = effects_of(aorta_removal_bit(removal)),
                            .origin = {.point = AORTA_GRAPH_NONE, .from = AORTA_GRAPH_NONE}};
    search.effects.removed = aorta_removal_bit(removal); /* without waiting */
    search.rank_ns = aorta_arena_alloc(memory, ((size_t)graph->rank_count + 1) * sizeof *search.rank_ns);
    *origin = search.origin;
    if (!search.rank_ns) return;
    aorta_graph_walk(graph, search_edge, &search);
    search_all(&search);
    search.origin.rank = rank_that_stands_out(&search);
    *origin = search.origin;
}
