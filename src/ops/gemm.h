/* Matrix products on the CPU, run at once on the calling thread. Operations use them, and the benchmark calls them
 * alone to see the share of arithmetic in a step. oneDNN or OpenBLAS computes them (chosen when the program is
 * configured: -DAORTA_GEMM=onednn|openblas).
 *
 * One call uses one thread, so that several streams do not fight for the cores, unless OMP_NUM_THREADS (oneDNN) or
 * OPENBLAS_NUM_THREADS is set. */
#ifndef AORTA_OPS_GEMM_H
#define AORTA_OPS_GEMM_H

#include "base/status.h"
#include "ops/types.h"

/* Name, version and instruction set of the library, e.g. "oneDNN 2.6.3, AVX512"; never freed. */
const char *aorta_ops_gemm_library(void);

/* Computes one product and ignores `batch`; everything is fp32. */
AORTA_MUST_USE aorta_status aorta_gemm_f32(const struct aorta_products *gemm, const float *a, const float *b, float *c);

/* a and b in `dtype` (fp32, bf16, fp16), c in `c_dtype` (the same type, or fp32); sums are fp32. */
AORTA_MUST_USE aorta_status aorta_gemm_typed(const struct aorta_products *gemm, enum aorta_dtype dtype, const void *a,
                                             const void *b, enum aorta_dtype c_dtype, void *c);

#endif
