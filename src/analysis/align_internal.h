/* What the parts of align.c share. */
#ifndef AORTA_ANALYSIS_ALIGN_INTERNAL_H
#define AORTA_ANALYSIS_ALIGN_INTERNAL_H

#include "analysis/align.h"

/* A collective of one rank. Ops of one identity are one collective. */
struct aorta_align_op {
    uint32_t rank;            /* index */
    uint32_t first;           /* row of work[] */
    uint32_t stream;          /* row of streams[] */
    int64_t start_ns, end_ns; /* own clock */
    uint64_t group;           /* hash of the process group; 0: not known */
    int64_t sequence;         /* the file's; -1 */
    int64_t bytes;            /* -1 */
    int32_t group_size;       /* -1 */
    bool pair;                /* a send or receive of two ranks that are known */
    uint8_t kind;             /* enum aorta_collective */
    bool named;
    bool exact; /* sizes may differ from rank to rank: an all-to-all, or the sequence number is of a recorder of ours */
    int64_t place; /* the identity within the group: sequence number, or place in the order */
    bool placed;   /* its place is set */
    uint32_t twin; /* number among those of the same place, kind and size on its rank */
};

/* Ops of one group and rank, in order of start; borrowed. */
struct aorta_align_run {
    const struct aorta_align_op *items;
    size_t count;
};

/* What to add to a place in `other` for the place in `reference` of the same collective. */
int64_t aorta_align_lag(struct aorta_align_run reference, struct aorta_align_run other, int64_t wall_ns);

/* Gives the ops of unknown groups one for each team, and their places in it: streams of different ranks whose
 * collectives end together, as a program has a stream for each group. A stream without a team has a group of its own.
 * Nothing changes where each rank has one such stream, or no streams end together. Reorders the ops. */
void aorta_align_teams(size_t rank_count, struct aorta_align_op *ops, size_t count, struct aorta_arena *memory);

#endif
