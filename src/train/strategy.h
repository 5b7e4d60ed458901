/* How parameters, gradients and optimizer state are spread over the ranks.
 *
 * sharded: full_shard, shard_grad_op, hybrid_shard. Each unit's parameters are split over the ranks of a shard group,
 * all-gathered before use and freed after; gradients are reduce-scattered (hybrid: then all-reduced across groups).
 * replicated: ddp and no_shard. Every rank holds everything; gradients are all-reduced in buckets.
 *
 * All calls queue work and return. The order of calls within a step is fixed by step.c:
 *   micro_begin, { acquire, (forward), release } per unit, { acquire, (backward), release } per unit, …
 *   finish_layers, finish, (norm, update of the root unit), root_updated, (update of the layers)
 */
#ifndef AORTA_TRAIN_STRATEGY_H
#define AORTA_TRAIN_STRATEGY_H

#include "base/status.h"
#include "train/context.h"

#include <stdbool.h>
#include <stdint.h>

enum aorta_phase { AORTA_FORWARD, AORTA_BACKWARD };

/* The optimizer's memory: this rank's share, padding included (padding stays zero). Device memory, fp32. */
struct aorta_optimizer_memory {
    int64_t count;
    int64_t layers; /* this many elements from the first on belong to the layers, the remaining to the root unit; 0: not
                       separate */
    bool root_first; /* the root unit is updated before the layers, and root_updated called in between */
    float *parameters, *gradients, *m, *v;
    void *copy;              /* parameters in the context's dtype; NULL when that is fp32 */
    void *root_copy;         /* with root_first: those of the root unit, which need not follow the layers' */
    struct aorta_comm *norm; /* Σ g² is summed over this group; NULL: each rank has all gradients */
    int norm_group;          /* its lowest world rank */
};

enum aorta_export { AORTA_EXPORT_PARAMETERS, AORTA_EXPORT_GRADIENTS };

/* First member of each implementation. */
struct aorta_strategy {
    const struct aorta_strategy_table *table;
    struct aorta_optimizer_memory own;
    const struct aorta_place *reuse; /* by unit: memory that the model may use too (aorta_model_take_memory), or NULL */
};

struct aorta_strategy_table {
    /* Elements [first, first + count) of a parameter that this rank owns; *place: where they begin in the optimizer's
     * memory. */
    void (*owned)(struct aorta_strategy *strategy, int parameter, int64_t *first, int64_t *count, int64_t *place);
    /* All parameters (or gradients) of a unit into host memory, by slot, full and unsharded. Called by all ranks;
     * waits until it is done. */
    aorta_status (*export)(struct aorta_strategy *strategy, enum aorta_export what, int unit, float *const *full);
    aorta_status (*micro_begin)(struct aorta_strategy *strategy, int64_t micro_batch);
    aorta_status (*acquire)(struct aorta_strategy *strategy, int unit, enum aorta_phase phase,
                            struct aorta_unit_view *view);
    /* Called after the pass over the unit. After backward it reduces the unit's gradients. NULL if gradient_ready does
     * that. */
    aorta_status (*release)(struct aorta_strategy *strategy, int unit, enum aorta_phase phase);
    /* A parameter's gradient is queued on compute (aorta_pass.gradient_ready). */
    aorta_status (*gradient_ready)(struct aorta_strategy *strategy, int parameter);
    /* The optimizer's stream waits for the reductions of all layers. NULL where they are not separate. */
    aorta_status (*finish_layers)(struct aorta_strategy *strategy);
    /* The optimizer's stream waits for all reductions. */
    aorta_status (*finish)(struct aorta_strategy *strategy);
    /* Called before the first step, when all parameters have start values; waits until it is done. May be NULL. */
    aorta_status (*ready)(struct aorta_strategy *strategy);
    /* With root_first: the update of the root unit is queued on the optimizer's stream. */
    aorta_status (*root_updated)(struct aorta_strategy *strategy);
    bool accumulates; /* gradients of micro-batches are added in place and reduced once */
};

/* They end with the context. */
AORTA_MUST_USE aorta_status aorta_sharded_create(struct aorta_train_context *context, struct aorta_strategy **strategy);
AORTA_MUST_USE aorta_status aorta_replicated_create(struct aorta_train_context *context,
                                                    struct aorta_strategy **strategy);

/* The places of a unit's parameters when they are whole and when they are split over the ranks of a shard group.
 *
 * A unit is split in pieces; each is gathered and reduced as one. Full memory has the pieces one after the other, each
 * large enough for every rank's share, so that shards are gathered and reduced in place. A rank's shard is its shares
 * of all pieces. Parameters are contiguous in their piece, and aligned to 16 elements. Split by rows (as FSDP2): each
 * parameter is a piece, cut into chunks of ceil(rows / ranks) rows, the last ones shorter or empty. Split flat
 * (use_orig_params = false): all parameters are one piece, cut evenly. Padding holds zeros. */

enum { AORTA_LAYOUT_MAX_PARAMETERS = 12, AORTA_LAYOUT_ALIGNMENT = 16 };
static inline int64_t aorta_layout_align(int64_t elements) {
    return (elements + AORTA_LAYOUT_ALIGNMENT - 1) / AORTA_LAYOUT_ALIGNMENT * AORTA_LAYOUT_ALIGNMENT;
}

struct aorta_layout_parameter {
    int64_t rows, columns;
    int64_t full_offset; /* elements from the start of the unit's full memory */
    int piece;
};

/* Rank r's share of a piece is the `count` elements from shard_offset on in its shard, and those from
 * full_offset + r × count on in full memory, padding included. */
struct aorta_layout_piece {
    int64_t shard_offset, full_offset, count;
    bool whole; /* no padding */
};

struct aorta_layout {
    int ranks;
    int count;     /* parameters */
    int64_t full;  /* elements of the full memory */
    int64_t shard; /* elements of a shard */
    int piece_count;
    struct aorta_layout_piece pieces[AORTA_LAYOUT_MAX_PARAMETERS];
    struct aorta_layout_parameter parameters[AORTA_LAYOUT_MAX_PARAMETERS];
};

/* `rows` and `columns` of each parameter by slot. One rank: always flat. */
struct aorta_layout aorta_layout_make(const int64_t *rows, const int64_t *columns, int count, int ranks, bool flat);

/* Elements that are contiguous in one rank's shard and in the full memory. */
struct aorta_layout_run {
    int64_t shard_offset, full_offset, count;
};
/* Runs of one parameter in the shard of `rank`: at most one. false: this rank holds nothing of it. */
bool aorta_layout_run_of(const struct aorta_layout *layout, int parameter, int rank, struct aorta_layout_run *run);

#endif
