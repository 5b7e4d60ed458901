/* Stamps of an iteration: where kernels write when they ran, and the spans made of them. */
#ifndef AORTA_HWQ_STAMPS_H
#define AORTA_HWQ_STAMPS_H

#include "hwq/kernels/arguments.h"
#include "hwq/workload.h"

/* What ran in one iteration. Times of spans are ns from its first start; launch_ns of a replay is not known. */
struct aorta_hwq_spans { /* zero-initialise; freed with aorta_hwq_spans_free */
    struct aorta_span *items;
    size_t count, capacity;
    size_t unstamped;                   /* kernels without a stamp: they did not run */
    int64_t origin;                     /* that first start, ns of the host's clock */
    int64_t host_start_ns, host_end_ns; /* when the host began to queue the iteration, and when its wait ended */
    int64_t gate;                       /* number of the iteration's gate, from 1; 0: none */
};
AORTA_MUST_USE aorta_status aorta_hwq_spans_add(struct aorta_hwq_spans *spans, const struct aorta_span *span);
void aorta_hwq_spans_free(struct aorta_hwq_spans *spans);

AORTA_MUST_USE aorta_status aorta_hwq_stamps_create(struct aorta_hwq *hwq, struct aorta_hwq_stamps **stamps);
void aorta_hwq_stamps_destroy(struct aorta_hwq_stamps *stamps); /* streams idle; NULL is fine */

/* Before an iteration, streams idle: clears all stamps. `again`: the same operations as last time follow (a graph's
 * replay). */
AORTA_MUST_USE aorta_status aorta_hwq_stamps_clear(struct aorta_hwq_stamps *stamps, bool again);
/* The next stamp, in device memory, of `span` (whose times are not used). Memory is allocated as needed, which a
 * capture does not allow: run an iteration before one is captured. */
AORTA_MUST_USE aorta_status aorta_hwq_stamps_next(struct aorta_hwq_stamps *stamps, struct aorta_span span,
                                                  struct aorta_hwq_stamp **stamp);
/* The operation that is open on a stream, between aorta_hwq_begin and _end. */
struct aorta_hwq_stamp **aorta_hwq_stamps_open(struct aorta_hwq_stamps *stamps, int stream);
/* After an iteration, streams idle: what ran. Replaces the contents of `spans`. */
AORTA_MUST_USE aorta_status aorta_hwq_stamps_collect(struct aorta_hwq_stamps *stamps, struct aorta_hwq_spans *spans);

#endif
