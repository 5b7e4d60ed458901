/* An id out of range, for the host to report. */
#ifndef AORTA_KERNELS_FAULT_H
#define AORTA_KERNELS_FAULT_H

#include "ops/kernels/arguments.h"
#include "ops/kernels/portable.h"

/* Remembers the first one that any thread meets. */
DEVICE void report(aorta_gpu_fault *fault, int64_t id, int64_t row, int64_t feature, int64_t vocab) {
    if (atomicExch(&fault->claimed, 1) != 0) return;
    fault->id = id;
    fault->row = row;
    fault->feature = feature;
    fault->vocab = vocab;
    __threadfence_system();
    *(volatile int32_t *)&fault->found = 1;
}

#endif
