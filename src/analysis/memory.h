/* What a rank's device memory was used for over the recording, and at its peak, where the file has allocations
 * (torch.profiler: profile_memory=True). Made when it is asked for.
 *
 * A block's use follows from when it was allocated and freed, on the host:
 *   - within the optimizer's range (Optimizer.step): optimizer, if it outlives the range, else workspace;
 *   - within a backward pass (from the first to the last operation that autograd runs): gradients, if it outlives the
 *     pass, else workspace;
 *   - before: activations, if it is still there when the next backward pass begins, else workspace;
 *   - after the last pass, or without one: workspace if it was freed, else other.
 * What stood when the recording began has no history: of it, as many bytes count for parameters as the gradients take,
 * and with Adam twice as many for the optimizer (its two moments); the rest is `before`. That is an estimate.
 * torch.profiler's own categories come from the data flow between tensors, which the file does not have. */
#ifndef AORTA_ANALYSIS_MEMORY_H
#define AORTA_ANALYSIS_MEMORY_H

#include "analysis/analysis.h"

enum aorta_memory_use {
    AORTA_MEMORY_PARAMETERS,
    AORTA_MEMORY_GRADIENTS,
    AORTA_MEMORY_OPTIMIZER,
    AORTA_MEMORY_ACTIVATIONS,
    AORTA_MEMORY_WORKSPACE,
    AORTA_MEMORY_BEFORE, /* stood when the recording began */
    AORTA_MEMORY_OTHER,
    AORTA_MEMORY_USE_COUNT
};
const char *aorta_memory_use_name(int use); /* "parameters", … */

struct aorta_memory_block {
    int64_t from_ns, to_ns; /* INT64_MIN: before the recording; INT64_MAX: not freed in it */
    int64_t bytes;
    uint32_t allocation; /* row of the trace's allocations[]; NONE: it stood before */
    uint8_t use;         /* enum aorta_memory_use */
};

/* Blocks at the peak, of one use and place. */
struct aorta_memory_row {
    enum aorta_memory_use use;
    uint32_t operation; /* text: the innermost of the framework's that allocated them; NONE: not recorded */
    uint32_t function;  /* text: the innermost of the program, "train.py(45): step"; of a gradient that of its forward
                         * pass; NONE: not recorded */
    uint32_t module;    /* text: the innermost nn.Module likewise, "nn.Module: Linear_3"; NONE */
    int64_t bytes;
    size_t blocks;
};

struct aorta_memory {
    struct aorta_memory_block *blocks;
    size_t block_count;
    int64_t peak_ns, peak_bytes; /* the first moment with most allocated */
    int64_t peak_reserved;       /* by the allocator from the device then; -1: not known */
    int64_t peak_use[AORTA_MEMORY_USE_COUNT];
    struct aorta_memory_row *rows; /* at the peak, largest first */
    size_t count;
    const char *reason; /* why nothing is known; NULL */
};

/* A part of the rank's time, of the most that was allocated at any moment of it. */
struct aorta_memory_part {
    int64_t bytes, use[AORTA_MEMORY_USE_COUNT];
};

/* Covers the whole recording. */
void aorta_memory_make(const struct aorta_trace_rank *rank, struct aorta_arena *arena, struct aorta_memory *memory);
/* parts[i] is of [bounds[i], bounds[i + 1]). */
void aorta_memory_over(const struct aorta_memory *memory, const int64_t *bounds, size_t count,
                       struct aorta_arena *arena, struct aorta_memory_part *parts);

#endif
