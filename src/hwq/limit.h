/* What an iteration's time goes into, and so what limits it.
 *
 *   busy     some kernel, collective or copy runs, on whatever stream
 *   host     nothing does, but a call of the host: the optimizer of zero_offload
 *   waiting  neither
 *
 * They come from the stamped pass, where marks around operations add launches; so the iteration of the timing pass has
 * to be longer than what runs by as much as is called waiting, and the host's share in queueing is the timing pass's
 * own. */
#ifndef AORTA_HWQ_LIMIT_H
#define AORTA_HWQ_LIMIT_H

#include "hwq/gaps.h"

struct aorta_hwq_busy {                       /* zero-initialise; a sample an iteration, ns */
    struct aorta_hwq_samples idle;            /* the share of waiting */
    struct aorta_hwq_samples busy, host, sum; /* sum: of what ran, side by side counted twice */
    struct aorta_hwq_samples kernel;          /* a sample a kernel */
    bool marked;                              /* by launches around it, which belong to it where the host is late */
};
/* Adds one iteration. */
AORTA_MUST_USE aorta_status aorta_hwq_busy_add(struct aorta_hwq_busy *busy, const struct aorta_hwq_spans *spans);
void aorta_hwq_busy_free(struct aorta_hwq_busy *busy);

/* From result's latency, launches and gaps. `gate`: the host's launches have no part in it. */
struct aorta_hwq_limit aorta_hwq_limit_find(const struct aorta_hwq_busy *busy, const struct aorta_hwq_result *result,
                                            bool gate);
/* Sentences without their full stop: what limits and by how much; what to try (empty where the workload knows best). */
void aorta_hwq_limit_text(const struct aorta_hwq_limit *limit, const struct aorta_hwq_result *result,
                          struct aorta_text *out);
void aorta_hwq_limit_try(const struct aorta_hwq_limit *limit, bool graph, struct aorta_text *out);
/* Adds a finding where the device's clock was low. */
AORTA_MUST_USE aorta_status aorta_hwq_find_low_clocks(struct aorta_hwq_result *result);
/* Adds a finding where the last quarter of 20 iterations or more takes 5% longer or shorter than the first. A median
 * hides it when a device slows down on the way: an H100 does after half a second of large products.
 * Whether its clock is the reason is told where that was read. */
AORTA_MUST_USE aorta_status aorta_hwq_find_drift(struct aorta_hwq_result *result);
void aorta_hwq_limit_json(const struct aorta_hwq_limit *limit, const struct aorta_hwq_result *result,
                          struct aorta_json *json); /* an object */

#endif
