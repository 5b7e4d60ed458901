/* Attention's scores with their softmax, forward and backward, in rows that fit one kernel of a GPU and in other rows.
 */
#include "rig.h"

#include "ops/gpu/gpu.h"

#include <math.h>

struct scores_case {
    int64_t batch, m, n, k;
    bool fits;
};

static const struct scores_case cases[] = {
    {1, 32, 512, 16, true},  {2, 64, 512, 32, true}, {1, 96, 512, 48, true},  {3, 32, 512, 64, true},
    {1, 32, 512, 128, true}, {2, 9, 7, 5, false},    {1, 33, 512, 16, false}, {1, 32, 508, 16, false},
    {1, 32, 512, 24, false}, {2, 3, 301, 16, false},
};

static double dot(const double *a, const double *b, int64_t k) {
    double sum = 0.0;
    for (int64_t i = 0; i < k; i++) sum += a[i] * b[i];
    return sum;
}

/* x = a·bᵀ */
static void multiply(const struct aorta_products *s, const double *a, const double *b, double *x) {
    for (int64_t i = 0; i < s->batch * s->m * s->n; i++) {
        const int64_t number = i / (s->m * s->n), row = i / s->n % s->m, column = i % s->n;
        x[i] = dot(a + number * s->a_batch + row * s->lda, b + number * s->b_batch + column * s->ldb, s->k);
    }
}

static void check_scores(struct rig *rig, const struct scores_case *c, float scale, double size) {
    struct aorta_products s = {.batch = c->batch, .m = c->m, .n = c->n, .k = c->k, .transpose_b = true};
    s.lda = s.k + 4, s.ldb = s.k + 8, s.ldc = s.n;
    s.a_batch = s.m * s.lda + 12, s.b_batch = s.n * s.ldb + 4, s.c_batch = s.m * s.n;
    const int64_t count = s.batch * s.m * s.n, a_count = s.batch * s.a_batch, b_count = s.batch * s.b_batch;
    double *a = rig_random(rig, AORTA_F32, a_count, size), *b = rig_random(rig, AORTA_F32, b_count, size);
    double *x = rig_values(rig, count), *p = rig_values(rig, count), *dx = rig_values(rig, count);
    float *on_device = rig_put(rig, AORTA_F32, a, a_count), *b_there = rig_put(rig, AORTA_F32, b, b_count);
    float *p_there = rig_alloc(rig, (size_t)count * sizeof(float)),
          *dx_there = rig_alloc(rig, (size_t)count * sizeof(float));
    const struct aorta_scores_args args = {.shape = s, .a = on_device, .b = b_there, .out = p_there};
    if (aorta_device_is_gpu(rig->device)) assert_int_equal(aorta_ops_gpu_scores_fit(rig->stream, &args), c->fits);

    check_ok(aorta_scores_forward(
        rig->stream,
        &(struct aorta_scores_args){.shape = s, .scale = scale, .a = on_device, .b = b_there, .out = p_there}));
    multiply(&s, a, b, x);
    for (int64_t row = 0; row < s.batch * s.m; row++) {
        double most = -INFINITY, sum = 0.0;
        for (int64_t i = row * s.n; i < (row + 1) * s.n; i++) most = fmax(most, x[i]);
        for (int64_t i = row * s.n; i < (row + 1) * s.n; i++) sum += p[i] = exp((double)scale * (x[i] - most));
        for (int64_t i = row * s.n; i < (row + 1) * s.n; i++) p[i] /= sum;
    }
    const double error = (double)scale * size * size * (double)s.k * 2e-7; /* of an exponent */
    rig_close_to("p", rig_get(rig, AORTA_F32, p_there, count), p, count, 3e-6 + error, 1e-7);

    /* The operands again as gradient and values: dp = a·bᵀ. */
    check_ok(aorta_scores_backward(
        rig->stream, &(struct aorta_scores_args){
                         .shape = s, .scale = scale, .a = on_device, .b = b_there, .p = p_there, .out = dx_there}));
    double largest = 0.0;
    for (int64_t row = 0; row < s.batch * s.m; row++) {
        const double along = dot(p + row * s.n, x + row * s.n, s.n);
        for (int64_t i = row * s.n; i < (row + 1) * s.n; i++) {
            dx[i] = (double)scale * p[i] * (x[i] - along);
            largest = fmax(largest, (double)scale * fabs(x[i]));
        }
    }
    rig_close_to("dx", rig_get(rig, AORTA_F32, dx_there, count), dx, count, 1e-5 + error,
                 1e-6 * largest + 1e-7); /* where dp is near its mean, the difference has the error of either */
}

static void scores(void **state) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_scores(*state, &cases[i], 0.125f, 1.0);
        rig_reset(state);
    }
}

/* Exponents of hundreds: the greatest of a row is taken off. */
static void large_scores(void **state) {
    check_scores(*state, &cases[2], 1.0f, 20.0);
}

static void wrong_arguments(void **state) {
    struct rig *rig = *state;
    float some[64] = {0};
    struct aorta_products s = {
        .batch = 1, .m = 2, .n = 4, .k = 8, .transpose_b = true, .lda = 8, .ldb = 8, .ldc = 4, .c_batch = 8};
    check_fails(aorta_scores_forward(rig->stream,
                                     &(struct aorta_scores_args){.shape = s, .scale = 1.0f, .b = some, .out = some}),
                AORTA_INTERNAL, "a is NULL");
    check_fails(
        aorta_scores_backward(
            rig->stream, &(struct aorta_scores_args){.shape = s, .scale = 1.0f, .a = some, .b = some, .out = some}),
        AORTA_INTERNAL, "p is NULL");
    s.ldc = 5;
    check_fails(
        aorta_scores_forward(rig->stream,
                             &(struct aorta_scores_args){.shape = s, .scale = 1.0f, .a = some, .b = some, .out = some}),
        AORTA_INTERNAL, "side by side");
    s.ldc = 4, s.accumulate = true;
    check_fails(aorta_scores_backward(rig->stream,
                                      &(struct aorta_scores_args){
                                          .shape = s, .scale = 1.0f, .a = some, .b = some, .p = some, .out = some}),
                AORTA_INTERNAL, "side by side");
}

int main(void) {
    const struct CMUnitTest tests[] = {rig_test(scores), rig_test(large_scores), rig_test(wrong_arguments)};
    return rig_run_tests("ops: scores", tests);
}
