/* How sure is a difference between two series of times? Percentile intervals by the circular block bootstrap (Politis &
 * Romano 1992): series of iterations are autocorrelated (clocks, temperature, other work), so whole blocks are drawn
 * again and not single values. The length of a block comes from the series itself (Politis & White 2004, with the
 * correction by Patton, Politis & White 2009), on values cut to the range of the 5th to the 95th percentile, so that
 * single outliers do not hide what the rest does.
 *
 * Deterministic: the same series, seed and stream give the same intervals. */
#ifndef AORTA_BASE_BOOTSTRAP_H
#define AORTA_BASE_BOOTSTRAP_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Values to a block, 1 (as good as independent) … count / 3. */
size_t aorta_block_length(const double *samples, size_t count);

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
