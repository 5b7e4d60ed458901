/* Between finding the capture of a graph's launch (captures.c) and taking over what it says (captures_take.c). */
#ifndef AORTA_TRACE_CAPTURES_INTERNAL_H
#define AORTA_TRACE_CAPTURES_INTERNAL_H

#include "trace/captures.h"

/* One launch of a graph: its work in the order of its start. */
struct graph_replay {
    uint32_t call;
    uint32_t *work; /* rows of the trace's work[] */
    size_t count;
    const struct aorta_trace *source; /* with the capture; NULL: none is known */
    const struct aorta_captured_graph *graph;
    uint32_t *pair; /* by work: which of the graph's captured[] it is, from 0 on */
};

/* Only replays whose capture is known count. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_take_captures(struct aorta_trace *trace, const struct graph_replay *replays,
                                                      size_t count);

#endif
