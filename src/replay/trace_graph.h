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

/* The source that has the calls of the point's host. */
static inline const struct aorta_replay_source *aorta_trace_graph_host(const struct aorta_trace_graph *built,
                                                                       uint32_t point) {
    return &built->sources[built->hosts[built->sources[built->graph.rank[point]].host]];
}
/* The call, or the work, that the point is a moment of. NULL: of none, or the point is NONE. */
const struct aorta_trace_call *aorta_trace_graph_call(const struct aorta_trace_graph *built, uint32_t point);
const struct aorta_trace_work *aorta_trace_graph_work(const struct aorta_trace_graph *built, uint32_t point);

/* Whether the rank is the only one of its trace. */
bool aorta_trace_graph_is_only_rank(const struct aorta_trace_graph *built, size_t rank);

/* For aorta_trace_graph_make: what a rank's file says about waits. Fills the rank's columns,
 * which are in `memory`, and, where the host has no other rank, `awaited` of its calls. shift_ns: of the host's clock;
 * call_rows: of the trace's calls[], the host's row or NONE. */
void aorta_recorded_waits_make(const struct aorta_trace *trace, int64_t shift_ns, struct aorta_replay_host *host,
                               bool only_rank, const uint32_t *call_rows, struct aorta_replay_rank *rank,
                               struct aorta_arena *memory);

/* For aorta_trace_graph_make: what is known of each of alignment.shared[]; collectives: as many. */
void aorta_replay_collectives_make(const struct aorta_trace_analysis *analysis,
                                   struct aorta_replay_collective *collectives, struct aorta_arena *memory);

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
