/* The graph of recorded ranks, from their analysis: which work is a collective, which collectives are one, steps and
 * clocks are the analysis's (timeline/analysis.h). */
#ifndef AORTA_REPLAY_BUILD_H
#define AORTA_REPLAY_BUILD_H

#include "replay/recording.h"
#include "timeline/analysis.h"

/* Graph points know rows of the recording; these are the trace's. */
struct aorta_replay_source {
    const struct aorta_trace *trace;
    uint32_t *works; /* of each span: row of the trace's work[] */
    uint32_t *calls; /* of each call of its trace: row of the trace's calls[]; NULL but for the trace's first rank */
    uint32_t host;   /* ranks of one trace share it */
};

struct aorta_replay_built {
    struct aorta_graph graph;
    struct aorta_replay_source *sources; /* of each rank of the analysis, in its order */
    size_t source_count;
    uint32_t *hosts; /* of each host: its trace's first rank */
};

/* The analysis is borrowed until *built is freed. Steps that were chosen must follow each other. AORTA_UNSUPPORTED:
 * they do not, or there are too many rows; AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_replay_build(const struct aorta_trace_analysis *analysis,
                                               struct aorta_replay_built *built);
void aorta_replay_built_free(struct aorta_replay_built *built);

/* For aorta_replay_build: what is known of each of alignment.shared[]; meetings: as many (build_meetings.c). */
AORTA_MUST_USE aorta_status aorta_build_meetings(const struct aorta_trace_analysis *analysis,
                                                 struct aorta_replay_meeting *meetings);

#endif
