/* What names say: of kernels and of operations, found out once for each text. */
#include "verdict/remedy_internal.h"

#include <string.h>

/* Names with any of these parts. '^' begins what a name begins with. */
struct mark {
    uint32_t bit;
    const char *parts[32];
};

static bool stands_in(const char *name, const char *part) {
    return part[0] == '^' ? !strncmp(name, part + 1, strlen(part + 1)) : strstr(name, part) != NULL;
}

static uint32_t marks_of(const char *name, const struct mark *marks) {
    uint32_t bits = 0;
    for (; marks->bit; marks++)
        for (size_t i = 0; marks->parts[i] && !(bits & marks->bit); i++)
            if (stands_in(name, marks->parts[i])) bits |= marks->bit;
    return bits;
}

static const struct mark kernel_marks[] = {
    {AORTA_KERNEL_STREAMS,
     {"elementwise_kernel", "reduce_kernel", "cupy_", "oftmax", "oftMax", "CatArray", "nll_loss", "dropout", "DtoD",
      "pool"}},
    {AORTA_KERNEL_STREAMS,
     {"layer_norm", "LayerNorm", "GammaBeta", "GammaBackward", "RMSNorm", "rms_norm", "GroupNorm", "group_norm",
      "RowwiseMoments", "ComputeInternalGradients", "ComputeFusedParams", "ComputeBackwardFusedParams"}},
    {AORTA_KERNEL_STREAMS, {"atch_norm", "atchnorm", "BatchNorm", "bn_fw", "bn_bw"}},
    {AORTA_KERNEL_SOFTMAX, {"softmax_warp", "SoftMaxForward", "SoftMaxBackward"}},
    {AORTA_KERNEL_BATCH_NORM, {"atch_norm", "atchnorm", "BatchNorm", "bn_fw", "bn_bw"}},
    {AORTA_KERNEL_GROUP_NORM, {"GroupNorm", "group_norm", "RowwiseMoments"}},
    {AORTA_KERNEL_CONVERTS,
     {"nchwToNhwc", "nhwcToNchw", "nchw_to_nhwc", "nhwc_to_nchw", "nchw2nhwc", "nhwc2nchw", "transpose_readWrite",
      "convertTensor", "batched_transpose", "SubTensorOpWithTransform"}},
    {AORTA_KERNEL_PLAIN_FP32,
     {"ffma", "simt", "sgemm", "scudnn", "fft", "inograd", "f32f32_f32f32", "direct_", "dgrad_engine<float",
      "wgrad_alg", "_fp32_"}},
    {AORTA_KERNEL_FUSED_ATTENTION,
     {"fmha", "flash", "unified_attention", "attn_fwd", "attn_bwd", "bwd_kernel_dk_dv", "bwd_kernel_dq"}},
    {AORTA_KERNEL_HOST_COPY, {"HtoD", "DtoH", "PtoP", "HostToDevice", "DeviceToHost"}},
    {AORTA_KERNEL_CHANNELS_LAST, {"channels_last", "nhwc", "NHWC"}},
    {AORTA_KERNEL_GENERATED, {"triton_"}},
    /* _fp16_ is of MIOpen's implicit GEMM and Winograd; DF16, _Float16 and __bf16 are C++ that nothing has decoded. */
    {AORTA_KERNEL_HALF,
     {"bf16", "f16f16", "hgemm", "h16816", "s16816", "bfloat16", "_fp16_", "DF16", "_Float16", "__bf16", "_tst_",
      "_hsh_"}},
    {AORTA_KERNEL_UNALIGNED, {"_align1", "_align2"}},
    {AORTA_KERNEL_FOREACH, {"multi_tensor_apply"}},
    {0, {0}},
};

/* Names of kernels of rocBLAS and hipBLASLt. */
static uint32_t bits_of_tensile(const char *name) {
    switch (aorta_kernel_tensile_arithmetic(name)) {
    case AORTA_IN_FP32:
        return AORTA_KERNEL_PLAIN_FP32;
    case AORTA_IN_FP16:
    case AORTA_IN_BF16:
        return AORTA_KERNEL_HALF;
    case AORTA_IN_FP8:
        return AORTA_KERNEL_FP8;
    default:
        return 0;
    }
}

uint32_t aorta_remedy_kernel_bits(struct remedy_model *model, uint32_t text) {
    uint32_t *bits = &model->kernel_bits[text];
    if (*bits & AORTA_NAME_KNOWN) return *bits;
    const char *name = aorta_trace_text(model->trace, text);
    *bits = AORTA_NAME_KNOWN | marks_of(name, kernel_marks) | bits_of_tensile(name);
    if (aorta_kernel_uses_tf32(name)) *bits |= AORTA_KERNEL_TF32;
    if (aorta_kernel_is_gemm(name)) *bits |= AORTA_KERNEL_PRODUCT | (strstr(name, "fp8") ? AORTA_KERNEL_FP8 : 0);
    /* softmax_warp_forward<input, output, sums, size, whether its logarithm, whether masked> */
    if (strstr(name, "LogSoftMax") || (strstr(name, "softmax_warp") && strstr(name, "true, ")))
        *bits &= ~(uint32_t)AORTA_KERNEL_SOFTMAX;
    return *bits;
}

static const struct mark op_marks[] = {
    {AORTA_OP_PRODUCT,
     {"^aten::mm", "^aten::addmm", "^aten::bmm", "^aten::baddbmm", "^aten::addbmm", "^aten::_addmm_activation",
      "^aten::linear", "^aten::_scaled_mm", "^aorta::linear_"}},
    {AORTA_OP_CONVOLUTION,
     {"^aten::cudnn_convolution", "^aten::miopen_convolution", "^aten::convolution", "^aten::_convolution",
      "^aten::_conv_depthwise", "^aten::slow_conv"}},
    {AORTA_OP_ATTENTION, {"flash_attention", "efficient_attention", "cudnn_attention", "scaled_dot_product"}},
    {AORTA_OP_COPY, {"^aten::copy_", "^aten::clone", "^aten::_to_copy", "^aten::contiguous"}},
    {AORTA_OP_TWO_PASSES, {"batch_norm", "instance_norm", "group_norm"}},
    {AORTA_OP_STAYS_FP32, {"norm", "softmax", "loss", "::pow", "::exp", "::log", "::sum", "::cumsum", "prod"}},
    {AORTA_OP_NORM, {"norm"}},
    {AORTA_OP_LOSS, {"loss", "Loss", "CrossEntropy", "cross_entropy"}},
    {AORTA_OP_SMALL_OUTPUT, {"::sum", "::mean", "::amax", "::linalg_vector_norm", "::nll_loss_forward"}},
    {AORTA_OP_OPTIMIZER, {"^Optimizer.step", "ptimizer.step"}},
    {AORTA_OP_EVALUATES, {"^autograd::engine::evaluate_function"}},
    {AORTA_OP_BACKWARD, {"^autograd::engine::evaluate_function", "Backward"}},
    {AORTA_OP_COMPILED, {"CompiledFxGraph", "^triton_", "^CompiledFunction", "^Torch-Compiled Region"}},
    {AORTA_OP_FILLS, {"::fill_", "::zero_"}},
    {AORTA_OP_EMBEDDING_GRADIENT,
     {"embedding_dense_backward", "embedding_bag_dense_backward", "EmbeddingBagBackward", "EmbeddingBackward"}},
    {AORTA_OP_INDEXES, {"::sort", "::argsort"}},
    {AORTA_OP_DROPOUT, {"::native_dropout", "::bernoulli_"}},
    {AORTA_OP_DROPOUT_BACKWARD, {"::native_dropout_backward"}},
    {AORTA_OP_FUSED_OPTIMIZER, {"::_fused_"}},
    {AORTA_OP_STACKS, {"^aten::cat", "^aten::stack"}},
    {AORTA_OP_LOG_SOFTMAX, {"^aten::_log_softmax"}},
    {AORTA_OP_SOFTMAX, {"^aten::_softmax"}},
    {AORTA_OP_EMPTY, {"^aten::empty"}},
    {0, {0}},
};

uint32_t aorta_remedy_op_bits(struct remedy_model *model, uint32_t text) {
    uint32_t *bits = &model->op_bits[text];
    if (*bits & AORTA_NAME_KNOWN) return *bits;
    const char *name = aorta_trace_text(model->trace, text);
    const size_t length = strlen(name);
    *bits = AORTA_NAME_KNOWN | marks_of(name, op_marks);
    if (length > 2 && name[length - 1] == '_' && name[length - 2] != '_') *bits |= AORTA_OP_IN_PLACE;
    return *bits;
}
