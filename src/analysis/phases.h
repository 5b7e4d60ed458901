/* The phase of a step in which device work was launched. Training: forward, backward, recomputation within it,
 * optimizer. Inference engines: prefill, decode or both. */
#ifndef AORTA_ANALYSIS_PHASES_H
#define AORTA_ANALYSIS_PHASES_H

#include "analysis/analysis.h"

struct aorta_phases {
    const struct aorta_trace *trace;
    const struct aorta_nest_range *ranges; /* of the program, used if operations show no phase */
    uint8_t *marks;                        /* by text: phase of operations or ranges of this name */
    bool training;                         /* the file has a backward pass or an optimizer */
};

struct aorta_phases aorta_phases_make(const struct aorta_trace_rank *rank, struct aorta_arena *memory);
bool aorta_phase_exists(const char *phase); /* one of aorta_phase_of's */
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
/* The forward operation of the gradient that is, or contains, `operation` (a row of operations[], or NONE). NULL if it
 * belongs to no gradient. */
const struct aorta_trace_operation *aorta_forward_of(const struct aorta_forwards *forwards,
                                                     const struct aorta_trace *trace, uint32_t operation);
/* Thread and time at which work was requested: its launch, or for a gradient its forward operation. False if not
 * recorded. */
bool aorta_forward_place(const struct aorta_forwards *forwards, const struct aorta_trace *trace,
                         const struct aorta_trace_work *work, uint32_t *thread, int64_t *at_ns);

/* ---- properties of the program ---- */

/* Whether the recording has a backward pass or an optimizer, by operations and ranges, or without operations by kernel
 * names. The analysis stores the result as rank->trains, which the functions below use. */
bool aorta_trace_trains(const struct aorta_trace_rank *rank, struct aorta_arena *memory);

/* Whether collectives of this kind can reduce gradients: the program trains, and one of their groups may have copies of
 * the model. */
bool aorta_trace_reduces_gradients(const struct aorta_trace_rank *rank, enum aorta_collective kind);

/* Whether the ranks of a group (row of groups[]; NONE: not known) may have copies of the model. False if its name shows
 * that they split one model by tensors, layers, sequences or experts. */
bool aorta_group_may_copy_model(const struct aorta_trace *trace, uint32_t group);

/* Whether the program infers: operations are recorded, but no backward pass or optimizer. */
bool aorta_trace_infers(const struct aorta_trace_rank *rank);

/* Whether a collective transfers activations (tensor and sequence parallelism), so that compute needs its result at
 * once. */
bool aorta_brings_activations(const struct aorta_trace_rank *rank, const struct aorta_trace_work *work);

/* Whether a training program's optimizer is visible; whether parameters are sharded, as by FSDP; whether the program
 * decodes: most attention has one query, or kernels use a cache. */
bool aorta_program_optimizes(const struct aorta_trace_rank *rank, struct aorta_arena *memory);
bool aorta_program_shards(const struct aorta_trace_rank *rank, struct aorta_arena *memory);
bool aorta_program_decodes(const struct aorta_trace_rank *rank, struct aorta_arena *memory);

#endif
