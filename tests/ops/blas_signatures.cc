// Holds our declarations of cuBLASLt against NVIDIA's header: types when it is compiled, numbers when it runs.
#include <cublasLt.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <type_traits>

extern "C" {
#include "ops/gpu/blas.h"
}

// Parameters agree when both are pointers, or numbers of one size and kind.
template <class Ours, class Theirs> constexpr bool agrees() {
    if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>)
        return std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>;
    else if constexpr (std::is_enum_v<Theirs>)
        return std::is_integral_v<Ours> && sizeof(Ours) == sizeof(Theirs);
    else
        return std::is_integral_v<Ours> && std::is_integral_v<Theirs> && sizeof(Ours) == sizeof(Theirs) &&
               std::is_signed_v<Ours> == std::is_signed_v<Theirs>;
}
template <class R1, class... A1, class R2, class... A2> constexpr bool same(R1 (*)(A1...), R2 (*)(A2...)) {
    if constexpr (sizeof...(A1) == sizeof...(A2))
        return agrees<R1, R2>() && (agrees<A1, A2>() && ...);
    else
        return false;
}

#define ROW(member, suffix, ...)                                                                                            \
    static_assert(same(decltype(aorta_blas_api::member){}, decltype(+cublasLt##suffix){}),                             \
                  "aorta_blas_api." #member " is not declared as cublasLt" #suffix " is");
#include "ops/gpu/blas.def"
#undef ROW

static int wrong = 0;

static void number(const char *name, long long ours, long long theirs) {
    if (ours == theirs) return;
    std::fprintf(stderr, "%s is %lld here and %lld in cublasLt.h\n", name, ours, theirs);
    wrong++;
}
#define NUMBER(member, theirs) number(#member, (long long)aorta_blas_cuda.member, (long long)(theirs))

int main() {
    NUMBER(types[0], CUDA_R_32F);
    NUMBER(types[1], CUDA_R_16F);
    NUMBER(types[2], CUDA_R_16BF);
    NUMBER(compute_fp32, CUBLAS_COMPUTE_32F);
    NUMBER(compute_tf32, CUBLAS_COMPUTE_32F_FAST_TF32);
    NUMBER(plain, CUBLAS_OP_N);
    NUMBER(transposed, CUBLAS_OP_T);
    NUMBER(transpose_a, CUBLASLT_MATMUL_DESC_TRANSA);
    NUMBER(transpose_b, CUBLASLT_MATMUL_DESC_TRANSB);
    NUMBER(epilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
    NUMBER(bias_pointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
    NUMBER(epilogue_none, CUBLASLT_EPILOGUE_DEFAULT);
    NUMBER(epilogue_bias, CUBLASLT_EPILOGUE_BIAS);
    NUMBER(epilogue_relu_bias, CUBLASLT_EPILOGUE_RELU_BIAS);
    NUMBER(epilogue_bias_gradient_b, CUBLASLT_EPILOGUE_BGRADB);
    NUMBER(batch_count, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
    NUMBER(batch_offset, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
    NUMBER(reductions, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
    NUMBER(reduce_in_fp32, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    NUMBER(workspace_bytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
    NUMBER(alignment_a, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
    NUMBER(alignment_a + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
    NUMBER(candidate_bytes, sizeof(cublasLtMatmulHeuristicResult_t));
    NUMBER(workspace_offset, offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
    NUMBER(state_offset, offsetof(cublasLtMatmulHeuristicResult_t, state));
    number("AORTA_BLAS_CANDIDATE_BYTES", AORTA_BLAS_CANDIDATE_BYTES, sizeof(cublasLtMatmulHeuristicResult_t));
    number("success", 0, CUBLAS_STATUS_SUCCESS);

    struct aorta_blas_api api; // and the library itself has every symbol, where it is
    struct aorta_library library;
    aorta_status status = aorta_library_open(&aorta_blas_cuda.library, &api, &library);
    if (!status) std::printf("symbols found in %s\n", library.path);
    aorta_status_free(status);
    return wrong ? 1 : 0;
}
