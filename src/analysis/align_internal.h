/* Shared by align.c and align_order.c. */
#ifndef AORTA_ANALYSIS_ALIGN_INTERNAL_H
#define AORTA_ANALYSIS_ALIGN_INTERNAL_H

#include "analysis/align.h"

/* A collective on one rank. Ops with equal identity are the same collective. */
struct aorta_align_op {
    uint32_t rank;            /* index */
    uint32_t first;           /* row of work[] */
    uint32_t stream;          /* row of streams[] */
    int64_t start_ns, end_ns; /* own clock */
    uint64_t group;           /* hash of the process group; 0: not known */
    int64_t sequence;         /* from the file; -1: none */
    int64_t bytes;            /* -1 */
    int32_t group_size;       /* -1 */
    bool pair;                /* a send or receive with a known peer */
    uint8_t kind;             /* enum aorta_collective */
    bool named;
    bool exact;    /* sizes are not compared: an all-to-all, or its sequence number is of our recorder */
    int64_t place; /* the identity within the group: sequence number, or place in the order */
    bool placed;   /* `place` is set */
    uint32_t twin; /* number among ops of equal place, kind and size on its rank */
};

/* Ops of one group and rank, in order of start; borrowed. */
struct aorta_align_run {
    const struct aorta_align_op *items;
    size_t count;
};

/* The offset from a place in `other` to the place of the same collective in `reference`. */
int64_t aorta_align_lag(struct aorta_align_run reference, struct aorta_align_run other, int64_t wall_ns);

/* Sets group and place of ops of unknown groups. As a program has a stream per group, streams of different ranks whose
 * collectives end together form a team, which becomes a group. A stream without a team gets a group of its own. Nothing
 * is set if each rank has only one such stream, or no streams end together. Reorders the ops. */
void aorta_align_teams(size_t rank_count, struct aorta_align_op *ops, size_t count, struct aorta_arena *memory);

#endif
