/* Three training steps against PyTorch's (tests/parity/make_vectors.py made the files, in float64): loss, every
 * gradient, norm, learning rate and the parameters after each AdamW step. */
#include "check.h"
#include "rig.h"

#include "train/options.h"
#include "train/weights.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

enum { STEPS = 3 };
static const double tolerance = 1e-4;

static void load(const char *kind, int step, const char *suffix, struct aorta_safetensors *file) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s_%04d%s.safetensors", PARITY_DATA, kind, step, suffix);
    check_ok(aorta_safetensors_read(path, file));
}

static const struct aorta_tensor *tensor(const struct aorta_safetensors *file, const char *name) {
    const struct aorta_tensor *found = aorta_safetensors_find(file, name);
    if (!found) fail_msg("the vectors have no tensor %s", name);
    return found;
}

static float value_at(const struct aorta_tensor *from, int64_t index) {
    float value;
    memcpy(&value, (const char *)from->data + (size_t)index * sizeof value, sizeof value);
    return value;
}

/* ||ours − theirs|| / ||theirs − origin||; origin NULL: 0. */
static double error_of(const float *ours, const struct aorta_tensor *theirs, const struct aorta_tensor *origin) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < aorta_tensor_elements(theirs); i++) {
        double value = (double)value_at(theirs, i), from = origin ? (double)value_at(origin, i) : 0;
        difference += pow((double)ours[i] - value, 2);
        size += pow(value - from, 2);
    }
    return sqrt(difference / (size > 0 ? size : 1));
}

static void hold(const char *what, int step, const char *name, double error, double limit) {
    if (!(error <= limit)) fail_msg("step %d: %s %s: error %.3g, allowed %.3g", step, what, name, error, limit);
}

static void check_gradients(const struct model_rig *rig, int step) {
    struct aorta_safetensors expected;
    load("grads", step, "", &expected);
    assert_int_equal(expected.count, rig->parameters);
    for (int i = 0; i < rig->parameters; i++) {
        const char *name = aorta_model_parameter(rig->model, i)->name;
        hold("gradient", step, name, error_of(rig->gradients + rig->offsets[i], tensor(&expected, name), NULL),
             tolerance);
    }
    aorta_safetensors_free(&expected);
}

/* After the step: the values, and how far they moved. */
static void check_parameters(const struct model_rig *rig, int step) {
    struct aorta_safetensors before, after;
    load("params", step, "", &before);
    load("params", step + 1, "", &after);
    for (int i = 0; i < rig->parameters; i++) {
        const char *name = aorta_model_parameter(rig->model, i)->name;
        const float *ours = rig->values + rig->offsets[i];
        hold("parameter", step, name, error_of(ours, tensor(&after, name), NULL), 1e-5);
        hold("update of", step, name, error_of(ours, tensor(&after, name), tensor(&before, name)), 1e-3);
    }
    aorta_safetensors_free(&after);
    aorta_safetensors_free(&before);
}

static void load_parameters(struct model_rig *rig) {
    struct aorta_safetensors file;
    load("params", 0, "", &file);
    assert_int_equal(file.count, rig->parameters);
    for (int i = 0; i < rig->parameters; i++) {
        const struct aorta_parameter *p = aorta_model_parameter(rig->model, i);
        const struct aorta_tensor *t = tensor(&file, p->name);
        assert_int_equal(t->dimensions, p->dimensions);
        assert_int_equal(t->shape[0], p->rows);
        if (p->dimensions == 2) assert_int_equal(t->shape[1], p->columns);
        memcpy(rig->values + rig->offsets[i], t->data, (size_t)model_rig_size(rig, i) * sizeof(float));
    }
    aorta_safetensors_free(&file);
}

static void load_batch(struct model_rig *rig, int step) {
    struct aorta_safetensors file;
    load("batch", step, "_rank00", &file);
    model_rig_batch(rig, tensor(&file, "dense")->data, tensor(&file, "categorical")->data,
                    tensor(&file, "target")->data, tensor(&file, "importance")->data);
    aorta_safetensors_free(&file);
}

static void optimize(struct model_rig *rig, const struct aorta_train_options *o) {
    float square_sum = 0;
    struct aorta_step_update_args update = {.state = rig->state,
                                            .square_sum = &square_sum,
                                            .max_norm = (float)o->training.grad_clip_norm,
                                            .beta1 = (float)o->optimizer.betas[0],
                                            .beta2 = (float)o->optimizer.betas[1]};
    struct aorta_adamw_args adamw = {.count = rig->elements,
                                     .beta1 = (float)o->optimizer.betas[0],
                                     .beta2 = (float)o->optimizer.betas[1],
                                     .eps = (float)o->optimizer.eps,
                                     .weight_decay = (float)o->optimizer.weight_decay,
                                     .state = rig->state,
                                     .copy_dtype = AORTA_F32,
                                     .parameter = rig->values,
                                     .gradient = rig->gradients,
                                     .m = rig->m,
                                     .v = rig->v};
    check_ok(aorta_square_sum(rig->stream, rig->gradients, rig->elements, &square_sum));
    check_ok(aorta_step_update(rig->stream, &update));
    check_ok(aorta_adamw_step(rig->stream, &adamw));
    check_ok(aorta_stream_synchronize(rig->stream));
}

static void begin_step(struct model_rig *rig, const struct aorta_train_options *o) {
    struct aorta_schedule schedule = {(float)o->optimizer.lr, o->scheduler.warmup_steps, o->scheduler.total_steps};
    check_ok(aorta_step_begin(rig->stream, rig->state, schedule));
    check_ok(aorta_stream_synchronize(rig->stream));
}

static double expected_of(const json_t *steps, int step, const char *key) {
    const json_t *value = json_object_get(json_array_get(steps, (size_t)step), key);
    assert_true(json_is_real(value));
    return json_real_value(value);
}

static void hold_number(const json_t *steps, int step, const char *key, float ours) {
    double theirs = expected_of(steps, step, key);
    hold(key, step, "", fabs((double)ours - theirs) / theirs, 1e-5);
}

static struct aorta_model_shape shape_of(const struct aorta_train_options *o) {
    return (struct aorta_model_shape){.batch = o->training.batch_size,
                                      .positions = o->dataset.sequence_length,
                                      .vocab_size = o->model.vocab_size,
                                      .embedding_dim = o->model.embedding_dim,
                                      .sparse_features = o->dataset.sparse_features,
                                      .num_dense_features = o->model.num_dense_features,
                                      .dense_dim = o->model.dense_dim,
                                      .model_dim = o->model.model_dim,
                                      .num_heads = o->model.num_heads,
                                      .num_layers = o->model.num_layers,
                                      .mlp_hidden_dim = o->model.mlp_hidden_dim,
                                      .dropout = (float)o->model.dropout,
                                      .dtype = AORTA_F32};
}

static void test_training_steps(void **state) {
    (void)state;
    struct aorta_train_options options;
    struct model_rig rig;
    json_error_t error;
    check_ok(aorta_train_options_load(PARITY_DATA "/config.yaml", NULL, 0, &options));
    json_t *expected = json_load_file(PARITY_DATA "/expected.json", 0, &error);
    const json_t *steps = json_object_get(expected, "steps");
    assert_int_equal(json_array_size(steps), STEPS);
    model_rig_open(&rig, shape_of(&options), 1);
    load_parameters(&rig);
    for (int step = 0; step < STEPS; step++) {
        load_batch(&rig, step);
        begin_step(&rig, &options);
        hold_number(steps, step, "loss", model_rig_run(&rig));
        check_gradients(&rig, step);
        optimize(&rig, &options);
        hold_number(steps, step, "grad_norm", rig.state->grad_norm);
        hold_number(steps, step, "lr", rig.state->lr);
        check_parameters(&rig, step);
        check_ok(aorta_step_end(rig.stream, rig.state));
        check_ok(aorta_stream_synchronize(rig.stream));
    }
    model_rig_close(&rig);
    json_decref(expected);
    aorta_train_options_free(&options);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_training_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
