/* What a step would take without a cause: the graph of all ranks evaluated once more with edges shortened or taken
 * away.
 *
 * Nothing is ever made longer, so a gain is never negative; what lies at or before a rank's start stays, so it is never
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
    AORTA_WITHOUT_WAITING = AORTA_REMOVAL_COUNT, /* of changes only: goes with every cause that makes a rank late */
};
const char *aorta_removal_cause(enum aorta_removal removal);       /* "host_launch", … as in the verdict */
const char *aorta_removal_description(enum aorta_removal removal); /* "launches cost nothing, as in a graph" */

static inline uint32_t aorta_removal_bit(enum aorta_removal removal) {
    return UINT32_C(1) << removal;
}

/* Times of one replay. Zero-initialise; end with aorta_replay_free or aorta_arena_end. */
struct aorta_replay {
    struct aorta_arena memory; /* of the arrays; where it has failed there are no times */
    int64_t *point_ns;         /* of each point */
    int64_t *rank_ns;          /* of each rank: from its mark to the last end of a span */
    double step_ns;            /* mean over ranks of rank_ns / steps */
};

/* Evaluates the finished graph without these causes (aorta_removal_bit of each); 0: as it was recorded. A replay can be
 * used again, for the same graph. */
void aorta_replay_run(const struct aorta_graph *graph, uint32_t removed, struct aorta_replay *replay);
/* A step of the recorded times, ns. */
double aorta_replay_recorded(const struct aorta_graph *graph, struct aorta_arena *memory);
void aorta_replay_free(struct aorta_replay *replay);

/* The critical path: from the last end of any rank back along the edges that decided, to where measuring begins. */
struct aorta_graph_path {
    int64_t length_ns;
    int64_t recorded_ns;    /* of it: follows from what the files say, */
    int64_t inferred_ns;    /* … from a dependency that was concluded: that edge, and the span that it let begin */
    int64_t unexplained_ns; /* lag without an explanation */
};
struct aorta_graph_path aorta_graph_critical(const struct aorta_graph *graph);

/* Walks the critical path, latest first. `lag_ns`: the edge's part; `residual_ns`: that of the point it leads to. */
typedef void (*aorta_graph_visit)(void *user, uint32_t point, uint32_t edge, int64_t lag_ns, int64_t residual_ns);
void aorta_graph_walk(const struct aorta_graph *graph, aorta_graph_visit visit, void *user);
/* The same without these causes. `memory` fails where it is exhausted. */
void aorta_replay_walk(const struct aorta_graph *graph, uint32_t removed, aorta_graph_visit visit, void *user,
                       struct aorta_arena *memory);

/* Where the time of a rank that is measured begins in a replay. */
int64_t aorta_replay_begin(const struct aorta_graph *graph, const int64_t *point_ns, uint32_t rank);

/* All causes, one at a time and together. */
struct aorta_gains {
    double measured_ns, replayed_ns; /* a step's; equal, or the graph is wrong */
    double floor_ns;                 /* without any of them */
    double gain_ns[AORTA_REMOVAL_COUNT];
    enum aorta_removal order[AORTA_REMOVAL_COUNT]; /* largest gain first */
    double beyond_ns[AORTA_REMOVAL_COUNT]; /* of each: what is gained by it once all with a larger gain are removed;
                                            * adds up to replayed_ns − floor_ns. Next to nothing: a symptom of theirs */
    struct aorta_graph_path path;
    double inferred_share, unexplained_share; /* of the path's length; 0 where it has none */
};
void aorta_gains_measure(const struct aorta_graph *graph, struct aorta_gains *gains, struct aorta_arena *memory);

/* More of the critical path without an explanation than this, and no gains are given. Up to it their range says how
 * sure they are. */
#define AORTA_UNEXPLAINED_LIMIT 0.5

/* Where what a removal takes away lies: on the critical path, or anywhere where it takes nothing from that. */
struct aorta_origin {
    uint32_t point, from;         /* that the largest such edge leads to, and comes from; NONE: there is none */
    int64_t largest_ns, total_ns; /* taken away there, and in all */
    uint32_t count;               /* edges that are shortened or taken away */
    uint32_t rank; /* from which half as much again is taken away as from any other, on the path or not; NONE: none */
};
void aorta_replay_origin(const struct aorta_graph *graph, enum aorta_removal removal, struct aorta_origin *origin,
                         struct aorta_arena *memory);

#endif
