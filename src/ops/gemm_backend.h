/* What a matrix library has to offer: gemm_onednn.c and gemm_openblas.c, of which one is compiled. Sizes are at least 1
 * and below 2^31. */
#ifndef AORTA_OPS_GEMM_BACKEND_H
#define AORTA_OPS_GEMM_BACKEND_H

#include "ops/gemm.h"

AORTA_MUST_USE aorta_status aorta_gemm_backend_f32(const struct aorta_gemm *gemm, const float *a, const float *b,
                                                   float *c);

/* Whether the library multiplies this 16-bit type on this processor faster than its fp32 product of converted values.
 */
bool aorta_gemm_backend_has(enum aorta_dtype dtype);
AORTA_MUST_USE aorta_status aorta_gemm_backend_typed(const struct aorta_gemm *gemm, enum aorta_dtype dtype,
                                                     const void *a, const void *b, enum aorta_dtype c_dtype, void *c);

#endif
