#include "analysis/counters.h"

#include "analysis/analysis_internal.h"
#include "analysis/series.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>

const char *aorta_counter_name(int kind) {
    static const char *const names[] = {"queue length", "overlap", "copies GB/s", "collectives GB/s", "memory MB"};
    return names[kind];
}

/* ---- changes become values ---- */

/* Adds by how much a value changes; make_values sums. */
static void change(struct aorta_counters *counters, enum aorta_counter_kind kind, int64_t at_ns, double by) {
    counters->of[kind].points[counters->of[kind].count++] = (struct aorta_counter_point){at_ns, by};
}

static int by_time(const void *left, const void *right) {
    const struct aorta_counter_point *a = left, *b = right;
    return a->at_ns != b->at_ns ? aorta_order_int64(a->at_ns, b->at_ns) : aorta_order_double(a->value, b->value);
}

/* Sums of rates do not come back to 0 exactly. */
static double round_off(double value) {
    return fabs(value) < 1e-9 ? 0 : value;
}

static void make_values(struct aorta_counters *counters, enum aorta_counter_kind kind, double value) {
    struct aorta_counter_point *points = counters->of[kind].points;
    size_t moments = 0, count = counters->of[kind].count;
    if (count) qsort(points, count, sizeof *points, by_time);
    for (size_t i = 0; i < count; i++) {
        value = round_off(value + points[i].value);
        if (moments && points[moments - 1].at_ns == points[i].at_ns) moments--;
        points[moments++] = (struct aorta_counter_point){points[i].at_ns, value};
    }
    counters->of[kind].count = moments;
}

static bool reserve(struct aorta_counters *counters, enum aorta_counter_kind kind, size_t changes) {
    counters->of[kind].points = malloc((changes + 1) * sizeof *counters->of[kind].points);
    return counters->of[kind].points != NULL;
}

/* ---- each counter ---- */

static bool count_queue(const struct aorta_trace_rank *rank, struct aorta_counters *counters) {
    const struct aorta_trace *trace = rank->trace;
    bool *seen = calloc(trace->call_count + 1, sizeof *seen);
    if (!seen || !reserve(counters, AORTA_COUNTER_QUEUE, 2 * rank->work_count)) {
        free(seen);
        return false;
    }
    for (size_t i = 0; i < rank->work_count; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        if (work->call == AORTA_TRACE_NONE || seen[work->call]) continue;
        seen[work->call] = true;
        if (trace->calls[work->call].start_ns >= work->start_ns) continue;
        change(counters, AORTA_COUNTER_QUEUE, trace->calls[work->call].start_ns, 1);
        change(counters, AORTA_COUNTER_QUEUE, work->start_ns, -1);
    }
    free(seen);
    make_values(counters, AORTA_COUNTER_QUEUE, 0);
    return true;
}

static aorta_status count_overlap(const struct aorta_trace_rank *rank, struct aorta_counters *counters) {
    struct aorta_trace_busy busy;
    struct aorta_intervals both = {0};
    aorta_trace_busy_make(rank, &busy);
    aorta_intervals_intersect(&busy.compute, &busy.comm, &both);
    aorta_status status = aorta_intervals_check(&both);
    if (!status && !reserve(counters, AORTA_COUNTER_OVERLAP, 2 * both.count + 1))
        status = AORTA_ERROR(AORTA_MEMORY, "no memory for %zu stretches of overlap", both.count);
    for (size_t i = 0; i < both.count && !status; i++) {
        change(counters, AORTA_COUNTER_OVERLAP, both.items[i].start_ns, 1);
        change(counters, AORTA_COUNTER_OVERLAP, both.items[i].end_ns, -1);
    }
    if (!status && busy.comm.count) change(counters, AORTA_COUNTER_OVERLAP, rank->figures.start_ns, 0);
    if (!status) make_values(counters, AORTA_COUNTER_OVERLAP, 0);
    aorta_intervals_free(&both);
    aorta_trace_busy_free(&busy);
    return status;
}

static bool count_bytes(const struct aorta_trace_rank *rank, struct aorta_counters *counters) {
    if (!reserve(counters, AORTA_COUNTER_COPIED, 2 * rank->work_count) ||
        !reserve(counters, AORTA_COUNTER_COLLECTIVE, 2 * rank->work_count))
        return false;
    for (size_t i = 0; i < rank->work_count; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        const int64_t bytes = aorta_trace_bytes_of(rank->trace, work), ns = work->end_ns - work->start_ns;
        const enum aorta_counter_kind kind =
            work->kind == AORTA_TRACE_KERNEL ? AORTA_COUNTER_COLLECTIVE : AORTA_COUNTER_COPIED;
        if (bytes <= 0 || ns <= 0) continue;
        change(counters, kind, work->start_ns, (double)bytes / (double)ns);
        change(counters, kind, work->end_ns, -(double)bytes / (double)ns);
    }
    make_values(counters, AORTA_COUNTER_COPIED, 0);
    make_values(counters, AORTA_COUNTER_COLLECTIVE, 0);
    return true;
}

static aorta_status count_memory(const struct aorta_trace_rank *rank, struct aorta_counters *counters) {
    struct aorta_memory memory;
    double before = 0;
    AORTA_TRY(aorta_memory_make(rank, &memory));
    const bool made = reserve(counters, AORTA_COUNTER_MEMORY, 2 * memory.block_count);
    for (size_t i = 0; made && i < memory.block_count; i++) {
        const struct aorta_memory_block *block = &memory.blocks[i];
        const double mb = (double)block->bytes / 1e6;
        if (block->from_ns == INT64_MIN)
            before += mb;
        else
            change(counters, AORTA_COUNTER_MEMORY, block->from_ns, mb);
        if (block->to_ns != INT64_MAX) change(counters, AORTA_COUNTER_MEMORY, block->to_ns, -mb);
    }
    if (made) make_values(counters, AORTA_COUNTER_MEMORY, before);
    aorta_memory_free(&memory);
    return made ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for the counters of rank %d", rank->rank);
}

aorta_status aorta_counters_make(const struct aorta_trace_rank *rank, struct aorta_counters *counters) {
    *counters = (struct aorta_counters){.rank = rank->rank};
    aorta_status status = NULL;
    if (!count_queue(rank, counters) || !count_bytes(rank, counters))
        status = AORTA_ERROR(AORTA_MEMORY, "no memory for the counters of rank %d", rank->rank);
    if (!status) status = count_overlap(rank, counters);
    if (!status) status = count_memory(rank, counters);
    if (status) aorta_counters_free(counters);
    return status;
}

void aorta_counters_free(struct aorta_counters *counters) {
    for (int kind = 0; kind < AORTA_COUNTER_COUNT; kind++) free(counters->of[kind].points);
    *counters = (struct aorta_counters){0};
}
