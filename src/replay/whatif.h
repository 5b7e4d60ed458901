/* The recorded step with other resources: evaluates the graph of all ranks (graph.h) again with other lags.
 *
 * The times of kernels and of copies are divided by a factor each. A collective's transfer, which begins when its last
 * rank has arrived, follows the model below: if the model is longer with the new resources, the difference is added. If
 * it is shorter, the recorded excess over the model stays, or a transfer without an excess shrinks as the model does.
 * So the same resources give the recorded step to the nanosecond. Everything else stays: the host, launches, lags that
 * nothing explains.
 *
 * More ranks are more copies of the recorded ones, with the same batch each (weak scaling). Buffers of collectives keep
 * their size, and late ranks their delay. Groups of fewer ranks than were recorded keep their size.
 *
 * Times are ns. */
#ifndef AORTA_REPLAY_WHATIF_H
#define AORTA_REPLAY_WHATIF_H

#include "base/collective.h"
#include "base/status.h"
#include "replay/replay.h"
#include "replay/trace_graph.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How long a collective takes by an α-β model, and the link that recorded collectives show.
 *
 * A message of n bytes takes α + nβ: the latency of the link and the time of a byte. A collective of p ranks with n
 * bytes in the larger buffer of one rank takes
 *
 *     all_reduce      ring                2 (p−1) α      + 2 n (p−1)/p β
 *                     tree                2 ⌈log2 p⌉ α   + 2 n β
 *     all_gather, reduce_scatter: ring    (p−1) α        + n (p−1)/p β
 *     broadcast       binomial tree       ⌈log2 p⌉ α     + n ⌈log2 p⌉ β
 *                     scatter, all-gather (⌈log2 p⌉ + p−1) α + 2 n (p−1)/p β
 *     all_to_all      pairwise            (p−1) α        + n (p−1)/p β
 *     barrier         an all_reduce of no bytes
 *
 * If there are two algorithms, the faster one counts. Sources: Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", IJHPCA 19(1), 2005 (all but the tree of all_reduce); Sanders, Speck,
 * Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing 35(12), 2009 (the
 * pair of trees that NCCL uses, in the limit of small pieces). The time of the additions is part of β.
 *
 * If there are more ranks than in a node, there are two levels with g ranks in each of ⌈p/g⌉ nodes: within a node as
 * above with g ranks and n bytes; between nodes with ⌈p/g⌉ ranks and n/g bytes, as each of a node's ranks has a link of
 * its own for its part (all n for a broadcast). An all_reduce is a reduce_scatter within, an all_reduce between, an
 * all_gather within. An all_to_all sends to g−1 ranks within and to p−g beyond.
 *
 * Times are ns. */

struct aorta_link {
    double latency_ns, ns_per_byte;
};

struct aorta_network {
    struct aorta_link within, between; /* of two ranks of one node; of two ranks of different nodes */
    int ranks_per_node;                /* at least 1 */
};

/* The times of the latency and of the bytes. Both are 0 with one rank, for kinds without a model, and if the size is
 * not known (0 bytes, except for a barrier). */
struct aorta_collective_time {
    double latency_ns, transfer_ns;
};
struct aorta_collective_time aorta_collective_model(const struct aorta_network *network, enum aorta_collective kind,
                                                    int ranks, int64_t bytes);

struct aorta_link_fit {
    struct aorta_link link;
    size_t samples, sizes; /* used samples, and distinct kinds and sizes among them; 0: there is no link */
    bool one_size;         /* sizes differ too little to fit a latency, so it is the given one, or 0 */
    double error;          /* median of |model − recorded| / recorded over the sizes */
};

/* Fits one link to all samples, and sorts the samples. Each kind and size counts with the percentile of its times (50:
 * the median; less where times contain waiting). The fit is the Theil-Sen estimator: the slope is the median of the
 * slopes of all pairs, weighted by their distance; α is the median of the remainders, but at most the time of a message
 * of the fastest collective, as the model has no time for beginning a collective. `latency_ns`: used for samples of one
 * size; negative: not known. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_link_fit_make(struct aorta_collective_sample *samples, size_t count,
                                                int ranks_per_node, double percentile, double latency_ns,
                                                struct aorta_link_fit *fit);

struct aorta_whatif_collective {
    enum aorta_collective kind;
    int ranks;
    int64_t bytes; /* of the larger buffer of one rank; 0: not known */
};

/* The collectives of a graph. Zero-initialise; ends with aorta_whatif_collectives_free. */
struct aorta_whatif_collectives {
    struct aorta_whatif_collective *items;
    uint32_t *of_point; /* by point of the graph: the collective that ends there; AORTA_GRAPH_NONE */
    uint32_t count;
    int ranks;   /* of the recorded job: at least the recorded ranks, and those of the largest group */
    bool on_gpu; /* GPUs ran them */
    struct aorta_arena memory;
};
AORTA_MUST_USE aorta_status aorta_whatif_of_trace(const struct aorta_trace_analysis *analysis,
                                                  const struct aorta_trace_graph *built,
                                                  struct aorta_whatif_collectives *collectives);
void aorta_whatif_collectives_free(struct aorta_whatif_collectives *collectives);

/* A recording whose steps are predicted for other resources; nothing is owned. */
struct aorta_whatif {
    const struct aorta_graph *graph;
    const struct aorta_whatif_collectives *collectives;
    struct aorta_link_fit fit;
    struct aorta_network recorded; /* the fitted link within nodes and between them */
    bool waits;         /* no collective was recorded by several ranks: transfers contain the waiting for other ranks */
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
    double compute;     /* speedup of kernels; above 0 */
    double copies;      /* speedup of copies; above 0 */
    uint32_t removed;   /* aorta_removal_bit of each removed cause */
    uint32_t as_before; /* bit of each kind of collective that stays as recorded */
};
/* The predicted step, mean over steps and ranks. U(x): length of the union. AORTA_USAGE: more than a hundred years;
 * AORTA_MEMORY. */
struct aorta_whatif_step {
    double step_ns;
    double comm_ns, exposed_ns;     /* U(collectives), and its part without compute */
    double latency_ns, transfer_ns; /* of all collectives, by the model */
};
AORTA_MUST_USE aorta_status aorta_whatif_run(const struct aorta_whatif *whatif,
                                             const struct aorta_whatif_resources *resources,
                                             struct aorta_whatif_step *step);

/* The kind of collective with most exposed time. */
struct aorta_whatif_exposed {
    enum aorta_collective kind; /* AORTA_COLLECTIVE_COUNT: none is exposed */
    double exposed_ns;          /* per step, mean over ranks */
};
AORTA_MUST_USE aorta_status aorta_whatif_find_exposed(const struct aorta_whatif *whatif,
                                                      const struct aorta_whatif_resources *resources,
                                                      struct aorta_whatif_exposed *exposed);

/* The kind of collective that makes the step longest. */
struct aorta_whatif_limit {
    enum aorta_collective kind; /* AORTA_COLLECTIVE_COUNT: no collective does */
    double more_ns;             /* how much longer it makes the step */
    bool latency;               /* more by the latency of messages than by bytes and bandwidth */
};
AORTA_MUST_USE aorta_status aorta_whatif_find_limit(const struct aorta_whatif *whatif,
                                                    const struct aorta_whatif_resources *resources,
                                                    struct aorta_whatif_limit *limit);

#endif
