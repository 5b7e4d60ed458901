#include "trace/trace.h"

#include <ctype.h>
#include <string.h>

static bool begins(const char *name, const char *with) {
    return strncmp(name, with, strlen(with)) == 0;
}

/* XLA names its fusions after what they compute ("loop_add_fusion_3", "input_reduce_fusion", "wrapped_add"). */
static bool is_xla(const char *name) {
    static const char *const begin[] = {"loop_", "input_", "gemm_fusion", "triton_softmax"};
    if (strstr(name, "stream_executor::gpu") || strstr(name, "xla::gpu") || begins(name, "__cublas$") ||
        begins(name, "__cudnn$") || begins(name, "wrapped_"))
        return true;
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
        if (begins(name, begin[i]) && strstr(name, "fusion")) return true;
    return false;
}

/* Kernels of torch.compile: pointwise, reductions, persistent reductions, and templates of matrix products. */
static bool is_compiled(const char *name) {
    return begins(name, "triton_poi_fused") || begins(name, "triton_red_fused") || begins(name, "triton_per_fused") ||
           begins(name, "triton_tem_fused");
}

static enum aorta_framework framework_of(const char *name) {
    if (is_xla(name)) return AORTA_FRAMEWORK_XLA;
    if (begins(name, "cupy_")) return AORTA_FRAMEWORK_CUPY;
    if (is_compiled(name)) return AORTA_FRAMEWORK_COMPILED;
    const bool torch = begins(name, "aten::") || begins(name, "c10d::") || begins(name, "gloo:") ||
                       strstr(name, "at::native") || strstr(name, "2at6native") || strstr(name, "torch/");
    return torch ? AORTA_FRAMEWORK_TORCH : AORTA_FRAMEWORK_OTHER;
}

/* A loop of OpenACC is named after its function and line: "solve_42_gpu", "solve_42_gpu__red". */
static bool is_openacc(const char *name) {
    const char *end = strstr(name, "_gpu");
    return begins(name, "__pgi_") || (end && end > name && isdigit((unsigned char)end[-1]));
}

/* Triton's functions have plain names, as those of Python; libraries' kernels that do say whose they are, and "_Z"
 * begins a name of C++ that nothing has decoded. */
static bool is_plain(const char *name) {
    static const char *const libraries[] = {"nvjet",
                                            "cutlass",
                                            "sm",
                                            "ampere",
                                            "turing",
                                            "volta",
                                            "cudnn",
                                            "gemm",
                                            "Cijk",
                                            "nccl",
                                            "rccl",
                                            "MIOpen",
                                            "miopen",
                                            "igemm",
                                            "mi",
                                            "dgrad",
                                            "Memcpy",
                                            "Memset",
                                            "__amd_",
                                            "fmha",
                                            "flash",
                                            "maxwell",
                                            "_Z",
                                            "Custom_Cijk",
                                            "batched_transpose",
                                            "transpose_",
                                            "SubTensorOp",
                                            "OpTensor",
                                            "Op1dTensor",
                                            "Op2dTensor",
                                            "Op3dTensor",
                                            "Op4dTensor",
                                            "Op5dTensor",
                                            "mlo",
                                            "naive_conv",
                                            "Im2",
                                            "Col2Im",
                                            "gcnAsm",
                                            "gridwise_",
                                            "nvkernel_",
                                            "__omp_offloading",
                                            "julia_"};
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (begins(name, libraries[i])) return false;
    if (is_openacc(name)) return false;
    return *name && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(name);
}

/* The driver's interface, as Triton uses it; libraries and PyTorch's own kernels use the runtime's. A launch that is
 * not recorded says nothing. */
static bool may_be_tritons(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    if (!is_plain(aorta_trace_text(trace, work->name))) return false;
    if (work->call == AORTA_TRACE_NONE) return true;
    const char *call = aorta_trace_text(trace, trace->calls[work->call].name);
    return begins(call, "cuLaunch") || begins(call, "hipModuleLaunch");
}

static bool is_triton(const struct aorta_trace *trace) {
    enum { LOOKED_AT = 20000 };
    size_t kernels = 0, such = 0;
    for (size_t i = 0; i < trace->work_count && kernels < LOOKED_AT; i++) {
        if (trace->work[i].kind != AORTA_TRACE_KERNEL) continue;
        kernels++;
        such += may_be_tritons(trace, &trace->work[i]);
    }
    return 10 * such > 3 * kernels;
}

bool aorta_framework_is_torch(enum aorta_framework framework) {
    return framework == AORTA_FRAMEWORK_TRITON || framework == AORTA_FRAMEWORK_COMPILED ||
           framework == AORTA_FRAMEWORK_TORCH;
}

enum aorta_framework aorta_trace_framework(const struct aorta_trace *trace) {
    if (trace->format == AORTA_TRACE_XPLANE) return AORTA_FRAMEWORK_XLA;
    bool torch = false;
    for (size_t i = 0; i < aorta_trace_text_count(trace); i++) {
        const enum aorta_framework framework = framework_of(aorta_trace_text(trace, (uint32_t)i));
        if (framework && framework != AORTA_FRAMEWORK_TORCH) return framework;
        torch |= framework == AORTA_FRAMEWORK_TORCH;
    }
    if (is_triton(trace)) return AORTA_FRAMEWORK_TRITON;
    return torch ? AORTA_FRAMEWORK_TORCH : AORTA_FRAMEWORK_OTHER;
}
