/* The recorded step with other resources: the graph of all ranks (graph.h) evaluated once more with other lags.
 *
 * Kernels and copies take their time divided by a factor each. A collective's transfer, from when its last rank has
 * arrived, follows the model of collective_model.h: what the model says is longer with the new resources is added;
 * where it is shorter, what the recording took beyond the model stays, or the transfer shrinks as the model does. So
 * the same resources give the recorded step to the nanosecond. Everything else stays: the host, launches, lags that
 * nothing explains.
 *
 * More ranks are more of the recorded ones, with the same batch each (weak scaling): what a collective gathers or
 * reduces keeps its size, and who is late is late by as much. Groups of fewer ranks than were recorded keep their size.
 *
 * Times are ns. */
#ifndef AORTA_REPLAY_WHATIF_H
#define AORTA_REPLAY_WHATIF_H

#include "replay/collective_model.h"
#include "replay/replay.h"
#include "replay/trace_graph.h"

struct aorta_whatif_collective {
    enum aorta_collective kind;
    int ranks;
    int64_t bytes; /* of the larger buffer of one rank; 0: not known */
};

/* The collectives of a graph. Zero-initialise; ends with aorta_whatif_collectives_free. */
struct aorta_whatif_collectives {
    struct aorta_whatif_collective *items;
    uint32_t *of_point; /* of each point of the graph: the collective that ends there; AORTA_GRAPH_NONE: none */
    uint32_t count;
    int ranks; /* of the recorded job: at least as many as were recorded, and as the largest group has */
    struct aorta_arena memory;
};
AORTA_MUST_USE aorta_status aorta_whatif_of_trace(const struct aorta_trace_analysis *analysis,
                                                  const struct aorta_trace_graph *built,
                                                  struct aorta_whatif_collectives *collectives);
void aorta_whatif_collectives_free(struct aorta_whatif_collectives *collectives);

/* What is replayed; nothing of it is owned. */
struct aorta_whatif {
    const struct aorta_graph *graph;
    const struct aorta_whatif_collectives *collectives;
    struct aorta_link_fit fit;
    struct aorta_network recorded; /* the fitted link within nodes and between them */
    bool waits;         /* no collective was recorded by several ranks: transfers contain the waiting for others */
    bool subgroups;     /* there are groups of fewer ranks */
    double measured_ns; /* the recorded step */
};
/* Fits the link. `latency_ns`: see aorta_link_fit_make. Graph and collectives are borrowed. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_whatif_begin(const struct aorta_graph *graph,
                                               const struct aorta_whatif_collectives *collectives, int ranks_per_node,
                                               double latency_ns, struct aorta_whatif *whatif);

struct aorta_whatif_resources {
    int ranks;
    struct aorta_network network;
    double compute;     /* kernels are so many times as fast; above 0 */
    double copies;      /* so are copies */
    uint32_t removed;   /* aorta_removal_bit of each cause that is left out */
    uint32_t as_before; /* bit of each kind of collective that stays as recorded */
};
/* What a step takes then; means over steps and ranks. U(x): length of the union. AORTA_USAGE: more than a hundred
 * years; AORTA_MEMORY. */
struct aorta_whatif_step {
    double step_ns;
    double comm_ns, exposed_ns;     /* U(collectives), and of it what no compute runs beside */
    double latency_ns, transfer_ns; /* of all collectives, by the model */
};
AORTA_MUST_USE aorta_status aorta_whatif_run(const struct aorta_whatif *whatif,
                                             const struct aorta_whatif_resources *resources,
                                             struct aorta_whatif_step *step);

/* The kind of collective of which most runs beside no compute. */
struct aorta_whatif_exposed {
    enum aorta_collective kind; /* AORTA_COLLECTIVE_COUNT: none is exposed */
    double exposed_ns;          /* a step, mean over ranks */
};
AORTA_MUST_USE aorta_status aorta_whatif_find_exposed(const struct aorta_whatif *whatif,
                                                      const struct aorta_whatif_resources *resources,
                                                      struct aorta_whatif_exposed *exposed);

/* The kind of collective that makes the step longest. */
struct aorta_whatif_limit {
    enum aorta_collective kind; /* AORTA_COLLECTIVE_COUNT: no collective does */
    double more_ns;             /* the step is so much longer by it */
    bool latency;               /* by more messages rather than by more bytes or less bandwidth */
};
AORTA_MUST_USE aorta_status aorta_whatif_find_limit(const struct aorta_whatif *whatif,
                                                    const struct aorta_whatif_resources *resources,
                                                    struct aorta_whatif_limit *limit);

#endif
