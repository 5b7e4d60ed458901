#include "base/statistics.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>

/* The place of a percentile among the samples: `fraction` of the way from one to the next. */
struct place {
    size_t at, next;
    double fraction;
};

static struct place place_of(size_t count, double percent) {
    if (percent <= 0) return (struct place){0};
    const double position = percent / 100 * (double)(count - 1);
    const size_t at = (size_t)position;
    if (percent >= 100 || at + 1 >= count) return (struct place){count - 1, count - 1, 0};
    return (struct place){at, at + 1, position - (double)at};
}

static double between(double low, double high, double fraction) {
    if (low == high) return low; /* also keeps two infinities from making a NaN */
    /* from the nearer side, so that the result never leaves [low, high] */
    return fraction < 0.5 ? low + (high - low) * fraction : high - (high - low) * (1 - fraction);
}

double aorta_percentile_sorted(const double *sorted, size_t count, double percent) {
    if (count == 0 || isnan(percent)) return NAN;
    const struct place place = place_of(count, percent);
    return between(sorted[place.at], sorted[place.next], place.fraction);
}

double aorta_percentile_int64(const int64_t *sorted, size_t count, double percent) {
    if (count == 0 || isnan(percent)) return NAN;
    const struct place place = place_of(count, percent);
    return between((double)sorted[place.at], (double)sorted[place.next], place.fraction);
}

int64_t aorta_median_int64(int64_t *values, size_t count) {
    if (count == 0) return 0;
    aorta_sort_int64(values, count);
    const int64_t low = values[(count - 1) / 2], high = values[count / 2];
    return low + (high - low) / 2;
}

double aorta_lower_median_without(const double *sorted, size_t count, double value) {
    const size_t middle = (count - 2) / 2;
    return sorted[value <= sorted[middle] ? middle + 1 : middle];
}

/* The samples that are numbers, sorted; the caller frees them. NULL when memory is exhausted or there are none. */
static double *sorted_copy(const double *samples, size_t count, size_t *numbers) {
    *numbers = 0;
    double *copy = count ? malloc(count * sizeof *copy) : NULL;
    if (!copy) return NULL;
    for (size_t i = 0; i < count; i++)
        if (!isnan(samples[i])) copy[(*numbers)++] = samples[i];
    aorta_sort_double(copy, *numbers);
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

/* ---- the incomplete beta function ---- */

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

double aorta_variance_ratio_p(double ratio, double freedom_above, double freedom_below) {
    return beta_regularised(freedom_below / (freedom_below + freedom_above * ratio), freedom_below / 2,
                            freedom_above / 2);
}
