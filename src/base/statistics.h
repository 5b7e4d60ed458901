/* Descriptive statistics on samples. */
#ifndef AORTA_BASE_STATISTICS_H
#define AORTA_BASE_STATISTICS_H

#include <stddef.h>

struct aorta_summary {
    size_t count;
    double mean, std, min, max, p50, p90, p95, p99; /* std: population (divides by n); all NaN when count is 0 */
};

/* Percentile by linear interpolation between order statistics (NumPy's default, Hyndman-Fan type 7); `sorted`
 * ascending, percent in [0, 100]; NaN for no samples. */
double aorta_percentile_sorted(const double *sorted, size_t count, double percent);

/* Sorts a copy; NaN samples are left out. */
struct aorta_summary aorta_summarise(const double *samples, size_t count);

/* Do two sets of samples have the same mean? Welch's test: variances and numbers may differ. The two-sided probability
 * of a difference of means at least this large if they had; NaN when a set has fewer than two samples. Sets that do not
 * vary at all: 1 when their means are equal, else 0. */
double aorta_welch_p(const double *first, size_t first_count, const double *second, size_t second_count);

#endif
