/* Which collectives of several ranks are the same; for align.c. */
#ifndef AORTA_ANALYSIS_ALIGN_MATCH_H
#define AORTA_ANALYSIS_ALIGN_MATCH_H

#include "analysis/align.h"

/* A collective of one rank. Ops of one identity are one collective. */
struct align_op {
    uint32_t rank;            /* index */
    uint32_t first;           /* row of work[] */
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
    uint32_t twin; /* number among those of the same place, kind and size on its rank */
};

/* A trace's clock − another's, by the time of day they began at; 0 where not both know it. */
int64_t aorta_align_wall_shift(const struct aorta_trace *trace, const struct aorta_trace *reference);

/* All collectives of all ranks, in order of identity, then rank. The caller frees *ops. */
AORTA_MUST_USE aorta_status aorta_align_match(const struct aorta_align_rank *ranks, size_t count, struct align_op **ops,
                                              size_t *op_count);

static inline bool aorta_align_same(const struct align_op *a, const struct align_op *b) {
    return a->group == b->group && a->place == b->place && a->kind == b->kind && a->named == b->named &&
           (a->exact || a->bytes == b->bytes) && a->twin == b->twin;
}

#endif
