#include "ops/gpu/blas.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct aorta_symbol cuda_symbols[] = {
#define ROW(member, suffix, ...) {"cublasLt" #suffix, offsetof(struct aorta_blas_api, member), true},
#include "ops/gpu/blas.def"
#undef ROW
};

static const struct aorta_symbol hip_symbols[] = {
#define ROW(member, suffix, ...) {"hipblasLt" #suffix, offsetof(struct aorta_blas_api, member), true},
#include "ops/gpu/blas.def"
#undef ROW
};

static const char *const cuda_names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL};
static const char *const hip_names[] = {"libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so", NULL};

const struct aorta_blas_vendor aorta_blas_cuda = {
    .name = "cuBLASLt",
    .library = {.purpose = "matrix products",
                .names = cuda_names,
                .symbols = cuda_symbols,
                .symbol_count = COUNT(cuda_symbols),
                .install = "it is part of the CUDA toolkit (package libcublas-13-0 or libcublas-12-x)"},
    .types = {0, 2, 14},
    .compute_fp32 = 68,
    .compute_tf32 = 77,
    .plain = 0,
    .transposed = 1,
    .transpose_a = 3,
    .transpose_b = 4,
    .epilogue = 7,
    .bias_pointer = 8,
    .epilogue_none = 1,
    .epilogue_bias = 4,
    .epilogue_relu_bias = 6,
    .epilogue_bias_gradient_b = 512,
    .batch_count = 5,
    .batch_offset = 6,
    .workspace_bytes = 1,
    .reductions = 3,
    .reduce_in_fp32 = 2,
    .alignment_a = 5,
    .candidate_bytes = 96,
    .workspace_offset = 64,
    .state_offset = 72,
};

const struct aorta_blas_vendor aorta_blas_hip = {
    .name = "hipBLASLt",
    .library = {.purpose = "matrix products",
                .names = hip_names,
                .symbols = hip_symbols,
                .symbol_count = COUNT(hip_symbols),
                .install = "it is part of ROCm (package hipblaslt)"},
    .types = {0, 2, 14},
    .compute_fp32 = 2,
    .compute_tf32 = 6,
    .plain = 111,
    .transposed = 112,
    .transpose_a = 0,
    .transpose_b = 1,
    .epilogue = 2,
    .bias_pointer = 3,
    .epilogue_none = 1,
    .epilogue_bias = 4,
    .epilogue_relu_bias = 6,
    .epilogue_bias_gradient_b = 512,
    .batch_count = 0,
    .batch_offset = 1,
    .workspace_bytes = 1,
    .reductions = -1,
    .alignment_a = -1,
    .candidate_bytes = 56,
    .workspace_offset = 24,
    .state_offset = 32,
};
