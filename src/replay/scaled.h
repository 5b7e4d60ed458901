/* The graph of recorded ranks with work that takes a part of its time, or that nothing launches any more: what a step
 * takes when its kernels are others (verdict/remedies.h). */
#ifndef AORTA_REPLAY_SCALED_H
#define AORTA_REPLAY_SCALED_H

#include "replay/trace_graph.h"

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
