/* The operations around the gradients: loss, norm, step state, AdamW. */
#include "rig.h"

#include <math.h>

static double bce(double s, double t) {
    return fmax(s, 0.0) - s * t + log1p(exp(-fabs(s)));
}

static struct aorta_step_state state_of(struct rig *rig, const struct aorta_step_state *there) {
    struct aorta_step_state state;
    rig_get_bytes(rig, &state, there, sizeof state);
    return state;
}

struct loss_example {
    double *scores, *target, *importance;
    int64_t count;
};

static double weighted_loss(void *context) {
    const struct loss_example *e = context;
    double total = 0.0;
    for (int64_t i = 0; i < e->count; i++) total += e->importance[i] * bce(e->scores[i], e->target[i]);
    return total / (double)e->count;
}

static void loss(void **state) {
    for (int t = 0; t < 3; t++) {
        struct rig *rig = *state;
        const enum aorta_dtype dtype = rig_dtypes[t];
        enum { COUNT = 37 };
        struct loss_example e = {rig_random(rig, dtype, COUNT, 6), rig_random(rig, AORTA_F32, COUNT, 0.5),
                                 rig_random(rig, AORTA_F32, COUNT, 2), COUNT};
        for (int i = 0; i < COUNT; i++) e.target[i] = rig_round(e.target[i] + 0.5, AORTA_F32);
        struct aorta_step_state *step =
            rig_step_state(rig, (struct aorta_step_state){.loss = 2.0f, .loss_scale = 8.0f});
        void *dscores = rig_alloc(rig, COUNT * aorta_dtype_size(dtype));
        check_ok(aorta_bce_with_logits(
            rig->stream, &(struct aorta_bce_args){.dtype = dtype,
                                                  .count = COUNT,
                                                  .weight = 0.25f,
                                                  .gradient_weight = 0.125f,
                                                  .scores = rig_put(rig, dtype, e.scores, COUNT),
                                                  .target = rig_put(rig, AORTA_F32, e.target, COUNT),
                                                  .importance = rig_put(rig, AORTA_F32, e.importance, COUNT),
                                                  .state = step,
                                                  .dscores = dscores}));
        double got = (double)state_of(rig, step).loss, expected = 2.0 + 0.25 * weighted_loss(&e);
        rig_close_to("loss", &got, &expected, 1, 1e-6, 1e-6);
        double *gradient = rig_get(rig, dtype, dscores, COUNT);
        for (int i = 0; i < COUNT; i++) gradient[i] /= 8.0 * 0.125;
        rig_gradient("dscores", weighted_loss, &e, e.scores, COUNT, gradient, 1.01 * rig_unit(dtype) + 1e-6,
                     dtype == AORTA_F16 ? 1e-7 : 1e-8);
        rig_reset(state);
    }
}

/* Scores far out give the linear loss, not infinity. */
static void loss_of_extreme_scores(void **state) {
    struct rig *rig = *state;
    const double scores[] = {1e4, -1e4}, target[] = {0.0, 0.25}, importance[] = {1.0, 1.0};
    struct aorta_step_state *step = rig_step_state(rig, (struct aorta_step_state){.loss_scale = 1.0f});
    void *dscores = rig_alloc(rig, 8);
    check_ok(aorta_bce_with_logits(rig->stream,
                                   &(struct aorta_bce_args){.dtype = AORTA_F32,
                                                            .count = 2,
                                                            .weight = 1.0f,
                                                            .gradient_weight = 1.0f,
                                                            .scores = rig_put(rig, AORTA_F32, scores, 2),
                                                            .target = rig_put(rig, AORTA_F32, target, 2),
                                                            .importance = rig_put(rig, AORTA_F32, importance, 2),
                                                            .state = step,
                                                            .dscores = dscores}));
    double got = (double)state_of(rig, step).loss, expected = (1e4 + 2500.0) / 2.0;
    rig_close_to("loss", &got, &expected, 1, 1e-6, 0.0);
    const double slopes[] = {0.5, -0.125};
    rig_close_to("dscores", rig_get(rig, AORTA_F32, dscores, 2), slopes, 2, 1e-6, 0.0);
}

static void square_sum(void **state) {
    struct rig *rig = *state;
    const int64_t counts[] = {1, 17, 100003};
    double expected = 0.0, *zero = rig_values(rig, 1);
    float *sum = rig_put(rig, AORTA_F32, zero, 1);
    check_ok(aorta_square_sum(rig->stream, NULL, 0, sum));
    for (int c = 0; c < 3; c++) {
        double *g = rig_random(rig, AORTA_F32, counts[c], 3);
        for (int64_t i = 0; i < counts[c]; i++) expected += g[i] * g[i];
        check_ok(aorta_square_sum(rig->stream, rig_put(rig, AORTA_F32, g, counts[c]), counts[c], sum));
    }
    rig_close_to("sum", rig_get(rig, AORTA_F32, sum, 1), &expected, 1, 3e-7, 0.0);
    /* a NaN or an infinity among many is not lost */
    for (int kind = 0; kind < 2; kind++) {
        double *g = rig_random(rig, AORTA_F32, 5001, 1);
        g[4321] = kind ? INFINITY : NAN;
        float *bad = rig_put(rig, AORTA_F32, zero, 1);
        check_ok(aorta_square_sum(rig->stream, rig_put(rig, AORTA_F32, g, 5001), 5001, bad));
        assert_false(isfinite(rig_get(rig, AORTA_F32, bad, 1)[0]));
    }
}

static void learning_rate(void **state) {
    struct rig *rig = *state;
    static const struct {
        struct aorta_schedule schedule;
        int64_t step;
        double lr;
    } cases[] = {{{2e-4f, 200, 2000}, 0, 1e-6},    {{2e-4f, 200, 2000}, 199, 2e-4}, {{2e-4f, 200, 2000}, 200, 2e-4},
                 {{2e-4f, 200, 2000}, 1100, 1e-4}, {{2e-4f, 200, 2000}, 2000, 0.0}, {{2e-4f, 200, 2000}, 5000, 0.0},
                 {{2e-4f, 200, 0}, 5000, 2e-4},    {{2e-4f, 0, 10}, 0, 2e-4},       {{2e-4f, 10, 5}, 7, 1.6e-4},
                 {{2e-4f, 10, 5}, 12, 0.0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aorta_step_state *step =
            rig_step_state(rig, (struct aorta_step_state){.step = cases[i].step, .loss = 5.0f, .grad_norm = 5.0f});
        check_ok(aorta_step_begin(rig->stream, step, cases[i].schedule));
        check_ok(aorta_step_end(rig->stream, step));
        struct aorta_step_state after = state_of(rig, step);
        double lr = (double)after.lr;
        rig_close_to("lr", &lr, &cases[i].lr, 1, 1e-6, 0.0);
        assert_true(after.loss == 0.0f && after.grad_norm == 0.0f);
        assert_int_equal(after.step, cases[i].step + 1);
    }
}

static struct aorta_step_state update(struct rig *rig, struct aorta_step_state before, double square, float max_norm,
                                      bool dynamic) {
    struct aorta_step_state *step = rig_step_state(rig, before);
    const struct aorta_step_update_args args = {.state = step,
                                                .square_sum = rig_put(rig, AORTA_F32, &square, 1),
                                                .max_norm = max_norm,
                                                .beta1 = 0.9f,
                                                .beta2 = 0.98f,
                                                .dynamic_scale = dynamic,
                                                .growth_interval = 3};
    check_ok(aorta_step_update(rig->stream, &args));
    return state_of(rig, step);
}

static void step_update(void **state) {
    struct rig *rig = *state;
    const struct aorta_step_state before = {.updates = 1, .loss_scale = 4.0f, .growth_tracker = 1};
    struct aorta_step_state after = update(rig, before, 64.0, 1.0f, false);
    assert_int_equal(after.updates, 2);
    assert_int_equal(after.skipped, 0);
    assert_int_equal(after.finite, 1);
    assert_float_equal(after.grad_norm, 2.0f, 1e-6f); /* √64 / 4 */
    assert_float_equal(after.grad_factor, 0.125f, 1e-6f);
    assert_float_equal(after.bias_correction1, 0.19f, 1e-6f);
    assert_float_equal(after.bias_correction2, 0.0396f, 1e-6f);
    assert_float_equal(after.loss_scale, 4.0f, 0.0f);
    assert_float_equal(update(rig, before, 64.0, 0.0f, false).grad_factor, 0.25f, 1e-7f); /* no clipping */
    assert_float_equal(update(rig, before, 64.0, 3.0f, false).grad_factor, 0.25f, 1e-7f); /* none needed */

    after = update(rig, before, 64.0, 1.0f, true);
    assert_int_equal(after.growth_tracker, 2);
    after = update(rig, after, 64.0, 1.0f, true);
    assert_int_equal(after.growth_tracker, 0);
    assert_float_equal(after.loss_scale, 8.0f, 0.0f);
    assert_float_equal(after.grad_factor, 0.125f, 1e-6f); /* by the scale the gradients were made with */

    for (int kind = 0; kind < 2; kind++) {
        after = update(rig, before, kind ? INFINITY : NAN, 1.0f, true);
        assert_int_equal(after.finite, 0);
        assert_int_equal(after.skipped, 1);
        assert_int_equal(after.updates, 1);
        assert_int_equal(after.growth_tracker, 0);
        assert_float_equal(after.loss_scale, 2.0f, 0.0f);
        assert_float_equal(after.grad_factor, 0.0f, 0.0f);
    }
    assert_float_equal(update(rig, before, INFINITY, 1.0f, false).loss_scale, 4.0f, 0.0f);
}

/* Three steps against torch.optim.AdamW's formulas in double. */
static void adamw(void **state) {
    static const int64_t counts[] = {1, 1000, 3001};
    for (int c = 0; c < 3; c++)
        for (int t = 0; t < 3; t++) {
            struct rig *rig = *state;
            const int64_t count = counts[c];
            double *p = rig_random(rig, AORTA_F32, count, 1), *m = rig_values(rig, count), *v = rig_values(rig, count);
            float *parameter = rig_put(rig, AORTA_F32, p, count), *m_there = rig_put(rig, AORTA_F32, m, count),
                  *v_there = rig_put(rig, AORTA_F32, v, count);
            void *copy = rig_alloc(rig, (size_t)count * aorta_dtype_size(rig_dtypes[t]));
            for (int step = 1; step <= 3; step++) {
                double *g = rig_random(rig, AORTA_F32, count, 1);
                const double b1 = 1.0 - pow(0.9, step), b2 = 1.0 - pow(0.98, step), lr = 1e-2;
                struct aorta_step_state *there =
                    rig_step_state(rig, (struct aorta_step_state){.lr = 1e-2f,
                                                                  .finite = 1,
                                                                  .grad_factor = 0.5f,
                                                                  .bias_correction1 = (float)b1,
                                                                  .bias_correction2 = (float)b2});
                check_ok(aorta_adamw_step(rig->stream,
                                          &(struct aorta_adamw_args){count, 0.9f, 0.98f, 1e-8f, 0.1f, there,
                                                                     rig_dtypes[t], .parameter = parameter,
                                                                     .gradient = rig_put(rig, AORTA_F32, g, count),
                                                                     .m = m_there, .v = v_there, .copy = copy}));
                for (int64_t i = 0; i < count; i++) {
                    p[i] -= lr * 0.1 * p[i];
                    m[i] = 0.9 * m[i] + 0.1 * 0.5 * g[i];
                    v[i] = 0.98 * v[i] + 0.02 * 0.25 * g[i] * g[i];
                    p[i] -= lr / b1 * m[i] / (sqrt(v[i]) / sqrt(b2) + 1e-8);
                }
            }
            double *got = rig_get(rig, AORTA_F32, parameter, count);
            rig_close_to("parameter", got, p, count, 1e-6, 1e-6);
            rig_close_to("m", rig_get(rig, AORTA_F32, m_there, count), m, count, 2e-6, 1e-7);
            rig_close_to("v", rig_get(rig, AORTA_F32, v_there, count), v, count, 3e-6, 1e-9);
            for (int64_t i = 0; i < count; i++) p[i] = rig_round(got[i], rig_dtypes[t]);
            rig_close_to("copy", rig_get(rig, rig_dtypes[t], copy, count), p, count, 0.0, 0.0);

            /* a step that is skipped leaves everything as it was, and makes the copy all the same */
            struct aorta_step_state *skipped = rig_step_state(rig, (struct aorta_step_state){.lr = 1.0f});
            check_ok(aorta_fill_bytes(rig->stream, copy, 0xff, (size_t)count * aorta_dtype_size(rig_dtypes[t])));
            check_ok(aorta_adamw_step(rig->stream, &(struct aorta_adamw_args){count, 0.9f, 0.98f, 1e-8f, 0.1f, skipped,
                                                                              rig_dtypes[t], .parameter = parameter,
                                                                              .gradient = m_there, .m = m_there,
                                                                              .v = v_there, .copy = copy}));
            rig_close_to("copy after a skipped step", rig_get(rig, rig_dtypes[t], copy, count), p, count, 0.0, 0.0);
            rig_close_to("parameter after a skipped step", rig_get(rig, AORTA_F32, parameter, count), got, count, 0.0,
                         0.0);
            rig_reset(state);
        }
}

static void wrong_arguments(void **state) {
    struct rig *rig = *state;
    float some[8] = {0};
    struct aorta_step_state step = {0};
    struct aorta_adamw_args adamw = {
        .count = 8, .beta1 = 1.0f, .state = &step, .parameter = some, .gradient = some, .m = some, .v = some};
    check_fails(aorta_adamw_step(rig->stream, &adamw), AORTA_INTERNAL, "betas 1 and 0");
    adamw.state = NULL;
    check_fails(aorta_adamw_step(rig->stream, &adamw), AORTA_INTERNAL, "state is NULL");
    check_fails(aorta_bce_with_logits(rig->stream, &(struct aorta_bce_args){.dtype = AORTA_F32,
                                                                            .count = 0,
                                                                            .weight = 1.0f,
                                                                            .gradient_weight = 1.0f,
                                                                            .scores = some,
                                                                            .target = some,
                                                                            .importance = some,
                                                                            .state = &step,
                                                                            .dscores = some}),
                AORTA_INTERNAL, "count is 0");
    check_fails(aorta_step_begin(rig->stream, NULL, (struct aorta_schedule){0}), AORTA_INTERNAL, "state is NULL");
    struct aorta_step_update_args args = {.state = &step};
    check_fails(aorta_step_update(rig->stream, &args), AORTA_INTERNAL, "square_sum is NULL");
    args.square_sum = some, args.dynamic_scale = true;
    check_fails(aorta_step_update(rig->stream, &args), AORTA_INTERNAL, "growth_interval is 0");
    check_fails(aorta_step_end(rig->stream, NULL), AORTA_INTERNAL, "state is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {rig_test(loss),           rig_test(loss_of_extreme_scores),
                                       rig_test(square_sum),     rig_test(learning_rate),
                                       rig_test(step_update),    rig_test(adamw),
                                       rig_test(wrong_arguments)};
    return rig_run_tests("ops: step", tests);
}
