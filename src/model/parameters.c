/* The table of parameters: names, shapes and start values as PyTorch has them. */
#include "base/random.h"
#include "model/model_internal.h"

#include <math.h>

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

aorta_status aorta_model_build_parameters(struct aorta_model *model) {
    int layers = (int)model->shape.num_layers, count = layers * LAYER_PARAMETERS + ROOT_PARAMETERS;
    model->parameter_count = count;
    model->parameters = aorta_arena_alloc(&model->arena, (size_t)count * sizeof *model->parameters);
    if (!model->parameters) return AORTA_ERROR(AORTA_MEMORY, "the table of %d parameters did not fit in memory", count);
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
                if (!next->name) return AORTA_ERROR(AORTA_MEMORY, "parameter names did not fit in memory");
            }
        }
        *next = root[slot];
        next->unit = layers, next->slot = slot;
        next->before_layers = slot < ROOT_BEFORE_LAYERS;
        next->forward_only = slot == EMBEDDING_WEIGHT;
        next++;
    }
    return NULL;
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
