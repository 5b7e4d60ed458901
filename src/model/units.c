/* One encoder layer, forward and backward:
 *   y1 = norm1(x + dropout(out_proj(attention(in_proj(x)))))
 *   y2 = norm2(y1 + dropout(linear2(dropout(gelu(linear1(y1)))))) */
#include "model/model_internal.h"

#include <string.h>

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
    return aorta_op_linear(op, OP_FORWARD, &args);
}

static int unit_of(const struct aorta_model *model, struct op op) {
    return op.layer < 0 ? (int)model->shape.num_layers : op.layer;
}

/* The gradients of a layer's weight and bias, which are `slot` and the next of the unit, then that of its input, added
 * to dx with `accumulate`. Without dbias another operation makes the bias's: it has the values. */
static aorta_status linear_backward(struct aorta_model *model, struct op op, const struct aorta_unit_view *view,
                                    int slot, struct aorta_linear_args args) {
    args.weight = view->weights[slot], args.dweight = view->gradients[slot];
    AORTA_TRY(aorta_op_linear(op, OP_WEIGHT, &args));
    AORTA_TRY(aorta_op_ready(model, op.pass, unit_of(model, op), slot, 2));
    return aorta_op_linear(op, OP_INPUT, &args);
}

/* Its weights are `slot` and the next of the unit. */
static aorta_status norm_forward(struct op op, const struct aorta_model *model, const struct aorta_unit_view *view,
                                 int slot, struct aorta_norm_args args) {
    args.gamma = view->weights[slot], args.beta = view->weights[slot + 1];
    AORTA_TRY(aorta_op_begin(op, "norm_forward", op_moves(model, args.residual ? 4 : 2, args.shape.width)));
    AORTA_TRY(aorta_norm_forward(op.pass->stream, &args));
    return aorta_range_end(op.pass->recorder);
}

/* Forward two products for each head, backward four. Query, key, value and the result, and backward their gradients. */
static struct op_work attention_work(const struct aorta_model *model, bool backward) {
    const struct aorta_model_shape *shape = &model->shape;
    const int64_t elements = model->rows * shape->model_dim, positions = shape->positions;
    struct op_work work = op_moves(model, backward ? 8 : 4, shape->model_dim);
    work.flops = (backward ? 8.0 : 4.0) * (double)elements * (double)positions;
    const int32_t dims[AORTA_RANGE_DIMS] = {(int32_t)(model->rows / positions), (int32_t)shape->num_heads,
                                            (int32_t)positions, (int32_t)(shape->model_dim / shape->num_heads)};
    memcpy(work.dims, dims, sizeof dims);
    return work;
}

struct aorta_model_work aorta_model_layer_work(const struct aorta_model *model, bool backward) {
    const struct layer_shapes s = shapes_of(model);
    const struct op_work attention = attention_work(model, backward);
    const struct aorta_linear *const products[] = {&s.in_proj, &s.out_proj, &s.linear1, &s.linear2};
    struct aorta_model_work work = {attention.flops, attention.flops, attention.bytes, attention.bytes};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        aorta_op_add_product(&work, products[i], backward ? 2 : 1);
    return work;
}

static aorta_status gelu_forward(struct op op, const struct aorta_model *model, const struct aorta_gelu_args *args) {
    AORTA_TRY(aorta_op_begin(op, "gelu_forward", op_moves(model, 2, model->shape.mlp_hidden_dim)));
    AORTA_TRY(aorta_gelu_forward(op.pass->stream, args));
    return aorta_range_end(op.pass->recorder);
}

static aorta_status gelu_backward(struct op op, const struct aorta_model *model, const struct aorta_gelu_args *args) {
    AORTA_TRY(aorta_op_begin(op, "gelu_backward", op_moves(model, 3, model->shape.mlp_hidden_dim)));
    AORTA_TRY(aorta_gelu_backward(op.pass->stream, args));
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
    AORTA_TRY(aorta_op_begin(attention, "attention_forward", attention_work(model, false)));
    AORTA_TRY(aorta_attention_forward(pass->stream,
                                      &(struct aorta_attention_args){.shape = aorta_model_attention(model, pass, layer),
                                                                     .qkv = m->qkv,
                                                                     .out = m->context,
                                                                     .saved = m->attention,
                                                                     .scratch = model->attention_scratch}));
    AORTA_TRY(aorta_range_end(pass->recorder));
    AORTA_TRY(
        linear_forward((struct op){pass, t->out_proj, layer}, s.out_proj, m->context, view, OUT_PROJ_WEIGHT, m->sum1));
    const struct aorta_norm_args norm1 = {.shape = aorta_model_norm(model, pass, layer, SITE_AFTER_ATTENTION, dropout),
                                          .x = m->sum1,
                                          .residual = x,
                                          .sum = m->sum1,
                                          .y = m->y1,
                                          .mean = m->mean1,
                                          .rstd = m->rstd1};
    AORTA_TRY(norm_forward((struct op){pass, t->norm1, layer}, model, view, NORM1_WEIGHT, norm1));

    AORTA_TRY(linear_forward((struct op){pass, t->linear1, layer}, s.linear1, m->y1, view, LINEAR1_WEIGHT, m->h));
    const struct aorta_gelu_args gelu = {
        .shape = aorta_model_gelu(model, pass, layer, SITE_INSIDE_MLP), .x = m->h, .out = m->g};
    AORTA_TRY(gelu_forward((struct op){pass, t->gelu, layer}, model, &gelu));
    AORTA_TRY(linear_forward((struct op){pass, t->linear2, layer}, s.linear2, m->g, view, LINEAR2_WEIGHT, m->sum2));
    const struct aorta_norm_args norm2 = {.shape = aorta_model_norm(model, pass, layer, SITE_AFTER_MLP, dropout),
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
    AORTA_TRY(aorta_op_begin(op, "norm_backward", op_moves(model, args.dx ? 4 : 3, args.shape.width)));
    AORTA_TRY(aorta_norm_backward(op.pass->stream, &args));
    AORTA_TRY(aorta_range_end(op.pass->recorder));
    return aorta_op_ready(model, op.pass, unit_of(model, op), slot, 2);
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

    const struct aorta_norm_backward_args norm2 = {.shape =
                                                       aorta_model_norm(model, pass, layer, SITE_AFTER_MLP, dropout),
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
    const struct aorta_gelu_args gelu = {.shape = aorta_model_gelu(model, pass, layer, SITE_INSIDE_MLP),
                                         .x = m->h,
                                         .dy = model->dhidden,
                                         .out = model->dhidden,
                                         .dbias = g[LINEAR1_BIAS],
                                         .accumulate = pass->accumulate};
    AORTA_TRY(gelu_backward((struct op){pass, t->gelu, layer}, model, &gelu));
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

    const struct aorta_norm_backward_args norm1 = {
        .shape = aorta_model_norm(model, pass, layer, SITE_AFTER_ATTENTION, dropout),
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
    AORTA_TRY(aorta_op_begin(attention, "attention_backward", attention_work(model, true)));
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
    if (layer > 0) AORTA_TRY(aorta_op_output(model, pass, layer - 1, &input));
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

static double product_flops(const struct aorta_linear *shape) {
    return 2 * (double)shape->rows * (double)shape->in * (double)shape->out;
}

double aorta_model_last_flops(const struct aorta_model *model) {
    const struct root_shapes s = root_shapes_of(model);
    return product_flops(&s.projection) + product_flops(&s.dense);
}

/* The data has no gradient. */
struct aorta_model_work aorta_model_input_work(const struct aorta_model *model, bool backward) {
    const struct root_shapes s = root_shapes_of(model);
    struct aorta_model_work work = {0};
    aorta_op_add_product(&work, &s.dense, 1);
    aorta_op_add_product(&work, &s.projection, backward ? 2 : 1);
    return work;
}

struct aorta_model_work aorta_model_head_work(const struct aorta_model *model) {
    const struct root_shapes s = root_shapes_of(model);
    struct aorta_model_work work = {0};
    aorta_op_add_product(&work, &s.scorer0, 3);
    aorta_op_add_product(&work, &s.scorer3, 3);
    return work;
}

static struct op_work cast_work(const struct aorta_model *model, const struct aorta_linear *dense) {
    struct op_work work = op_moves(model, 1, dense->in);
    work.bytes += dense->rows * dense->in * (int64_t)sizeof(float);
    return work;
}

aorta_status aorta_model_input_forward(struct aorta_model *model, const struct aorta_pass *pass,
                                       const struct aorta_batch *batch, const struct aorta_unit_view *root) {
    const void *const *w = root->weights;
    struct root_shapes s = root_shapes_of(model);
    if (model->dense) {
        struct op cast = root_op(pass, "dense_projection.cast");
        AORTA_TRY(aorta_op_begin(cast, "cast", cast_work(model, &s.dense)));
        AORTA_TRY(aorta_cast(pass->stream, model->dense, model->shape.dtype, batch->dense, AORTA_F32,
                             s.dense.rows * s.dense.in, 1));
        AORTA_TRY(aorta_range_end(pass->recorder));
    }
    struct op embedding = root_op(pass, "embedding");
    AORTA_TRY(aorta_op_begin(embedding, "embedding_forward", op_moves(model, 1, s.embedding.dim)));
    AORTA_TRY(aorta_embedding_forward(pass->stream, &(struct aorta_embedding_args){.shape = s.embedding,
                                                                                   .ids = batch->categorical,
                                                                                   .table = w[EMBEDDING_WEIGHT],
                                                                                   .y = model->embedded}));
    AORTA_TRY(aorta_range_end(pass->recorder));
    AORTA_TRY(linear_forward(root_op(pass, "dense_projection"), s.dense, dense_input(model, batch), root, DENSE_WEIGHT,
                             model->x0));
    struct op projection = root_op(pass, "embedding_projection");
    AORTA_TRY(linear_forward(projection, s.projection, model->embedded, root, PROJECTION_WEIGHT, model->projected));
    AORTA_TRY(aorta_op_begin(projection, "add", op_moves(model, 3, model->shape.model_dim)));
    AORTA_TRY(aorta_add(pass->stream, model->x0, model->projected, model->shape.dtype,
                        model->rows * model->shape.model_dim, 1));
    AORTA_TRY(aorta_range_end(pass->recorder));
    if (!model->order) return NULL;
    /* Here the stream may wait for the first layer's weights, at the end of the backward pass it waits for nothing. */
    AORTA_TRY(aorta_op_begin(embedding, "embedding_order", (struct op_work){0}));
    AORTA_TRY(aorta_embedding_order(
        pass->stream,
        &(struct aorta_embedding_args){.shape = s.embedding, .ids = batch->categorical, .order = model->order}));
    return aorta_range_end(pass->recorder);
}

static aorta_status head_forward(struct aorta_model *model, const struct aorta_pass *pass, const void *x,
                                 const struct aorta_unit_view *root) {
    struct root_shapes s = root_shapes_of(model);
    const struct aorta_norm_args norm = {.shape = aorta_model_norm(model, pass, 0, 0, 0),
                                         .x = x,
                                         .y = model->z,
                                         .mean = model->mean,
                                         .rstd = model->rstd};
    const struct aorta_gelu_args gelu = {
        .shape = aorta_model_gelu(model, pass, model->shape.num_layers, 0), .x = model->s0, .out = model->s1};
    AORTA_TRY(norm_forward(root_op(pass, "norm"), model, root, FINAL_NORM_WEIGHT, norm));
    AORTA_TRY(linear_forward(root_op(pass, "scorer.0"), s.scorer0, model->z, root, SCORER0_WEIGHT, model->s0));
    AORTA_TRY(gelu_forward(root_op(pass, "scorer.gelu"), model, &gelu));
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
    AORTA_TRY(aorta_op_begin(op, "bce_with_logits", op_moves(model, 2, 1)));
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
    const struct aorta_gelu_args gelu = {.shape = aorta_model_gelu(model, pass, model->shape.num_layers, 0),
                                         .x = model->s0,
                                         .dy = model->dhidden,
                                         .out = model->dhidden,
                                         .dbias = g[SCORER0_BIAS],
                                         .accumulate = pass->accumulate};
    struct aorta_norm_backward_args norm = {.shape = aorta_model_norm(model, pass, 0, 0, 0),
                                            .dy = model->dsum,
                                            .mean = model->mean,
                                            .rstd = model->rstd,
                                            .dsum = model->dy};

    AORTA_TRY(linear_backward(model, root_op(pass, "scorer.3"), root, SCORER3_WEIGHT, scorer3));
    AORTA_TRY(gelu_backward(root_op(pass, "scorer.gelu"), model, &gelu));
    AORTA_TRY(linear_backward(
        model, root_op(pass, "scorer.0"), root, SCORER0_WEIGHT,
        (struct aorta_linear_args){.shape = s.scorer0, .x = model->z, .dy = model->dhidden, .dx = model->dsum}));
    AORTA_TRY(aorta_op_output(model, pass, (int)model->shape.num_layers - 1, &norm.sum));
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
    AORTA_TRY(aorta_op_begin(op, "embedding_backward", op_moves(model, 1, s.embedding.dim)));
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
    AORTA_TRY(aorta_op_linear(projection, OP_INPUT, &projected));
    AORTA_TRY(embedding_backward(model, pass, batch, g[EMBEDDING_WEIGHT]));
    AORTA_TRY(aorta_op_ready(model, pass, unit, EMBEDDING_WEIGHT, 1));
    AORTA_TRY(aorta_op_linear(projection, OP_WEIGHT, &projected));
    AORTA_TRY(aorta_op_ready(model, pass, unit, PROJECTION_WEIGHT, 2));
    AORTA_TRY(aorta_op_linear(root_op(pass, "dense_projection"), OP_WEIGHT, &dense));
    return aorta_op_ready(model, pass, unit, DENSE_WEIGHT, 2);
}
