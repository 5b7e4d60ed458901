/* Which ranks there are, one for each device of each trace, and how their kernels differ. */
#include "analysis/analysis_internal.h"
#include "analysis/steps.h"
#include "base/sort.h"
#include "base/statistics.h"
#include "trace/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNNUMBERED = -1, MOST_DEVICES = 1024 };

/* ---- the devices of a trace ---- */

/* Ascending, each once. Neighbours mostly share a device, so the list before sorting is short. */
static size_t devices_of(const struct aorta_trace *trace, int32_t *found) {
    size_t used = 0;
    for (size_t i = 0; i < trace->work_count; i++)
        if (!used || found[used - 1] != trace->work[i].device) found[used++] = trace->work[i].device;
    return aorta_sort_unique(found, used, sizeof *found, aorta_by_int32);
}

static bool only_measures(const struct aorta_trace_work *work) {
    return work->kind == AORTA_TRACE_KERNEL && aorta_kernel_only_measures((enum aorta_kernel_class)work->class);
}

/* The trace's own array where all of it belongs to the rank, else a copy of what does. */
static void take_work(struct aorta_trace_rank *rank) {
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
    if (mine == trace->work_count) return;
    struct aorta_trace_work *own = aorta_arena_raw(&rank->memory, mine * sizeof *own);
    rank->source = aorta_arena_raw(&rank->memory, mine * sizeof *rank->source);
    size_t used = 0;
    for (size_t i = 0; rank->source && i < trace->work_count; i++) {
        if (trace->work[i].device != rank->device || only_measures(&trace->work[i])) continue;
        rank->source[used] = (uint32_t)i;
        own[used++] = trace->work[i];
    }
    rank->work = own;
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

/* Drops devices that ran no kernel, if the trace has devices that did: a program sets up all devices that it sees.
 * Returns how many stay. */
static size_t without_idle(const struct aorta_trace *trace, int32_t *devices, size_t count,
                           struct aorta_arena *memory) {
    bool *computes = aorta_arena_alloc(memory, count * sizeof *computes);
    size_t used = 0;
    bool any = false;
    for (size_t i = 0; computes && count > 1 && i < trace->work_count; i++) {
        if (trace->work[i].kind != AORTA_TRACE_KERNEL) continue;
        const int32_t *device = bsearch(&trace->work[i].device, devices, count, sizeof *devices, aorta_by_int32);
        if (device) any = computes[device - devices] = true;
    }
    for (size_t i = 0; any && i < count; i++)
        if (computes[i]) devices[used++] = devices[i];
    return any ? used : count;
}

/* ---- all of them ---- */

/* `number`: of a trace of one device. A rank that did nothing but measure is none. */
static aorta_status add_ranks(const struct aorta_trace *trace, int number, struct aorta_trace_analysis *analysis) {
    struct aorta_arena scratch = {0};
    int32_t *devices = aorta_arena_raw(&scratch, trace->work_count * sizeof *devices);
    const size_t found = devices ? devices_of(trace, devices) : 0;
    const size_t count = found ? without_idle(trace, devices, found, &scratch) : 0;
    aorta_status status = NULL;
    analysis->devices_idle += found - count;
    if (count > MOST_DEVICES)
        status = AORTA_ERROR(AORTA_FORMAT,
                             "%s holds work of %zu devices, of at most %d that a process can have: its device numbers "
                             "are damaged",
                             trace->path, count, MOST_DEVICES);
    for (size_t i = 0; !status && i < count; i++) {
        struct aorta_trace_rank *ranks = aorta_arena_grow(&analysis->memory, analysis->ranks, analysis->rank_count,
                                                          &analysis->rank_capacity, sizeof *ranks);
        if (!ranks) break;
        analysis->ranks = ranks;
        struct aorta_trace_rank *rank = &ranks[analysis->rank_count];
        *rank =
            (struct aorta_trace_rank){.rank = count == 1 ? number : UNNUMBERED, .trace = trace, .device = devices[i]};
        take_work(rank);
        analysis->memory.failed |= rank->memory.failed;
        if (rank->work_count)
            analysis->rank_count++;
        else
            aorta_arena_free(&rank->memory);
    }
    aorta_arena_end(&scratch, &analysis->memory);
    return status;
}

/* How to record kernels; NULL: no option leaves out kernels alone. */
static const char *kernels_by(enum aorta_trace_format format) {
    switch (format) {
    case AORTA_TRACE_ROCPROF_JSON:
    case AORTA_TRACE_ROCPROF_CSV:
    case AORTA_TRACE_ROCPD:
    case AORTA_TRACE_PFTRACE:
        return "record with rocprofv3 --kernel-trace --memory-copy-trace";
    case AORTA_TRACE_KINETO:
        return "record with ProfilerActivity.CUDA";
    default:
        return NULL;
    }
}

/* Calls are recorded, and nothing that they launched. NULL: there are no such calls. */
static aorta_status launches_alone(const struct aorta_trace_list *list) {
    size_t launches = 0;
    for (size_t i = 0; i < list->count; i++) launches += list->items[i]->coverage.unanswered;
    if (!launches) return NULL;
    const char *by = kernels_by(list->items[0]->format);
    return AORTA_ERROR(
        AORTA_FORMAT, "nothing ran on a device in %s%s: %zu launches are recorded without their kernels%s%s",
        list->items[0]->path, list->count > 1 ? " and the other files" : "", launches, by ? ": " : "", by ? by : "");
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
    AORTA_TRY(launches_alone(list));
    const char *note = list->count ? aorta_trace_text(list->items[0], list->items[0]->note) : "";
    return AORTA_ERROR(AORTA_FORMAT, "nothing ran on a device in %s%s: no kernels, copies or fills are recorded%s%s",
                       list->count ? list->items[0]->path : "the list", list->count > 1 ? " and the other files" : "",
                       *note ? "; " : "", note);
}

aorta_status aorta_trace_ranks_make(const struct aorta_trace_list *list, struct aorta_trace_analysis *analysis) {
    const int *numbers = aorta_trace_ranks_known(list, &analysis->memory);
    for (size_t i = 0; numbers && i < list->count; i++)
        if (!seen_before(list, i)) AORTA_TRY(add_ranks(list->items[i], numbers[i], analysis));
    AORTA_TRY(aorta_arena_check(&analysis->memory, "the ranks"));
    if (!analysis->rank_count) return nothing_ran(list);
    AORTA_TRY(check_numbers(analysis));
    number_the_others(analysis);
    qsort(analysis->ranks, analysis->rank_count, sizeof *analysis->ranks, aorta_by_int32);
    return NULL;
}

/* Kernels that only one rank runs, or that take one rank longer than the other ranks.
 *
 * A collective slows down kernels that run at the same time, and ranks differ in which kernels do. So only runs without
 * a concurrent collective are measured where a rank has any. A difference below 1% of the rank's step is noise. So is a
 * difference that fewer than three quarters of its steps show. */

static const double MATTERS = 0.01;

/* One name on one rank. */
struct use {
    const char *name;
    uint32_t rank, text;
    double count, ns;               /* a step */
    double alone, alone_ns, all_ns; /* runs without a concurrent collective, their time, and the time of all runs */
};

static int use_order(const void *left, const void *right) {
    const struct use *a = left, *b = right;
    int order = strcmp(a->name, b->name);
    return order ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

/* ---- what each rank ran ---- */

struct study {
    struct aorta_trace_analysis *analysis;
    const struct aorta_trace_busy *busy;
    double *step_ns; /* of each rank: mean length of the steps that count */
    struct use *uses;
    size_t count;
    struct aorta_arena memory;
    double *times, *counts; /* of the name at hand on all ranks, ascending */
    double *values;         /* scratch: as many as there are windows */
};

static bool is_compared(const struct aorta_trace_work *work) {
    return work->kind == AORTA_TRACE_KERNEL && work->class == AORTA_KERNEL_COMPUTE;
}

static void add_window(const struct study *study, size_t place, const struct aorta_trace_window *window,
                       struct use *by_text) {
    const struct aorta_trace_rank *rank = &study->analysis->ranks[place];
    for (size_t i = 0; i < window->profile.range_count; i++) {
        const struct aorta_trace_work *work = &rank->work[window->work[i]];
        if (!is_compared(work) || work->start_ns < window->start_ns) continue;
        struct use *use = &by_text[work->name];
        double ns = (double)(work->end_ns - work->start_ns);
        use->count++;
        use->ns += ns;
        if (aorta_beside_of(&study->busy[place].comm, work->start_ns, work->end_ns) != AORTA_BESIDE_ALONE) continue;
        use->alone++;
        use->alone_ns += ns;
    }
    study->step_ns[place] += (double)(window->end_ns - window->start_ns);
}

static void collect_rank(struct study *study, size_t place) {
    const struct aorta_trace_rank *rank = &study->analysis->ranks[place];
    const size_t texts = aorta_trace_text_count(rank->trace);
    struct aorta_arena scratch = {0};
    struct use *by_text = aorta_arena_alloc(&scratch, texts * sizeof *by_text);
    for (size_t i = 0; by_text && i < rank->window_count; i++)
        if (aorta_trace_window_counts(study->analysis, &rank->windows[i]))
            add_window(study, place, &rank->windows[i], by_text);
    const double steps = (double)rank->steps;
    study->step_ns[place] /= steps;
    for (size_t i = 0; by_text && i < texts; i++) {
        if (by_text[i].count <= 0) continue;
        struct use use = by_text[i];
        use.name = aorta_trace_text(rank->trace, (uint32_t)i);
        use.rank = (uint32_t)place;
        use.text = (uint32_t)i;
        use.all_ns = use.alone > 0 ? use.alone_ns / use.alone * use.count / steps : use.ns / steps;
        use.count /= steps;
        use.ns /= steps;
        study->uses[study->count++] = use;
    }
    aorta_arena_end(&scratch, &study->memory);
}

/* ---- one name on all ranks ---- */

static void sort_uses(const struct study *study, const struct use *uses, size_t count) {
    const size_t ranks = study->analysis->rank_count;
    for (size_t i = 0; i < ranks; i++) {
        study->times[i] = i < count ? uses[i].all_ns : 0;
        study->counts[i] = i < count ? uses[i].count : 0;
    }
    aorta_sort_double(study->times, ranks);
    aorta_sort_double(study->counts, ranks);
}

/* What all but a quarter of the rank's steps have of it. */
static double most_steps_ns(const struct study *study, const struct use *use) {
    const struct aorta_trace_rank *rank = &study->analysis->ranks[use->rank];
    double scale = use->ns > 0 ? use->all_ns / use->ns : 1;
    size_t count = 0;
    for (size_t i = 0; i < rank->window_count; i++) {
        const struct aorta_trace_window *window = &rank->windows[i];
        if (!aorta_trace_window_counts(study->analysis, window)) continue;
        double ns = 0;
        for (size_t j = 0; j < window->profile.range_count; j++) {
            const struct aorta_trace_work *work = &rank->work[window->work[j]];
            if (is_compared(work) && work->name == use->text && work->start_ns >= window->start_ns)
                ns += (double)(work->end_ns - work->start_ns) * scale;
        }
        study->values[count++] = ns;
    }
    aorta_sort_double(study->values, count);
    return aorta_percentile_sorted(study->values, count, 25);
}

static void compare_uses(struct study *study, const struct use *uses, size_t count) {
    struct aorta_trace_analysis *analysis = study->analysis;
    sort_uses(study, uses, count);
    for (size_t i = 0; i < count; i++) {
        double others_ns = aorta_lower_median_without(study->times, analysis->rank_count, uses[i].all_ns),
               excess_ns = uses[i].all_ns - others_ns;
        double matters_ns = MATTERS * study->step_ns[uses[i].rank];
        if (excess_ns <= matters_ns || most_steps_ns(study, &uses[i]) - others_ns <= matters_ns) continue;
        analysis->differences[analysis->difference_count++] = (struct aorta_trace_difference){
            .name = uses[i].name,
            .rank = uses[i].rank,
            .count = uses[i].count,
            .ns = uses[i].ns,
            .others_count = aorta_lower_median_without(study->counts, analysis->rank_count, uses[i].count),
            .others_ns = others_ns,
            .excess_ns = excess_ns,
        };
    }
}

static int largest_first(const void *left, const void *right) {
    const struct aorta_trace_difference *a = left, *b = right;
    if (a->excess_ns != b->excess_ns) return a->excess_ns > b->excess_ns ? -1 : 1;
    int order = strcmp(a->name, b->name);
    return order ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

static void study_make(struct study *study) {
    struct aorta_trace_analysis *analysis = study->analysis;
    struct aorta_arena *memory = &study->memory;
    size_t most = 0, limit = 0;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        if (analysis->ranks[i].window_count > most) most = analysis->ranks[i].window_count;
        limit += analysis->ranks[i].kernel_count;
    }
    study->step_ns = aorta_arena_alloc(memory, analysis->rank_count * sizeof *study->step_ns);
    study->values = aorta_arena_raw(memory, most * sizeof *study->values);
    study->times = aorta_arena_raw(memory, analysis->rank_count * sizeof *study->times);
    study->counts = aorta_arena_raw(memory, analysis->rank_count * sizeof *study->counts);
    study->uses = aorta_arena_raw(memory, limit * sizeof *study->uses);
    for (size_t i = 0; study->uses && i < analysis->rank_count; i++) collect_rank(study, i);
    analysis->differences = aorta_arena_alloc(&analysis->memory, study->count * sizeof *analysis->differences);
    memory->failed |= analysis->memory.failed;
}

void aorta_trace_differences_make(struct aorta_trace_analysis *analysis, const struct aorta_trace_busy *busy) {
    if (analysis->rank_count < 2) return;
    struct study study = {.analysis = analysis, .busy = busy};
    study_make(&study);
    if (study.memory.failed) study.count = 0;
    if (study.count) qsort(study.uses, study.count, sizeof *study.uses, use_order);
    for (size_t i = 0, same; i < study.count; i += same) {
        for (same = 1; i + same < study.count && strcmp(study.uses[i].name, study.uses[i + same].name) == 0; same++) {
        }
        compare_uses(&study, study.uses + i, same);
    }
    if (analysis->difference_count)
        qsort(analysis->differences, analysis->difference_count, sizeof *analysis->differences, largest_first);
    aorta_arena_end(&study.memory, &analysis->memory);
}
