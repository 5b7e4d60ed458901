/* Captured graphs and their launches.
 *
 * Work that a graph replays has no operation around its launch, and so no shapes or modules. These were recorded during
 * the capture, in the same file or in a second file (vLLM's capture_traces, SGLang's
 * --enable-profile-cuda-graph). A launch is matched to the captured graph in which each kernel name occurs equally
 * often. If names are not recorded (CUDA), it is matched to a graph with the same order of kernels, copies and fills on
 * one stream and fitting classes. If several matches have different shapes, the range's number decides
 * ("capture_32_FULL", "execute_32_context_…"). A launch without a match is only counted. */
#ifndef AORTA_TRACE_CAPTURES_H
#define AORTA_TRACE_CAPTURES_H

#include "trace/trace.h"

/* Gives replayed work the operations, shapes and collectives of its capture, then drops captures
 * (aorta_trace_drop_captures). AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_join_captures(struct aorta_trace_list *list);
/* Removes traces that only capture graphs from the list, if another trace launches graphs. */
void aorta_trace_drop_captures(struct aorta_trace_list *list);

/* Shared by captures.c, which finds the capture of a launch, and captures_take.c, which copies facts from it. */

/* One launch of a graph: its work in the order of its start. */
struct graph_replay {
    uint32_t call;
    uint32_t *work; /* rows of the trace's work[] */
    size_t count;
    const struct aorta_trace *source; /* the trace with the capture; NULL if none was found */
    const struct aorta_captured_graph *graph;
    uint32_t *pair; /* by work: its place among the graph's captured[] */
};

/* Replays without a capture are ignored. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_take_captures(struct aorta_trace *trace, const struct graph_replay *replays,
                                                      size_t count);

#endif
