#include "hwq/operations.h"

#include <math.h>

enum { X, WEIGHT, BIAS, DY = X }; /* inputs; of the gradient of the weights: x, dy, and what it adds to */
enum { ROWS_DY = 1, OLD_WEIGHT, OLD_BIAS };

struct shape {
    struct aorta_linear linear;
    bool relu, tf32, accumulate;
};

struct hwq_layer hwq_layer(struct hwq_graph *g, uint64_t id, int64_t in, int64_t out, bool trained) {
    struct hwq_layer layer = {.in = in, .out = out};
    layer.weight = hwq_input(g, id, out, in, 1.0f / sqrtf((float)in), "weights");
    layer.bias = hwq_input(g, id + 1, 1, out, 0.1f, "biases");
    if (!trained) return layer;
    layer.dweight = hwq_result(g, AORTA_F32, out, in, "gradients of weights");
    layer.dbias = hwq_result(g, AORTA_F32, 1, out, "gradients of biases");
    return layer;
}

struct hwq_layer hwq_layer_in(struct hwq_tensor weights, struct hwq_tensor gradients, int64_t *used, int64_t in,
                              int64_t out, bool bias, int64_t unit) {
    int64_t same = *used;
    struct hwq_layer layer = {.in = in, .out = out};
    layer.weight = hwq_cut(weights, used, out, in, unit);
    layer.dweight = hwq_cut(gradients, &same, out, in, unit);
    if (!bias) return layer;
    layer.bias = hwq_cut(weights, used, 1, out, unit);
    layer.dbias = hwq_cut(gradients, &same, 1, out, unit);
    return layer;
}

double hwq_tolerance(enum aorta_dtype dtype) {
    return dtype == AORTA_F32 ? HWQ_FP32 : dtype == AORTA_F16 ? 2e-3 : 1e-2;
}

static struct aorta_linear shape_of(const struct hwq_layer *layer, int64_t rows) {
    return (struct aorta_linear){layer->weight.dtype, rows, layer->in, layer->out};
}

static double flops(const struct hwq_operation *o) {
    const struct aorta_linear *l = &((const struct shape *)o->shape)->linear;
    return 2.0 * (double)l->rows * (double)l->in * (double)l->out;
}

/* ---- forward ---- */

static aorta_status run_forward(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct shape *shape = o->shape;
    const void *x = hwq_at_device(o->in[X]), *weight = hwq_at_device(o->in[WEIGHT]), *bias = hwq_at_device(o->in[BIAS]);
    if (shape->relu)
        return aorta_linear_relu_forward(stream, shape->linear, x, weight, bias, hwq_at_device(o->out[0]), shape->tf32);
    return aorta_linear_forward(stream, shape->linear, x, weight, bias, hwq_at_device(o->out[0]));
}

static struct hwq_value forward_element(const struct hwq_element *e) {
    const struct shape *shape = e->o->shape;
    struct hwq_sum sum = {0};
    for (int64_t k = 0; k < shape->linear.in; k++)
        hwq_sum_product(&sum, hwq_at(e, X, e->row, k), hwq_at(e, WEIGHT, e->column, k));
    if (e->o->in[BIAS].memory) hwq_sum_add(&sum, hwq_at(e, BIAS, 0, e->column));
    struct hwq_value value = hwq_sum_end(&sum, shape->tf32 ? HWQ_TF32 : hwq_tolerance(shape->linear.dtype));
    if (shape->relu) value.value = fmax(value.value, 0.0);
    return value;
}

static const struct hwq_kind linear = {
    .name = "linear", .span = AORTA_SPAN_GEMM, .run = run_forward, .element = forward_element, .flops = flops};
static const struct hwq_kind linear_relu = {
    .name = "linear_relu", .span = AORTA_SPAN_GEMM, .run = run_forward, .element = forward_element, .flops = flops};

static struct hwq_tensor forward(struct hwq_graph *g, int s, const struct hwq_layer *layer, struct hwq_tensor x,
                                 const struct shape *shape, const char *name) {
    const struct hwq_tensor y = hwq_output(g, x.rows, layer->out, "output of a layer");
    const struct hwq_operation o = {.kind = shape->relu ? &linear_relu : &linear,
                                    .name = name,
                                    .stream = s,
                                    .in = {x, layer->weight, layer->bias},
                                    .out = {y}};
    hwq_append(g, &o, shape, sizeof *shape);
    return y;
}

struct hwq_tensor hwq_linear(struct hwq_graph *g, int s, const struct hwq_layer *layer, struct hwq_tensor x) {
    const struct shape shape = {.linear = shape_of(layer, x.rows)};
    return forward(g, s, layer, x, &shape, NULL);
}

struct hwq_operation *hwq_product(struct hwq_graph *g, int s, enum aorta_dtype dtype, int64_t m, int64_t n, int64_t k,
                                  const char *name) {
    const uint64_t id = 2 * (uint64_t)s;
    const struct hwq_tensor x = hwq_typed_input(g, id, dtype, m, k, 1.0f, "first matrix");
    const struct hwq_tensor weight = hwq_typed_input(g, id + 1, dtype, n, k, 1.0f, "second matrix");
    const struct hwq_layer layer = {.in = k, .out = n, .weight = weight};
    const struct shape shape = {.linear = {dtype, m, k, n}};
    const struct hwq_tensor y = hwq_result(g, dtype, m, n, name ? name : "output of a layer");
    forward(hwq_into(g, y), s, &layer, x, &shape, name);
    return g->last;
}

struct hwq_tensor hwq_linear_relu(struct hwq_graph *g, int s, const struct hwq_layer *layer, struct hwq_tensor x,
                                  bool tf32) {
    const struct shape shape = {.linear = shape_of(layer, x.rows), .relu = true, .tf32 = tf32};
    return forward(g, s, layer, x, &shape, NULL);
}

/* ---- the gradient of the input ---- */

static aorta_status run_input(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct shape *shape = o->shape;
    return aorta_linear_backward_input(stream, shape->linear, hwq_floats(o->in[DY]), hwq_floats(o->in[WEIGHT]),
                                       hwq_floats(o->out[0]), false);
}

static struct hwq_value input_element(const struct hwq_element *e) {
    struct hwq_sum sum = {0};
    for (int64_t k = 0; k < e->o->in[DY].columns; k++)
        hwq_sum_product(&sum, hwq_at(e, DY, e->row, k), hwq_at(e, WEIGHT, k, e->column));
    return hwq_sum_end(&sum, HWQ_FP32);
}

static const struct hwq_kind linear_input = {
    .name = "linear_input", .span = AORTA_SPAN_GEMM, .run = run_input, .element = input_element, .flops = flops};

struct hwq_tensor hwq_linear_input(struct hwq_graph *g, int s, const struct hwq_layer *layer, struct hwq_tensor dy) {
    const struct shape shape = {.linear = shape_of(layer, dy.rows)};
    const struct hwq_tensor dx = hwq_output(g, dy.rows, layer->in, "gradient of an input");
    const struct hwq_operation o = {.kind = &linear_input, .stream = s, .in = {dy, layer->weight}, .out = {dx}};
    hwq_append(g, &o, &shape, sizeof shape);
    return dx;
}

/* ---- the gradients of weights and biases ---- */

static aorta_status run_weight(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct shape *shape = o->shape;
    return aorta_linear_backward_weight(stream, shape->linear, hwq_floats(o->in[X]), hwq_floats(o->in[ROWS_DY]),
                                        hwq_floats(o->out[0]), hwq_floats(o->out[1]), shape->accumulate);
}

/* dweight [row, column] = Σ dy·x over the rows of the batch; dbias without x. */
static struct hwq_value weight_element(const struct hwq_element *e) {
    const struct shape *shape = e->o->shape;
    struct hwq_sum sum = {0};
    for (int64_t i = 0; i < shape->linear.rows; i++)
        if (e->output == 0)
            hwq_sum_product(&sum, hwq_at(e, ROWS_DY, i, e->row), hwq_at(e, X, i, e->column));
        else
            hwq_sum_add(&sum, hwq_at(e, ROWS_DY, i, e->column));
    if (shape->accumulate) hwq_sum_add(&sum, hwq_at(e, e->output == 0 ? OLD_WEIGHT : OLD_BIAS, e->row, e->column));
    return hwq_sum_end(&sum, HWQ_FP32);
}

static const struct hwq_kind linear_weight = {
    .name = "linear_weight", .span = AORTA_SPAN_GEMM, .run = run_weight, .element = weight_element, .flops = flops};

void hwq_linear_weight(struct hwq_graph *g, int s, const struct hwq_layer *layer, struct hwq_tensor x,
                       struct hwq_tensor dy, bool accumulate) {
    const struct shape shape = {.linear = shape_of(layer, x.rows), .accumulate = accumulate};
    struct hwq_operation o = {.kind = &linear_weight,
                              .stream = s,
                              .wide = 1u << X | 1u << ROWS_DY,
                              .in = {x, dy},
                              .out = {layer->dweight, layer->dbias}};
    if (accumulate) o.in[OLD_WEIGHT] = layer->dweight;
    if (accumulate) o.in[OLD_BIAS] = layer->dbias;
    hwq_append(g, &o, &shape, sizeof shape);
}
