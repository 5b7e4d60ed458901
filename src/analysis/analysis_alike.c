/* Whether steps do the same work. */
#include "analysis/analysis.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>

/* Of two steps that do the same so many kernels are equal: a kernel at the border of a step falls to one or the other.
 */
static const double EQUAL_SHARE = 0.95;

/* The window's kernels as numbers, ascending: equal ones have the same name and, of products, the same grid. */
static size_t keys_of(const struct aorta_trace_rank *rank, const struct aorta_trace_window *window, double *keys) {
    size_t count = 0;
    for (size_t i = 0; i < window->profile.range_count; i++) {
        const struct aorta_trace_work *work = &rank->work[window->work[i]];
        if (work->kind != AORTA_TRACE_KERNEL || work->start_ns < window->start_ns) continue;
        const uint32_t geometry = work->geometry == AORTA_TRACE_NONE ? 0 : work->geometry + 1;
        keys[count++] = (double)work->name * 4294967296.0 + (double)geometry; /* exact below 2^53: 2^21 names */
    }
    aorta_sort_double(keys, count);
    return count;
}

static bool are_alike(const double *left, size_t left_count, const double *right, size_t right_count) {
    size_t common = 0;
    for (size_t i = 0, j = 0; i < left_count && j < right_count;) {
        const double difference = left[i] - right[j];
        common += !(difference < 0) && !(difference > 0);
        i += !(difference > 0);
        j += !(difference < 0);
    }
    return (double)common >= EQUAL_SHARE * (double)(left_count > right_count ? left_count : right_count);
}

/* Adds the pairs of one rank's neighbouring steps. */
static bool compare_rank(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                         size_t *pairs, size_t *unlike) {
    size_t most = 0, last_count = 0;
    for (size_t i = 0; i < rank->window_count; i++)
        if (rank->windows[i].profile.range_count > most) most = rank->windows[i].profile.range_count;
    double *keys = malloc((2 * most + 1) * sizeof *keys), *last = keys, *now = keys ? keys + most : NULL;
    bool first = true;
    for (size_t i = 0; keys && i < rank->window_count; i++) {
        if (!aorta_trace_window_counts(analysis, &rank->windows[i])) continue;
        const size_t count = keys_of(rank, &rank->windows[i], now);
        if (!first) {
            ++*pairs;
            *unlike += !are_alike(last, last_count, now, count);
        }
        double *free_place = last;
        last = now, last_count = count, now = free_place;
        first = false;
    }
    free(keys);
    return keys != NULL;
}

double aorta_trace_steps_unlike(const struct aorta_trace_analysis *analysis) {
    size_t pairs = 0, unlike = 0;
    for (size_t i = 0; i < analysis->rank_count; i++)
        if (!compare_rank(analysis, &analysis->ranks[i], &pairs, &unlike)) return NAN;
    return pairs ? (double)unlike / (double)pairs : NAN;
}
