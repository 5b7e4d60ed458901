/* The graph of recorded ranks. Their analysis (analysis/analysis.h) knows the collectives, which of them belong
 * together, the steps, and the clocks. */
#ifndef AORTA_REPLAY_TRACE_GRAPH_H
#define AORTA_REPLAY_TRACE_GRAPH_H

#include "analysis/analysis.h"
#include "base/arena.h"
#include "replay/recording.h"

enum { AORTA_REPLAY_STEPS = 50 }; /* replayed steps at the end of a run with measured steps */

struct aorta_trace_graph {
    struct aorta_graph graph; /* subjects are rows of the trace's work[] and calls[], and of alignment.shared[] */
    const struct aorta_trace_analysis *analysis;
};

/* The analysis is borrowed until *built is freed. AORTA_UNSUPPORTED: the chosen steps do not follow each other, the
 * ranks have no common clock, or there are too many rows; AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_graph_make(const struct aorta_trace_analysis *analysis,
                                                   struct aorta_trace_graph *built);
void aorta_trace_graph_free(struct aorta_trace_graph *built);

/* The trace of the point's rank, and what is added to the point's time to get the trace's time. */
static inline const struct aorta_trace *aorta_trace_graph_trace(const struct aorta_trace_graph *built, uint32_t point) {
    return built->analysis->ranks[built->graph.rank[point]].trace;
}
static inline int64_t aorta_trace_graph_shift(const struct aorta_trace_graph *built, uint32_t point) {
    return built->analysis->alignment.clocks[built->graph.rank[point]].shift_ns;
}
/* The call or work that starts or ends at the point. NULL if there is none, or if the point is NONE. */
const struct aorta_trace_call *aorta_trace_graph_call(const struct aorta_trace_graph *built, uint32_t point);
const struct aorta_trace_work *aorta_trace_graph_work(const struct aorta_trace_graph *built, uint32_t point);
/* The name of the call or work, or the kind of the collective. */
const char *aorta_trace_graph_name(const struct aorta_trace_graph *built, uint32_t point);

/* Returns the first of several frees that follow an allocating call on its thread, as a caching allocator without
 * memory makes them. Before that it waits for events, which not all tracers record. 0 if there are none. */
size_t aorta_trace_cache_emptied(const struct aorta_trace *trace, size_t call);

/* The first rank of the rank's trace, and whether the rank is the only one. */
size_t aorta_first_of_trace(const struct aorta_trace_analysis *analysis, size_t rank);
bool aorta_is_only_of_trace(const struct aorta_trace_analysis *analysis, size_t rank);

/* The graph of recorded ranks with work that is shorter or not launched any more. It predicts steps with different
 * kernels (verdict/remedies.h). */

/* A copy that shares everything with the graph except lags and changes. It ends with aorta_graph_scaled_free, before
 * the graph. `scaled` is zero, or an earlier copy of the same graph, whose memory is reused. `scales`: per rank of the
 * analysis, by row of its trace's work[]; NULL: nothing changes. If work is gone, no time is left for the work, the gap
 * before it on its stream, its launch, and the host's own time before the launch. An added launch takes the host as
 * long as the rank's median launch. Without memory the copy and its replays fail. */
void aorta_graph_scale(const struct aorta_trace_graph *built, const struct aorta_work_scale *const *scales,
                       struct aorta_graph *scaled);
void aorta_graph_scaled_free(struct aorta_graph *scaled);

/* Whether the edge leads from the start of the previous work on a stream to work that begins before the previous work
 * ends, as kernels of graphs overlap a little. The lag is then a part of the previous work's time. */
bool aorta_graph_begins_within(const struct aorta_graph *graph, uint32_t edge);

/* A copy that shares everything except lags and changes, which the caller sets. It also ends with
 * aorta_graph_scaled_free. */
void aorta_graph_copy_lags(const struct aorta_graph *graph, struct aorta_graph *copy);
/* Scales the lags of the changes as the lags of their edges changed. */
void aorta_graph_follow_lags(const struct aorta_graph *graph, struct aorta_graph *copy);

#endif
