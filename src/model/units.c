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

/* ---- operations in ranges ---- */

/* An operation of a unit. */
struct op {
    struct aorta_model *model;
    const struct aorta_pass *pass;
    const struct aorta_unit_view *view;
    int layer; /* -1: root */
    const char *tag;
};

static struct op layer_op(struct op unit, enum layer_tag tag) {
    unit.tag = unit.model->tags[unit.layer][tag];
    return unit;
}

static struct op root_op(struct op unit, const char *tag) {
    unit.tag = tag;
    return unit;
}

static int unit_of(struct op op) {
    return op.layer < 0 ? (int)op.model->shape.num_layers : op.layer;
}

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
 * empty pieces: with fewer rows than launches, each row is a piece. */
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

static struct aorta_linear linear_shape(const struct aorta_model *model, int unit, int slot) {
    const struct aorta_parameter *weight = &model->parameters[aorta_model_parameter_index(model, unit, slot)];
    return (struct aorta_linear){model->shape.dtype, model->rows, weight->columns, weight->rows};
}

static void add_products(struct aorta_range_info *work, const struct aorta_model *model, int unit, int slot,
                         int times) {
    const struct aorta_linear shape = linear_shape(model, unit, slot);
    op_add_product(work, &shape, times);
}

/* Reports to the caller that the gradients of the unit's parameters [slot, slot + count) are queued. */
static aorta_status op_ready(struct op op, int slot, int count) {
    if (!op.pass->gradient_ready) return NULL;
    for (int s = slot + count - 1; s >= slot; s--)
        AORTA_TRY(op.pass->gradient_ready(op.pass->user, aorta_model_parameter_index(op.model, unit_of(op), s)));
    return NULL;
}

enum op_product { OP_FORWARD, OP_INPUT, OP_WEIGHT };

/* A product of a linear layer, whose weight and bias are `slot` and the next of the unit, in pass->gemm_chunks
 * launches. Gradients of weights are added up in the order of the rows; without dbias another operation makes the
 * bias's, as it has the values. */
static aorta_status op_linear(struct op op, enum op_product product, int slot, struct aorta_linear_args whole) {
    static const struct {
        const char *name;
        aorta_status (*run)(struct aorta_stream *stream, const struct aorta_linear_args *args);
    } products[] = {[OP_FORWARD] = {"linear_forward", aorta_linear_forward},
                    [OP_INPUT] = {"linear_backward_input", aorta_linear_backward_input},
                    [OP_WEIGHT] = {"linear_backward_weight", aorta_linear_backward_weight}};
    const struct aorta_linear s = linear_shape(op.model, unit_of(op), slot);
    whole.weight = op.view->weights[slot], whole.bias = op.view->weights[slot + 1];
    whole.dweight = op.view->gradients[slot];
    for (struct piece p = first_piece(op, s.rows); p.index < p.of; next_piece(&p, s.rows)) {
        const int64_t rows = p.count;
        const struct aorta_linear sizes[] = {[OP_FORWARD] = {s.dtype, rows, s.in, s.out},
                                             [OP_INPUT] = {s.dtype, rows, s.out, s.in},
                                             [OP_WEIGHT] = {s.dtype, s.out, rows, s.in}},
                                  *size = &sizes[product];
        struct aorta_range_info work = {.dtype = s.dtype, .dims = {{size->rows, size->in}, {size->in, size->out}}};
        struct aorta_linear_args part = whole;
        part.shape = (struct aorta_linear){s.dtype, rows, s.in, s.out};
        part.x = from(whole.x, &p, s.dtype, s.in), part.y = (void *)from(whole.y, &p, s.dtype, s.out);
        part.dy = from(whole.dy, &p, s.dtype, s.out), part.dx = (void *)from(whole.dx, &p, s.dtype, s.in);
        if (product == OP_WEIGHT) part.accumulate = op.pass->accumulate || p.index > 0;
        op_add_product(&work, size, 1);
        AORTA_TRY(op_begin(op, products[product].name, work));
        AORTA_TRY(products[product].run(op.pass->stream, &part));
        AORTA_TRY(aorta_range_end(op.pass->recorder));
    }
    return product == OP_WEIGHT ? op_ready(op, slot, 2) : NULL;
}

static aorta_status linear_forward(struct op op, int slot, const void *x, void *y) {
    return op_linear(op, OP_FORWARD, slot, (struct aorta_linear_args){.x = x, .y = y});
}

/* Its input's gradient is added to dx with `accumulate`. */
static aorta_status linear_backward(struct op op, int slot, struct aorta_linear_args args) {
    AORTA_TRY(op_linear(op, OP_WEIGHT, slot, args));
    return op_linear(op, OP_INPUT, slot, args);
}

/* Its weights are `slot` and the next of the unit; `place`: of dropout, on x. */
static struct aorta_norm norm_shape(struct op op, uint32_t place) {
    const struct aorta_model_shape *s = &op.model->shape;
    return (struct aorta_norm){.dtype = s->dtype,
                               .rows = op.model->rows,
                               .width = s->model_dim,
                               .eps = 1e-5f,
                               .dropout = op.layer < 0 ? 0 : (float)s->dropout,
                               .rng = rng_of(op.pass, unit_of(op), place)};
}

static aorta_status norm_forward(struct op op, int slot, uint32_t place, const void *x, const void *residual,
                                 const struct norm_memory *memory) {
    const struct aorta_norm_args args = {.shape = norm_shape(op, place),
                                         .x = x,
                                         .residual = residual,
                                         .gamma = op.view->weights[slot],
                                         .beta = op.view->weights[slot + 1],
                                         .sum = memory->sum,
                                         .y = memory->y,
                                         .mean = memory->mean,
                                         .rstd = memory->rstd};
    AORTA_TRY(op_begin(op, "norm_forward", op_moves(op.model, residual ? 4 : 2, args.shape.width)));
    AORTA_TRY(aorta_norm_forward(op.pass->stream, &args));
    return aorta_range_end(op.pass->recorder);
}

/* Where the gradient of a norm's x is made, beside dsum: of a layer's, before the dropout on it. */
static void *gradient_before_dropout(const struct aorta_model *model, void *dsum) {
    return model->shape.dropout > 0 ? model->dx : dsum;
}

/* `sum`: memory->sum, or where that is none x. `dbias`: of x, for a layer's. */
static aorta_status norm_backward(struct op op, int slot, uint32_t place, const struct norm_memory *memory,
                                  const void *sum, const void *dy, void *dsum, float *dbias) {
    const struct aorta_norm shape = norm_shape(op, place);
    const struct aorta_norm_backward_args args = {.shape = shape,
                                                  .dy = dy,
                                                  .sum = sum,
                                                  .gamma = op.view->weights[slot],
                                                  .mean = memory->mean,
                                                  .rstd = memory->rstd,
                                                  .dsum = dsum,
                                                  .dx = shape.dropout > 0 ? op.model->dx : NULL,
                                                  .dgamma = op.view->gradients[slot],
                                                  .dbeta = op.view->gradients[slot + 1],
                                                  .dbias = dbias,
                                                  .accumulate = op.pass->accumulate};
    AORTA_TRY(op_begin(op, "norm_backward", op_moves(op.model, args.dx ? 4 : 3, shape.width)));
    AORTA_TRY(aorta_norm_backward(op.pass->stream, &args));
    AORTA_TRY(aorta_range_end(op.pass->recorder));
    return op_ready(op, slot, 2);
}

/* Forward, or with dy backward. */
static aorta_status gelu(struct op op, uint32_t place, const void *x, const void *dy, void *out, float *dbias) {
    const struct aorta_model_shape *s = &op.model->shape;
    const struct aorta_gelu_args args = {.shape = {.dtype = s->dtype,
                                                   .count = op.model->rows * s->mlp_hidden_dim,
                                                   .dropout = (float)s->dropout,
                                                   .rng = rng_of(op.pass, unit_of(op), place),
                                                   .width = s->mlp_hidden_dim},
                                         .x = x,
                                         .dy = dy,
                                         .out = out,
                                         .dbias = dbias,
                                         .accumulate = dy && op.pass->accumulate};
    AORTA_TRY(op_begin(op, dy ? "gelu_backward" : "gelu_forward", op_moves(op.model, dy ? 3 : 2, s->mlp_hidden_dim)));
    AORTA_TRY((dy ? aorta_gelu_backward : aorta_gelu_forward)(op.pass->stream, &args));
    return aorta_range_end(op.pass->recorder);
}

/* Reports to the caller that a backward pass is about to read a layer's output, and returns what to read. */
static aorta_status op_output(const struct aorta_model *model, const struct aorta_pass *pass, int layer,
                              const void **output) {
    struct aorta_layer_output o = aorta_model_output(model, layer);
    *output = o.copy ? o.copy : o.made;
    return o.copy && pass->output_needed ? pass->output_needed(pass->user, layer) : NULL;
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

/* ---- an encoder layer ----
 *   y1 = norm1(x + dropout(out_proj(attention(in_proj(x)))))
 *   y2 = norm2(y1 + dropout(linear2(dropout(gelu(linear1(y1)))))) */

static const void *layer_input(const struct aorta_model *model, int layer) {
    return layer == 0 ? model->x0 : model->layers[layer - 1].norm2.y;
}

struct aorta_range_info aorta_model_layer_work(const struct aorta_model *model, bool backward) {
    const struct aorta_range_info attention = attention_work(model, backward);
    struct aorta_range_info work = {.flops = attention.flops,
                                    .bytes = attention.bytes,
                                    .attention_flops = attention.flops,
                                    .attention_bytes = attention.bytes};
    for (int slot = IN_PROJ_WEIGHT; slot <= LINEAR2_WEIGHT; slot += 2) /* weights, their biases between them */
        add_products(&work, model, 0, slot, backward ? 2 : 1);
    return work;
}

aorta_status aorta_model_layer_forward(struct aorta_model *model, const struct aorta_pass *pass, int layer,
                                       const struct aorta_unit_view *view) {
    const struct layer_memory *m = &model->layers[layer];
    const struct op unit = {model, pass, view, layer, NULL}, attention = layer_op(unit, TAG_ATTENTION);
    const struct aorta_attention_args attention_args = {.shape = aorta_model_attention(model, pass, layer),
                                                        .qkv = m->qkv,
                                                        .out = m->context,
                                                        .saved = m->attention,
                                                        .scratch = model->attention_scratch};
    const void *x = layer_input(model, layer);
    AORTA_TRY(linear_forward(layer_op(unit, TAG_IN_PROJ), IN_PROJ_WEIGHT, x, m->qkv));
    AORTA_TRY(op_begin(attention, "attention_forward", attention_work(model, false)));
    AORTA_TRY(aorta_attention_forward(pass->stream, &attention_args));
    AORTA_TRY(aorta_range_end(pass->recorder));
    AORTA_TRY(linear_forward(layer_op(unit, TAG_OUT_PROJ), OUT_PROJ_WEIGHT, m->context, m->norm1.sum));
    AORTA_TRY(norm_forward(layer_op(unit, TAG_NORM1), NORM1_WEIGHT, SITE_AFTER_ATTENTION, m->norm1.sum, x, &m->norm1));

    AORTA_TRY(linear_forward(layer_op(unit, TAG_LINEAR1), LINEAR1_WEIGHT, m->norm1.y, m->h));
    AORTA_TRY(gelu(layer_op(unit, TAG_GELU), SITE_INSIDE_MLP, m->h, NULL, m->g, NULL));
    AORTA_TRY(linear_forward(layer_op(unit, TAG_LINEAR2), LINEAR2_WEIGHT, m->g, m->norm2.sum));
    return norm_forward(layer_op(unit, TAG_NORM2), NORM2_WEIGHT, SITE_AFTER_MLP, m->norm2.sum, m->norm1.y, &m->norm2);
}

/* The operation that makes the gradient of a layer's output makes that of its bias too: it has the values.
 * From dy (gradient of y2) to the gradient of y1, left in `dsum`. */
static aorta_status mlp_backward(struct op unit, const void *dy, void *dsum) {
    const struct aorta_model *model = unit.model;
    const struct layer_memory *m = &model->layers[unit.layer];
    float *const *g = unit.view->gradients;
    void *doutput = gradient_before_dropout(model, dsum), *dhidden = model->dhidden;
    AORTA_TRY(norm_backward(layer_op(unit, TAG_NORM2), NORM2_WEIGHT, SITE_AFTER_MLP, &m->norm2, m->norm2.sum, dy, dsum,
                            g[LINEAR2_BIAS]));
    AORTA_TRY(linear_backward(layer_op(unit, TAG_LINEAR2), LINEAR2_WEIGHT,
                              (struct aorta_linear_args){.x = m->g, .dy = doutput, .dx = dhidden}));
    AORTA_TRY(gelu(layer_op(unit, TAG_GELU), SITE_INSIDE_MLP, m->h, dhidden, dhidden, g[LINEAR1_BIAS]));
    return linear_backward(layer_op(unit, TAG_LINEAR1), LINEAR1_WEIGHT,
                           (struct aorta_linear_args){.x = m->norm1.y, .dy = dhidden, .dx = dsum, .accumulate = true});
}

/* From dy (gradient of y1) to the gradient of the layer's input, left in `dinput`. */
static aorta_status attention_backward(struct op unit, const void *dy, void *dinput) {
    const struct aorta_model *model = unit.model;
    const struct aorta_pass *pass = unit.pass;
    const struct layer_memory *m = &model->layers[unit.layer];
    float *const *g = unit.view->gradients;
    const struct op attention = layer_op(unit, TAG_ATTENTION);
    const struct aorta_attention_args attention_args = {.shape = aorta_model_attention(model, pass, unit.layer),
                                                        .qkv = m->qkv,
                                                        .out_in = m->context,
                                                        .saved_in = m->attention,
                                                        .dout = model->dcontext,
                                                        .dqkv = model->dqkv,
                                                        .scratch = model->attention_scratch,
                                                        .dbias = g[IN_PROJ_BIAS],
                                                        .accumulate = pass->accumulate};
    const void *x = model->x0;
    void *doutput = gradient_before_dropout(model, dinput);
    AORTA_TRY(norm_backward(layer_op(unit, TAG_NORM1), NORM1_WEIGHT, SITE_AFTER_ATTENTION, &m->norm1, m->norm1.sum, dy,
                            dinput, g[OUT_PROJ_BIAS]));
    AORTA_TRY(linear_backward(layer_op(unit, TAG_OUT_PROJ), OUT_PROJ_WEIGHT,
                              (struct aorta_linear_args){.x = m->context, .dy = doutput, .dx = model->dcontext}));
    AORTA_TRY(op_begin(attention, "attention_backward", attention_work(model, true)));
    AORTA_TRY(aorta_attention_backward(pass->stream, &attention_args));
    AORTA_TRY(aorta_range_end(pass->recorder));
    if (unit.layer > 0) AORTA_TRY(op_output(model, pass, unit.layer - 1, &x));
    return linear_backward(layer_op(unit, TAG_IN_PROJ), IN_PROJ_WEIGHT,
                           (struct aorta_linear_args){.x = x, .dy = model->dqkv, .dx = dinput, .accumulate = true});
}

/* model->dy holds the gradient of this layer's output on entry and of its input on return. */
aorta_status aorta_model_layer_backward(struct aorta_model *model, const struct aorta_pass *pass, int layer,
                                        const struct aorta_unit_view *view) {
    const struct op unit = {model, pass, view, layer, NULL};
    AORTA_TRY(mlp_backward(unit, model->dy, model->dsum));
    return attention_backward(unit, model->dsum, model->dy);
}

/* ---- the root unit ----
 * The root unit: x0 = dense_projection(dense) + embedding_projection(mean of embeddings) before the layers, and after
 * them scorer(norm(x)) and the loss. */

static const void *dense_input(const struct aorta_model *model, const struct aorta_batch *batch) {
    return model->dense ? model->dense : batch->dense;
}

/* The data has no gradient. */
struct aorta_range_info aorta_model_input_work(const struct aorta_model *model, bool backward) {
    struct aorta_range_info work = {0};
    add_products(&work, model, (int)model->shape.num_layers, DENSE_WEIGHT, 1);
    add_products(&work, model, (int)model->shape.num_layers, PROJECTION_WEIGHT, backward ? 2 : 1);
    return work;
}

struct aorta_range_info aorta_model_head_work(const struct aorta_model *model) {
    struct aorta_range_info work = {0};
    add_products(&work, model, (int)model->shape.num_layers, SCORER0_WEIGHT, 3);
    add_products(&work, model, (int)model->shape.num_layers, SCORER3_WEIGHT, 3);
    return work;
}

aorta_status aorta_model_input_forward(struct aorta_model *model, const struct aorta_pass *pass,
                                       const struct aorta_batch *batch, const struct aorta_unit_view *root) {
    const struct aorta_model_shape *s = &model->shape;
    const struct op unit = {model, pass, root, -1, NULL}, embedding = root_op(unit, "embedding"),
                    projection = root_op(unit, "embedding_projection");
    const struct aorta_embedding_args embedding_args = {.shape = aorta_model_embedding(model),
                                                        .ids = batch->categorical,
                                                        .table = root->weights[EMBEDDING_WEIGHT],
                                                        .y = model->embedded,
                                                        .order = model->order};
    if (model->dense) {
        const int64_t width = s->num_dense_features * s->dense_dim;
        struct aorta_range_info work = op_moves(model, 1, width);
        work.bytes += model->rows * width * (int64_t)sizeof(float);
        AORTA_TRY(op_begin(root_op(unit, "dense_projection.cast"), "cast", work));
        AORTA_TRY(aorta_cast(pass->stream, model->dense, s->dtype, batch->dense, AORTA_F32, model->rows * width, 1));
        AORTA_TRY(aorta_range_end(pass->recorder));
    }
    AORTA_TRY(op_begin(embedding, "embedding_forward", op_moves(model, 1, s->embedding_dim)));
    AORTA_TRY(aorta_embedding_forward(pass->stream, &embedding_args));
    AORTA_TRY(aorta_range_end(pass->recorder));
    AORTA_TRY(linear_forward(root_op(unit, "dense_projection"), DENSE_WEIGHT, dense_input(model, batch), model->x0));
    AORTA_TRY(linear_forward(projection, PROJECTION_WEIGHT, model->embedded, model->projected));
    AORTA_TRY(op_begin(projection, "add", op_moves(model, 3, s->model_dim)));
    AORTA_TRY(aorta_add(pass->stream, model->x0, model->projected, s->dtype, model->rows * s->model_dim, 1));
    AORTA_TRY(aorta_range_end(pass->recorder));
    if (!model->order) return NULL;
    /* Sorting is free here while the stream waits for the first layer's weights. At the end of backward it would not
     * be. */
    AORTA_TRY(op_begin(embedding, "embedding_order", (struct aorta_range_info){0}));
    AORTA_TRY(aorta_embedding_order(pass->stream, &embedding_args));
    return aorta_range_end(pass->recorder);
}

static aorta_status head_forward(struct op unit, const void *x) {
    const struct aorta_model *model = unit.model;
    AORTA_TRY(norm_forward(root_op(unit, "norm"), FINAL_NORM_WEIGHT, 0, x, NULL, &model->norm));
    AORTA_TRY(linear_forward(root_op(unit, "scorer.0"), SCORER0_WEIGHT, model->norm.y, model->s0));
    AORTA_TRY(gelu(root_op(unit, "scorer.gelu"), 0, model->s0, NULL, model->s1, NULL));
    return linear_forward(root_op(unit, "scorer.3"), SCORER3_WEIGHT, model->s1, model->scores);
}

static aorta_status loss(struct op unit, const struct aorta_batch *batch) {
    const struct aorta_model *model = unit.model;
    const struct aorta_pass *pass = unit.pass;
    const struct aorta_bce_args bce = {.dtype = model->shape.dtype,
                                       .count = model->rows,
                                       .weight = pass->loss_weight,
                                       .gradient_weight = pass->gradient_weight,
                                       .scores = model->scores,
                                       .target = batch->target,
                                       .importance = batch->importance,
                                       .state = pass->state,
                                       .dscores = model->dscores};
    AORTA_TRY(op_begin(root_op(unit, "loss"), "bce_with_logits", op_moves(model, 2, 1)));
    AORTA_TRY(aorta_bce_with_logits(pass->stream, &bce));
    return aorta_range_end(pass->recorder);
}

/* Leaves the gradient of the last layer's output in model->dy. */
static aorta_status head_backward(struct op unit) {
    const struct aorta_model *model = unit.model;
    float *const *g = unit.view->gradients;
    void *dhidden = model->dhidden;
    const void *x;
    AORTA_TRY(linear_backward(
        root_op(unit, "scorer.3"), SCORER3_WEIGHT,
        (struct aorta_linear_args){.x = model->s1, .dy = model->dscores, .dx = dhidden, .dbias = g[SCORER3_BIAS]}));
    AORTA_TRY(gelu(root_op(unit, "scorer.gelu"), 0, model->s0, dhidden, dhidden, g[SCORER0_BIAS]));
    AORTA_TRY(linear_backward(root_op(unit, "scorer.0"), SCORER0_WEIGHT,
                              (struct aorta_linear_args){.x = model->norm.y, .dy = dhidden, .dx = model->dsum}));
    AORTA_TRY(op_output(model, unit.pass, (int)model->shape.num_layers - 1, &x));
    return norm_backward(root_op(unit, "norm"), FINAL_NORM_WEIGHT, 0, &model->norm, x, model->dsum, model->dy, NULL);
}

aorta_status aorta_model_head(struct aorta_model *model, const struct aorta_pass *pass, const struct aorta_batch *batch,
                              const struct aorta_unit_view *root) {
    const struct op unit = {model, pass, root, -1, NULL};
    AORTA_TRY(head_forward(unit, layer_input(model, (int)model->shape.num_layers)));
    AORTA_TRY(loss(unit, batch));
    return head_backward(unit);
}

static aorta_status embedding_backward(struct op unit, const struct aorta_batch *batch) {
    const struct aorta_model *model = unit.model;
    const struct aorta_pass *pass = unit.pass;
    const struct aorta_embedding_args args = {.shape = aorta_model_embedding(model),
                                              .ids = batch->categorical,
                                              .order = model->order,
                                              .dy = model->dembedded,
                                              .dtable = unit.view->gradients[EMBEDDING_WEIGHT],
                                              .zeros = !pass->accumulate};
    const size_t bytes = (size_t)(args.shape.vocab * args.shape.dim) * sizeof(float);
    AORTA_TRY(op_begin(root_op(unit, "embedding"), "embedding_backward", op_moves(model, 1, args.shape.dim)));
    if (args.zeros) AORTA_TRY(aorta_fill_bytes(pass->stream, args.dtable, 0, bytes));
    AORTA_TRY(aorta_embedding_backward(pass->stream, &args));
    AORTA_TRY(aorta_range_end(pass->recorder));
    return op_ready(unit, EMBEDDING_WEIGHT, 1);
}

/* The embedding's gradient comes first: it is most of the unit's and can be reduced during the products that follow. */
aorta_status aorta_model_input_backward(struct aorta_model *model, const struct aorta_pass *pass,
                                        const struct aorta_batch *batch, const struct aorta_unit_view *root) {
    const struct op unit = {model, pass, root, -1, NULL}, projection = root_op(unit, "embedding_projection");
    const struct aorta_linear_args projected = {
        .x = model->embedded, .dy = model->dy, .dx = model->dembedded, .dbias = root->gradients[PROJECTION_BIAS]};
    const struct aorta_linear_args dense = {
        .x = dense_input(model, batch), .dy = model->dy, .dbias = root->gradients[DENSE_BIAS]};
    AORTA_TRY(op_linear(projection, OP_INPUT, PROJECTION_WEIGHT, projected));
    AORTA_TRY(embedding_backward(unit, batch));
    AORTA_TRY(op_linear(projection, OP_WEIGHT, PROJECTION_WEIGHT, projected));
    return op_linear(root_op(unit, "dense_projection"), OP_WEIGHT, DENSE_WEIGHT, dense);
}
