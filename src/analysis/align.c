/* Matches the collectives of several ranks and aligns their clocks. */
#include "analysis/align_internal.h"
#include "base/interval.h"
#include "base/sort.h"
#include "base/statistics.h"
#include "base/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Whether a time is plausible. A time more than 70 years away is damage, and differences could overflow. */
static bool sane(int64_t ns) {
    const int64_t most = INT64_C(1) << 61;
    return ns > -most && ns < most;
}

int64_t aorta_align_wall_shift(const struct aorta_trace *trace, const struct aorta_trace *reference) {
    if (!sane(trace->base_ns) || !sane(reference->base_ns)) return 0; /* INT64_MIN: not known */
    return reference->base_ns - trace->base_ns;
}

/* ---- collectives of one rank ---- */

static uint64_t group_hash(const struct aorta_trace *trace, uint32_t row) {
    if (row == AORTA_TRACE_NONE) return 0;
    const struct aorta_trace_group *group = &trace->groups[row];
    const char *name = aorta_trace_text(trace, group->name);
    uint64_t hash = aorta_hash_bytes(name, strlen(name));
    if (group->ranks) hash ^= aorta_hash_bytes(group->ranks, group->rank_count * sizeof *group->ranks) * 31;
    return hash | 1; /* 0 is the unknown group */
}

/* The rank's number within the group, as used for peers. */
static int own_number(const struct aorta_align_rank *rank, uint32_t row) {
    if (row == AORTA_TRACE_NONE) return rank->rank;
    const struct aorta_trace_group *group = &rank->trace->groups[row];
    for (size_t i = 0; i < group->rank_count; i++)
        if (group->ranks[i] == rank->rank) return (int)i;
    return rank->rank;
}

/* A send is matched to its receive by order among those of the two ranks, as each rank has its own sequence numbers. */
static struct aorta_align_op describe_pair(const struct aorta_align_rank *rank,
                                           const struct aorta_trace_collective *facts) {
    const int own = own_number(rank, facts->group);
    const bool receives = strstr(aorta_trace_text(rank->trace, facts->name), "recv") != NULL;
    const int32_t ends[2] = {receives ? facts->peer : own, receives ? own : facts->peer};
    return (struct aorta_align_op){
        .group = (group_hash(rank->trace, facts->group) ^ aorta_hash_bytes(ends, sizeof ends)) | 1,
        .sequence = -1,
        .bytes = facts->bytes,
        .group_size = 2,
        .kind = AORTA_ALL_TO_ALL,
        .named = true,
        .pair = true};
}

static struct aorta_align_op describe(const struct aorta_align_rank *rank, const struct aorta_trace_work *work) {
    const struct aorta_trace *trace = rank->trace;
    if (work->collective == AORTA_TRACE_NONE)
        return (struct aorta_align_op){
            .sequence = -1, .bytes = -1, .group_size = -1, .kind = work->by_name, .named = work->named};
    const struct aorta_trace_collective *facts = &trace->collectives[work->collective];
    if (facts->peer >= 0) return describe_pair(rank, facts);
    return (struct aorta_align_op){.group = group_hash(trace, facts->group),
                                   .sequence = facts->sequence,
                                   .bytes = facts->bytes,
                                   .group_size = facts->group_size,
                                   .kind = (uint8_t)facts->kind,
                                   .named = facts->named,
                                   .exact =
                                       trace->measured != NULL || (facts->named && facts->kind == AORTA_ALL_TO_ALL)};
}

/* Collects a rank's collectives and returns their number. Kernels that share a row of collectives[] are one
 * collective. */
static size_t collect(const struct aorta_align_rank *rank, uint32_t index, struct aorta_align_op *ops,
                      struct aorta_arena *memory) {
    const struct aorta_trace *trace = rank->trace;
    struct aorta_arena scratch = {0};
    size_t *places = aorta_arena_alloc(&scratch, trace->collective_count * sizeof *places); /* of each row's op, + 1 */
    size_t count = 0;
    for (size_t i = 0; places && i < trace->work_count; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        if (work->device != rank->device || !aorta_trace_is_collective(work)) continue;
        if (!sane(work->start_ns) || !sane(work->end_ns)) continue;
        size_t *place = work->collective == AORTA_TRACE_NONE ? NULL : &places[work->collective];
        if (place && *place) {
            struct aorta_align_op *known = &ops[*place - 1];
            if (work->end_ns > known->end_ns) known->end_ns = work->end_ns;
            continue;
        }
        struct aorta_align_op *op = &ops[count++];
        *op = describe(rank, work);
        op->rank = index;
        op->stream = work->stream;
        op->first = (uint32_t)i;
        op->start_ns = work->start_ns;
        op->end_ns = work->end_ns;
        if (place) *place = count;
    }
    aorta_arena_end(&scratch, memory);
    return count;
}

/* ---- identities ---- */

static AORTA_ORDER(by_group, struct aorta_align_op, AORTA_UP(group) AORTA_UP(rank) AORTA_UP(start_ns) AORTA_UP(first));

static AORTA_ORDER(by_identity, struct aorta_align_op,
                   AORTA_UP(group) AORTA_UP(place) AORTA_UP(kind) AORTA_UP(named)
                       AORTA_BY(a->exact ? 0 : aorta_order_int64(a->bytes, b->bytes)) AORTA_UP(twin));

static AORTA_ORDER(by_identity_and_rank, struct aorta_align_op, AORTA_THEN(by_identity) AORTA_UP(rank) AORTA_UP(first));

/* Sets the places of a group's ops, which are sorted by rank and start. */
static void place_group(const struct aorta_align_rank *ranks, struct aorta_align_op *ops, size_t count) {
    bool numbered = true;
    if (ops->placed) return;
    for (size_t i = 0; i < count; i++) numbered = numbered && ops[i].sequence >= 0;
    if (numbered) {
        for (size_t i = 0; i < count; i++) ops[i].place = ops[i].sequence;
        return;
    }
    struct aorta_align_run reference = {0};
    for (size_t begin = 0, end; begin < count; begin = end) {
        for (end = begin; end < count && ops[end].rank == ops[begin].rank;) end++;
        struct aorta_align_run run = {ops + begin, end - begin};
        if (!reference.count) reference = run;
        int64_t wall = aorta_align_wall_shift(ranks[ops[begin].rank].trace, ranks[reference.items->rank].trace);
        int64_t lag = run.items == reference.items ? 0 : aorta_align_lag(reference, run, wall);
        for (size_t i = begin; i < end; i++) ops[i].place = (int64_t)(i - begin) + lag;
    }
}

/* Numbers ops of one rank with equal identity in their order, as parts of one request share a sequence number. */
static void number_twins(struct aorta_align_op *ops, size_t count) {
    for (size_t i = 1; i < count; i++) {
        struct aorta_align_op before = ops[i - 1];
        before.twin = 0;
        if (ops[i].rank == before.rank && !by_identity(&ops[i], &before)) ops[i].twin = ops[i - 1].twin + 1;
    }
}

/* All collectives of all ranks, in order of identity, then rank. */
static struct aorta_align_op *align_match(const struct aorta_align_rank *ranks, size_t count,
                                          struct aorta_arena *memory, size_t *op_count) {
    size_t limit = 0, all = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < ranks[i].trace->work_count; j++)
            limit += ranks[i].trace->work[j].device == ranks[i].device &&
                     aorta_trace_is_collective(&ranks[i].trace->work[j]);
    struct aorta_align_op *ops = aorta_arena_raw(memory, limit * sizeof *ops);
    for (size_t i = 0; ops && i < count; i++) all += collect(&ranks[i], (uint32_t)i, ops + all, memory);
    *op_count = all;
    if (!all) return ops;
    aorta_align_teams(count, ops, all, memory);
    qsort(ops, all, sizeof *ops, by_group);
    for (size_t begin = 0, end; begin < all; begin = end) {
        for (end = begin; end < all && ops[end].group == ops[begin].group;) end++;
        place_group(ranks, ops + begin, end - begin);
    }
    /* Twice: twins are neighbours only once the places are sorted, rank by rank. */
    qsort(ops, all, sizeof *ops, by_identity_and_rank);
    number_twins(ops, all);
    qsort(ops, all, sizeof *ops, by_identity_and_rank);
    return ops;
}

struct work {
    const struct aorta_align_rank *ranks;
    struct aorta_alignment *out;
    const struct aorta_align_op *ops; /* in order of out->parts */
    size_t part_count;
    struct aorta_arena memory;
};

/* ---- shared collectives ---- */

/* Keeps the ops that at least two ranks have and returns their number. */
static size_t keep_shared(struct aorta_align_op *ops, size_t count, struct aorta_alignment *out,
                          struct aorta_arena *memory) {
    size_t shared = 0, parts = 0;
    for (size_t begin = 0, end; begin < count; begin = end) {
        end = begin + aorta_count_equal(&ops[begin], count - begin, sizeof *ops, by_identity);
        if (end - begin < 2) continue;
        memmove(ops + parts, ops + begin, (end - begin) * sizeof *ops);
        parts += end - begin;
        shared++;
    }
    out->shared = aorta_arena_alloc(memory, shared * sizeof *out->shared);
    out->parts = aorta_arena_alloc(memory, parts * sizeof *out->parts);
    if (memory->failed) return 0;
    for (size_t begin = 0, end; begin < parts; begin = end) {
        end = begin + aorta_count_equal(&ops[begin], parts - begin, sizeof *ops, by_identity);
        const struct aorta_align_op *op = &ops[begin];
        out->shared[out->shared_count++] = (struct aorta_align_shared){
            .parts = out->parts + begin,
            .part_count = end - begin,
            .pair = op->pair,
            .broadcast = op->named && op->kind == AORTA_BROADCAST,
            .group_size = op->group_size,
            .bytes = op->bytes,
            .sequence = op->sequence,
        };
    }
    for (size_t i = 0; i < parts; i++)
        out->parts[i] = (struct aorta_align_part){ops[i].rank, ops[i].first, ops[i].start_ns, ops[i].end_ns};
    return parts;
}

/* ---- shifts ---- */

/* Whether the collective's ends are used to find shifts. Pairs only if nothing else is shared, as a buffered send ends
 * before its receive. */
static bool aligns(const struct aorta_align_shared *shared, bool pairs) {
    return !shared->broadcast && (!shared->pair || pairs);
}

static bool has_only_pairs(const struct aorta_alignment *out) {
    for (size_t c = 0; c < out->shared_count; c++)
        if (aligns(&out->shared[c], false)) return false;
    return true;
}

/* Stores the ends that show the shifts and returns the number of collectives. */
static size_t put_ends(const struct work *w, struct aorta_rank_end *ends, size_t *first) {
    const struct aorta_alignment *out = w->out;
    const bool pairs = has_only_pairs(out);
    size_t count = 0, used = 0;
    AORTA_EACH (const struct aorta_align_shared, shared, out->shared, out->shared_count) {
        const struct aorta_align_op *ops = &w->ops[shared->parts - out->parts];
        if (!aligns(shared, pairs)) continue;
        first[count++] = used;
        for (size_t i = 0; i < shared->part_count; i++)
            ends[used++] = (struct aorta_rank_end){ops[i].rank, ops[i].end_ns};
    }
    first[count] = used;
    return count;
}

/* The first guess of a shift comes from the files' times of day. */
static void find_shifts(struct work *w) {
    struct aorta_alignment *out = w->out;
    struct aorta_rank_end *ends = aorta_arena_raw(&w->memory, w->part_count * sizeof *ends);
    size_t *first = aorta_arena_raw(&w->memory, (out->shared_count + 1) * sizeof *first);
    int64_t *shifts = aorta_arena_raw(&w->memory, out->rank_count * sizeof *shifts);
    uint32_t *roots = aorta_arena_raw(&w->memory, out->rank_count * sizeof *roots);
    if (w->memory.failed) return;
    const struct aorta_rank_ends all = {ends, first, put_ends(w, ends, first), out->rank_count};
    for (size_t r = 0; r < out->rank_count; r++)
        shifts[r] = aorta_align_wall_shift(w->ranks[r].trace, w->ranks[0].trace);
    aorta_clock_shifts(&all, &w->memory, shifts, roots);
    for (size_t r = 0; r < out->rank_count; r++) {
        out->clocks[r].shift_ns = shifts[r];
        out->clocks[r].linked = roots[r] == 0;
    }
}

/* ---- residuals ---- */

/* Distance of a part's end from the median end of its collective. */
struct residual {
    int64_t rank, ns;
};

static size_t put_residuals(const struct aorta_alignment *out, struct residual *residuals, int64_t *values) {
    const bool pairs = has_only_pairs(out);
    size_t count = 0;
    AORTA_EACH (const struct aorta_align_shared, shared, out->shared, out->shared_count) {
        if (!aligns(shared, pairs)) continue;
        for (size_t i = 0; i < shared->part_count; i++) values[i] = shared->parts[i].end_ns;
        const int64_t moment = aorta_median_int64(values, shared->part_count);
        for (size_t i = 0; i < shared->part_count; i++)
            residuals[count++] = (struct residual){shared->parts[i].rank, llabs(shared->parts[i].end_ns - moment)};
    }
    return count;
}

/* Sorts the values. -1 if there are none. */
static void summarise(int64_t *values, size_t count, int64_t *median_ns, int64_t *p95_ns) {
    *median_ns = count ? aorta_median_int64(values, count) : -1; /* sorts them */
    *p95_ns = count ? llround(aorta_percentile_int64(values, count, 95)) : -1;
}

static void find_residuals(struct work *w) {
    struct aorta_alignment *out = w->out;
    struct residual *residuals = aorta_arena_raw(&w->memory, w->part_count * sizeof *residuals);
    int64_t *values = aorta_arena_raw(&w->memory, w->part_count * sizeof *values);
    const size_t count = w->memory.failed ? 0 : put_residuals(out, residuals, values);
    aorta_sort_rows(residuals, count, sizeof *residuals, aorta_by_int64);
    for (size_t r = 0, at = 0; r < out->rank_count; r++) {
        struct aorta_align_clock *clock = &out->clocks[r];
        for (; at < count && residuals[at].rank == (int64_t)r; at++) values[clock->shared++] = residuals[at].ns;
        summarise(values, clock->shared, &clock->residual_ns, &clock->p95_ns);
    }
    for (size_t i = 0; i < count; i++) values[i] = residuals[i].ns;
    summarise(values, count, &out->residual_ns, &out->p95_ns);
}

/* If one rank lost records, matching by order pairs different collectives from there on. Ends of one collective differ
 * by microseconds, and clocks drift by less than most_ns in a recording. */
static void drop_mismatched(struct work *w) {
    static const int64_t most_ns = 250000;
    struct aorta_alignment *out = w->out;
    bool numbered = true;
    for (size_t c = 0; c < out->shared_count; c++)
        numbered = numbered && (out->shared[c].sequence >= 0 || !aligns(&out->shared[c], false));
    if (numbered || out->residual_ns <= most_ns) return;
    out->mismatch_ns = out->residual_ns;
    out->residual_ns = out->p95_ns = -1;
    out->shared_count = w->part_count = 0;
    for (size_t r = 0; r < out->rank_count; r++)
        out->clocks[r] = (struct aorta_align_clock){
            .shift_ns = aorta_align_wall_shift(w->ranks[r].trace, w->ranks[0].trace),
            .residual_ns = -1,
            .p95_ns = -1,
            .linked = r == 0,
        };
}

static void apply_shifts(struct work *w) {
    AORTA_EACH (struct aorta_align_part, part, w->out->parts, w->part_count) {
        part->start_ns -= w->out->clocks[part->rank].shift_ns;
        part->end_ns -= w->out->clocks[part->rank].shift_ns;
    }
}

/* Whether collectives have aligned the clocks of all its ranks. */
static bool is_aligned(const struct aorta_alignment *out, const struct aorta_align_shared *shared) {
    for (size_t i = 0; i < shared->part_count; i++)
        if (!out->clocks[shared->parts[i].rank].linked) return false;
    return true;
}

/* Keeps the ranks that were still in the broadcast when the last rank came: ranks that left earlier, as the root may,
 * did not wait. */
static void keep_met(struct aorta_alignment *out, struct aorta_align_shared *shared) {
    struct aorta_align_part *parts = out->parts + (shared->parts - out->parts);
    int64_t last_ns = INT64_MIN;
    size_t met = 0;
    for (size_t i = 0; i < shared->part_count; i++)
        if (parts[i].start_ns > last_ns) last_ns = parts[i].start_ns;
    for (size_t i = 0; i < shared->part_count; i++)
        if (parts[i].end_ns >= last_ns) parts[met++] = parts[i];
    shared->left = shared->part_count - met;
    shared->part_count = met;
}

/* Drops broadcasts without two ranks at the same time, as no rank waits in them. */
static void drop_unmet(struct aorta_alignment *out) {
    size_t used = 0;
    AORTA_EACH (struct aorta_align_shared, shared, out->shared, out->shared_count) {
        if (shared->broadcast && !is_aligned(out, shared)) continue;
        if (shared->broadcast) keep_met(out, shared);
        if (shared->part_count > 1) out->shared[used++] = *shared;
    }
    out->shared_count = used;
}

/* ---- who was late ---- */

static void find_busy(const struct aorta_align_rank *rank, struct aorta_intervals *busy) {
    AORTA_EACH (const struct aorta_trace_work, work, rank->trace->work, rank->trace->work_count)
        if (work->device == rank->device) aorta_intervals_add(busy, work->start_ns, work->end_ns);
    aorta_intervals_normalise(busy);
}

static void find_last(struct work *w, struct aorta_align_shared *shared, const struct aorta_intervals *busy) {
    const struct aorta_align_part *first = shared->parts, *last = shared->parts;
    for (size_t i = 1; i < shared->part_count; i++) {
        const struct aorta_align_part *part = &shared->parts[i];
        if (part->start_ns < first->start_ns) first = part;
        if (part->start_ns > last->start_ns) last = part;
    }
    shared->first_rank = first->rank;
    shared->last_rank = last->rank;
    shared->first_ns = first->start_ns;
    shared->skew_ns = last->start_ns - first->start_ns;
    if (shared->skew_ns <= w->out->p95_ns) return; /* within the error of the clocks */
    struct aorta_align_clock *clock = &w->out->clocks[last->rank];
    int64_t busy_ns =
        aorta_intervals_within(&busy[last->rank], first->start_ns + clock->shift_ns, last->start_ns + clock->shift_ns);
    shared->cause_known = true;
    shared->device_late = aorta_late_by_device(shared->skew_ns, busy_ns);
    clock->late++;
    clock->late_ns += shared->skew_ns;
    clock->late_by_device += shared->device_late;
}

static void find_late(struct work *w) {
    struct aorta_alignment *out = w->out;
    struct aorta_intervals *busy = aorta_arena_alloc(&w->memory, out->rank_count * sizeof *busy);
    if (!busy) return;
    for (size_t r = 0; r < out->rank_count; r++) find_busy(&w->ranks[r], &busy[r]);
    for (size_t c = 0; c < out->shared_count; c++) find_last(w, &out->shared[c], busy);
    if (out->shared_count) qsort(out->shared, out->shared_count, sizeof *out->shared, aorta_by_int64);
    for (size_t r = 0; r < out->rank_count; r++) aorta_intervals_end(&busy[r], &w->memory);
}

/* ---- the alignment ---- */

void aorta_align(const struct aorta_align_rank *ranks, size_t count, enum aorta_align_clocks clocks,
                 struct aorta_arena *memory, struct aorta_alignment *alignment) {
    *alignment = (struct aorta_alignment){.rank_count = count, .residual_ns = -1, .p95_ns = -1, .mismatch_ns = -1};
    alignment->clocks = aorta_arena_alloc(memory, count * sizeof *alignment->clocks);
    size_t op_count = 0;
    struct work w = {.ranks = ranks, .out = alignment};
    struct aorta_align_op *ops =
        clocks == AORTA_CLOCKS_OF_STEPS ? NULL : align_match(ranks, count, &w.memory, &op_count);
    w.ops = ops;
    w.part_count = keep_shared(ops, op_count, alignment, memory);
    w.memory.failed |= memory->failed;
    for (size_t r = 0; r < count && !w.memory.failed && clocks != AORTA_CLOCKS_OF_TRACES; r++)
        alignment->clocks[r].linked = clocks == AORTA_CLOCKS_ONE || r == 0;
    if (clocks == AORTA_CLOCKS_OF_TRACES && !w.memory.failed) find_shifts(&w);
    if (!w.memory.failed) {
        apply_shifts(&w);
        find_residuals(&w);
        drop_mismatched(&w);
        drop_unmet(alignment);
        find_late(&w);
    }
    aorta_arena_end(&w.memory, memory);
}

int aorta_alignment_straggler(const struct aorta_alignment *alignment) {
    static const double MORE = 1.25; /* factor by which the straggler exceeds every other rank */
    int64_t most_ns = 0, second_ns = 0;
    int worst = -1;
    for (size_t r = 0; r < alignment->rank_count; r++) {
        const int64_t late_ns = alignment->clocks[r].late_ns;
        if (late_ns > most_ns) {
            second_ns = most_ns;
            most_ns = late_ns;
            worst = (int)r;
        } else if (late_ns > second_ns) {
            second_ns = late_ns;
        }
    }
    return (double)most_ns > MORE * (double)second_ns ? worst : -1;
}
