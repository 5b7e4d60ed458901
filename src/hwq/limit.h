/* How the time of an iteration divides, and so what limits it.
 *
 *   busy     a kernel, collective or copy runs, on any stream
 *   host     only a call of the host runs: the optimizer of zero_offload
 *   waiting  nothing runs
 *
 * They come from stamped iterations, where marks around operations add launches. So the waiting time is at most what
 * the timed iterations are longer than the work, and the host's time to queue is that of the timed iterations. */
#ifndef AORTA_HWQ_LIMIT_H
#define AORTA_HWQ_LIMIT_H

#include "hwq/gaps.h"

struct aorta_hwq_busy {                       /* zero-initialise; a sample an iteration, ns */
    struct aorta_hwq_samples idle;            /* the share of waiting */
    struct aorta_hwq_samples busy, host, sum; /* sum: of all durations, parallel work counted twice */
    struct aorta_hwq_samples kernel;          /* a sample a kernel */
    bool marked; /* some work is timed by kernels around it, so late launches are part of it */
};
/* Adds one iteration. */
AORTA_MUST_USE aorta_status aorta_hwq_busy_add(struct aorta_hwq_busy *busy, const struct aorta_hwq_spans *spans);
void aorta_hwq_busy_free(struct aorta_hwq_busy *busy);

/* From result's latency, launches and gaps. `gate`: launches do not limit. */
struct aorta_hwq_limit aorta_hwq_limit_find(const struct aorta_hwq_busy *busy, const struct aorta_hwq_result *result,
                                            bool gate);
/* Sentences without their full stop: what limits and by how much; what to try (may be empty). */
void aorta_hwq_limit_text(const struct aorta_hwq_limit *limit, const struct aorta_hwq_result *result,
                          struct aorta_text *out);
void aorta_hwq_limit_try(const struct aorta_hwq_limit *limit, bool graph, struct aorta_text *out);
/* Adds a finding where the device's clock was low. */
AORTA_MUST_USE aorta_status aorta_hwq_find_low_clocks(struct aorta_hwq_result *result);
/* Adds a finding where the last quarter of 20 iterations or more takes 5% longer or shorter than the first. A median
 * hides it when a device slows down during the run: an H100 does after half a second of large products. Names the clock
 * as the reason where its samples show that. */
AORTA_MUST_USE aorta_status aorta_hwq_find_drift(struct aorta_hwq_result *result);
void aorta_hwq_limit_json(const struct aorta_hwq_limit *limit, const struct aorta_hwq_result *result,
                          struct aorta_json *json); /* an object */

#endif
