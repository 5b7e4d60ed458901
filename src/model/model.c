/* The model's memory (which activations exist, and for how long), and the shapes of its operations. */
#include "base/random.h"
#include "model/model_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- parameters ---- */

static struct aorta_parameter matrix(const char *name, int64_t rows, int64_t columns, enum aorta_init init,
                                     double bound) {
    return (struct aorta_parameter){
        .name = name, .dimensions = 2, .rows = rows, .columns = columns, .init = init, .bound = (float)bound};
}

static struct aorta_parameter vector(const char *name, int64_t rows, enum aorta_init init, double bound) {
    return (struct aorta_parameter){
        .name = name, .dimensions = 1, .rows = rows, .columns = 1, .init = init, .bound = (float)bound};
}

/* nn.Linear draws weight and bias from U(−1/√fan_in, 1/√fan_in). */
static double linear_bound(int64_t fan_in) {
    return 1.0 / sqrt((double)fan_in);
}

static void layer_parameters(const struct aorta_model_shape *s, struct aorta_parameter *p) {
    int64_t e = s->model_dim, h = s->mlp_hidden_dim;
    /* nn.MultiheadAttention: Xavier-uniform in_proj, zero biases, out_proj's weight as nn.Linear's. */
    p[IN_PROJ_WEIGHT] = matrix("self_attn.in_proj_weight", 3 * e, e, AORTA_INIT_UNIFORM, sqrt(6.0 / (double)(4 * e)));
    p[IN_PROJ_BIAS] = vector("self_attn.in_proj_bias", 3 * e, AORTA_INIT_ZERO, 0);
    p[OUT_PROJ_WEIGHT] = matrix("self_attn.out_proj.weight", e, e, AORTA_INIT_UNIFORM, linear_bound(e));
    p[OUT_PROJ_BIAS] = vector("self_attn.out_proj.bias", e, AORTA_INIT_ZERO, 0);
    p[LINEAR1_WEIGHT] = matrix("linear1.weight", h, e, AORTA_INIT_UNIFORM, linear_bound(e));
    p[LINEAR1_BIAS] = vector("linear1.bias", h, AORTA_INIT_UNIFORM, linear_bound(e));
    p[LINEAR2_WEIGHT] = matrix("linear2.weight", e, h, AORTA_INIT_UNIFORM, linear_bound(h));
    p[LINEAR2_BIAS] = vector("linear2.bias", e, AORTA_INIT_UNIFORM, linear_bound(h));
    p[NORM1_WEIGHT] = vector("norm1.weight", e, AORTA_INIT_ONE, 0);
    p[NORM1_BIAS] = vector("norm1.bias", e, AORTA_INIT_ZERO, 0);
    p[NORM2_WEIGHT] = vector("norm2.weight", e, AORTA_INIT_ONE, 0);
    p[NORM2_BIAS] = vector("norm2.bias", e, AORTA_INIT_ZERO, 0);
}

static void root_parameters(const struct aorta_model_shape *s, struct aorta_parameter *p) {
    int64_t e = s->model_dim, h = s->mlp_hidden_dim, d = s->embedding_dim, f = s->num_dense_features * s->dense_dim;
    p[EMBEDDING_WEIGHT] = matrix("embedding.weight", s->vocab_size, d, AORTA_INIT_NORMAL, 0);
    p[DENSE_WEIGHT] = matrix("dense_projection.weight", e, f, AORTA_INIT_UNIFORM, linear_bound(f));
    p[DENSE_BIAS] = vector("dense_projection.bias", e, AORTA_INIT_UNIFORM, linear_bound(f));
    p[PROJECTION_WEIGHT] = matrix("embedding_projection.weight", e, d, AORTA_INIT_UNIFORM, linear_bound(d));
    p[PROJECTION_BIAS] = vector("embedding_projection.bias", e, AORTA_INIT_UNIFORM, linear_bound(d));
    p[FINAL_NORM_WEIGHT] = vector("norm.weight", e, AORTA_INIT_ONE, 0);
    p[FINAL_NORM_BIAS] = vector("norm.bias", e, AORTA_INIT_ZERO, 0);
    p[SCORER0_WEIGHT] = matrix("scorer.0.weight", h, e, AORTA_INIT_UNIFORM, linear_bound(e));
    p[SCORER0_BIAS] = vector("scorer.0.bias", h, AORTA_INIT_UNIFORM, linear_bound(e));
    p[SCORER3_WEIGHT] = matrix("scorer.3.weight", 1, h, AORTA_INIT_UNIFORM, linear_bound(h));
    p[SCORER3_BIAS] = vector("scorer.3.bias", 1, AORTA_INIT_UNIFORM, linear_bound(h));
}

/* model.parameters() lists the embedding and the projections, then the layers, then norm and scorer. */
enum { ROOT_BEFORE_LAYERS = FINAL_NORM_WEIGHT };

static void build_parameters(struct aorta_model *model) {
    int layers = (int)model->shape.num_layers, count = layers * LAYER_PARAMETERS + ROOT_PARAMETERS;
    model->parameter_count = count;
    model->parameters = aorta_arena_alloc(&model->arena, (size_t)count * sizeof *model->parameters);
    if (!model->parameters) return;
    struct aorta_parameter root[ROOT_PARAMETERS], layer[LAYER_PARAMETERS];
    root_parameters(&model->shape, root);
    layer_parameters(&model->shape, layer);
    struct aorta_parameter *next = model->parameters;
    for (int slot = 0; slot < ROOT_PARAMETERS; slot++) {
        for (int l = 0; slot == ROOT_BEFORE_LAYERS && l < layers; l++) {
            for (int s = 0; s < LAYER_PARAMETERS; s++, next++) {
                *next = layer[s];
                next->unit = l, next->slot = s;
                next->name = aorta_arena_printf(&model->arena, "encoder.layers.%d.%s", l, layer[s].name);
            }
        }
        *next = root[slot];
        next->unit = layers, next->slot = slot;
        next->before_layers = slot < ROOT_BEFORE_LAYERS;
        next->forward_only = slot == EMBEDDING_WEIGHT;
        next++;
    }
}

int aorta_model_parameter_index(const struct aorta_model *model, int unit, int slot) {
    int layers = (int)model->shape.num_layers;
    if (unit < layers) return ROOT_BEFORE_LAYERS + unit * LAYER_PARAMETERS + slot;
    return slot < ROOT_BEFORE_LAYERS ? slot : layers * LAYER_PARAMETERS + slot;
}

int aorta_model_unit_count(const struct aorta_model *model) {
    return (int)model->shape.num_layers + 1;
}

int aorta_model_parameter_count(const struct aorta_model *model) {
    return model->parameter_count;
}

const struct aorta_parameter *aorta_model_parameter(const struct aorta_model *model, int index) {
    return &model->parameters[index];
}

int64_t aorta_model_element_count(const struct aorta_model *model) {
    int64_t total = 0;
    for (int i = 0; i < model->parameter_count; i++) total += model->parameters[i].rows * model->parameters[i].columns;
    return total;
}

void aorta_model_initialise(const struct aorta_model *model, int parameter, uint64_t seed, int64_t first, int64_t count,
                            float *values) {
    const struct aorta_parameter *p = &model->parameters[parameter];
    struct aorta_random random = {.seed = seed, .stream = (uint32_t)parameter, .domain = AORTA_RANDOM_PARAMETERS};
    switch (p->init) {
    case AORTA_INIT_ZERO:
    case AORTA_INIT_ONE:
        for (int64_t i = 0; i < count; i++) values[i] = p->init == AORTA_INIT_ONE;
        return;
    case AORTA_INIT_NORMAL:
        aorta_random_normal(&random, model->normal, (uint64_t)first, (size_t)count, values);
        return;
    case AORTA_INIT_UNIFORM:
        aorta_random_uniform(&random, (uint64_t)first, (size_t)count, -p->bound, p->bound, values);
        return;
    }
}

const char *aorta_model_unit_name(const struct aorta_model *model, int unit) {
    return model->unit_names[unit];
}

/* Device memory that lives as long as the model; `name` is in the message when it does not fit. */
static aorta_status take(struct aorta_model *model, const char *name, int64_t elements, size_t element_size,
                         void *place) {
    const size_t bytes = (size_t)elements * element_size;
    void *reused = bytes ? aorta_place_take(&model->reuse, bytes) : NULL;
    if (!reused && bytes) return aorta_own_memory(&model->owned, bytes, name, place);
    memcpy(place, &reused, sizeof reused);
    return NULL;
}

static aorta_status take_activations(struct aorta_model *model, const char *name, int64_t columns, void **memory) {
    return take(model, name, model->rows * columns, aorta_dtype_size(model->shape.dtype), memory);
}

static aorta_status take_statistics(struct aorta_model *model, const char *name, float **memory) {
    return take(model, name, model->rows, sizeof **memory, memory);
}

static aorta_status take_layer(struct aorta_model *model, struct layer_memory *layer) {
    int64_t e = model->shape.model_dim, h = model->shape.mlp_hidden_dim;
    struct aorta_pass none = {0};
    size_t saved = aorta_attention_saved_bytes(model->device, aorta_model_attention(model, &none, 0));
    AORTA_TRY(take_activations(model, "activations qkv", 3 * e, &layer->qkv));
    AORTA_TRY(take(model, "attention weights", (int64_t)saved, 1, &layer->attention));
    AORTA_TRY(take_activations(model, "activations of attention", e, &layer->context));
    AORTA_TRY(take_activations(model, "activations before norm1", e, &layer->norm1.sum));
    AORTA_TRY(take_activations(model, "activations of norm1", e, &layer->norm1.y));
    AORTA_TRY(take_activations(model, "activations of linear1", h, &layer->h));
    AORTA_TRY(take_activations(model, "activations of GELU", h, &layer->g));
    AORTA_TRY(take_activations(model, "activations before norm2", e, &layer->norm2.sum));
    AORTA_TRY(take_activations(model, "activations of norm2", e, &layer->norm2.y));
    if (model->shape.output_copies) AORTA_TRY(take_activations(model, "copy of a layer's output", e, &layer->copy));
    AORTA_TRY(take_statistics(model, "means of norm1", &layer->norm1.mean));
    AORTA_TRY(take_statistics(model, "deviations of norm1", &layer->norm1.rstd));
    AORTA_TRY(take_statistics(model, "means of norm2", &layer->norm2.mean));
    return take_statistics(model, "deviations of norm2", &layer->norm2.rstd);
}

/* Memory of the root unit that is read after the layers' backward passes. */
static aorta_status take_root(struct aorta_model *model) {
    const struct aorta_model_shape *s = &model->shape;
    int64_t e = s->model_dim;
    if (s->dtype != AORTA_F32)
        AORTA_TRY(take_activations(model, "dense input", s->num_dense_features * s->dense_dim, &model->dense));
    AORTA_TRY(take_activations(model, "embedded features", s->embedding_dim, &model->embedded));
    const size_t order = aorta_embedding_order_bytes(model->device, aorta_model_embedding(model));
    AORTA_TRY(take(model, "order of the categorical features", (int64_t)order, 1, &model->order));
    AORTA_TRY(take_activations(model, "projected input", e, &model->x0));
    AORTA_TRY(take_activations(model, "scores", 1, &model->scores));
    AORTA_TRY(take_activations(model, "gradient of a layer's output", e, &model->dy));
    return take_activations(model, "gradient of embedded features", s->embedding_dim, &model->dembedded);
}

/* Scratch memory, the largest tensor first, so that more of `reuse` is used. */
static aorta_status take_scratch(struct aorta_model *model) {
    int64_t e = model->shape.model_dim, h = model->shape.mlp_hidden_dim;
    struct aorta_pass none = {0};
    size_t scratch = aorta_attention_scratch_bytes(model->device, aorta_model_attention(model, &none, 0));
    AORTA_TRY(take_activations(model, "gradient of the MLP, then of qkv", h > 3 * e ? h : 3 * e, &model->dhidden));
    model->dqkv = model->s1 = model->dhidden;
    AORTA_TRY(take_activations(model, "activations of scorer.0", h, &model->s0));
    AORTA_TRY(take_activations(model, "gradient of a layer's input", e, &model->dsum));
    AORTA_TRY(take_activations(model, "gradient before dropout", e, &model->dx));
    model->projected = model->dx;
    AORTA_TRY(take_activations(model, "gradient of attention", e, &model->dcontext));
    AORTA_TRY(take_activations(model, "activations of the last norm", e, &model->norm.y));
    AORTA_TRY(take_activations(model, "gradients of scores", 1, &model->dscores));
    AORTA_TRY(take_statistics(model, "means of the last norm", &model->norm.mean));
    AORTA_TRY(take_statistics(model, "deviations of the last norm", &model->norm.rstd));
    return take(model, "scratch memory of attention", (int64_t)scratch, 1, &model->attention_scratch);
}

static void make_tags(struct aorta_model *model) {
    static const char *const names[LAYER_TAGS] = {
        "self_attn.in_proj", "self_attn", "self_attn.out_proj", "norm1", "linear1", "gelu", "linear2", "norm2"};
    for (int l = 0; l < model->shape.num_layers; l++) {
        model->unit_names[l] = aorta_arena_printf(&model->arena, "encoder.layers.%d", l);
        for (int tag = 0; tag < LAYER_TAGS; tag++)
            model->tags[l][tag] = aorta_arena_printf(&model->arena, "encoder.layers.%d.%s", l, names[tag]);
    }
    model->unit_names[model->shape.num_layers] = "root";
}

static aorta_status build(struct aorta_model *model) {
    size_t layers = (size_t)model->shape.num_layers;
    model->layers = aorta_arena_alloc(&model->arena, layers * sizeof *model->layers);
    model->tags = aorta_arena_alloc(&model->arena, layers * sizeof *model->tags);
    model->unit_names = aorta_arena_alloc(&model->arena, (layers + 1) * sizeof *model->unit_names);
    model->normal = aorta_arena_alloc(&model->arena, sizeof *model->normal);
    AORTA_TRY(aorta_arena_check(&model->arena, "the model's tables"));
    aorta_normal_table_fill(model->normal);
    make_tags(model);
    build_parameters(model);
    return aorta_arena_check(&model->arena, "the names and parameters of the model");
}

static aorta_status take_all(struct aorta_model *model, const struct aorta_place *reuse) {
    const struct aorta_place none = {0};
    const int layers = (int)model->shape.num_layers;
    for (int l = 0; l < layers; l++) {
        model->reuse = reuse ? reuse[l] : none;
        AORTA_TRY(take_layer(model, &model->layers[l]));
    }
    model->reuse = reuse ? reuse[layers] : none;
    AORTA_TRY(take_scratch(model));
    model->reuse = none;
    return take_root(model);
}

static aorta_status annotate(aorta_status status, const struct aorta_model_shape *shape) {
    return aorta_annotate(status, "model (batch %lld × %lld positions)", (long long)shape->batch,
                          (long long)shape->positions);
}

aorta_status aorta_model_take_memory(struct aorta_model *model, const struct aorta_place *reuse) {
    return annotate(take_all(model, reuse), &model->shape);
}

aorta_status aorta_model_create(struct aorta_device *device, const struct aorta_model_shape *shape,
                                struct aorta_model **out) {
    *out = NULL;
    struct aorta_model *model = calloc(1, sizeof *model);
    if (!model) return AORTA_ERROR(AORTA_MEMORY, "the model did not fit in memory");
    model->device = model->owned.device = device;
    model->shape = *shape;
    model->rows = shape->batch * shape->positions;
    aorta_status status = build(model);
    if (status) {
        aorta_model_destroy(model);
        return annotate(status, shape);
    }
    *out = model;
    return NULL;
}

void aorta_model_destroy(struct aorta_model *model) {
    if (!model) return;
    aorta_owned_free(&model->owned);
    aorta_arena_free(&model->arena);
    free(model);
}

struct aorta_layer_output aorta_model_output(const struct aorta_model *model, int layer) {
    return (struct aorta_layer_output){
        .made = model->layers[layer].norm2.y,
        .copy = model->layers[layer].copy,
        .bytes = (size_t)(model->rows * model->shape.model_dim) * aorta_dtype_size(model->shape.dtype),
    };
}

struct aorta_embedding aorta_model_embedding(const struct aorta_model *model) {
    const struct aorta_model_shape *s = &model->shape;
    return (struct aorta_embedding){s->dtype, model->rows, s->sparse_features, s->vocab_size, s->embedding_dim};
}
