/* Statistics of samples: mean, percentiles, and whether two series differ. */
#ifndef AORTA_BASE_STATISTICS_H
#define AORTA_BASE_STATISTICS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct aorta_summary {
    size_t count;
    double mean, std, min, max, p50, p90, p95, p99; /* std: population (divides by n); all NaN when count is 0 */
};

/* Percentile by linear interpolation between order statistics (NumPy's default, Hyndman-Fan type 7); `sorted`
 * ascending, percent in [0, 100]; NaN for no samples. */
double aorta_percentile_sorted(const double *sorted, size_t count, double percent);

/* The same of whole numbers, such as times in ns. */
double aorta_percentile_int64(const int64_t *sorted, size_t count, double percent);
/* The 50th, rounded down. Sorts the values; 0 for none. */
int64_t aorta_median_int64(int64_t *values, size_t count);
/* For what most of some have: of an even number the lower one in the middle, so that half of them are not most. Sorts
 * the values, of which there is one at least. */
double aorta_lower_median(double *values, size_t count);

/* Sorts a copy; NaN samples are left out. */
struct aorta_summary aorta_summarise(const double *samples, size_t count);

/* ---- do two series differ? ----
 *
 * Series of iterations are autocorrelated (clocks, temperature, other work), so that neighbours say less than
 * independent samples would. Whole blocks take the place of single samples: the circular block bootstrap (Politis &
 * Romano 1992). The length of a block is twice the length that the series itself gives (aorta_block_length). As blocks
 * are few, intervals are those of Student's t with as many degrees of freedom as there are blocks, less one; series
 * that are not correlated have blocks of one sample, and the test of means is Welch's. */

/* The length of a block that is best for the variance of a mean, 1 (as good as independent) … count / 3 (Politis &
 * White 2004, corrected by Patton, Politis & White 2009). The correlation is that of values cut to the range of the 5th
 * to the 95th percentile, so that single outliers do not hide what the rest does. */
size_t aorta_block_length(const double *samples, size_t count);

/* p values below it are significant: 0.05. */
extern const double aorta_significance;

/* The probability that chance alone makes a ratio of two variances, with these degrees of freedom, as large as this
 * (the F distribution's upper tail). */
double aorta_variance_ratio_p(double ratio, double freedom_above, double freedom_below);

/* The difference of two means, each of a series of numbers in order. */
struct aorta_comparison {
    struct aorta_summary reference, candidate;
    double delta, low, high; /* candidate - reference, and its 95% interval */
    double p_value; /* two-sided: of so large a difference by chance; series that do not vary: 1 when equal, else 0 */
};

/* Interval and p value are NaN where a side has fewer than two samples. Nothing is drawn: the variance over all
 * possible draws has a closed form. */
struct aorta_comparison aorta_compare(const double *reference, size_t reference_count, const double *candidate,
                                      size_t candidate_count);

/* How ratios are drawn. Deterministic: the same series, seed and stream give the same intervals. */
struct aorta_bootstrap {
    int resamples;     /* e.g. 2000 */
    double confidence; /* e.g. 0.95 */
    uint64_t seed, stream;
};

/* second / first of one figure. */
struct aorta_ratio {
    double value, low, high;
};

struct aorta_ratios {
    struct aorta_ratio p50, mean, p95;
    size_t blocks[2]; /* length of the blocks of the first and the second series */
};

/* Both series have positive values, at least one each. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_bootstrap_ratios(const struct aorta_bootstrap *bootstrap, const double *first,
                                                   size_t first_count, const double *second, size_t second_count,
                                                   struct aorta_ratios *ratios);

#endif
