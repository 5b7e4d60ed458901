/* Batched products, ReLU and sums of pieces. */
#include "rig.h"

#include <math.h>
#include <stdlib.h>

/* Matrices with a margin, so that distances between rows and between matrices matter. */
static void check_products(struct rig *rig, struct aorta_products s) {
    const int64_t a_rows = s.transpose_a ? s.k : s.m, b_rows = s.transpose_b ? s.n : s.k;
    s.lda = (s.transpose_a ? s.m : s.k) + 3, s.ldb = (s.transpose_b ? s.k : s.n) + 1, s.ldc = s.n + 2;
    s.a_batch = a_rows * s.lda + 5, s.b_batch = b_rows * s.ldb, s.c_batch = s.m * s.ldc + 7;
    double *a = rig_random(rig, AORTA_F32, s.batch * s.a_batch, 1),
           *b = rig_random(rig, AORTA_F32, s.batch * s.b_batch, 1);
    double *c = rig_random(rig, AORTA_F32, s.batch * s.c_batch, 1);
    float *device = rig_put(rig, AORTA_F32, c, s.batch * s.c_batch);
    check_ok(aorta_products_run(rig->stream,
                                &(struct aorta_products_args){.shape = s,
                                                              .a = rig_put(rig, AORTA_F32, a, s.batch * s.a_batch),
                                                              .b = rig_put(rig, AORTA_F32, b, s.batch * s.b_batch),
                                                              .c = device}));
    for (int64_t i = 0; i < s.batch * s.m * s.n; i++) {
        const int64_t number = i / (s.m * s.n), row = i / s.n % s.m, column = i % s.n;
        double *to = c + number * s.c_batch + row * s.ldc + column;
        if (!s.accumulate) *to = 0.0;
        for (int64_t k = 0; k < s.k; k++)
            *to += a[number * s.a_batch + (s.transpose_a ? k * s.lda + row : row * s.lda + k)] *
                   b[number * s.b_batch + (s.transpose_b ? column * s.ldb + k : k * s.ldb + column)];
    }
    rig_close_to("c", rig_get(rig, AORTA_F32, device, s.batch * s.c_batch), c, s.batch * s.c_batch, 1e-6,
                 2e-7 * (double)(s.k + 4));
}

static void products(void **state) {
    static const int64_t sizes[][4] = {{1, 5, 7, 9}, {3, 33, 40, 12}, {6, 16, 16, 64}, {2, 70, 2, 1}};
    for (int i = 0; i < 4; i++)
        for (int flags = 0; flags < 8; flags++) {
            check_products(*state, (struct aorta_products){.batch = sizes[i][0],
                                                           .m = sizes[i][1],
                                                           .n = sizes[i][2],
                                                           .k = sizes[i][3],
                                                           .transpose_a = flags & 1,
                                                           .transpose_b = flags & 2,
                                                           .accumulate = flags & 4});
            rig_reset(state);
        }
}

static void linear_relu(void **state) {
    static const int64_t sizes[][3] = {{3, 7, 5}, {65, 33, 129}, {32, 64, 1}};
    for (int i = 0; i < 3; i++)
        for (int t = 0; t < 3; t++)
            for (int tf32 = 0; tf32 < 2; tf32++) {
                struct rig *rig = *state;
                const struct aorta_linear s = {rig_dtypes[t], sizes[i][0], sizes[i][1], sizes[i][2]};
                double *x = rig_random(rig, s.dtype, s.rows * s.in, 1), *w = rig_random(rig, s.dtype, s.out * s.in, 1);
                double *bias = rig_random(rig, s.dtype, s.out, 1), *expected = rig_values(rig, s.rows * s.out);
                void *y = rig_alloc(rig, (size_t)(s.rows * s.out) * aorta_dtype_size(s.dtype));
                check_ok(aorta_linear_forward(
                    rig->stream, &(struct aorta_linear_args){.shape = s,
                                                             .x = rig_put(rig, s.dtype, x, s.rows * s.in),
                                                             .weight = rig_put(rig, s.dtype, w, s.out * s.in),
                                                             .bias = rig_put(rig, s.dtype, bias, s.out),
                                                             .y = y,
                                                             .tf32 = tf32,
                                                             .relu = true}));
                for (int64_t j = 0; j < s.rows * s.out; j++) {
                    double sum = bias[j % s.out];
                    for (int64_t k = 0; k < s.in; k++) sum += x[j / s.out * s.in + k] * w[j % s.out * s.in + k];
                    expected[j] = fmax(sum, 0.0);
                }
                const bool on_gpu = aorta_device_get_info(rig->device)->kind != AORTA_DEVICE_CPU;
                const double unit = s.dtype == AORTA_F32 && tf32 && on_gpu ? 0x1p-11 : rig_unit(s.dtype);
                rig_close_to("y", rig_get(rig, s.dtype, y, s.rows * s.out), expected, s.rows * s.out,
                             1.01 * rig_unit(s.dtype), (unit + 2e-7) * (double)(s.in + 8));
                rig_reset(state);
            }
}

static void relu_backward(void **state) {
    struct rig *rig = *state;
    enum { COUNT = 2051 };
    double *y = rig_random(rig, AORTA_F32, COUNT, 1), *dy = rig_random(rig, AORTA_F32, COUNT, 1);
    y[3] = 0.0;
    float *slope = rig_put(rig, AORTA_F32, dy, COUNT);
    check_ok(aorta_relu_backward(
        rig->stream,
        &(struct aorta_relu_args){.count = COUNT, .y = rig_put(rig, AORTA_F32, y, COUNT), .dy = slope, .dx = slope}));
    for (int i = 0; i < COUNT; i++) dy[i] = y[i] > 0.0 ? dy[i] : 0.0;
    rig_close_to("dx", rig_get(rig, AORTA_F32, slope, COUNT), dy, COUNT, 0, 0);
}

static void sum_pieces(void **state) {
    struct rig *rig = *state;
    enum { PIECES = 5, COUNT = 1003 };
    double *from = rig_random(rig, AORTA_F32, PIECES * COUNT, 1), *expected = rig_values(rig, COUNT);
    float *pieces = rig_put(rig, AORTA_F32, from, PIECES * COUNT), *to = rig_alloc(rig, COUNT * sizeof(float));
    for (int i = 0; i < PIECES * COUNT; i++) expected[i % COUNT] += from[i] / PIECES;
    check_ok(aorta_sum_pieces(rig->stream,
                              &(struct aorta_sum_pieces_args){
                                  .to = to, .from = pieces, .pieces = PIECES, .count = COUNT, .scale = 1.0f / PIECES}));
    rig_close_to("sum", rig_get(rig, AORTA_F32, to, COUNT), expected, COUNT, 1e-6, 1e-6);
    check_ok(aorta_sum_pieces(
        rig->stream, &(struct aorta_sum_pieces_args){
                         .to = pieces, .from = pieces, .pieces = PIECES, .count = COUNT, .scale = 1.0f / PIECES}));
    rig_close_to("sum in place", rig_get(rig, AORTA_F32, pieces, COUNT), expected, COUNT, 1e-6, 1e-6);
}

static void count_line(void *user, const char *line) {
    assert_non_null(strstr(line, "product 33 x 17 x 65 (NN, fp32 to fp32): candidate "));
    assert_non_null(strstr(line, " of "));
    assert_non_null(strstr(line, ", workspace "));
    ++*(int *)user;
}

/* Each shape once, with its choice; where no library multiplies there is nothing to report. */
static void choices_are_logged(void **state) {
    struct rig *rig = *state;
    struct aorta_device *device;
    check_ok(aorta_device_open(aorta_device_get_info(rig->device)->kind, 0, &device));
    struct aorta_stream *stream;
    check_ok(aorta_stream_create(device, "test", AORTA_PRIORITY_NORMAL, &stream));
    void *memory;
    check_ok(aorta_device_alloc(device, 1 << 16, "test", &memory));
    check_ok(aorta_fill_bytes(stream, memory, 0, 1 << 16));
    struct aorta_products s = {.batch = 1, .m = 17, .n = 33, .k = 65, .lda = 65, .ldb = 33, .ldc = 33};
    float *a = memory, *b = a + 17 * 65, *c = b + 65 * 33;
    for (int i = 0; i < 2; i++)
        check_ok(aorta_products_run(stream, &(struct aorta_products_args){.shape = s, .a = a, .b = b, .c = c}));
    check_ok(aorta_stream_synchronize(stream));
    int lines = 0;
    check_ok(aorta_ops_report_products(device, count_line, &lines));
    const char *libraries = getenv("AORTA_LIBRARY_PATH");
    if (libraries && strstr(libraries, "fake_blas"))
        assert_int_equal(lines, 1);
    else
        assert_in_range(lines, 0, aorta_device_get_info(device)->kind != AORTA_DEVICE_CPU);
    /* Our own kernels make the next product, whatever the library offers. */
    int as_before = 0;
    s.m = 16;
    check_ok(aorta_ops_configure(device, &(struct aorta_ops_settings){.own_products = true}));
    check_ok(aorta_products_run(stream, &(struct aorta_products_args){.shape = s, .a = a, .b = b, .c = c}));
    check_ok(aorta_stream_synchronize(stream));
    check_ok(aorta_ops_report_products(device, count_line, &as_before));
    assert_int_equal(as_before, lines);
    aorta_stream_destroy(stream);
    aorta_device_free(device, memory);
    aorta_device_close(device);
}

static void wrong_arguments(void **state) {
    struct rig *rig = *state;
    float some[16] = {0};
    struct aorta_products s = {.batch = 1, .m = 2, .n = 3, .k = 4, .lda = 3, .ldb = 3, .ldc = 3};
    check_fails(
        aorta_products_run(rig->stream, &(struct aorta_products_args){.shape = s, .a = some, .b = some, .c = some}),
        AORTA_INTERNAL, "lda is 3, must be at least 4");
    s.lda = 4;
    check_fails(aorta_products_run(rig->stream, &(struct aorta_products_args){.shape = s, .a = some, .c = some}),
                AORTA_INTERNAL, "b is NULL");
    check_fails(aorta_linear_forward(rig->stream,
                                     &(struct aorta_linear_args){.shape = (struct aorta_linear){AORTA_F32, 1, 1, 1},
                                                                 .x = some,
                                                                 .weight = some,
                                                                 .y = some,
                                                                 .relu = true}),
                AORTA_INTERNAL, "bias is NULL");
    check_fails(aorta_sum_pieces(rig->stream,
                                 &(struct aorta_sum_pieces_args){.to = some, .from = some, .count = 4, .scale = 1}),
                AORTA_INTERNAL, "pieces is 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {rig_test(products),   rig_test(linear_relu),        rig_test(relu_backward),
                                       rig_test(sum_pieces), rig_test(choices_are_logged), rig_test(wrong_arguments)};
    return rig_run_tests("ops: products", tests);
}
