/* Runs of our own recorder: operations as ranges name them ("linear_forward"), with shapes and a type, and what our
 * trainer makes of another precision or other heads. */
#include "base/dtype.h"
#include "verdict/remedy_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* By the beginning of their names. What stays in fp32 whatever the precision: the sparse pipeline's layers, the
 * optimizer's work. */
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

/* Rows of a gradient of weights are those of its two inputs, which it reads as columns. */
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

/* The kernel that bears the operation's arithmetic and bytes; NONE: none does. */
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
    if (!shape || shape->extent != AORTA_SHAPE_OPERATION) { /* of a pass, whose products are not known one by one */
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
/* Kernels that hold a whole head in shared memory: their limits (ops/attention.c), and what they reach of the 16-bit
 * peak, forward and backward, or of the streaming rate (64 × 16 heads of 64, 176 positions, on an H100). */
enum { WHOLE_POSITIONS = 192, WHOLE_WIDTH = 64, WHOLE_MULTIPLE = 8 };
static const double WHOLE_RATE = 0.11, WHOLE_STREAM = 0.45;

static const struct aorta_input *attention_of(const struct leaf *leaf) {
    const struct aorta_input *shape = leaf->kind == LEAF_ATTENTION ? aorta_remedy_tensor(leaf, 0) : NULL;
    return shape && shape->rank == WIDTH + 1 ? shape : NULL;
}

static bool fits_whole(const struct remedy_model *model, const struct aorta_input *shape, int64_t width) {
    return !model->amd && shape->size[POSITIONS] <= WHOLE_POSITIONS && shape->size[POSITIONS] % WHOLE_MULTIPLE == 0 &&
           width <= WHOLE_WIDTH && width % WHOLE_MULTIPLE == 0;
}

/* In 16 bits, of leaves of an operation whose shape fits. */
static double whole_ns(const struct remedy_model *model, const struct leaf *leaf, const struct aorta_input *shape) {
    const double moved = strstr(leaf->name, "backward") ? 8 : 4;
    const double bytes = moved * 2 * aorta_remedy_elements(shape);
    return fmax(leaf->flops / (WHOLE_RATE * model->peak[MATH_HALF]), bytes / (WHOLE_STREAM * model->stream));
}

/* Wide heads, or of another multiple, are computed in tiles without matrix units: more and narrower ones are as many
 * elements. */
void aorta_remedy_own_attention(struct remedy_model *model) {
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        const struct aorta_input *shape = attention_of(leaf);
        if (!shape || leaf->math != MATH_HALF || strstr(leaf->kernel, "whole")) continue;
        const int64_t elements = shape->size[HEADS] * shape->size[WIDTH];
        if (fits_whole(model, shape, WHOLE_WIDTH) && elements % WHOLE_WIDTH == 0)
            aorta_remedy_claim(model, i, whole_ns(model, leaf, shape), leaf->kernels - 1);
    }
}

/* ---- 16 bits ---- */

/* Gathers of parameters move half as much then, beside what each takes to begin. Reductions stay in fp32. */
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

bool aorta_remedy_own_bf16(struct remedy_model *model, size_t number) {
    const struct leaf *leaf = &model->leaves[number];
    const struct aorta_input *shape = attention_of(leaf), *first = aorta_remedy_tensor(leaf, 0);
    if (leaf->op & AORTA_OP_STAYS_FP32) return false;
    if (leaf->kind == LEAF_PRODUCT) return true;
    if (!first || first->arithmetic != AORTA_IN_FP32) return false;
    if (shape && fits_whole(model, shape, shape->size[WIDTH]))
        aorta_remedy_claim(model, number, whole_ns(model, leaf, shape), leaf->kernels - 1);
    else if (leaf->kind == LEAF_STREAM)
        aorta_remedy_claim(model, number, model->now_ns[number] / 2, 0);
    return false;
}
