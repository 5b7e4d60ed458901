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

#endif
