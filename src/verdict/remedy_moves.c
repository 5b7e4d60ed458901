/* Operations that only move data: copies that undo each other, casts of logits and of weights, a cache that is copied
 * for each token, conversions of layout, and chains of pointwise kernels and reductions that one pass could replace. */
#include "base/sort.h"
#include "verdict/remedy_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double SMALL = 1e5; /* elements: the launch of a smaller operation costs more than its bytes */

/* ---- layouts ---- */

struct axis {
    int64_t stride, size;
};

/* Axes from the largest stride on; contiguous axes are joined. Returns their number. */
static int layout_of(const struct aorta_input *input, struct axis axes[AORTA_INPUT_RANK]) {
    struct axis sorted[AORTA_INPUT_RANK];
    int count = 0, joined = 0;
    for (int i = 0; input->strided && i < input->rank; i++) {
        if (input->size[i] <= 1) continue;
        int at = count++;
        for (; at > 0 && sorted[at - 1].stride < input->stride[i]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = (struct axis){input->stride[i], input->size[i]};
    }
    for (int i = 0; i < count; i++)
        if (joined && axes[joined - 1].stride == sorted[i].stride * sorted[i].size)
            axes[joined - 1] = (struct axis){sorted[i].stride, sorted[i].size * axes[joined - 1].size};
        else
            axes[joined++] = sorted[i];
    return joined;
}

static bool same_layout(const struct aorta_input *a, const struct aorta_input *b) {
    struct axis x[AORTA_INPUT_RANK], y[AORTA_INPUT_RANK];
    const int count = layout_of(a, x);
    if (count != layout_of(b, y)) return false;
    for (int i = 0; i < count; i++)
        if (x[i].stride != y[i].stride || x[i].size != y[i].size) return false;
    return true;
}

/* ---- copies that undo each other ---- */

/* aten::copy_(to, from) */
static const struct aorta_input *source_of(const struct leaf *leaf) {
    return &leaf->inputs->items[1];
}

static const struct aorta_input *target_of(const struct leaf *leaf) {
    return &leaf->inputs->items[0];
}

/* aten::copy_ between two tensors. */
static bool is_copy(const struct leaf *leaf) {
    return leaf->kind == LEAF_COPY && !strcmp(leaf->name, "aten::copy_") && leaf->inputs->count > 1 &&
           target_of(leaf)->tensor && source_of(leaf)->tensor;
}

bool aorta_remedy_turns(const struct leaf *leaf) {
    if (!is_copy(leaf)) return false;
    const struct aorta_input *from = source_of(leaf), *to = target_of(leaf);
    if (!from->strided || !to->strided || from->rank != to->rank) return false;
    for (int i = 0; i < from->rank; i++)
        if (from->size[i] > 1 && from->stride[i] != to->stride[i]) return true;
    return false;
}

/* The copy changes neither type nor layout: the program wants a copy. */
static bool is_plain_copy(const struct leaf *leaf) {
    if (!is_copy(leaf) || aorta_remedy_turns(leaf)) return false;
    const struct aorta_input *from = source_of(leaf), *to = target_of(leaf);
    return from->bytes == to->bytes && from->arithmetic == to->arithmetic && from->rank == to->rank;
}

static bool may_undo(const struct remedy_model *model, const struct leaf *leaf) {
    return is_copy(leaf) && aorta_remedy_elements(target_of(leaf)) > SMALL &&
           aorta_leaf_now_ns(model, leaf) >= leaf->ns;
}

static bool continues(const struct leaf *before, const struct leaf *leaf) {
    const struct aorta_input *made = target_of(before), *read = source_of(leaf);
    return aorta_leaves_together(leaf, before) && read->bytes == made->bytes && read->arithmetic == made->arithmetic &&
           aorta_remedy_elements(made) == aorta_remedy_elements(target_of(leaf)) && same_layout(read, made);
}

/* Claims the copies [first, end) if the result has the type of the source. If only the layout differs, one copy stays.
 */
static bool claim_round_trip(struct remedy_model *model, size_t first, size_t end) {
    const struct aorta_input *a = source_of(&model->leaves[first]), *b = target_of(&model->leaves[end - 1]);
    int narrowest = a->bytes;
    double now_ns = 0, left_ns = 0;
    bool changes = false;
    if (end - first < 2 || a->bytes != b->bytes || a->arithmetic != b->arithmetic) return false;
    for (size_t i = first; i < end; i++) {
        if (target_of(&model->leaves[i])->bytes < narrowest) narrowest = target_of(&model->leaves[i])->bytes;
        now_ns += model->now_ns[i];
        changes |= !is_plain_copy(&model->leaves[i]);
    }
    if (narrowest < a->bytes || !changes) return false;
    if (!same_layout(a, b)) left_ns = 2 * aorta_remedy_bytes(a) / model->stream;
    if (left_ns >= now_ns) return false;
    for (size_t i = first; i < end; i++)
        aorta_remedy_claim(model, &model->leaves[i], model->now_ns[i] * left_ns / now_ns, 1);
    return true;
}

void aorta_remedy_casts(struct remedy_model *model) {
    for (size_t first = 0; first < model->leaf_count; first++) {
        size_t end = first;
        while (end < model->leaf_count && may_undo(model, &model->leaves[end]) &&
               (end == first || continues(&model->leaves[end - 1], &model->leaves[end])))
            end++;
        for (size_t last = end; last > first + 1; last--) {
            if (!claim_round_trip(model, first, last)) continue;
            first = last - 1;
            break;
        }
    }
}

/* ---- the loss's cast of logits ---- */

static bool widens(const struct leaf *leaf) {
    return is_copy(leaf) && source_of(leaf)->bytes == 2 && target_of(leaf)->arithmetic == AORTA_IN_FP32;
}

/* The last of the previous leaves that copies at least about as many elements to fp32; SIZE_MAX: none. */
static size_t cast_before(const struct remedy_model *model, size_t soft, double elements) {
    enum { REACH = 24 };
    for (size_t i = soft; i-- > 0 && soft - i < REACH;) {
        const struct leaf *leaf = &model->leaves[i];
        if (!aorta_leaves_together(leaf, &model->leaves[soft])) break;
        if (widens(leaf) && aorta_remedy_elements(target_of(leaf)) >= elements * 0.95) return i;
    }
    return SIZE_MAX;
}

static size_t log_softmax_backward(const struct remedy_model *model, size_t soft) {
    size_t at, end;
    const int64_t number = model->leaves[soft].forward;
    if (number < 0) return SIZE_MAX;
    aorta_remedy_backward(model, number, number, soft, &at, &end);
    for (; at < end; at++)
        if (model->leaves[model->by_backward[at]].op & AORTA_OP_LOG_SOFTMAX) return model->by_backward[at];
    return SIZE_MAX;
}

/* Removes the cast of the logits and the cast of their gradient. Both softmax kernels then read and write 16 bits. */
void aorta_remedy_logits(struct remedy_model *model) {
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        const struct aorta_input *logits = aorta_remedy_tensor(leaf, 0);
        if (strcmp(leaf->name, "aten::_log_softmax") != 0 || !logits || logits->arithmetic != AORTA_IN_FP32) continue;
        const size_t cast = cast_before(model, i, aorta_remedy_elements(logits));
        if (cast == SIZE_MAX || aorta_remedy_elements(logits) < SMALL) continue;
        const size_t backward = log_softmax_backward(model, i);
        aorta_remedy_claim(model, &model->leaves[cast], 0, 1);
        aorta_remedy_claim(model, leaf, aorta_leaf_now_ns(model, leaf) / 2, 0);
        if (backward == SIZE_MAX) continue;
        aorta_remedy_claim(model, &model->leaves[backward], model->now_ns[backward] / 2, 0);
        /* The next copy to 16 bits narrows the gradient. */
        for (size_t j = backward + 1; j < model->leaf_count && j < backward + 8; j++) {
            const struct leaf *next = &model->leaves[j];
            if (next->kind != LEAF_COPY || next->inputs->count < 2 || target_of(next)->bytes != 2) continue;
            if (source_of(next)->bytes == 4 && aorta_remedy_elements(source_of(next)) >= aorta_remedy_elements(logits))
                aorta_remedy_claim(model, next, 0, 1);
            break;
        }
    }
}

/* ---- inference: weights that each step casts again ---- */

/* PyTorch's name of kernels that copy fp32 to 16 bits. */
static bool narrows(const struct leaf *leaf) {
    return strstr(leaf->kernel, "float16_copy_kernel") != NULL;
}

/* Narrow weights are widened, and perhaps scaled, directly before their product. Returns the first of these leaves;
 * `product` if there are none. Widening that takes longer than the product must be of weights: activations are smaller.
 */
static size_t widened_before(const struct remedy_model *model, size_t product) {
    enum { MOST = 3 };
    double ns = 0;
    for (size_t i = product; i > 0 && product - i < MOST && aorta_leaf_follows(model, i - 1, product); i--) {
        const struct leaf *leaf = &model->leaves[i - 1];
        if (!aorta_leaf_moves(leaf)) break;
        ns += leaf->ns;
        if (ns <= model->leaves[product].ns) continue;
        if (narrows(leaf)) break;
        if (strstr(leaf->kernel, "copy_kernel") || strcasestr(leaf->kernel, "dequantize")) return i - 1;
    }
    return product;
}

/* Each pass widens the weights again. Once would be enough, if memory allows. */
static void claim_widened(struct remedy_model *model) {
    static const double EACH = 0.8;
    size_t products = 0, widened = 0;
    for (size_t i = 0; i < model->leaf_count; i++) {
        if (!aorta_leaf_multiplies(&model->leaves[i])) continue;
        products++;
        widened += widened_before(model, i) < i;
    }
    if (!products || (double)widened < EACH * (double)products) return;
    model->remedies->widens = true;
    for (size_t i = 0; i < model->leaf_count; i++)
        for (size_t j = aorta_leaf_multiplies(&model->leaves[i]) ? widened_before(model, i) : i; j < i; j++)
            aorta_remedy_claim(model, &model->leaves[j], 0, aorta_leaf_work(&model->leaves[j]));
}

/* Without gradients, autocast casts the weights for each product in 16 bits again. Other programs have fewer casts, at
 * norms only. */
void aorta_remedy_weights(struct remedy_model *model) {
    static const double EACH = 0.8;
    size_t products = 0, casts = 0;
    if (model->own || model->rank->trains) return;
    claim_widened(model);
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        products += aorta_leaf_multiplies(leaf) && (leaf->math == MATH_HALF || leaf->kernels_any & AORTA_KERNEL_HALF);
        casts += narrows(leaf);
    }
    if (!products || (double)casts < EACH * (double)products) return;
    (void)aorta_remedy_unsized(model);
    for (size_t i = 0; i < model->leaf_count; i++)
        if (narrows(&model->leaves[i]))
            aorta_remedy_claim(model, &model->leaves[i], 0, aorta_leaf_work(&model->leaves[i]));
}

/* ---- a cache that grows ---- */

/* A copy of rows that takes at least 30% of the time of attention. */
static bool gathers_cache(const struct leaf *leaf, double attention_ns) {
    static const double OF_ATTENTION = 0.3;
    return leaf->ns >= OF_ATTENTION * attention_ns && aorta_remedy_looks_up(leaf);
}

/* Beam search copies the keys and values of each layer into the order of the remaining beams: two copies per attention.
 * Programs that store the order instead need no copies. */
static void claim_reordered(struct remedy_model *model) {
    static const double NEAR = 0.05;
    double attentions = 0, attention_ns = 0, gathers = 0;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        if (!leaf->counted || !(leaf->kernels_any & AORTA_KERNEL_FUSED_ATTENTION)) continue;
        attentions++;
        attention_ns += leaf->ns;
    }
    if (!(attentions > 0)) return;
    attention_ns /= attentions;
    for (size_t i = 0; i < model->leaf_count; i++)
        gathers += model->leaves[i].counted && gathers_cache(&model->leaves[i], attention_ns);
    if (!(fabs(gathers - 2 * attentions) <= NEAR * gathers)) return;
    for (size_t i = 0; i < model->leaf_count; i++)
        if (gathers_cache(&model->leaves[i], attention_ns))
            aorta_remedy_claim(model, &model->leaves[i], 0, aorta_leaf_work(&model->leaves[i]));
    model->remedies->reorders = gathers > 0;
}

/* Attention of one token reads keys and values once, as their copies do. Other copies before attention take less time
 * than attention, which reads more than one of them. */
void aorta_remedy_cache(struct remedy_model *model) {
    enum { REACH = 12 };
    static const double OF_ATTENTION = 0.8, ALIKE = 0.1, NEW_TOKEN_NS = 3000;
    if (model->own) return;
    if (!model->rank->trains) claim_reordered(model); /* not rough, as these copies disappear completely */
    (void)aorta_remedy_unsized(model);
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *attention = &model->leaves[i];
        size_t found[2], count = 0;
        if (!(attention->kernels_any & AORTA_KERNEL_FUSED_ATTENTION)) continue;
        for (size_t j = i;
             j-- > 0 && i - j <= REACH && count < 2 && aorta_leaves_together(attention, &model->leaves[j]);) {
            const bool concatenates = strstr(model->leaves[j].kernel, "CatArrayBatchedCopy") != NULL;
            if (concatenates && model->leaves[j].ns >= OF_ATTENTION * attention->ns) found[count++] = j;
        }
        if (count < 2) continue;
        const double keys_ns = model->leaves[found[1]].ns, values_ns = model->leaves[found[0]].ns;
        if (fabs(keys_ns - values_ns) > ALIKE * fmax(keys_ns, values_ns)) continue;
        for (int k = 0; k < 2; k++) aorta_remedy_claim(model, &model->leaves[found[k]], NEW_TOKEN_NS, 0);
    }
}

/* ---- NCHW ---- */

static bool is_nchw(const struct leaf *leaf) {
    const struct aorta_input *x = aorta_remedy_matrix(leaf, 0);
    return x && x->rank == 4 && x->strided && x->size[1] > 1 && x->stride[1] != 1;
}

/* Norms in NHWC reach about 0.4 of the streaming rate. */
double aorta_remedy_norm_ns(const struct remedy_model *model, const struct leaf *leaf, double scale) {
    static const double ROWS = 0.4, PASSES = 3;
    return PASSES * scale * aorta_remedy_bytes(aorta_remedy_tensor(leaf, 0)) / (ROWS * model->stream);
}

static bool halves(const struct remedy_model *model, const struct leaf *leaf) {
    const struct aorta_input *x = aorta_remedy_tensor(leaf, 0);
    return model->halved && x && x->arithmetic == AORTA_IN_FP32;
}

/* PyTorch's group norm needs NCHW. In NHWC it copies its input to NCHW and the result back. */
static double group_norm_copies_ns(const struct remedy_model *model, const struct leaf *leaf) {
    const struct aorta_input *x = aorta_remedy_tensor(leaf, 0);
    return x && strstr(leaf->name, "group_norm") ? 4 * aorta_remedy_bytes(x) / (0.5 * model->stream) : 0;
}

static bool uses_matrix_units(const struct leaf *leaf) {
    return leaf->kind == LEAF_CONVOLUTION && (leaf->math == MATH_HALF || leaf->math == MATH_TF32) &&
           aorta_remedy_matrix(leaf, 0) && aorta_remedy_matrix(leaf, 0)->rank == 4;
}

static bool worth_nhwc(const struct remedy_model *model) {
    size_t convolutions = 0, nchw = 0;
    double saved_ns = 0, copies_ns = 0;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        if (uses_matrix_units(leaf)) {
            convolutions++;
            nchw += is_nchw(leaf);
            saved_ns += leaf->convert_ns;
        }
        copies_ns += group_norm_copies_ns(model, leaf);
    }
    return convolutions && nchw * 2 >= convolutions && saved_ns > copies_ns;
}

/* The time of bilinear interpolation in NHWC, by the elements of its larger side (H100, 16 to 256 channels, factors of
 * 2 to 8). The backward pass takes longer if the channels are no multiple of 8, as it adds two 16-bit values at once.
 * In NCHW, neighbours add to the same address, and few pixels use few threads. No gradient took less than a quarter of
 * its time in NCHW. NaN: unknown. */
static double interpolation_ns(const struct leaf *leaf) {
    static const double FORWARD_NS = 8.9e-3, BACKWARD_NS = 14e-3, ODD_NS = 20e-3, ODD_HALF_NS = 45e-3;
    static const double LEAST = 0.25;
    const struct aorta_input *x = aorta_remedy_tensor(leaf, 0);
    if (!x || x->rank != 4 || x->size[1] < 16 || !strstr(leaf->name, "upsample_bilinear2d")) return NAN;
    const double elements = aorta_remedy_elements(x);
    if (!strstr(leaf->name, "backward"))
        return leaf->output_count && leaf->outputs[0].elements > elements ? FORWARD_NS * leaf->outputs[0].elements
                                                                          : NAN;
    const double each_ns = x->size[1] % 8 == 0 ? BACKWARD_NS : x->bytes == 2 ? ODD_HALF_NS : ODD_NS;
    return fmax(elements * each_ns, LEAST * leaf->ns);
}

/* In NHWC, PyTorch's group norm copies its input to NCHW and the result back, which takes about twice the time of its
 * kernels. PyTorch's batch norm of NCHW uses one block per channel. NHWC took 0.21 to 0.50 of its time in eight
 * networks of torchvision (bf16, H200). */
static void unsized_layout(struct remedy_model *model) {
    static const double NHWC_NORM = 0.4;
    double converting_ns = 0, copies_ns = 0;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        converting_ns += leaf->convert_ns;
        if (leaf->kernels_any & AORTA_KERNEL_GROUP_NORM) copies_ns += 2 * leaf->ns;
    }
    for (size_t i = 0; i < model->leaf_count && converting_ns > copies_ns; i++) {
        const struct leaf *leaf = &model->leaves[i];
        const bool alone = leaf->convert_ns >= leaf->ns;
        if (leaf->convert_ns > 0)
            aorta_remedy_claim(model, leaf, aorta_leaf_now_ns(model, leaf) - leaf->convert_ns,
                               alone ? leaf->kernels : 0);
        else if (leaf->kernels_any & AORTA_KERNEL_PLANE_NORM)
            aorta_remedy_claim(model, leaf, NHWC_NORM * aorta_leaf_now_ns(model, leaf), 0);
    }
}

/* A 3-D U-Net with instance norms took 58 ms in channels_last_3d, and 47 ms without (H200, TF32). Instance norms copy
 * their input to NCHW. 1-D convolutions have no NHWC. */
static bool stays_nchw(const struct aorta_trace *trace) {
    static const char *const names[] = {"conv3d", "pool3d", "instance_norm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (aorta_trace_has_text(trace, names[i])) return true;
    return aorta_trace_has_text(trace, "conv1d") && !aorta_trace_has_text(trace, "conv2d");
}

void aorta_remedy_layout(struct remedy_model *model) {
    if (stays_nchw(model->trace)) return;
    if (aorta_remedy_unsized(model)) {
        unsized_layout(model);
        return;
    }
    if (!worth_nhwc(model)) return;
    AORTA_EACH (const struct leaf, leaf, model->leaves, model->leaf_count) {
        if (leaf->kind == LEAF_CONVOLUTION && leaf->ns > 0)
            aorta_remedy_claim(model, leaf,
                               aorta_leaf_now_ns(model, leaf) -
                                   aorta_remedy_converting_ns(model, leaf, halves(model, leaf) ? 0.5 : 1),
                               0);
        else if (leaf->op & AORTA_OP_TWO_PASSES && !strstr(leaf->name, "group_norm") && aorta_remedy_tensor(leaf, 0) &&
                 !(leaf->kernels_all & AORTA_KERNEL_CHANNELS_LAST))
            aorta_remedy_claim(model, leaf, aorta_remedy_norm_ns(model, leaf, halves(model, leaf) ? 0.5 : 1), 0);
        const double enlarged_ns = is_nchw(leaf) ? interpolation_ns(leaf) : NAN;
        if (!isnan(enlarged_ns)) aorta_remedy_claim(model, leaf, enlarged_ns, 0);
    }
}

/* ---- chains ---- */

enum { LONGEST_CHAIN = 256, KINDS = 48 };

/* Tensors of one size and type. `ready`: written by the chain; `needed`: read by the present leaf; `outside`: read from
 * outside of the chain. */
struct supply {
    double elements;
    int bytes, ready, needed, outside;
};

struct chain {
    size_t leaves[LONGEST_CHAIN];
    size_t count;
    struct supply kinds[KINDS];
    int kind_count;
};

static struct supply *kind_in(struct chain *chain, double elements, int bytes) {
    for (int i = 0; i < chain->kind_count; i++)
        if (chain->kinds[i].elements == elements && chain->kinds[i].bytes == bytes) return &chain->kinds[i];
    if (chain->kind_count == KINDS) return &chain->kinds[KINDS - 1];
    chain->kinds[chain->kind_count] = (struct supply){elements, bytes, 0, 0, 0};
    return &chain->kinds[chain->kind_count++];
}

/* Counts the inputs of a leaf that have about the size of the chain. A copy has one input, its source. */
static void need_inputs(struct chain *chain, const struct leaf *leaf, double size) {
    const bool copies = leaf->op & AORTA_OP_COPY && !strcmp(leaf->name, "aten::copy_");
    for (int i = 0; i < chain->kind_count; i++) chain->kinds[i].needed = 0;
    for (int i = copies ? 1 : 0; i < leaf->inputs->count; i++) {
        const struct aorta_input *input = &leaf->inputs->items[i];
        if (leaf->op & AORTA_OP_FILLS || (!input->tensor && !input->list)) continue;
        const double elements = aorta_remedy_elements(input);
        if (elements * 8 >= size) kind_in(chain, elements, input->list ? 4 : input->bytes)->needed++;
    }
}

static void pass(struct chain *chain, const struct leaf *leaf, double size) {
    need_inputs(chain, leaf, size);
    AORTA_EACH (struct supply, kind, chain->kinds, chain->kind_count) {
        const int taken = kind->needed < kind->ready ? kind->needed : kind->ready;
        if (kind->needed - taken > kind->outside) kind->outside = kind->needed - taken;
        kind->ready -= taken;
    }
    for (int i = 0; i < leaf->output_count; i++)
        if (leaf->outputs[i].elements * 8 >= size)
            kind_in(chain, leaf->outputs[i].elements, leaf->outputs[i].bytes)->ready++;
}

/* A norm that has to find the mean of its input reads the input twice. */
static bool reads_twice(const struct leaf *leaf) {
    const bool norm = leaf->op & AORTA_OP_TWO_PASSES || leaf->kernels_any & AORTA_KERNEL_BATCH_NORM;
    return norm && !(leaf->kernels_all & AORTA_KERNEL_KNOWN_MEAN);
}

/* Repetitions of one operation on equal tensors, as in a benchmark, are no chain. */
static bool repeats(const struct remedy_model *model, const size_t *leaves, size_t count) {
    enum { OFTEN = 3 };
    size_t alike = 1;
    while (alike < count && aorta_remedy_compare(model, leaves[0], leaves[alike]) == 0) alike++;
    return alike == count && count >= OFTEN;
}

/* Leaves [from, end) of the chain have one size. One pass reads their inputs from outside of the chain and writes the
 * outputs of the last leaf. */
static void claim_chain(struct remedy_model *model, struct chain *chain, size_t from, size_t end, double size) {
    double bytes = 0, again = 0;
    uint32_t kernels = 0;
    bool computes = false, turns = false;
    chain->kind_count = 0;
    for (size_t i = from; i < end; i++) {
        const struct leaf *leaf = &model->leaves[chain->leaves[i]];
        const struct aorta_input *first = aorta_remedy_tensor(leaf, 0);
        kernels += leaf->kernels;
        computes |= !is_plain_copy(leaf);
        turns |= aorta_remedy_turns(leaf);
        pass(chain, leaf, size);
        if (reads_twice(leaf) && first) again += aorta_remedy_bytes(first) * (strstr(leaf->name, "backward") ? 2 : 1);
    }
    if (size < SMALL || !computes || (end - from == 1 && kernels < 2)) return;
    if (repeats(model, &chain->leaves[from], end - from)) return;
    for (int i = 0; i < chain->kind_count; i++)
        bytes += chain->kinds[i].elements * chain->kinds[i].bytes * chain->kinds[i].outside;
    const struct leaf *last = &model->leaves[chain->leaves[end - 1]];
    for (int i = 0; i < last->output_count; i++)
        if (last->outputs[i].elements * 8 >= size) bytes += last->outputs[i].elements * last->outputs[i].bytes;
    aorta_remedy_claim_together(model, &chain->leaves[from], end - from,
                                (bytes + again) / (model->fused * (again > 0 ? 0.75 : 1) * (turns ? 0.75 : 1)), 1);
}

struct sized {
    double size;
    size_t leaf;
};

static AORTA_ORDER(by_size, struct sized, AORTA_DOWN(size) AORTA_UP(leaf));

static void fuse_chain(struct remedy_model *model, struct chain *chain) {
    struct sized order[LONGEST_CHAIN];
    for (size_t i = 0; i < chain->count; i++)
        order[i] = (struct sized){model->leaves[chain->leaves[i]].largest, chain->leaves[i]};
    qsort(order, chain->count, sizeof *order, by_size);
    for (size_t i = 0; i < chain->count; i++) chain->leaves[i] = order[i].leaf;
    for (size_t i = 0, end; i < chain->count; i = end) {
        for (end = i + 1; end < chain->count && order[end].size == order[i].size;) end++;
        if (order[i].size > 0) claim_chain(model, chain, i, end, order[i].size);
    }
    chain->count = 0;
}

/* torch.exp(x, out=y): the program stores each result, and such operations need not depend on each other. An additional
 * argument shows the output. */
static bool has_given_output(const struct leaf *leaf) {
    static const struct {
        const char *name;
        int arguments;
    } pointwise[] = {{"exp", 1}, {"log", 1},  {"sqrt", 1}, {"rsqrt", 1},      {"neg", 1},  {"abs", 1},  {"sin", 1},
                     {"cos", 1}, {"tanh", 1}, {"silu", 1}, {"reciprocal", 1}, {"relu", 1}, {"gelu", 2}, {"sigmoid", 1},
                     {"mul", 2}, {"div", 2},  {"pow", 2},  {"add", 3},        {"sub", 3}};
    const int count = leaf->inputs->count;
    if (count < 2 || !leaf->inputs->items[count - 1].tensor || strncmp(leaf->name, "aten::", 6) != 0) return false;
    for (size_t i = 0; i < sizeof pointwise / sizeof *pointwise; i++)
        if (!strcmp(leaf->name + 6, pointwise[i].name)) return count > pointwise[i].arguments;
    return false;
}

static bool can_fuse(const struct leaf *leaf) {
    return aorta_leaf_moves(leaf) && !has_given_output(leaf);
}

/* A small operation does not end a chain, unless it is a product or its size is unknown. */
static bool ends_chain(const struct leaf *leaf) {
    return !can_fuse(leaf) && (leaf->largest >= SMALL || leaf->flops > 0 || leaf->largest <= 0);
}

/* ---- chains without shapes ---- */

enum { LONGEST_UNSIZED = 64 }; /* longer chains are loops over parameters, not parts of a model */

/* One pass moves at least the bytes of the longest kernel, at the rate of generated kernels. It takes longer if a norm
 * reads its input twice. Kernels with much less time have another size. */
static void claim_unsized(struct remedy_model *model, struct chain *chain) {
    static const double ONE_SIZE = 0.2, READ_TWICE = 0.75;
    double longest_ns = 0;
    size_t count = 0;
    bool again = false;
    for (size_t i = 0; i < chain->count; i++) longest_ns = fmax(longest_ns, model->now_ns[chain->leaves[i]]);
    for (size_t i = 0; i < chain->count; i++) {
        if (model->now_ns[chain->leaves[i]] < ONE_SIZE * longest_ns) continue;
        again |= reads_twice(&model->leaves[chain->leaves[i]]);
        chain->leaves[count++] = chain->leaves[i];
    }
    const double left_ns = longest_ns * model->stream / ((again ? READ_TWICE : 1) * model->fused);
    if (count > 1 && chain->count <= LONGEST_UNSIZED)
        aorta_remedy_claim_together(model, chain->leaves, count, left_ns, 1);
    chain->count = 0;
}

static void fuse_unsized(struct remedy_model *model) {
    struct chain chain = {.count = 0};
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        const bool is_short = leaf->ns <= AORTA_SMALL_NS;
        if (i > 0 && !aorta_leaf_follows(model, i, i - 1)) claim_unsized(model, &chain);
        if (aorta_leaf_now_ns(model, leaf) <= 0) continue;
        if (!aorta_leaf_moves(leaf) && (!is_short || leaf->kind == LEAF_PRODUCT)) claim_unsized(model, &chain);
        if (aorta_leaf_moves(leaf) && !is_short && chain.count < LONGEST_CHAIN) chain.leaves[chain.count++] = i;
    }
    claim_unsized(model, &chain);
}

void aorta_remedy_fusion(struct remedy_model *model) {
    if (aorta_remedy_unsized(model)) {
        fuse_unsized(model);
        return;
    }
    struct chain chain = {.count = 0};
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        if (i > 0 && !aorta_leaves_together(leaf, &model->leaves[i - 1])) fuse_chain(model, &chain);
        if (aorta_leaf_now_ns(model, leaf) <= 0) continue;
        if (ends_chain(leaf) || chain.count == LONGEST_CHAIN) fuse_chain(model, &chain);
        if (can_fuse(leaf)) chain.leaves[chain.count++] = i;
    }
    fuse_chain(model, &chain);
}
