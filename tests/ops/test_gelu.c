#include "ops/cpu/cpu.h"
#include "rig.h"

#include <math.h>

static double gelu(double x) {
    return 0.5 * x * erfc(-x / sqrt(2.0));
}

static double slope(double x) {
    return 0.5 * erfc(-x / sqrt(2.0)) + x * exp(-0.5 * x * x) / sqrt(2.0 * acos(-1.0));
}

/* Every level of the processor, densely: −14 … 14 in steps of 2^-12, the far ends, and NaN. */
static void accuracy(void **state) {
    (void)state;
    enum { COUNT = 28 * 4096 + 5 };
    static float x[COUNT], y[COUNT], one[COUNT], dx[COUNT];
    for (int i = 0; i < COUNT - 4; i++) x[i] = -14.0f + (float)i / 4096.0f;
    x[COUNT - 4] = 1e30f, x[COUNT - 3] = -1e30f, x[COUNT - 2] = -100.0f, x[COUNT - 1] = NAN;
    for (int i = 0; i < COUNT; i++) one[i] = 1.0f;
    int levels;
    const struct aorta_cpu_ops *const *ops = aorta_cpu_ops_list(&levels);
    for (int level = 0; level < levels; level++) {
        struct aorta_gelu_args args = {.shape = {.dtype = AORTA_F32, .count = COUNT}, .x = x, .dy = one, .out = y};
        check_ok(ops[level]->gelu_forward(&args));
        args.out = dx;
        check_ok(ops[level]->gelu_backward(&args));
        for (int i = 0; i < COUNT - 1; i++) {
            double in = (double)x[i], value = gelu(in), rate = in < -1e10 ? 0.0 : slope(in);
            assert_true(fabs((double)y[i] - value) <= 2.5e-7 * fabs(value) + 1e-7);
            assert_true(fabs((double)dx[i] - rate) <= 3e-7 * fabs(rate) + 2.5e-7);
        }
        assert_true(isnan(y[COUNT - 1]) && isnan(dx[COUNT - 1]));
    }
}

static double *weights;
static struct aorta_gelu shape_now;
static double *inputs;

static double loss(void *context) {
    (void)context;
    double total = 0.0;
    for (int64_t i = 0; i < shape_now.count; i++)
        total += weights[i] * gelu(inputs[i]) *
                 (shape_now.dropout > 0.0f ? rig_dropout((double)shape_now.dropout, &shape_now.rng, 4, i) : 1.0);
    return total;
}

static void conformance(void **state) {
    static const int64_t counts[] = {1, 7, 1024, 1031, 2500};
    for (int t = 0; t < 3; t++)
        for (int c = 0; c < 5; c++)
            for (int drop = 0; drop < 2; drop++) {
                struct rig *rig = *state;
                const enum aorta_dtype dtype = rig_dtypes[t];
                const int64_t count = counts[c];
                const double unit = rig_unit(dtype), formula = dtype == AORTA_F32 ? 0.0 : 5e-5; /* normal.h */
                shape_now = (struct aorta_gelu){dtype, count, drop ? 0.3f : 0.0f, {.seed = 5, .site = 9}, 0};
                shape_now.rng.state = rig_step_state(rig, (struct aorta_step_state){.step = 4});
                inputs = rig_random(rig, dtype, count, 4);
                weights = rig_random(rig, dtype, count, 1);
                void *x = rig_put(rig, dtype, inputs, count), *dy = rig_put(rig, dtype, weights, count);
                void *y = rig_alloc(rig, (size_t)count * aorta_dtype_size(dtype));
                check_ok(
                    aorta_gelu_forward(rig->stream, &(struct aorta_gelu_args){.shape = shape_now, .x = x, .out = y}));
                double *expected = rig_values(rig, count);
                for (int64_t i = 0; i < count; i++)
                    expected[i] = gelu(inputs[i]) * (drop ? rig_dropout((double)0.3f, &shape_now.rng, 4, i) : 1.0);
                rig_close_to("y", rig_get(rig, dtype, y, count), expected, count, 1.01 * unit + formula + 5e-7, 2e-7);
                check_ok(aorta_gelu_backward(
                    rig->stream,
                    &(struct aorta_gelu_args){.shape = shape_now, .x = x, .dy = dy, .out = dy})); /* in place */
                rig_gradient("dx", loss, NULL, inputs, count, rig_get(rig, dtype, dy, count),
                             1.01 * unit + formula + 1e-6, 1e-6);
                rig_reset(state);
            }
}

static void wrong_arguments(void **state) {
    struct rig *rig = *state;
    float some[8] = {0};
    struct aorta_gelu shape = {.dtype = AORTA_F32, .count = -1};
    check_fails(aorta_gelu_forward(rig->stream, &(struct aorta_gelu_args){.shape = shape, .x = some, .out = some}),
                AORTA_INTERNAL, "count is -1");
    shape.count = 8;
    check_fails(aorta_gelu_backward(rig->stream, &(struct aorta_gelu_args){.shape = shape, .x = some, .out = some}),
                AORTA_INTERNAL, "dy is NULL");
    shape.count = 0;
    check_ok(aorta_gelu_backward(rig->stream, &(struct aorta_gelu_args){.shape = shape}));
    shape.count = 12, shape.width = 5;
    check_fails(
        aorta_gelu_backward(
            rig->stream, &(struct aorta_gelu_args){.shape = shape, .x = some, .dy = some, .out = some, .dbias = some}),
        AORTA_INTERNAL, "12 elements are no whole rows of 5");
}

/* dx does not depend on whether its sums are asked for, and they are the sums of its rows. */
static void bias_gradient(void **state) {
    static const int64_t shapes[][2] = {{1, 1}, {3, 7}, {40, 24}, {200, 264}, {5, 2051}};
    for (int t = 0; t < 3; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int variant = 0; variant < 4; variant++) {
                struct rig *rig = *state;
                const enum aorta_dtype dtype = rig_dtypes[t];
                const int64_t rows = shapes[s][0], width = shapes[s][1], count = rows * width;
                const bool accumulate = variant & 2;
                struct aorta_gelu shape = {dtype, count, variant & 1 ? 0.3f : 0.0f, {.seed = 5, .site = 9}, width};
                void *x = rig_put(rig, dtype, rig_random(rig, dtype, count, 4), count);
                void *dy = rig_put(rig, dtype, rig_random(rig, dtype, count, 1), count);
                void *plain = rig_alloc(rig, (size_t)count * aorta_dtype_size(dtype));
                check_ok(aorta_gelu_backward(
                    rig->stream, &(struct aorta_gelu_args){.shape = shape, .x = x, .dy = dy, .out = plain}));
                double *start = rig_random(rig, AORTA_F32, width, 1);
                float *dbias = rig_put(rig, AORTA_F32, start, width);
                check_ok(aorta_gelu_backward(
                    rig->stream,
                    &(struct aorta_gelu_args){
                        .shape = shape, .x = x, .dy = dy, .out = dy, .dbias = dbias, .accumulate = accumulate}));
                double *dx = rig_get(rig, dtype, dy, count);
                rig_close_to("dx", dx, rig_get(rig, dtype, plain, count), count, 0.0, 0.0);
                rig_sums_of_rows(rig, "dbias", dtype, dx, rows, width, accumulate ? start : NULL, dbias);
                rig_reset(state);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(accuracy), rig_test(conformance), rig_test(bias_gradient),
                                       rig_test(wrong_arguments)};
    return rig_run_tests("ops: gelu", tests);
}
