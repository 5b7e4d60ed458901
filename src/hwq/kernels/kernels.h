/* The harness's own kernels, for hwq_append_kernel and aorta_launch. A new kernel is a struct in arguments.h, a
 * kernel in kernels.cu (the GPU's), and in kernels.c the CPU's function, the grid and the const struct aorta_kernel. */
#ifndef AORTA_HWQ_KERNELS_KERNELS_H
#define AORTA_HWQ_KERNELS_KERNELS_H

#include "device/gpu.h"
#include "hwq/kernels/arguments.h"

extern const struct aorta_gpu_source aorta_source_hwq_kernels; /* kernels.cu, embedded by cmake/embed.cmake */

extern const struct aorta_kernel aorta_hwq_kernel_multiply_add, aorta_hwq_kernel_chain;
extern const struct aorta_kernel aorta_hwq_kernel_hold, aorta_hwq_kernel_mark;

#endif
