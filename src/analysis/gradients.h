/* Whether a program trains, and which process groups can reduce its gradients. */
#ifndef AORTA_ANALYSIS_GRADIENTS_H
#define AORTA_ANALYSIS_GRADIENTS_H

#include "analysis/analysis.h"

/* Whether collectives of this kind can be of gradients: the recording has a backward pass or an optimizer (by
 * operations and ranges; where it has no operations, by its kernels' names), and a group of theirs may hold copies of
 * the model. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_reduces_gradients(const struct aorta_trace_rank *rank,
                                                          enum aorta_collective kind, bool *reduces);

/* Whether the ranks of a group (row of groups[]; NONE: not known) may hold copies of the model. False: its name says
 * that they share one by tensors, layers, sequences or experts. */
bool aorta_group_may_copy_model(const struct aorta_trace *trace, uint32_t group);

/* Whether the program infers: operations are recorded, and none of a backward pass or an optimizer. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_infers(const struct aorta_trace_rank *rank, bool *infers);

/* Whether a collective brings activations (tensor and sequence parallelism): compute needs its result at once. */
bool aorta_brings_activations(const struct aorta_trace_rank *rank, const struct aorta_trace_work *work);

#endif
