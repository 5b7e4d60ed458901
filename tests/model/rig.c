#include "rig.h"

#include "base/random.h"
#include "check.h"

#include <stdlib.h>

static void *take(struct model_rig *rig, size_t bytes) {
    void *memory;
    check_ok(aorta_device_alloc(rig->device, bytes, "test", &memory));
    check_ok(aorta_fill_bytes(rig->stream, memory, 0, bytes));
    return memory;
}

static aorta_status count_ready(void *user, int parameter) {
    struct model_rig *rig = user;
    if (!rig->ready[parameter]++) rig->ready_from[parameter] = rig->announcements;
    rig->announcements++;
    return NULL;
}

static void make_batch(struct model_rig *rig, uint64_t seed) {
    const struct aorta_model_shape *s = &rig->shape;
    size_t rows = (size_t)(s->batch * s->positions);
    size_t dense = rows * (size_t)(s->num_dense_features * s->dense_dim), ids = rows * (size_t)s->sparse_features;
    struct aorta_random random = {.seed = seed, .domain = AORTA_RANDOM_DATA};
    float *values = malloc((dense + 2 * rows) * sizeof *values);
    int64_t *categorical = malloc(ids * sizeof *categorical);
    assert_true(values && categorical);
    aorta_random_uniform(&random, 0, dense, -1.7f, 1.7f, values);
    aorta_random_uniform(&random, dense, 2 * rows, 0, 1, values + dense);
    aorta_random_below(&random, dense + 2 * rows, ids, (uint32_t)s->vocab_size, categorical);
    model_rig_batch(rig, values, categorical, values + dense, values + dense + rows);
    free(categorical);
    free(values);
}

static void take_buffers(struct model_rig *rig) {
    size_t bytes = (size_t)rig->elements * sizeof(float);
    rig->values = take(rig, bytes);
    rig->gradients = take(rig, bytes);
    rig->m = take(rig, bytes);
    rig->v = take(rig, bytes);
    rig->weights = rig->values;
    if (rig->shape.dtype != AORTA_F32)
        rig->weights = take(rig, (size_t)rig->elements * aorta_dtype_size(rig->shape.dtype));
    rig->state = take(rig, sizeof *rig->state);
    check_ok(aorta_stream_synchronize(rig->stream));
    *rig->state = (struct aorta_step_state){.loss_scale = 1, .finite = 1};
}

void model_rig_open(struct model_rig *rig, struct aorta_model_shape shape, uint64_t seed) {
    model_rig_open_on(rig, shape, seed, NULL);
}

void model_rig_open_on(struct model_rig *rig, struct aorta_model_shape shape, uint64_t seed,
                       const struct aorta_place *reuse) {
    *rig = (struct model_rig){.shape = shape};
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &rig->device));
    check_ok(aorta_stream_create(rig->device, "compute", AORTA_PRIORITY_NORMAL, &rig->stream));
    check_ok(aorta_model_create(rig->device, &shape, &rig->model));
    check_ok(aorta_model_take_memory(rig->model, reuse));
    rig->parameters = aorta_model_parameter_count(rig->model);
    rig->offsets = calloc((size_t)rig->parameters, sizeof *rig->offsets);
    rig->ready = calloc((size_t)rig->parameters, sizeof *rig->ready);
    rig->ready_from = calloc((size_t)rig->parameters, sizeof *rig->ready_from);
    for (int i = 0; i < rig->parameters; i++) {
        rig->offsets[i] = rig->elements;
        rig->elements += model_rig_size(rig, i);
    }
    take_buffers(rig);
    for (int i = 0; i < rig->parameters; i++)
        aorta_model_initialise(rig->model, i, seed, 0, model_rig_size(rig, i), rig->values + rig->offsets[i]);
    rig->pass = (struct aorta_pass){.stream = rig->stream,
                                    .state = rig->state,
                                    .seed = seed,
                                    .loss_weight = 1,
                                    .gradient_weight = 1,
                                    .gradient_ready = count_ready,
                                    .user = rig};
    make_batch(rig, seed);
}

void model_rig_close(struct model_rig *rig) {
    for (size_t i = 0; i < 4; i++) aorta_device_free(rig->device, rig->batch_memory[i]);
    if (rig->weights != rig->values) aorta_device_free(rig->device, rig->weights);
    aorta_device_free(rig->device, rig->state);
    aorta_device_free(rig->device, rig->v);
    aorta_device_free(rig->device, rig->m);
    aorta_device_free(rig->device, rig->gradients);
    aorta_device_free(rig->device, rig->values);
    aorta_model_destroy(rig->model);
    assert_int_equal(aorta_device_memory(rig->device).allocated, 0);
    aorta_stream_destroy(rig->stream);
    aorta_device_close(rig->device);
    free(rig->ready_from);
    free(rig->ready);
    free(rig->offsets);
}

void model_rig_batch(struct model_rig *rig, const void *dense, const void *categorical, const void *target,
                     const void *importance) {
    const struct aorta_model_shape *s = &rig->shape;
    size_t rows = (size_t)(s->batch * s->positions);
    const struct {
        const void *from;
        size_t bytes;
    } parts[] = {{dense, rows * (size_t)(s->num_dense_features * s->dense_dim) * sizeof(float)},
                 {categorical, rows * (size_t)s->sparse_features * sizeof(int64_t)},
                 {target, rows * sizeof(float)},
                 {importance, rows * sizeof(float)}};
    for (size_t i = 0; i < 4; i++) {
        if (!rig->batch_memory[i]) rig->batch_memory[i] = take(rig, parts[i].bytes);
        check_ok(aorta_copy(rig->stream, rig->batch_memory[i], parts[i].from, parts[i].bytes));
    }
    check_ok(aorta_stream_synchronize(rig->stream));
    rig->batch =
        (struct aorta_batch){rig->batch_memory[0], rig->batch_memory[1], rig->batch_memory[2], rig->batch_memory[3]};
}

static struct aorta_unit_view view_of(const struct model_rig *rig, int unit) {
    struct aorta_unit_view view = {0};
    size_t size = aorta_dtype_size(rig->shape.dtype);
    for (int i = 0; i < rig->parameters; i++) {
        const struct aorta_parameter *p = aorta_model_parameter(rig->model, i);
        if (p->unit != unit) continue;
        view.weights[p->slot] = (const char *)rig->weights + (size_t)rig->offsets[i] * size;
        view.gradients[p->slot] = rig->gradients + rig->offsets[i];
    }
    return view;
}

float model_rig_run(struct model_rig *rig) {
    int layers = (int)rig->shape.num_layers;
    struct aorta_unit_view root = view_of(rig, layers);
    if (rig->weights != rig->values)
        check_ok(aorta_cast(rig->stream, rig->weights, rig->shape.dtype, rig->values, AORTA_F32, rig->elements, 1));
    rig->state->loss = 0;
    check_ok(aorta_model_input_forward(rig->model, &rig->pass, &rig->batch, &root));
    for (int layer = 0; layer < layers; layer++) {
        struct aorta_unit_view view = view_of(rig, layer);
        check_ok(aorta_model_layer_forward(rig->model, &rig->pass, layer, &view));
    }
    check_ok(aorta_model_head(rig->model, &rig->pass, &rig->batch, &root));
    for (int layer = layers - 1; layer >= 0; layer--) {
        struct aorta_unit_view view = view_of(rig, layer);
        check_ok(aorta_model_layer_backward(rig->model, &rig->pass, layer, &view));
    }
    check_ok(aorta_model_input_backward(rig->model, &rig->pass, &rig->batch, &root));
    check_ok(aorta_stream_synchronize(rig->stream));
    return rig->state->loss;
}

int model_rig_find(const struct model_rig *rig, const char *name) {
    for (int i = 0; i < rig->parameters; i++)
        if (strcmp(aorta_model_parameter(rig->model, i)->name, name) == 0) return i;
    fail_msg("the model has no parameter %s", name);
    return -1;
}

int64_t model_rig_size(const struct model_rig *rig, int parameter) {
    const struct aorta_parameter *p = aorta_model_parameter(rig->model, parameter);
    return p->rows * p->columns;
}
