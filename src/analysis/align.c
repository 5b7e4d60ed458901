#include "analysis/align.h"
#include "analysis/align_match.h"
#include "analysis/rank_clocks.h"
#include "base/interval.h"
#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct work {
    const struct aorta_align_rank *ranks;
    struct aorta_alignment *out;
    const struct align_op *ops; /* in order of out->parts */
    size_t part_count;
    int64_t *values; /* as many as there are parts, to take medians of */
    int64_t *left;   /* of each part: how far its end is from the others' */
    size_t *by_rank; /* indices of the parts, rank after rank; those of rank r from begins[r] on */
    size_t *begins;
};

/* ---- shared collectives ---- */

/* Ends that are comparable: on all ranks at once. */
static bool aligns(const struct align_op *op) {
    return !(op->named && op->kind == AORTA_BROADCAST);
}

static size_t identity_end(const struct align_op *ops, size_t count, size_t begin) {
    size_t end = begin + 1;
    while (end < count && aorta_align_same(&ops[end], &ops[begin])) end++;
    return end;
}

/* Keeps the ops that two ranks or more have, closing ranks up. */
static aorta_status keep_shared(struct align_op *ops, size_t count, struct aorta_alignment *out, size_t *remaining) {
    size_t shared = 0, parts = 0;
    for (size_t begin = 0, end; begin < count; begin = end) {
        end = identity_end(ops, count, begin);
        if (end - begin < 2 || !aligns(&ops[begin])) continue;
        memmove(ops + parts, ops + begin, (end - begin) * sizeof *ops);
        parts += end - begin;
        shared++;
    }
    *remaining = parts;
    out->shared = calloc(shared + 1, sizeof *out->shared);
    out->parts = calloc(parts + 1, sizeof *out->parts);
    if (!out->shared || !out->parts) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu shared collectives", shared);
    for (size_t begin = 0, end; begin < parts; begin = end) {
        end = identity_end(ops, parts, begin);
        const struct align_op *op = &ops[begin];
        out->shared[out->shared_count++] = (struct aorta_align_shared){
            .parts = out->parts + begin,
            .part_count = end - begin,
            .kind = (enum aorta_collective)op->kind,
            .named = op->named,
            .pair = op->pair,
            .group_size = op->group_size,
            .bytes = op->bytes,
            .sequence = op->sequence,
        };
    }
    for (size_t i = 0; i < parts; i++)
        out->parts[i] = (struct aorta_align_part){ops[i].rank, ops[i].first, ops[i].start_ns, ops[i].end_ns};
    return NULL;
}

/* ---- shifts ---- */

static aorta_status prepare(struct work *w) {
    size_t parts = w->part_count, ranks = w->out->rank_count;
    w->values = malloc((parts + 1) * sizeof *w->values);
    w->left = malloc((parts + 1) * sizeof *w->left);
    w->by_rank = malloc((parts + 1) * sizeof *w->by_rank);
    w->begins = calloc(ranks + 2, sizeof *w->begins);
    if (!w->values || !w->left || !w->by_rank || !w->begins)
        return AORTA_ERROR(AORTA_MEMORY, "no memory to align %zu collectives", w->out->shared_count);
    for (size_t i = 0; i < parts; i++) w->begins[w->ops[i].rank + 2]++;
    for (size_t r = 2; r <= ranks; r++) w->begins[r] += w->begins[r - 1];
    for (size_t i = 0; i < parts; i++) w->by_rank[w->begins[w->ops[i].rank + 1]++] = i;
    return NULL;
}

static void release(struct work *w) {
    free(w->values);
    free(w->left);
    free(w->by_rank);
    free(w->begins);
}

static bool has_only_pairs(const struct aorta_alignment *out) {
    for (size_t c = 0; c < out->shared_count; c++)
        if (!out->shared[c].pair) return false;
    return true;
}

/* The ends that show the shifts; how many collectives. Pairs count where nothing else is shared: a send whose bytes fit
 * a buffer ends before its receive. */
static size_t put_ends(const struct work *w, struct aorta_rank_end *ends, size_t *first) {
    const struct aorta_alignment *out = w->out;
    const bool pairs = has_only_pairs(out);
    size_t count = 0, used = 0;
    for (size_t c = 0; c < out->shared_count; c++) {
        const struct aorta_align_shared *shared = &out->shared[c];
        const struct align_op *ops = &w->ops[shared->parts - out->parts];
        if (shared->pair && !pairs) continue;
        first[count++] = used;
        for (size_t i = 0; i < shared->part_count; i++)
            ends[used++] = (struct aorta_rank_end){ops[i].rank, ops[i].end_ns};
    }
    first[count] = used;
    return count;
}

/* A rank's first guess is what the files say of the time of day. */
static aorta_status find_shifts(const struct work *w) {
    struct aorta_alignment *out = w->out;
    struct aorta_rank_end *ends = malloc((w->part_count + 1) * sizeof *ends);
    size_t *first = malloc((out->shared_count + 1) * sizeof *first);
    int64_t *shifts = malloc((out->rank_count + 1) * sizeof *shifts);
    uint32_t *roots = malloc((out->rank_count + 1) * sizeof *roots);
    aorta_status status = NULL;
    if (ends && first && shifts && roots) {
        const size_t collectives = put_ends(w, ends, first);
        for (size_t r = 0; r < out->rank_count; r++)
            shifts[r] = aorta_align_wall_shift(w->ranks[r].trace, w->ranks[0].trace);
        const struct aorta_rank_ends all = {ends, first, collectives, out->rank_count};
        status = aorta_clock_shifts(&all, shifts, roots);
    } else {
        status = AORTA_ERROR(AORTA_MEMORY, "no memory to align %zu collectives", out->shared_count);
    }
    for (size_t r = 0; !status && r < out->rank_count; r++) {
        out->clocks[r].shift_ns = shifts[r];
        out->clocks[r].linked = roots[r] == 0;
    }
    free(ends);
    free(first);
    free(shifts);
    free(roots);
    return status;
}

/* ---- what is left over ---- */

static int64_t percentile_95(const int64_t *sorted, size_t count) {
    return llround(aorta_percentile_int64(sorted, count, 95));
}

/* Of pairs nothing is left over where there is more than pairs. */
static void find_residuals(struct work *w) {
    int64_t *left = w->left;
    const bool pairs = has_only_pairs(w->out);
    size_t used = 0;
    for (size_t c = 0; c < w->out->shared_count; c++) {
        const struct aorta_align_shared *shared = &w->out->shared[c];
        size_t begin = (size_t)(shared->parts - w->out->parts);
        for (size_t i = 0; i < shared->part_count; i++) left[begin + i] = -1;
        if (shared->pair && !pairs) continue;
        for (size_t i = 0; i < shared->part_count; i++) w->values[i] = shared->parts[i].end_ns;
        int64_t moment = aorta_median_int64(w->values, shared->part_count);
        for (size_t i = 0; i < shared->part_count; i++) {
            int64_t distance = shared->parts[i].end_ns - moment;
            left[begin + i] = distance < 0 ? -distance : distance;
        }
    }
    for (size_t r = 0; r < w->out->rank_count; r++) {
        struct aorta_align_clock *clock = &w->out->clocks[r];
        for (size_t i = w->begins[r]; i < w->begins[r + 1]; i++)
            if (left[w->by_rank[i]] >= 0) w->values[clock->shared++] = left[w->by_rank[i]];
        clock->residual_ns = clock->shared ? aorta_median_int64(w->values, clock->shared) : -1; /* sorts them */
        clock->p95_ns = clock->shared ? percentile_95(w->values, clock->shared) : -1;
    }
    w->out->residual_ns = w->out->p95_ns = -1;
    for (size_t i = 0; i < w->part_count; i++)
        if (left[i] >= 0) left[used++] = left[i];
    if (!used) return;
    w->out->residual_ns = aorta_median_int64(left, used); /* sorts them */
    w->out->p95_ns = percentile_95(left, used);
}

/* One rank that lost records, and the order of collectives pairs each with another one from there on. The ends of one
 * collective differ by microseconds, and clocks drift by less than this in a recording. */
static void drop_mismatched(struct work *w) {
    static const int64_t most_ns = 250000;
    struct aorta_alignment *out = w->out;
    bool numbered = true;
    for (size_t c = 0; c < out->shared_count; c++)
        numbered = numbered && (out->shared[c].sequence >= 0 || out->shared[c].pair);
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
    for (size_t i = 0; i < w->part_count; i++) {
        struct aorta_align_part *part = &w->out->parts[i];
        part->start_ns -= w->out->clocks[part->rank].shift_ns;
        part->end_ns -= w->out->clocks[part->rank].shift_ns;
    }
}

/* ---- who was late ---- */

static void find_busy(const struct aorta_align_rank *rank, struct aorta_intervals *busy) {
    for (size_t i = 0; i < rank->trace->work_count; i++) {
        const struct aorta_trace_work *work = &rank->trace->work[i];
        if (work->device == rank->device) aorta_intervals_add(busy, work->start_ns, work->end_ns);
    }
    aorta_intervals_normalise(busy);
}

static void find_last(struct work *w, struct aorta_align_shared *shared, const struct aorta_intervals *busy) {
    const struct aorta_align_part *first = shared->parts, *last = shared->parts;
    if (!first) return;
    for (size_t i = 1; i < shared->part_count; i++) {
        const struct aorta_align_part *part = &shared->parts[i];
        if (part->start_ns < first->start_ns) first = part;
        if (part->start_ns > last->start_ns) last = part;
    }
    shared->first_rank = first->rank;
    shared->last_rank = last->rank;
    shared->skew_ns = last->start_ns - first->start_ns;
    if (shared->skew_ns <= w->out->p95_ns) return; /* within what the clocks can show */
    struct aorta_align_clock *clock = &w->out->clocks[last->rank];
    int64_t busy_ns =
        aorta_intervals_within(&busy[last->rank], first->start_ns + clock->shift_ns, last->start_ns + clock->shift_ns);
    shared->cause_known = true;
    shared->device_late = aorta_late_by_device(shared->skew_ns, busy_ns);
    clock->late++;
    clock->late_ns += shared->skew_ns;
    clock->late_by_device += shared->device_late;
}

static int by_first_start(const void *left, const void *right) {
    const struct aorta_align_shared *a = left, *b = right;
    if (a->part_count == 0 || b->part_count == 0) return 0;
    int64_t x = a->parts[0].start_ns, y = b->parts[0].start_ns;
    for (size_t i = 1; i < a->part_count; i++)
        if (a->parts[i].start_ns < x) x = a->parts[i].start_ns;
    for (size_t i = 1; i < b->part_count; i++)
        if (b->parts[i].start_ns < y) y = b->parts[i].start_ns;
    return (x > y) - (x < y);
}

static aorta_status find_late(struct work *w) {
    struct aorta_alignment *out = w->out;
    struct aorta_intervals *busy = calloc(out->rank_count + 1, sizeof *busy);
    if (!busy) return AORTA_ERROR(AORTA_MEMORY, "no memory to align %zu ranks", out->rank_count);
    aorta_status status = NULL;
    for (size_t r = 0; r < out->rank_count && !status; r++) {
        find_busy(&w->ranks[r], &busy[r]);
        status = aorta_intervals_check(&busy[r]);
    }
    for (size_t c = 0; c < out->shared_count && !status; c++) find_last(w, &out->shared[c], busy);
    if (!status && out->shared_count) qsort(out->shared, out->shared_count, sizeof *out->shared, by_first_start);
    for (size_t r = 0; r < out->rank_count; r++) aorta_intervals_free(&busy[r]);
    free(busy);
    return status;
}

/* ---- all of it ---- */

aorta_status aorta_align(const struct aorta_align_rank *ranks, size_t count, enum aorta_align_clocks clocks,
                         struct aorta_alignment *alignment) {
    *alignment = (struct aorta_alignment){.rank_count = count, .residual_ns = -1, .p95_ns = -1, .mismatch_ns = -1};
    alignment->clocks = calloc(count + 1, sizeof *alignment->clocks);
    if (!alignment->clocks) return AORTA_ERROR(AORTA_MEMORY, "no memory to align %zu ranks", count);
    struct align_op *ops = NULL;
    size_t op_count = 0;
    struct work w = {.ranks = ranks, .out = alignment};
    aorta_status status = clocks == AORTA_CLOCKS_OF_STEPS ? NULL : aorta_align_match(ranks, count, &ops, &op_count);
    if (!status) status = keep_shared(ops, op_count, alignment, &w.part_count);
    w.ops = ops;
    if (!status) status = prepare(&w);
    if (clocks == AORTA_CLOCKS_OF_TRACES) {
        if (!status) status = find_shifts(&w);
    } else {
        for (size_t r = 0; r < count; r++) alignment->clocks[r].linked = clocks == AORTA_CLOCKS_ONE || r == 0;
    }
    if (!status) {
        apply_shifts(&w);
        find_residuals(&w);
        drop_mismatched(&w);
        status = find_late(&w);
    }
    release(&w);
    free(ops);
    if (status) aorta_alignment_free(alignment);
    return status;
}

void aorta_alignment_free(struct aorta_alignment *alignment) {
    free(alignment->clocks);
    free(alignment->shared);
    free(alignment->parts);
    *alignment = (struct aorta_alignment){0};
}

int aorta_alignment_straggler(const struct aorta_alignment *alignment) {
    int worst = -1;
    for (size_t r = 0; r < alignment->rank_count; r++) {
        if (alignment->clocks[r].late_ns <= 0) continue;
        if (worst < 0 || alignment->clocks[r].late_ns > alignment->clocks[worst].late_ns) worst = (int)r;
    }
    return worst;
}
