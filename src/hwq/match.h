/* Which kernels of a recording a run's stamps are of (book.h).
 *
 * An operation is, on both sides, what lies from its first stamp to its last:
 *
 *   a kernel that stamps itself   the kernel
 *   anything else                 from the start of the kernel that marks its beginning to the end of the one that
 *                                 marks its end, with whatever the library launched between the two
 *
 * So kernels that mark belong to the operation, never to a gap: a gap between two operations is one hand-over of the
 * device in both views, as it is between their kernels when nothing is marked. Kernels are found by the order in which
 * the host launched them, which correlation ids have; streams must then come out one to one, or nothing is matched. */
#ifndef AORTA_HWQ_MATCH_H
#define AORTA_HWQ_MATCH_H

#include "hwq/book.h"

/* One recorded kernel. */
struct aorta_hwq_recorded {
    int64_t start_ns, end_ns;
    int64_t stream;       /* as the recording numbers it */
    uint64_t correlation; /* grows with every launch; 0: not known */
    const char *name;
    bool graph; /* launched as part of a graph */
};

struct aorta_hwq_interval {
    int64_t start_ns, end_ns; /* on the recording's clock */
};

/* Puts them in the order of their launches. */
void aorta_hwq_recorded_sort(struct aorta_hwq_recorded *kernels, size_t count);
/* found[i] is when the recording says that the operation of iteration->spans.items[i] ran. AORTA_UNSUPPORTED, with the
 * reason, when they cannot be told apart. `kernels` sorted, of one device. */
AORTA_MUST_USE aorta_status aorta_hwq_match(const struct aorta_hwq_iteration *iteration,
                                            const struct aorta_hwq_recorded *kernels, size_t count,
                                            struct aorta_hwq_interval *found);

/* What the harness and the driver of this program launch for themselves. */
bool aorta_hwq_is_gate(const char *kernel);
bool aorta_hwq_is_bookkeeping(const char *kernel); /* gates too */

#endif
