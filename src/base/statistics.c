#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>

double aorta_percentile_sorted(const double *sorted, size_t count, double percent) {
    if (count == 0 || isnan(percent)) return NAN;
    if (percent <= 0) return sorted[0];
    if (percent >= 100) return sorted[count - 1];
    double position = percent / 100 * (double)(count - 1);
    size_t below = (size_t)position;
    if (below + 1 >= count) return sorted[count - 1];
    double fraction = position - (double)below;
    double low = sorted[below], high = sorted[below + 1];
    if (low == high) return low; /* also keeps two infinities from making a NaN */
    /* from the nearer side, so that the result never leaves [low, high] */
    return fraction < 0.5 ? low + (high - low) * fraction : high - (high - low) * (1 - fraction);
}

static int ascending(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The samples that are numbers, sorted; the caller frees them. NULL when memory is exhausted or there are none. */
static double *sorted_copy(const double *samples, size_t count, size_t *kept) {
    *kept = 0;
    double *copy = count ? malloc(count * sizeof *copy) : NULL;
    if (!copy) return NULL;
    for (size_t i = 0; i < count; i++) {
        if (!isnan(samples[i])) copy[(*kept)++] = samples[i];
    }
    qsort(copy, *kept, sizeof *copy, ascending);
    return copy;
}

struct aorta_summary aorta_summarise(const double *samples, size_t count) {
    struct aorta_summary summary = {0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    double *sorted = sorted_copy(samples, count, &summary.count);
    size_t n = summary.count;
    if (n > 0) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < n; i++) sum += sorted[i];
        summary.mean = sum / (double)n;
        for (size_t i = 0; i < n; i++) squares += (sorted[i] - summary.mean) * (sorted[i] - summary.mean);
        summary.std = sqrt(squares / (double)n);
        summary.min = sorted[0];
        summary.max = sorted[n - 1];
        summary.p50 = aorta_percentile_sorted(sorted, n, 50);
        summary.p90 = aorta_percentile_sorted(sorted, n, 90);
        summary.p95 = aorta_percentile_sorted(sorted, n, 95);
        summary.p99 = aorta_percentile_sorted(sorted, n, 99);
    }
    free(sorted);
    return summary;
}
