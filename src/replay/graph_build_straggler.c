/* Compares the kernels of each rank with those of the other ranks.
 *
 * Ranks of a job run the same kernels in the same order, so the k-th run of a name within a step is the same on all of
 * them. A rank is late because of its device if it runs kernels that the other ranks do not run, or takes longer for
 * the same kernels. A collective that waits for a late rank slows down concurrent kernels, which is an effect of the
 * waiting. So only runs without a concurrent collective are compared, if there are any.
 *
 * A rank has more of the shared work if it runs the same kernels with other sizes, or if it exchanges work with other
 * ranks and runs more. Balancing removes only what exceeds the mean of the ranks. Otherwise, kernels that only one rank
 * runs, and time that a rank takes longer, can be removed completely.
 *
 * A rank may run other variants of kernels. So kernels that only this rank runs count only with the time that exceeds
 * the kernels that it lacks. For kernels that all ranks run, only the rank's net excess is removed. */
#include "base/sort.h"
#include "base/statistics.h"
#include "replay/graph_build_internal.h"

#include <stdlib.h>
#include <string.h>

static const double MATTERS = 0.01; /* of a rank's time: less is noise */

/* One run of a kernel. */
struct entry {
    uint32_t name, sizes, number; /* `number`: index among equal runs in its step */
    uint32_t rank, span;
    bool beside, waiting; /* a collective ran concurrently; one waited during at least half of the run */
};

/* All runs of one name and number on one rank. */
struct group {
    size_t begin, end;
    double mean_ns, alone_ns; /* alone_ns 0: never alone */
};

struct study {
    struct aorta_graph_builder *builder;
    struct aorta_arena memory;
    struct entry *entries; /* by name and number, then rank */
    size_t count;
    struct group *groups;      /* one per rank, of the current name and number */
    double *times;             /* best_time of each group, ascending */
    double *more[2], *less[2]; /* by rank: excess and deficit of kernels not common [0] and common [1] to the ranks */
    size_t *only, *lacks;      /* by rank: runs that only it has, and that it lacks */
};

static AORTA_ORDER(entry_order, struct entry,
                   AORTA_UP(name) AORTA_UP(sizes) AORTA_UP(number) AORTA_UP(rank) AORTA_UP(span));

/* ---- runs ---- */

static int64_t met_at(const struct aorta_graph_builder *builder, const struct aorta_replay_span *span) {
    if (span->collective == AORTA_GRAPH_NONE) return span->start_ns;
    return builder->graph->time_ns[builder->first_arrival + span->collective];
}

static int64_t within(const struct aorta_replay_span *span, int64_t from_ns, int64_t to_ns) {
    if (to_ns > span->end_ns) to_ns = span->end_ns;
    return to_ns > from_ns ? to_ns - from_ns : 0;
}

/* Finds concurrent collectives: those that began before a span, then the next one after its start. `entries` are the
 * rank's, in order of its spans. */
static void find_beside(const struct aorta_graph_builder *builder, uint32_t rank, struct entry *entries, size_t count) {
    const struct aorta_replay_rank *one = &builder->recording->ranks[rank];
    int64_t until_ns = INT64_MIN, waits_ns = INT64_MIN;
    uint32_t span = 0;
    for (size_t i = 0; i < count; i++) {
        const struct aorta_replay_span *row = &one->spans[entries[i].span];
        for (; span < entries[i].span; span++) {
            const struct aorta_replay_span *other = &one->spans[span];
            if (other->kind != AORTA_REPLAY_COLLECTIVE) continue;
            if (other->end_ns > until_ns) until_ns = other->end_ns;
            if (met_at(builder, other) > waits_ns) waits_ns = met_at(builder, other);
        }
        entries[i].beside = row->start_ns < until_ns;
        entries[i].waiting = 2 * within(row, row->start_ns, waits_ns) >= row->end_ns - row->start_ns;
    }
    const struct aorta_replay_span *next = NULL;
    span = one->span_count;
    for (size_t i = count; i-- > 0;) {
        const struct aorta_replay_span *row = &one->spans[entries[i].span];
        for (; span > entries[i].span; span--)
            if (one->spans[span - 1].kind == AORTA_REPLAY_COLLECTIVE) next = &one->spans[span - 1];
        if (!next || next->start_ns >= row->end_ns) continue;
        entries[i].beside = true;
        entries[i].waiting |= 2 * within(row, next->start_ns, met_at(builder, next)) >= row->end_ns - row->start_ns;
    }
}

static bool counts(const struct aorta_replay_rank *rank, const struct aorta_replay_span *span) {
    return span->kind == AORTA_REPLAY_KERNEL && span->start_ns >= rank->bounds.start_ns &&
           span->start_ns < rank->bounds.end_ns;
}

/* Numbers the runs of each name, or of equal sizes, within a step, in order of launch, as the order of starts differs
 * between ranks if streams overlap. */
static void number_runs(const struct study *study, uint32_t rank, struct aorta_arena *memory, uint32_t *numbers) {
    const struct aorta_replay_rank *one = &study->builder->recording->ranks[rank];
    const uint32_t *launched = study->builder->launched[rank];
    size_t names = study->builder->recording->name_count;
    struct {
        uint32_t step, count;
    } *last = aorta_arena_alloc(memory, (names + 1) * sizeof *last);
    if (memory->failed) return;
    for (uint32_t i = 0; i < one->span_count; i++) {
        const struct aorta_replay_span *span = &one->spans[launched[i]];
        if (!counts(one, span)) continue;
        const uint32_t key = span->sizes ? span->sizes : span->name;
        if (last[key].step != span->step) last[key].count = 0;
        last[key].step = span->step;
        numbers[launched[i]] = last[key].count++;
    }
}

static void collect_rank(struct study *study, uint32_t rank) {
    const struct aorta_replay_rank *one = &study->builder->recording->ranks[rank];
    size_t first = study->count;
    struct aorta_arena scratch = {0};
    uint32_t *numbers = aorta_arena_raw(&scratch, ((size_t)one->span_count + 1) * sizeof *numbers);
    number_runs(study, rank, &scratch, numbers);
    for (uint32_t i = 0; !scratch.failed && i < one->span_count; i++)
        if (counts(one, &one->spans[i]))
            study->entries[study->count++] =
                (struct entry){one->spans[i].name, one->spans[i].sizes, numbers[i], .rank = rank, .span = i};
    find_beside(study->builder, rank, study->entries + first, study->count - first);
    aorta_arena_end(&scratch, &study->memory);
}

/* ---- one name and number on all ranks ---- */

static int64_t length_of(const struct study *study, const struct entry *entry) {
    const struct aorta_replay_span *span = &study->builder->recording->ranks[entry->rank].spans[entry->span];
    return span->end_ns - span->start_ns;
}

static double best_time(const struct group *group) {
    return group->alone_ns > 0 ? group->alone_ns : group->mean_ns;
}

static bool is_same_run(const struct entry *a, const struct entry *b) {
    return a->name == b->name && a->sizes == b->sizes && a->number == b->number;
}

static size_t measure_groups(struct study *study, size_t begin) {
    uint32_t ranks = study->builder->recording->rank_count;
    memset(study->groups, 0, ranks * sizeof *study->groups);
    size_t i = begin;
    while (i < study->count && is_same_run(&study->entries[i], &study->entries[begin])) {
        struct group *group = &study->groups[study->entries[i].rank];
        double sum = 0, alone_sum = 0;
        size_t alone = 0;
        group->begin = i;
        for (; i < study->count && study->entries[i].rank == study->entries[group->begin].rank &&
               is_same_run(&study->entries[i], &study->entries[begin]);
             i++) {
            sum += (double)length_of(study, &study->entries[i]);
            if (study->entries[i].beside) continue;
            alone_sum += (double)length_of(study, &study->entries[i]);
            alone++;
        }
        group->end = i;
        group->mean_ns = sum / (double)(i - group->begin);
        group->alone_ns = alone ? alone_sum / (double)alone : 0;
    }
    for (uint32_t rank = 0; rank < ranks; rank++) study->times[rank] = best_time(&study->groups[rank]);
    aorta_sort_double(study->times, ranks);
    return i;
}

/* The shortest mean time of a run alone on any rank. */
static double time_alone(const struct study *study) {
    double shortest = 0;
    for (uint32_t i = 0; i < study->builder->recording->rank_count; i++) {
        double alone = study->groups[i].alone_ns;
        if (alone > 0 && (shortest <= 0 || alone < shortest)) shortest = alone;
    }
    return shortest;
}

/* The time by which this run is longer than the median of the other ranks. `common`: neither is 0. */
static double excess_of(const struct study *study, uint32_t rank, bool *common) {
    double mine = best_time(&study->groups[rank]),
           others = aorta_lower_median_without(study->times, study->builder->recording->rank_count, mine);
    *common = mine > 0 && others > 0;
    return mine - others;
}

static void sum_excess(struct study *study) {
    for (uint32_t i = 0; i < study->builder->recording->rank_count; i++) {
        bool common;
        double excess = excess_of(study, i, &common);
        *(excess > 0 ? &study->more[common][i] : &study->less[common][i]) += excess;
        if (!common && excess > 0) study->only[i]++;
        if (!common && excess < 0) study->lacks[i]++;
    }
}

/* Whether the rank has more of the shared work: kernels that only this rank runs are usual kernels of other sizes if it
 * lacks about as many. If ranks exchange work, they may also be another rank's share. */
static bool has_more_work(const struct study *study, uint32_t rank) {
    static const double AS_MANY = 0.9;
    const bool renamed = (double)study->lacks[rank] >= AS_MANY * (double)study->only[rank];
    return (renamed || study->builder->recording->exchanges) && study->more[0][rank] > study->more[1][rank];
}

/* ---- results for each span ---- */

static void set_runs(struct study *study) {
    double alone = time_alone(study);
    for (uint32_t r = 0; r < study->builder->recording->rank_count; r++) {
        const struct group *group = &study->groups[r];
        const struct aorta_graph_rank *bounds = &study->builder->recording->ranks[r].bounds;
        bool common;
        double excess = excess_of(study, r, &common), net = study->more[common][r] + study->less[common][r];
        double steps = bounds->steps ? bounds->steps : 1, stays = 1;
        if (study->builder->graph->ranks[r].more_work) net -= net / study->builder->recording->rank_count;
        bool matters = net * steps > MATTERS * (double)(bounds->end_ns - bounds->from_ns);
        if (excess > 0 && matters) stays = 1 - net / study->more[common][r] * excess / best_time(group);
        for (size_t i = group->begin; i < group->end; i++) {
            const struct entry *entry = &study->entries[i];
            struct aorta_runs *runs = &study->builder->runs[r][entry->span];
            runs->stays = (float)stays;
            runs->extra = stays < 1 && !common && study->only[r] > 2 * study->lacks[r];
            if (entry->waiting && alone > 0) runs->apart_ns = (int64_t)alone;
        }
    }
}

static void study_all(struct study *study) {
    for (size_t i = 0; i < study->count; sum_excess(study)) i = measure_groups(study, i);
    for (uint32_t i = 0; i < study->builder->recording->rank_count; i++)
        study->builder->graph->ranks[i].more_work = study->builder->recording->shares_work && has_more_work(study, i);
    for (size_t i = 0; i < study->count; set_runs(study)) i = measure_groups(study, i);
}

static void collect(struct study *study) {
    const struct aorta_recording *recording = study->builder->recording;
    size_t limit = 1, ranks = (size_t)recording->rank_count + 1;
    for (uint32_t i = 0; i < recording->rank_count; i++) limit += recording->ranks[i].span_count;
    study->entries = aorta_arena_raw(&study->memory, limit * sizeof *study->entries);
    study->groups = aorta_arena_alloc(&study->memory, ranks * sizeof *study->groups);
    study->times = aorta_arena_alloc(&study->memory, ranks * sizeof *study->times);
    study->only = aorta_arena_alloc(&study->memory, ranks * sizeof *study->only);
    study->lacks = aorta_arena_alloc(&study->memory, ranks * sizeof *study->lacks);
    for (int i = 0; i < 2; i++) {
        study->more[i] = aorta_arena_alloc(&study->memory, ranks * sizeof *study->more[i]);
        study->less[i] = aorta_arena_alloc(&study->memory, ranks * sizeof *study->less[i]);
    }
    for (uint32_t i = 0; !study->memory.failed && i < recording->rank_count; i++) collect_rank(study, i);
}

void aorta_compare_runs(struct aorta_graph_builder *builder) {
    struct study study = {.builder = builder};
    collect(&study);
    if (!study.memory.failed && study.count) {
        qsort(study.entries, study.count, sizeof *study.entries, entry_order);
        study_all(&study);
    }
    aorta_arena_end(&study.memory, &builder->memory);
}

static bool is_alone(const struct aorta_recording *recording, uint32_t rank) {
    for (uint32_t i = 0; i < recording->rank_count; i++)
        if (i != rank && recording->ranks[i].host == recording->ranks[rank].host) return false;
    return true;
}

/* Sets gone[] of the points of extra launches to the removed share. False if the rank has none. */
static bool find_extra(const struct aorta_graph_builder *builder, uint32_t rank, float *gone) {
    const struct aorta_replay_rank *one = &builder->recording->ranks[rank];
    bool any = false;
    for (uint32_t i = 0; i < one->span_count; i++) {
        const struct aorta_runs *runs = &builder->runs[rank][i];
        if (!runs->extra || one->spans[i].launch == AORTA_GRAPH_NONE) continue;
        gone[aorta_call_start(builder, one->host, one->spans[i].launch)] = 1 - runs->stays;
        gone[aorta_call_end(builder, one->host, one->spans[i].launch)] = 1 - runs->stays;
        any = true;
    }
    return any;
}

void aorta_balance_launches(struct aorta_graph_builder *builder) {
    struct aorta_graph *graph = builder->graph;
    struct aorta_arena scratch = {0};
    bool any = false;
    float *gone = aorta_arena_alloc(&scratch, (graph->point_count + 1) * sizeof *gone);
    for (uint32_t i = 0; gone && i < builder->recording->rank_count; i++)
        if (is_alone(builder->recording, i)) any |= find_extra(builder, i, gone);
    for (uint32_t i = 0; any && i < graph->edge_count; i++) {
        const double left = 1 - (double)gone[graph->to[i]];
        if (left < 1 && (graph->kind[i] == AORTA_EDGE_GAP || graph->kind[i] == AORTA_EDGE_CALL))
            aorta_graph_change(graph, i, AORTA_WITHOUT_STRAGGLER, (int64_t)((double)graph->lag_ns[i] * left));
    }
    aorta_arena_end(&scratch, &builder->memory);
}
