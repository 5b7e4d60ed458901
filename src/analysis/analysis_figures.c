/* Unions and intersections of a rank's work. The work is sorted by start, so that sets grow at their end: one pass. */
#include "analysis/analysis_internal.h"

#include <math.h>

static struct aorta_intervals *set_of(const struct aorta_trace_work *work, struct aorta_trace_busy *busy) {
    if (work->kind != AORTA_TRACE_KERNEL) return &busy->copy;
    return aorta_trace_is_collective(work) ? &busy->comm : &busy->compute;
}

void aorta_trace_busy_make(const struct aorta_trace_rank *rank, struct aorta_trace_busy *busy) {
    *busy = (struct aorta_trace_busy){0};
    for (size_t i = 0; i < rank->work_count; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        aorta_intervals_add(set_of(work, busy), work->start_ns, work->end_ns);
        aorta_intervals_add(&busy->all, work->start_ns, work->end_ns);
    }
    busy->compute.failed |= busy->comm.failed || busy->copy.failed || busy->all.failed;
}

void aorta_trace_busy_free(struct aorta_trace_busy *busy) {
    aorta_intervals_free(&busy->compute);
    aorta_intervals_free(&busy->comm);
    aorta_intervals_free(&busy->copy);
    aorta_intervals_free(&busy->all);
}

static aorta_status exposed_copies(struct aorta_trace_busy *busy, int64_t *exposed_ns) {
    struct aorta_intervals other = {0}, rest = {0};
    aorta_intervals_union(&busy->compute, &busy->comm, &other);
    aorta_intervals_subtract(&busy->copy, &other, &rest);
    *exposed_ns = aorta_intervals_length(&rest);
    aorta_status status = aorta_intervals_check(&rest);
    aorta_intervals_free(&other);
    aorta_intervals_free(&rest);
    return status;
}

/* The gap around the end of a chosen step whose successor was not chosen. */
static void find_holes(struct aorta_trace_rank *rank, const struct aorta_intervals *all) {
    for (size_t i = 0; i + 1 < rank->window_count; i++) {
        int64_t end_ns = rank->windows[i].end_ns;
        if (rank->windows[i + 1].start_ns == end_ns) continue;
        size_t next = aorta_intervals_first_after(all, end_ns);
        if (next == 0 || next == all->count) continue;
        aorta_intervals_add(&rank->holes, all->items[next - 1].end_ns, all->items[next].start_ns);
    }
}

aorta_status aorta_trace_figures_make(struct aorta_trace_rank *rank, struct aorta_trace_busy *busy) {
    struct aorta_trace_figures *figures = &rank->figures;
    struct aorta_intervals both = {0};
    *figures = (struct aorta_trace_figures){.overlap_ratio = NAN, .compute_overlap_ratio = NAN};
    if (!rank->work_count) return NULL;
    figures->start_ns = rank->work[0].start_ns;
    figures->end_ns = rank->work[0].end_ns;
    for (size_t i = 0; i < rank->work_count; i++)
        if (rank->work[i].end_ns > figures->end_ns) figures->end_ns = rank->work[i].end_ns;
    aorta_intervals_intersect(&busy->compute, &busy->comm, &both);
    find_holes(rank, &busy->all);
    figures->span_ns = figures->end_ns - figures->start_ns - aorta_intervals_length(&rank->holes);
    figures->compute_ns = aorta_intervals_length(&busy->compute);
    figures->comm_ns = aorta_intervals_length(&busy->comm);
    figures->memcpy_ns = aorta_intervals_length(&busy->copy);
    figures->busy_ns = aorta_intervals_length(&busy->all);
    figures->idle_ns = figures->span_ns - figures->busy_ns;
    figures->overlap_ns = aorta_intervals_length(&both);
    figures->exposed_comm_ns = figures->comm_ns - figures->overlap_ns;
    if (figures->comm_ns) figures->overlap_ratio = (double)figures->overlap_ns / (double)figures->comm_ns;
    if (figures->compute_ns) figures->compute_overlap_ratio = (double)figures->overlap_ns / (double)figures->compute_ns;
    aorta_status status = aorta_status_join(aorta_intervals_check(&both), aorta_intervals_check(&rank->holes));
    aorta_intervals_free(&both);
    return aorta_status_join(status, exposed_copies(busy, &figures->exposed_copy_ns));
}
