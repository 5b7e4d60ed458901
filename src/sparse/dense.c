#include "sparse/dense.h"

#include "base/random.h"
#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>

/* ---- shape ---- */

static void add_layer(struct aorta_sparse_shape *shape, int64_t in, int64_t out) {
    struct aorta_sparse_layer *layer = &shape->layers[shape->count++];
    const int64_t weights = (in * out + 3) / 4 * 4; /* kernels read four at a time */
    *layer = (struct aorta_sparse_layer){in, out, shape->parameters, shape->parameters + weights};
    shape->parameters += weights + (out + 3) / 4 * 4;
}

aorta_status aorta_sparse_shape_make(const struct aorta_sparse_options *options, int64_t pooled_columns,
                                     struct aorta_arena *arena, struct aorta_sparse_shape *shape) {
    const struct aorta_int_list *bottom = &options->model.dense_layers, *top = &options->model.over_layers;
    *shape = (struct aorta_sparse_shape){.bottom = (int)bottom->count, .top = (int)top->count + 1};
    shape->layers = aorta_arena_alloc(arena, (bottom->count + top->count + 2) * sizeof *shape->layers);
    AORTA_TRY(aorta_arena_check(arena, "the list of layers"));
    int64_t in = options->model.num_float_features;
    for (size_t i = 0; i < bottom->count; i++, in = shape->width) add_layer(shape, in, shape->width = bottom->items[i]);
    add_layer(shape, pooled_columns, shape->width);
    for (size_t i = 0; i < top->count; i++, in = top->items[i - 1]) add_layer(shape, in, top->items[i]);
    add_layer(shape, in, 1);
    return NULL;
}

void aorta_sparse_shape_initialise(const struct aorta_sparse_shape *shape, uint64_t seed, float *values) {
    for (int64_t i = 0; i < shape->parameters; i++) values[i] = 0;
    for (int i = 0; i < shape->count; i++) {
        const struct aorta_sparse_layer *layer = &shape->layers[i];
        const float bound = 1.0f / sqrtf((float)layer->in);
        /* Tables have the even streams. */
        struct aorta_random random = {.seed = seed, .domain = AORTA_RANDOM_PARAMETERS, .stream = 2 * (uint64_t)i + 1};
        const size_t weights = (size_t)(layer->in * layer->out);
        aorta_random_uniform(&random, 0, weights, -bound, bound, values + layer->weight);
        aorta_random_uniform(&random, weights, (size_t)layer->out, -bound, bound, values + layer->bias);
    }
}

/* ---- memory ---- */

struct aorta_sparse_dense {
    struct aorta_train_context *context;
    struct aorta_sparse_shape shape;
    float *parameters, *gradients, *square_sum, *ones;
    float **outputs;  /* of each layer, fp32; after the ReLU */
    float *gated;     /* the interaction */
    float *wide[2];   /* the gradient on the way back and the next one, as wide as the widest layer */
    float *projected; /* gradient of the projection's output */
};

static aorta_status take(struct aorta_sparse_dense *d, int64_t count, const char *what, float **memory) {
    return aorta_own_memory(&d->context->owned, (size_t)count * sizeof **memory, what, memory);
}

static aorta_status send_start_values(struct aorta_sparse_dense *d) {
    struct aorta_stream *compute = aorta_train_compute(d->context);
    const size_t bytes = (size_t)d->shape.parameters * sizeof(float);
    float *values = malloc(bytes);
    if (!values) return AORTA_ERROR(AORTA_MEMORY, "start values did not fit in host memory");
    aorta_sparse_shape_initialise(&d->shape, (uint64_t)d->context->options->training.seed, values);
    aorta_status status = aorta_copy(compute, d->parameters, values, bytes);
    status = aorta_status_join(status, aorta_stream_synchronize(compute));
    free(values);
    return status;
}

static aorta_status build(struct aorta_sparse_dense *d, int64_t samples) {
    int64_t widest = 1;
    AORTA_TRY(take(d, d->shape.parameters, "dense parameters", &d->parameters));
    AORTA_TRY(take(d, d->shape.parameters + 1, "dense gradients", &d->gradients));
    AORTA_TRY(take(d, 1, "gradient norm", &d->square_sum));
    AORTA_TRY(take(d, samples, "importance", &d->ones));
    d->outputs = aorta_arena_alloc(&d->context->arena, (size_t)d->shape.count * sizeof *d->outputs);
    AORTA_TRY(aorta_arena_check(&d->context->arena, "the list of layers"));
    for (int i = 0; i < d->shape.count; i++) {
        const int64_t out = d->shape.layers[i].out;
        AORTA_TRY(take(d, samples * out, "layer output", &d->outputs[i]));
        if (out > widest) widest = out;
    }
    AORTA_TRY(take(d, samples * d->shape.width, "interaction", &d->gated));
    AORTA_TRY(take(d, samples * d->shape.width, "gradient of the projection", &d->projected));
    for (int i = 0; i < 2; i++) AORTA_TRY(take(d, samples * widest, "gradients of layers", &d->wide[i]));
    AORTA_TRY(aorta_fill(aorta_train_compute(d->context), d->ones, AORTA_F32, samples, 1));
    AORTA_TRY(aorta_fill(aorta_train_compute(d->context), d->gradients, AORTA_F32, d->shape.parameters + 1, 0));
    return send_start_values(d);
}

aorta_status aorta_sparse_dense_create(struct aorta_train_context *context, const struct aorta_sparse_options *options,
                                       int64_t pooled_columns, int64_t samples, struct aorta_sparse_dense **out) {
    struct aorta_sparse_dense *dense = *out = aorta_arena_alloc(&context->arena, sizeof *dense);
    if (!dense) return aorta_arena_check(&context->arena, "the dense layers");
    dense->context = context;
    AORTA_TRY(aorta_sparse_shape_make(options, pooled_columns, &context->arena, &dense->shape));
    return build(dense, samples);
}

/* ---- passes ---- */

static struct aorta_stream *compute_of(const struct aorta_sparse_dense *d) {
    return aorta_train_compute(d->context);
}

/* Begins a range for a pass over layers [first, end); `passes`: products of each layer. */
static aorta_status begin(const struct aorta_sparse_dense *d, const char *function, int first, int end, int passes,
                          int64_t samples) {
    double flops = 0;
    int64_t bytes = 0;
    for (int i = first; i < end; i++) {
        const struct aorta_sparse_layer *layer = &d->shape.layers[i];
        flops += 2.0 * passes * (double)samples * (double)(layer->in * layer->out);
        bytes += passes * (int64_t)sizeof(float) * (samples * (layer->in + layer->out) + layer->in * layer->out);
    }
    struct aorta_range_info info = {.tag = "dense",
                                    .function = function,
                                    .role = AORTA_ROLE_COMPUTE,
                                    .kind = AORTA_RANGE_COMPUTE,
                                    .layer = -1,
                                    .bytes = bytes,
                                    .flops = flops,
                                    .dtype = AORTA_F32};
    return aorta_range_begin(d->context->recorder, compute_of(d), &info);
}

enum product { FORWARD, BACKWARD_WEIGHT, BACKWARD_INPUT };

/* One product [m, k] times [k, n] within the open range. Only kernel records show it. */
static aorta_status product(const struct aorta_sparse_dense *d, enum product kind, int layer, int64_t samples,
                            struct aorta_linear_args args) {
    static const struct {
        const char *name;
        aorta_status (*run)(struct aorta_stream *stream, const struct aorta_linear_args *args);
    } products[] = {[FORWARD] = {"dense_forward", aorta_linear_forward},
                    [BACKWARD_WEIGHT] = {"dense_backward_weight", aorta_linear_backward_weight},
                    [BACKWARD_INPUT] = {"dense_backward_input", aorta_linear_backward_input}};
    const struct aorta_sparse_layer *l = &d->shape.layers[layer];
    const int64_t m = kind == BACKWARD_WEIGHT ? l->out : samples, n = kind == FORWARD ? l->out : l->in;
    const int64_t k = kind == FORWARD ? l->in : kind == BACKWARD_WEIGHT ? samples : l->out;
    const struct aorta_range_info info = {.tag = "dense",
                                          .function = products[kind].name,
                                          .role = AORTA_ROLE_COMPUTE,
                                          .kind = AORTA_RANGE_COMPUTE,
                                          .layer = -1,
                                          .bytes = (m * k + k * n + m * n) * (int64_t)sizeof(float),
                                          .flops = 2.0 * (double)m * (double)k * (double)n,
                                          .dims = {{(int32_t)m, (int32_t)k}, {(int32_t)k, (int32_t)n}},
                                          .dtype = AORTA_F32,
                                          .inner = true};
    args.shape = (struct aorta_linear){.dtype = AORTA_F32, .rows = samples, .in = l->in, .out = l->out};
    args.weight = d->parameters + l->weight, args.bias = d->parameters + l->bias;
    args.dweight = d->gradients + l->weight, args.dbias = d->gradients + l->bias;
    AORTA_TRY(aorta_range_begin(d->context->recorder, compute_of(d), &info));
    AORTA_TRY(products[kind].run(compute_of(d), &args));
    return aorta_train_end(d->context);
}

static aorta_status forward(struct aorta_sparse_dense *d, int layer, int64_t samples, const float *x, bool relu) {
    return product(d, FORWARD, layer, samples,
                   (struct aorta_linear_args){.x = x, .y = d->outputs[layer], .relu = relu});
}

static aorta_status backward_weight(struct aorta_sparse_dense *d, int layer, int64_t samples, const float *x,
                                    const float *dy) {
    return product(d, BACKWARD_WEIGHT, layer, samples, (struct aorta_linear_args){.x = x, .dy = dy});
}

static aorta_status backward_input(struct aorta_sparse_dense *d, int layer, int64_t samples, const float *dy,
                                   float *dx) {
    return product(d, BACKWARD_INPUT, layer, samples, (struct aorta_linear_args){.dy = dy, .dx = dx});
}

/* The gradient of a layer's output before its ReLU, in place. */
static aorta_status relu_backward(struct aorta_sparse_dense *d, int layer, int64_t samples, float *dy) {
    return aorta_relu_backward(
        compute_of(d), &(struct aorta_relu_args){
                           .count = samples * d->shape.layers[layer].out, .y = d->outputs[layer], .dy = dy, .dx = dy});
}

aorta_status aorta_sparse_dense_bottom(struct aorta_sparse_dense *d, const struct aorta_sparse_pass *pass) {
    const float *x = pass->features;
    AORTA_TRY(begin(d, "bottom_forward", 0, d->shape.bottom, 1, pass->samples));
    for (int i = 0; i < d->shape.bottom; x = d->outputs[i++]) AORTA_TRY(forward(d, i, pass->samples, x, true));
    return aorta_train_end(d->context);
}

static aorta_status top_forward(struct aorta_sparse_dense *d, const struct aorta_sparse_pass *pass) {
    const int projection = d->shape.bottom, score = d->shape.count - 1;
    AORTA_TRY(begin(d, "top_forward", projection, d->shape.count, 1, pass->samples));
    AORTA_TRY(forward(d, projection, pass->samples, pass->pooled, false));
    AORTA_TRY(aorta_gate_forward(compute_of(d), &(struct aorta_gate_args){.count = pass->samples * d->shape.width,
                                                                          .z = d->outputs[projection],
                                                                          .d = d->outputs[projection - 1],
                                                                          .y = d->gated}));
    const float *x = d->gated;
    for (int i = projection + 1; i <= score; x = d->outputs[i++])
        AORTA_TRY(forward(d, i, pass->samples, x, i != score));
    return aorta_train_end(d->context);
}

static void swap_wide(struct aorta_sparse_dense *d) {
    float *first = d->wide[0];
    d->wide[0] = d->wide[1], d->wide[1] = first;
}

/* Back through the layers after the interaction: their gradients and, in wide[0], that of the dense side. */
static aorta_status top_backward(struct aorta_sparse_dense *d, const struct aorta_sparse_pass *pass) {
    const int projection = d->shape.bottom, score = d->shape.count - 1;
    const struct aorta_bce_args bce = {.dtype = AORTA_F32,
                                       .count = pass->samples,
                                       .weight = 1,
                                       .gradient_weight = 1.0f / (float)aorta_comm_size(d->context->world),
                                       .scores = d->outputs[score],
                                       .target = pass->labels,
                                       .importance = d->ones,
                                       .state = d->context->state,
                                       .dscores = d->wide[0]};
    AORTA_TRY(aorta_bce_with_logits(compute_of(d), &bce));
    for (int i = score; i > projection; i--) {
        const float *x = i == projection + 1 ? d->gated : d->outputs[i - 1];
        if (i != score) AORTA_TRY(relu_backward(d, i, pass->samples, d->wide[0]));
        AORTA_TRY(backward_weight(d, i, pass->samples, x, d->wide[0]));
        AORTA_TRY(backward_input(d, i, pass->samples, d->wide[0], d->wide[1]));
        swap_wide(d);
    }
    AORTA_TRY(aorta_gate_backward(compute_of(d), &(struct aorta_gate_args){.count = pass->samples * d->shape.width,
                                                                           .z = d->outputs[projection],
                                                                           .d = d->outputs[projection - 1],
                                                                           .dy = d->wide[0],
                                                                           .dz = d->projected,
                                                                           .dd = d->wide[1]}));
    swap_wide(d);
    return NULL;
}

aorta_status aorta_sparse_dense_top(struct aorta_sparse_dense *d, const struct aorta_sparse_pass *pass) {
    AORTA_TRY(top_forward(d, pass));
    AORTA_TRY(begin(d, "top_backward", d->shape.bottom + 1, d->shape.count, 2, pass->samples));
    AORTA_TRY(top_backward(d, pass));
    AORTA_TRY(aorta_train_end(d->context));
    AORTA_TRY(begin(d, "pooled_gradient", d->shape.bottom, d->shape.bottom + 1, 1, pass->samples));
    AORTA_TRY(backward_input(d, d->shape.bottom, pass->samples, d->projected, pass->pooled_gradient));
    return aorta_train_end(d->context);
}

aorta_status aorta_sparse_dense_backward(struct aorta_sparse_dense *d, const struct aorta_sparse_pass *pass) {
    AORTA_TRY(begin(d, "bottom_backward", 0, d->shape.bottom + 1, 1, pass->samples));
    AORTA_TRY(backward_weight(d, d->shape.bottom, pass->samples, pass->pooled, d->projected));
    for (int i = d->shape.bottom - 1; i >= 0; i--) {
        AORTA_TRY(relu_backward(d, i, pass->samples, d->wide[0]));
        AORTA_TRY(backward_weight(d, i, pass->samples, i ? d->outputs[i - 1] : pass->features, d->wide[0]));
        if (i) AORTA_TRY(backward_input(d, i, pass->samples, d->wide[0], d->wide[1]));
        swap_wide(d);
    }
    return aorta_train_end(d->context);
}

/* ---- the optimizer ---- */

float *aorta_sparse_dense_gradients(struct aorta_sparse_dense *d, int64_t *count) {
    *count = d->shape.parameters + 1;
    return d->gradients;
}

aorta_status aorta_sparse_dense_update(struct aorta_sparse_dense *d) {
    const struct aorta_step_update_args update = {.state = d->context->state, .square_sum = d->square_sum};
    const int64_t count = d->shape.parameters;
    AORTA_TRY(aorta_train_begin_on(d->context, AORTA_ROLE_COMPUTE, AORTA_RANGE_COMPUTE, "dense", "sgd_step",
                                   4 * count * (int64_t)sizeof(float)));
    AORTA_TRY(aorta_fill(compute_of(d), d->square_sum, AORTA_F32, 1, 0));
    AORTA_TRY(aorta_square_sum(compute_of(d), d->gradients, count, d->square_sum));
    AORTA_TRY(aorta_step_update(compute_of(d), &update));
    AORTA_TRY(aorta_add(compute_of(d), d->parameters, d->gradients, AORTA_F32, count,
                        -(float)d->context->options->optimizer.lr));
    return aorta_train_end(d->context);
}
