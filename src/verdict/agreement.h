/* Two views of the same iterations, by ranges and by kernels: how far apart they are and why (docs/measurement.md). */
#ifndef AORTA_VERDICT_AGREEMENT_H
#define AORTA_VERDICT_AGREEMENT_H

#include "base/text.h"
#include "timeline/overlap.h"

enum aorta_agreement_figure {
    AORTA_AGREE_COMPUTE,
    AORTA_AGREE_COMM,
    AORTA_AGREE_OVERLAP,
    AORTA_AGREE_IDLE,
    AORTA_AGREE_COUNT
};
const char *aorta_agreement_name(enum aorta_agreement_figure figure); /* "compute", "comm", "overlap", "idle" */

/* Sums over iterations; zero-initialise. Identities, exact to the nanosecond, hold for each class of work:
 * range − kernel = gap − outside. */
struct aorta_agreement {
    int64_t iterations;
    int64_t range_ns[AORTA_AGREE_COUNT], kernel_ns[AORTA_AGREE_COUNT]; /* idle: within one window for both views */
    /* compute and comm: time in ranges of the class while none of its kernels ran, and kernels of the class outside */
    int64_t gap_ns[2], outside_ns[2];
    /* Time in which a range was open and nothing ran: before the host had launched all of that range, and after. */
    int64_t host_gap_ns, latency_gap_ns;
    int64_t kernels, attributed, dropped; /* ranges of the kernel view; those whose range is certain; records lost */
    /* Ranges of collectives; those of them that began when there was room, and those that are their kernel's own. */
    int64_t collectives, room, witnessed;
};

AORTA_MUST_USE aorta_status aorta_agreement_add(struct aorta_agreement *agreement, const struct aorta_profile *ranges,
                                                const struct aorta_profile *kernels);
/* (range − kernel) / kernel; 0 when both are 0, NaN when only the kernels' is. */
double aorta_agreement_difference(const struct aorta_agreement *agreement, enum aorta_agreement_figure figure);
/* Where ranges of collectives begin: "stream": when their stream came to them; "room": when there was room for their
 * kernel; "kernel": with it; "mixed"; NULL: there were none. */
const char *aorta_agreement_range_start(const struct aorta_agreement *agreement);
/* One line without a break. */
void aorta_agreement_text(const struct aorta_agreement *agreement, struct aorta_text *out);

#endif
