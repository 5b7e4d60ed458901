/* The functions of cuBLASLt and hipBLASLt that we call. They are equal up to the types of handles; a struct has the
 * numbers that differ. tests/ops/blas_signatures.cc compares both with NVIDIA's header. */
#ifndef AORTA_OPS_GPU_BLAS_H
#define AORTA_OPS_GPU_BLAS_H

#include "base/dtype.h"
#include "device/gpu.h"
#include "ops/ops.h"

struct aorta_blas_api { /* 0 is success */
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*description_create)(void **description, int compute_type, int scale_type);
    int (*description_destroy)(void *description);
    int (*description_set)(void *description, int attribute, const void *value, size_t bytes);
    int (*layout_create)(void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride);
    int (*layout_destroy)(void *layout);
    int (*layout_set)(void *layout, int attribute, const void *value, size_t bytes);
    int (*preference_create)(void **preference);
    int (*preference_destroy)(void *preference);
    int (*preference_set)(void *preference, int attribute, const void *value, size_t bytes);
    int (*candidates)(void *handle, void *description, void *a, void *b, void *c, void *d, void *preference, int wanted,
                      void *results, int *found);
    int (*multiply)(void *handle, void *description, const void *alpha, const void *a, void *a_layout, const void *b,
                    void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
                    const void *algorithm, void *workspace, size_t workspace_bytes, void *stream);
};

/* Numbers from cublasLt.h and cublas_api.h (CUDA 13), hipblaslt.h and hipblas-common.h (ROCm 6); neither vendor has
 * changed them since. */
struct aorta_blas_vendor {
    const char *name;
    struct aorta_library_description library;
    int types[3]; /* by enum aorta_dtype; cudaDataType and hipDataType */
    int compute_fp32, compute_tf32;
    int plain, transposed;
    int transpose_a, transpose_b, epilogue, bias_pointer; /* attributes of a description */
    int epilogue_none, epilogue_bias, epilogue_relu_bias, epilogue_bias_gradient_b;
    int batch_count, batch_offset; /* attributes of a layout: int32, and int64 in elements */
    int workspace_bytes;           /* attributes of a preference */
    int reductions;                /* how partial sums may be added up; -1: the library does not ask */
    int reduce_in_fp32;            /* its value for: in the type of the computation, in the workspace */
    int alignment_a;               /* b, c, d follow; -1: the library does not ask */
    /* One candidate: the algorithm at its beginning, then the workspace it needs and whether it is any good. */
    size_t candidate_bytes, workspace_offset, state_offset;
};

enum { AORTA_BLAS_CANDIDATE_BYTES = 96 }; /* of the greater */

extern const struct aorta_blas_vendor aorta_blas_cuda, aorta_blas_hip;

/* ---- products ---- */

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
