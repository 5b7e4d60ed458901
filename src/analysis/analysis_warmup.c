/* Which of the first steps are not what the program does later: kernels are compiled, algorithms tried, libraries and
 * communicators opened. Steps that a recorder of ours measured have their own rule (analysis_measured.c). */
#include "analysis/analysis_internal.h"
#include "base/sort.h"
#include "base/statistics.h"

#include <stdlib.h>

enum { FEWEST_STEPS = 3, REGULAR_STEPS = 3 };
static const double SLOWER = 1.5; /* times the median of the steps' second half; */
static const double ALIKE = 1.5;  /* and what takes so much less at most comes again where a tenth of that half does */
static const double RECURS = 0.1;

/* From the end of the work before to the step's last end. Of steps that count. */
static size_t step_times(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                         double *step_ns, int64_t *numbers) {
    size_t count = 0;
    for (size_t i = 0; i < rank->window_count; i++) {
        const struct aorta_trace_window *window = &rank->windows[i];
        if (!aorta_trace_window_counts(analysis, window)) continue;
        numbers[count] = window->number;
        step_ns[count++] = (double)(window->overlap.lead_ns + window->overlap.span_ns);
    }
    return count;
}

/* later[]: the second half of the steps, ascending. */
static bool is_slow(double step_ns, const double *later, size_t count) {
    size_t alike = 0;
    if (step_ns <= SLOWER * aorta_percentile_sorted(later, count, 50)) return false;
    while (alike < count && ALIKE * later[count - 1 - alike] >= step_ns) alike++;
    return (double)alike < RECURS * (double)count;
}

/* Up to the last slow step of the first half, as long as no three in a row before it are regular. `later` has space for
 * half of the steps and one. */
static size_t count_warmup(const double *step_ns, size_t count, double *later) {
    const size_t half = count / 2;
    size_t warmup = 0, regular = 0;
    if (count < FEWEST_STEPS) return 0;
    for (size_t i = half; i < count; i++) later[i - half] = step_ns[i];
    aorta_sort_double(later, count - half);
    for (size_t i = 0; i < half && regular < REGULAR_STEPS; i++) {
        regular = is_slow(step_ns[i], later, count - half) ? 0 : regular + 1;
        if (!regular) warmup = i + 1;
    }
    return warmup;
}

aorta_status aorta_trace_warmup_find(struct aorta_trace_analysis *analysis) {
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        double *step_ns = malloc((2 * rank->window_count + 1) * sizeof *step_ns);
        int64_t *numbers = malloc((rank->window_count + 1) * sizeof *numbers);
        if (!step_ns || !numbers) {
            free(step_ns);
            free(numbers);
            return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu step times", rank->window_count);
        }
        const size_t count = step_times(analysis, rank, step_ns, numbers);
        const size_t warmup = count_warmup(step_ns, count, step_ns + rank->window_count);
        if (warmup > analysis->warmup) {
            analysis->warmup = warmup;
            analysis->steady_from = numbers[warmup];
        }
        free(step_ns);
        free(numbers);
    }
    return NULL;
}
