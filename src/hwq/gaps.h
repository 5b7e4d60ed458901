/* Gaps between the kernels of an iteration (hwq/spans.h), split into those of the device and those of the host.
 *
 * A gap is the host's when the host began to launch the second kernel only after the first had ended, or when a call of
 * the host returned within it (an optimizer on the CPU). With a gate and in a replay no launch is late. */
#ifndef AORTA_HWQ_GAPS_H
#define AORTA_HWQ_GAPS_H

#include "hwq/result.h"
#include "hwq/stamps.h"

struct aorta_hwq_samples { /* zero-initialise */
    double *items;
    size_t count, capacity;
};
AORTA_MUST_USE aorta_status aorta_hwq_samples_add(struct aorta_hwq_samples *samples, double value);
void aorta_hwq_samples_free(struct aorta_hwq_samples *samples);
double aorta_hwq_samples_median(const struct aorta_hwq_samples *samples); /* NaN for none */

struct aorta_hwq_gaps {                              /* zero-initialise; ns */
    struct aorta_hwq_samples inter, intra;           /* the device's, between streams and on one stream */
    struct aorta_hwq_samples host_inter, host_intra; /* the host's */
};
/* Adds the gaps of one iteration. */
AORTA_MUST_USE aorta_status aorta_hwq_gaps_add(struct aorta_hwq_gaps *gaps, const struct aorta_hwq_spans *spans);
void aorta_hwq_gaps_free(struct aorta_hwq_gaps *gaps);

/* Runs the probe on the workload's streams, in turn; with one stream a second one of the same priority is created for
 * it. `priorities`: of the streams. `file` (may be NULL) gets the stamps. Streams idle. */
AORTA_MUST_USE aorta_status aorta_hwq_probe_run(struct aorta_hwq *hwq, const enum aorta_priority *priorities,
                                                struct aorta_hwq_stamps_file *file, struct aorta_hwq_probe *probe);

#endif
