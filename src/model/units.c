/* Operations in ranges, and the units made of them: an encoder layer and the root unit, forward and backward. */
#include "model/model_internal.h"

#include <string.h>

/* ---- shapes ---- */

static struct aorta_rng rng_of(const struct aorta_pass *pass, int64_t layer, uint32_t place) {
    return (struct aorta_rng){.seed = pass->seed,
                              .site = (uint32_t)layer * SITES_PER_LAYER + place,
                              .rank = pass->rank,
                              .micro = pass->micro,
                              .state = pass->state};
}

struct aorta_attention aorta_model_attention(const struct aorta_model *model, const struct aorta_pass *pass,
                                             int layer) {
    const struct aorta_model_shape *s = &model->shape;
    return (struct aorta_attention){.dtype = s->dtype,
                                    .batch = s->batch,
                                    .positions = s->positions,
                                    .heads = s->num_heads,
                                    .head_dim = s->model_dim / s->num_heads,
                                    .dropout = (float)s->dropout,
                                    .rng = rng_of(pass, layer, SITE_ATTENTION)};
}

static struct aorta_norm norm_shape(const struct aorta_model *model, const struct aorta_pass *pass, int64_t layer,
                                    uint32_t place, float dropout) {
    return (struct aorta_norm){.dtype = model->shape.dtype,
                               .rows = model->rows,
                               .width = model->shape.model_dim,
                               .eps = 1e-5f,
                               .dropout = dropout,
                               .rng = rng_of(pass, layer, place)};
}

static struct aorta_gelu gelu_shape(const struct aorta_model *model, const struct aorta_pass *pass, int64_t layer,
                                    uint32_t place) {
    return (struct aorta_gelu){.dtype = model->shape.dtype,
                               .count = model->rows * model->shape.mlp_hidden_dim,
                               .dropout = (float)model->shape.dropout,
                               .rng = rng_of(pass, layer, place),
                               .width = model->shape.mlp_hidden_dim};
}

/* ---- operations in ranges ---- */

struct op {
    const struct aorta_pass *pass;
    const char *tag;
    int layer; /* -1: root */
};

/* The work of an operation, for the roofline: type, dims, arithmetic, bytes (read and written at least, each tensor
 * once; 0: not counted). Here `tensors` of [rows, width] of the model's type are moved. */
static struct aorta_range_info op_moves(const struct aorta_model *model, int64_t tensors, int64_t width) {
    const enum aorta_dtype dtype = model->shape.dtype;
    return (struct aorta_range_info){.dtype = dtype,
                                     .bytes = tensors * model->rows * width * (int64_t)aorta_dtype_size(dtype),
                                     .dims = {{(int32_t)model->rows, (int32_t)width}}};
}

static aorta_status op_begin(struct op op, const char *function, struct aorta_range_info info) {
    info.function = function;
    info.tag = op.tag;
    info.role = op.pass->role;
    info.kind = AORTA_RANGE_COMPUTE;
    info.layer = op.layer;
    info.inner = op.pass->inner;
    return aorta_range_begin(op.pass->recorder, op.pass->stream, &info);
}

/* Adds a product, done so many times (forward once; backward twice, for input and weight). */
static void op_add_product(struct aorta_range_info *work, const struct aorta_linear *shape, int times) {
    const int64_t elements = shape->rows * shape->in + shape->in * shape->out + shape->rows * shape->out;
    work->flops += 2.0 * (double)shape->rows * (double)shape->in * (double)shape->out * times;
    work->bytes += elements * (int64_t)aorta_dtype_size(shape->dtype) * times;
}

/* Rows [first, first + count) of a product that is cut into `of` launches. Where a piece has at least eight rows it
 * begins at a multiple of eight: matrices keep the alignment that the matrix library's fast kernels need. There are no
 * empty pieces: of rows too few, each is a piece. */
struct piece {
    int index, of;
    int64_t first, count;
};

static int64_t piece_start(int64_t rows, int index, int of) {
    if (index == of) return rows;
    int64_t start = rows * index / of;
    return rows / of >= 8 ? start / 8 * 8 : start;
}

static struct piece first_piece(struct op op, int64_t rows) {
    int64_t of = op.pass->gemm_chunks < rows ? op.pass->gemm_chunks : rows;
    if (of < 1) of = 1;
    return (struct piece){.of = (int)of, .count = piece_start(rows, 1, (int)of)};
}

static void next_piece(struct piece *piece, int64_t rows) {
    piece->index++;
    piece->first += piece->count;
    piece->count = piece->index < piece->of ? piece_start(rows, piece->index + 1, piece->of) - piece->first : 0;
}

/* Bytes of a matrix [rows, width] before the piece. */
static size_t before(const struct piece *piece, enum aorta_dtype dtype, int64_t width) {
    return (size_t)(piece->first * width) * aorta_dtype_size(dtype);
}

static const void *from(const void *matrix, const struct piece *piece, enum aorta_dtype dtype, int64_t width) {
    return matrix ? (const char *)matrix + before(piece, dtype, width) : NULL;
}

static aorta_status begin_product(struct op op, const char *function, const struct aorta_linear *s) {
    struct aorta_range_info work = {.dtype = s->dtype, .dims = {{s->rows, s->in}, {s->in, s->out}}};
    op_add_product(&work, s, 1);
    return op_begin(op, function, work);
}

enum op_product { OP_FORWARD, OP_INPUT, OP_WEIGHT };

/* A product of a linear layer, in pass->gemm_chunks launches. Gradients of weights are added up in the order of the
 * rows. */
static aorta_status op_linear(struct op op, enum op_product product, const struct aorta_linear_args *whole) {
    static const struct {
        const char *name;
        aorta_status (*run)(struct aorta_stream *stream, const struct aorta_linear_args *args);
    } products[] = {[OP_FORWARD] = {"linear_forward", aorta_linear_forward},
                    [OP_INPUT] = {"linear_backward_input", aorta_linear_backward_input},
                    [OP_WEIGHT] = {"linear_backward_weight", aorta_linear_backward_weight}};
    const struct aorta_linear *s = &whole->shape;
    for (struct piece p = first_piece(op, s->rows); p.index < p.of; next_piece(&p, s->rows)) {
        const int64_t rows = p.count;
        const struct aorta_linear sizes[] = {[OP_FORWARD] = {s->dtype, rows, s->in, s->out},
                                             [OP_INPUT] = {s->dtype, rows, s->out, s->in},
                                             [OP_WEIGHT] = {s->dtype, s->out, rows, s->in}};
        struct aorta_linear_args part = *whole;
        part.shape.rows = rows;
        part.x = from(whole->x, &p, s->dtype, s->in), part.y = (void *)from(whole->y, &p, s->dtype, s->out);
        part.dy = from(whole->dy, &p, s->dtype, s->out), part.dx = (void *)from(whole->dx, &p, s->dtype, s->in);
        if (product == OP_WEIGHT) part.accumulate = op.pass->accumulate || p.index > 0;
        AORTA_TRY(begin_product(op, products[product].name, &sizes[product]));
        AORTA_TRY(products[product].run(op.pass->stream, &part));
        AORTA_TRY(aorta_range_end(op.pass->recorder));
    }
    return NULL;
}

/* Reports to the caller that the gradients of unit parameters [slot, slot + count) are queued. */
static aorta_status op_ready(struct aorta_model *model, const struct aorta_pass *pass, int unit, int slot, int count) {
    if (!pass->gradient_ready) return NULL;
    for (int s = slot + count - 1; s >= slot; s--)
        AORTA_TRY(pass->gradient_ready(pass->user, aorta_model_parameter_index(model, unit, s)));
    return NULL;
}

/* Reports to the caller that a backward pass is about to read a layer's output, and returns what to read. */
static aorta_status op_output(const struct aorta_model *model, const struct aorta_pass *pass, int layer,
                              const void **output) {
    struct aorta_layer_output o = aorta_model_output(model, layer);
    *output = o.copy ? o.copy : o.made;
    return o.copy && pass->output_needed ? pass->output_needed(pass->user, layer) : NULL;
}

/* ---- an encoder layer ----
 *   y1 = norm1(x + dropout(out_proj(attention(in_proj(x)))))
 *   y2 = norm2(y1 + dropout(linear2(dropout(gelu(linear1(y1)))))) */

struct layer_shapes {
    struct aorta_linear in_proj, out_proj, linear1, linear2;
};

static struct layer_shapes shapes_of(const struct aorta_model *model) {
    int64_t n = model->rows, e = model->shape.model_dim, h = model->shape.mlp_hidden_dim;
    enum aorta_dtype dtype = model->shape.dtype;
    return (struct layer_shapes){.in_proj = {dtype, n, e, 3 * e},
                                 .out_proj = {dtype, n, e, e},
                                 .linear1 = {dtype, n, e, h},
                                 .linear2 = {dtype, n, h, e}};
}

static const void *layer_input(const struct aorta_model *model, int layer) {
    return layer == 0 ? model->x0 : model->layers[layer - 1].y2;
}

static aorta_status linear_forward(struct op op, struct aorta_linear shape, const void *x,
                                   const struct aorta_unit_view *view, int slot, void *y) {
    const struct aorta_linear_args args = {
        .shape = shape, .x = x, .weight = view->weights[slot], .bias = view->weights[slot + 1], .y = y};
    return op_linear(op, OP_FORWARD, &args);
}

static int unit_of(const struct aorta_model *model, struct op op) {
    return op.layer < 0 ? (int)model->shape.num_layers : op.layer;
}

/* The gradients of a layer's weight and bias, which are `slot` and the next of the unit, then that of its input, added
 * to dx with `accumulate`. Without dbias another operation makes the bias's: it has the values. */
static aorta_status linear_backward(struct aorta_model *model, struct op op, const struct aorta_unit_view *view,
                                    int slot, struct aorta_linear_args args) {
    args.weight = view->weights[slot], args.dweight = view->gradients[slot];
    AORTA_TRY(op_linear(op, OP_WEIGHT, &args));
    AORTA_TRY(op_ready(model, op.pass, unit_of(model, op), slot, 2));
    return op_linear(op, OP_INPUT, &args);
}

/* Its weights are `slot` and the next of the unit. */
static aorta_status norm_forward(struct op op, const struct aorta_model *model, const struct aorta_unit_view *view,
                                 int slot, struct aorta_norm_args args) {
    args.gamma = view->weights[slot], args.beta = view->weights[slot + 1];
    AORTA_TRY(op_begin(op, "norm_forward", op_moves(model, args.residual ? 4 : 2, args.shape.width)));
    AORTA_TRY(aorta_norm_forward(op.pass->stream, &args));
    return aorta_range_end(op.pass->recorder);
}

/* Forward two products for each head, backward four. Query, key, value and the result, and backward their gradients. */
static struct aorta_range_info attention_work(const struct aorta_model *model, bool backward) {
    const struct aorta_model_shape *shape = &model->shape;
    const int64_t elements = model->rows * shape->model_dim, positions = shape->positions;
    struct aorta_range_info work = op_moves(model, backward ? 8 : 4, shape->model_dim);
    work.flops = (backward ? 8.0 : 4.0) * (double)elements * (double)positions;
    const int32_t dims[AORTA_RANGE_DIMS] = {(int32_t)(model->rows / positions), (int32_t)shape->num_heads,
                                            (int32_t)positions, (int32_t)(shape->model_dim / shape->num_heads)};
    memcpy(work.dims[0], dims, sizeof dims);
    return work;
}

struct aorta_range_info aorta_model_layer_work(const struct aorta_model *model, bool backward) {
    const struct layer_shapes s = shapes_of(model);
    const struct aorta_range_info attention = attention_work(model, backward);
    const struct aorta_linear *const products[] = {&s.in_proj, &s.out_proj, &s.linear1, &s.linear2};
    struct aorta_range_info work = {.flops = attention.flops,
                                    .bytes = attention.bytes,
                                    .attention_flops = attention.flops,
                                    .attention_bytes = attention.bytes};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        op_add_product(&work, products[i], backward ? 2 : 1);
    return work;
}

static aorta_status gelu(struct op op, const struct aorta_model *model, bool backward, struct aorta_gelu_args args) {
    AORTA_TRY(op_begin(op, backward ? "gelu_backward" : "gelu_forward",
                       op_moves(model, backward ? 3 : 2, model->shape.mlp_hidden_dim)));
    AORTA_TRY((backward ? aorta_gelu_backward : aorta_gelu_forward)(op.pass->stream, &args));
    return aorta_range_end(op.pass->recorder);
}

aorta_status aorta_model_layer_forward(struct aorta_model *model, const struct aorta_pass *pass, int layer,
                                       const struct aorta_unit_view *view) {
    const struct layer_memory *m = &model->layers[layer];
    const struct layer_tags *t = &model->tags[layer];
    struct layer_shapes s = shapes_of(model);
    const void *x = layer_input(model, layer);
    float dropout = (float)model->shape.dropout;

    AORTA_TRY(linear_forward((struct op){pass, t->in_proj, layer}, s.in_proj, x, view, IN_PROJ_WEIGHT, m->qkv));
    struct op attention = {pass, t->attention, layer};
    AORTA_TRY(op_begin(attention, "attention_forward", attention_work(model, false)));
    AORTA_TRY(aorta_attention_forward(pass->stream,
                                      &(struct aorta_attention_args){.shape = aorta_model_attention(model, pass, layer),
                                                                     .qkv = m->qkv,
                                                                     .out = m->context,
                                                                     .saved = m->attention,
                                                                     .scratch = model->attention_scratch}));
    AORTA_TRY(aorta_range_end(pass->recorder));
    AORTA_TRY(
        linear_forward((struct op){pass, t->out_proj, layer}, s.out_proj, m->context, view, OUT_PROJ_WEIGHT, m->sum1));
    const struct aorta_norm_args norm1 = {.shape = norm_shape(model, pass, layer, SITE_AFTER_ATTENTION, dropout),
                                          .x = m->sum1,
                                          .residual = x,
                                          .sum = m->sum1,
                                          .y = m->y1,
                                          .mean = m->mean1,
                                          .rstd = m->rstd1};
    AORTA_TRY(norm_forward((struct op){pass, t->norm1, layer}, model, view, NORM1_WEIGHT, norm1));

    AORTA_TRY(linear_forward((struct op){pass, t->linear1, layer}, s.linear1, m->y1, view, LINEAR1_WEIGHT, m->h));
    const struct aorta_gelu_args gelu_args = {
        .shape = gelu_shape(model, pass, layer, SITE_INSIDE_MLP), .x = m->h, .out = m->g};
    AORTA_TRY(gelu((struct op){pass, t->gelu, layer}, model, false, gelu_args));
    AORTA_TRY(linear_forward((struct op){pass, t->linear2, layer}, s.linear2, m->g, view, LINEAR2_WEIGHT, m->sum2));
    const struct aorta_norm_args norm2 = {.shape = norm_shape(model, pass, layer, SITE_AFTER_MLP, dropout),
                                          .x = m->sum2,
                                          .residual = m->y1,
                                          .sum = m->sum2,
                                          .y = m->y2,
                                          .mean = m->mean2,
                                          .rstd = m->rstd2};
    return norm_forward((struct op){pass, t->norm2, layer}, model, view, NORM2_WEIGHT, norm2);
}

static aorta_status norm_backward(struct aorta_model *model, struct op op, const struct aorta_unit_view *view, int slot,
                                  struct aorta_norm_backward_args args) {
    args.gamma = view->weights[slot];
    args.dgamma = view->gradients[slot], args.dbeta = view->gradients[slot + 1];
    args.accumulate = op.pass->accumulate;
    AORTA_TRY(op_begin(op, "norm_backward", op_moves(model, args.dx ? 4 : 3, args.shape.width)));
    AORTA_TRY(aorta_norm_backward(op.pass->stream, &args));
    AORTA_TRY(aorta_range_end(op.pass->recorder));
    return op_ready(model, op.pass, unit_of(model, op), slot, 2);
}

/* The operation that makes the gradient of a layer's output makes that of its bias too: it has the values.
 * From dy (gradient of y2) to the gradient of y1, left in model->dsum. */
static aorta_status mlp_backward(struct aorta_model *model, const struct aorta_pass *pass, int layer,
                                 const struct aorta_unit_view *view, void *dy) {
    const struct layer_memory *m = &model->layers[layer];
    const struct layer_tags *t = &model->tags[layer];
    float *const *g = view->gradients;
    struct layer_shapes s = shapes_of(model);
    float dropout = (float)model->shape.dropout;
    void *dx = dropout > 0 ? model->dx : NULL, *doutput = dx ? dx : model->dsum;

    const struct aorta_norm_backward_args norm2 = {.shape = norm_shape(model, pass, layer, SITE_AFTER_MLP, dropout),
                                                   .dy = dy,
                                                   .sum = m->sum2,
                                                   .mean = m->mean2,
                                                   .rstd = m->rstd2,
                                                   .dsum = model->dsum,
                                                   .dx = dx,
                                                   .dbias = g[LINEAR2_BIAS]};
    AORTA_TRY(norm_backward(model, (struct op){pass, t->norm2, layer}, view, NORM2_WEIGHT, norm2));
    AORTA_TRY(linear_backward(
        model, (struct op){pass, t->linear2, layer}, view, LINEAR2_WEIGHT,
        (struct aorta_linear_args){.shape = s.linear2, .x = m->g, .dy = doutput, .dx = model->dhidden}));
    const struct aorta_gelu_args gelu_args = {.shape = gelu_shape(model, pass, layer, SITE_INSIDE_MLP),
                                              .x = m->h,
                                              .dy = model->dhidden,
                                              .out = model->dhidden,
                                              .dbias = g[LINEAR1_BIAS],
                                              .accumulate = pass->accumulate};
    AORTA_TRY(gelu((struct op){pass, t->gelu, layer}, model, true, gelu_args));
    return linear_backward(
        model, (struct op){pass, t->linear1, layer}, view, LINEAR1_WEIGHT,
        (struct aorta_linear_args){
            .shape = s.linear1, .x = m->y1, .dy = model->dhidden, .dx = model->dsum, .accumulate = true});
}

/* From dy1 (gradient of y1) to the gradient of the layer's input, left in `dinput`. */
static aorta_status attention_backward(struct aorta_model *model, const struct aorta_pass *pass, int layer,
                                       const struct aorta_unit_view *view, const void *dy1, void *dinput) {
    const struct layer_memory *m = &model->layers[layer];
    const struct layer_tags *t = &model->tags[layer];
    float *const *g = view->gradients;
    struct layer_shapes s = shapes_of(model);
    float dropout = (float)model->shape.dropout;
    void *dx = dropout > 0 ? model->dx : NULL, *doutput = dx ? dx : dinput;
    struct op attention = {pass, t->attention, layer};

    const struct aorta_norm_backward_args norm1 = {.shape =
                                                       norm_shape(model, pass, layer, SITE_AFTER_ATTENTION, dropout),
                                                   .dy = dy1,
                                                   .sum = m->sum1,
                                                   .mean = m->mean1,
                                                   .rstd = m->rstd1,
                                                   .dsum = dinput,
                                                   .dx = dx,
                                                   .dbias = g[OUT_PROJ_BIAS]};
    AORTA_TRY(norm_backward(model, (struct op){pass, t->norm1, layer}, view, NORM1_WEIGHT, norm1));
    AORTA_TRY(linear_backward(
        model, (struct op){pass, t->out_proj, layer}, view, OUT_PROJ_WEIGHT,
        (struct aorta_linear_args){.shape = s.out_proj, .x = m->context, .dy = doutput, .dx = model->dcontext}));
    AORTA_TRY(op_begin(attention, "attention_backward", attention_work(model, true)));
    AORTA_TRY(aorta_attention_backward(
        pass->stream, &(struct aorta_attention_args){.shape = aorta_model_attention(model, pass, layer),
                                                     .qkv = m->qkv,
                                                     .out_in = m->context,
                                                     .saved_in = m->attention,
                                                     .dout = model->dcontext,
                                                     .dqkv = model->dqkv,
                                                     .scratch = model->attention_scratch,
                                                     .dbias = g[IN_PROJ_BIAS],
                                                     .accumulate = pass->accumulate}));
    AORTA_TRY(aorta_range_end(pass->recorder));
    const void *input = model->x0;
    if (layer > 0) AORTA_TRY(op_output(model, pass, layer - 1, &input));
    return linear_backward(model, (struct op){pass, t->in_proj, layer}, view, IN_PROJ_WEIGHT,
                           (struct aorta_linear_args){
                               .shape = s.in_proj, .x = input, .dy = model->dqkv, .dx = dinput, .accumulate = true});
}

/* model->dy holds the gradient of this layer's output on entry and of its input on return. */
aorta_status aorta_model_layer_backward(struct aorta_model *model, const struct aorta_pass *pass, int layer,
                                        const struct aorta_unit_view *view) {
    AORTA_TRY(mlp_backward(model, pass, layer, view, model->dy));
    return attention_backward(model, pass, layer, view, model->dsum, model->dy);
}

/* ---- the root unit ----
 * The root unit: x0 = dense_projection(dense) + embedding_projection(mean of embeddings) before the layers, and after
 * them scorer(norm(x)) and the loss. */

struct root_shapes {
    struct aorta_linear dense, projection, scorer0, scorer3;
    struct aorta_embedding embedding;
};

static struct root_shapes root_shapes_of(const struct aorta_model *model) {
    const struct aorta_model_shape *s = &model->shape;
    int64_t n = model->rows, e = s->model_dim, h = s->mlp_hidden_dim;
    return (struct root_shapes){
        .dense = {s->dtype, n, s->num_dense_features * s->dense_dim, e},
        .projection = {s->dtype, n, s->embedding_dim, e},
        .scorer0 = {s->dtype, n, e, h},
        .scorer3 = {s->dtype, n, h, 1},
        .embedding = aorta_model_embedding(model),
    };
}

static struct op root_op(const struct aorta_pass *pass, const char *tag) {
    return (struct op){pass, tag, -1};
}

static const void *dense_input(const struct aorta_model *model, const struct aorta_batch *batch) {
    return model->dense ? model->dense : batch->dense;
}

/* The data has no gradient. */
struct aorta_range_info aorta_model_input_work(const struct aorta_model *model, bool backward) {
    const struct root_shapes s = root_shapes_of(model);
    struct aorta_range_info work = {0};
    op_add_product(&work, &s.dense, 1);
    op_add_product(&work, &s.projection, backward ? 2 : 1);
    return work;
}

struct aorta_range_info aorta_model_head_work(const struct aorta_model *model) {
    const struct root_shapes s = root_shapes_of(model);
    struct aorta_range_info work = {0};
    op_add_product(&work, &s.scorer0, 3);
    op_add_product(&work, &s.scorer3, 3);
    return work;
}

static struct aorta_range_info cast_work(const struct aorta_model *model, const struct aorta_linear *dense) {
    struct aorta_range_info work = op_moves(model, 1, dense->in);
    work.bytes += dense->rows * dense->in * (int64_t)sizeof(float);
    return work;
}

aorta_status aorta_model_input_forward(struct aorta_model *model, const struct aorta_pass *pass,
                                       const struct aorta_batch *batch, const struct aorta_unit_view *root) {
    const void *const *w = root->weights;
    struct root_shapes s = root_shapes_of(model);
    if (model->dense) {
        struct op cast = root_op(pass, "dense_projection.cast");
        AORTA_TRY(op_begin(cast, "cast", cast_work(model, &s.dense)));
        AORTA_TRY(aorta_cast(pass->stream, model->dense, model->shape.dtype, batch->dense, AORTA_F32,
                             s.dense.rows * s.dense.in, 1));
        AORTA_TRY(aorta_range_end(pass->recorder));
    }
    struct op embedding = root_op(pass, "embedding");
    AORTA_TRY(op_begin(embedding, "embedding_forward", op_moves(model, 1, s.embedding.dim)));
    AORTA_TRY(aorta_embedding_forward(pass->stream, &(struct aorta_embedding_args){.shape = s.embedding,
                                                                                   .ids = batch->categorical,
                                                                                   .table = w[EMBEDDING_WEIGHT],
                                                                                   .y = model->embedded}));
    AORTA_TRY(aorta_range_end(pass->recorder));
    AORTA_TRY(linear_forward(root_op(pass, "dense_projection"), s.dense, dense_input(model, batch), root, DENSE_WEIGHT,
                             model->x0));
    struct op projection = root_op(pass, "embedding_projection");
    AORTA_TRY(linear_forward(projection, s.projection, model->embedded, root, PROJECTION_WEIGHT, model->projected));
    AORTA_TRY(op_begin(projection, "add", op_moves(model, 3, model->shape.model_dim)));
    AORTA_TRY(aorta_add(pass->stream, model->x0, model->projected, model->shape.dtype,
                        model->rows * model->shape.model_dim, 1));
    AORTA_TRY(aorta_range_end(pass->recorder));
    if (!model->order) return NULL;
    /* Here the stream may wait for the first layer's weights, at the end of the backward pass it waits for nothing. */
    AORTA_TRY(op_begin(embedding, "embedding_order", (struct aorta_range_info){0}));
    AORTA_TRY(aorta_embedding_order(
        pass->stream,
        &(struct aorta_embedding_args){.shape = s.embedding, .ids = batch->categorical, .order = model->order}));
    return aorta_range_end(pass->recorder);
}

static aorta_status head_forward(struct aorta_model *model, const struct aorta_pass *pass, const void *x,
                                 const struct aorta_unit_view *root) {
    struct root_shapes s = root_shapes_of(model);
    const struct aorta_norm_args norm = {
        .shape = norm_shape(model, pass, 0, 0, 0), .x = x, .y = model->z, .mean = model->mean, .rstd = model->rstd};
    const struct aorta_gelu_args gelu_args = {
        .shape = gelu_shape(model, pass, model->shape.num_layers, 0), .x = model->s0, .out = model->s1};
    AORTA_TRY(norm_forward(root_op(pass, "norm"), model, root, FINAL_NORM_WEIGHT, norm));
    AORTA_TRY(linear_forward(root_op(pass, "scorer.0"), s.scorer0, model->z, root, SCORER0_WEIGHT, model->s0));
    AORTA_TRY(gelu(root_op(pass, "scorer.gelu"), model, false, gelu_args));
    return linear_forward(root_op(pass, "scorer.3"), s.scorer3, model->s1, root, SCORER3_WEIGHT, model->scores);
}

static aorta_status loss(struct aorta_model *model, const struct aorta_pass *pass, const struct aorta_batch *batch) {
    struct op op = root_op(pass, "loss");
    const struct aorta_bce_args bce = {.dtype = model->shape.dtype,
                                       .count = model->rows,
                                       .weight = pass->loss_weight,
                                       .gradient_weight = pass->gradient_weight,
                                       .scores = model->scores,
                                       .target = batch->target,
                                       .importance = batch->importance,
                                       .state = pass->state,
                                       .dscores = model->dscores};
    AORTA_TRY(op_begin(op, "bce_with_logits", op_moves(model, 2, 1)));
    AORTA_TRY(aorta_bce_with_logits(pass->stream, &bce));
    return aorta_range_end(op.pass->recorder);
}

/* Leaves the gradient of the last layer's output in model->dy. */
static aorta_status head_backward(struct aorta_model *model, const struct aorta_pass *pass,
                                  const struct aorta_unit_view *root) {
    float *const *g = root->gradients;
    struct root_shapes s = root_shapes_of(model);
    const struct aorta_linear_args scorer3 = {
        .shape = s.scorer3, .x = model->s1, .dy = model->dscores, .dx = model->dhidden, .dbias = g[SCORER3_BIAS]};
    const struct aorta_gelu_args gelu_args = {.shape = gelu_shape(model, pass, model->shape.num_layers, 0),
                                              .x = model->s0,
                                              .dy = model->dhidden,
                                              .out = model->dhidden,
                                              .dbias = g[SCORER0_BIAS],
                                              .accumulate = pass->accumulate};
    struct aorta_norm_backward_args norm = {.shape = norm_shape(model, pass, 0, 0, 0),
                                            .dy = model->dsum,
                                            .mean = model->mean,
                                            .rstd = model->rstd,
                                            .dsum = model->dy};

    AORTA_TRY(linear_backward(model, root_op(pass, "scorer.3"), root, SCORER3_WEIGHT, scorer3));
    AORTA_TRY(gelu(root_op(pass, "scorer.gelu"), model, true, gelu_args));
    AORTA_TRY(linear_backward(
        model, root_op(pass, "scorer.0"), root, SCORER0_WEIGHT,
        (struct aorta_linear_args){.shape = s.scorer0, .x = model->z, .dy = model->dhidden, .dx = model->dsum}));
    AORTA_TRY(op_output(model, pass, (int)model->shape.num_layers - 1, &norm.sum));
    return norm_backward(model, root_op(pass, "norm"), root, FINAL_NORM_WEIGHT, norm);
}

aorta_status aorta_model_head(struct aorta_model *model, const struct aorta_pass *pass, const struct aorta_batch *batch,
                              const struct aorta_unit_view *root) {
    AORTA_TRY(head_forward(model, pass, model->layers[model->shape.num_layers - 1].y2, root));
    AORTA_TRY(loss(model, pass, batch));
    return head_backward(model, pass, root);
}

static aorta_status embedding_backward(struct aorta_model *model, const struct aorta_pass *pass,
                                       const struct aorta_batch *batch, float *dtable) {
    struct root_shapes s = root_shapes_of(model);
    struct op op = root_op(pass, "embedding");
    AORTA_TRY(op_begin(op, "embedding_backward", op_moves(model, 1, s.embedding.dim)));
    if (!pass->accumulate)
        AORTA_TRY(
            aorta_fill_bytes(pass->stream, dtable, 0, (size_t)(s.embedding.vocab * s.embedding.dim) * sizeof(float)));
    AORTA_TRY(aorta_embedding_backward(pass->stream, &(struct aorta_embedding_args){.shape = s.embedding,
                                                                                    .ids = batch->categorical,
                                                                                    .order = model->order,
                                                                                    .dy = model->dembedded,
                                                                                    .dtable = dtable,
                                                                                    .zeros = !pass->accumulate}));
    return aorta_range_end(op.pass->recorder);
}

/* The embedding first: its gradient is most of the unit's, and can be reduced during the products after it. */
aorta_status aorta_model_input_backward(struct aorta_model *model, const struct aorta_pass *pass,
                                        const struct aorta_batch *batch, const struct aorta_unit_view *root) {
    float *const *g = root->gradients;
    struct root_shapes s = root_shapes_of(model);
    int unit = (int)model->shape.num_layers;
    struct op projection = root_op(pass, "embedding_projection");
    const struct aorta_linear_args projected = {.shape = s.projection,
                                                .x = model->embedded,
                                                .weight = root->weights[PROJECTION_WEIGHT],
                                                .dy = model->dy,
                                                .dx = model->dembedded,
                                                .dweight = g[PROJECTION_WEIGHT],
                                                .dbias = g[PROJECTION_BIAS]};
    const struct aorta_linear_args dense = {.shape = s.dense,
                                            .x = dense_input(model, batch),
                                            .dy = model->dy,
                                            .dweight = g[DENSE_WEIGHT],
                                            .dbias = g[DENSE_BIAS]};
    AORTA_TRY(op_linear(projection, OP_INPUT, &projected));
    AORTA_TRY(embedding_backward(model, pass, batch, g[EMBEDDING_WEIGHT]));
    AORTA_TRY(op_ready(model, pass, unit, EMBEDDING_WEIGHT, 1));
    AORTA_TRY(op_linear(projection, OP_WEIGHT, &projected));
    AORTA_TRY(op_ready(model, pass, unit, PROJECTION_WEIGHT, 2));
    AORTA_TRY(op_linear(root_op(pass, "dense_projection"), OP_WEIGHT, &dense));
    return op_ready(model, pass, unit, DENSE_WEIGHT, 2);
}
