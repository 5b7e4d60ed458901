/* A linear layer with GELU in one kernel against the same one after the other. The kernel needs a Hopper GPU; elsewhere
 * it says that it does not fit. */
#include "device/gpu.h"
#include "rig.h"

#include <math.h>

enum { STEP = 4 };

static const struct aorta_linear shapes[] = {
    {AORTA_BF16, 11264, 1024, 4608}, /* large.yaml's */
    {AORTA_BF16, 4424, 200, 1160},   /* no side is a multiple of a tile's */
    {AORTA_BF16, 8500, 64, 512},     /* one depth, and one block of each pair without rows */
};

static struct aorta_gelu gelu_of(struct rig *rig, const struct aorta_linear *shape, float dropout) {
    const struct aorta_rng rng = {
        .seed = 5, .site = 9, .state = rig_step_state(rig, (struct aorta_step_state){.step = STEP})};
    return (struct aorta_gelu){shape->dtype, shape->rows * shape->out, dropout, rng, shape->out};
}

static void *random_matrix(struct rig *rig, int64_t rows, int64_t columns, double scale) {
    return rig_put(rig, AORTA_BF16, rig_random(rig, AORTA_BF16, rows * columns, scale), rows * columns);
}

/* Products differ in the order of their sums, so that a few are rounded to the neighbour: by one part in 128, or, where
 * large terms cancel, by a part of these. */
static void compare(struct rig *rig, const char *what, const void *got, const void *expected, int64_t count,
                    double size) {
    const double *a = rig_get(rig, AORTA_BF16, got, count), *b = rig_get(rig, AORTA_BF16, expected, count);
    int64_t equal = 0;
    for (int64_t i = 0; i < count; i++) equal += a[i] == b[i];
    assert_true(equal > count / 100 * 95);
    rig_close_to(what, a, b, count, 1.0 / 64, size / 64);
}

static void one_shape(struct rig *rig, const struct aorta_linear *shape, float dropout, bool accumulate) {
    const int64_t count = shape->rows * shape->out;
    const struct aorta_gelu gelu = gelu_of(rig, shape, dropout);
    const double scale = 2.0 / sqrt((double)shape->in);
    const void *x = random_matrix(rig, shape->rows, shape->in, 1.0),
               *weight = random_matrix(rig, shape->out, shape->in, scale),
               *bias = random_matrix(rig, 1, shape->out, 0.5);
    void *h = rig_alloc(rig, (size_t)count * 2), *y = rig_alloc(rig, (size_t)count * 2),
         *slope = rig_alloc(rig, (size_t)count * 2);
    void *expected = rig_alloc(rig, (size_t)count * 2);
    check_ok(aorta_linear_forward(
        rig->stream, &(struct aorta_linear_args){.shape = *shape, .x = x, .weight = weight, .bias = bias, .y = h}));
    check_ok(aorta_gelu_forward(rig->stream, &(struct aorta_gelu_args){.shape = gelu, .x = h, .out = expected}));
    check_ok(aorta_linear_gelu_forward(
        rig->stream,
        &(struct aorta_linear_gelu_args){
            .linear = *shape, .gelu = gelu, .x = x, .weight = weight, .bias = bias, .slope = slope, .y = y}));
    compare(rig, "y", y, expected, count, 1.0);
    void *ones = rig_alloc(rig, (size_t)count * 2);
    check_ok(aorta_fill(rig->stream, ones, AORTA_BF16, count, 1.0f));
    check_ok(aorta_gelu_backward(rig->stream,
                                 &(struct aorta_gelu_args){.shape = gelu, .x = h, .dy = ones, .out = expected}));
    compare(rig, "slope", slope, expected, count, 1.0);

    const struct aorta_linear next = {AORTA_BF16, shape->rows, shape->out, shape->in};
    const void *dy = random_matrix(rig, shape->rows, shape->in, 1.0),
               *across = random_matrix(rig, shape->in, shape->out, scale);
    double *start = rig_random(rig, AORTA_F32, shape->out, 1.0);
    float *dbias = rig_put(rig, AORTA_F32, start, shape->out);
    check_ok(aorta_linear_backward_input(
        rig->stream, &(struct aorta_linear_args){.shape = next, .dy = dy, .weight = across, .dx = expected}));
    check_ok(aorta_gelu_backward(rig->stream,
                                 &(struct aorta_gelu_args){.shape = gelu, .x = h, .dy = expected, .out = expected}));
    check_ok(aorta_linear_gelu_backward(rig->stream, &(struct aorta_linear_gelu_args){.linear = next,
                                                                                      .x = dy,
                                                                                      .weight = across,
                                                                                      .slope = slope,
                                                                                      .y = y,
                                                                                      .dbias = dbias,
                                                                                      .accumulate = accumulate}));
    const double *dx = rig_get(rig, AORTA_BF16, y, count), *other = rig_get(rig, AORTA_BF16, expected, count);
    rig_close_to("dx", dx, other, count, 1.0 / 32, 1.0 / 32); /* the slope is rounded, too */
    rig_sums_of_rows(rig, "dbias", AORTA_BF16, dx, shape->rows, shape->out, accumulate ? start : NULL, dbias);
}

static void conformance(void **state) {
    struct rig *rig = *state;
    bool fits;
    check_ok(aorta_linear_gelu_fits(rig->device, &shapes[0], &fits));
    if (!fits) {
        print_message("not on this device\n");
        return;
    }
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int drop = 0; drop < 2; drop++) {
            rig = *state;
            check_ok(aorta_linear_gelu_fits(rig->device, &shapes[s], &fits));
            assert_true(fits);
            one_shape(rig, &shapes[s], drop ? 0.3f : 0.0f, drop);
            rig_reset(state);
        }
}

static void what_does_not_fit(void **state) {
    struct rig *rig = *state;
    const struct aorta_linear wrong[] = {{AORTA_F32, 11264, 1024, 4608},
                                         {AORTA_F16, 11264, 1024, 4608},
                                         {AORTA_BF16, 11264, 1023, 4608},
                                         {AORTA_BF16, 11264, 1024, 4604},
                                         {AORTA_BF16, 64, 1024, 4608}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        bool fits = true;
        check_ok(aorta_linear_gelu_fits(rig->device, &wrong[i], &fits));
        assert_false(fits);
    }
    float some[8] = {0};
    check_fails(aorta_linear_gelu_forward(rig->stream, &(struct aorta_linear_gelu_args){.linear = wrong[4],
                                                                                        .gelu = (struct aorta_gelu){0},
                                                                                        .x = some,
                                                                                        .weight = some,
                                                                                        .bias = some,
                                                                                        .slope = some,
                                                                                        .y = some}),
                AORTA_UNSUPPORTED, "linear_gelu_forward: 64 x 1024 x 4608 in bf16 has no kernel on this device");
    check_fails(aorta_linear_gelu_backward(
                    rig->stream,
                    &(struct aorta_linear_gelu_args){
                        .linear = wrong[0], .x = some, .weight = some, .slope = some, .y = some, .dbias = some}),
                AORTA_UNSUPPORTED, "linear_gelu_backward: 11264 x 4608 x 1024 in fp32 has no kernel on this device");
    bool fits;
    check_ok(aorta_linear_gelu_fits(rig->device, &shapes[0], &fits));
    if (!fits) return;
    char *memory = rig_alloc(rig, 64);
    check_fails(aorta_linear_gelu_forward(rig->stream, &(struct aorta_linear_gelu_args){.linear = shapes[0],
                                                                                        .gelu = (struct aorta_gelu){0},
                                                                                        .x = memory,
                                                                                        .weight = memory + 2,
                                                                                        .bias = memory,
                                                                                        .slope = memory,
                                                                                        .y = memory}),
                AORTA_INTERNAL, "weight is not aligned to 16 bytes");
    check_fails(aorta_linear_gelu_forward(rig->stream, &(struct aorta_linear_gelu_args){.linear = shapes[0],
                                                                                        .gelu = (struct aorta_gelu){0},
                                                                                        .x = memory,
                                                                                        .bias = memory,
                                                                                        .slope = memory,
                                                                                        .y = memory}),
                AORTA_INTERNAL, "weight is NULL");
    check_ok(aorta_ops_configure(rig->device, &(struct aorta_ops_settings){.own_products = true}));
    check_ok(aorta_linear_gelu_fits(rig->device, &shapes[0], &fits));
    assert_false(fits);
}

int main(void) {
    const struct CMUnitTest tests[] = {rig_test(conformance), rig_test(what_does_not_fit)};
    return rig_run_tests("ops: linear layer with GELU", tests);
}
