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

/* ---- Welch's test ---- */

/* The continued fraction of the incomplete beta function, by Lentz's method (DLMF 8.17.22). */
static double beta_fraction(double x, double a, double b) {
    enum { TERMS = 500 };
    const double tiny = 1e-300, enough = 1e-15;
    double c = 1, d = 1 - (a + b) * x / (a + 1), result;
    d = 1 / (fabs(d) < tiny ? tiny : d);
    result = d;
    for (int m = 1; m <= TERMS; m++) {
        double terms[2] = {m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                           -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))};
        double change = 1;
        for (int i = 0; i < 2; i++) {
            d = 1 + terms[i] * d;
            c = 1 + terms[i] / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            change = c * d;
            result *= change;
        }
        if (fabs(change - 1) < enough) break;
    }
    return result;
}

/* The regularised incomplete beta function I_x(a, b). */
static double beta_regularised(double x, double a, double b) {
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(x, a, b) / a;
    return 1 - front * beta_fraction(1 - x, b, a) / b;
}

/* The mean, and the variance of that mean. */
static double mean_of(const double *samples, size_t count, double *variance) {
    double mean = 0, squares = 0;
    for (size_t i = 0; i < count; i++) mean += samples[i] / (double)count;
    for (size_t i = 0; i < count; i++) squares += (samples[i] - mean) * (samples[i] - mean);
    *variance = squares / (double)(count - 1) / (double)count;
    return mean;
}

double aorta_welch_p(const double *first, size_t first_count, const double *second, size_t second_count) {
    if (first_count < 2 || second_count < 2) return NAN;
    double v1, v2, difference = mean_of(first, first_count, &v1) - mean_of(second, second_count, &v2);
    if (v1 + v2 <= 0) return difference == 0 ? 1 : 0;
    double t2 = difference * difference / (v1 + v2);
    double freedom =
        (v1 + v2) * (v1 + v2) / (v1 * v1 / (double)(first_count - 1) + v2 * v2 / (double)(second_count - 1));
    return beta_regularised(freedom / (freedom + t2), freedom / 2, 0.5);
}
