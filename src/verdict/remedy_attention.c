/* Unfused attention (two batched products with a softmax between them, and their gradients), compared with one kernel
 * that never writes the scores. */
#include "verdict/remedy_internal.h"

#include <math.h>
#include <string.h>

/* Rates of fused attention, forward and backward (cuDNN and flash attention on an H100, sequences of 197 to 8192):
 * shares of the 16-bit peak with heads of 64 (wider heads: WIDE_HEADS times), and of the fp32 peak. The backward pass
 * also reads and writes its tensors once more, and computes two and a half times as much as the forward pass. */
static const double FUSED_HALF[2] = {0.44, 0.435}, FUSED_FP32[2] = {0.28, 0.31}, BACKWARD_FLOPS = 2.5;
static const double WIDE_HEADS = 1.3, START_NS[2] = {8e3, 20e3}, BACKWARD_STREAM = 0.75;
static const double TILE = 128; /* rows and columns of scores that are computed at once */
enum { BEFORE = 40, AFTER = 10 };

struct attention {
    double flops, bytes; /* of the forward pass; only scores that a causal mask leaves */
    double rows, columns, width;
    bool causal, half;
};

static double fused_ns(const struct remedy_model *model, const struct attention *attention, bool backward) {
    const double columns = ceil(attention->columns / TILE) * TILE / attention->columns;
    const double rows = ceil(attention->rows / TILE) * TILE / attention->rows;
    const double whole_tiles = attention->causal ? 1 + 2 * TILE / attention->columns : rows * columns;
    const double flops = attention->flops * whole_tiles * (backward ? BACKWARD_FLOPS : 1);
    double rate = FUSED_FP32[backward] * model->peak[MATH_FP32];
    if (attention->half)
        rate = FUSED_HALF[backward] * model->peak[MATH_HALF] * (attention->width >= 128 ? WIDE_HEADS : 1);
    if (!backward) return fmax(flops / rate + START_NS[0], attention->bytes / model->stream);
    return flops / rate + 2 * attention->bytes / (BACKWARD_STREAM * model->stream) + START_NS[1];
}

/* ---- fused attention in 16 bits ---- */

double aorta_remedy_attention_ns(const struct remedy_model *model, const struct leaf *leaf) {
    const bool backward = strstr(leaf->name, "backward") != NULL;
    const struct aorta_input *q = aorta_remedy_tensor(leaf, backward), *k = aorta_remedy_tensor(leaf, backward + 1);
    if (isnan(leaf->flops) || !q || !k || q->rank != 4 || k->rank != 4) return NAN;
    const int rows_at = strstr(leaf->name, "cudnn") ? 2 : 1;
    const double rows = (double)q->size[rows_at], columns = (double)k->size[rows_at], width = (double)q->size[3];
    const double pairs = aorta_remedy_elements(q) * columns;         /* with their width */
    const double forward = backward ? leaf->flops / 2 : leaf->flops; /* flops exclude recomputed scores */
    const struct attention attention = {.flops = forward,
                                        .bytes = 2 * 2 * (aorta_remedy_elements(q) + aorta_remedy_elements(k)),
                                        .rows = rows,
                                        .columns = columns,
                                        .width = width,
                                        .causal = forward < 3 * pairs,
                                        .half = true};
    return fused_ns(model, &attention, backward);
}

/* ---- sequence numbers ---- */

void aorta_remedy_backward(const struct remedy_model *model, int64_t from, int64_t to, size_t after, size_t *at,
                           size_t *end) {
    size_t low = 0, high = model->by_backward_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (model->leaves[model->by_backward[middle]].backward < from)
            low = middle + 1;
        else
            high = middle;
    }
    const struct aorta_trace_operation *operations = model->trace->operations;
    const int64_t after_ns = operations[model->leaves[after].operation].start_ns;
    for (*at = *end = low; *end < model->by_backward_count; (*end)++) {
        const struct leaf *leaf = &model->leaves[model->by_backward[*end]];
        if (leaf->backward > to) break;
        if (operations[leaf->operation].start_ns < after_ns) *at = *end + 1;
    }
}

/* ---- the pattern ---- */

struct region {
    size_t first, last; /* leaves of the forward pass */
    int64_t from, to;   /* sequence numbers; -1: none */
    struct attention attention;
    bool fallback; /* scaled_dot_product_attention itself is unfused */
    bool widened;  /* computes in fp32, although its inputs are in 16 bits, which fused kernels support */
    bool biased;   /* adds a bias that differs between heads or samples: no fused kernel in any type */
};

/* The outermost frame around the leaf, or its own, whose name has these bits; NONE: none. */
static uint32_t outermost(struct remedy_model *model, const struct leaf *leaf, uint32_t bits) {
    const struct aorta_trace_operation *operations = model->trace->operations;
    uint32_t found = AORTA_TRACE_NONE;
    for (uint32_t row = leaf->operation; row != AORTA_TRACE_NONE; row = operations[row].parent)
        if (aorta_remedy_op_bits(model, operations[row].name) & bits) found = row;
    return found;
}

static bool is_batched(const struct leaf *leaf) {
    return !strcmp(leaf->name, "aten::bmm") || !strcmp(leaf->name, "aten::baddbmm");
}

static size_t product_near(const struct remedy_model *model, size_t leaf, int step, size_t reach) {
    for (size_t i = 1; i <= reach; i++) {
        if (step < 0 ? leaf < i : leaf + i >= model->leaf_count) break;
        const size_t at = step < 0 ? leaf - i : leaf + i;
        if (!aorta_leaves_together(&model->leaves[at], &model->leaves[leaf])) break;
        if (is_batched(&model->leaves[at])) return at;
    }
    return SIZE_MAX;
}

static bool takes_half(struct remedy_model *model, const struct aorta_trace_operation *operation) {
    const struct aorta_inputs *inputs = aorta_remedy_inputs_of(model, operation);
    return inputs->count && inputs->items[0].tensor && inputs->items[0].bytes == 2;
}

/* A mask of -inf above the diagonal: half of the products are not needed. */
static bool is_masked(const struct remedy_model *model, const struct region *region, double scores, double rows) {
    for (size_t i = region->first; i <= region->last; i++) {
        const struct leaf *leaf = &model->leaves[i];
        if (strstr(leaf->name, "masked_fill") || !strcmp(leaf->name, "aten::where") || strstr(leaf->name, "tril"))
            return true;
        if (!aorta_leaf_adds(leaf)) continue;
        for (int j = 0; j < leaf->inputs->count; j++) {
            const double elements = aorta_remedy_elements(&leaf->inputs->items[j]);
            if (leaf->inputs->items[j].tensor && elements < scores && elements >= rows) return true;
        }
    }
    return false;
}

static bool is_biased(const struct remedy_model *model, const struct region *region, double pairs) {
    for (size_t i = region->first; i <= region->last; i++) {
        const struct leaf *leaf = &model->leaves[i];
        const struct aorta_input *bias = aorta_remedy_tensor(leaf, 1);
        if (aorta_leaf_adds(leaf) && bias && aorta_remedy_elements(bias) > pairs) return true;
    }
    return false;
}

static int64_t sequence_of(const struct remedy_model *model, uint32_t row) {
    const struct aorta_trace_operation *operation = &model->trace->operations[row];
    return operation->gradient ? -1 : operation->sequence;
}

/* `soft`: a softmax of the forward pass. */
static bool find_region(struct remedy_model *model, size_t soft, struct region *region) {
    const struct leaf *leaf = &model->leaves[soft];
    const struct aorta_input *scores = aorta_remedy_tensor(leaf, 0);
    if (!(leaf->op & AORTA_OP_SOFTMAX) || strcmp(leaf->name, "aten::_softmax") != 0 || !scores || scores->rank < 2)
        return false;
    const size_t a = product_near(model, soft, -1, BEFORE), b = product_near(model, soft, 1, AFTER);
    if (a == SIZE_MAX || b == SIZE_MAX) return false;
    const struct aorta_input *q = aorta_remedy_matrix(&model->leaves[a], 0),
                             *k = aorta_remedy_matrix(&model->leaves[a], 1);
    const struct aorta_input *p = aorta_remedy_matrix(&model->leaves[b], 0),
                             *v = aorta_remedy_matrix(&model->leaves[b], 1);
    if (!q || !k || !p || !v || q->rank != 3 || k->rank != 3) return false;
    const double count = aorta_remedy_elements(scores);
    if ((double)q->size[0] * (double)q->size[1] * (double)k->size[2] != count || aorta_remedy_elements(p) != count)
        return false;
    const uint32_t whole_a = outermost(model, &model->leaves[a], AORTA_OP_WHOLE_PRODUCT);
    const uint32_t whole_b = outermost(model, &model->leaves[b], AORTA_OP_WHOLE_PRODUCT);
    const uint32_t fallback = outermost(model, leaf, AORTA_OP_WHOLE_ATTENTION);
    const struct aorta_trace_operation *operations = model->trace->operations;
    *region = (struct region){.first = a, .last = b, .fallback = fallback != AORTA_TRACE_NONE};
    region->widened = q->bytes == 4 && (region->fallback ? takes_half(model, &operations[fallback]) : p->bytes == 2);
    /* All work of the outermost frames (for example copies of heads) belongs to attention. */
    while (region->first > 0 && model->leaves[region->first - 1].operation >= whole_a &&
           model->leaves[region->first - 1].thread == leaf->thread &&
           model->leaves[region->first - 1].operation != AORTA_TRACE_NONE)
        region->first--;
    while (region->last + 1 < model->leaf_count && model->leaves[region->last + 1].thread == leaf->thread &&
           model->leaves[region->last + 1].operation != AORTA_TRACE_NONE &&
           operations[model->leaves[region->last + 1].operation].start_ns <= operations[whole_b].end_ns)
        region->last++;
    const double rows = (double)scores->size[scores->rank - 2], columns = (double)scores->size[scores->rank - 1];
    region->biased = is_biased(model, region, rows * columns);
    const bool causal = rows == columns && is_masked(model, region, count, rows * columns);
    region->attention =
        (struct attention){.flops = 2 * count * ((double)q->size[2] + (double)v->size[2]) * (causal ? 0.5 : 1),
                           .bytes = (aorta_remedy_bytes(q) + aorta_remedy_bytes(k) + 2 * aorta_remedy_bytes(v)) /
                                    (region->widened ? 2 : 1),
                           .rows = rows,
                           .columns = columns,
                           .width = (double)q->size[2],
                           .causal = causal,
                           .half = q->bytes == 2 || region->widened};
    const int64_t s = sequence_of(model, whole_a), t = sequence_of(model, whole_b), u = model->leaves[b].forward;
    region->from = region->to = -1;
    if (s >= 0 && t >= 0) {
        region->from = s < t ? s : t;
        region->to = (s > t ? s : t) > u ? (s > t ? s : t) + 1 : u + 1;
    }
    return true;
}

static void claim_region(struct remedy_model *model, const struct region *region) {
    size_t count = 0, from, end;
    for (size_t i = region->first; i <= region->last; i++) model->order[count++] = i;
    aorta_remedy_claim_together(model, model->order, count, fused_ns(model, &region->attention, false), UINT32_MAX);
    if (region->from < 0) return;
    aorta_remedy_backward(model, region->from, region->to, region->last, &from, &end);
    aorta_remedy_claim_together(model, model->by_backward + from, end - from, fused_ns(model, &region->attention, true),
                                UINT32_MAX);
}

/* `half`: operands become 16 bits. */
static void fuse_attention(struct remedy_model *model, bool half) {
    struct region region;
    for (size_t i = 0; i < model->leaf_count; i++) {
        if (!(model->leaves[i].op & AORTA_OP_SOFTMAX) || model->now_ns[i] <= 0) continue;
        if (!find_region(model, i, &region)) continue;
        /* scaled_dot_product_attention has no fused kernel for such inputs: fp32 with grouped heads, or a bias. */
        if (region.fallback && !region.attention.half && (!half || region.biased)) continue;
        if (half && (region.widened || (!region.fallback && !model->attention_fused))) continue;
        if (half && !region.attention.half) {
            region.attention.half = true;
            region.attention.bytes /= 2;
        }
        model->remedies->fallback |= region.widened;
        claim_region(model, &region);
    }
}

/* ---- without shapes ---- */

/* The softmax of attention scores, or its gradient. */
static bool is_softmax(const struct leaf *leaf) {
    return leaf->op ? (leaf->op & AORTA_OP_SOFTMAX) != 0 : (leaf->kernels_any & AORTA_KERNEL_SOFTMAX) != 0;
}

/* The next batched product, if only operations that move data are between; SIZE_MAX: none. If operations are unknown,
 * any product may be batched. */
static size_t product_beside(const struct remedy_model *model, size_t soft, int step) {
    enum { REACH = 40 };
    for (size_t i = soft, far = 0; far < REACH; far++) {
        if (step < 0 ? i == 0 : i + 1 >= model->leaf_count) break;
        const size_t next = step < 0 ? i - 1 : i + 1;
        const struct leaf *leaf = &model->leaves[next];
        if (!aorta_leaf_follows(model, next, i)) break;
        if (leaf->kind == LEAF_PRODUCT) {
            const bool batched = leaf->operation == AORTA_TRACE_NONE || strstr(leaf->name, "bmm");
            return batched ? next : SIZE_MAX;
        }
        if (!aorta_leaf_moves(leaf) && leaf->ns > AORTA_SMALL_NS) break;
        i = next;
    }
    return SIZE_MAX;
}

/* Attention of unknown size: two products and the operations between them. */
struct unsized {
    size_t before, after;
    bool widened; /* products in fp32 with inputs in 16 bits, as probabilities are narrowed between the products */
};

/* False in fp32, where fused attention gains little. */
static bool find_unsized(const struct remedy_model *model, size_t soft, struct unsized *found) {
    if (!is_softmax(&model->leaves[soft]) || !aorta_leaf_moves(&model->leaves[soft])) return false;
    *found = (struct unsized){.before = product_beside(model, soft, -1), .after = product_beside(model, soft, 1)};
    if (found->before == SIZE_MAX || found->after == SIZE_MAX) return false;
    const enum leaf_math math = model->leaves[found->before].math, second = model->leaves[found->after].math;
    if (second != math && second != MATH_HALF) return false;
    for (size_t i = soft + 1; i < found->after; i++)
        found->widened |= math != MATH_HALF && strstr(model->leaves[i].kernel, "float16_copy");
    return math == MATH_HALF || found->widened;
}

/* Products in 16 bits keep their time, although a fused kernel would be faster. */
static void unsized_attention(struct remedy_model *model) {
    struct unsized found;
    for (size_t i = 0; i < model->leaf_count; i++) {
        if (!find_unsized(model, i, &found)) continue;
        model->remedies->fallback |= found.widened;
        for (size_t j = found.before + 1; j < found.after; j++)
            aorta_remedy_claim(model, &model->leaves[j], 0, aorta_leaf_work(&model->leaves[j]));
        const size_t products[] = {found.before, found.after};
        for (size_t j = 0; found.widened && j < 2; j++)
            aorta_remedy_claim(model, &model->leaves[products[j]],
                               aorta_remedy_product_by_name_ns(&model->leaves[products[j]], MATH_HALF), 0);
    }
}

/* ---- the rule ---- */

void aorta_remedy_attention(struct remedy_model *model) {
    if (model->own)
        aorta_remedy_own_attention(model);
    else if (aorta_remedy_unsized(model))
        unsized_attention(model);
    else
        fuse_attention(model, false);
    model->attention_fused = true;
}

void aorta_remedy_attention_in_half(struct remedy_model *model) {
    fuse_attention(model, true);
}

static void mark_gradients(struct remedy_model *model, const struct region *region, int64_t first) {
    size_t from, end;
    if (region->from < 0) return;
    aorta_remedy_backward(model, first, region->to, region->last, &from, &end);
    for (size_t j = from; j < end; j++)
        if (first == region->from || model->leaves[model->by_backward[j]].kind == LEAF_STREAM)
            model->stays[model->by_backward[j]] = true;
}

/* A sum of the scores with a smaller tensor in fp32 (mask or bias), so the sum is in fp32, too. */
static bool adds_bias(const struct leaf *leaf, double scores) {
    const struct aorta_input *bias = aorta_remedy_tensor(leaf, 1);
    return aorta_leaf_adds(leaf) && leaf->largest == scores && bias && aorta_remedy_elements(bias) < scores;
}

static double scores_of(const struct remedy_model *model, size_t soft) {
    return aorta_remedy_elements(aorta_remedy_tensor(&model->leaves[soft], 0));
}

void aorta_remedy_mark_staying_attention(struct remedy_model *model) {
    struct region region;
    struct unsized unsized;
    for (size_t i = 0; i < model->leaf_count; i++) {
        if (!model->shapes && find_unsized(model, i, &unsized) && unsized.widened)
            model->stays[unsized.before] = model->stays[unsized.after] = true;
        if (!(model->leaves[i].op & AORTA_OP_SOFTMAX) || !find_region(model, i, &region)) continue;
        if (region.fallback && !region.biased && !region.widened) continue;
        const bool all = region.fallback;
        for (size_t j = region.first; j <= region.last; j++)
            model->stays[j] |= all || (j > i && model->leaves[j].kind == LEAF_STREAM) ||
                               adds_bias(&model->leaves[j], scores_of(model, i));
        mark_gradients(model, &region, all ? region.from : model->leaves[i].forward);
    }
}

/* The time of casts that 16 bits add around unfused attention. PyTorch's fallback widens its inputs, and narrows its
 * result and the probabilities. A softmax of the program itself needs wide scores, which a sum with a bias already
 * provides, and its probabilities are narrowed. Gradients are cast in the opposite direction. */
static double casts_ns(const struct remedy_model *model, const struct region *region, size_t soft) {
    static const double NARROWS = 6, WIDENS = 6 / 0.6; /* bytes per element */
    const struct attention *attention = &region->attention;
    const double scores = scores_of(model, soft), heads = scores / (attention->rows * attention->columns);
    const double queries = heads * attention->rows * attention->width,
                 keys = heads * attention->columns * attention->width;
    const bool gradients = region->from >= 0 && model->by_backward_count > 0;
    if (region->fallback)
        return ((WIDENS + (gradients ? NARROWS : 0)) * (queries + 2 * keys) +
                (NARROWS + (gradients ? WIDENS : 0)) * queries + NARROWS * scores) /
               model->stream;
    bool widened = false;
    double sums_ns = 0;
    for (size_t j = region->first; j < soft; j++) {
        if (!adds_bias(&model->leaves[j], scores)) continue;
        widened = true;
        sums_ns += 0.25 * model->leaves[j].ns; /* as it reads two types */
    }
    return sums_ns + (NARROWS + (widened ? 0 : WIDENS) + (gradients ? NARROWS + WIDENS : 0)) * scores / model->stream;
}

void aorta_remedy_cast_attention(struct remedy_model *model) {
    struct region region;
    for (size_t i = 0; i < model->leaf_count; i++) {
        if (!(model->leaves[i].op & AORTA_OP_SOFTMAX) || model->now_ns[i] <= 0) continue;
        if (!find_region(model, i, &region) || region.attention.half || model->gone[i]) continue;
        if (region.fallback && !region.biased) continue;
        aorta_remedy_cost(model, &model->leaves[i], casts_ns(model, &region, i));
        model->remedies->wide_attention |= !region.fallback && !region.biased; /* few fused kernels support biases */
    }
}
