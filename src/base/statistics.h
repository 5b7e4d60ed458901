/* Statistics of samples: percentiles (sort.c), mean and the F distribution (compare.c). Whether two series differ:
 * base/compare.h. */
#ifndef AORTA_BASE_STATISTICS_H
#define AORTA_BASE_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

struct aorta_summary {
    size_t count;
    double mean, std, min, max, p50, p90, p95, p99; /* std: population (divides by n); all NaN when count is 0 */
};

/* Percentile by linear interpolation between order statistics (NumPy's default, Hyndman-Fan type 7); `sorted`
 * ascending, percent in [0, 100]; NaN for no samples. */
double aorta_percentile_sorted(const double *sorted, size_t count, double percent);

/* aorta_percentile for whole numbers, such as times in ns. */
double aorta_percentile_int64(const int64_t *sorted, size_t count, double percent);
/* The 50th, rounded down. Sorts the values; 0 for none. */
int64_t aorta_median_int64(int64_t *values, size_t count);
/* The largest value that most of the remaining values reach: the median without one occurrence of `value`, and the
 * lower middle value if their number is even. `count` is at least 2. */
double aorta_lower_median_without(const double *sorted, size_t count, double value);

/* Sorts a copy; NaN samples are ignored. */
struct aorta_summary aorta_summarise(const double *samples, size_t count);

/* The probability that chance alone makes a ratio of two variances, with these degrees of freedom, as large as this
 * (the F distribution's upper tail). */
double aorta_variance_ratio_p(double ratio, double freedom_above, double freedom_below);

#endif
