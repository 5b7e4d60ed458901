/* Uses of a rank's device memory over the recording and at its peak, if the file has allocations (torch.profiler:
 * profile_memory=True). Computed on request.
 *
 * A block's use is derived from the host times of its allocation and release:
 *   - within the optimizer's range (Optimizer.step): optimizer, if it outlives the range, else workspace;
 *   - within a backward pass (from the first to the last operation that autograd runs): gradients, if it outlives the
 * pass, else workspace; - before a backward pass: activations, if it still exists when the pass begins, else workspace;
 * - after the last pass, or without a pass: workspace if it was freed, else other.
 * Memory allocated before the recording has no history. Estimate: as many bytes as the gradients are parameters, with
 * Adam twice as many are the optimizer's (its two moments), and the rest is `before`. torch.profiler derives its
 * categories from the data flow between tensors, which is not in the file. */
#ifndef AORTA_ANALYSIS_MEMORY_H
#define AORTA_ANALYSIS_MEMORY_H

#include "analysis/analysis.h"

enum aorta_memory_use {
    AORTA_MEMORY_PARAMETERS,
    AORTA_MEMORY_GRADIENTS,
    AORTA_MEMORY_OPTIMIZER,
    AORTA_MEMORY_ACTIVATIONS,
    AORTA_MEMORY_WORKSPACE,
    AORTA_MEMORY_BEFORE, /* allocated before the recording */
    AORTA_MEMORY_OTHER,
    AORTA_MEMORY_USE_COUNT
};
const char *aorta_memory_use_name(int use); /* "parameters", … */

struct aorta_memory_block {
    int64_t from_ns, to_ns; /* INT64_MIN: before the recording; INT64_MAX: not freed in it */
    int64_t bytes;
    uint32_t allocation; /* row of the trace's allocations[]; NONE: allocated before the recording */
    uint8_t use;         /* enum aorta_memory_use */
};

/* Blocks at the peak, of one use and place. */
struct aorta_memory_row {
    enum aorta_memory_use use;
    uint32_t operation; /* text: the framework's innermost operation that allocated them; NONE: not recorded */
    uint32_t function;  /* text: the program's innermost function, "train.py(45): step"; for a gradient that of its
                         * forward pass; NONE: not recorded */
    uint32_t module;    /* text: the innermost nn.Module, as `function`: "nn.Module: Linear_3"; NONE */
    int64_t bytes;
    size_t blocks;
};

struct aorta_memory {
    struct aorta_memory_block *blocks;
    size_t block_count;
    int64_t peak_ns, peak_bytes; /* the first time of the maximum */
    int64_t peak_reserved;       /* reserved by the allocator at that time; -1: not known */
    int64_t peak_use[AORTA_MEMORY_USE_COUNT];
    struct aorta_memory_row *rows; /* at the peak, largest first */
    size_t count;
    const char *reason; /* why nothing is known; NULL */
};

/* The maximum allocated in a part of the rank's time. */
struct aorta_memory_part {
    int64_t bytes, use[AORTA_MEMORY_USE_COUNT];
};

/* Covers the whole recording. */
void aorta_memory_make(const struct aorta_trace_rank *rank, struct aorta_arena *arena, struct aorta_memory *memory);
/* parts[i] covers [bounds[i], bounds[i + 1]). */
void aorta_memory_over(const struct aorta_memory *memory, const int64_t *bounds, size_t count,
                       struct aorta_arena *arena, struct aorta_memory_part *parts);

#endif
