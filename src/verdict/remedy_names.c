/* Bits of kernels and operations by their names. Also ranges of our own recorder ("linear_forward"), which have shapes
 * and a type, and the times of our trainer's kernels in another precision or with other heads. */
#include "base/dtype.h"
#include "verdict/remedy_internal.h"

#include <math.h>
#include <string.h>

/* Bits of names that contain one of the parts, or begin with it if the part begins with '^'. */
struct mark {
    uint32_t bits;
    const char *parts[32];
};

static bool has_part(const char *name, const char *part) {
    return part[0] == '^' ? !strncmp(name, part + 1, strlen(part + 1)) : strstr(name, part) != NULL;
}

static uint32_t marks_of(const char *name, const struct mark *marks) {
    uint32_t bits = 0;
    for (; marks->bits; marks++)
        for (size_t i = 0; marks->parts[i] && (bits & marks->bits) != marks->bits; i++)
            if (has_part(name, marks->parts[i])) bits |= marks->bits;
    return bits;
}

static const struct mark kernel_marks[] = {
    {AORTA_KERNEL_STREAMS,
     {"elementwise_kernel", "reduce_kernel", "cupy_", "oftmax", "oftMax", "CatArray", "nll_loss", "dropout", "DtoD",
      "pool"}},
    {AORTA_KERNEL_STREAMS,
     {"layer_norm", "LayerNorm", "GammaBeta", "GammaBackward", "RMSNorm", "rms_norm", "ComputeInternalGradients",
      "ComputeFusedParams", "ComputeBackwardFusedParams"}},
    {AORTA_KERNEL_SOFTMAX, {"softmax_warp", "SoftMaxForward", "SoftMaxBackward"}},
    {AORTA_KERNEL_STREAMS | AORTA_KERNEL_BATCH_NORM, {"atch_norm", "atchnorm", "BatchNorm", "bn_fw", "bn_bw"}},
    {AORTA_KERNEL_KNOWN_MEAN, {"bn_fw_inf", "NormFwdInfer", "batch_norm_transform_input"}},
    {AORTA_KERNEL_SORTS, {"RadixSort", "radixSort", "bitonicSort", "fill_reverse_indices", "onesweep"}},
    {AORTA_KERNEL_UNFOLDS, {"im2col_kernel", "col2im_kernel", "vol2col_kernel", "vol2im_kernel"}},
    {AORTA_KERNEL_PLANE_NORM,
     {"batch_norm_collect_statistics_kernel", "batch_norm_transform_input_kernel", "batch_norm_backward_kernel"}},
    {AORTA_KERNEL_STREAMS | AORTA_KERNEL_GROUP_NORM, {"GroupNorm", "group_norm", "RowwiseMoments"}},
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
    /* _fp16_: MIOpen's implicit GEMM and Winograd. DF16, _Float16 and __bf16: mangled C++. */
    {AORTA_KERNEL_HALF,
     {"bf16", "f16f16", "hgemm", "h16816", "s16816", "bfloat16", "_fp16_", "DF16", "_Float16", "__bf16", "_tst_",
      "_hsh_"}},
    /* Only types of templates and lambdas, as functions of other types can have scalars in fp64, too. */
    {AORTA_KERNEL_FP64,
     {"<double", "double>", "lambda(double", "unsigned int, double", "f64f64_f64", "d884gemm", "z884gemm", "dgemm",
      "zgemm"}},
    {AORTA_KERNEL_UNALIGNED, {"_align1", "_align2"}},
    {AORTA_KERNEL_FOREACH, {"multi_tensor_apply"}},
    {0, {0}},
};

/* Names of kernels of rocBLAS and hipBLASLt. */
static const uint32_t tensile_bits[AORTA_ARITHMETIC_COUNT + 1] = {[AORTA_IN_FP32] = AORTA_KERNEL_PLAIN_FP32,
                                                                  [AORTA_IN_FP16] = AORTA_KERNEL_HALF,
                                                                  [AORTA_IN_BF16] = AORTA_KERNEL_HALF,
                                                                  [AORTA_IN_FP8] = AORTA_KERNEL_FP8};

uint32_t aorta_remedy_kernel_bits(struct remedy_model *model, uint32_t text) {
    uint32_t *bits = &model->kernel_bits[text];
    if (*bits & AORTA_NAME_KNOWN) return *bits;
    const char *name = aorta_trace_text(model->trace, text);
    *bits = AORTA_NAME_KNOWN | marks_of(name, kernel_marks) | tensile_bits[aorta_kernel_tensile_arithmetic(name)];
    if (aorta_kernel_uses_tf32(name)) *bits |= AORTA_KERNEL_TF32;
    if (aorta_kernel_is_gemm(name)) *bits |= AORTA_KERNEL_PRODUCT | (strstr(name, "fp8") ? AORTA_KERNEL_FP8 : 0);
    if (strstr(name, "float") || strstr(name, "Half") || strstr(name, "BFloat16"))
        *bits &= ~(uint32_t)AORTA_KERNEL_FP64;
    /* softmax_warp_forward<input, output, sums, size, is_log, is_masked> */
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
    {AORTA_OP_COMPILED, {"^CompiledFunction"}},
    {AORTA_OP_EVALUATES, {"^autograd::engine::evaluate_function"}},
    {AORTA_OP_BACKWARD, {"^autograd::engine::evaluate_function", "Backward"}},
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
    {AORTA_OP_WHOLE_PRODUCT, {"^aten::matmul", "^aten::bmm", "^aten::baddbmm", "^aten::einsum"}},
    {AORTA_OP_WHOLE_ATTENTION, {"scaled_dot_product_attention"}},
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

/* ---- runs of our own recorder ---- */

/* Functions by the beginning of their names. Layers of the sparse pipeline (dense_) and the optimizer always compute in
 * fp32. */
static const struct {
    const char *begin;
    enum leaf_kind kind;
    uint32_t op;
} functions[] = {
    {"linear_", LEAF_PRODUCT, AORTA_OP_PRODUCT},
    {"dense_", LEAF_PRODUCT, AORTA_OP_PRODUCT | AORTA_OP_STAYS_FP32},
    {"attention_", LEAF_ATTENTION, AORTA_OP_ATTENTION},
    {"norm_", LEAF_STREAM, AORTA_OP_NORM},
    {"gelu_", LEAF_STREAM, 0},
    {"add", LEAF_STREAM, 0},
    {"adamw_", LEAF_OPTIMIZER, AORTA_OP_OPTIMIZER},
    {"sgd_", LEAF_OPTIMIZER, AORTA_OP_OPTIMIZER},
    {"square_sum", LEAF_OPTIMIZER, AORTA_OP_OPTIMIZER},
};

/* A gradient of weights reads the rows of its first input as columns. */
static void turn_first(struct aorta_inputs *inputs) {
    struct aorta_input *first = &inputs->items[0];
    first->strided = true;
    first->stride[0] = 1;
    first->stride[1] = first->size[0];
}

static const struct aorta_inputs *inputs_of(struct remedy_model *model, const char *function, uint32_t shape) {
    static const struct aorta_inputs nothing;
    const struct aorta_trace_shape *known = &model->trace->shapes[shape];
    if (known->dims == AORTA_TRACE_NONE) return &nothing;
    struct aorta_inputs **inputs = &model->inputs[shape];
    if (*inputs) return *inputs;
    const struct aorta_trace_inputs texts = {known->dims, known->types, AORTA_TRACE_NONE, AORTA_TRACE_NONE};
    *inputs = aorta_remedy_read_inputs(model, &texts);
    if (!*inputs) return &nothing;
    const bool product = (*inputs)->count == 2 && (*inputs)->items[0].rank == 2;
    if (product && strstr(function, "backward_weight")) turn_first(*inputs);
    return *inputs;
}

/* The shape of the kernel that has the operation's arithmetic and bytes; NONE: none has. */
static uint32_t leading_shape(const struct remedy_model *model, const struct leaf *leaf) {
    for (uint32_t left = aorta_leaf_work(leaf), row = leaf->first_work; left--; row = model->next_work[row]) {
        const struct aorta_trace_work *work = &model->trace->work[row];
        if (work->leads && work->shape != AORTA_TRACE_NONE) return work->shape;
    }
    return AORTA_TRACE_NONE;
}

enum aorta_arithmetic aorta_remedy_describe_own(struct remedy_model *model, struct leaf *leaf) {
    const uint32_t number = leading_shape(model, leaf);
    leaf->kind = leaf->kernels_any & AORTA_KERNEL_HOST_COPY ? LEAF_TRANSFER : LEAF_OTHER;
    leaf->flops = leaf->bytes = NAN;
    const struct aorta_trace_shape *shape = number == AORTA_TRACE_NONE ? NULL : &model->trace->shapes[number];
    if (!shape || shape->extent != AORTA_SHAPE_OPERATION) { /* a pass does not show single products */
        if (leaf->kernels_any & AORTA_KERNEL_PRODUCT) leaf->kind = LEAF_PRODUCT;
        return AORTA_ARITHMETIC_UNKNOWN;
    }
    const char *function = aorta_trace_text(model->trace, shape->op);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strncmp(function, functions[i].begin, strlen(functions[i].begin)) != 0) continue;
        leaf->kind = functions[i].kind;
        leaf->op = functions[i].op;
        leaf->name = function;
        break;
    }
    leaf->inputs = inputs_of(model, function, number);
    leaf->flops = shape->amount.flops;
    leaf->bytes = shape->amount.bytes;
    return shape->amount.arithmetic;
}

/* ---- attention ---- */

enum { BATCH, HEADS, POSITIONS, WIDTH };
/* Kernels with a whole head in shared memory: their limits (ops/attention.c), and their rates as shares of the 16-bit
 * peak and of the streaming rate (64 × 16 heads of 64, 176 positions, forward and backward, on an H100). */
enum { WHOLE_POSITIONS = 192, WHOLE_WIDTH = 64, WHOLE_MULTIPLE = 8 };
static const double WHOLE_RATE = 0.11, WHOLE_STREAM = 0.45;

static const struct aorta_input *attention_of(const struct leaf *leaf) {
    const struct aorta_input *shape = leaf->kind == LEAF_ATTENTION ? aorta_remedy_tensor(leaf, 0) : NULL;
    return shape && shape->rank == WIDTH + 1 ? shape : NULL;
}

static bool fits_whole(const struct remedy_model *model, const struct aorta_input *shape, int64_t width) {
    return !model->remedies->amd && shape->size[POSITIONS] <= WHOLE_POSITIONS &&
           shape->size[POSITIONS] % WHOLE_MULTIPLE == 0 && width <= WHOLE_WIDTH && width % WHOLE_MULTIPLE == 0;
}

/* Time of such kernels in 16 bits. The shape must fit (fits_whole). */
static double whole_ns(const struct remedy_model *model, const struct leaf *leaf, const struct aorta_input *shape) {
    const double moved = strstr(leaf->name, "backward") ? 8 : 4;
    const double bytes = moved * 2 * aorta_remedy_elements(shape);
    return fmax(leaf->flops / (WHOLE_RATE * model->peak[MATH_HALF]), bytes / (WHOLE_STREAM * model->stream));
}

/* Wide heads, and heads of other multiples, are computed in tiles without matrix units. More and narrower heads have
 * the same number of elements. */
void aorta_remedy_own_attention(struct remedy_model *model) {
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        const struct aorta_input *shape = attention_of(leaf);
        if (!shape || leaf->math != MATH_HALF || strstr(leaf->kernel, "whole")) continue;
        const int64_t elements = shape->size[HEADS] * shape->size[WIDTH];
        if (fits_whole(model, shape, WHOLE_WIDTH) && elements % WHOLE_WIDTH == 0)
            aorta_remedy_claim(model, leaf, whole_ns(model, leaf, shape), leaf->kernels - 1);
    }
}

/* ---- 16 bits ---- */

/* Gathers of parameters move half the bytes, with the same start time. Reductions stay in fp32. */
void aorta_remedy_own_gathers(const struct remedy_model *model, struct aorta_work_scale *scales) {
    static const double START_NS = 10e3;
    const struct aorta_trace *trace = model->trace;
    for (size_t i = 0; i < model->rank->work_count; i++) {
        const struct aorta_trace_work *work = &model->rank->work[i];
        const double ns = (double)(work->end_ns - work->start_ns);
        if (work->collective == AORTA_TRACE_NONE || !(ns > START_NS)) continue;
        const struct aorta_trace_collective *facts = &trace->collectives[work->collective];
        if (facts->kind != AORTA_ALL_GATHER || facts->dtype == AORTA_TRACE_NONE) continue;
        if (strcmp(aorta_trace_text(trace, facts->dtype), aorta_dtype_name(AORTA_F32)) != 0) continue;
        const size_t row = model->rank->source ? model->rank->source[i] : (size_t)(work - trace->work);
        scales[row].left = (float)((START_NS + (ns - START_NS) / 2) / ns);
    }
}

bool aorta_remedy_own_bf16(struct remedy_model *model, const struct leaf *leaf) {
    const struct aorta_input *shape = attention_of(leaf), *first = aorta_remedy_tensor(leaf, 0);
    if (leaf->op & AORTA_OP_STAYS_FP32) return false;
    if (leaf->kind == LEAF_PRODUCT) return true;
    if (!first || first->arithmetic != AORTA_IN_FP32) return false;
    if (shape && fits_whole(model, shape, shape->size[WIDTH]))
        aorta_remedy_claim(model, leaf, whole_ns(model, leaf, shape), leaf->kernels - 1);
    else if (leaf->kind == LEAF_STREAM)
        aorta_remedy_claim(model, leaf, aorta_leaf_now_ns(model, leaf) / 2, 0);
    return false;
}
