/* The model alone: its loss against finite differences, its parameters, the gradients that it reports, its types. */
#include "check.h"
#include "rig.h"

#include <math.h>
#include <stdlib.h>

static const struct aorta_model_shape small = {.batch = 2,
                                               .positions = 5,
                                               .vocab_size = 13,
                                               .embedding_dim = 6,
                                               .sparse_features = 3,
                                               .num_dense_features = 2,
                                               .dense_dim = 4,
                                               .model_dim = 12,
                                               .num_heads = 3,
                                               .num_layers = 2,
                                               .mlp_hidden_dim = 20,
                                               .dtype = AORTA_F32};

static float loss_with(struct model_rig *rig, int64_t element, float value) {
    float before = rig->values[element];
    rig->values[element] = value;
    float loss = model_rig_run(rig);
    rig->values[element] = before;
    return loss;
}

/* Central difference. fp32 rounds the loss to some 5e-8, so with a step of 1e-2 the slope is known to about 1e-5. */
static void check_slope(struct model_rig *rig, int parameter, int64_t index, const float *gradients) {
    const float step = 1e-2f;
    int64_t element = rig->offsets[parameter] + index;
    float value = rig->values[element];
    double difference = (double)loss_with(rig, element, value + step) - (double)loss_with(rig, element, value - step);
    double slope = difference / (2 * (double)step), gradient = (double)gradients[element];
    if (fabs(slope - gradient) > 2e-2 * fabs(gradient) + 2.5e-5)
        fail_msg("%s[%lld]: gradient %.6g, finite difference %.6g", aorta_model_parameter(rig->model, parameter)->name,
                 (long long)index, gradient, slope);
}

static int64_t steepest(const struct model_rig *rig, int parameter, const float *gradients) {
    int64_t best = 0;
    const float *own = gradients + rig->offsets[parameter];
    for (int64_t i = 1; i < model_rig_size(rig, parameter); i++)
        if (fabsf(own[i]) > fabsf(own[best])) best = i;
    return best;
}

/* Three random elements of each parameter, and the steepest one. */
static void check_slopes(float dropout) {
    struct model_rig rig;
    struct aorta_model_shape shape = small;
    shape.dropout = dropout;
    model_rig_open(&rig, shape, 3);
    model_rig_run(&rig);
    size_t bytes = (size_t)rig.elements * sizeof(float);
    float *gradients = malloc(bytes);
    assert_non_null(gradients);
    memcpy(gradients, rig.gradients, bytes);
    srand(11);
    for (int parameter = 0; parameter < rig.parameters; parameter++) {
        int64_t top = steepest(&rig, parameter, gradients);
        assert_true(fabsf(gradients[rig.offsets[parameter] + top]) > 1e-4f); /* every parameter is used */
        check_slope(&rig, parameter, top, gradients);
        for (int i = 0; i < 3; i++) check_slope(&rig, parameter, rand() % model_rig_size(&rig, parameter), gradients);
    }
    free(gradients);
    model_rig_close(&rig);
}

static void test_finite_differences(void **state) {
    (void)state;
    check_slopes(0);
}

/* The masks of backward are those of forward, in every place. */
static void test_finite_differences_with_dropout(void **state) {
    (void)state;
    check_slopes(0.25f);
}

/* The mask depends on seed, step, rank and micro-batch, and on nothing else. */
static void test_dropout_masks(void **state) {
    (void)state;
    struct model_rig rig;
    struct aorta_model_shape shape = small;
    shape.dropout = 0.25f;
    model_rig_open(&rig, shape, 3);
    float first = model_rig_run(&rig);
    assert_true(model_rig_run(&rig) == first);
    rig.pass.rank = 1;
    float rank = model_rig_run(&rig);
    rig.pass.rank = 0, rig.pass.micro = 1;
    float micro = model_rig_run(&rig);
    rig.pass.micro = 0, rig.pass.seed++;
    float seed = model_rig_run(&rig);
    rig.pass.seed--, rig.state->step = 1;
    float step = model_rig_run(&rig);
    rig.state->step = 0;
    const float losses[] = {first, rank, micro, seed, step};
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < i; j++) assert_true(losses[i] != losses[j]);
    assert_true(model_rig_run(&rig) == first);
    model_rig_close(&rig);
}

/* Each gradient is announced once a pass; a layer's before those of the layer below it, then the
 * embedding's, and the projections' last. */
static void test_announcements(void **state) {
    (void)state;
    struct model_rig rig;
    model_rig_open(&rig, small, 3);
    model_rig_run(&rig);
    for (int i = 0; i < rig.parameters; i++) assert_int_equal(rig.ready[i], 1);
    int scorer = rig.ready_from[model_rig_find(&rig, "scorer.0.weight")];
    int upper = rig.ready_from[model_rig_find(&rig, "encoder.layers.1.self_attn.in_proj_weight")];
    int lower = rig.ready_from[model_rig_find(&rig, "encoder.layers.0.norm2.bias")];
    int embedding = rig.ready_from[model_rig_find(&rig, "embedding.weight")];
    assert_true(scorer < upper && upper < lower && lower < embedding);
    assert_true(embedding < rig.ready_from[model_rig_find(&rig, "embedding_projection.weight")]);
    assert_int_equal(rig.ready_from[model_rig_find(&rig, "dense_projection.weight")], rig.parameters - 1);
    model_rig_close(&rig);
}

/* `accumulate` adds to any old value; without it old gradients do not matter. Both weights scale. */
static void test_accumulation(void **state) {
    (void)state;
    struct model_rig rig;
    model_rig_open(&rig, small, 3);
    float loss = model_rig_run(&rig);
    size_t bytes = (size_t)rig.elements * sizeof(float);
    float *once = malloc(bytes);
    assert_non_null(once);
    memcpy(once, rig.gradients, bytes);
    rig.pass.accumulate = true;
    rig.pass.gradient_weight = 0.5f, rig.pass.loss_weight = 0.25f;
    assert_true(fabsf(model_rig_run(&rig) - loss * 0.25f) < 1e-6f);
    for (int64_t i = 0; i < rig.elements; i++)
        assert_true(fabsf(rig.gradients[i] - 1.5f * once[i]) <= 1e-5f * fabsf(once[i]) + 1e-9f);
    rig.pass.accumulate = false;
    rig.pass.gradient_weight = 1;
    model_rig_run(&rig);
    for (int64_t i = 0; i < rig.elements; i++)
        assert_true(fabsf(rig.gradients[i] - once[i]) <= 1e-5f * fabsf(once[i]) + 1e-9f);
    free(once);
    model_rig_close(&rig);
}

/* Loss and gradients of a model whose products are cut into pieces, against those of the same model uncut. */
static void check_pieces(struct aorta_model_shape shape, int pieces, bool accumulate) {
    struct model_rig whole, cut;
    model_rig_open(&whole, shape, 3);
    model_rig_open(&cut, shape, 3);
    cut.pass.gemm_chunks = pieces;
    double loss = (double)model_rig_run(&whole), same = (double)model_rig_run(&cut);
    whole.pass.accumulate = cut.pass.accumulate = accumulate;
    model_rig_run(&whole), model_rig_run(&cut);
    if (fabs(same - loss) > 1e-6 * loss) fail_msg("%d pieces: loss %.9g, not %.9g", pieces, same, loss);
    for (int p = 0; p < whole.parameters; p++) {
        const float *a = whole.gradients + whole.offsets[p], *b = cut.gradients + cut.offsets[p];
        double most = 0, off = 0;
        for (int64_t i = 0; i < model_rig_size(&whole, p); i++) {
            most = fmax(most, fabs((double)a[i]));
            off = fmax(off, fabs((double)a[i] - (double)b[i]));
        }
        if (!(off <= 1e-5 * most)) /* NaN as well */
            fail_msg("%d pieces: %s is off by %.3g of %.3g", pieces, aorta_model_parameter(whole.model, p)->name, off,
                     most);
    }
    model_rig_close(&cut);
    model_rig_close(&whole);
}

static void test_products_in_pieces(void **state) {
    (void)state;
    struct aorta_model_shape shape = small; /* ten rows: cut anywhere */
    const int few[] = {2, 3, 10, 1000};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) check_pieces(shape, few[i], false);
    check_pieces(shape, 4, true);
    shape.batch = 9, shape.positions = 7, shape.dropout = 0.2f; /* 63 rows: two to seven pieces are cut at eighths */
    const int many[] = {2, 7, 8, 50};
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) check_pieces(shape, many[i], i % 2);
}

/* Each piece of a product has a range of its own, with its share of the arithmetic. */
static void test_ranges_of_pieces(void **state) {
    (void)state;
    enum { PIECES = 4 };
    struct model_rig rig;
    struct aorta_model_shape shape = small;
    shape.batch = 9, shape.positions = 7;
    model_rig_open(&rig, shape, 3);
    check_ok(aorta_recorder_create(rig.device, 1, 1000, &rig.pass.recorder));
    rig.pass.gemm_chunks = PIECES;
    aorta_recorder_step(rig.pass.recorder, 0, 0);
    model_rig_run(&rig);
    struct aorta_profile profile;
    check_ok(aorta_recorder_collect(rig.pass.recorder, 0, &profile));
    static const double rows[] = {8, 16, 16, 23}; /* 63 rows from 0, 15, 31 and 47 on, rounded down to eighths */
    int found = 0;
    for (size_t i = 0; i < profile.range_count; i++) {
        const struct aorta_range_info *info = &profile.ranges[i].info;
        if (strcmp(info->tag, "encoder.layers.1.linear2") != 0) continue;
        double flops = 2.0 * rows[found % PIECES] * (double)(shape.model_dim * shape.mlp_hidden_dim);
        assert_true(fabs(info->flops - flops) < 0.5);
        found++;
    }
    assert_int_equal(found, 3 * PIECES); /* forward, gradients of input and of weight */
    aorta_profile_free(&profile);
    aorta_recorder_destroy(rig.pass.recorder);
    model_rig_close(&rig);
}

/* With output_copies, backward passes read the caller's copy, which is ready at the latest when the callback runs, as
 * they read it then. */
static aorta_status copy_output(void *user, int layer) {
    struct model_rig *rig = user;
    struct aorta_layer_output output = aorta_model_output(rig->model, layer);
    rig->outputs_needed++;
    return aorta_copy(rig->stream, output.copy, output.made, output.bytes);
}

static void test_copies_of_outputs(void **state) {
    (void)state;
    struct model_rig plain, rig;
    struct aorta_model_shape shape = small;
    model_rig_open(&plain, shape, 3);
    assert_null(aorta_model_output(plain.model, 0).copy);
    model_rig_run(&plain);
    shape.output_copies = true;
    model_rig_open(&rig, shape, 3);
    for (int layer = 0; layer < shape.num_layers; layer++) {
        struct aorta_layer_output output = aorta_model_output(rig.model, layer);
        check_ok(aorta_fill_bytes(rig.stream, output.copy, 0xFF, output.bytes)); /* NaN */
    }
    model_rig_run(&rig);
    const char *readers[] = {"encoder.layers.1.self_attn.in_proj_weight", "norm.weight"};
    for (size_t i = 0; i < 2; i++) assert_true(isnan(rig.gradients[rig.offsets[model_rig_find(&rig, readers[i])]]));
    rig.pass.output_needed = copy_output;
    model_rig_run(&rig);
    assert_int_equal(rig.outputs_needed, shape.num_layers);
    assert_memory_equal(rig.gradients, plain.gradients, (size_t)rig.elements * sizeof(float));
    model_rig_close(&rig);
    model_rig_close(&plain);
}

/* Lent memory is used unless it is too small, and its contents before and after a step do not matter. */
static void test_lent_memory(void **state) {
    (void)state;
    enum { BYTES = 1 << 16, UNITS = 3 };
    struct model_rig plain, lent;
    char *memory = aligned_alloc(256, UNITS * BYTES);
    struct aorta_place reuse[UNITS];
    assert_non_null(memory);
    for (int unit = 0; unit < UNITS; unit++)
        reuse[unit] = (struct aorta_place){memory + unit * BYTES, unit == 1 ? 4096 : BYTES};
    model_rig_open(&plain, small, 5);
    model_rig_open_on(&lent, small, 5, reuse);
    const uint64_t saved = aorta_device_memory(plain.device).allocated - aorta_device_memory(lent.device).allocated;
    assert_true(saved > 4096);
    for (int run = 0; run < 2; run++) {
        memset(memory, 0xff, UNITS * BYTES); /* NaN */
        assert_true(model_rig_run(&lent) == model_rig_run(&plain));
        assert_memory_equal(lent.gradients, plain.gradients, (size_t)plain.elements * sizeof(float));
    }
    for (int unit = 0; unit < UNITS; unit++) /* each was written */
        assert_true(memcmp(memory + unit * BYTES, memory + 2 * BYTES - 4096, 4096) != 0);
    for (int i = 4096; i < BYTES; i++) assert_int_equal(memory[BYTES + i], -1); /* and nothing after a loan */
    model_rig_close(&lent);
    model_rig_close(&plain);
    free(memory);
}

/* 16-bit storage stays near fp32: bf16 has 8 bits of significand, fp16 11. */
static void test_types(void **state) {
    (void)state;
    static const struct {
        enum aorta_dtype dtype;
        double loss, gradients;
    } rows[] = {{AORTA_BF16, 5e-3, 0.1}, {AORTA_F16, 1e-3, 0.02}};
    struct model_rig exact;
    model_rig_open(&exact, small, 3);
    double loss = (double)model_rig_run(&exact);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model_rig rig;
        struct aorta_model_shape shape = small;
        shape.dtype = rows[i].dtype;
        model_rig_open(&rig, shape, 3);
        rig.state->loss_scale = 1024;
        double rounded = (double)model_rig_run(&rig), difference = 0, size = 0;
        assert_true(rounded != loss);
        assert_true(fabs(rounded - loss) < rows[i].loss * loss);
        for (int64_t e = 0; e < rig.elements; e++) {
            difference += pow((double)rig.gradients[e] / 1024 - (double)exact.gradients[e], 2);
            size += pow((double)exact.gradients[e], 2);
        }
        if (sqrt(difference / size) > rows[i].gradients) fail_msg("gradients off by %.3g", sqrt(difference / size));
        model_rig_close(&rig);
    }
    model_rig_close(&exact);
}

/* Start values are PyTorch's distributions, the same in pieces as at once. */
static void test_start_values(void **state) {
    (void)state;
    struct model_rig rig;
    struct aorta_model_shape shape = small;
    shape.model_dim = 48, shape.mlp_hidden_dim = 64, shape.vocab_size = 500;
    model_rig_open(&rig, shape, 3);
    for (int i = 0; i < rig.parameters; i++) {
        const struct aorta_parameter *p = aorta_model_parameter(rig.model, i);
        const float *whole = rig.values + rig.offsets[i];
        int64_t count = model_rig_size(&rig, i);
        float piece[7];
        for (int64_t first = 0; first < count; first += 7) {
            int64_t some = count - first < 7 ? count - first : 7;
            aorta_model_initialise(rig.model, i, 3, first, some, piece);
            assert_memory_equal(piece, whole + first, (size_t)some * sizeof *piece);
        }
        double squares = 0;
        for (int64_t e = 0; e < count; e++) {
            if (p->init == AORTA_INIT_ZERO) assert_true(whole[e] == 0);
            if (p->init == AORTA_INIT_ONE) assert_true(whole[e] == 1);
            if (p->init == AORTA_INIT_UNIFORM) assert_true(fabsf(whole[e]) <= p->bound);
            squares += pow((double)whole[e], 2);
        }
        double variance = p->init == AORTA_INIT_NORMAL ? 1 : pow((double)p->bound, 2) / 3;
        if ((p->init == AORTA_INIT_NORMAL || p->init == AORTA_INIT_UNIFORM) && count > 1000)
            assert_true(fabs(squares / (double)count / variance - 1) < 0.2);
    }
    const struct aorta_parameter *in_proj =
        aorta_model_parameter(rig.model, model_rig_find(&rig, "encoder.layers.1.self_attn.in_proj_weight"));
    assert_true(fabs((double)in_proj->bound - sqrt(6.0 / (48 + 3 * 48))) < 1e-6); /* Xavier */
    model_rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finite_differences), cmocka_unit_test(test_finite_differences_with_dropout),
        cmocka_unit_test(test_dropout_masks),      cmocka_unit_test(test_announcements),
        cmocka_unit_test(test_accumulation),       cmocka_unit_test(test_products_in_pieces),
        cmocka_unit_test(test_ranges_of_pieces),   cmocka_unit_test(test_copies_of_outputs),
        cmocka_unit_test(test_lent_memory),        cmocka_unit_test(test_types),
        cmocka_unit_test(test_start_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
