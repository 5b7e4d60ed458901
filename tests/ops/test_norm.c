#include "rig.h"

#include <math.h>

/* One LayerNorm with everything around it, in double. `weight` makes a loss of y. */
struct example {
    struct aorta_norm shape;
    int64_t step;
    double *x, *residual, *gamma, *beta, *weight;
    double *sum, *y;
};

static void reference(const struct example *e) {
    const int64_t width = e->shape.width;
    for (int64_t row = 0; row < e->shape.rows; row++) {
        double mean = 0.0, square = 0.0;
        for (int64_t i = row * width; i < (row + 1) * width; i++) {
            double factor =
                e->shape.dropout > 0.0f ? rig_dropout((double)e->shape.dropout, &e->shape.rng, e->step, i) : 1.0;
            e->sum[i] = (e->residual ? e->residual[i] : 0.0) + e->x[i] * factor;
            mean += e->sum[i] / (double)width;
        }
        for (int64_t i = row * width; i < (row + 1) * width; i++) square += pow(e->sum[i] - mean, 2.0) / (double)width;
        for (int64_t j = 0; j < width; j++)
            e->y[row * width + j] =
                (e->sum[row * width + j] - mean) / sqrt(square + (double)e->shape.eps) * e->gamma[j] + e->beta[j];
    }
}

static double loss(void *context) {
    const struct example *e = context;
    double total = 0.0;
    reference(e);
    for (int64_t i = 0; i < e->shape.rows * e->shape.width; i++) total += e->weight[i] * e->y[i];
    return total;
}

static struct example example_make(struct rig *rig, struct aorta_norm shape, bool residual) {
    const int64_t count = shape.rows * shape.width;
    struct example e = {.shape = shape, .step = 9};
    e.x = rig_random(rig, shape.dtype, count, 1);
    e.residual = residual ? rig_random(rig, shape.dtype, count, 1) : NULL;
    e.gamma = rig_random(rig, shape.dtype, shape.width, 1);
    e.beta = rig_random(rig, shape.dtype, shape.width, 1);
    e.weight = rig_random(rig, shape.dtype, count, 1);
    e.sum = rig_values(rig, count);
    e.y = rig_values(rig, count);
    e.shape.rng.state = rig_step_state(rig, (struct aorta_step_state){.step = e.step});
    return e;
}

struct outputs {
    void *sum, *y, *gamma;
    float *mean, *rstd;
};

static struct outputs run_forward(struct rig *rig, const struct example *e, bool sum_is_x) {
    const enum aorta_dtype dtype = e->shape.dtype;
    const int64_t count = e->shape.rows * e->shape.width;
    const size_t bytes = (size_t)count * aorta_dtype_size(dtype);
    void *x = rig_put(rig, dtype, e->x, count);
    struct outputs out = {.sum = sum_is_x ? x : rig_alloc(rig, bytes),
                          .y = rig_alloc(rig, bytes),
                          .gamma = rig_put(rig, dtype, e->gamma, e->shape.width),
                          .mean = rig_alloc(rig, (size_t)e->shape.rows * sizeof(float)),
                          .rstd = rig_alloc(rig, (size_t)e->shape.rows * sizeof(float))};
    check_ok(aorta_norm_forward(
        rig->stream, &(struct aorta_norm_args){.shape = e->shape,
                                               .x = x,
                                               .residual = e->residual ? rig_put(rig, dtype, e->residual, count) : NULL,
                                               .gamma = out.gamma,
                                               .beta = rig_put(rig, dtype, e->beta, e->shape.width),
                                               .sum = out.sum,
                                               .y = out.y,
                                               .mean = out.mean,
                                               .rstd = out.rstd}));
    return out;
}

static void check_example(struct rig *rig, struct aorta_norm shape, bool residual, bool sum_is_x) {
    const double unit = rig_unit(shape.dtype);
    const int64_t count = shape.rows * shape.width;
    struct example e = example_make(rig, shape, residual);
    struct outputs out = run_forward(rig, &e, sum_is_x);
    reference(&e);
    rig_close_to("sum", rig_get(rig, shape.dtype, out.sum, count), e.sum, count, 1.01 * unit, 1e-7);
    rig_close_to("y", rig_get(rig, shape.dtype, out.y, count), e.y, count, 1.01 * unit, 12.0 * unit + 2e-6);

    /* Backward, with the loss' gradient given in two parts and added to the values before. */
    double *first = rig_random(rig, shape.dtype, count, 1), *second = rig_values(rig, count);
    for (int64_t i = 0; i < count; i++) second[i] = rig_round(e.weight[i] - first[i], shape.dtype);
    for (int64_t i = 0; i < count; i++) e.weight[i] = first[i] + second[i];
    double *start = rig_random(rig, AORTA_F32, shape.width, 1);
    float *dgamma = rig_put(rig, AORTA_F32, start, shape.width), *dbeta = rig_put(rig, AORTA_F32, start, shape.width);
    float *dbias = rig_put(rig, AORTA_F32, start, shape.width);
    const size_t bytes = (size_t)count * aorta_dtype_size(shape.dtype);
    void *dsum = rig_alloc(rig, bytes), *dx = rig_alloc(rig, bytes);
    check_ok(aorta_norm_backward(
        rig->stream, &(struct aorta_norm_backward_args){.shape = e.shape,
                                                        .dy = rig_put(rig, shape.dtype, first, count),
                                                        .dy_extra = rig_put(rig, shape.dtype, second, count),
                                                        .sum = out.sum,
                                                        .gamma = out.gamma,
                                                        .mean = out.mean,
                                                        .rstd = out.rstd,
                                                        .dsum = dsum,
                                                        .dx = dx,
                                                        .dgamma = dgamma,
                                                        .dbeta = dbeta,
                                                        .dbias = dbias,
                                                        .accumulate = true}));
    const double relative = 4.0 * unit + 1e-5, absolute = 30.0 * unit + 1e-5;
    if (residual)
        rig_gradient("dsum", loss, &e, e.residual, count, rig_get(rig, shape.dtype, dsum, count), relative, absolute);
    rig_gradient("dx", loss, &e, e.x, count, rig_get(rig, shape.dtype, dx, count), relative, absolute);
    rig_sums_of_rows(rig, "dbias", shape.dtype, rig_get(rig, shape.dtype, dx, count), shape.rows, shape.width, start,
                     dbias);
    double *gamma = rig_get(rig, AORTA_F32, dgamma, shape.width), *beta = rig_get(rig, AORTA_F32, dbeta, shape.width);
    for (int64_t j = 0; j < shape.width; j++) gamma[j] -= start[j], beta[j] -= start[j];
    const double sums = absolute * sqrt((double)shape.rows);
    rig_gradient("dgamma", loss, &e, e.gamma, shape.width, gamma, relative, sums);
    rig_gradient("dbeta", loss, &e, e.beta, shape.width, beta, relative, 1e-5);
}

static void conformance(void **state) {
    static const int64_t shapes[][2] = {{1, 3}, {3, 65}, {5, 128}, {2, 1100}, {70, 24}, {33, 264}};
    const struct aorta_rng rng = {.seed = 77, .site = 5};
    for (int t = 0; t < 3; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int variant = 0; variant < 4; variant++) {
                struct aorta_norm shape = {.dtype = rig_dtypes[t],
                                           .rows = shapes[s][0],
                                           .width = shapes[s][1],
                                           .eps = 1e-5f,
                                           .dropout = variant & 1 ? 0.25f : 0.0f,
                                           .rng = rng};
                check_example(*state, shape, variant < 2, variant == 1 || variant == 2);
                rig_reset(state);
            }
}

/* Without residual and dropout no sum is stored; without accumulation the old dgamma is overwritten. */
static void plain_layernorm(void **state) {
    struct rig *rig = *state;
    struct aorta_norm shape = {.dtype = AORTA_F32, .rows = 4, .width = 33, .eps = 1e-5f};
    struct example e = example_make(rig, shape, false);
    const int64_t count = 4 * 33;
    float *x = rig_put(rig, AORTA_F32, e.x, count), *y = rig_alloc(rig, sizeof(float) * (size_t)count);
    float *gamma = rig_put(rig, AORTA_F32, e.gamma, 33), *mean = rig_alloc(rig, 16), *rstd = rig_alloc(rig, 16);
    check_ok(aorta_norm_forward(rig->stream, &(struct aorta_norm_args){.shape = shape,
                                                                       .x = x,
                                                                       .gamma = gamma,
                                                                       .beta = rig_put(rig, AORTA_F32, e.beta, 33),
                                                                       .y = y,
                                                                       .mean = mean,
                                                                       .rstd = rstd}));
    reference(&e);
    rig_close_to("y", rig_get(rig, AORTA_F32, y, count), e.y, count, 1e-6, 2e-6);
    float *dsum = rig_alloc(rig, sizeof(float) * (size_t)count), *dgamma = rig_alloc(rig, 33 * sizeof(float)),
          *dbeta = rig_alloc(rig, 33 * sizeof(float)), *dbias = rig_alloc(rig, 33 * sizeof(float));
    check_ok(aorta_norm_backward(rig->stream,
                                 &(struct aorta_norm_backward_args){.shape = shape,
                                                                    .dy = rig_put(rig, AORTA_F32, e.weight, count),
                                                                    .sum = x,
                                                                    .gamma = gamma,
                                                                    .mean = mean,
                                                                    .rstd = rstd,
                                                                    .dsum = dsum,
                                                                    .dgamma = dgamma,
                                                                    .dbeta = dbeta,
                                                                    .dbias = dbias}));
    rig_sums_of_rows(rig, "dbias", AORTA_F32, rig_get(rig, AORTA_F32, dsum, count), 4, 33, NULL, dbias);
    rig_gradient("dx", loss, &e, e.x, count, rig_get(rig, AORTA_F32, dsum, count), 1e-5, 1e-5);
    rig_gradient("dgamma", loss, &e, e.gamma, 33, rig_get(rig, AORTA_F32, dgamma, 33), 1e-5, 1e-5);
    /* no rows: nothing is added, and the gradients of nothing are zero */
    shape.rows = 0;
    check_ok(aorta_norm_backward(
        rig->stream, &(struct aorta_norm_backward_args){
                         .shape = shape, .gamma = gamma, .dgamma = dgamma, .dbeta = dbeta, .dbias = dbias}));
    double *zero = rig_values(rig, 33);
    rig_close_to("dgamma", rig_get(rig, AORTA_F32, dgamma, 33), zero, 33, 0.0, 0.0);
    rig_close_to("dbias", rig_get(rig, AORTA_F32, dbias, 33), zero, 33, 0.0, 0.0);
}

static void wrong_arguments(void **state) {
    struct rig *rig = *state;
    float some[8] = {0};
    struct aorta_norm shape = {.dtype = AORTA_F32, .rows = 1, .width = 8, .eps = 0.0f};
    check_fails(aorta_norm_forward(rig->stream, &(struct aorta_norm_args){.shape = shape,
                                                                          .x = some,
                                                                          .gamma = some,
                                                                          .beta = some,
                                                                          .sum = some,
                                                                          .y = some,
                                                                          .mean = some,
                                                                          .rstd = some}),
                AORTA_INTERNAL, "eps 0");
    shape.eps = 1e-5f;
    check_fails(aorta_norm_forward(rig->stream, &(struct aorta_norm_args){.shape = shape,
                                                                          .x = some,
                                                                          .residual = some,
                                                                          .gamma = some,
                                                                          .beta = some,
                                                                          .y = some,
                                                                          .mean = some,
                                                                          .rstd = some}),
                AORTA_INTERNAL, "sum is NULL");
    shape.dropout = 1.5f;
    check_fails(aorta_norm_forward(rig->stream, &(struct aorta_norm_args){.shape = shape,
                                                                          .x = some,
                                                                          .residual = some,
                                                                          .gamma = some,
                                                                          .beta = some,
                                                                          .sum = some,
                                                                          .y = some,
                                                                          .mean = some,
                                                                          .rstd = some}),
                AORTA_INTERNAL, "dropout 1.5");
}

int main(void) {
    const struct CMUnitTest tests[] = {rig_test(conformance), rig_test(plain_layernorm), rig_test(wrong_arguments)};
    return rig_run_tests("ops: norm", tests);
}
