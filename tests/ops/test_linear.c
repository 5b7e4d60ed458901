#include "ops/gemm.h"
#include "rig.h"

#include <math.h>

static const struct {
    int64_t rows, in, out;
} shapes[] = {{1, 1, 1}, {3, 7, 5}, {65, 33, 129}, {64, 128, 96}, {2, 300, 1}, {0, 3, 4}, {600, 530, 70}, {7, 65, 513}};
#define SHAPES (sizeof shapes / sizeof *shapes)

/* c[m, n] = start + a·b with elements at(row, column) = base[row·row_step + column·column_step]. */
struct operand {
    const double *base;
    int64_t row_step, column_step;
};
static double *product(struct rig *rig, int64_t m, int64_t n, int64_t k, struct operand a, struct operand b,
                       const double *start) {
    double *c = rig_values(rig, m * n);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = start ? start[i * n + j] : 0.0;
            for (int64_t p = 0; p < k; p++)
                sum += a.base[i * a.row_step + p * a.column_step] * b.base[p * b.row_step + j * b.column_step];
            c[i * n + j] = sum;
        }
    return c;
}

/* A vendor's library may round a product of 16-bit values before it adds the bias or the old value. The product exceeds
 * the result by at most 4 here. */
static double rounding_of_product(const struct rig *rig, enum aorta_dtype dtype, bool added, double result) {
    bool twice = added && dtype != AORTA_F32 && aorta_device_get_info(rig->device)->kind != AORTA_DEVICE_CPU;
    return twice ? (4 + result) * rig_unit(dtype) : 0;
}

static double largest(const double *values, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++) most = fmax(most, fabs(values[i]));
    return most;
}

static void check_forward(struct rig *rig, struct aorta_linear s, bool with_bias) {
    double *x = rig_random(rig, s.dtype, s.rows * s.in, 1), *w = rig_random(rig, s.dtype, s.out * s.in, 1);
    double *bias = rig_random(rig, s.dtype, s.out, 1), *start = rig_values(rig, s.rows * s.out);
    for (int64_t i = 0; i < s.rows * s.out && with_bias; i++) start[i] = bias[i % s.out];
    void *y = rig_alloc(rig, (size_t)(s.rows * s.out) * aorta_dtype_size(s.dtype));
    check_ok(aorta_linear_forward(
        rig->stream, &(struct aorta_linear_args){.shape = s,
                                                 .x = rig_put(rig, s.dtype, x, s.rows * s.in),
                                                 .weight = rig_put(rig, s.dtype, w, s.out * s.in),
                                                 .bias = with_bias ? rig_put(rig, s.dtype, bias, s.out) : NULL,
                                                 .y = y}));
    double *expected =
        product(rig, s.rows, s.out, s.in, (struct operand){x, s.in, 1}, (struct operand){w, 1, s.in}, start);
    rig_close_to("y", rig_get(rig, s.dtype, y, s.rows * s.out), expected, s.rows * s.out, 1.01 * rig_unit(s.dtype),
                 2e-7 * (double)(s.in + 4) +
                     rounding_of_product(rig, s.dtype, with_bias, largest(expected, s.rows * s.out)));
}

static void forward(void **state) {
    for (size_t i = 0; i < SHAPES; i++)
        for (int t = 0; t < 3; t++)
            for (int bias = 0; bias < 2; bias++) {
                check_forward(*state, (struct aorta_linear){rig_dtypes[t], shapes[i].rows, shapes[i].in, shapes[i].out},
                              bias);
                rig_reset(state);
            }
}

static void check_input(struct rig *rig, struct aorta_linear s, bool accumulate) {
    double *dy = rig_random(rig, s.dtype, s.rows * s.out, 1), *w = rig_random(rig, s.dtype, s.out * s.in, 1);
    double *start = rig_random(rig, s.dtype, s.rows * s.in, 1);
    void *dx = accumulate ? rig_put(rig, s.dtype, start, s.rows * s.in)
                          : rig_alloc(rig, (size_t)(s.rows * s.in) * aorta_dtype_size(s.dtype));
    check_ok(aorta_linear_backward_input(rig->stream,
                                         &(struct aorta_linear_args){.shape = s,
                                                                     .dy = rig_put(rig, s.dtype, dy, s.rows * s.out),
                                                                     .weight = rig_put(rig, s.dtype, w, s.out * s.in),
                                                                     .dx = dx,
                                                                     .accumulate = accumulate}));
    double *expected = product(rig, s.rows, s.in, s.out, (struct operand){dy, s.out, 1}, (struct operand){w, s.in, 1},
                               accumulate ? start : NULL);
    rig_close_to("dx", rig_get(rig, s.dtype, dx, s.rows * s.in), expected, s.rows * s.in, 1.01 * rig_unit(s.dtype),
                 2e-7 * (double)(s.out + 4) +
                     rounding_of_product(rig, s.dtype, accumulate, largest(expected, s.rows * s.in)));
}

static void check_weight(struct rig *rig, struct aorta_linear s, bool accumulate) {
    double *dy = rig_random(rig, s.dtype, s.rows * s.out, 1), *x = rig_random(rig, s.dtype, s.rows * s.in, 1);
    double *start = rig_random(rig, AORTA_F32, s.out * s.in, 1), *bias = rig_random(rig, AORTA_F32, s.out, 1);
    float *dweight = rig_put(rig, AORTA_F32, start, s.out * s.in), *dbias = rig_put(rig, AORTA_F32, bias, s.out);
    check_ok(aorta_linear_backward_weight(rig->stream,
                                          &(struct aorta_linear_args){.shape = s,
                                                                      .x = rig_put(rig, s.dtype, x, s.rows * s.in),
                                                                      .dy = rig_put(rig, s.dtype, dy, s.rows * s.out),
                                                                      .dweight = dweight,
                                                                      .dbias = dbias,
                                                                      .accumulate = accumulate}));
    double *expected = product(rig, s.out, s.in, s.rows, (struct operand){dy, 1, s.out}, (struct operand){x, s.in, 1},
                               accumulate ? start : NULL);
    for (int64_t j = 0; j < s.out; j++) {
        if (!accumulate) bias[j] = 0.0;
        for (int64_t i = 0; i < s.rows; i++) bias[j] += dy[i * s.out + j];
    }
    const double absolute = 2e-7 * (double)(s.rows + 4); /* fp32 in every mode */
    rig_close_to("dweight", rig_get(rig, AORTA_F32, dweight, s.out * s.in), expected, s.out * s.in, 1e-7, absolute);
    rig_close_to("dbias", rig_get(rig, AORTA_F32, dbias, s.out), bias, s.out, 1e-7, absolute);
}

static void backward(void **state) {
    for (size_t i = 0; i < SHAPES; i++)
        for (int t = 0; t < 3; t++)
            for (int accumulate = 0; accumulate < 2; accumulate++) {
                struct aorta_linear shape = {rig_dtypes[t], shapes[i].rows, shapes[i].in, shapes[i].out};
                check_input(*state, shape, accumulate);
                check_weight(*state, shape, accumulate);
                rig_reset(state);
            }
}

/* Strides beyond the width, and both operands transposed. */
static void plain_gemm(void **state) {
    struct rig *rig = *state;
    enum { M = 5, N = 9, K = 70, LDA = 6, LDB = 72, LDC = 11 };
    double *a = rig_random(rig, AORTA_F32, K * LDA, 1), *b = rig_random(rig, AORTA_F32, N * LDB, 1);
    float af[K * LDA], bf[N * LDB], cf[M * LDC];
    for (int i = 0; i < K * LDA; i++) af[i] = (float)a[i];
    for (int i = 0; i < N * LDB; i++) bf[i] = (float)b[i];
    for (int i = 0; i < M * LDC; i++) cf[i] = 42.0f;
    const struct aorta_products gemm = {
        .m = M, .n = N, .k = K, .transpose_a = true, .transpose_b = true, .lda = LDA, .ldb = LDB, .ldc = LDC};
    check_ok(aorta_gemm_f32(&gemm, af, bf, cf));
    double *expected = product(rig, M, N, K, (struct operand){a, 1, LDA}, (struct operand){b, 1, LDB}, NULL);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < LDC; j++) {
            double got = (double)cf[i * LDC + j], want = j < N ? expected[i * N + j] : 42.0;
            rig_close_to("c", &got, &want, 1, 1e-6, j < N ? 1e-5 : 0.0);
        }
    struct aorta_products narrow = gemm;
    narrow.ldc = N - 1;
    check_fails(aorta_gemm_f32(&narrow, af, bf, cf), AORTA_INTERNAL, "too close");
    struct aorta_products huge = gemm;
    huge.k = (int64_t)1 << 31;
    check_fails(aorta_gemm_f32(&huge, af, bf, cf), AORTA_INTERNAL, "beyond 2^31");
}

static void gemm_library_is_named(void **state) {
    (void)state;
    const char *name = aorta_ops_gemm_library();
    assert_true(strstr(name, "oneDNN ") == name || strstr(name, "OpenBLAS ") == name);
}

static void wrong_arguments(void **state) {
    struct rig *rig = *state;
    struct aorta_linear shape = {AORTA_F32, 2, 3, 4};
    float some[16] = {0};
    check_fails(
        aorta_linear_forward(rig->stream, &(struct aorta_linear_args){.shape = shape, .weight = some, .y = some}),
        AORTA_INTERNAL, "linear_forward: x is NULL");
    shape.in = 0;
    check_fails(aorta_linear_forward(rig->stream,
                                     &(struct aorta_linear_args){.shape = shape, .x = some, .weight = some, .y = some}),
                AORTA_INTERNAL, "in is 0");
    shape.in = 3, shape.dtype = AORTA_I64;
    check_fails(aorta_linear_backward_input(
                    rig->stream, &(struct aorta_linear_args){.shape = shape, .dy = some, .weight = some, .dx = some}),
                AORTA_INTERNAL, "int64");
    shape.dtype = AORTA_F32, shape.rows = -1;
    check_fails(aorta_linear_backward_weight(
                    rig->stream,
                    &(struct aorta_linear_args){.shape = shape, .x = some, .dy = some, .dweight = some, .dbias = some}),
                AORTA_INTERNAL, "rows is -1");
}

int main(void) {
    const struct CMUnitTest tests[] = {rig_test(forward), rig_test(backward), rig_test(plain_gemm),
                                       cmocka_unit_test(gemm_library_is_named), rig_test(wrong_arguments)};
    return rig_run_tests("ops: linear", tests);
}
