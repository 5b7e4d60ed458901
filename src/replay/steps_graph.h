/* The graph of steps that this program recorded of itself: ranges around operations, with the times of their launches
 * and of the host's waits. */
#ifndef AORTA_REPLAY_STEPS_GRAPH_H
#define AORTA_REPLAY_STEPS_GRAPH_H

#include "replay/recording.h"
#include "timeline/steps.h"

enum { AORTA_REPLAY_STEPS = 50 }; /* so many at the end of a run are replayed */

/* Steps that follow each other, of all ranks, with what is known of them. Borrowed. */
struct aorta_replay_run {
    const struct aorta_rank_step *steps; /* by rank, then step; paired (aorta_pair_collectives), on one clock */
    size_t count;
    const struct aorta_transfers *transfers;
    const struct aorta_shapes *shapes;
};

struct aorta_replay_steps {
    struct aorta_graph graph;
    int *ranks;                                /* number of each rank of the graph */
    const struct aorta_range ***ranges;        /* of each rank and span; borrowed from the run's profiles */
    const struct aorta_range_info ***launched; /* of each rank and call: what it launched or, if it waited, what was
                                                * launched next; NULL: nothing */
    size_t rank_count;
};

/* Replays at most the last `most` steps that all ranks have without one between missing. AORTA_UNSUPPORTED: there are
 * fewer than 3, or launches are not known; AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_replay_steps_make(const struct aorta_replay_run *run, size_t most,
                                                    struct aorta_replay_steps *built);
void aorta_replay_steps_free(struct aorta_replay_steps *built);

#endif
