#include "timeline/framework.h"

#include <string.h>

static bool begins(const char *name, const char *with) {
    return strncmp(name, with, strlen(with)) == 0;
}

/* XLA names its fusions after what they compute ("loop_add_fusion_3", "input_reduce_fusion", "wrapped_add"). */
static bool is_xla(const char *name) {
    static const char *const begin[] = {"loop_", "input_", "gemm_fusion", "triton_softmax", "wrapped_"};
    if (strstr(name, "stream_executor::gpu") || strstr(name, "xla::gpu") || begins(name, "__cublas$") ||
        begins(name, "__cudnn$") || begins(name, "gemm_fusion_dot"))
        return true;
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
        if (begins(name, begin[i]) && strstr(name, "fusion")) return true;
    return false;
}

/* Of torch.compile: pointwise, reductions, persistent ones, templates of products. */
static bool is_compiled(const char *name) {
    return begins(name, "triton_poi_fused") || begins(name, "triton_red_fused") || begins(name, "triton_per_fused") ||
           begins(name, "triton_tem_fused");
}

static enum aorta_framework framework_of(const char *name) {
    if (is_xla(name)) return AORTA_FRAMEWORK_XLA;
    if (begins(name, "cupy_")) return AORTA_FRAMEWORK_CUPY;
    return is_compiled(name) ? AORTA_FRAMEWORK_COMPILED : AORTA_FRAMEWORK_OTHER;
}

bool aorta_framework_has_own_words(enum aorta_framework framework) {
    return framework == AORTA_FRAMEWORK_XLA || framework == AORTA_FRAMEWORK_CUPY;
}

enum aorta_framework aorta_trace_framework(const struct aorta_trace *trace) {
    if (trace->format == AORTA_TRACE_XPLANE) return AORTA_FRAMEWORK_XLA;
    for (size_t i = 0; i < aorta_trace_text_count(trace); i++) {
        const enum aorta_framework framework = framework_of(aorta_trace_text(trace, (uint32_t)i));
        if (framework) return framework;
    }
    return AORTA_FRAMEWORK_OTHER;
}
