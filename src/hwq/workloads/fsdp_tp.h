/* Shared by fsdp_tp.c, its verification and its report. */
#ifndef AORTA_HWQ_WORKLOADS_FSDP_TP_H
#define AORTA_HWQ_WORKLOADS_FSDP_TP_H

#include "hwq/verify.h"

enum { FSDP_MOST_BLOCKS = 32, FSDP_MOST_PARTS = AORTA_HWQ_MAX_STREAMS / 4 };

struct fsdp_options {
    int64_t blocks, width, heads, mlp, batch, positions, tensor;
};

/* Views of one block's parameters and their gradients in two pieces of memory. */
struct fsdp_block {
    struct aorta_hwq_layer qkv, out, up, down;
    struct aorta_hwq_norm norm1, norm2;
};
/* NULL for either piece leaves its views empty. Returns how many floats a block takes. */
int64_t aorta_hwq_fsdp_block(const struct fsdp_options *o, float *weights, float *gradients, struct fsdp_block *block);
/* The views of the norms' gradients into `piece`, laid out as in a block. Returns how many floats they take. */
int64_t aorta_hwq_fsdp_norms(const struct fsdp_options *o, float *piece, struct fsdp_block *block);

/* Activations and gradients of one part of the batch in one block, each followed by the next part's. `…_all` is summed
 * over the tensor-parallel ranks. */
struct fsdp_saved {
    float *qkv, *weights, *context, *attended, *attended_all, *y1, *inner, *active, *mlp, *mlp_all, *y;
    struct aorta_hwq_norm_saved norm1, norm2;
    float *dsum2, *dactive, *dinner, *dy1, *dy1_all, *dsum1, *dcontext, *dqkv, *dx, *dx_all;
    float *norms;             /* gradients of the norms' parameters from this part */
    struct aorta_event *done; /* the part has finished with the block: forward, later backward */
};

struct fsdp_part {
    int64_t first, sequences;
    float *x, *dscores;               /* the latter serves all blocks */
    struct aorta_event *there, *back; /* of an exchange */
    struct aorta_event *ready;        /* its gradients that the next products of weights take */
};

struct fsdp_state {
    int64_t padded, shards, shard_index, part_count; /* floats of a block, a multiple of 64 · shards */
    float *full[FSDP_MOST_BLOCKS], *shard[FSDP_MOST_BLOCKS], *slots[2];
    float *gradients[FSDP_MOST_BLOCKS], *reduced[FSDP_MOST_BLOCKS]; /* of this rank; of all that share the block */
    struct aorta_event *gathered[FSDP_MOST_BLOCKS];
    struct fsdp_part parts[FSDP_MOST_PARTS];
    struct fsdp_saved saved[FSDP_MOST_BLOCKS][FSDP_MOST_PARTS];
    struct aorta_comm *groups[AORTA_HWQ_MAX_STREAMS]; /* of streams that communicate */
    struct aorta_event *alone;                        /* after the last row of aorta_hwq_fsdp_row */
    struct aorta_hwq_results results;
};

enum fsdp_product { FSDP_SCORES, FSDP_CONTEXT, FSDP_DWEIGHTS, FSDP_DVALUES, FSDP_DQUERIES, FSDP_DKEYS };
struct aorta_products aorta_hwq_fsdp_products(const struct fsdp_options *o, int64_t sequences, enum fsdp_product which);
float aorta_hwq_fsdp_scale(const struct fsdp_options *o); /* of scores: 1 / √head */

/* The three kinds of communication: a block's parameters, the sum of its gradients, partial sums of activations. */
enum fsdp_collective { FSDP_GATHER, FSDP_REDUCTION, FSDP_EXCHANGE, FSDP_COLLECTIVES };
struct fsdp_message {
    int64_t bytes; /* the larger buffer of one rank, as nccl-tests count */
    int ranks;     /* that take part */
};
struct fsdp_message aorta_hwq_fsdp_message(const struct aorta_hwq *hwq, const struct fsdp_state *state,
                                           enum fsdp_collective kind);
/* Queues one collective, which synchronises the ranks, then `count` in a row with one stamp around them, all of the
 * first block or part, after the row queued before. */
AORTA_MUST_USE aorta_status aorta_hwq_fsdp_row(struct aorta_hwq *hwq, struct fsdp_state *state,
                                               enum fsdp_collective kind, int count);

AORTA_MUST_USE aorta_status aorta_hwq_fsdp_report(struct aorta_hwq *hwq, void *state, struct aorta_hwq_result *result);
AORTA_MUST_USE aorta_status aorta_hwq_fsdp_verify(struct aorta_hwq_verifier *verifier, void *state);

#endif
