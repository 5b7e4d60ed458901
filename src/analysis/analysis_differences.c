/* Kernels that one rank runs and the others do not, or that take it longer.
 *
 * A kernel is slower beside a collective, and ranks differ in what runs beside what; so a rank's runs are measured with
 * no collective beside them where there are any. A difference below a hundredth of the rank's step is noise, and so is
 * one that fewer than three quarters of its steps show. */
#include "analysis/analysis_internal.h"
#include "analysis/steps.h"
#include "base/array.h"
#include "base/sort.h"
#include "base/statistics.h"

#include <stdlib.h>
#include <string.h>

static const double MATTERS = 0.01;

/* One name on one rank. */
struct use {
    const char *name;
    uint32_t rank, text;
    double count, ns;               /* a step */
    double alone, alone_ns, all_ns; /* runs with no collective beside them, their time, and that of all runs */
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
    double *steps, *step_ns; /* of each rank: how many count, and their mean length */
    struct use *uses;
    size_t count, capacity;
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
    study->steps[place]++;
    study->step_ns[place] += (double)(window->end_ns - window->start_ns);
}

static aorta_status collect_rank(struct study *study, size_t place) {
    const struct aorta_trace_rank *rank = &study->analysis->ranks[place];
    size_t texts = aorta_trace_text_count(rank->trace);
    struct use *by_text = calloc(texts + 1, sizeof *by_text);
    if (!by_text ||
        !aorta_array_fit(&study->uses, &study->capacity, study->count + rank->kernel_count + 1, sizeof *study->uses) ||
        !study->uses) {
        free(by_text);
        return AORTA_ERROR(AORTA_MEMORY, "no memory to compare %zu kernels", texts);
    }
    for (size_t i = 0; i < rank->window_count; i++)
        if (aorta_trace_window_counts(study->analysis, &rank->windows[i]))
            add_window(study, place, &rank->windows[i], by_text);
    double steps = study->steps[place] > 0 ? study->steps[place] : 1;
    study->step_ns[place] /= steps;
    for (size_t i = 0; i < texts; i++) {
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
    free(by_text);
    return NULL;
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

static aorta_status study_make(struct study *study) {
    struct aorta_trace_analysis *analysis = study->analysis;
    size_t most = 0;
    for (size_t i = 0; i < analysis->rank_count; i++)
        if (analysis->ranks[i].window_count > most) most = analysis->ranks[i].window_count;
    study->steps = calloc(analysis->rank_count + 1, sizeof *study->steps);
    study->step_ns = calloc(analysis->rank_count + 1, sizeof *study->step_ns);
    study->values = malloc((most + 1) * sizeof *study->values);
    study->times = malloc(analysis->rank_count * sizeof *study->times);
    study->counts = malloc(analysis->rank_count * sizeof *study->counts);
    if (!study->steps || !study->step_ns || !study->values || !study->times || !study->counts)
        return AORTA_ERROR(AORTA_MEMORY, "no memory to compare %zu ranks", analysis->rank_count);
    for (size_t i = 0; i < analysis->rank_count; i++) AORTA_TRY(collect_rank(study, i));
    analysis->differences = malloc((study->count + 1) * sizeof *analysis->differences);
    if (!analysis->differences) return AORTA_ERROR(AORTA_MEMORY, "no memory to compare %zu kernels", study->count);
    return NULL;
}

aorta_status aorta_trace_differences_make(struct aorta_trace_analysis *analysis, const struct aorta_trace_busy *busy) {
    if (analysis->rank_count < 2) return NULL;
    struct study study = {.analysis = analysis, .busy = busy};
    aorta_status status = study_make(&study);
    if (!status && study.count) qsort(study.uses, study.count, sizeof *study.uses, use_order);
    for (size_t i = 0, same; !status && i < study.count; i += same) {
        for (same = 1; i + same < study.count && strcmp(study.uses[i].name, study.uses[i + same].name) == 0; same++) {
        }
        compare_uses(&study, study.uses + i, same);
    }
    if (!status) qsort(analysis->differences, analysis->difference_count, sizeof *analysis->differences, largest_first);
    free(study.uses);
    free(study.steps);
    free(study.step_ns);
    free(study.values);
    free(study.times);
    free(study.counts);
    return status;
}
