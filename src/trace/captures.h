/* Captured graphs and their launches.
 *
 * Work that a graph replays has no operation around its launch, and so neither shapes nor modules. These were recorded
 * when the graph was captured: in the same file, or in a second file (vLLM's capture_traces, SGLang's
 * --enable-profile-cuda-graph). A launch belongs to the captured graph with the same kernel names, equally often. Where
 * names are not recorded (CUDA), it belongs to the graph with the same number of kernels, copies and fills in the same
 * order on one stream, if their classes agree. If several such graphs have different shapes, the graph is used whose
 * range has the number of the launch's range ("capture_32_FULL", "execute_32_context_…"). Otherwise the
 * launch gets nothing from a capture, and is only counted. */
#ifndef AORTA_TRACE_CAPTURES_H
#define AORTA_TRACE_CAPTURES_H

#include "trace/trace.h"

/* Gives replayed work the operations, shapes and collectives of its capture, then drops captures
 * (aorta_trace_drop_captures). AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_join_captures(struct aorta_trace_list *list);
/* Removes traces from the list that only capture graphs, if another trace launches graphs. */
void aorta_trace_drop_captures(struct aorta_trace_list *list);

/* Between finding the capture of a graph's launch (captures.c) and taking over what it says (captures_take.c). */

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
