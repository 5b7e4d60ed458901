/* How the clocks of ranks differ, from the ends of the collectives that they share. (Device clock rates:
 * measure/clocks.h.)
 *
 * Rank r's clock shows e(r,c) at the end of collective c; the shifts o(r) and the moments T(c) are those that make
 * |e(r,c) - o(r) - T(c)| small, by alternating medians (the robust form of least squares with one constant per rank and
 * one per collective), beginning with the medians of pairs of ranks. */
#ifndef AORTA_ANALYSIS_RANK_CLOCKS_H
#define AORTA_ANALYSIS_RANK_CLOCKS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The end of a collective on one rank, by its own clock. */
struct aorta_rank_end {
    uint32_t rank; /* index */
    int64_t end_ns;
};

/* Those of collective c are ends[first[c] .. first[c + 1]). Borrowed. */
struct aorta_rank_ends {
    const struct aorta_rank_end *ends;
    const size_t *first; /* one more than there are collectives */
    size_t collectives, ranks;
};

/* shift_ns[r]: own clock − common clock, which is that of rank 0; before the call a first guess, which stays for ranks
 * that share nothing with others. root[r]: the first rank that r is linked with, directly or through others.
 * AORTA_MEMORY.
 */
AORTA_MUST_USE aorta_status aorta_clock_shifts(const struct aorta_rank_ends *ends, int64_t *shift_ns, uint32_t *root);

/* Who was late to a collective: the last to start, if its device was busy for most of the time since the first start;
 * else its host came late. */
static inline bool aorta_late_by_device(int64_t late_ns, int64_t busy_ns) {
    return busy_ns > late_ns - busy_ns;
}

#endif
