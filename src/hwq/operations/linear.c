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
    return aorta_linear_forward(stream, &(struct aorta_linear_args){.shape = shape->linear,
                                                                    .x = hwq_at_device(o->in[X]),
                                                                    .weight = hwq_at_device(o->in[WEIGHT]),
                                                                    .bias = hwq_at_device(o->in[BIAS]),
                                                                    .y = hwq_at_device(o->out[0]),
                                                                    .relu = shape->relu,
                                                                    .tf32 = shape->tf32});
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
    return aorta_linear_backward_input(stream, &(struct aorta_linear_args){.shape = shape->linear,
                                                                           .dy = hwq_floats(o->in[DY]),
                                                                           .weight = hwq_floats(o->in[WEIGHT]),
                                                                           .dx = hwq_floats(o->out[0])});
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
    return aorta_linear_backward_weight(stream, &(struct aorta_linear_args){.shape = shape->linear,
                                                                            .x = hwq_floats(o->in[X]),
                                                                            .dy = hwq_floats(o->in[ROWS_DY]),
                                                                            .dweight = hwq_floats(o->out[0]),
                                                                            .dbias = hwq_floats(o->out[1]),
                                                                            .accumulate = shape->accumulate});
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

/* ---- products ---- */

enum { A, B, P };

struct batch_shape {
    struct aorta_products products;
    float scale;
};

/* ---- matrices of a tensor ---- */

static bool side_by_side(const struct hwq_tensor *t) {
    return t->columns > t->width;
}

struct matrix {
    int64_t rows, columns, distance;
};

static struct matrix matrix_of(const struct hwq_tensor *t, int64_t batch) {
    if (side_by_side(t)) return (struct matrix){t->rows, t->width, t->period};
    return (struct matrix){t->rows / batch, t->columns, t->rows / batch * t->stride};
}

/* Element [row, column] of matrix `number` of an input. */
static struct hwq_value element_of(const struct hwq_element *e, int input, int64_t number, int64_t row,
                                   int64_t column) {
    const struct hwq_tensor *t = &e->o->in[input];
    const int64_t batch = ((const struct batch_shape *)e->o->shape)->products.batch;
    if (side_by_side(t)) return hwq_at(e, input, row, number * t->width + column);
    return hwq_at(e, input, number * (t->rows / batch) + row, column);
}

/* An element of a tensor: its matrix, and its place in that matrix. */
struct place {
    int64_t number, row, column;
};

static struct place place_of(const struct hwq_tensor *t, int64_t batch, int64_t row, int64_t column) {
    if (side_by_side(t)) return (struct place){column / t->width, row, column % t->width};
    return (struct place){row / (t->rows / batch), row % (t->rows / batch), column};
}

static struct batch_shape batch_shape_of(int64_t batch, const struct hwq_tensor *a, const struct hwq_tensor *b) {
    const struct matrix left = matrix_of(a, batch), right = matrix_of(b, batch);
    return (struct batch_shape){.products = {.batch = batch,
                                             .m = a->transposed ? left.columns : left.rows,
                                             .n = b->transposed ? right.rows : right.columns,
                                             .k = a->transposed ? left.rows : left.columns,
                                             .transpose_a = a->transposed,
                                             .transpose_b = b->transposed,
                                             .lda = a->stride,
                                             .ldb = b->stride,
                                             .a_batch = left.distance,
                                             .b_batch = right.distance}};
}

static void set_output(struct batch_shape *shape, const struct hwq_tensor *c) {
    shape->products.ldc = c->stride;
    shape->products.c_batch = matrix_of(c, shape->products.batch).distance;
}

static double batch_flops(const struct hwq_operation *o) {
    const struct aorta_products *p = &((const struct batch_shape *)o->shape)->products;
    return 2.0 * (double)p->batch * (double)p->m * (double)p->n * (double)p->k;
}

/* ---- products ---- */

static struct hwq_value product(const struct hwq_element *e, int64_t number, int64_t row, int64_t column) {
    const struct aorta_products *p = &((const struct batch_shape *)e->o->shape)->products;
    struct hwq_sum sum = {0};
    for (int64_t k = 0; k < p->k; k++)
        hwq_sum_product(&sum, element_of(e, A, number, p->transpose_a ? k : row, p->transpose_a ? row : k),
                        element_of(e, B, number, p->transpose_b ? column : k, p->transpose_b ? k : column));
    return hwq_sum_end(&sum, HWQ_FP32);
}

static aorta_status run_products(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct batch_shape *shape = o->shape;
    return aorta_products_run(stream, &(struct aorta_products_args){.shape = shape->products,
                                                                    .a = hwq_floats(o->in[A]),
                                                                    .b = hwq_floats(o->in[B]),
                                                                    .c = hwq_floats(o->out[0])});
}

static struct hwq_value products_element(const struct hwq_element *e) {
    const struct batch_shape *shape = e->o->shape;
    const struct place at = place_of(&e->o->out[e->output], shape->products.batch, e->row, e->column);
    return product(e, at.number, at.row, at.column);
}

static const struct hwq_kind products = {.name = "products",
                                         .span = AORTA_SPAN_GEMM,
                                         .run = run_products,
                                         .element = products_element,
                                         .flops = batch_flops};

static struct hwq_tensor append(struct hwq_graph *g, const struct hwq_kind *kind, int s, struct batch_shape *shape,
                                struct hwq_tensor a, struct hwq_tensor b, struct hwq_tensor p, const char *name) {
    const struct hwq_tensor c = hwq_output(g, shape->products.batch * shape->products.m, shape->products.n, name);
    const struct hwq_operation o = {
        .kind = kind, .stream = s, .wide = shape->products.transpose_a ? 1u << A : 0, .in = {a, b, p}, .out = {c}};
    if (c.memory) set_output(shape, &c);
    hwq_append(g, &o, shape, sizeof *shape);
    return c;
}

struct hwq_tensor hwq_products(struct hwq_graph *g, int s, int64_t batch, struct hwq_tensor a, struct hwq_tensor b) {
    struct batch_shape shape = batch_shape_of(batch, &a, &b);
    return append(g, &products, s, &shape, a, b, (struct hwq_tensor){0}, "products");
}

/* ---- scores ---- */

/* With weights P: their gradient. */
static aorta_status run_scores(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct batch_shape *shape = o->shape;
    const struct aorta_scores_args args = {.shape = shape->products,
                                           .scale = shape->scale,
                                           .a = hwq_floats(o->in[A]),
                                           .b = hwq_floats(o->in[B]),
                                           .p = hwq_floats(o->in[P]),
                                           .out = hwq_floats(o->out[0])};
    return args.p ? aorta_scores_backward(stream, &args) : aorta_scores_forward(stream, &args);
}

/* Exponentials of differences to the element's own score overflow only if the result is negligible. */
static struct hwq_value scores_element(const struct hwq_element *e) {
    const struct batch_shape *shape = e->o->shape;
    const struct place at = place_of(&e->o->out[e->output], shape->products.batch, e->row, e->column);
    const struct hwq_value own = product(e, at.number, at.row, at.column);
    double sum = 0.0;
    for (int64_t j = 0; j < shape->products.n; j++) {
        const struct hwq_value other = product(e, at.number, at.row, j);
        if (isinf(other.allowed)) return hwq_unknown();
        sum += exp((double)shape->scale * (other.value - own.value));
    }
    return (struct hwq_value){1.0 / sum, 1e-7 + 3e-5 / sum};
}

static const struct hwq_kind scores = {
    .name = "scores", .span = AORTA_SPAN_GEMM, .run = run_scores, .element = scores_element, .flops = batch_flops};

struct hwq_tensor hwq_scores(struct hwq_graph *g, int s, int64_t batch, float scale, struct hwq_tensor q,
                             struct hwq_tensor k) {
    k = hwq_transposed(k);
    struct batch_shape shape = batch_shape_of(batch, &q, &k);
    shape.scale = scale;
    return append(g, &scores, s, &shape, q, k, (struct hwq_tensor){0}, "attention weights");
}

static struct hwq_value scores_backward_element(const struct hwq_element *e) {
    const struct batch_shape *shape = e->o->shape;
    const struct place at = place_of(&e->o->out[e->output], shape->products.batch, e->row, e->column);
    const double scale = (double)shape->scale;
    const struct hwq_value p = hwq_at(e, P, e->row, e->column), own = product(e, at.number, at.row, at.column);
    double along = 0.0, most = 0.0;
    for (int64_t j = 0; j < shape->products.n; j++) {
        const struct hwq_value dp = product(e, at.number, at.row, j);
        if (isinf(dp.allowed)) return hwq_unknown();
        along += element_of(e, P, at.number, at.row, j).value * dp.value;
        most = fmax(most, dp.allowed);
    }
    return (struct hwq_value){scale * p.value * (own.value - along), 2.0 * scale * p.value * most + 1e-30};
}

static const struct hwq_kind scores_backward = {.name = "scores_backward",
                                                .span = AORTA_SPAN_GEMM,
                                                .run = run_scores,
                                                .element = scores_backward_element,
                                                .flops = batch_flops};

struct hwq_tensor hwq_scores_backward(struct hwq_graph *g, int s, int64_t batch, float scale,
                                      struct hwq_tensor dcontext, struct hwq_tensor v, struct hwq_tensor p) {
    v = hwq_transposed(v);
    struct batch_shape shape = batch_shape_of(batch, &dcontext, &v);
    shape.scale = scale;
    return append(g, &scores_backward, s, &shape, dcontext, v, p, "gradients of scores");
}

/* ---- softmax ---- */

static aorta_status run_softmax(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct batch_shape *shape = o->shape;
    const struct aorta_softmax softmax = {
        .rows = o->in[0].rows, .width = o->in[0].columns, .scale = shape->scale, .causal = true};
    return aorta_softmax_forward(
        stream,
        &(struct aorta_softmax_args){.shape = softmax, .x = hwq_floats(o->in[0]), .out = hwq_floats(o->out[0])});
}

static struct hwq_value softmax_element(const struct hwq_element *e) {
    const struct batch_shape *shape = e->o->shape;
    const int64_t width = e->o->in[0].columns, last = e->row % width;
    const struct hwq_value own = hwq_at(e, 0, e->row, e->column);
    double sum = 0.0;
    if (e->column > last) return (struct hwq_value){0.0, 1e-7};
    for (int64_t j = 0; j <= last; j++) {
        const struct hwq_value other = hwq_at(e, 0, e->row, j);
        if (isinf(other.allowed)) return hwq_unknown();
        sum += exp((double)shape->scale * (other.value - own.value));
    }
    return (struct hwq_value){1.0 / sum, 1e-7 + 3e-5 / sum};
}

static const struct hwq_kind softmax = {.name = "softmax", .run = run_softmax, .element = softmax_element};

void hwq_softmax(struct hwq_graph *g, int s, struct hwq_tensor x, float scale) {
    const struct batch_shape shape = {.scale = scale};
    const struct hwq_operation o = {.kind = &softmax, .stream = s, .in = {x}, .out = {x}};
    hwq_append(g, &o, &shape, sizeof shape);
}

enum { QKV, KEYS, VALUES, POSITIONS }; /* inputs of attention */
enum { COUNTS = 2, OLD_KEYS, OLD_VALUES };

struct attention_shape {
    struct aorta_cache cache;
    int64_t first, queries;
};

/* ---- attention ---- */

static aorta_status run_attend(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct attention_shape *shape = o->shape;
    return aorta_cache_attend(stream, &(struct aorta_cache_attend_args){.shape = shape->cache,
                                                                        .first = shape->first,
                                                                        .queries = shape->queries,
                                                                        .qkv = hwq_floats(o->in[QKV]),
                                                                        .keys = hwq_floats(o->in[KEYS]),
                                                                        .values = hwq_floats(o->in[VALUES]),
                                                                        .positions = hwq_at_device(o->in[POSITIONS]),
                                                                        .out = hwq_floats(o->out[0])});
}

/* Element `column` of the key (or value) at time t of a sequence: cached, then new ones. */
static struct hwq_value key_at(const struct hwq_element *e, int input, int64_t sequence, int64_t cached, int64_t t,
                               int64_t column) {
    const struct aorta_cache *cache = &((const struct attention_shape *)e->o->shape)->cache;
    if (t < cached) return hwq_at(e, input, sequence * cache->window + t, column);
    return hwq_at(e, QKV, (t - cached) * cache->batch + sequence,
                  (input == KEYS ? 1 : 2) * cache->heads * cache->head_dim + column);
}

static struct hwq_value attend_element(const struct hwq_element *e) {
    const struct attention_shape *shape = e->o->shape;
    const struct aorta_cache *cache = &shape->cache;
    const int64_t own = shape->first + e->row / cache->batch, sequence = e->row % cache->batch;
    const int64_t head = e->column / cache->head_dim * cache->head_dim;
    const int64_t position = (int64_t)hwq_at(e, POSITIONS, 0, sequence).value;
    const int64_t cached = position < cache->window ? position : cache->window;
    double total = 0.0, value = 0.0, reference = 0.0;
    for (int64_t t = 0; t < cached + own + 1; t++) {
        struct hwq_sum sum = {0};
        for (int64_t d = 0; d < cache->head_dim; d++)
            hwq_sum_product(&sum, hwq_at(e, QKV, own * cache->batch + sequence, head + d),
                            key_at(e, KEYS, sequence, cached, t, head + d));
        const struct hwq_value v = key_at(e, VALUES, sequence, cached, t, e->column);
        if (sum.unknown || isinf(v.allowed)) return hwq_unknown();
        const double score = sum.value / sqrt((double)cache->head_dim);
        if (t == 0) reference = score;
        total += exp(score - reference);
        value += exp(score - reference) * v.value;
    }
    return (struct hwq_value){value / total, 1e-5 + 1e-4 * fabs(value / total)};
}

static const struct hwq_kind attend = {
    .name = "cache_attend", .run = run_attend, .element = attend_element, .samples = 8};

struct hwq_cache hwq_cache(struct hwq_graph *g, uint64_t id, struct aorta_cache shape, struct hwq_tensor positions) {
    const int64_t rows = shape.layers * shape.batch * shape.window, width = shape.heads * shape.head_dim;
    return (struct hwq_cache){shape, hwq_input(g, id, rows, width, 1.0f, "keys"),
                              hwq_input(g, id + 1, rows, width, 1.0f, "values"), positions};
}

struct hwq_tensor hwq_attend(struct hwq_graph *g, int s, const struct hwq_cache *cache, int64_t layer, int64_t first,
                             int64_t queries, struct hwq_tensor qkv) {
    const struct aorta_cache *c = &cache->shape;
    const struct attention_shape shape = {*c, first, queries};
    const int64_t rows = c->batch * c->window;
    const struct hwq_tensor out = hwq_output(g, queries * c->batch, c->heads * c->head_dim, "context");
    const struct hwq_operation o = {.kind = &attend,
                                    .stream = s,
                                    .in = {qkv, hwq_rows(cache->keys, layer * rows, rows),
                                           hwq_rows(cache->values, layer * rows, rows), cache->positions},
                                    .out = {out}};
    hwq_append(g, &o, &shape, sizeof shape);
    return out;
}

/* ---- new rows ---- */

static aorta_status run_append(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct attention_shape *shape = o->shape;
    return aorta_cache_append(stream, &(struct aorta_cache_append_args){.shape = shape->cache,
                                                                        .qkv = hwq_floats(o->in[0]),
                                                                        .keys = hwq_floats(o->out[0]),
                                                                        .values = hwq_floats(o->out[1]),
                                                                        .positions = hwq_at_device(o->in[1]),
                                                                        .counts = hwq_at_device(o->in[COUNTS])});
}

/* A row of the ring [layers · batch · window] has the last new position that maps to it, or its old contents. */
static struct hwq_value append_element(const struct hwq_element *e) {
    const int64_t row = e->row;
    const struct aorta_cache *cache = &((const struct attention_shape *)e->o->shape)->cache;
    const int64_t slot = row % cache->window, sequence = row / cache->window % cache->batch;
    const int64_t layer = row / cache->window / cache->batch;
    const int64_t position = (int64_t)hwq_at(e, 1, 0, sequence).value;
    const struct hwq_value counted =
        e->o->in[COUNTS].memory ? hwq_at(e, COUNTS, 0, sequence) : hwq_exact((double)cache->fresh);
    if (isinf(counted.allowed)) return counted;
    const int64_t fresh = fmin(counted.value, (double)cache->window);
    for (int64_t i = fresh - 1; i >= 0; i--)
        if ((position + i) % cache->window == slot)
            return hwq_at(e, 0, (layer * cache->fresh + i) * cache->batch + sequence,
                          (e->output + 1) * cache->heads * cache->head_dim + e->column);
    return hwq_at(e, e->output == 0 ? OLD_KEYS : OLD_VALUES, row, e->column);
}

static const struct hwq_kind attention_append = {
    .name = "cache_append", .run = run_append, .element = append_element, .moves = true};

void hwq_cache_append(struct hwq_graph *g, int s, const struct hwq_cache *cache, struct hwq_tensor qkv,
                      struct hwq_tensor counts) {
    const struct attention_shape shape = {.cache = cache->shape};
    const struct hwq_operation o = {.kind = &attention_append,
                                    .stream = s,
                                    .in = {qkv, cache->positions, counts, cache->keys, cache->values},
                                    .out = {cache->keys, cache->values}};
    hwq_append(g, &o, &shape, sizeof shape);
}

static aorta_status run_advance(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_cache_advance(stream, &(struct aorta_cache_advance_args){.batch = o->in[0].columns,
                                                                          .positions = hwq_at_device(o->out[0]),
                                                                          .counts = hwq_at_device(o->in[1]),
                                                                          .count = *(const int64_t *)o->shape});
}

static struct hwq_value advance_element(const struct hwq_element *e) {
    const struct hwq_value more =
        e->o->in[1].memory ? hwq_at(e, 1, 0, e->column) : hwq_exact((double)*(const int64_t *)e->o->shape);
    return (struct hwq_value){hwq_at(e, 0, e->row, e->column).value + more.value, more.allowed};
}

static const struct hwq_kind advance = {.name = "cache_advance", .run = run_advance, .element = advance_element};

void hwq_cache_advance(struct hwq_graph *g, int s, struct hwq_tensor positions, struct hwq_tensor counts,
                       int64_t count) {
    const struct hwq_operation o = {.kind = &advance, .stream = s, .in = {positions, counts}, .out = {positions}};
    hwq_append(g, &o, &count, sizeof count);
}

/* ---- block ---- */

struct hwq_block hwq_block(struct hwq_graph *g, uint64_t id, int64_t width) {
    return (struct hwq_block){.qkv = hwq_layer(g, id, width, 3 * width, false),
                              .out = hwq_layer(g, id + 2, width, width, false),
                              .up = hwq_layer(g, id + 4, width, 4 * width, false),
                              .down = hwq_layer(g, id + 6, 4 * width, width, false),
                              .norm1 = hwq_norm(g, id + 8, width),
                              .norm2 = hwq_norm(g, id + 10, width)};
}

struct hwq_tensor hwq_block_rest(struct hwq_graph *g, int s, const struct hwq_block *block, struct hwq_tensor context,
                                 struct hwq_tensor x) {
    struct hwq_norm_saved saved1 = {0}, saved2 = {0};
    const struct hwq_tensor out = hwq_linear(g, s, &block->out, context);
    const struct hwq_tensor y1 = hwq_norm_forward(g, s, &block->norm1, out, x, &saved1);
    const struct hwq_tensor inner = hwq_linear(g, s, &block->up, y1);
    const struct hwq_tensor active = hwq_gelu(g, s, inner);
    const struct hwq_tensor mlp = hwq_linear(g, s, &block->down, active);
    return hwq_norm_forward(g, s, &block->norm2, mlp, y1, &saved2);
}

aorta_status hwq_check_heads(const struct aorta_hwq *hwq, int64_t heads, int64_t width) {
    if (width % heads == 0 && width / heads <= 128) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "%s: %lld heads of a width of %lld; heads must divide it, into 128 at most",
                       hwq->workload->name, (long long)heads, (long long)width);
}
