/* The graph of recorded ranks, from their analysis: which work is a collective, which collectives are one, steps and
 * clocks are the analysis's (analysis/analysis.h). */
#ifndef AORTA_REPLAY_TRACE_GRAPH_H
#define AORTA_REPLAY_TRACE_GRAPH_H

#include "analysis/analysis.h"
#include "base/arena.h"
#include "replay/recording.h"

enum { AORTA_REPLAY_STEPS = 50 }; /* so many at the end of a run whose steps were measured are replayed */

struct aorta_trace_graph {
    struct aorta_graph graph; /* subjects are rows of the trace's work[] and calls[], and of alignment.shared[] */
    const struct aorta_trace_analysis *analysis;
};

/* The analysis is borrowed until *built is freed. Steps that were chosen must follow each other. AORTA_UNSUPPORTED:
 * they do not, the ranks have no common clock, or there are too many rows; AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_graph_make(const struct aorta_trace_analysis *analysis,
                                                   struct aorta_trace_graph *built);
void aorta_trace_graph_free(struct aorta_trace_graph *built);

/* A point belongs to a rank of this trace, and its time plus the shift is the trace's. */
static inline const struct aorta_trace *aorta_trace_graph_trace(const struct aorta_trace_graph *built, uint32_t point) {
    return built->analysis->ranks[built->graph.rank[point]].trace;
}
static inline int64_t aorta_trace_graph_shift(const struct aorta_trace_graph *built, uint32_t point) {
    return built->analysis->alignment.clocks[built->graph.rank[point]].shift_ns;
}
/* The call, or the work, that the point is a moment of. NULL: of none, or the point is NONE. */
const struct aorta_trace_call *aorta_trace_graph_call(const struct aorta_trace_graph *built, uint32_t point);
const struct aorta_trace_work *aorta_trace_graph_work(const struct aorta_trace_graph *built, uint32_t point);
/* Its name, or the kind of the collective. */
const char *aorta_trace_graph_name(const struct aorta_trace_graph *built, uint32_t point);

/* Where a call of the trace allocates and its thread then frees several times, as a caching allocator that finds no
 * memory does: the first of these calls. First it waits for events, which not all tracers record. 0: it does not. */
size_t aorta_trace_cache_emptied(const struct aorta_trace *trace, size_t call);

/* The first rank of the rank's trace, and whether the rank is the only one. */
size_t aorta_first_of_trace(const struct aorta_trace_analysis *analysis, size_t rank);
bool aorta_is_only_of_trace(const struct aorta_trace_analysis *analysis, size_t rank);

/* The graph of recorded ranks with scaled work: work that takes a part of its time, or is not launched any more. It
 * shows what a step takes with different kernels (verdict/remedies.h). */

/* A copy that shares everything with the graph except lags and changes. It ends with aorta_graph_scaled_free, before
 * the graph. `scaled` is zero, or an earlier copy of the same graph, whose memory is reused. `scales`: per rank of the
 * analysis, by row of its trace's work[]; NULL: nothing changes. If work is gone, no time is left for the work, the gap
 * before it on its stream, its launch, and the host's own time before the launch. An added launch takes the host as
 * long as the rank's median launch. Where memory is exhausted the copy has failed, and so do its replays. */
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
