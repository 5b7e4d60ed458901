/* How the time of an iteration divides, and the limit that follows.
 *
 *   busy     a kernel, collective or copy runs, on any stream
 *   host     only a call of the host runs: the optimizer of zero_offload
 *   waiting  nothing runs
 *
 * Stamped iterations give these times, but their marks around operations add launches. So the waiting time is at most
 * the timed iteration minus the work, and the host's time to queue comes from the timed iterations. */
#ifndef AORTA_HWQ_LIMIT_H
#define AORTA_HWQ_LIMIT_H

#include "hwq/stamps.h"

/* Gaps between the kernels of an iteration (hwq/spans.h), split into those of the device and those of the host.
 *
 * A gap is the host's when the host began to launch the second kernel only after the first had ended, or when a call of
 * the host returned within it (an optimizer on the CPU). With a gate and in a replay no launch is late. */

struct aorta_hwq_samples { /* zero-initialise */
    double *items;
    size_t count, capacity;
};
/* Adds a sample in the arena. If memory is exhausted, the arena has failed. */
void aorta_hwq_samples_add(struct aorta_hwq_samples *samples, double value, struct aorta_arena *memory);
double aorta_hwq_samples_median(const struct aorta_hwq_samples *samples); /* NaN for none */

struct aorta_hwq_gaps {                              /* zero-initialise; ns */
    struct aorta_arena memory;                       /* of the samples; the owner frees it */
    struct aorta_hwq_samples inter, intra;           /* the device's, between streams and on one stream */
    struct aorta_hwq_samples host_inter, host_intra; /* the host's */
};
void aorta_hwq_gaps_add(struct aorta_hwq_gaps *gaps, const struct aorta_hwq_spans *spans);

/* Runs the probe on the workload's streams, in turn; with one stream a second one of the same priority is created for
 * it. `file` (may be NULL) gets the stamps. Streams idle. */
AORTA_MUST_USE aorta_status aorta_hwq_probe_run(struct aorta_hwq *hwq, struct aorta_hwq_stamps_file *file,
                                                struct aorta_hwq_probe *probe);

struct aorta_hwq_busy {                       /* zero-initialise; one sample per iteration, ns */
    struct aorta_arena memory;                /* of the samples; the owner frees it */
    struct aorta_hwq_samples idle;            /* the share of waiting */
    struct aorta_hwq_samples busy, host, sum; /* sum: of all durations, parallel work counted twice */
    struct aorta_hwq_samples kernel;          /* one sample per kernel */
    bool marked; /* some work is timed by kernels around it, so its time includes late launches */
};
void aorta_hwq_busy_add(struct aorta_hwq_busy *busy, const struct aorta_hwq_spans *spans);

/* From result's latency, launches and gaps. `gate`: launches do not limit. */
struct aorta_hwq_limit aorta_hwq_limit_find(const struct aorta_hwq_busy *busy, const struct aorta_hwq_result *result,
                                            bool gate);
extern const struct aorta_row aorta_hwq_limit_rows[];
void aorta_hwq_limit_json(const struct aorta_hwq_result *result, struct aorta_json *json); /* an object */

void aorta_hwq_find_low_clocks(struct aorta_hwq_result *result);
/* Adds a finding when the last quarter of at least 20 iterations differs by 5% from the first: a median hides that a
 * device slows down during the run, as an H100 does after half a second of large products. */
void aorta_hwq_find_drift(struct aorta_hwq_result *result);

#endif
