/* Products and convolutions: cheaper arithmetic, rows that begin at multiples of 16 bytes, blocks that fill the card,
 * and fewer, larger products. */
#include "verdict/remedy_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double MATTERS_FLOPS = 1e8;
static const double SHORTEST_NS = 2e3;  /* of a kernel */
static const double LARGE_FLOPS = 1e10; /* arithmetic limits larger products */

/* The share of its peak that a leaf reaches in the recording, at least 5% and at most 85%. */
static double efficiency(const struct remedy_model *model, const struct leaf *leaf) {
    const double share = leaf->flops / leaf->ns / model->peak[leaf->math];
    return fmin(fmax(share, 0.05), 0.85);
}

/* Matrix units need NHWC. Inputs and outputs in another layout are converted. */
double aorta_remedy_converting_ns(const struct remedy_model *model, const struct leaf *leaf, double scale) {
    static const double CONVERTING = 0.6; /* of the streaming rate */
    const struct aorta_input *x = aorta_remedy_matrix(leaf, 0);
    if (leaf->kind != LEAF_CONVOLUTION || model->remedies->amd || !x || x->rank != 4 || !x->strided) return 0;
    if (x->size[1] <= 1 || x->stride[1] == 1) return 0;
    if (leaf->math != MATH_FP32) return leaf->convert_ns * scale;
    return 2 * leaf->bytes * scale / (CONVERTING * model->stream);
}

/* Share of a matrix unit's block of 128 that is used. Products of grouped convolutions are only as wide as a group. */
static double block_share(const struct leaf *leaf) {
    static const double BLOCK = 128;
    const bool backward = strstr(leaf->name, "backward") != NULL;
    const struct aorta_input *x = aorta_remedy_matrix(leaf, backward), *w = aorta_remedy_matrix(leaf, backward ? 2 : 1);
    if (leaf->kind != LEAF_CONVOLUTION || leaf->math != MATH_FP32 || !x || !w || x->rank < 3 || w->rank != x->rank)
        return 1;
    return w->size[1] < x->size[1] ? fmin(1, (double)w->size[1] / BLOCK) : 1;
}

/* Large products reach the best rate of this run's large products. All other products keep their share of the peak. */
static double product_ns(const struct remedy_model *model, const struct leaf *leaf, enum leaf_math math) {
    static const double CONVOLUTIONS_MOST = 0.45;
    double share = efficiency(model, leaf);
    if (leaf->kind == LEAF_CONVOLUTION && leaf->math == MATH_FP32) share = fmin(share, CONVOLUTIONS_MOST);
    const bool large = leaf->kind == LEAF_PRODUCT && share >= 0.4 && leaf->flops > LARGE_FLOPS;
    share *= block_share(leaf);
    const double rate = large ? fmax(model->best[math], share * model->peak[math]) : share * model->peak[math];
    const bool halves = math == MATH_HALF && (leaf->math == MATH_FP32 || leaf->math == MATH_TF32);
    double own_ns = fmax(leaf->flops / rate, leaf->bytes * (halves ? 0.5 : 1) / model->stream);
    /* Rows that are not aligned to 16 bytes are loaded in parts. 16 bits do not reduce the number of parts. If rows
     * are aligned in fp32, but not in 16 bits, all gain is lost. */
    static const double LOADS_LEFT = 0.7;
    if (halves && leaf->kind == LEAF_PRODUCT && !aorta_remedy_aligned_with(leaf, 2))
        own_ns = fmax(own_ns, (aorta_remedy_aligned_with(leaf, 4) ? 1 : LOADS_LEFT) * leaf->ns);
    return own_ns + (leaf->math == MATH_FP32 ? aorta_remedy_converting_ns(model, leaf, halves ? 0.5 : 1) : 0);
}

/* PyTorch's own kernels of depthwise convolutions use no matrix units, and take as long in 16 bits as in fp32. */
static bool is_depthwise(const struct leaf *leaf) {
    return strstr(leaf->name, "depthwise") || strstr(leaf->kernel, "depthwise");
}

/* Without recorded sizes: ratios of large products and convolutions (ResNet, U-Net) on an H100. */
double aorta_remedy_product_by_name_ns(const struct leaf *leaf, enum leaf_math math) {
    static const double PRODUCT_TF32 = 0.15, CONVOLUTION_TF32 = 0.26, HALF = 0.5;
    if (is_depthwise(leaf)) return leaf->ns;
    double left = leaf->math == MATH_FP32 ? (leaf->kind == LEAF_PRODUCT ? PRODUCT_TF32 : CONVOLUTION_TF32) : 1;
    if (math == MATH_HALF) left *= HALF;
    return leaf->ns * left;
}

/* cuDNN has no 16-bit kernels on matrix units for the forward pass of 3-D convolutions with few channels (RGB video).
 * With 1 to 16 channels it took 1.6 to 2.8 times as long as in TF32. */
static bool lacks_kernels(const struct leaf *leaf) {
    enum { FEW = 16 };
    const struct aorta_input *x = aorta_remedy_matrix(leaf, 0);
    return leaf->kind == LEAF_CONVOLUTION && !leaf->gradient && x && x->rank == 5 && x->size[1] <= FEW;
}

static bool has_few_blocks(const struct remedy_model *model, const struct leaf *leaf) {
    return aorta_has_few_blocks(&model->trace->work[leaf->first_work],
                                aorta_trace_multiprocessors(model->trace, model->rank->device));
}

/* A short product with few blocks takes one block's time, in any arithmetic. */
static bool is_one_wave(const struct remedy_model *model, const struct leaf *leaf) {
    static const double SHORT_NS = 10e3;
    return leaf->kind == LEAF_PRODUCT && leaf->kernels == 1 && leaf->ns < SHORT_NS && has_few_blocks(model, leaf);
}

/* A claim from names alone. */
static void claim_by_name(struct remedy_model *model, const struct leaf *leaf, double new_ns) {
    model->rough = true;
    aorta_remedy_claim(model, leaf, new_ns, 0);
    model->rough = false;
}

/* Claims the time of a product in another type. False: no product, or too small. */
static bool claim_product(struct remedy_model *model, const struct leaf *leaf, enum leaf_math math, double casts_ns) {
    if (!aorta_leaf_multiplies(leaf) || !(leaf->ns > 0)) return false;
    if (isnan(leaf->flops)) {
        if (is_one_wave(model, leaf)) return false;
        claim_by_name(model, leaf, aorta_remedy_product_by_name_ns(leaf, math));
        return true;
    }
    if (leaf->flops <= MATTERS_FLOPS || isnan(model->peak[math]) || is_depthwise(leaf)) return false;
    if (math == MATH_HALF && lacks_kernels(leaf)) {
        static const double MORE = 1.5;
        if (leaf->math == MATH_TF32) aorta_remedy_cost(model, leaf, MORE * leaf->ns);
        return true;
    }
    aorta_remedy_claim(model, leaf, product_ns(model, leaf, math) + casts_ns, 0);
    return true;
}

/* ---- fp64 ---- */

static bool is_fp64(const struct leaf *leaf) {
    for (int i = 0; i < leaf->inputs->count; i++)
        if (leaf->inputs->items[i].tensor && leaf->inputs->items[i].rank &&
            leaf->inputs->items[i].arithmetic == AORTA_IN_FP64)
            return true;
    return leaf->kernels && leaf->kernels_all & AORTA_KERNEL_FP64;
}

/* Most kernels with a known type compute in fp64. In XLA only products have a known type. */
static bool is_all_fp64(struct remedy_model *model) {
    static const double NEARLY_ALL = 0.8;
    const bool products = aorta_trace_framework(model->trace) == AORTA_FRAMEWORK_XLA;
    double double_ns = 0, typed_ns = 0;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        if (!leaf->counted || !leaf->kernels || (products && !aorta_leaf_multiplies(leaf))) continue;
        double_ns += is_fp64(leaf) ? leaf->ns : 0;
        typed_ns += leaf->ns;
    }
    return model->remedies->all_fp64 = double_ns > NEARLY_ALL * typed_ns;
}

/* Claims fp64 operations in fp32: half the bytes, and the share `product` of the time of products. */
static void claim_fp64(struct remedy_model *model, double product) {
    static const double HALF = 0.5;
    const bool all = is_all_fp64(model), xla = aorta_trace_framework(model->trace) == AORTA_FRAMEWORK_XLA;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        const bool untyped = xla || (!model->operations && !leaf->kernels); /* names of copies and fills show no type */
        if (leaf->kind == LEAF_TRANSFER || !((all && untyped) || is_fp64(leaf))) continue;
        const double left = aorta_leaf_multiplies(leaf) ? product : HALF;
        aorta_remedy_claim(model, leaf, fmax(leaf->ns * left, fmin(leaf->ns, SHORTEST_NS)), 0);
    }
}

/* XLA computes fp32 products in TF32. An orbit model in JAX took 2.75 ms in fp64, and 0.75 ms in fp32 (H200). */
static double tf32_share_of_fp64(const struct remedy_model *model) {
    static const double REACHED = 0.7;
    const double *tflops = model->peaks.tflops;
    return fmin(1, tflops[AORTA_IN_FP64] / tflops[AORTA_IN_TF32] / REACHED);
}

/* Frameworks compute in fp64 only if their inputs are in fp64, as NumPy's arrays are by default. Products gain by the
 * ratio of the device's rates. */
void aorta_remedy_fp32(struct remedy_model *model) {
    static const double HALF = 0.5;
    const enum aorta_framework framework = aorta_trace_framework(model->trace);
    const double *tflops = model->peaks.tflops, wide = tflops[AORTA_IN_FP64] / tflops[AORTA_IN_FP32];
    const bool xla = framework == AORTA_FRAMEWORK_XLA;
    if (!xla && !aorta_framework_is_torch(framework)) return;
    if (xla && !is_all_fp64(model)) return;
    const double product = xla && !model->remedies->amd ? tf32_share_of_fp64(model) : fmin(1, wide);
    claim_fp64(model, isnan(wide) ? HALF : product);
}

/* On AMD only products change, as PyTorch does not pass its setting to MIOpen. */
void aorta_remedy_tf32(struct remedy_model *model) {
    if (isnan(model->peak[MATH_TF32])) return;
    if (aorta_framework_is_torch(aorta_trace_framework(model->trace)) && !model->remedies->amd && is_all_fp64(model))
        claim_fp64(model, tf32_share_of_fp64(model));
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        if (leaf->math != MATH_FP32 || (model->remedies->amd && leaf->kind == LEAF_CONVOLUTION)) continue;
        (void)claim_product(model, leaf, MATH_TF32, 0);
    }
}

/* ---- bf16 ---- */

/* The time of autocast's casts: weights, their gradients, and activations that reach a product in fp32. These are cast
 * before the product (their gradient is widened), and after it, as the sum with a residual stream returns a wide
 * gradient. Widening kernels reach a smaller share of the streaming rate. `wide`: the input is still in fp32. */
static double cast_ns(const struct remedy_model *model, const struct leaf *leaf, bool wide) {
    static const double NARROWS = 6, WIDENS = 6 / 0.6, LINEAR = 12, OTHERS = 1; /* bytes per element */
    const bool backward = strstr(leaf->name, "backward") != NULL;
    const struct aorta_input *a = aorta_remedy_matrix(leaf, 0), *b = aorta_remedy_matrix(leaf, backward ? 2 : 1);
    double bytes = 0;
    if (leaf->kind == LEAF_CONVOLUTION && b) bytes = NARROWS * aorta_remedy_elements(b);
    const bool batched = a && b && a->rank > 2 && b->rank > 2; /* only activations, which are already in 16 bits */
    if (leaf->kind == LEAF_PRODUCT && a && b && !batched && !leaf->gradient)
        bytes = LINEAR * aorta_remedy_elements(b) + (wide ? NARROWS + WIDENS : OTHERS) * aorta_remedy_elements(a);
    return bytes / model->stream;
}

/* Launches that autocast adds: casts of weight and bias, of an input that a layer norm left in fp32, and of the
 * gradient of each. */
static uint8_t casts_added(const struct remedy_model *model, const struct leaf *leaf, bool layer_norms) {
    if (leaf->gradient || model->own) return 0;
    const bool product = leaf->kind == LEAF_PRODUCT;
    const bool bias = product ? strstr(leaf->name, "addmm") != NULL : aorta_remedy_tensor(leaf, 2) != NULL;
    const int forward = 1 + bias + layer_norms;
    return (uint8_t)(model->by_backward_count ? 2 * forward : forward);
}

static bool first_in_fp32(const struct leaf *leaf) {
    const struct aorta_input *first = aorta_remedy_tensor(leaf, 0);
    return first && first->arithmetic == AORTA_IN_FP32;
}

static bool in_fp32(const struct leaf *leaf) {
    if (!first_in_fp32(leaf)) return false;
    for (int i = 0; i < leaf->output_count; i++)
        if (leaf->outputs[i].arithmetic != AORTA_IN_FP32) return false;
    return true;
}

/* Sizes of the inputs of norms over the last dimension. Autocast leaves these norms in fp32, and also the sums of the
 * residual stream that they read. Unfused norms (pow, mean, rsqrt, mul) stay completely in fp32. */
enum { STREAM_SIZES = 16 };
struct residual {
    double sizes[STREAM_SIZES];
    int written_rank[STREAM_SIZES]; /* rank of the tensors of an unfused norm; 0: the norm is one operation */
    int count;
};

static bool is_residual(const struct residual *residual, double elements) {
    for (int i = 0; i < residual->count; i++)
        if (residual->sizes[i] == elements) return true;
    return false;
}

/* The input of the mean before this rsqrt; NULL: not part of an unfused norm. */
static const struct aorta_input *written_norm(const struct remedy_model *model, size_t number) {
    enum { BETWEEN = 3 }; /* the sum with epsilon, casts */
    if (strcmp(model->leaves[number].name, "aten::rsqrt") != 0) return NULL;
    for (size_t i = number; i > 0 && number - i < BETWEEN; i--)
        if (!strcmp(model->leaves[i - 1].name, "aten::mean")) return aorta_remedy_tensor(&model->leaves[i - 1], 0);
    return NULL;
}

static struct residual find_residual(const struct remedy_model *model) {
    struct residual residual = {.count = 0};
    for (size_t i = 0; i < model->leaf_count && residual.count < STREAM_SIZES; i++) {
        const struct leaf *leaf = &model->leaves[i];
        const struct aorta_input *x = aorta_remedy_tensor(leaf, 0), *written = written_norm(model, i);
        if (!written && (!x || !(leaf->op & AORTA_OP_NORM) || leaf->op & AORTA_OP_TWO_PASSES)) continue;
        if (written) x = written;
        if (leaf->in_optimizer || is_residual(&residual, aorta_remedy_elements(x))) continue;
        residual.written_rank[residual.count] = written ? x->rank : 0;
        residual.sizes[residual.count++] = aorta_remedy_elements(x);
    }
    return residual;
}

/* A pointwise operation or sum of an unfused norm, forward or backward. */
static bool in_written_norm(const struct residual *residual, const struct leaf *leaf) {
    static const char *const parts[] = {"aten::mul", "aten::pow", "aten::mean", "aten::sum",
                                        "aten::neg", "aten::div", "aten::rsqrt"};
    const struct aorta_input *x = aorta_remedy_tensor(leaf, 0);
    const bool part = aorta_is_one_of(leaf->name, parts, sizeof parts / sizeof *parts);
    for (int i = 0; x && part && i < residual->count; i++)
        if (residual->written_rank[i] == x->rank && residual->sizes[i] == leaf->largest) return true;
    return false;
}

/* Autocast does not change gradients: sums of gradients have the type of the gradients. */
static bool stays_fp32(const struct leaf *leaf) {
    if (leaf->in_loss || strstr(leaf->name, "max_pool")) return true;
    if (leaf->op & AORTA_OP_TWO_PASSES) return false;
    return leaf->op & AORTA_OP_STAYS_FP32 && !(leaf->gradient && leaf->op & AORTA_OP_SMALL_OUTPUT);
}

/* The time of a norm in 16 bits. Batch norms in NCHW gain nothing: PyTorch's kernel in 16 bits is no faster than
 * cuDNN's in fp32. */
static double norm_left_ns(const struct remedy_model *model, const struct leaf *leaf) {
    const struct aorta_input *x = aorta_remedy_tensor(leaf, 0);
    if (!strstr(leaf->name, "batch_norm")) return aorta_leaf_now_ns(model, leaf) / 2;
    const bool rows = x && x->rank == 4 && x->strided && x->stride[1] == 1;
    return rows ? aorta_remedy_norm_ns(model, leaf, 0.5) : aorta_leaf_now_ns(model, leaf);
}

/* The time of PyTorch's own batch norm, forward and backward, which computes NCHW in 16 bits, as cuDNN supports fp32
 * and NHWC only. It uses one block per channel, which takes BLOCK_NS per element. With many channels it reaches the
 * share REACHED of the streaming rate (ResNet-50, DenseNet, DeepLab and a 3-D ResNet, 64 to 2048 channels, on an H100).
 */
static double native_norm_ns(const struct remedy_model *model, const struct leaf *leaf) {
    static const double BLOCK_NS[2] = {0.98, 1.85}, REACHED[2] = {0.33, 0.45};
    static const double PASSES[2] = {3, 5}, HALF_BYTES = 2;
    const struct aorta_input *x = aorta_remedy_tensor(leaf, 0);
    const bool backward = strstr(leaf->name, "backward") != NULL;
    if (isnan(model->peaks.tflops[AORTA_IN_BF16])) return 0; /* cuDNN supports fp16, too */
    if (!x || x->rank < 4 || (x->strided && x->stride[1] == 1) || !strstr(leaf->kernel, "cudnn")) return 0;
    const double elements = aorta_remedy_elements(x);
    return fmax(BLOCK_NS[backward] * elements / (double)x->size[1],
                PASSES[backward] * HALF_BYTES * elements / (REACHED[backward] * model->stream));
}

/* Sums over rows, and copies that change the layout, take about the same time per element in any type. */
static double half_ns(const struct remedy_model *model, const struct leaf *leaf) {
    static const double SUMS = 0.85, TURNED = 0.8;
    if (leaf->op & AORTA_OP_TWO_PASSES) return norm_left_ns(model, leaf);
    if (leaf->op & AORTA_OP_SMALL_OUTPUT) return SUMS * aorta_leaf_now_ns(model, leaf);
    return (aorta_remedy_turns(leaf) ? TURNED : 0.5) * aorta_leaf_now_ns(model, leaf);
}

/* Operations between products move half the bytes. */
static void halve_between(struct remedy_model *model) {
    const struct residual residual = find_residual(model);
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        if (!aorta_leaf_moves(leaf) || !(leaf->largest > 1e6)) continue;
        if (!in_fp32(leaf) && !(leaf->op & AORTA_OP_TWO_PASSES && first_in_fp32(leaf))) continue;
        if (model->stays[i] || stays_fp32(leaf) || in_written_norm(&residual, leaf)) continue;
        double left_ns = half_ns(model, leaf);
        if (aorta_leaf_adds(leaf) && is_residual(&residual, leaf->largest))
            left_ns = aorta_leaf_now_ns(model, leaf) * 0.85;
        aorta_remedy_claim(model, leaf, left_ns, 0);
        const double native_ns = strstr(leaf->name, "batch_norm") ? native_norm_ns(model, leaf) : 0;
        if (native_ns > aorta_leaf_now_ns(model, leaf))
            aorta_remedy_cost(model, leaf, native_ns - aorta_leaf_now_ns(model, leaf));
    }
}

/* The result of the leaf is in fp32. Norms leave it so. Attention, convolutions, batched products and activations do
 * not. Other operations keep the type of their input. */
static bool is_wide_after(const struct leaf *leaf, bool wide) {
    if (leaf->op & AORTA_OP_NORM || !strcmp(leaf->name, "aten::rsqrt")) return true;
    if (leaf->kind == LEAF_ATTENTION || leaf->kind == LEAF_CONVOLUTION || strstr(leaf->name, "bmm")) return false;
    static const char *const activations[] = {"gelu", "relu", "silu", "tanh", "sigmoid", "softmax", "clamp_min", NULL};
    return wide && !aorta_has_any(leaf->name, activations);
}

/* Fused attention in fp32 uses no matrix units: 34 TFLOP/s in Whisper's encoder on an H200. HALF is the share of its
 * time in 16 bits, by the rate of fused attention. */
static void claim_attention(struct remedy_model *model, const struct leaf *leaf) {
    static const double HALF = 0.08;
    const double ns = aorta_remedy_attention_ns(model, leaf);
    if (!isnan(ns) && first_in_fp32(leaf)) aorta_remedy_claim(model, leaf, ns, 0);
    if (!isnan(ns) || model->shapes || !strstr(leaf->kernel, "_f32_")) return;
    claim_by_name(model, leaf, leaf->ns * HALF);
}

void aorta_remedy_bf16(struct remedy_model *model) {
    bool any = false, wide = false;
    const bool layer_norms = !model->own && find_residual(model).count > 0;
    if (!model->own) aorta_remedy_mark_staying_attention(model);
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        if (model->own && !aorta_remedy_own_bf16(model, leaf)) continue;
        if (!leaf->gradient) wide = is_wide_after(leaf, wide);
        if (model->stays[i]) continue;
        if (leaf->kind == LEAF_ATTENTION) claim_attention(model, leaf);
        if (leaf->math != MATH_FP32 && leaf->math != MATH_TF32) continue;
        if (!claim_product(model, leaf, MATH_HALF, model->own ? 0 : cast_ns(model, leaf, wide))) continue;
        any = true;
        if (model->shapes) model->added[i] = casts_added(model, leaf, layer_norms);
    }
    if (!any || model->own) return;
    aorta_remedy_attention_in_half(model);
    halve_between(model);
    model->halved = true;
    if (model->shapes) aorta_remedy_cast_attention(model);
}

void aorta_remedy_fp8(struct remedy_model *model) {
    if (isnan(model->peak[MATH_FP8])) return;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        if (leaf->kind != LEAF_PRODUCT || leaf->math != MATH_HALF || !(leaf->flops > 5 * LARGE_FLOPS)) continue;
        const double rate = model->best[MATH_HALF] / model->peak[MATH_HALF] * model->peak[MATH_FP8];
        aorta_remedy_claim(model, leaf, fmax(leaf->flops / rate, leaf->bytes / model->stream), 0);
    }
}

/* ---- alignment ---- */

void aorta_remedy_alignment(struct remedy_model *model) {
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        const bool matrix_units = leaf->math == MATH_HALF || leaf->math == MATH_TF32;
        if (leaf->kind != LEAF_PRODUCT || !matrix_units || aorta_remedy_aligned(leaf) || leaf->flops <= 1e9) continue;
        if (isnan(leaf->flops)) { /* the kernel's name shows it; PADDED: measured share of the time after padding */
            static const double PADDED = 0.17;
            claim_by_name(model, leaf, leaf->ns * PADDED);
            continue;
        }
        aorta_remedy_claim(model, leaf, aorta_remedy_least(model, leaf->flops, leaf->math, leaf->bytes), 0);
    }
}

/* ---- the last wave ---- */

/* Reads the tile from a kernel's name ("192x128"). */
static bool tile_of(const char *name, double tile[2]) {
    enum { LEAST = 16, MOST = 512 };
    for (const char *at = name; (at = strchr(at, 'x')) != NULL; at++) {
        const char *first = at;
        while (first > name && first[-1] >= '0' && first[-1] <= '9') first--;
        tile[0] = strtod(first, NULL);
        tile[1] = at[1] >= '0' && at[1] <= '9' ? (double)strtol(at + 1, NULL, 10) : 0;
        if (first < at && tile[0] >= LEAST && tile[0] <= MOST && tile[1] >= LEAST && tile[1] <= MOST) return true;
    }
    return false;
}

/* Counts tiles of the product, as a block of the grid may compute several tiles. Rows and columns are swapped, as
 * libraries are column-major. */
static bool tiles_of(const struct leaf *leaf, double *tiles) {
    const struct aorta_input *a = aorta_remedy_matrix(leaf, 0), *b = aorta_remedy_matrix(leaf, 1);
    double tile[2];
    if (!a || !b || leaf->kernels != 1 || !tile_of(leaf->kernel, tile)) return false;
    *tiles = ceil((double)b->size[b->rank - 1] / tile[0]) * ceil((double)a->size[a->rank - 2] / tile[1]);
    for (int i = 0; i < a->rank - 2; i++) *tiles *= (double)a->size[i];
    return true;
}

void aorta_remedy_waves(struct remedy_model *model) {
    const double units = aorta_trace_multiprocessors(model->trace, model->rank->device);
    double tiles;
    if (units <= 0) return;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        if (leaf->kind != LEAF_PRODUCT || !(leaf->flops > LARGE_FLOPS) || !tiles_of(leaf, &tiles)) continue;
        const double waves = tiles / units, filled = waves / ceil(waves);
        if (waves > 4 || filled > 0.8) continue;
        aorta_remedy_claim(model, leaf,
                           fmax(leaf->ns * filled, aorta_remedy_least(model, leaf->flops, leaf->math, leaf->bytes)), 0);
    }
}

/* ---- far slower than the run's other products ---- */

void aorta_remedy_library(struct remedy_model *model) {
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        const struct aorta_input *a = aorta_remedy_matrix(leaf, 0), *b = aorta_remedy_matrix(leaf, 1);
        if (leaf->kind != LEAF_PRODUCT || leaf->math == MATH_NONE || !a || !b) continue;
        if (!(leaf->flops > 2 * LARGE_FLOPS) || !aorta_remedy_aligned(leaf)) continue;
        const double ns = aorta_remedy_least(model, leaf->flops, leaf->math, leaf->bytes);
        if (leaf->ns > 2.5 * ns) aorta_remedy_claim(model, leaf, ns / 0.8, 0);
    }
}

/* ---- convolutions that write out their windows ---- */

/* Without cuDNN, PyTorch unfolds the input of a convolution for each sample. The program itself may call im2col, or run
 * a few such kernels. */
void aorta_remedy_unfolding(struct remedy_model *model) {
    enum { FEWEST = 8 };
    double count = 0;
    (void)aorta_remedy_unsized(model);
    for (size_t i = 0; i < model->leaf_count; i++)
        if (model->leaves[i].counted && model->leaves[i].kernels_any & AORTA_KERNEL_UNFOLDS)
            count += model->leaves[i].kernels;
    for (size_t i = 0; i < model->leaf_count && count >= FEWEST * model->steps; i++) {
        const struct leaf *leaf = &model->leaves[i];
        double ns = 0;
        uint32_t kernels = 0, row = leaf->first_work;
        if (!(leaf->kernels_any & AORTA_KERNEL_UNFOLDS) || strstr(leaf->name, "aten::im2col") ||
            strstr(leaf->name, "aten::col2im"))
            continue;
        for (uint32_t left = aorta_leaf_work(leaf); left--; row = model->next_work[row]) {
            const struct aorta_trace_work *work = &model->trace->work[row];
            if (work->kind != AORTA_TRACE_KERNEL ||
                !(aorta_remedy_kernel_bits(model, work->name) & AORTA_KERNEL_UNFOLDS))
                continue;
            ns += (double)(work->end_ns - work->start_ns);
            kernels++;
        }
        if (kernels) aorta_remedy_claim(model, leaf, fmax(aorta_leaf_now_ns(model, leaf) - ns, 0), kernels);
    }
}

/* ---- equal small operations ---- */

/* A loop over experts, heads, tables or samples: `period` operations, `repeats` times. An operation that stacks or
 * concatenates the results ends it. */
struct loop {
    size_t first, period, repeats;
};
enum { FEWEST_REPEATS = 8 };

/* Equal operations. If sizes are unknown, the kernels must also have few blocks, so that they can run at once. */
static bool alike(const struct remedy_model *model, size_t a, size_t b) {
    const struct leaf *x = &model->leaves[a], *y = &model->leaves[b];
    return aorta_leaves_together(x, y) && !aorta_remedy_compare(model, a, b) &&
           (model->operations || !x->kernels || has_few_blocks(model, x));
}

/* Products and factorizations of matrices. */
static bool is_of_matrices(const struct leaf *leaf) {
    static const char *const names[] = {"getrf", "potrf", "geqrf", "gesvd", "syevj", "trsm", NULL};
    return leaf->kind == LEAF_PRODUCT || aorta_has_any(leaf->kernel, names);
}

static struct loop loop_before(const struct remedy_model *model, size_t end) {
    const size_t longest = model->operations ? 12 : 32;
    struct loop best = {.first = end};
    for (size_t period = 1; period <= longest && period < end; period++) {
        size_t same = 0, products = 0;
        while (same + period < end && alike(model, end - 1 - same, end - 1 - same - period)) same++;
        const size_t repeats = same / period + 1;
        if (repeats <= best.repeats) continue;
        for (size_t i = 0; i < period; i++) products += is_of_matrices(&model->leaves[end - 1 - i]);
        if (!products) continue;
        best = (struct loop){end - repeats * period, period, repeats};
        if (same > 0) break; /* longer periods repeat less often */
    }
    return best;
}

/* The time of equal leaves as one batched operation: by their sizes, or by how many of them run at once. */
static double together_ns(const struct remedy_model *model, const size_t *leaves, size_t count) {
    const struct leaf *first = &model->leaves[leaves[0]];
    double flops = 0, bytes = 0, ns = 0;
    for (size_t i = 0; i < count; i++) {
        const struct leaf *leaf = &model->leaves[leaves[i]];
        flops += isnan(leaf->flops) ? 0 : leaf->flops;
        bytes += isnan(leaf->bytes) ? 0 : leaf->bytes;
        ns += leaf->ns;
    }
    if (!model->operations) {
        const double units = aorta_trace_multiprocessors(model->trace, model->rank->device);
        const double blocks = fmax(1, model->trace->work[first->first_work].blocks);
        return units > 0 ? ns * fmin(1, ceil((double)count * blocks / units) / (double)count) : ns;
    }
    const double products = flops > 0 && first->math != MATH_NONE ? flops / (0.7 * model->best[first->math]) : 0;
    return fmax(products, bytes / model->stream) + 2e3;
}

/* Equal leaves become one batched operation. */
static void batch(struct remedy_model *model, size_t *leaves, size_t count) {
    aorta_remedy_order_alike(model, leaves, count);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && !aorta_remedy_compare(model, leaves[i], leaves[end]);) end++;
        aorta_remedy_claim_together(model, &leaves[i], end - i, together_ns(model, &leaves[i], end - i), 1);
    }
}

/* Adds gradients to order[], which has `count` leaves. Returns the new number. */
static size_t add_backward(struct remedy_model *model, int64_t from, int64_t to, size_t after, size_t count) {
    size_t at, end;
    aorta_remedy_backward(model, from, to, after, &at, &end);
    for (; at < end && count < model->leaf_count; at++) {
        const struct leaf *leaf = &model->leaves[model->by_backward[at]];
        if (leaf->kind != LEAF_TRANSFER && !leaf->in_optimizer) model->order[count++] = model->by_backward[at];
    }
    return count;
}

/* Batches a product that the program launches many times in a row, for example for many small matrices. */
static void batch_launches(struct remedy_model *model) {
    const struct aorta_trace_work *work = model->trace->work;
    for (size_t i = 0, end; i < model->leaf_count; i = end) {
        const struct leaf *first = &model->leaves[i];
        for (end = i; end < model->leaf_count; end++) {
            const struct leaf *leaf = &model->leaves[end];
            if (!is_one_wave(model, leaf) || !aorta_leaf_follows(model, end, i) || leaf->kernel != first->kernel ||
                work[leaf->first_work].blocks != work[first->first_work].blocks)
                break;
            model->order[end - i] = end;
        }
        const size_t count = end - i;
        end += !count;
        if (count < FEWEST_REPEATS) continue;
        aorta_remedy_claim_together(model, model->order, count, together_ns(model, model->order, count), 1);
    }
}

/* The operation that stacks or concatenates the results of a loop. */
static bool stacks(const struct remedy_model *model, const struct leaf *leaf) {
    return model->operations ? leaf->op & AORTA_OP_STACKS : strstr(leaf->kernel, "CatArrayBatchedCopy") != NULL;
}

void aorta_remedy_batching(struct remedy_model *model) {
    if (!model->operations && aorta_remedy_unsized(model)) batch_launches(model);
    for (size_t i = 0; i < model->leaf_count; i++) {
        if (!stacks(model, &model->leaves[i])) continue;
        const struct loop loop = loop_before(model, i);
        if (loop.repeats < FEWEST_REPEATS) continue;
        size_t count = 0;
        int64_t from = INT64_MAX, to = -1;
        for (size_t j = loop.first; j < i; j++) {
            const struct leaf *leaf = &model->leaves[j];
            model->order[count++] = j;
            if (leaf->forward >= 0 && leaf->forward < from) from = leaf->forward;
            if (leaf->forward > to) to = leaf->forward;
        }
        if (to >= 0) count = add_backward(model, from, to, i, count);
        batch(model, model->order, count);
    }
}
