/* What names say: of kernels and of operations, found out once for each text. */
#include "verdict/remedy_internal.h"

#include <string.h>

struct mark {
    const char *part;
    uint32_t bits;
};

static bool stands_in(const char *name, const char *part) {
    return part[0] == '^' ? !strncmp(name, part + 1, strlen(part + 1)) : strstr(name, part) != NULL;
}

static uint32_t marks_of(const char *name, const struct mark *marks) {
    uint32_t bits = 0;
    for (; marks->part; marks++)
        if (stands_in(name, marks->part)) bits |= marks->bits;
    return bits;
}

static const struct mark kernel_marks[] = {
    {"elementwise_kernel", AORTA_KERNEL_STREAMS},
    {"reduce_kernel", AORTA_KERNEL_STREAMS},
    {"layer_norm", AORTA_KERNEL_STREAMS},
    {"LayerNorm", AORTA_KERNEL_STREAMS},
    {"cupy_", AORTA_KERNEL_STREAMS},
    {"softmax_warp", AORTA_KERNEL_SOFTMAX},
    {"SoftMaxForward", AORTA_KERNEL_SOFTMAX},
    {"SoftMaxBackward", AORTA_KERNEL_SOFTMAX},
    {"atch_norm", AORTA_KERNEL_BATCH_NORM},
    {"atchnorm", AORTA_KERNEL_BATCH_NORM},
    {"BatchNorm", AORTA_KERNEL_BATCH_NORM},
    {"bn_fw", AORTA_KERNEL_BATCH_NORM},
    {"bn_bw", AORTA_KERNEL_BATCH_NORM},
    {"GroupNorm", AORTA_KERNEL_GROUP_NORM},
    {"group_norm", AORTA_KERNEL_GROUP_NORM},
    {"RowwiseMoments", AORTA_KERNEL_GROUP_NORM},
    {"GammaBeta", AORTA_KERNEL_STREAMS},
    {"RowwiseMoments", AORTA_KERNEL_STREAMS},
    {"oftmax", AORTA_KERNEL_STREAMS},
    {"oftMax", AORTA_KERNEL_STREAMS},
    {"atch_norm", AORTA_KERNEL_STREAMS},
    {"atchnorm", AORTA_KERNEL_STREAMS},
    {"BatchNorm", AORTA_KERNEL_STREAMS},
    {"batchnorm", AORTA_KERNEL_STREAMS},
    {"bn_fw", AORTA_KERNEL_STREAMS},
    {"bn_bw", AORTA_KERNEL_STREAMS},
    {"MIOpenBatchNorm", AORTA_KERNEL_STREAMS},
    {"GroupNorm", AORTA_KERNEL_STREAMS},
    {"group_norm", AORTA_KERNEL_STREAMS},
    {"ComputeInternalGradients", AORTA_KERNEL_STREAMS},
    {"ComputeFusedParams", AORTA_KERNEL_STREAMS},
    {"ComputeBackwardFusedParams", AORTA_KERNEL_STREAMS},
    {"GammaBackward", AORTA_KERNEL_STREAMS},
    {"CatArray", AORTA_KERNEL_STREAMS},
    {"nll_loss", AORTA_KERNEL_STREAMS},
    {"dropout", AORTA_KERNEL_STREAMS},
    {"DtoD", AORTA_KERNEL_STREAMS},
    {"pool", AORTA_KERNEL_STREAMS},
    {"RMSNorm", AORTA_KERNEL_STREAMS},
    {"rms_norm", AORTA_KERNEL_STREAMS},
    {"nchwToNhwc", AORTA_KERNEL_CONVERTS},
    {"nhwcToNchw", AORTA_KERNEL_CONVERTS},
    {"nchw_to_nhwc", AORTA_KERNEL_CONVERTS},
    {"nhwc_to_nchw", AORTA_KERNEL_CONVERTS},
    {"nchw2nhwc", AORTA_KERNEL_CONVERTS},
    {"nhwc2nchw", AORTA_KERNEL_CONVERTS},
    {"transpose_readWrite", AORTA_KERNEL_CONVERTS},
    {"convertTensor", AORTA_KERNEL_CONVERTS},
    {"batched_transpose", AORTA_KERNEL_CONVERTS}, /* MIOpen */
    {"SubTensorOpWithTransform", AORTA_KERNEL_CONVERTS},
    {"ffma", AORTA_KERNEL_PLAIN_FP32},
    {"simt", AORTA_KERNEL_PLAIN_FP32},
    {"sgemm", AORTA_KERNEL_PLAIN_FP32},
    {"scudnn", AORTA_KERNEL_PLAIN_FP32},
    {"fft", AORTA_KERNEL_PLAIN_FP32},
    {"inograd", AORTA_KERNEL_PLAIN_FP32},
    {"f32f32_f32f32", AORTA_KERNEL_PLAIN_FP32},
    {"direct_", AORTA_KERNEL_PLAIN_FP32},
    {"dgrad_engine<float", AORTA_KERNEL_PLAIN_FP32},
    {"wgrad_alg", AORTA_KERNEL_PLAIN_FP32},
    {"fmha", AORTA_KERNEL_FUSED_ATTENTION},
    {"flash", AORTA_KERNEL_FUSED_ATTENTION},
    {"unified_attention", AORTA_KERNEL_FUSED_ATTENTION},
    {"attn_fwd", AORTA_KERNEL_FUSED_ATTENTION},
    {"attn_bwd", AORTA_KERNEL_FUSED_ATTENTION},
    {"bwd_kernel_dk_dv", AORTA_KERNEL_FUSED_ATTENTION},
    {"bwd_kernel_dq", AORTA_KERNEL_FUSED_ATTENTION},
    {"HtoD", AORTA_KERNEL_HOST_COPY},
    {"DtoH", AORTA_KERNEL_HOST_COPY},
    {"PtoP", AORTA_KERNEL_HOST_COPY},
    {"HostToDevice", AORTA_KERNEL_HOST_COPY},
    {"DeviceToHost", AORTA_KERNEL_HOST_COPY},
    {"channels_last", AORTA_KERNEL_CHANNELS_LAST},
    {"nhwc", AORTA_KERNEL_CHANNELS_LAST},
    {"NHWC", AORTA_KERNEL_CHANNELS_LAST},
    {"triton_", AORTA_KERNEL_GENERATED},
    {"bf16", AORTA_KERNEL_HALF},
    {"f16f16", AORTA_KERNEL_HALF},
    {"hgemm", AORTA_KERNEL_HALF},
    {"h16816", AORTA_KERNEL_HALF},
    {"s16816", AORTA_KERNEL_HALF},
    {"bfloat16", AORTA_KERNEL_HALF},
    {"_fp16_", AORTA_KERNEL_HALF}, /* MIOpen's: implicit GEMM, Winograd */
    {"_fp32_", AORTA_KERNEL_PLAIN_FP32},
    {"DF16", AORTA_KERNEL_HALF}, /* names of C++ that nothing has decoded: _Float16, __bf16 */
    {"_Float16", AORTA_KERNEL_HALF},
    {"__bf16", AORTA_KERNEL_HALF},
    {"_tst_", AORTA_KERNEL_HALF},
    {"_hsh_", AORTA_KERNEL_HALF},
    {"_align1", AORTA_KERNEL_UNALIGNED},
    {"_align2", AORTA_KERNEL_UNALIGNED},
    {"multi_tensor_apply", AORTA_KERNEL_FOREACH},
    {NULL, 0},
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

uint32_t aorta_remedy_find_kernel_bits(struct remedy_model *model, uint32_t text) {
    uint32_t *bits = &model->kernel_bits[text];
    const char *name = aorta_trace_text(model->trace, text);
    *bits = AORTA_NAME_KNOWN | marks_of(name, kernel_marks) | bits_of_tensile(name);
    if (aorta_kernel_uses_tf32(name)) *bits |= AORTA_KERNEL_TF32;
    if (aorta_kernel_is_gemm(name)) *bits |= AORTA_KERNEL_PRODUCT | (strstr(name, "fp8") ? AORTA_KERNEL_FP8 : 0);
    /* softmax_warp_forward<input, output, sums, size, whether its logarithm, whether masked> */
    if (strstr(name, "LogSoftMax") || (strstr(name, "softmax_warp") && strstr(name, "true, ")))
        *bits &= ~(uint32_t)AORTA_KERNEL_SOFTMAX;
    return *bits;
}

/* '^' begins what a name begins with. */
static const struct mark op_marks[] = {
    {"^aten::mm", AORTA_OP_PRODUCT},
    {"^aten::addmm", AORTA_OP_PRODUCT},
    {"^aten::bmm", AORTA_OP_PRODUCT},
    {"^aten::baddbmm", AORTA_OP_PRODUCT},
    {"^aten::addbmm", AORTA_OP_PRODUCT},
    {"^aten::_addmm_activation", AORTA_OP_PRODUCT},
    {"^aten::linear", AORTA_OP_PRODUCT},
    {"^aten::_scaled_mm", AORTA_OP_PRODUCT},
    {"^aorta::linear_", AORTA_OP_PRODUCT},
    {"^aten::cudnn_convolution", AORTA_OP_CONVOLUTION},
    {"^aten::miopen_convolution", AORTA_OP_CONVOLUTION},
    {"^aten::convolution", AORTA_OP_CONVOLUTION},
    {"^aten::_convolution", AORTA_OP_CONVOLUTION},
    {"^aten::_conv_depthwise", AORTA_OP_CONVOLUTION},
    {"^aten::slow_conv", AORTA_OP_CONVOLUTION},
    {"flash_attention", AORTA_OP_ATTENTION},
    {"efficient_attention", AORTA_OP_ATTENTION},
    {"cudnn_attention", AORTA_OP_ATTENTION},
    {"scaled_dot_product", AORTA_OP_ATTENTION},
    {"^aten::copy_", AORTA_OP_COPY},
    {"^aten::clone", AORTA_OP_COPY},
    {"^aten::_to_copy", AORTA_OP_COPY},
    {"^aten::contiguous", AORTA_OP_COPY},
    {"batch_norm", AORTA_OP_TWO_PASSES},
    {"instance_norm", AORTA_OP_TWO_PASSES},
    {"group_norm", AORTA_OP_TWO_PASSES},
    {"norm", AORTA_OP_STAYS_FP32 | AORTA_OP_NORM},
    {"softmax", AORTA_OP_STAYS_FP32},
    {"loss", AORTA_OP_STAYS_FP32 | AORTA_OP_LOSS},
    {"Loss", AORTA_OP_LOSS},
    {"CrossEntropy", AORTA_OP_LOSS},
    {"cross_entropy", AORTA_OP_LOSS},
    {"::pow", AORTA_OP_STAYS_FP32},
    {"::exp", AORTA_OP_STAYS_FP32},
    {"::log", AORTA_OP_STAYS_FP32},
    {"::sum", AORTA_OP_STAYS_FP32 | AORTA_OP_SMALL_OUTPUT},
    {"::mean", AORTA_OP_SMALL_OUTPUT},
    {"::amax", AORTA_OP_SMALL_OUTPUT},
    {"::linalg_vector_norm", AORTA_OP_SMALL_OUTPUT},
    {"::nll_loss_forward", AORTA_OP_SMALL_OUTPUT},
    {"::cumsum", AORTA_OP_STAYS_FP32},
    {"prod", AORTA_OP_STAYS_FP32},
    {"^Optimizer.step", AORTA_OP_OPTIMIZER},
    {"ptimizer.step", AORTA_OP_OPTIMIZER},
    {"^autograd::engine::evaluate_function", AORTA_OP_EVALUATES | AORTA_OP_BACKWARD},
    {"Backward", AORTA_OP_BACKWARD},
    {"CompiledFxGraph", AORTA_OP_COMPILED},
    {"^triton_", AORTA_OP_COMPILED},
    {"^CompiledFunction", AORTA_OP_COMPILED},
    {"^Torch-Compiled Region", AORTA_OP_COMPILED},
    {"::fill_", AORTA_OP_FILLS},
    {"::zero_", AORTA_OP_FILLS},
    {"embedding_dense_backward", AORTA_OP_EMBEDDING_GRADIENT},
    {"embedding_bag_dense_backward", AORTA_OP_EMBEDDING_GRADIENT},
    {"EmbeddingBagBackward", AORTA_OP_EMBEDDING_GRADIENT},
    {"EmbeddingBackward", AORTA_OP_EMBEDDING_GRADIENT},
    {"::sort", AORTA_OP_INDEXES},
    {"::argsort", AORTA_OP_INDEXES},
    {"::native_dropout", AORTA_OP_DROPOUT},
    {"::bernoulli_", AORTA_OP_DROPOUT},
    {"::native_dropout_backward", AORTA_OP_DROPOUT_BACKWARD},
    {"::_fused_", AORTA_OP_FUSED_OPTIMIZER},
    {"^aten::cat", AORTA_OP_STACKS},
    {"^aten::stack", AORTA_OP_STACKS},
    {"^aten::_log_softmax", AORTA_OP_LOG_SOFTMAX},
    {"^aten::_softmax", AORTA_OP_SOFTMAX},
    {"^aten::empty", AORTA_OP_EMPTY},
    {NULL, 0},
};

uint32_t aorta_remedy_find_op_bits(struct remedy_model *model, uint32_t text) {
    uint32_t *bits = &model->op_bits[text];
    const char *name = aorta_trace_text(model->trace, text);
    const size_t length = strlen(name);
    *bits = AORTA_NAME_KNOWN | marks_of(name, op_marks);
    if (length > 2 && name[length - 1] == '_' && name[length - 2] != '_') *bits |= AORTA_OP_IN_PLACE;
    return *bits;
}
