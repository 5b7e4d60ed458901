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

/* False: no memory. In any case aorta_phases_free. */
bool aorta_phases_make(const struct aorta_trace_rank *rank, struct aorta_phases *phases);
bool aorta_phase_exists(const char *phase); /* one of those of aorta_phase_of */
/* "forward", "backward", "recomputation", "optimizer", "prefill", "decode", "prefill and decode"; NULL: not known. */
const char *aorta_phase_of(const struct aorta_phases *phases, const struct aorta_trace_work *work);
void aorta_phases_free(struct aorta_phases *phases);

/* The operations of the forward pass by autograd's number. */
struct aorta_forwards {
    uint32_t *rows; /* of operations[], ascending number */
    size_t count;
};
bool aorta_forwards_make(const struct aorta_trace *trace, struct aorta_forwards *forwards);
/* Of the gradient that the operation (a row of operations[]; NONE) is, or is within; NULL: it is none. */
const struct aorta_trace_operation *aorta_forward_of(const struct aorta_forwards *forwards,
                                                     const struct aorta_trace *trace, uint32_t operation);
/* Where and when the work was asked for: by its launch, of a gradient by the operation of the forward pass. False: not
 * recorded. */
bool aorta_forward_place(const struct aorta_forwards *forwards, const struct aorta_trace *trace,
                         const struct aorta_trace_work *work, uint32_t *thread, int64_t *at_ns);
void aorta_forwards_free(struct aorta_forwards *forwards);

#endif
