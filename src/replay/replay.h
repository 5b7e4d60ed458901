/* The step without a cause of lost time: evaluates the graph of all ranks again, with edges shortened or removed.
 *
 * Nothing is ever made longer, so a gain is never negative; what is at or before a rank's start stays, so it is never
 * above the step either. */
#ifndef AORTA_REPLAY_REPLAY_H
#define AORTA_REPLAY_REPLAY_H

#include "base/arena.h"
#include "replay/graph.h"

/* Causes that can be removed: AORTA_WITHOUT_HOST_LAUNCH, … for the rows of causes.def. Host pauses are split by place
 * in the program: the place with the longest pauses in all, the next two places, and all remaining places. */
enum aorta_removal {
#define NO_REMOVAL(name)
#define REMOVAL(name) AORTA_WITHOUT_##name,
#define REMOVAL_BY_PLACE(name)                                                                                         \
    AORTA_WITHOUT_##name, AORTA_WITHOUT_##name##_2, AORTA_WITHOUT_##name##_3, AORTA_WITHOUT_##name##_ELSE,
#define CAUSE(name, key, removal, ...) removal(name)
#include "replay/causes.def"
#undef CAUSE
#undef REMOVAL_BY_PLACE
#undef REMOVAL
#undef NO_REMOVAL
    AORTA_REMOVAL_COUNT,
    AORTA_WITHOUT_WAITING = AORTA_REMOVAL_COUNT, /* only of changes; removed with every cause that makes a rank late */
};
const char *aorta_removal_cause(enum aorta_removal removal);       /* "host_launch", … as in the verdict */
const char *aorta_removal_description(enum aorta_removal removal); /* "launches cost nothing, as in a graph" */

static inline uint32_t aorta_removal_bit(enum aorta_removal removal) {
    return UINT32_C(1) << removal;
}

/* Times of one replay. Zero-initialise; end with aorta_replay_free or aorta_arena_end. */
struct aorta_replay {
    struct aorta_arena memory; /* of the arrays; no times if it has failed */
    int64_t *point_ns;         /* by point */
    int64_t *rank_ns;          /* by rank: from its mark to its last end of a span */
    double step_ns;            /* mean over ranks of rank_ns / steps */
};

/* Evaluates the finished graph without these causes (bits: aorta_removal_bit); 0: as recorded. A replay can be reused
 * for the same graph. */
void aorta_replay_run(const struct aorta_graph *graph, uint32_t removed, struct aorta_replay *replay);
/* The recorded step, ns. */
double aorta_replay_recorded(const struct aorta_graph *graph, struct aorta_arena *memory);
void aorta_replay_free(struct aorta_replay *replay);

/* The critical path: from the last end of all ranks back along the binding edges to the start of the measured time. */
struct aorta_graph_path {
    int64_t length_ns;
    int64_t recorded_ns;    /* part that recorded dependencies explain */
    int64_t inferred_ns;    /* part that inferred dependencies explain: these edges and the spans that start after
                             * them */
    int64_t unexplained_ns; /* part that nothing explains */
};
struct aorta_graph_path aorta_graph_critical(const struct aorta_graph *graph);

/* Walks the critical path, latest edge first. `residual_ns`: unexplained lag of the point that the edge leads to. */
typedef void (*aorta_graph_visit)(void *user, uint32_t point, uint32_t edge, int64_t lag_ns, int64_t residual_ns);
void aorta_graph_walk(const struct aorta_graph *graph, aorta_graph_visit visit, void *user);
/* Walks the critical path without these causes. `memory` fails if it is exhausted. */
void aorta_replay_walk(const struct aorta_graph *graph, uint32_t removed, aorta_graph_visit visit, void *user,
                       struct aorta_arena *memory);

/* The start of a rank's measured time in a replay. */
int64_t aorta_replay_begin(const struct aorta_graph *graph, const int64_t *point_ns, uint32_t rank);

/* All causes, one at a time and together. */
struct aorta_gains {
    double measured_ns, replayed_ns; /* per step; equal unless the graph is wrong */
    double floor_ns;                 /* per step, without all causes */
    double gain_ns[AORTA_REMOVAL_COUNT];
    enum aorta_removal order[AORTA_REMOVAL_COUNT]; /* largest gain first, but a specific cause before the one that hides
                                                    * it */
    double beyond_ns[AORTA_REMOVAL_COUNT]; /* further gain by each cause after all earlier ones in `order`; the sum is
                                            * replayed_ns − floor_ns. A cause with almost none is a symptom of earlier
                                            * ones */
    struct aorta_graph_path path;
    double inferred_share, unexplained_share; /* of the path's length; 0 if there is no path */
};
void aorta_gains_measure(const struct aorta_graph *graph, struct aorta_gains *gains, struct aorta_arena *memory);

/* No gains are given if more than this share of the critical path is unexplained. Below, the gains' range shows their
 * uncertainty. */
#define AORTA_UNEXPLAINED_LIMIT 0.5

/* Where a removal takes time away: on the critical path, or anywhere where it takes nothing from that. */
struct aorta_origin {
    uint32_t point, from;         /* end and start of the edge that is shortened most; NONE if there is no such edge */
    int64_t largest_ns, total_ns; /* time removed from that edge, and from all edges */
    uint32_t count;               /* shortened or removed edges */
    uint32_t rank; /* rank that loses at least 1.5 times as much as any other, on the path or not; NONE if none does */
};
void aorta_replay_origin(const struct aorta_graph *graph, enum aorta_removal removal, struct aorta_origin *origin,
                         struct aorta_arena *memory);

#endif
