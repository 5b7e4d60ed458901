/* Matrix products on the CPU, run at once on the calling thread. Operations use them, and the benchmark calls them
 * alone to see the share of arithmetic in a step. oneDNN or OpenBLAS computes them (chosen when the program is
 * configured: -DAORTA_GEMM=onednn|openblas).
 *
 * One call uses one thread, so that several streams do not fight for the cores, unless OMP_NUM_THREADS (oneDNN) or
 * OPENBLAS_NUM_THREADS is set. */
#ifndef AORTA_OPS_GEMM_H
#define AORTA_OPS_GEMM_H

#include "base/dtype.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* c [m, n] = op(a)·op(b), or += when `accumulate`; op(a) is [m, k], op(b) is [k, n]. Row-major. `lda`, `ldb`, `ldc` are
 * the distances, in elements, between two rows as stored. */
struct aorta_gemm {
    int64_t m, n, k;
    bool transpose_a, transpose_b; /* a is stored as [k, m], b as [n, k] */
    int64_t lda, ldb, ldc;
    bool accumulate;
};

/* Name, version and instruction set of the library, e.g. "oneDNN 2.6.3, AVX512"; never freed. */
const char *aorta_ops_gemm_library(void);

/* Everything in fp32. */
AORTA_MUST_USE aorta_status aorta_gemm_f32(const struct aorta_gemm *gemm, const float *a, const float *b, float *c);

/* a and b in `dtype` (fp32, bf16, fp16), c in `c_dtype` (the same type, or fp32); sums are fp32. */
AORTA_MUST_USE aorta_status aorta_gemm_typed(const struct aorta_gemm *gemm, enum aorta_dtype dtype, const void *a,
                                             const void *b, enum aorta_dtype c_dtype, void *c);

#endif
