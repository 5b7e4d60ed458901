/* The operations that are not matrix products, at the sizes of config/default.yaml's step in fp32 on one stream: time
 * for one call, per element, the memory traffic it stands for, and its share of the whole step. */
#include "base/clock.h"
#include "base/statistics.h"
#include "device/device.h"
#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 512, WIDTH = 768, MLP = 2048, LAYERS = 8, VOCAB = 60000, EMBEDDING = 192, FEATURES = 32, REPEATS = 9 };
#define PARAMETERS ((int64_t)58900000)

struct bench {
    struct aorta_stream *stream;
    float *a, *b, *c, *d, *big[4];
    void *saved, *scratch;
    int64_t *ids;
    struct aorta_step_state *state;
};

static const struct aorta_norm norm = {AORTA_F32, ROWS, WIDTH, 1e-5f, 0.1f, {.seed = 1}};
static const struct aorta_gelu gelu = {AORTA_F32, (int64_t)ROWS *MLP, 0.1f, {.seed = 1}, MLP};
static const struct aorta_attention attention = {AORTA_F32, 8, 64, 12, 64, 0.1f, {.seed = 1}};
static const struct aorta_embedding embedding = {AORTA_F32, ROWS, FEATURES, VOCAB, EMBEDDING};

static aorta_status norm_forward(struct bench *b) {
    return aorta_norm_forward(b->stream, norm, b->a, b->b, b->big[0], b->big[1], b->c, b->d, b->big[2], b->big[3]);
}
static aorta_status norm_backward(struct bench *b) {
    return aorta_norm_backward(b->stream, norm, b->a, b->b, b->c, b->big[0], b->big[2], b->big[3], b->d,
                               b->d + ROWS * WIDTH, b->a + 2 * ROWS * WIDTH, b->b + 2 * ROWS * WIDTH, NULL, true);
}
static aorta_status gelu_forward(struct bench *b) {
    return aorta_gelu_forward(b->stream, gelu, b->a, b->c);
}
static aorta_status gelu_backward(struct bench *b) {
    return aorta_gelu_backward(b->stream, gelu, b->a, b->b, b->c, NULL, false);
}
static aorta_status attention_forward(struct bench *b) {
    return aorta_attention_forward(b->stream, attention, b->a, b->c, b->saved, b->scratch);
}
static aorta_status attention_backward(struct bench *b) {
    return aorta_attention_backward(b->stream, attention, b->a, b->c, b->saved, b->b, b->d, b->scratch, NULL, false);
}
static aorta_status embedding_forward(struct bench *b) {
    return aorta_embedding_forward(b->stream, embedding, b->ids, b->big[0], b->c);
}
static aorta_status embedding_backward(struct bench *b) {
    return aorta_embedding_backward(b->stream, embedding, b->ids, NULL, b->a, b->big[1], false);
}
static aorta_status square_sum(struct bench *b) {
    return aorta_square_sum(b->stream, b->big[1], PARAMETERS, b->c);
}
static aorta_status adamw(struct bench *b) {
    const struct aorta_adamw args = {PARAMETERS, 0.9f, 0.98f, 1e-8f, 0.01f, b->state, AORTA_F32};
    return aorta_adamw_step(b->stream, args, b->big[0], b->big[1], b->big[2], b->big[3], NULL);
}
static aorta_status fill(struct bench *b) {
    return aorta_fill(b->stream, b->big[1], AORTA_F32, PARAMETERS, 0.0f);
}
static aorta_status cast(struct bench *b) {
    return aorta_cast(b->stream, b->big[1], AORTA_BF16, b->big[0], AORTA_F32, PARAMETERS, 1.0f);
}

/* `bytes`: what one element reads and writes at least. `calls`: in one step. */
static const struct {
    const char *name;
    aorta_status (*run)(struct bench *bench);
    int64_t elements;
    double bytes;
    int calls;
} rows[] = {
    {"norm forward (residual, dropout)", norm_forward, ROWS *WIDTH, 16, 2 * LAYERS},
    {"norm backward (two gradients)", norm_backward, ROWS *WIDTH, 20, 2 * LAYERS},
    {"gelu forward (dropout)", gelu_forward, ROWS *MLP, 8, LAYERS},
    {"gelu backward (dropout)", gelu_backward, ROWS *MLP, 12, LAYERS},
    {"attention forward (per weight)", attention_forward, 8 * 12 * 64 * 64, 4, LAYERS},
    {"attention backward (per weight)", attention_backward, 8 * 12 * 64 * 64, 4, LAYERS},
    {"embedding forward", embedding_forward, (int64_t)ROWS *FEATURES *EMBEDDING, 4, 1},
    {"embedding backward", embedding_backward, (int64_t)ROWS *FEATURES *EMBEDDING, 8, 1},
    {"gradients to zero", fill, PARAMETERS, 4, 1},
    {"square sum", square_sum, PARAMETERS, 4, 1},
    {"adamw", adamw, PARAMETERS, 28, 1},
    {"cast fp32 to bf16 (bf16 only)", cast, PARAMETERS, 6, 0},
};

static aorta_status measure(struct bench *bench, aorta_status (*function)(struct bench *), double *median_us) {
    double samples[REPEATS];
    for (int i = -1; i < REPEATS; i++) {
        int64_t start = aorta_clock_ns();
        AORTA_TRY(function(bench));
        AORTA_TRY(aorta_stream_synchronize(bench->stream));
        if (i >= 0) samples[i] = (double)(aorta_clock_ns() - start) * 1e-3;
    }
    *median_us = aorta_summarise(samples, REPEATS).p50;
    return NULL;
}

static aorta_status run(struct bench *bench) {
    double total = 0.0;
    printf("%-34s %12s %12s %10s %8s %14s\n", "operation", "us a call", "ns/element", "GB/s", "calls", "ms in a step");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double us;
        AORTA_TRY(measure(bench, rows[i].run, &us));
        double ms = us * rows[i].calls * 1e-3;
        total += ms;
        printf("%-34s %12.1f %12.3f %10.1f %8d %14.2f\n", rows[i].name, us, us * 1e3 / (double)rows[i].elements,
               rows[i].bytes * (double)rows[i].elements / us * 1e-3, rows[i].calls, ms);
    }
    printf("%-34s %60.2f\n", "all of them", total);
    return NULL;
}

static aorta_status floats(struct bench *bench, int64_t count, float value, float **memory) {
    AORTA_TRY(aorta_device_alloc(aorta_stream_device(bench->stream), (size_t)count * sizeof(float), "benchmark",
                                 (void **)memory));
    return aorta_fill(bench->stream, *memory, AORTA_F32, count, value);
}

static aorta_status bench_create(struct bench *bench) {
    const int64_t activations = (int64_t)ROWS * 3 * WIDTH;
    float **const small[] = {&bench->a, &bench->b, &bench->c, &bench->d};
    for (int i = 0; i < 4; i++) AORTA_TRY(floats(bench, activations, 0.01f * (float)(i + 1), small[i]));
    for (int i = 0; i < 4; i++) AORTA_TRY(floats(bench, PARAMETERS, 0.001f, &bench->big[i]));
    AORTA_TRY(floats(bench, (int64_t)aorta_attention_saved_bytes(aorta_stream_device(bench->stream), attention) / 4,
                     0.0f, (float **)&bench->saved));
    AORTA_TRY(floats(bench, (int64_t)aorta_attention_scratch_bytes(aorta_stream_device(bench->stream), attention) / 4,
                     0.0f, (float **)&bench->scratch));
    AORTA_TRY(floats(bench, (int64_t)ROWS * FEATURES * 2, 0.0f, (float **)&bench->ids));
    AORTA_TRY(floats(bench, sizeof *bench->state / sizeof(float), 0.0f, (float **)&bench->state));
    AORTA_TRY(aorta_stream_synchronize(bench->stream));
    for (int64_t i = 0; i < (int64_t)ROWS * FEATURES; i++) bench->ids[i] = (i * 7919) % VOCAB;
    *bench->state = (struct aorta_step_state){
        .lr = 1e-4f, .finite = 1, .grad_factor = 1.0f, .bias_correction1 = 0.1f, .bias_correction2 = 0.02f};
    return NULL;
}

static void bench_destroy(struct bench *bench) {
    struct aorta_device *device = aorta_stream_device(bench->stream);
    void *const all[] = {bench->a,      bench->b,      bench->c,     bench->d,       bench->big[0], bench->big[1],
                         bench->big[2], bench->big[3], bench->saved, bench->scratch, bench->ids,    bench->state};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) aorta_device_free(device, all[i]);
}

int main(void) {
    struct aorta_device *device = NULL;
    struct bench bench = {0};
    aorta_status status = aorta_device_open(AORTA_DEVICE_CPU, 0, &device);
    if (!status) status = aorta_stream_create(device, "compute", AORTA_PRIORITY_NORMAL, &bench.stream);
    if (!status) status = bench_create(&bench);
    if (!status) status = run(&bench);
    if (bench.stream) {
        bench_destroy(&bench);
        aorta_stream_destroy(bench.stream);
    }
    if (device) aorta_device_close(device);
    if (!status) return 0;
    fprintf(stderr, "bench_ops_pointwise: %s\n", aorta_status_message(status));
    aorta_status_free(status);
    return 1;
}
