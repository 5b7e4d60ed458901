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
 * and where there are two algorithms the shorter of both. Sources: Thakur, Rabenseifner, Gropp, "Optimization of
 * Collective Communication Operations in MPICH", IJHPCA 19(1), 2005 (all but the tree of all_reduce); Sanders, Speck,
 * Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing 35(12), 2009 (the
 * pair of trees that NCCL uses, in the limit of small pieces). The time of the additions is part of β.
 *
 * More ranks than a node has take two levels, g ranks in each of ⌈p/g⌉ nodes: within a node as above with g ranks and n
 * bytes; between nodes with ⌈p/g⌉ ranks and n/g bytes, as each of a node's ranks has a link of its own for its part
 * (all n for a broadcast). An all_reduce is a reduce_scatter within, an all_reduce between, an all_gather within. An
 * all_to_all sends to g−1 ranks within and to p−g beyond.
 *
 * Times are ns. */
#ifndef AORTA_REPLAY_COLLECTIVE_MODEL_H
#define AORTA_REPLAY_COLLECTIVE_MODEL_H

#include "base/collective.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct aorta_link {
    double latency_ns, ns_per_byte;
};

struct aorta_network {
    struct aorta_link within, between; /* of two ranks of one node; of two ranks of different nodes */
    int ranks_per_node;                /* at least 1 */
};

/* What latency and what bytes take; both 0 with one rank, for kinds without a model and where the size is not known
 * (bytes 0, but for a barrier). */
struct aorta_collective_time {
    double latency_ns, transfer_ns;
};
struct aorta_collective_time aorta_collective_model(const struct aorta_network *network, enum aorta_collective kind,
                                                    int ranks, int64_t bytes);

/* One recorded collective; from when its last rank had arrived. */
struct aorta_collective_sample {
    enum aorta_collective kind;
    int ranks;
    int64_t bytes;
    double time_ns;
};

struct aorta_link_fit {
    struct aorta_link link;
    size_t samples, sizes; /* that were used; different kinds and sizes among them. 0: there is no link */
    bool one_size;         /* sizes do not differ enough for a latency: it is the one given, or 0 */
    double error;          /* median of |model − recorded| / recorded over the sizes */
};

/* One link for all samples, which are sorted. Of each kind and size the percentile of the times counts (50: the median;
 * less where times contain waiting). The line is Theil's and Sen's: the slope is the median of the slopes of all pairs,
 * weighted by their distance; α is the median of the rest. `latency_ns`: for samples of one size; negative: not known.
 * AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_link_fit_make(struct aorta_collective_sample *samples, size_t count,
                                                int ranks_per_node, double percentile, double latency_ns,
                                                struct aorta_link_fit *fit);

#endif
