#include "hwq/operations.h"

#include <math.h>

enum { A, B, P };

struct shape {
    struct aorta_products products;
    float scale;
    bool causal;
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
    const int64_t batch = ((const struct shape *)e->o->shape)->products.batch;
    if (side_by_side(t)) return hwq_at(e, input, row, number * t->width + column);
    return hwq_at(e, input, number * (t->rows / batch) + row, column);
}

/* Where an element of a tensor lies: in which matrix, and where in it. */
struct place {
    int64_t number, row, column;
};

static struct place place_of(const struct hwq_tensor *t, int64_t batch, int64_t row, int64_t column) {
    if (side_by_side(t)) return (struct place){column / t->width, row, column % t->width};
    return (struct place){row / (t->rows / batch), row % (t->rows / batch), column};
}

static struct shape shape_of(int64_t batch, const struct hwq_tensor *a, const struct hwq_tensor *b) {
    const struct matrix left = matrix_of(a, batch), right = matrix_of(b, batch);
    return (struct shape){.products = {.batch = batch,
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

static void set_output(struct shape *shape, const struct hwq_tensor *c) {
    shape->products.ldc = c->stride;
    shape->products.c_batch = matrix_of(c, shape->products.batch).distance;
}

static double flops(const struct hwq_operation *o) {
    const struct aorta_products *p = &((const struct shape *)o->shape)->products;
    return 2.0 * (double)p->batch * (double)p->m * (double)p->n * (double)p->k;
}

/* ---- products ---- */

static struct hwq_value product(const struct hwq_element *e, int64_t number, int64_t row, int64_t column) {
    const struct aorta_products *p = &((const struct shape *)e->o->shape)->products;
    struct hwq_sum sum = {0};
    for (int64_t k = 0; k < p->k; k++)
        hwq_sum_product(&sum, element_of(e, A, number, p->transpose_a ? k : row, p->transpose_a ? row : k),
                        element_of(e, B, number, p->transpose_b ? column : k, p->transpose_b ? k : column));
    return hwq_sum_end(&sum, HWQ_FP32);
}

static aorta_status run_products(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct shape *shape = o->shape;
    return aorta_products_run(stream, &shape->products, hwq_floats(o->in[A]), hwq_floats(o->in[B]),
                              hwq_floats(o->out[0]));
}

static struct hwq_value products_element(const struct hwq_element *e) {
    const struct shape *shape = e->o->shape;
    const struct place at = place_of(&e->o->out[e->output], shape->products.batch, e->row, e->column);
    return product(e, at.number, at.row, at.column);
}

static const struct hwq_kind products = {
    .name = "products", .span = AORTA_SPAN_GEMM, .run = run_products, .element = products_element, .flops = flops};

static struct hwq_tensor append(struct hwq_graph *g, const struct hwq_kind *kind, int s, struct shape *shape,
                                struct hwq_tensor a, struct hwq_tensor b, struct hwq_tensor p, const char *name) {
    const struct hwq_tensor c = hwq_output(g, shape->products.batch * shape->products.m, shape->products.n, name);
    const struct hwq_operation o = {
        .kind = kind, .stream = s, .wide = shape->products.transpose_a ? 1u << A : 0, .in = {a, b, p}, .out = {c}};
    if (c.memory) set_output(shape, &c);
    hwq_append(g, &o, shape, sizeof *shape);
    return c;
}

struct hwq_tensor hwq_products(struct hwq_graph *g, int s, int64_t batch, struct hwq_tensor a, struct hwq_tensor b) {
    struct shape shape = shape_of(batch, &a, &b);
    return append(g, &products, s, &shape, a, b, (struct hwq_tensor){0}, "products");
}

/* ---- scores ---- */

static aorta_status run_scores(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct shape *shape = o->shape;
    return aorta_scores_forward(stream, &shape->products, shape->scale, hwq_floats(o->in[A]), hwq_floats(o->in[B]),
                                hwq_floats(o->out[0]));
}

/* The exponentials are of differences to the element's own score. */
static struct hwq_value scores_element(const struct hwq_element *e) {
    const struct shape *shape = e->o->shape;
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
    .name = "scores", .span = AORTA_SPAN_GEMM, .run = run_scores, .element = scores_element, .flops = flops};

struct hwq_tensor hwq_scores(struct hwq_graph *g, int s, int64_t batch, float scale, struct hwq_tensor q,
                             struct hwq_tensor k) {
    k = hwq_transposed(k);
    struct shape shape = shape_of(batch, &q, &k);
    shape.scale = scale;
    return append(g, &scores, s, &shape, q, k, (struct hwq_tensor){0}, "attention weights");
}

static aorta_status run_scores_backward(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct shape *shape = o->shape;
    return aorta_scores_backward(stream, &shape->products, shape->scale, hwq_floats(o->in[A]), hwq_floats(o->in[B]),
                                 hwq_floats(o->in[P]), hwq_floats(o->out[0]));
}

static struct hwq_value scores_backward_element(const struct hwq_element *e) {
    const struct shape *shape = e->o->shape;
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
                                                .run = run_scores_backward,
                                                .element = scores_backward_element,
                                                .flops = flops};

struct hwq_tensor hwq_scores_backward(struct hwq_graph *g, int s, int64_t batch, float scale,
                                      struct hwq_tensor dcontext, struct hwq_tensor v, struct hwq_tensor p) {
    v = hwq_transposed(v);
    struct shape shape = shape_of(batch, &dcontext, &v);
    shape.scale = scale;
    return append(g, &scores_backward, s, &shape, dcontext, v, p, "gradients of scores");
}

/* ---- softmax ---- */

static aorta_status run_softmax(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct shape *shape = o->shape;
    const struct aorta_softmax softmax = {
        .rows = o->in[0].rows, .width = o->in[0].columns, .scale = shape->scale, .causal = shape->causal};
    return aorta_softmax_forward(stream, softmax, hwq_floats(o->in[0]), hwq_floats(o->out[0]));
}

static struct hwq_value softmax_element(const struct hwq_element *e) {
    const struct shape *shape = e->o->shape;
    const int64_t width = e->o->in[0].columns, last = shape->causal ? e->row % width : width - 1;
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

void hwq_softmax(struct hwq_graph *g, int s, struct hwq_tensor x, float scale, bool causal) {
    const struct shape shape = {.scale = scale, .causal = causal};
    const struct hwq_operation o = {.kind = &softmax, .stream = s, .in = {x}, .out = {x}};
    hwq_append(g, &o, &shape, sizeof shape);
}
