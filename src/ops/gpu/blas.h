/* Matrix products by the vendor's library (cuBLASLt, hipBLASLt). The fastest of its candidates for a shape is found at
 * first use (autotune.h). */
#ifndef AORTA_OPS_GPU_BLAS_H
#define AORTA_OPS_GPU_BLAS_H

#include "base/dtype.h"
#include "device/gpu.h"
#include "ops/ops.h"

enum aorta_blas_epilogue {
    AORTA_BLAS_PLAIN,
    AORTA_BLAS_BIAS,            /* c = a·b + bias, bias [m] in the type of c added to every column */
    AORTA_BLAS_BIAS_RELU,       /* with bias, and negative values become 0 */
    AORTA_BLAS_BIAS_GRADIENT_B, /* bias [n] in the type of c receives the sums over k of op(b) */
};

/* c [m, n] = op(a)·op(b), or += when `accumulate`, sums in fp32. Matrices are stored column by column, as in the
 * libraries: element (i, j) of c is at i + j·c_stride. `batch` above 1 makes that many products of this shape, whose
 * operands are a_batch, b_batch and c_batch elements apart. */
struct aorta_blas_product {
    enum aorta_dtype dtype, c_dtype; /* of a and b; of c */
    enum aorta_blas_epilogue epilogue;
    int64_t m, n, k, a_stride, b_stride, c_stride;
    bool transpose_a, transpose_b, accumulate;
    bool tf32; /* fp32 operands may be rounded to TF32, also where the settings do not allow it */
    int32_t batch;
    int64_t a_batch, b_batch, c_batch;
};

struct aorta_blas_operands {
    const void *a, *b;
    void *c;
    const void *bias; /* written by AORTA_BLAS_BIAS_GRADIENT_B */
};

/* *done is false, and nothing queued, when the library does not offer this product. */
AORTA_MUST_USE aorta_status aorta_blas_multiply(struct aorta_stream *stream, const struct aorta_blas_product *product,
                                                const struct aorta_blas_operands *operands, bool *done);

AORTA_MUST_USE aorta_status aorta_blas_settings(struct aorta_device *device, struct aorta_ops_settings *settings);

#endif
