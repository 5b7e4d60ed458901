/* Gaps between kernels. Definitions (docs/hwq.md):
 *
 *   intra  from the end of a kernel to the start of the next one on the same stream
 *   inter  from the end of the kernel that was the last on the device to end before this one started, where that was on
 *          another stream: what the device takes to go over from one stream to another
 *
 * Both within one iteration. Host calls are no kernels and are left out.
 *
 * A gap whose second kernel the host began to launch only after the first had ended is the host's, whatever the device
 * would have taken for it, and so is one within which a call of the host returned (an optimizer on the CPU): those are
 * kept apart. Behind a gate and in a replay there are none of the first kind. */
#ifndef AORTA_HWQ_GAPS_H
#define AORTA_HWQ_GAPS_H

#include "hwq/result.h"
#include "hwq/stamps_file.h"

struct aorta_hwq_samples { /* zero-initialise */
    double *items;
    size_t count, capacity;
};
AORTA_MUST_USE aorta_status aorta_hwq_samples_add(struct aorta_hwq_samples *samples, double value);
void aorta_hwq_samples_free(struct aorta_hwq_samples *samples);
double aorta_hwq_samples_median(const struct aorta_hwq_samples *samples); /* NaN for none */

/* Shows both of each pair of one iteration that a gap lies between: those of one stream first, then the others. */
typedef aorta_status (*aorta_hwq_pair_seen)(void *user, const struct aorta_hwq_span *before,
                                            const struct aorta_hwq_span *span);
AORTA_MUST_USE aorta_status aorta_hwq_pairs(const struct aorta_hwq_spans *spans, aorta_hwq_pair_seen seen, void *user);

struct aorta_hwq_gaps {                              /* zero-initialise; ns */
    struct aorta_hwq_samples inter, intra;           /* the device's */
    struct aorta_hwq_samples host_inter, host_intra; /* the host's */
};
/* Adds the gaps of one iteration. */
AORTA_MUST_USE aorta_status aorta_hwq_gaps_add(struct aorta_hwq_gaps *gaps, const struct aorta_hwq_spans *spans);
void aorta_hwq_gaps_free(struct aorta_hwq_gaps *gaps);

/* Runs the probe on the workload's streams, in turn; with one stream a second one of the same priority is created for
 * it. `priorities`: of the streams. `file` (may be NULL) gets the stamps. Streams idle. (probe.c) */
AORTA_MUST_USE aorta_status aorta_hwq_probe_run(struct aorta_hwq *hwq, const enum aorta_priority *priorities,
                                                struct aorta_hwq_stamps_file *file, struct aorta_hwq_probe *probe);

#endif
