/* Each matrix product of a training step of config/default.yaml's model (512 rows: batch 8 × 64 positions), fp32 and
 * bf16: our linear operation on a stream, the same product called alone, and the ratio of the medians. */
#include "base/clock.h"
#include "base/statistics.h"
#include "device/device.h"
#include "ops/gemm.h"
#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 512, REPEATS = 15 };

struct layer {
    const char *name;
    int64_t in, out;
};
static const struct layer layers[] = {{"attention in", 768, 2304},     {"attention out", 768, 768},
                                      {"MLP up", 768, 2048},           {"MLP down", 2048, 768},
                                      {"dense projection", 2048, 768}, {"sparse projection", 192, 768}};

enum product { FORWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, PRODUCTS };
static const char *const product_names[PRODUCTS] = {"forward", "dx", "dweight"};

struct buffers {
    void *x, *weight, *bias, *y;
    float *dweight, *dbias;
};

static aorta_status run_operation(struct aorta_stream *stream, struct aorta_linear shape, enum product product,
                                  const struct buffers *b) {
    if (product == FORWARD)
        AORTA_TRY(aorta_linear_forward(
            stream,
            &(struct aorta_linear_args){.shape = shape, .x = b->x, .weight = b->weight, .bias = b->bias, .y = b->y}));
    else if (product == BACKWARD_INPUT)
        AORTA_TRY(aorta_linear_backward_input(
            stream, &(struct aorta_linear_args){.shape = shape, .dy = b->y, .weight = b->weight, .dx = b->x}));
    else
        AORTA_TRY(aorta_linear_backward_weight(
            stream, &(struct aorta_linear_args){
                        .shape = shape, .x = b->x, .dy = b->y, .dweight = b->dweight, .dbias = b->dbias}));
    return aorta_stream_synchronize(stream);
}

static aorta_status run_alone(struct aorta_linear s, enum product product, const struct buffers *b) {
    struct aorta_products gemm = {
        .m = s.rows, .n = s.out, .k = s.in, .transpose_b = true, .lda = s.in, .ldb = s.in, .ldc = s.out};
    if (product == FORWARD) return aorta_gemm_typed(&gemm, s.dtype, b->x, b->weight, s.dtype, b->y);
    gemm = (struct aorta_products){.m = s.rows, .n = s.in, .k = s.out, .lda = s.out, .ldb = s.in, .ldc = s.in};
    if (product == BACKWARD_INPUT) return aorta_gemm_typed(&gemm, s.dtype, b->y, b->weight, s.dtype, b->x);
    gemm = (struct aorta_products){
        .m = s.out, .n = s.in, .k = s.rows, .transpose_a = true, .lda = s.out, .ldb = s.in, .ldc = s.in};
    return aorta_gemm_typed(&gemm, s.dtype, b->y, b->x, AORTA_F32, b->dweight);
}

/* In turns, so that a disturbance of the machine affects both. */
static aorta_status measure(struct aorta_stream *stream, struct aorta_linear shape, enum product product,
                            const struct buffers *buffers, double medians_us[2]) {
    double samples[2][REPEATS];
    for (int i = -2; i < REPEATS; i++) {
        int64_t start = aorta_clock_ns();
        AORTA_TRY(run_operation(stream, shape, product, buffers));
        int64_t middle = aorta_clock_ns();
        AORTA_TRY(run_alone(shape, product, buffers));
        if (i < 0) continue; /* warming up */
        samples[0][i] = (double)(middle - start) * 1e-3;
        samples[1][i] = (double)(aorta_clock_ns() - middle) * 1e-3;
    }
    for (int i = 0; i < 2; i++) medians_us[i] = aorta_summarise(samples[i], REPEATS).p50;
    return NULL;
}

static aorta_status run_layer(struct aorta_stream *stream, const struct layer *layer, enum aorta_dtype dtype,
                              const struct buffers *buffers) {
    const struct aorta_linear shape = {dtype, ROWS, layer->in, layer->out};
    for (int product = 0; product < PRODUCTS; product++) {
        double us[2];
        AORTA_TRY(measure(stream, shape, product, buffers, us));
        double flop = 2.0 * (double)(shape.rows * shape.in * shape.out);
        printf("%-18s %-8s %-5s %5lld x %5lld x %5lld  %9.1f us  %9.1f us  %7.1f GFLOP/s  %.3f\n", layer->name,
               product_names[product], aorta_dtype_name(dtype), (long long)ROWS, (long long)layer->out,
               (long long)layer->in, us[0], us[1], flop / us[1] * 1e-3, us[0] / us[1]);
    }
    return NULL;
}

static aorta_status buffers_create(struct aorta_device *device, struct aorta_stream *stream, struct buffers *b) {
    const size_t bytes = sizeof(float) * 2304 * 2048;
    void **const members[] = {&b->x, &b->weight, &b->bias, &b->y, (void **)&b->dweight, (void **)&b->dbias};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        AORTA_TRY(aorta_device_alloc(device, bytes, "benchmark", members[i]));
        AORTA_TRY(aorta_fill(stream, *members[i], AORTA_F32, (int64_t)(bytes / sizeof(float)), 0.01f));
    }
    return aorta_stream_synchronize(stream);
}

static aorta_status run(struct aorta_device *device, struct aorta_stream *stream) {
    struct buffers b = {0};
    aorta_status status = buffers_create(device, stream, &b);
    printf("%s\n%-32s %-23s  %12s  %12s  %15s  ratio\n", aorta_ops_gemm_library(), "product", "rows x out x in",
           "operation", "alone", "rate alone");
    const enum aorta_dtype dtypes[] = {AORTA_F32, AORTA_BF16};
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; i < sizeof layers / sizeof *layers && !status; i++)
            status = run_layer(stream, &layers[i], dtypes[t], &b);
    void *const members[] = {b.x, b.weight, b.bias, b.y, b.dweight, b.dbias};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) aorta_device_free(device, members[i]);
    return status;
}

int main(void) {
    struct aorta_device *device = NULL;
    struct aorta_stream *stream = NULL;
    aorta_status status = aorta_device_open(AORTA_DEVICE_CPU, 0, &device);
    if (!status) status = aorta_stream_create(device, "compute", AORTA_PRIORITY_NORMAL, &stream);
    if (!status) status = run(device, stream);
    if (stream) aorta_stream_destroy(stream);
    if (device) aorta_device_close(device);
    if (!status) return 0;
    fprintf(stderr, "bench_ops_gemm: %s\n", aorta_status_message(status));
    aorta_status_free(status);
    return 1;
}
