/* Shared by the files of the sharded strategy: sharded.c (memory, groups, export), sharded_step.c (the
 * schedule). */
#ifndef AORTA_TRAIN_SHARDED_INTERNAL_H
#define AORTA_TRAIN_SHARDED_INTERNAL_H

#include "train/strategy.h"

/* One gather of the schedule: which unit, into which slot. Gathers of layers are numbered in the order of their use in
 * a micro-batch; the root unit has its own slot and number. */
struct gather {
    int unit;
    int slot;
    struct aorta_event *gathered; /* on the all-gather stream: the weights are gathered */
    struct aorta_event *used;     /* on compute: after the pass over this unit */
};

struct sharded {
    struct aorta_strategy base;
    struct aorta_train_context *context;
    int layers, units; /* units = layers + 1 */
    int ranks;         /* of the shard group */
    int group;         /* lowest world rank of it */
    int replicate_group;
    struct aorta_comm *gather_comm,
        *reduce_comm;                  /* the shard group, twice: gathers and reductions do not wait for each other */
    struct aorta_comm *replicate_comm; /* hybrid: ranks that hold the same shard; else NULL */
    struct aorta_layout *layouts;      /* by unit */
    int64_t *bases;                    /* by unit: where its shard starts in this rank's memory */
    int slot_count;                    /* slots for gathered layers */
    void **slots;
    int *slot_users; /* by slot: the gather that last filled it in this step; -1: none */
    void *root_slot;
    struct gather *gathers, root;
    int gather_count, gather_issued;
    /* The root unit is gathered after its update at the end of a step and stays gathered for all micro-batches of
     * the next step. Otherwise it is gathered for each micro-batch. */
    bool root_ahead;

    /* Pieces of the root unit in this micro-batch: those whose gradients are made, and whose reduction is queued. */
    bool root_made[AORTA_LAYOUT_MAX_PARAMETERS], root_reduced[AORTA_LAYOUT_MAX_PARAMETERS];
    int root_largest; /* its largest parameter; -1: the unit is reduced as a whole */
    /* The full gradients of a unit. Padding stays zero. Layers alternate between two buffers. */
    float *layer_gradients[2];
    float *root_gradients[AORTA_LAYOUT_MAX_PARAMETERS]; /* by piece */
    struct aorta_event *layer_gradients_free[2];        /* on the reduce-scatter stream */
    bool layer_gradients_used[2];                       /* in this step */
    /* A reduced shard before it is added to those of earlier micro-batches; NULL if there is one micro-batch. */
    float *layer_micro_gradients, *root_micro_gradients;
    struct aorta_event *made, *reduced, *layers_reduced, *now;
    int64_t micro_batch;
    struct aorta_place *reuse; /* by unit: memory that the model may reuse */
};

/* The collective that gathers a unit's parameters, in the context's dtype, into `full` memory. */
struct aorta_comm_call aorta_sharded_gather(const struct sharded *s, int unit, void *full);

aorta_status aorta_sharded_micro_begin(struct aorta_strategy *strategy, int64_t micro_batch);
aorta_status aorta_sharded_acquire(struct aorta_strategy *strategy, int unit, enum aorta_phase phase,
                                   struct aorta_unit_view *view);
aorta_status aorta_sharded_release(struct aorta_strategy *strategy, int unit, enum aorta_phase phase);
aorta_status aorta_sharded_gradient_ready(struct aorta_strategy *strategy, int parameter);
aorta_status aorta_sharded_finish_layers(struct aorta_strategy *strategy);
aorta_status aorta_sharded_finish(struct aorta_strategy *strategy);
aorta_status aorta_sharded_root_updated(struct aorta_strategy *strategy);

#endif
