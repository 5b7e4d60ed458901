/* Shampoo's directions against a plain version in double, whose roots come from an eigenvalue method of its own. */
#include "rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = AORTA_SHAMPOO_BLOCK, STEPS = 4, FREQUENCY = 2 };
static const double beta1 = (double)0.9f, beta2 = (double)0.98f, eps = (double)1e-8f;

/* ---- plain ---- */

/* Two-sided Jacobi: the largest element off the diagonal is rotated away until none is left. */
static void eigen(int n, double *a, double *vectors) {
    for (int i = 0; i < n * n; i++) vectors[i] = i / n == i % n;
    for (int turn = 0; turn < 100 * n * n; turn++) {
        int p = 0, q = 1;
        for (int i = 0; i < n; i++)
            for (int j = i + 1; j < n; j++)
                if (fabs(a[i * n + j]) > fabs(a[p * n + q])) p = i, q = j;
        if (n < 2 || fabs(a[p * n + q]) < 1e-300) return;
        const double theta = 0.5 * atan2(2 * a[p * n + q], a[q * n + q] - a[p * n + p]), c = cos(theta), s = sin(theta);
        for (int k = 0; k < n; k++) {
            const double x = a[k * n + p], y = a[k * n + q];
            a[k * n + p] = c * x - s * y, a[k * n + q] = s * x + c * y;
        }
        for (int k = 0; k < n; k++) {
            const double x = a[p * n + k], y = a[q * n + k], v = vectors[k * n + p], w = vectors[k * n + q];
            a[p * n + k] = c * x - s * y, a[q * n + k] = s * x + c * y;
            vectors[k * n + p] = c * v - s * w, vectors[k * n + q] = s * v + c * w;
        }
        double off = 0, all = 0;
        for (int i = 0; i < n * n; i++) {
            all += a[i] * a[i];
            if (i / n != i % n) off += a[i] * a[i];
        }
        if (off <= 1e-30 * all) return;
    }
}

/* (factor / correction + ridge)^power */
static void root_of(int n, const double *factor, double correction, double power, double *root) {
    double a[N * N], vectors[N * N], most = 0;
    for (int i = 0; i < n * n; i++) a[i] = factor[i] / correction;
    eigen(n, a, vectors);
    for (int i = 0; i < n; i++) most = fmax(most, a[i * n + i]);
    memset(root, 0, (size_t)(n * n) * sizeof *root);
    for (int k = 0; k < n; k++) {
        const double value = most > 0 ? pow(fmax(a[k * n + k], 0) + 1e-6 * most, power) : 1;
        for (int i = 0; i < n * n; i++) root[i] += value * vectors[i / n * n + k] * vectors[i % n * n + k];
    }
}

/* c [m, n] = a [m, k] · b [k, n] */
static void multiply(int m, int k, int n, const double *a, const double *b, double *c) {
    memset(c, 0, (size_t)(m * n) * sizeof *c);
    for (int i = 0; i < m; i++)
        for (int l = 0; l < k; l++)
            for (int j = 0; j < n; j++) c[i * n + j] += a[i * k + l] * b[l * n + j];
}

struct plain {
    double left[N * N], right[N * N], left_root[N * N], right_root[N * N];
};

/* One block [r, c] of a matrix with `columns` columns, from `at` on. */
static void plain_step(struct plain *p, int step, const double *g, double *m, double *v, double *direction, int64_t at,
                       int r, int c, int64_t columns) {
    const double b1 = 1 - pow(beta1, step), b2 = 1 - pow(beta2, step), power = columns == 1 ? -0.5 : -0.25;
    double x[N * N], y[N * N], wanted = 0, sum = 0;
    for (int i = 0; i < r; i++)
        for (int j = 0; j < r; j++) {
            double product = 0;
            for (int k = 0; k < c; k++) product += g[at + i * columns + k] * g[at + j * columns + k];
            p->left[i * r + j] = beta2 * p->left[i * r + j] + (1 - beta2) * product;
        }
    for (int i = 0; i < c; i++)
        for (int j = 0; j < c; j++) {
            double product = 0;
            for (int k = 0; k < r; k++) product += g[at + k * columns + i] * g[at + k * columns + j];
            p->right[i * c + j] = beta2 * p->right[i * c + j] + (1 - beta2) * product;
        }
    if ((step - 1) % FREQUENCY == 0) {
        root_of(r, p->left, b2, power, p->left_root);
        root_of(c, p->right, b2, power, p->right_root);
    }
    for (int i = 0; i < r; i++)
        for (int j = 0; j < c; j++) {
            const int64_t e = at + i * columns + j;
            m[e] = beta1 * m[e] + (1 - beta1) * g[e];
            v[e] = beta2 * v[e] + (1 - beta2) * g[e] * g[e];
            x[i * c + j] = m[e] / b1;
            wanted += pow(x[i * c + j] / (sqrt(v[e] / b2) + eps), 2);
        }
    multiply(r, r, c, p->left_root, x, y);
    if (columns > 1) {
        multiply(r, c, c, y, p->right_root, x);
        memcpy(y, x, sizeof y);
    }
    for (int i = 0; i < r * c; i++) sum += y[i] * y[i];
    for (int i = 0; i < r * c; i++) direction[at + i / c * columns + i % c] = sum > 0 ? y[i] * sqrt(wanted / sum) : 0;
}

/* ---- tests ---- */

static int size_of(int64_t left) {
    return left < N ? (int)left : N;
}

static void plain_matrix(struct plain *blocks, int step, const double *g, double *m, double *v, double *direction,
                         int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; i += N)
        for (int64_t j = 0; j < columns; j += N)
            plain_step(blocks++, step, g, m, v, direction, i * columns + j, size_of(rows - i), size_of(columns - j),
                       columns);
}

static float *zeros(struct rig *rig, int64_t count) {
    return rig_put(rig, AORTA_F32, rig_values(rig, count), count);
}

static void directions(void **state) {
    static const int64_t shapes[][2] = {{5, 3}, {32, 32}, {40, 70}, {1, 33}, {50, 1}, {1, 1}};
    for (size_t t = 0; t < sizeof shapes / sizeof *shapes; t++) {
        struct rig *rig = *state;
        const int64_t rows = shapes[t][0], columns = shapes[t][1], count = rows * columns;
        const int64_t blocks = aorta_shampoo_blocks(rows, columns), floats = 2 * blocks * AORTA_SHAMPOO_FACTOR;
        struct plain *plain = calloc((size_t)blocks, sizeof *plain);
        double *m = rig_values(rig, count), *v = rig_values(rig, count), *expected = rig_values(rig, count);
        float *m_there = zeros(rig, count), *v_there = zeros(rig, count), *roots = zeros(rig, floats),
              *direction = zeros(rig, count);
        double *factors = rig_put_bytes(rig, rig_values(rig, floats), (size_t)floats * sizeof *factors);
        assert_non_null(plain);
        for (int step = 1; step <= STEPS; step++) {
            double *g = rig_random(rig, AORTA_F32, count, 1);
            /* A gradient has few dominant directions. */
            for (int64_t i = 0; i < count; i++) g[i] = rig_round(g[i] * (i % columns == 0 ? 1 : 0.01), AORTA_F32);
            struct aorta_step_state *there =
                rig_step_state(rig, (struct aorta_step_state){.finite = 1,
                                                              .grad_factor = 0.5f,
                                                              .updates = step,
                                                              .bias_correction1 = (float)(1 - pow(beta1, step)),
                                                              .bias_correction2 = (float)(1 - pow(beta2, step))});
            check_ok(aorta_shampoo_direction(
                rig->stream,
                &(struct aorta_shampoo_args){rows, columns, 0.9f, 0.98f, 1e-8f, FREQUENCY, there,
                                             .gradient = rig_put(rig, AORTA_F32, g, count), .m = m_there, .v = v_there,
                                             .factors = factors, .roots = roots, .direction = direction}));
            for (int64_t i = 0; i < count; i++) g[i] *= 0.5;
            plain_matrix(plain, step, g, m, v, expected, rows, columns);
            /* A vector's root amplifies what fp32 rounds in the moments up to a thousand times, a matrix's 32 times. */
            const double allowed = columns == 1 ? 1e-4 : 1e-5;
            double largest = 0;
            for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(expected[i]));
            rig_close_to("direction", rig_get(rig, AORTA_F32, direction, count), expected, count, allowed,
                         allowed * largest);
        }
        free(plain);
        /* A step that is skipped changes nothing. */
        double *before = rig_values(rig, floats), *after = rig_values(rig, floats);
        rig_get_bytes(rig, before, factors, (size_t)floats * sizeof *before);
        check_ok(aorta_shampoo_direction(
            rig->stream, &(struct aorta_shampoo_args){rows, columns, 0.9f, 0.98f, 1e-8f, FREQUENCY,
                                                      rig_step_state(rig, (struct aorta_step_state){.updates = 5}),
                                                      .gradient = direction, .m = m_there, .v = v_there,
                                                      .factors = factors, .roots = roots, .direction = direction}));
        rig_get_bytes(rig, after, factors, (size_t)floats * sizeof *after);
        rig_close_to("factors", after, before, floats, 0, 0);
        rig_reset(state);
    }
}

/* No gradient: no direction, and no NaN. */
static void zero_gradient(void **state) {
    struct rig *rig = *state;
    enum { COUNT = 12 * 9 };
    struct aorta_step_state *there = rig_step_state(
        rig, (struct aorta_step_state){
                 .finite = 1, .grad_factor = 1, .updates = 1, .bias_correction1 = 0.1f, .bias_correction2 = 0.02f});
    float *direction = rig_alloc(rig, COUNT * sizeof *direction);
    check_ok(aorta_shampoo_direction(
        rig->stream, &(struct aorta_shampoo_args){
                         12, 9, 0.9f, 0.98f, 1e-8f, 1, there, .gradient = zeros(rig, COUNT), .m = zeros(rig, COUNT),
                         .v = zeros(rig, COUNT), .factors = (double *)zeros(rig, 4 * AORTA_SHAMPOO_FACTOR),
                         .roots = zeros(rig, 2 * AORTA_SHAMPOO_FACTOR), .direction = direction}));
    rig_close_to("direction", rig_get(rig, AORTA_F32, direction, COUNT), rig_values(rig, COUNT), COUNT, 0, 0);
}

static void descent(void **state) {
    for (int t = 0; t < 3; t++)
        for (int finite = 0; finite < 2; finite++) {
            struct rig *rig = *state;
            enum { COUNT = 3001 };
            double *p = rig_random(rig, AORTA_F32, COUNT, 1), *d = rig_random(rig, AORTA_F32, COUNT, 1);
            float *parameter = rig_put(rig, AORTA_F32, p, COUNT);
            void *copy = rig_alloc(rig, COUNT * aorta_dtype_size(rig_dtypes[t]));
            struct aorta_step_state *there =
                rig_step_state(rig, (struct aorta_step_state){.finite = finite, .lr = 0.01f});
            check_ok(aorta_descent_step(
                rig->stream,
                &(struct aorta_descent_args){COUNT, 0.1f, there, rig_dtypes[t], .parameter = parameter,
                                             .direction = rig_put(rig, AORTA_F32, d, COUNT), .copy = copy}));
            for (int i = 0; finite && i < COUNT; i++) p[i] -= 0.01 * 0.1 * p[i] + 0.01 * d[i];
            double *got = rig_get(rig, AORTA_F32, parameter, COUNT);
            rig_close_to("parameter", got, p, COUNT, 1e-6, 1e-7);
            for (int i = 0; i < COUNT; i++) p[i] = rig_round(got[i], rig_dtypes[t]);
            rig_close_to("copy", rig_get(rig, rig_dtypes[t], copy, COUNT), p, COUNT, 0, 0);
            rig_reset(state);
        }
}

static void wrong_arguments(void **state) {
    struct rig *rig = *state;
    float some[4] = {0};
    double factors[4] = {0};
    struct aorta_step_state step = {0};
    struct aorta_shampoo_args args = {.rows = 2,
                                      .columns = 2,
                                      .state = &step,
                                      .gradient = some,
                                      .m = some,
                                      .v = some,
                                      .factors = factors,
                                      .roots = some,
                                      .direction = some};
    check_fails(aorta_shampoo_direction(rig->stream, &args), AORTA_INTERNAL, "frequency is 0");
    args.frequency = 1;
    args.roots = NULL;
    check_fails(aorta_shampoo_direction(rig->stream, &args), AORTA_INTERNAL, "roots is NULL");
    check_fails(
        aorta_descent_step(rig->stream, &(struct aorta_descent_args){.count = 4, .parameter = some, .direction = some}),
        AORTA_INTERNAL, "state is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {rig_test(directions), rig_test(zero_gradient), rig_test(descent),
                                       rig_test(wrong_arguments)};
    return rig_run_tests("ops: shampoo", tests);
}
