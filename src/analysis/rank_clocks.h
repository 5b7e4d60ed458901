/* How the clocks of ranks differ, from the ends of the collectives that they share. (Device clock rates:
 * measure/clocks.h.)
 *
 * Rank r's clock shows e(r,c) at the end of collective c; the shifts o(r) and the moments T(c) are those that make
 * |e(r,c) - o(r) - T(c)| small, by alternating medians (the robust form of least squares with one constant per rank and
 * one per collective), beginning with the medians of pairs of ranks. */
#ifndef AORTA_ANALYSIS_RANK_CLOCKS_H
#define AORTA_ANALYSIS_RANK_CLOCKS_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The end of a collective on one rank, by its own clock. */
struct aorta_rank_end {
    uint32_t rank; /* index */
    int64_t end_ns;
};

/* Collective c has the ends ends[first[c] .. first[c + 1]). Borrowed. */
struct aorta_rank_ends {
    const struct aorta_rank_end *ends;
    const size_t *first; /* one more than there are collectives */
    size_t collectives, ranks;
};

/* shift_ns[r]: clock of rank r − common clock, which is the clock of rank 0. On entry it holds a first guess, which
 * stays for ranks that share no collective. root[r]: the first rank that r is linked with, directly or through further
 * ranks. */
void aorta_clock_shifts(const struct aorta_rank_ends *ends, struct aorta_arena *memory, int64_t *shift_ns,
                        uint32_t *root);

/* Why a rank was late to a collective. The last rank to start is late by its device if that was busy for most of the
 * time since the first start; otherwise its host was late. */
static inline bool aorta_late_by_device(int64_t late_ns, int64_t busy_ns) {
    return busy_ns > late_ns - busy_ns;
}

#endif
