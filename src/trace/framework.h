/* Who made a trace's kernels, as far as their names say. */
#ifndef AORTA_TRACE_FRAMEWORK_H
#define AORTA_TRACE_FRAMEWORK_H

#include "trace/trace.h"

enum aorta_framework {
    AORTA_FRAMEWORK_OTHER, /* C, C++, Fortran, or not known */
    AORTA_FRAMEWORK_XLA,   /* JAX: kernels are named after what was fused, and some are XLA's own */
    AORTA_FRAMEWORK_CUPY,
    AORTA_FRAMEWORK_TRITON,   /* many kernels are functions of @triton.jit, by their plain names, which the driver
                                 launches */
    AORTA_FRAMEWORK_COMPILED, /* PyTorch, some of it by torch.compile: its kernels say what they fuse */
    AORTA_FRAMEWORK_TORCH
};

/* The program has PyTorch's functions, and its profiler can record it. */
bool aorta_framework_is_torch(enum aorta_framework framework);
enum aorta_framework aorta_trace_framework(const struct aorta_trace *trace);

#endif
