/* The step as it runs without being recorded: a graph of recorded ranks with what recording cost their hosts
 * (recording_cost.h) taken out of the hosts' edges. */
#ifndef AORTA_REPLAY_UNRECORDED_H
#define AORTA_REPLAY_UNRECORDED_H

#include "replay/recording_cost.h"
#include "replay/trace_graph.h"

struct aorta_unrecorded {
    bool known;
    const char *reason;          /* static: why not */
    double recorded_ns, step_ns; /* a step's */
    double range_ns[2];          /* if recording cost more than was found, and if it cost less */
};

/* Turns the finished graph into that of the unrecorded step: what follows from the hosts comes earlier, nothing comes
 * later but data that others load. Where it is not known, or the recording is `aorta train`'s own, the graph stays as
 * it is; that has no reason. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_graph_unrecord(struct aorta_trace_graph *built,
                                                       struct aorta_unrecorded *unrecorded);

#endif
