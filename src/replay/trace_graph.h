/* The graph of recorded ranks, from their analysis: which work is a collective, which collectives are one, steps and
 * clocks are the analysis's (analysis/analysis.h). */
#ifndef AORTA_REPLAY_TRACE_GRAPH_H
#define AORTA_REPLAY_TRACE_GRAPH_H

#include "analysis/analysis.h"
#include "base/arena.h"
#include "replay/recording.h"

enum { AORTA_REPLAY_STEPS = 50 }; /* so many at the end of a run whose steps were measured are replayed */

/* Graph points know rows of the recording; these are the trace's. */
struct aorta_replay_source {
    const struct aorta_trace *trace;
    uint32_t *works;  /* of each span: row of the trace's work[] */
    uint32_t *calls;  /* of each call of its trace: row of the trace's calls[]; NULL but for the trace's first rank */
    uint32_t host;    /* ranks of one trace share it */
    int64_t shift_ns; /* the trace's times − the graph's */
};

struct aorta_trace_graph {
    struct aorta_graph graph;
    struct aorta_arena memory;           /* of the rest */
    struct aorta_replay_source *sources; /* of each rank of the analysis, in its order */
    size_t source_count;
    uint32_t *hosts; /* of each host: its trace's first rank */
};

/* The analysis is borrowed until *built is freed. Steps that were chosen must follow each other. AORTA_UNSUPPORTED:
 * they do not, the ranks have no common clock, or there are too many rows; AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_graph_make(const struct aorta_trace_analysis *analysis,
                                                   struct aorta_trace_graph *built);
void aorta_trace_graph_free(struct aorta_trace_graph *built);

/* For aorta_trace_graph_make: what a rank's file says about waits. Fills the rank's columns,
 * which are in `memory`, and, where the host has no other rank, `awaited` of its calls. shift_ns: of the host's clock;
 * call_rows: of the trace's calls[], the host's row or NONE. */
void aorta_recorded_waits_make(const struct aorta_trace *trace, int64_t shift_ns, const struct aorta_replay_host *host,
                               bool only_rank, const uint32_t *call_rows, struct aorta_replay_call *calls,
                               struct aorta_replay_rank *rank, struct aorta_arena *memory);

/* For aorta_trace_graph_make: what is known of each of alignment.shared[]; collectives: as many. */
void aorta_replay_collectives_make(const struct aorta_trace_analysis *analysis,
                                   struct aorta_replay_collective *collectives, struct aorta_arena *memory);

/* The graph of recorded ranks with work that takes a part of its time, or that nothing launches any more: what a step
 * takes when its kernels are others (verdict/remedies.h). */

/* A copy that shares all of the graph but lags and changes; ends with aorta_graph_scaled_free, before the graph.
 * `scaled` is zero, or an earlier copy of the same graph, whose memory serves again. `scales`: of each rank of the
 * analysis, by row of its trace's work[]; NULL: all stays. Of work that is gone, its time, the gap before it on its
 * stream, its launch, and the host's own time before that take no time. A launch that is added before it takes the host
 * as long as half of its rank's do. Where memory is exhausted the copy has failed, and so do its replays. */
void aorta_graph_scale(const struct aorta_trace_graph *built, const struct aorta_work_scale *const *scales,
                       struct aorta_graph *scaled);
void aorta_graph_scaled_free(struct aorta_graph *scaled);

/* Whether the edge leads from the start of the work before on a stream to one that begins before that ends: the lag is
 * a part of that work's time, as kernels of graphs overlap a little. */
bool aorta_graph_begins_within(const struct aorta_graph *graph, uint32_t edge);

/* A copy that shares all but lags and changes, to be set by the caller; ends likewise. */
void aorta_graph_copy_lags(const struct aorta_graph *graph, struct aorta_graph *copy);
/* What an edge would be without a cause changes as the edge did. */
void aorta_graph_follow_lags(const struct aorta_graph *graph, struct aorta_graph *copy);

#endif
