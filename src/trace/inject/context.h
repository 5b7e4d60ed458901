/* Whether the program has a context yet.
 *
 * CUPTI that was told to record kernels before the first context existed seemed to make launches in it slower than
 * CUPTI that comes right after (docs/measurements.md; bench/trace_run_cost.py compares "early" and "all"). So recording
 * begins when the context is there, where that can be seen without CUPTI: programs that have CUDA's runtime loaded
 * (PyTorch, JAX, TensorFlow) use primary contexts, of which the driver tells any thread. */
#ifndef AORTA_TRACE_INJECT_CONTEXT_H
#define AORTA_TRACE_INJECT_CONTEXT_H

#include <stdbool.h>

struct aorta_inject_context { /* functions of the driver's */
    int (*get_count)(int *count);
    int (*get_device)(int *device, int ordinal);
    int (*get_state)(int device, unsigned *flags, int *active);
    bool seen; /* at the last look */
};

/* False: it cannot be told. The process has not loaded libcudart (it may be linked in, or the program makes contexts
 * itself), or the driver lacks a function. */
bool aorta_inject_context_open(struct aorta_inject_context *context);
/* Whether a primary context of any device exists, at two looks one after another: the first may have come while it was
 * being made. From any one thread; cheap. */
bool aorta_inject_context_exists(struct aorta_inject_context *context);

#endif
