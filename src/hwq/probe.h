/* What going over to another stream costs, on the device alone: a chain of tiny kernels that stays on one stream, and
 * one in which each kernel waits by an event for the one before it on the stream before, both queued behind a gate. */
#ifndef AORTA_HWQ_PROBE_H
#define AORTA_HWQ_PROBE_H

#include "hwq/book.h"
#include "hwq/gaps.h"

struct aorta_hwq_probe { /* NaN: there are none */
    double stay_ns;      /* median gap within the first chain */
    double go_ns;        /* and within the second, of all its hand-overs */
    size_t samples;      /* of each */
    struct {
        double median_ns;
        size_t samples;
    } same, across; /* hand-overs between streams of one priority, and between streams of two */
    struct {
        int from, to;
        double median_ns;
    } quickest, slowest; /* of the pairs of streams that follow each other */
};
/* On the workload's streams, in turn; a workload of one stream lends a second one of the same priority for it.
 * `priorities`: of the streams. `book` (may be NULL) keeps the stamps. Streams idle. */
AORTA_MUST_USE aorta_status aorta_hwq_probe_run(struct aorta_hwq *hwq, const enum aorta_priority *priorities,
                                                struct aorta_hwq_book *book, struct aorta_hwq_probe *probe);

#endif
