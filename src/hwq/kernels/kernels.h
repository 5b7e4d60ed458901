/* Kernels of this room, for aorta_hwq_prepare and aorta_hwq_launch; their arguments are in the headers beside it. */
#ifndef AORTA_HWQ_KERNELS_KERNELS_H
#define AORTA_HWQ_KERNELS_KERNELS_H

#include "device/gpu.h"

extern const struct aorta_kernel aorta_hwq_kernel_multiply_add, aorta_hwq_kernel_chain; /* tiny.h */
extern const struct aorta_kernel aorta_hwq_kernel_hold, aorta_hwq_kernel_mark;          /* hold.h */

/* Blocks of `threads` threads, one thread for each of `count` elements. */
static inline struct aorta_gpu_grid aorta_hwq_grid(int64_t count, uint32_t threads) {
    return (struct aorta_gpu_grid){.blocks = {(uint32_t)((count + threads - 1) / threads)}, .threads = {threads}};
}

#endif
