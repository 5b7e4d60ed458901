/* The model's memory (which activations exist, and for how long), and the shapes of its operations. */
#include "model/model_internal.h"

#include <stdlib.h>

/* Device memory that lives as long as the model; `name` stands in the message when it does not fit. */
static aorta_status take(struct aorta_model *model, const char *name, int64_t elements, size_t element_size,
                         void **memory) {
    *memory = NULL;
    if (elements == 0) return NULL;
    const size_t bytes = (size_t)elements * element_size;
    *memory = aorta_place_take(&model->reuse, bytes);
    if (*memory) return NULL;
    AORTA_TRY(aorta_device_alloc(model->device, bytes, name, memory));
    model->allocations[model->allocation_count++] = *memory;
    return NULL;
}

static aorta_status take_activations(struct aorta_model *model, const char *name, int64_t columns, void **memory) {
    return take(model, name, model->rows * columns, aorta_dtype_size(model->shape.dtype), memory);
}

static aorta_status take_statistics(struct aorta_model *model, const char *name, float **memory) {
    void *any;
    AORTA_TRY(take(model, name, model->rows, sizeof(float), &any));
    *memory = any;
    return NULL;
}

static aorta_status take_layer(struct aorta_model *model, struct layer_memory *layer) {
    int64_t e = model->shape.model_dim, h = model->shape.mlp_hidden_dim;
    struct aorta_pass none = {0};
    size_t saved = aorta_attention_saved_bytes(model->device, aorta_model_attention(model, &none, 0));
    AORTA_TRY(take_activations(model, "activations qkv", 3 * e, &layer->qkv));
    AORTA_TRY(take(model, "attention weights", (int64_t)saved, 1, &layer->attention));
    AORTA_TRY(take_activations(model, "activations of attention", e, &layer->context));
    AORTA_TRY(take_activations(model, "activations before norm1", e, &layer->sum1));
    AORTA_TRY(take_activations(model, "activations of norm1", e, &layer->y1));
    AORTA_TRY(take_activations(model, "activations of linear1", h, &layer->h));
    AORTA_TRY(take_activations(model, "activations of GELU", h, &layer->g));
    AORTA_TRY(take_activations(model, "activations before norm2", e, &layer->sum2));
    AORTA_TRY(take_activations(model, "activations of norm2", e, &layer->y2));
    if (model->shape.output_copies) AORTA_TRY(take_activations(model, "copy of a layer's output", e, &layer->copy));
    AORTA_TRY(take_statistics(model, "means of norm1", &layer->mean1));
    AORTA_TRY(take_statistics(model, "deviations of norm1", &layer->rstd1));
    AORTA_TRY(take_statistics(model, "means of norm2", &layer->mean2));
    return take_statistics(model, "deviations of norm2", &layer->rstd2);
}

/* Of the root unit what is read after the layers' backward passes. */
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

/* What is not read any more by then, the largest first: so more of `reuse` is used. */
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
    AORTA_TRY(take_activations(model, "activations of the last norm", e, &model->z));
    AORTA_TRY(take_activations(model, "gradients of scores", 1, &model->dscores));
    AORTA_TRY(take_statistics(model, "means of the last norm", &model->mean));
    AORTA_TRY(take_statistics(model, "deviations of the last norm", &model->rstd));
    return take(model, "scratch memory of attention", (int64_t)scratch, 1, &model->attention_scratch);
}

static aorta_status make_tags(struct aorta_model *model) {
    for (int l = 0; l < model->shape.num_layers; l++) {
        struct layer_tags *t = &model->tags[l];
        const struct {
            const char **tag, *name;
        } rows[] = {
            {&t->in_proj, "self_attn.in_proj"},
            {&t->attention, "self_attn"},
            {&t->out_proj, "self_attn.out_proj"},
            {&t->norm1, "norm1"},
            {&t->linear1, "linear1"},
            {&t->gelu, "gelu"},
            {&t->linear2, "linear2"},
            {&t->norm2, "norm2"},
        };
        model->unit_names[l] = aorta_arena_printf(&model->arena, "encoder.layers.%d", l);
        if (!model->unit_names[l]) return AORTA_ERROR(AORTA_MEMORY, "names of units did not fit in memory");
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            *rows[i].tag = aorta_arena_printf(&model->arena, "encoder.layers.%d.%s", l, rows[i].name);
            if (!*rows[i].tag) return AORTA_ERROR(AORTA_MEMORY, "names of operations did not fit in memory");
        }
    }
    model->unit_names[model->shape.num_layers] = "root";
    return NULL;
}

static aorta_status build(struct aorta_model *model) {
    size_t layers = (size_t)model->shape.num_layers;
    model->layers = aorta_arena_alloc(&model->arena, layers * sizeof *model->layers);
    model->tags = aorta_arena_alloc(&model->arena, layers * sizeof *model->tags);
    model->unit_names = aorta_arena_alloc(&model->arena, (layers + 1) * sizeof *model->unit_names);
    model->normal = aorta_arena_alloc(&model->arena, sizeof *model->normal);
    model->allocations = aorta_arena_alloc(&model->arena, (layers + 2) * 16 * sizeof *model->allocations);
    if (!model->layers || !model->tags || !model->unit_names || !model->normal || !model->allocations)
        return AORTA_ERROR(AORTA_MEMORY, "the model's tables did not fit in memory");
    aorta_normal_table_fill(model->normal);
    AORTA_TRY(make_tags(model));
    return aorta_model_build_parameters(model);
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
    model->device = device;
    model->shape = *shape;
    model->rows = shape->batch * shape->positions;
    aorta_status status = build(model);
    if (!status) status = aorta_model_choose_kernels(model);
    if (status) {
        aorta_model_destroy(model);
        return annotate(status, shape);
    }
    *out = model;
    return NULL;
}

void aorta_model_destroy(struct aorta_model *model) {
    if (!model) return;
    for (int i = 0; i < model->allocation_count; i++) aorta_device_free(model->device, model->allocations[i]);
    aorta_arena_free(&model->arena);
    free(model);
}

struct aorta_layer_output aorta_model_output(const struct aorta_model *model, int layer) {
    return (struct aorta_layer_output){
        .made = model->layers[layer].y2,
        .copy = model->layers[layer].copy,
        .bytes = (size_t)(model->rows * model->shape.model_dim) * aorta_dtype_size(model->shape.dtype),
    };
}

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
                                    .dropout = s->dropout,
                                    .rng = rng_of(pass, layer, SITE_ATTENTION)};
}

struct aorta_embedding aorta_model_embedding(const struct aorta_model *model) {
    const struct aorta_model_shape *s = &model->shape;
    return (struct aorta_embedding){s->dtype, model->rows, s->sparse_features, s->vocab_size, s->embedding_dim};
}

struct aorta_norm aorta_model_norm(const struct aorta_model *model, const struct aorta_pass *pass, int64_t layer,
                                   uint32_t place, float dropout) {
    return (struct aorta_norm){.dtype = model->shape.dtype,
                               .rows = model->rows,
                               .width = model->shape.model_dim,
                               .eps = 1e-5f,
                               .dropout = dropout,
                               .rng = rng_of(pass, layer, place)};
}

struct aorta_gelu aorta_model_gelu(const struct aorta_model *model, const struct aorta_pass *pass, int64_t layer,
                                   uint32_t place) {
    return (struct aorta_gelu){.dtype = model->shape.dtype,
                               .count = model->rows * model->shape.mlp_hidden_dim,
                               .dropout = model->shape.dropout,
                               .rng = rng_of(pass, layer, place),
                               .width = model->shape.mlp_hidden_dim};
}
