/* Which ranks there are: one for each device of each trace. */
#include "analysis/analysis_internal.h"
#include "base/array.h"
#include "base/sort.h"
#include "trace/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNNUMBERED = -1, MOST_DEVICES = 1024 };

/* ---- the devices of a trace ---- */

/* Ascending, each once; the caller frees them, also when it fails. Neighbours mostly share a device, so the list before
 * sorting is short.
 */
static aorta_status devices_of(const struct aorta_trace *trace, int32_t **devices, size_t *count) {
    int32_t *found = malloc((trace->work_count + 1) * sizeof *found);
    if (!found) return AORTA_ERROR(AORTA_MEMORY, "no memory for the devices of %zu kernels", trace->work_count);
    size_t used = 0, different = 0;
    for (size_t i = 0; i < trace->work_count; i++)
        if (!used || found[used - 1] != trace->work[i].device) found[used++] = trace->work[i].device;
    aorta_sort_int32(found, used);
    for (size_t i = 0; i < used; i++)
        if (!different || found[different - 1] != found[i]) found[different++] = found[i];
    *devices = found;
    *count = different;
    if (different <= MOST_DEVICES) return NULL;
    return AORTA_ERROR(AORTA_FORMAT,
                       "%s holds work of %zu devices, of at most %d that a process can have: its device numbers are "
                       "damaged",
                       trace->path, different, MOST_DEVICES);
}

static bool only_measures(const struct aorta_trace_work *work) {
    return work->kind == AORTA_TRACE_KERNEL && aorta_kernel_only_measures((enum aorta_kernel_class)work->class);
}

/* The trace's own array where all of it belongs to the rank, else a copy of what does. */
static aorta_status take_work(struct aorta_trace_rank *rank) {
    const struct aorta_trace *trace = rank->trace;
    size_t mine = 0;
    for (size_t i = 0; i < trace->work_count; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        if (work->device != rank->device) continue;
        if (!only_measures(work)) {
            mine++;
            continue;
        }
        rank->stamps++;
        rank->stamps_ns += work->end_ns - work->start_ns;
    }
    rank->work = trace->work;
    rank->work_count = mine;
    if (mine == trace->work_count) return NULL;
    rank->owned = malloc((mine + 1) * sizeof *rank->owned);
    rank->source = malloc((mine + 1) * sizeof *rank->source);
    if (!rank->owned || !rank->source) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu kernels", mine);
    size_t used = 0;
    for (size_t i = 0; i < trace->work_count; i++) {
        if (trace->work[i].device != rank->device || only_measures(&trace->work[i])) continue;
        rank->source[used] = (uint32_t)i;
        rank->owned[used++] = trace->work[i];
    }
    rank->work = rank->owned;
    return NULL;
}

/* ---- numbers ---- */

/* A run's folder may hold one recording twice, for two viewers. */
static bool same_recording(const struct aorta_trace *a, const struct aorta_trace *b) {
    if (a->format != b->format || a->rank != b->rank || a->base_ns != b->base_ns) return false;
    if (a->work_count != b->work_count || a->call_count != b->call_count || !a->work_count) return false;
    const struct aorta_trace_work *first = &a->work[0], *last = &a->work[a->work_count - 1];
    return first->start_ns == b->work[0].start_ns && last->start_ns == b->work[b->work_count - 1].start_ns &&
           last->end_ns == b->work[b->work_count - 1].end_ns && first->correlation == b->work[0].correlation;
}

static bool seen_before(const struct aorta_trace_list *list, size_t trace) {
    for (size_t i = 0; i < trace; i++)
        if (same_recording(list->items[i], list->items[trace])) return true;
    return false;
}

static aorta_status two_of_one_rank(const struct aorta_trace_rank *a, const struct aorta_trace_rank *b) {
    return AORTA_ERROR(AORTA_USAGE,
                       "%s and %s are both of rank %d: name one file for each rank, not the folder (two runs go to "
                       "aorta trace compare, "
                       "by their files)",
                       a->trace->path, b->trace->path, a->rank);
}

static aorta_status check_numbers(const struct aorta_trace_analysis *analysis) {
    for (size_t i = 0; i < analysis->rank_count; i++)
        for (size_t j = 0; j < i && analysis->ranks[i].rank != UNNUMBERED; j++)
            if (analysis->ranks[i].rank == analysis->ranks[j].rank)
                return two_of_one_rank(&analysis->ranks[j], &analysis->ranks[i]);
    return NULL;
}

static bool taken(const struct aorta_trace_analysis *analysis, int number) {
    for (size_t i = 0; i < analysis->rank_count; i++)
        if (analysis->ranks[i].rank == number) return true;
    return false;
}

static void number_the_others(struct aorta_trace_analysis *analysis) {
    int next = 0;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        if (analysis->ranks[i].rank != UNNUMBERED) continue;
        while (taken(analysis, next)) next++;
        analysis->ranks[i].rank = next;
    }
}

static int by_number(const void *left, const void *right) {
    const struct aorta_trace_rank *a = left, *b = right;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* ---- all of them ---- */

/* Of a rank that did nothing but measure. */
static void drop_rank(struct aorta_trace_analysis *analysis) {
    struct aorta_trace_rank *rank = &analysis->ranks[--analysis->rank_count];
    free(rank->owned);
    free(rank->source);
}

/* `number`: of a trace of one device. */
static aorta_status add_ranks(const struct aorta_trace *trace, int number, struct aorta_trace_analysis *analysis) {
    int32_t *devices = NULL;
    size_t count = 0;
    aorta_status status = devices_of(trace, &devices, &count);
    if (!status)
        status = aorta_array_reserve(&analysis->ranks, &analysis->rank_capacity, analysis->rank_count + count,
                                     sizeof *analysis->ranks, "ranks");
    for (size_t i = 0; !status && i < count; i++) {
        struct aorta_trace_rank *rank = &analysis->ranks[analysis->rank_count++];
        *rank =
            (struct aorta_trace_rank){.rank = count == 1 ? number : UNNUMBERED, .trace = trace, .device = devices[i]};
        status = take_work(rank);
        if (!status && !rank->work_count) drop_rank(analysis);
    }
    free(devices);
    return status;
}

static aorta_status nothing_ran(const struct aorta_trace_list *list) {
    for (size_t i = 0; i < list->count; i++) { /* where there was work, but none that makes sense */
        const struct aorta_trace_warning *bad = &list->items[i]->warnings[AORTA_REASON_BAD_EVENT];
        char place[48] = "";
        if (!bad->count) continue;
        if (bad->offset >= 0) snprintf(place, sizeof place, " (first at byte %lld)", (long long)bad->offset);
        return AORTA_ERROR(AORTA_FORMAT, "nothing ran on a device in %s: %lld × %s%s", list->items[i]->path,
                           (long long)bad->count, aorta_trace_reason_text(AORTA_REASON_BAD_EVENT), place);
    }
    const char *note = list->count ? aorta_trace_text(list->items[0], list->items[0]->note) : "";
    return AORTA_ERROR(AORTA_FORMAT, "nothing ran on a device in %s%s: no kernels, copies or fills are recorded%s%s",
                       list->count ? list->items[0]->path : "the list", list->count > 1 ? " and the other files" : "",
                       *note ? "; " : "", note);
}

aorta_status aorta_trace_ranks_make(const struct aorta_trace_list *list, struct aorta_trace_analysis *analysis) {
    int *numbers;
    aorta_status status = aorta_trace_ranks_known(list, &numbers);
    for (size_t i = 0; !status && i < list->count; i++)
        if (!seen_before(list, i)) status = add_ranks(list->items[i], numbers[i], analysis);
    free(numbers);
    if (status) return status;
    if (!analysis->rank_count) return nothing_ran(list);
    AORTA_TRY(check_numbers(analysis));
    number_the_others(analysis);
    qsort(analysis->ranks, analysis->rank_count, sizeof *analysis->ranks, by_number);
    return NULL;
}
