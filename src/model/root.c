/* The root unit: x0 = dense_projection(dense) + embedding_projection(mean of embeddings) before the layers, and after
 * them scorer(norm(x)) and the loss. */
#include "model/model_internal.h"

struct root_shapes {
    struct aorta_linear dense, projection, scorer0, scorer3;
    struct aorta_embedding embedding;
};

static struct root_shapes shapes_of(const struct aorta_model *model) {
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
    const struct root_shapes s = shapes_of(model);
    return product_flops(&s.projection) + product_flops(&s.dense);
}

/* The data has no gradient. */
struct aorta_model_work aorta_model_input_work(const struct aorta_model *model, bool backward) {
    const struct root_shapes s = shapes_of(model);
    struct aorta_model_work work = {0};
    aorta_op_add_product(&work, &s.dense, 1);
    aorta_op_add_product(&work, &s.projection, backward ? 2 : 1);
    return work;
}

struct aorta_model_work aorta_model_head_work(const struct aorta_model *model) {
    const struct root_shapes s = shapes_of(model);
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
    struct root_shapes s = shapes_of(model);
    int range;
    if (model->dense) {
        struct op cast = root_op(pass, "dense_projection.cast");
        AORTA_TRY(aorta_op_begin(cast, "cast", cast_work(model, &s.dense), &range));
        AORTA_TRY(aorta_cast(pass->stream, model->dense, model->shape.dtype, batch->dense, AORTA_F32,
                             s.dense.rows * s.dense.in, 1));
        AORTA_TRY(aorta_op_end(cast, range));
    }
    struct op embedding = root_op(pass, "embedding");
    AORTA_TRY(aorta_op_begin(embedding, "embedding_forward", op_moves(model, 1, s.embedding.dim), &range));
    AORTA_TRY(aorta_embedding_forward(pass->stream, &(struct aorta_embedding_args){.shape = s.embedding,
                                                                                   .ids = batch->categorical,
                                                                                   .table = w[EMBEDDING_WEIGHT],
                                                                                   .y = model->embedded}));
    AORTA_TRY(aorta_op_end(embedding, range));
    AORTA_TRY(aorta_op_linear(root_op(pass, "dense_projection"), s.dense, dense_input(model, batch), w[DENSE_WEIGHT],
                              w[DENSE_BIAS], model->x0));
    struct op projection = root_op(pass, "embedding_projection");
    AORTA_TRY(aorta_op_linear(projection, s.projection, model->embedded, w[PROJECTION_WEIGHT], w[PROJECTION_BIAS],
                              model->projected));
    AORTA_TRY(aorta_op_begin(projection, "add", op_moves(model, 3, model->shape.model_dim), &range));
    AORTA_TRY(aorta_add(pass->stream, model->x0, model->projected, model->shape.dtype,
                        model->rows * model->shape.model_dim, 1));
    AORTA_TRY(aorta_op_end(projection, range));
    if (!model->order) return NULL;
    /* Here the stream may wait for the first layer's weights, at the end of the backward pass it waits for nothing. */
    AORTA_TRY(aorta_op_begin(embedding, "embedding_order", (struct op_work){0}, &range));
    AORTA_TRY(aorta_embedding_order(
        pass->stream,
        &(struct aorta_embedding_args){.shape = s.embedding, .ids = batch->categorical, .order = model->order}));
    return aorta_op_end(embedding, range);
}

static aorta_status head_forward(struct aorta_model *model, const struct aorta_pass *pass, const void *x,
                                 const struct aorta_unit_view *root) {
    const void *const *w = root->weights;
    struct root_shapes s = shapes_of(model);
    struct op norm = root_op(pass, "norm"), gelu = root_op(pass, "scorer.gelu");
    int range;
    AORTA_TRY(aorta_op_begin(norm, "norm_forward", op_moves(model, 2, model->shape.model_dim), &range));
    AORTA_TRY(
        aorta_norm_forward(pass->stream, &(struct aorta_norm_args){.shape = aorta_model_norm(model, pass, 0, 0, 0),
                                                                   .x = x,
                                                                   .gamma = w[FINAL_NORM_WEIGHT],
                                                                   .beta = w[FINAL_NORM_BIAS],
                                                                   .y = model->z,
                                                                   .mean = model->mean,
                                                                   .rstd = model->rstd}));
    AORTA_TRY(aorta_op_end(norm, range));
    AORTA_TRY(
        aorta_op_linear(root_op(pass, "scorer.0"), s.scorer0, model->z, w[SCORER0_WEIGHT], w[SCORER0_BIAS], model->s0));
    AORTA_TRY(aorta_op_begin(gelu, "gelu_forward", op_moves(model, 2, model->shape.mlp_hidden_dim), &range));
    AORTA_TRY(aorta_gelu_forward(
        pass->stream, &(struct aorta_gelu_args){.shape = aorta_model_gelu(model, pass, model->shape.num_layers, 0),
                                                .x = model->s0,
                                                .out = model->s1}));
    AORTA_TRY(aorta_op_end(gelu, range));
    return aorta_op_linear(root_op(pass, "scorer.3"), s.scorer3, model->s1, w[SCORER3_WEIGHT], w[SCORER3_BIAS],
                           model->scores);
}

static aorta_status loss(struct aorta_model *model, const struct aorta_pass *pass, const struct aorta_batch *batch) {
    struct op op = root_op(pass, "loss");
    int range;
    struct aorta_bce bce = {.dtype = model->shape.dtype,
                            .count = model->rows,
                            .weight = pass->loss_weight,
                            .gradient_weight = pass->gradient_weight};
    AORTA_TRY(aorta_op_begin(op, "bce_with_logits", op_moves(model, 2, 1), &range));
    AORTA_TRY(aorta_bce_with_logits(pass->stream, &(struct aorta_bce_args){.shape = bce,
                                                                           .scores = model->scores,
                                                                           .target = batch->target,
                                                                           .importance = batch->importance,
                                                                           .state = pass->state,
                                                                           .dscores = model->dscores}));
    return aorta_op_end(op, range);
}

/* Leaves the gradient of the last layer's output in model->dy. */
static aorta_status head_backward(struct aorta_model *model, const struct aorta_pass *pass,
                                  const struct aorta_unit_view *root) {
    const void *const *w = root->weights;
    float *const *g = root->gradients;
    struct root_shapes s = shapes_of(model);
    int unit = (int)model->shape.num_layers, range;
    const void *x;
    struct op scorer0 = root_op(pass, "scorer.0"), scorer3 = root_op(pass, "scorer.3");
    struct op norm = root_op(pass, "norm"), gelu = root_op(pass, "scorer.gelu");

    AORTA_TRY(
        aorta_op_linear_weight(scorer3, s.scorer3, model->s1, model->dscores, g[SCORER3_WEIGHT], g[SCORER3_BIAS]));
    AORTA_TRY(aorta_op_ready(model, pass, unit, SCORER3_WEIGHT, 2));
    AORTA_TRY(aorta_op_linear_input(scorer3, s.scorer3, model->dscores, w[SCORER3_WEIGHT], model->dhidden, false));
    AORTA_TRY(aorta_op_begin(gelu, "gelu_backward", op_moves(model, 3, model->shape.mlp_hidden_dim), &range));
    AORTA_TRY(aorta_gelu_backward(
        pass->stream, &(struct aorta_gelu_args){.shape = aorta_model_gelu(model, pass, model->shape.num_layers, 0),
                                                .x = model->s0,
                                                .dy = model->dhidden,
                                                .out = model->dhidden,
                                                .dbias = g[SCORER0_BIAS],
                                                .accumulate = pass->accumulate}));
    AORTA_TRY(aorta_op_end(gelu, range));
    AORTA_TRY(aorta_op_linear_weight(scorer0, s.scorer0, model->z, model->dhidden, g[SCORER0_WEIGHT], NULL));
    AORTA_TRY(aorta_op_ready(model, pass, unit, SCORER0_WEIGHT, 2));
    AORTA_TRY(aorta_op_linear_input(scorer0, s.scorer0, model->dhidden, w[SCORER0_WEIGHT], model->dsum, false));
    AORTA_TRY(aorta_op_output(model, pass, unit - 1, &x));
    AORTA_TRY(aorta_op_begin(norm, "norm_backward", op_moves(model, 3, model->shape.model_dim), &range));
    AORTA_TRY(aorta_norm_backward(pass->stream,
                                  &(struct aorta_norm_backward_args){.shape = aorta_model_norm(model, pass, 0, 0, 0),
                                                                     .dy = model->dsum,
                                                                     .sum = x,
                                                                     .gamma = w[FINAL_NORM_WEIGHT],
                                                                     .mean = model->mean,
                                                                     .rstd = model->rstd,
                                                                     .dsum = model->dy,
                                                                     .dgamma = g[FINAL_NORM_WEIGHT],
                                                                     .dbeta = g[FINAL_NORM_BIAS],
                                                                     .accumulate = pass->accumulate}));
    AORTA_TRY(aorta_op_end(norm, range));
    return aorta_op_ready(model, pass, unit, FINAL_NORM_WEIGHT, 2);
}

aorta_status aorta_model_head(struct aorta_model *model, const struct aorta_pass *pass, const struct aorta_batch *batch,
                              const struct aorta_unit_view *root) {
    AORTA_TRY(head_forward(model, pass, model->layers[model->shape.num_layers - 1].y2, root));
    AORTA_TRY(loss(model, pass, batch));
    return head_backward(model, pass, root);
}

static aorta_status embedding_backward(struct aorta_model *model, const struct aorta_pass *pass,
                                       const struct aorta_batch *batch, float *dtable) {
    struct root_shapes s = shapes_of(model);
    struct op op = root_op(pass, "embedding");
    int range;
    AORTA_TRY(aorta_op_begin(op, "embedding_backward", op_moves(model, 1, s.embedding.dim), &range));
    if (!pass->accumulate)
        AORTA_TRY(
            aorta_fill_bytes(pass->stream, dtable, 0, (size_t)(s.embedding.vocab * s.embedding.dim) * sizeof(float)));
    AORTA_TRY(aorta_embedding_backward(pass->stream, &(struct aorta_embedding_args){.shape = s.embedding,
                                                                                    .ids = batch->categorical,
                                                                                    .order = model->order,
                                                                                    .dy = model->dembedded,
                                                                                    .dtable = dtable,
                                                                                    .zeros = !pass->accumulate}));
    return aorta_op_end(op, range);
}

/* The embedding first: its gradient is most of the unit's, and can be reduced beside the products after it. */
aorta_status aorta_model_input_backward(struct aorta_model *model, const struct aorta_pass *pass,
                                        const struct aorta_batch *batch, const struct aorta_unit_view *root) {
    float *const *g = root->gradients;
    struct root_shapes s = shapes_of(model);
    int unit = (int)model->shape.num_layers;
    struct op projection = root_op(pass, "embedding_projection");
    AORTA_TRY(aorta_op_linear_input(projection, s.projection, model->dy, root->weights[PROJECTION_WEIGHT],
                                    model->dembedded, false));
    AORTA_TRY(embedding_backward(model, pass, batch, g[EMBEDDING_WEIGHT]));
    AORTA_TRY(aorta_op_ready(model, pass, unit, EMBEDDING_WEIGHT, 1));
    AORTA_TRY(aorta_op_linear_weight(projection, s.projection, model->embedded, model->dy, g[PROJECTION_WEIGHT],
                                     g[PROJECTION_BIAS]));
    AORTA_TRY(aorta_op_ready(model, pass, unit, PROJECTION_WEIGHT, 2));
    AORTA_TRY(aorta_op_linear_weight(root_op(pass, "dense_projection"), s.dense, dense_input(model, batch), model->dy,
                                     g[DENSE_WEIGHT], g[DENSE_BIAS]));
    return aorta_op_ready(model, pass, unit, DENSE_WEIGHT, 2);
}
