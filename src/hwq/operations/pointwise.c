#include "hwq/operations.h"

#include <math.h>

static int64_t count_of(const struct hwq_tensor *t) {
    return t->rows * t->columns;
}

/* ---- GELU ---- */

static aorta_status run_gelu(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct aorta_gelu shape = {.dtype = AORTA_F32, .count = count_of(&o->in[0])};
    return aorta_gelu_forward(
        stream, &(struct aorta_gelu_args){.shape = shape, .x = hwq_floats(o->in[0]), .out = hwq_floats(o->out[0])});
}

static struct hwq_value gelu_element(const struct hwq_element *e) {
    const struct hwq_value x = hwq_at(e, 0, e->row, e->column);
    const double y = 0.5 * x.value * erfc(-x.value / sqrt(2.0));
    return (struct hwq_value){y, 1e-6 + 1e-6 * fabs(y) + 1.2 * x.allowed};
}

static const struct hwq_kind gelu = {.name = "gelu", .run = run_gelu, .element = gelu_element};

struct hwq_tensor hwq_gelu(struct hwq_graph *g, int s, struct hwq_tensor x) {
    const struct hwq_tensor y = hwq_output(g, x.rows, x.columns, "GELU");
    hwq_append(g, &(struct hwq_operation){.kind = &gelu, .stream = s, .in = {x}, .out = {y}}, NULL, 0);
    return y;
}

static aorta_status run_gelu_backward(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct aorta_gelu shape = {.dtype = AORTA_F32, .count = count_of(&o->in[0]), .width = o->in[0].columns};
    return aorta_gelu_backward(stream, &(struct aorta_gelu_args){.shape = shape,
                                                                 .x = hwq_floats(o->in[0]),
                                                                 .dy = hwq_floats(o->in[1]),
                                                                 .out = hwq_floats(o->out[0])});
}

static struct hwq_value gelu_backward_element(const struct hwq_element *e) {
    const struct hwq_value x = hwq_at(e, 0, e->row, e->column), dy = hwq_at(e, 1, e->row, e->column);
    if (isinf(x.allowed) || isinf(dy.allowed)) return hwq_unknown();
    const double v = x.value, rate = 0.5 * erfc(-v / sqrt(2.0)) + v * exp(-0.5 * v * v) / sqrt(2.0 * acos(-1.0));
    const double dx = dy.value * rate;
    return (struct hwq_value){dx, 1e-6 * (fabs(dx) + fabs(dy.value)) + 1.2 * dy.allowed + fabs(dy.value) * x.allowed +
                                      1e-30};
}

static const struct hwq_kind gelu_backward = {
    .name = "gelu_backward", .run = run_gelu_backward, .element = gelu_backward_element};

struct hwq_tensor hwq_gelu_backward(struct hwq_graph *g, int s, struct hwq_tensor x, struct hwq_tensor dy) {
    const struct hwq_tensor dx = hwq_output(g, x.rows, x.columns, "gradient before GELU");
    hwq_append(g, &(struct hwq_operation){.kind = &gelu_backward, .stream = s, .in = {x, dy}, .out = {dx}}, NULL, 0);
    return dx;
}

/* ---- ReLU ---- */

static aorta_status run_relu_backward(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_relu_backward(stream, &(struct aorta_relu_args){.count = count_of(&o->in[0]),
                                                                 .y = hwq_floats(o->in[0]),
                                                                 .dy = hwq_floats(o->in[1]),
                                                                 .dx = hwq_floats(o->out[0])});
}

static struct hwq_value relu_backward_element(const struct hwq_element *e) {
    return hwq_at(e, 0, e->row, e->column).value > 0.0 ? hwq_at(e, 1, e->row, e->column) : hwq_exact(0.0);
}

static const struct hwq_kind relu_backward = {
    .name = "relu_backward", .run = run_relu_backward, .element = relu_backward_element};

void hwq_relu_backward(struct hwq_graph *g, int s, struct hwq_tensor y, struct hwq_tensor dy) {
    hwq_append(g, &(struct hwq_operation){.kind = &relu_backward, .stream = s, .in = {y, dy}, .out = {dy}}, NULL, 0);
}

/* ---- sums ---- */

static aorta_status run_add(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_add(stream, hwq_floats(o->out[0]), hwq_floats(o->in[1]), AORTA_F32, count_of(&o->in[1]),
                     *(const float *)o->shape);
}

static struct hwq_value add_element(const struct hwq_element *e) {
    const struct hwq_value old = hwq_at(e, 0, e->row, e->column), more = hwq_at(e, 1, e->row, e->column);
    const double scale = (double)*(const float *)e->o->shape;
    if (isinf(old.allowed) || isinf(more.allowed)) return hwq_unknown();
    return (struct hwq_value){old.value + scale * more.value, 2e-7 * (fabs(old.value) + fabs(scale * more.value)) +
                                                                  old.allowed + fabs(scale) * more.allowed + 1e-30};
}

static const struct hwq_kind add = {.name = "add", .run = run_add, .element = add_element};

void hwq_add(struct hwq_graph *g, int s, struct hwq_tensor to, struct hwq_tensor from, float scale) {
    const struct hwq_operation o = {.kind = &add, .stream = s, .in = {to, from}, .out = {to}};
    hwq_append(g, &o, &scale, sizeof scale);
}

struct pieces {
    int64_t count;
    float scale;
};

static aorta_status run_sum_pieces(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct pieces *pieces = o->shape;
    return aorta_sum_pieces(stream, &(struct aorta_sum_pieces_args){.to = hwq_floats(o->out[0]),
                                                                    .from = hwq_floats(o->in[0]),
                                                                    .pieces = pieces->count,
                                                                    .count = count_of(&o->out[0]),
                                                                    .scale = pieces->scale});
}

static struct hwq_value sum_pieces_element(const struct hwq_element *e) {
    const struct pieces *pieces = e->o->shape;
    const double scale = (double)pieces->scale;
    struct hwq_sum sum = {0};
    for (int64_t p = 0; p < pieces->count; p++)
        hwq_sum_add(&sum, hwq_at(e, 0, p * e->o->out[e->output].rows + e->row, e->column));
    const struct hwq_value all = hwq_sum_end(&sum, 1e-6);
    return (struct hwq_value){scale * all.value, scale * all.allowed};
}

static const struct hwq_kind sum_pieces = {.name = "sum_pieces", .run = run_sum_pieces, .element = sum_pieces_element};

struct hwq_tensor hwq_sum_pieces(struct hwq_graph *g, int s, struct hwq_tensor from, int64_t pieces, float scale) {
    const struct pieces shape = {pieces, scale};
    const struct hwq_tensor to = hwq_output(g, from.rows / pieces, from.columns, "sum of pieces");
    hwq_append(g, &(struct hwq_operation){.kind = &sum_pieces, .stream = s, .in = {from}, .out = {to}}, &shape,
               sizeof shape);
    return to;
}

/* ---- moves ---- */

static aorta_status run_copy(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_copy(stream, hwq_at_device(o->out[0]), hwq_at_device(o->in[0]), hwq_bytes(o->in[0]));
}

static struct hwq_value copy_element(const struct hwq_element *e) {
    return hwq_at(e, 0, e->row, e->column);
}

static const struct hwq_kind copy = {
    .name = "copy", .span = AORTA_SPAN_COPY, .run = run_copy, .element = copy_element, .moves = true};

struct hwq_tensor hwq_copy(struct hwq_graph *g, int s, struct hwq_tensor from) {
    const struct hwq_tensor to = hwq_output(g, from.rows, from.columns, "copy");
    hwq_append(g, &(struct hwq_operation){.kind = &copy, .stream = s, .in = {from}, .out = {to}}, NULL, 0);
    return to;
}

static aorta_status run_embed(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct aorta_embedding shape = {
        .dtype = AORTA_F32, .rows = o->out[0].rows, .features = 1, .vocab = o->in[1].rows, .dim = o->in[1].columns};
    return aorta_embedding_forward(stream, &(struct aorta_embedding_args){.shape = shape,
                                                                          .ids = hwq_at_device(o->in[0]),
                                                                          .table = hwq_floats(o->in[1]),
                                                                          .y = hwq_floats(o->out[0])});
}

static struct hwq_value embed_element(const struct hwq_element *e) {
    const struct hwq_value id = hwq_at(e, 0, 0, e->row);
    if (isinf(id.allowed)) return id;
    if (id.value < 0.0 || id.value >= (double)e->o->in[1].rows) return hwq_exact(NAN);
    return hwq_at(e, 1, (int64_t)id.value, e->column);
}

static const struct hwq_kind embed = {.name = "embed", .run = run_embed, .element = embed_element, .moves = true};

struct hwq_tensor hwq_embed(struct hwq_graph *g, int s, struct hwq_tensor ids, struct hwq_tensor table) {
    const struct hwq_tensor y = hwq_output(g, ids.rows * ids.columns, table.columns, "rows of a table");
    const struct hwq_tensor flat = hwq_shaped(ids, 1, ids.rows * ids.columns);
    hwq_append(g, &(struct hwq_operation){.kind = &embed, .stream = s, .in = {flat, table}, .out = {y}}, NULL, 0);
    return y;
}
