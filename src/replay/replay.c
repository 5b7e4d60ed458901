#include "replay/replay.h"

#include <stdlib.h>
#include <string.h>

/* ---- the removals ---- */

#define EDGE(kind) (UINT32_C(1) << AORTA_EDGE_##kind)

/* What a removal does to edges, by their kind. Where a rule depends on the edge (which kernels are slower, which
 * collectives), the graph has a list of changes instead. */
static const struct removal {
    const char *cause, *description;
    bool late;     /* the cause makes a rank late */
    uint32_t free; /* take no time */
    uint32_t off;  /* do not hold */
    uint32_t on;   /* alternatives that hold */
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

/* Several at once. */
static struct removal combine(uint32_t removed) {
    struct removal all = {0};
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) {
        if (!(removed & aorta_removal_bit((enum aorta_removal)i))) continue;
        all.free |= removals[i].free;
        all.off |= removals[i].off;
        all.on |= removals[i].on;
    }
    return all;
}

/* What a removal leaves of edges of a kind that have no changes. */
struct effect {
    int64_t holds; /* -1: the edge holds; 0 */
    int64_t takes; /* -1: it takes its time; 0: none */
};

static struct effect effect_of(enum aorta_edge_kind kind, const struct removal *removal) {
    const uint32_t bit = UINT32_C(1) << kind;
    const bool gone = removal->off & bit || (aorta_edge_is_alternative(kind) && !(removal->on & bit));
    return (struct effect){gone ? 0 : -1, removal->free & bit ? 0 : -1};
}

static inline int64_t left_of(int64_t lag_ns, struct effect effect) {
    return lag_ns > 0 ? lag_ns & effect.takes : lag_ns;
}

/* The smallest of the lag and of the changes of the edge's that belong to what is removed. `change`: the first of the
 * edge's changes, or what follows. */
static int64_t changed_lag(const struct aorta_graph *graph, uint32_t edge, uint32_t change, uint32_t removed,
                           int64_t lag_ns) {
    for (; change < graph->change_count && graph->changes[change].edge == edge; change++)
        if (removed & UINT32_C(1) << graph->changes[change].cause && graph->changes[change].lag_ns < lag_ns)
            lag_ns = graph->changes[change].lag_ns;
    return lag_ns;
}

/* Who waits for a late rank has a collective that waits beside its kernels. Without what made that rank late they would
 * be as fast as alone; while the rank is still waited for, that changes nothing. */
static uint32_t with_waiting(uint32_t removed) {
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++)
        if (removals[i].late && removed & aorta_removal_bit((enum aorta_removal)i))
            return removed | aorta_removal_bit(AORTA_WITHOUT_WAITING);
    return removed;
}

/* ---- replaying ---- */

/* Removals that are evaluated together: each point and edge is read once for all of them. */
enum { LANES = 4 };

struct together {
    uint32_t removed[LANES]; /* with waiting */
    struct effect effects[AORTA_EDGE_KIND_COUNT][LANES];
};

static void put_together(const uint32_t *removed, int lanes, struct together *together) {
    for (int lane = 0; lane < lanes; lane++) {
        together->removed[lane] = with_waiting(removed[lane]);
        const struct removal all = combine(together->removed[lane]);
        for (int kind = 0; kind < AORTA_EDGE_KIND_COUNT; kind++)
            together->effects[kind][lane] = effect_of((enum aorta_edge_kind)kind, &all);
    }
}

/* The points' times, of each lane, in pieces: one array of a large graph fits into no place that was used before. */
enum { PIECE_BITS = 14, PIECE_POINTS = 1 << PIECE_BITS };

static inline int64_t *lanes_of(int64_t *const *pieces, uint32_t point, int lanes) {
    return pieces[point >> PIECE_BITS] + (size_t)(point & (PIECE_POINTS - 1)) * (size_t)lanes;
}

/* A point whose edges are all gone stays where it was. */
static inline __attribute__((always_inline)) void
evaluate(const struct aorta_graph *graph, const struct together *together, const int lanes, int64_t *const *pieces) {
    uint32_t change = 0, next_changed = graph->change_count ? graph->changes[0].edge : AORTA_GRAPH_NONE;
    for (uint32_t i = 0; i < graph->point_count; i++) {
        int64_t latest_ns[LANES] = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN};
        for (uint32_t j = graph->first_edge[i]; j < graph->first_edge[i + 1]; j++) {
            const struct effect *effects = together->effects[graph->kind[j]];
            const int64_t *from_ns = lanes_of(pieces, graph->from[j], lanes);
            int64_t lag_ns[LANES];
            for (int lane = 0; lane < lanes; lane++) lag_ns[lane] = left_of(graph->lag_ns[j], effects[lane]);
            if (j == next_changed) {
                for (int lane = 0; lane < lanes; lane++)
                    lag_ns[lane] = changed_lag(graph, j, change, together->removed[lane], lag_ns[lane]);
                while (change < graph->change_count && graph->changes[change].edge == j) change++;
                next_changed = change < graph->change_count ? graph->changes[change].edge : AORTA_GRAPH_NONE;
            }
            for (int lane = 0; lane < lanes; lane++) {
                const int64_t holds = effects[lane].holds;
                const int64_t at_ns = ((from_ns[lane] + lag_ns[lane]) & holds) | (INT64_MIN & ~holds);
                latest_ns[lane] = at_ns > latest_ns[lane] ? at_ns : latest_ns[lane];
            }
        }
        const int64_t time_ns = graph->time_ns[i], residual_ns = graph->residual_ns[i];
        const bool stays = aorta_graph_pinned(graph, i);
        int64_t *point_ns = lanes_of(pieces, i, lanes);
        for (int lane = 0; lane < lanes; lane++)
            point_ns[lane] = stays || latest_ns[lane] == INT64_MIN ? time_ns : latest_ns[lane] + residual_ns;
    }
}

static void evaluate_plain(const struct aorta_graph *graph, const struct together *together, int64_t *const *pieces) {
    evaluate(graph, together, LANES, pieces);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void evaluate_avx2(const struct aorta_graph *graph,
                                                          const struct together *together, int64_t *const *pieces) {
    evaluate(graph, together, LANES, pieces);
}
#endif

static void evaluate_lanes(const struct aorta_graph *graph, const struct together *together, int64_t *const *pieces) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        evaluate_avx2(graph, together, pieces);
        return;
    }
#endif
    evaluate_plain(graph, together, pieces);
}

static size_t piece_count(const struct aorta_graph *graph) {
    return (graph->point_count >> PIECE_BITS) + (size_t)1;
}

/* False: no memory, also for the graph. */
static bool prepare(const struct aorta_graph *graph, struct aorta_replay *replay) {
    struct aorta_arena *memory = &replay->memory;
    memory->failed |= graph->failed;
    if (replay->pieces || memory->failed) return !memory->failed;
    replay->point_ns = aorta_arena_raw(memory, ((size_t)graph->point_count + 1) * sizeof *replay->point_ns);
    replay->rank_ns = aorta_arena_alloc(memory, ((size_t)graph->rank_count + 1) * sizeof *replay->rank_ns);
    replay->pieces = aorta_arena_alloc(memory, piece_count(graph) * sizeof *replay->pieces);
    for (size_t i = 0; !memory->failed && i < piece_count(graph); i++)
        replay->pieces[i] = replay->point_ns + (i << PIECE_BITS);
    return !memory->failed;
}

int64_t aorta_replay_begin(const struct aorta_graph *graph, const int64_t *point_ns, uint32_t rank) {
    uint32_t mark = graph->ranks[rank].mark;
    return mark == AORTA_GRAPH_NONE ? graph->ranks[rank].start_ns : point_ns[mark];
}

/* Mean over ranks of a step's time, from the longest time of each rank. */
static double mean_step(const struct aorta_graph *graph, const int64_t *rank_ns, size_t stride) {
    double step_ns = 0;
    for (uint32_t i = 0; i < graph->rank_count; i++)
        step_ns += (double)rank_ns[i * stride] / (graph->ranks[i].steps ? graph->ranks[i].steps : 1);
    return graph->rank_count ? step_ns * graph->longer / graph->rank_count : step_ns;
}

/* The points are those that end within the rank's time in the recording. */
static inline __attribute__((always_inline)) void longest(const struct aorta_graph *graph, const int lanes,
                                                          int64_t *const *pieces, int64_t *restrict rank_ns) {
    memset(rank_ns, 0, (size_t)graph->rank_count * (size_t)lanes * sizeof *rank_ns);
    for (uint32_t i = 0; i < graph->point_count; i++) {
        if (!aorta_graph_measured(graph, i)) continue;
        const struct aorta_graph_rank *rank = &graph->ranks[graph->rank[i]];
        const int64_t *mark_ns = rank->mark == AORTA_GRAPH_NONE ? NULL : lanes_of(pieces, rank->mark, lanes);
        const int64_t *point_ns = lanes_of(pieces, i, lanes);
        int64_t *most_ns = &rank_ns[(size_t)graph->rank[i] * (size_t)lanes];
        for (int lane = 0; lane < lanes; lane++) {
            const int64_t length_ns = point_ns[lane] - (mark_ns ? mark_ns[lane] : rank->start_ns);
            most_ns[lane] = length_ns > most_ns[lane] ? length_ns : most_ns[lane];
        }
    }
}

static void measure_ranks(const struct aorta_graph *graph, struct aorta_replay *replay) {
    longest(graph, 1, replay->pieces, replay->rank_ns);
    replay->step_ns = mean_step(graph, replay->rank_ns, 1);
}

void aorta_replay_run(const struct aorta_graph *graph, uint32_t removed, struct aorta_replay *replay) {
    struct together together;
    if (!prepare(graph, replay)) return;
    replay->removed = removed;
    put_together(&removed, 1, &together);
    evaluate(graph, &together, 1, replay->pieces);
    measure_ranks(graph, replay);
}

static uint32_t first_change(const struct aorta_graph *graph, uint32_t edge) {
    uint32_t low = 0, high = graph->change_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (graph->changes[middle].edge < edge)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The edge that decides when the point is, and what is left of its lag; NONE: the point stays where it was. */
static uint32_t deciding_edge(const struct aorta_graph *graph, const struct together *together, const int64_t *point_ns,
                              uint32_t point, int64_t *lag_ns) {
    uint32_t best = AORTA_GRAPH_NONE;
    int64_t latest_ns = INT64_MIN;
    for (uint32_t i = graph->first_edge[point]; i < graph->first_edge[point + 1]; i++) {
        const struct effect effect = together->effects[graph->kind[i]][0];
        if (!effect.holds) continue;
        const int64_t left_ns =
            changed_lag(graph, i, first_change(graph, i), together->removed[0], left_of(graph->lag_ns[i], effect));
        if (point_ns[graph->from[i]] + left_ns <= latest_ns) continue;
        latest_ns = point_ns[graph->from[i]] + left_ns;
        *lag_ns = left_ns;
        best = i;
    }
    return best;
}

void aorta_replay_walk(const struct aorta_graph *graph, uint32_t removed, aorta_graph_visit visit, void *user,
                       struct aorta_arena *memory) {
    struct aorta_replay replay = {0};
    struct together together;
    uint32_t point = AORTA_GRAPH_NONE;
    aorta_replay_run(graph, removed, &replay);
    put_together(&removed, 1, &together);
    for (uint32_t i = 0; !replay.memory.failed && i < graph->point_count; i++)
        if (aorta_graph_measured(graph, i) &&
            (point == AORTA_GRAPH_NONE || replay.point_ns[i] > replay.point_ns[point]))
            point = i;
    while (point != AORTA_GRAPH_NONE && graph->time_ns[point] > graph->ranks[graph->rank[point]].from_ns) {
        int64_t lag_ns = 0;
        const uint32_t edge = deciding_edge(graph, &together, replay.point_ns, point, &lag_ns);
        if (edge == AORTA_GRAPH_NONE) break;
        visit(user, point, edge, lag_ns, graph->residual_ns[point]);
        point = graph->from[edge];
    }
    aorta_arena_end(&replay.memory, memory);
}

/* The step without each of several sets of removals. */
static void replay_each(const struct aorta_graph *graph, const uint32_t *removed, int count, double *step_ns,
                        struct aorta_arena *memory) {
    struct aorta_arena scratch = {0};
    int64_t **pieces = aorta_arena_alloc(&scratch, piece_count(graph) * sizeof *pieces);
    int64_t *rank_ns = aorta_arena_alloc(&scratch, ((size_t)graph->rank_count + 1) * LANES * sizeof *rank_ns);
    for (size_t i = 0; pieces && i < piece_count(graph); i++) {
        const size_t left = graph->point_count - (i << PIECE_BITS), points = left < PIECE_POINTS ? left : PIECE_POINTS;
        pieces[i] = aorta_arena_raw(&scratch, (points + 1) * LANES * sizeof *pieces[i]);
    }
    for (int first = 0; !scratch.failed && first < count; first += LANES) {
        uint32_t sets[LANES] = {0};
        struct together together;
        for (int lane = 0; lane < LANES && first + lane < count; lane++) sets[lane] = removed[first + lane];
        put_together(sets, LANES, &together);
        evaluate_lanes(graph, &together, pieces);
        longest(graph, LANES, pieces, rank_ns);
        for (int lane = 0; lane < LANES && first + lane < count; lane++)
            step_ns[first + lane] = mean_step(graph, rank_ns + lane, LANES);
    }
    aorta_arena_end(&scratch, memory);
}

void aorta_replay_recorded(const struct aorta_graph *graph, struct aorta_replay *replay) {
    if (!prepare(graph, replay)) return;
    replay->removed = 0;
    if (graph->point_count) memcpy(replay->point_ns, graph->time_ns, graph->point_count * sizeof *graph->time_ns);
    measure_ranks(graph, replay);
}

void aorta_replay_free(struct aorta_replay *replay) {
    aorta_arena_free(&replay->memory);
    *replay = (struct aorta_replay){0};
}

/* ---- gains ---- */

/* Without a cause the first step can shrink by more than those that are measured, which then begin with less lead. */
static double gain(double with_ns, double without_ns) {
    return without_ns < with_ns ? with_ns - without_ns : 0;
}

/* Half of it or more, and not more than it: it comes before what hides it, and that gets what is left. */
static bool is_most_of(double own_ns, double other_ns) {
    static const double most = 0.5;
    return own_ns > most * other_ns && own_ns <= other_ns;
}

/* Launches that cost nothing also hide what the host does elsewhere: a specific cause comes before them. */
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

/* A host that does not wait for the device is ahead, and hides its pauses and how long it waits for data. */
static bool is_hidden_by_lead(int removal) {
    return (removal >= AORTA_WITHOUT_HOST_PAUSE && removal <= AORTA_WITHOUT_HOST_PAUSE_ELSE) ||
           removal == AORTA_WITHOUT_DATA_WAIT || removal == AORTA_WITHOUT_HOST_COLLECTIVE;
}

/* What a cause counts in the order: what the wait for the device keeps from being hidden comes before the wait. */
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

/* The removals that change an edge at all, and AORTA_WITHOUT_WAITING where changes are of it. */
static uint32_t effective(const struct aorta_graph *graph) {
    uint32_t kinds = 0, found = 0;
    for (uint32_t i = 0; i < graph->edge_count; i++) kinds |= UINT32_C(1) << graph->kind[i];
    for (uint32_t i = 0; i < graph->change_count; i++) found |= UINT32_C(1) << graph->changes[i].cause;
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++)
        if ((removals[i].free | removals[i].off | removals[i].on) & kinds)
            found |= aorta_removal_bit((enum aorta_removal)i);
    return found;
}

/* Sets of removals, each for one removal. */
struct sets {
    uint32_t removed[AORTA_REMOVAL_COUNT + 1];
    enum aorta_removal of[AORTA_REMOVAL_COUNT + 1];
    int count;
};

static void add_set(struct sets *sets, uint32_t removed, enum aorta_removal of) {
    sets->removed[sets->count] = removed;
    sets->of[sets->count++] = of;
}

/* What gains nothing alone may gain with what was removed before it: where the host waits for a copy, one stays as long
 * as the other does. */
static void measure_gains(const struct aorta_graph *graph, struct aorta_gains *gains, struct aorta_arena *memory) {
    const uint32_t possible = effective(graph);
    double step_ns[AORTA_REMOVAL_COUNT + 1] = {0};
    struct sets alone = {.count = 1}, after = {0}; /* the first of `alone`: nothing is removed */
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) {
        const uint32_t bit = aorta_removal_bit((enum aorta_removal)i);
        if (with_waiting(bit) & possible) add_set(&alone, bit, (enum aorta_removal)i);
    }
    replay_each(graph, alone.removed, alone.count, step_ns, memory);
    gains->replayed_ns = gains->floor_ns = step_ns[0];
    for (int i = 1; i < alone.count; i++) gains->gain_ns[alone.of[i]] = gain(gains->replayed_ns, step_ns[i]);
    order_gains(gains);
    uint32_t removed = 0;
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) {
        removed |= aorta_removal_bit(gains->order[i]);
        if (possible & aorta_removal_bit(gains->order[i])) add_set(&after, removed, gains->order[i]);
    }
    replay_each(graph, after.removed, after.count, step_ns, memory);
    for (int i = 0; i < after.count; i++) {
        gains->beyond_ns[after.of[i]] = gain(gains->floor_ns, step_ns[i]);
        gains->floor_ns -= gains->beyond_ns[after.of[i]];
    }
}

void aorta_gains_measure(const struct aorta_graph *graph, struct aorta_gains *gains, struct aorta_arena *memory) {
    struct aorta_replay replay = {0};
    *gains = (struct aorta_gains){0};
    measure_gains(graph, gains, memory);
    aorta_replay_recorded(graph, &replay);
    gains->measured_ns = replay.step_ns;
    aorta_arena_end(&replay.memory, memory);
    gains->path = aorta_graph_critical(graph);
    if (gains->path.length_ns > 0) {
        gains->inferred_share = (double)gains->path.inferred_ns / (double)gains->path.length_ns;
        gains->unexplained_share = (double)gains->path.unexplained_ns / (double)gains->path.length_ns;
    }
}

/* ---- where ---- */

struct search {
    const struct aorta_graph *graph;
    enum aorta_removal removal;
    int64_t *rank_ns;
    int64_t last_ns; /* of the points visited so far */
    struct aorta_origin origin;
};

/* What the removal takes from an edge; 0: nothing. */
static int64_t taken_from(const struct search *search, uint32_t edge) {
    const struct aorta_graph *graph = search->graph;
    const enum aorta_edge_kind kind = (enum aorta_edge_kind)graph->kind[edge];
    const int64_t lag_ns = graph->lag_ns[edge];
    if (aorta_edge_is_alternative(kind)) return 0;
    const struct effect effect = effect_of(kind, &removals[search->removal]);
    const int64_t left_ns = changed_lag(graph, edge, first_change(graph, edge), aorta_removal_bit(search->removal),
                                        left_of(lag_ns, effect));
    const int64_t gone_ns = effect.holds ? lag_ns - left_ns : lag_ns;
    return gone_ns > 0 ? gone_ns : 0;
}

static void count_time(struct search *search, uint32_t point) {
    const struct aorta_graph *graph = search->graph;
    const struct aorta_graph_rank *rank = &graph->ranks[graph->rank[point]];
    const int64_t near_ns = (rank->end_ns - rank->from_ns) / 4 * 3 / (rank->steps ? rank->steps : 1);
    const int64_t apart_ns = search->last_ns - graph->time_ns[point];
    search->origin.times += !search->origin.times || apart_ns >= near_ns || apart_ns <= -near_ns;
    search->last_ns = graph->time_ns[point];
}

static void search_edge(void *user, uint32_t point, uint32_t edge, int64_t lag_ns, int64_t residual_ns) {
    struct search *search = user;
    (void)lag_ns;
    (void)residual_ns;
    int64_t gone_ns = taken_from(search, edge);
    if (!gone_ns) return;
    count_time(search, point);
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
    struct search search = {
        .graph = graph, .removal = removal, .origin = {.point = AORTA_GRAPH_NONE, .from = AORTA_GRAPH_NONE}};
    search.rank_ns = aorta_arena_alloc(memory, ((size_t)graph->rank_count + 1) * sizeof *search.rank_ns);
    *origin = search.origin;
    if (!search.rank_ns) return;
    aorta_graph_walk(graph, search_edge, &search);
    search_all(&search);
    search.origin.rank = rank_that_stands_out(&search);
    *origin = search.origin;
}
