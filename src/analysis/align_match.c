#include "analysis/align_match.h"

#include "analysis/rank_clocks.h"
#include "base/array.h"
#include "base/hash.h"
#include "base/statistics.h"

#include <stdlib.h>
#include <string.h>

/* Times that can be: further off than 70 years is a broken file, and its differences would not fit. */
static bool sane(int64_t ns) {
    const int64_t most = INT64_C(1) << 61;
    return ns > -most && ns < most;
}

int64_t aorta_align_wall_shift(const struct aorta_trace *trace, const struct aorta_trace *reference) {
    if (!sane(trace->base_ns) || !sane(reference->base_ns)) return 0; /* INT64_MIN: not known */
    return reference->base_ns - trace->base_ns;
}

/* ---- collectives of one rank ---- */

struct ops {
    struct align_op *items;
    size_t count, capacity;
};

static struct align_op *push(struct ops *ops) {
    if (!aorta_array_fit(&ops->items, &ops->capacity, ops->count + 1, sizeof *ops->items)) return NULL;
    return &ops->items[ops->count++];
}

static uint64_t group_hash(const struct aorta_trace *trace, uint32_t row) {
    if (row == AORTA_TRACE_NONE) return 0;
    const struct aorta_trace_group *group = &trace->groups[row];
    const char *name = aorta_trace_text(trace, group->name);
    uint64_t hash = aorta_hash_bytes(name, strlen(name));
    if (group->ranks) hash ^= aorta_hash_bytes(group->ranks, group->rank_count * sizeof *group->ranks) * 31;
    return hash | 1; /* 0 is the unknown group */
}

/* The rank's own number in the group, as peers are numbered. */
static int own_number(const struct aorta_align_rank *rank, uint32_t row) {
    if (row == AORTA_TRACE_NONE) return rank->rank;
    const struct aorta_trace_group *group = &rank->trace->groups[row];
    for (size_t i = 0; i < group->rank_count; i++)
        if (group->ranks[i] == rank->rank) return (int)i;
    return rank->rank;
}

/* A send and its receive are the n-th between the two ranks; sequence numbers count each rank's own. */
static struct align_op describe_pair(const struct aorta_align_rank *rank, const struct aorta_trace_collective *facts) {
    const int own = own_number(rank, facts->group);
    const bool receives = strstr(aorta_trace_text(rank->trace, facts->name), "recv") != NULL;
    const int32_t ends[2] = {receives ? facts->peer : own, receives ? own : facts->peer};
    return (struct align_op){.group = (group_hash(rank->trace, facts->group) ^ aorta_hash_bytes(ends, sizeof ends)) | 1,
                             .sequence = -1,
                             .bytes = facts->bytes,
                             .group_size = 2,
                             .kind = AORTA_ALL_TO_ALL,
                             .named = true,
                             .pair = true};
}

static struct align_op describe(const struct aorta_align_rank *rank, const struct aorta_trace_work *work) {
    const struct aorta_trace *trace = rank->trace;
    if (work->collective == AORTA_TRACE_NONE)
        return (struct align_op){
            .sequence = -1, .bytes = -1, .group_size = -1, .kind = work->by_name, .named = work->named};
    const struct aorta_trace_collective *facts = &trace->collectives[work->collective];
    if (facts->peer >= 0) return describe_pair(rank, facts);
    return (struct align_op){.group = group_hash(trace, facts->group),
                             .sequence = facts->sequence,
                             .bytes = facts->bytes,
                             .group_size = facts->group_size,
                             .kind = (uint8_t)facts->kind,
                             .named = facts->named,
                             .exact = trace->measured != NULL || (facts->named && facts->kind == AORTA_ALL_TO_ALL)};
}

/* Kernels that share a row of collectives[] are one collective. */
static aorta_status collect(const struct aorta_align_rank *rank, uint32_t index, struct ops *ops) {
    const struct aorta_trace *trace = rank->trace;
    size_t *places = calloc(trace->collective_count + 1, sizeof *places); /* of each row's op: its index + 1 */
    if (!places) return AORTA_ERROR(AORTA_MEMORY, "no memory to match %zu collectives", trace->collective_count);
    aorta_status status = NULL;
    for (size_t i = 0; i < trace->work_count && !status; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        if (work->device != rank->device || !aorta_trace_is_collective(work)) continue;
        if (!sane(work->start_ns) || !sane(work->end_ns)) continue;
        size_t *place = work->collective == AORTA_TRACE_NONE ? NULL : &places[work->collective];
        if (place && *place) {
            struct align_op *known = &ops->items[*place - 1];
            if (work->end_ns > known->end_ns) known->end_ns = work->end_ns;
            continue;
        }
        struct align_op *op = push(ops);
        if (!op) {
            status = AORTA_ERROR(AORTA_MEMORY, "no memory to match %zu collectives", ops->count);
            break;
        }
        *op = describe(rank, work);
        op->rank = index;
        op->first = (uint32_t)i;
        op->start_ns = work->start_ns;
        op->end_ns = work->end_ns;
        if (place) *place = ops->count;
    }
    free(places);
    return status;
}

/* ---- the lag between two ranks that count differently ---- */

/* A run of ops of one group and rank, in order of start. */
struct run {
    const struct align_op *items;
    size_t count;
};

enum { MOST_LAGS = 256, SAMPLES = 512, FEW = 4 };

static bool alike(const struct align_op *a, const struct align_op *b) {
    return a->kind == b->kind && a->named == b->named && a->bytes == b->bytes;
}

struct fit {
    size_t pairs, agreeing;
    int64_t shift_ns, spread_ns; /* median difference of the ends, and median distance from it */
};

/* How the other run fits when its op i is taken for op i + lag of the reference. */
static struct fit fit_of(struct run reference, struct run other, int64_t lag, int64_t *differences) {
    struct fit fit = {0};
    int64_t from = lag < 0 ? -lag : 0, to = (int64_t)other.count;
    if (to + lag > (int64_t)reference.count) to = (int64_t)reference.count - lag;
    int64_t stride = to > from ? (to - from) / SAMPLES + 1 : 1;
    for (int64_t i = from; i < to; i += stride, fit.pairs++) {
        const struct align_op *a = &reference.items[i + lag], *b = &other.items[i];
        if (alike(a, b)) differences[fit.agreeing++] = b->end_ns - a->end_ns;
    }
    fit.shift_ns = aorta_median_int64(differences, fit.agreeing);
    for (size_t i = 0; i < fit.agreeing; i++) {
        int64_t distance = differences[i] - fit.shift_ns;
        differences[i] = distance < 0 ? -distance : distance;
    }
    fit.spread_ns = aorta_median_int64(differences, fit.agreeing);
    return fit;
}

static int64_t distance_of(const struct fit *fit, int64_t expected_ns) {
    int64_t distance = fit->shift_ns - expected_ns;
    return distance < 0 ? -distance : distance;
}

/* Enough pairs, nearly all of which agree in kind and size. */
static bool plausible(const struct fit *fit, size_t shorter) {
    return fit->agreeing * 10 >= fit->pairs * 9 && fit->pairs * 2 >= (shorter < SAMPLES ? shorter : SAMPLES);
}

/* The lag with the smallest spread. A program that repeats itself exactly fits at several lags. Among those that fit
 * about as well the one that agrees best with the clocks is taken; `wall` is what these say the shift is. If both have
 * the same number of collectives, which recordings of the same steps have, it is none at all, unless another one agrees
 * as the clocks of one host do. */
static int64_t find_lag(struct run reference, struct run other, int64_t wall_ns) {
    enum { SLACK_NS = 20000, ONE_CLOCK_NS = 250000 };
    bool same_steps = false;
    int64_t differences[SAMPLES + 1];
    size_t shorter = reference.count < other.count ? reference.count : other.count;
    size_t longer = reference.count > other.count ? reference.count : other.count;
    int64_t reach = (int64_t)(longer < MOST_LAGS ? longer : MOST_LAGS), best = 0;
    int64_t spread = INT64_MAX, distance = INT64_MAX;
    for (int64_t lag = -reach; lag <= reach && shorter >= FEW; lag++) {
        struct fit fit = fit_of(reference, other, lag, differences);
        if (fit.agreeing >= FEW && plausible(&fit, shorter) && fit.spread_ns < spread) spread = fit.spread_ns;
    }
    for (int64_t lag = -reach; lag <= reach; lag++) {
        struct fit fit = fit_of(reference, other, lag, differences);
        if (!fit.agreeing || !plausible(&fit, shorter)) continue;
        if (spread != INT64_MAX && (fit.agreeing < FEW || fit.spread_ns > 2 * spread + SLACK_NS)) continue;
        if (lag == 0 && reference.count == other.count) same_steps = true;
        if (distance_of(&fit, wall_ns) >= distance) continue;
        distance = distance_of(&fit, wall_ns);
        best = lag;
    }
    return same_steps && distance > ONE_CLOCK_NS ? 0 : best;
}

/* ---- identities ---- */

static int by_group(const void *left, const void *right) {
    const struct align_op *a = left, *b = right;
    if (a->group != b->group) return a->group < b->group ? -1 : 1;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->first > b->first) - (a->first < b->first);
}

static int by_identity(const void *left, const void *right) {
    const struct align_op *a = left, *b = right;
    if (a->group != b->group) return a->group < b->group ? -1 : 1;
    if (a->place != b->place) return a->place < b->place ? -1 : 1;
    if (a->kind != b->kind || a->named != b->named) return a->kind * 2 + a->named - b->kind * 2 - b->named;
    if (!a->exact && a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    if (a->twin != b->twin) return a->twin < b->twin ? -1 : 1;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    return (a->first > b->first) - (a->first < b->first);
}

/* Ops of one group, by rank and start: gives each its place. */
static void place_group(const struct aorta_align_rank *ranks, struct align_op *ops, size_t count) {
    bool numbered = true;
    for (size_t i = 0; i < count; i++) numbered = numbered && ops[i].sequence >= 0;
    if (numbered) {
        for (size_t i = 0; i < count; i++) ops[i].place = ops[i].sequence;
        return;
    }
    struct run reference = {0};
    for (size_t begin = 0, end; begin < count; begin = end) {
        for (end = begin; end < count && ops[end].rank == ops[begin].rank; end++) {
        }
        struct run run = {ops + begin, end - begin};
        if (!reference.count) reference = run;
        int64_t wall = aorta_align_wall_shift(ranks[ops[begin].rank].trace, ranks[reference.items->rank].trace);
        int64_t lag = run.items == reference.items ? 0 : find_lag(reference, run, wall);
        for (size_t i = begin; i < end; i++) ops[i].place = (int64_t)(i - begin) + lag;
    }
}

/* Sequence numbers can repeat (pieces of one request): those of one rank are distinguished by their order. */
static void number_twins(struct align_op *ops, size_t count) {
    for (size_t i = 1; i < count; i++) {
        struct align_op before = ops[i - 1];
        before.twin = 0;
        if (ops[i].rank == before.rank && aorta_align_same(&ops[i], &before)) ops[i].twin = ops[i - 1].twin + 1;
    }
}

aorta_status aorta_align_match(const struct aorta_align_rank *ranks, size_t count, struct align_op **ops,
                               size_t *op_count) {
    struct ops all = {0};
    aorta_status status = NULL;
    for (size_t i = 0; i < count && !status; i++) status = collect(&ranks[i], (uint32_t)i, &all);
    if (status) {
        free(all.items);
        return status;
    }
    if (all.count) qsort(all.items, all.count, sizeof *all.items, by_group);
    for (size_t begin = 0, end; begin < all.count; begin = end) {
        for (end = begin; end < all.count && all.items[end].group == all.items[begin].group; end++) {
        }
        place_group(ranks, all.items + begin, end - begin);
    }
    /* Twice: twins lie side by side only once the places are sorted, rank by rank. */
    if (all.count) qsort(all.items, all.count, sizeof *all.items, by_identity);
    number_twins(all.items, all.count);
    if (all.count) qsort(all.items, all.count, sizeof *all.items, by_identity);
    *ops = all.items;
    *op_count = all.count;
    return NULL;
}
