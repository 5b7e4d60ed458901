/* The functions of cuBLASLt and hipBLASLt that we call. They are equal up to the types of handles; a struct has the
 * numbers that differ. tests/ops/blas_signatures.c compares both with NVIDIA's header. */
#ifndef AORTA_OPS_GPU_BLAS_API_H
#define AORTA_OPS_GPU_BLAS_API_H

#include "device/gpu.h"

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

#endif
