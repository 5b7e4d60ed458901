/* What going over to another stream costs, on the device alone: a chain of tiny kernels that stays on one stream, and
 * one in which each kernel waits by an event for the one before it on the stream before, both queued behind a gate. */
#ifndef AORTA_HWQ_PROBE_H
#define AORTA_HWQ_PROBE_H

#include "hwq/gaps.h"

struct aorta_hwq_probe {   /* ns */
    double stay_ns, go_ns; /* median gap within the first chain, and within the second */
    size_t samples;        /* of each */
};
/* On the workload's streams, in turn; a workload of one stream lends a second one for it. Streams idle. */
AORTA_MUST_USE aorta_status aorta_hwq_probe_run(struct aorta_hwq *hwq, struct aorta_hwq_probe *probe);

#endif
