/* In which part of a step device work was launched: of training forward, backward, recomputation within it, optimizer;
 * of an inference engine prefill, decode or both together. */
#ifndef AORTA_ANALYSIS_PHASES_H
#define AORTA_ANALYSIS_PHASES_H

#include "analysis/analysis.h"

struct aorta_phases {
    const struct aorta_trace *trace;
    const struct aorta_nest_range *ranges; /* where no operation is recorded */
    uint8_t *marks;                        /* by text: what an operation or range of this name says */
    bool training;                         /* the file has a backward pass or an optimizer */
};

struct aorta_phases aorta_phases_make(const struct aorta_trace_rank *rank, struct aorta_arena *memory);
bool aorta_phase_exists(const char *phase); /* one of those of aorta_phase_of */
/* "forward", "backward", "recomputation", "optimizer", "prefill", "decode", "prefill and decode"; NULL: not known. */
const char *aorta_phase_of(const struct aorta_phases *phases, const struct aorta_trace_work *work);

/* The operations of the forward pass by autograd's number. */
struct aorta_forwards {
    struct aorta_forward {
        int64_t sequence;
        uint32_t row; /* of operations[] */
    } * items;        /* ascending number */
    size_t count;
};
struct aorta_forwards aorta_forwards_make(const struct aorta_trace *trace, struct aorta_arena *memory);
/* The forward operation of the gradient that `operation` (a row of operations[], or NONE) is or is within. NULL: it
 * belongs to no gradient. */
const struct aorta_trace_operation *aorta_forward_of(const struct aorta_forwards *forwards,
                                                     const struct aorta_trace *trace, uint32_t operation);
/* Where and when work was requested: at its launch, or for a gradient at its operation of the forward pass. False: not
 * recorded. */
bool aorta_forward_place(const struct aorta_forwards *forwards, const struct aorta_trace *trace,
                         const struct aorta_trace_work *work, uint32_t *thread, int64_t *at_ns);

/* ---- whether a program trains, and which process groups can reduce its gradients ---- */

/* Whether the recording has a backward pass or an optimizer: by operations and ranges; where it has no operations, by
 * its kernels' names. The analysis keeps the answer as rank->trains, which the functions below use. */
bool aorta_trace_trains(const struct aorta_trace_rank *rank, struct aorta_arena *memory);

/* Whether collectives of this kind can be of gradients: the program trains, and a group of theirs may hold copies of
 * the model. */
bool aorta_trace_reduces_gradients(const struct aorta_trace_rank *rank, enum aorta_collective kind);

/* Whether the ranks of a group (row of groups[]; NONE: not known) may hold copies of the model. False: its name says
 * that they share one by tensors, layers, sequences or experts. */
bool aorta_group_may_copy_model(const struct aorta_trace *trace, uint32_t group);

/* Whether the program infers: operations are recorded, and none of a backward pass or an optimizer. */
bool aorta_trace_infers(const struct aorta_trace_rank *rank);

/* Whether a collective brings activations (tensor and sequence parallelism): compute needs its result at once. */
bool aorta_brings_activations(const struct aorta_trace_rank *rank, const struct aorta_trace_work *work);

/* Whether an optimizer is seen in a program that trains; parameters are sharded, as FSDP does; and most attention is to
 * one query, or to a cache. */
bool aorta_program_optimizes(const struct aorta_trace_rank *rank, struct aorta_arena *memory);
bool aorta_program_shards(const struct aorta_trace_rank *rank, struct aorta_arena *memory);
bool aorta_program_decodes(const struct aorta_trace_rank *rank, struct aorta_arena *memory);

#endif
