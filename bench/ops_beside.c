/* The matrix products of a layer's backward pass of config/large.yaml, in bf16, while other kernels hold 24 and 48
 * multiprocessors, as one and two collectives of NCCL do on two H200.
 *
 *   bench_ops_beside [threads registers shared_bytes cluster]
 *
 * The four numbers are what a block of the holding kernel needs; without them, what one of NCCL 2.28 does. For each
 * product and number, in us: chosen alone and run alone; chosen alone and run beside; chosen beside and run beside; the
 * ratio of these two; chosen beside and run alone, which is what the choice costs where nobody holds anything. Each is
 * the least of five runs. Ahead of them a sum of two matrices, which is bound by memory and has no choice: it shows
 * whether what holds the multiprocessors holds up others, too. At the end: how the library makes each product. */
#include "device/device.h"
#include "ops/gpu/holder.h"
#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 64 * 176, WIDTH = 1024, MLP = 4608, RUNS = 5, CALLS = 10 };

struct bench {
    struct aorta_device *device;
    struct aorta_stream *stream;
    struct aorta_event *start, *end;
    struct aorta_footprint footprint;
    void *x, *dy, *weight; /* bf16 */
    float *dweight;
};

/* ---- products ---- */

static aorta_status dweight(struct bench *b, struct aorta_linear shape) {
    return aorta_linear_backward_weight(b->stream, shape, b->x, b->dy, b->dweight, NULL, false);
}
static aorta_status dx(struct bench *b, struct aorta_linear shape) {
    return aorta_linear_backward_input(b->stream, shape, b->dy, b->weight, b->x, false);
}
static aorta_status dx_added(struct bench *b, struct aorta_linear shape) {
    return aorta_linear_backward_input(b->stream, shape, b->dy, b->weight, b->x, true);
}

static aorta_status sum(struct bench *b, struct aorta_linear shape) {
    return aorta_add(b->stream, b->x, b->dy, shape.dtype, shape.rows * shape.in, 1);
}

static const struct product {
    const char *name;
    aorta_status (*run)(struct bench *b, struct aorta_linear shape);
    struct aorta_linear shape;
} products[] = {
    {"sum", sum, {AORTA_BF16, ROWS, MLP, 1}},
    {"linear2, dweight", dweight, {AORTA_BF16, ROWS, MLP, WIDTH}},
    {"linear2, dx", dx, {AORTA_BF16, ROWS, MLP, WIDTH}},
    {"linear1, dweight", dweight, {AORTA_BF16, ROWS, WIDTH, MLP}},
    {"linear1, dx, added", dx_added, {AORTA_BF16, ROWS, WIDTH, MLP}},
    {"out_proj, dweight", dweight, {AORTA_BF16, ROWS, WIDTH, WIDTH}},
    {"out_proj, dx", dx, {AORTA_BF16, ROWS, WIDTH, WIDTH}},
    {"in_proj, dweight", dweight, {AORTA_BF16, ROWS, WIDTH, 3 * WIDTH}},
    {"in_proj, dx, added", dx_added, {AORTA_BF16, ROWS, WIDTH, 3 * WIDTH}},
};

/* ---- measuring ---- */

static aorta_status queue_calls(struct bench *b, const struct product *product, const struct aorta_beside *chosen) {
    AORTA_TRY(aorta_ops_beside(b->stream, chosen, CALLS));
    AORTA_TRY(aorta_event_record(b->start, b->stream));
    for (int i = 0; i < CALLS; i++) AORTA_TRY(product->run(b, product->shape));
    AORTA_TRY(aorta_event_record(b->end, b->stream));
    return aorta_stream_synchronize(b->stream);
}

/* Of one product, chosen beside one number of kernels and run beside another. */
static aorta_status time_product(struct bench *b, const struct product *product, const struct aorta_beside *chosen,
                                 const struct aorta_beside *held, double *us) {
    struct aorta_holder *holder;
    const int64_t limit_ns = 1000000000;
    AORTA_TRY(queue_calls(b, product, chosen)); /* the choice is made, kernels are loaded */
    AORTA_TRY(aorta_holder_create(b->device, held, &holder));
    aorta_status status = NULL;
    *us = 1e12;
    for (int i = 0; i < RUNS && !status; i++) {
        int64_t start, end;
        status = aorta_holder_begin(holder, limit_ns);
        if (status) break;
        status = queue_calls(b, product, chosen);
        status = aorta_status_join(status, aorta_holder_end(holder));
        if (!status) status = aorta_event_time(b->start, &start);
        if (!status) status = aorta_event_time(b->end, &end);
        if (!status && (double)(end - start) * 1e-3 / CALLS < *us) *us = (double)(end - start) * 1e-3 / CALLS;
    }
    aorta_holder_destroy(holder);
    return status;
}

static aorta_status report(struct bench *b, const struct product *product, uint32_t held) {
    const struct aorta_beside nobody = {0};
    struct aorta_beside others = {.count = held > 0, .kernels = {b->footprint}};
    others.kernels[0].blocks = held;
    double alone, beside, chosen, needless;
    AORTA_TRY(time_product(b, product, &nobody, &nobody, &alone));
    AORTA_TRY(time_product(b, product, &nobody, &others, &beside));
    AORTA_TRY(time_product(b, product, &others, &others, &chosen));
    AORTA_TRY(time_product(b, product, &others, &nobody, &needless));
    printf("%-20s %6u %10.1f %12.1f %12.1f %8.2f %12.1f\n", product->name, held, alone, beside, chosen, beside / chosen,
           needless);
    fflush(stdout);
    return NULL;
}

static void print_line(void *user, const char *line) {
    (void)user;
    puts(line);
}

static aorta_status report_all(struct bench *b) {
    static const uint32_t held[] = {24, 48}; /* by one of NCCL's kernels, and by two */
    const struct aorta_footprint *f = &b->footprint;
    printf("%s; held by blocks of %u threads of %u registers and %u bytes in clusters of %u\n",
           aorta_device_get_info(b->device)->name, f->threads, f->registers, f->shared_bytes, f->cluster);
    printf("%-20s %6s %10s %12s %12s %8s %12s\n", "chosen, run:", "held", "alone", "alone,beside", "both beside",
           "ratio", "beside,alone");
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        for (size_t j = 0; j < sizeof held / sizeof *held; j++) AORTA_TRY(report(b, &products[i], held[j]));
    return aorta_ops_tell_products(b->device, print_line, NULL);
}

/* ---- memory ---- */

/* Random bits give the clocks that real data give: arithmetic on zeros takes less power. Values in [-1, 1). */
static aorta_status take_random(struct bench *b, int64_t count, void **memory) {
    enum { BLOCK = 1 << 20 };
    AORTA_TRY(aorta_device_alloc(b->device, (size_t)count * 2, "benchmark", memory));
    uint16_t *host = malloc(BLOCK * sizeof *host);
    if (!host) return AORTA_ERROR(AORTA_MEMORY, "no memory for random numbers");
    uint64_t random = 88172645463325252u;
    aorta_status status = NULL;
    for (int i = 0; i < BLOCK; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17; /* Marsaglia's xorshift64 */
        const uint16_t exponent = (uint16_t)(120 + (random >> 61));            /* 2^-7 to 1 */
        host[i] =
            (uint16_t)((random & 0x8000) | (unsigned)(exponent < 126 ? exponent : 126) << 7 | (random >> 20 & 0x7F));
    }
    for (int64_t i = 0; i < count && !status; i += BLOCK)
        status = aorta_copy(b->stream, (uint16_t *)*memory + i, host,
                            (size_t)(count - i < BLOCK ? count - i : BLOCK) * sizeof *host);
    status = aorta_status_join(status, aorta_stream_synchronize(b->stream));
    free(host);
    return status;
}

static aorta_status run(struct bench *b) {
    void *memory;
    AORTA_TRY(aorta_event_create(b->device, &b->start));
    AORTA_TRY(aorta_event_create(b->device, &b->end));
    AORTA_TRY(take_random(b, (int64_t)ROWS * MLP, &b->x));
    AORTA_TRY(take_random(b, (int64_t)ROWS * MLP, &b->dy));
    AORTA_TRY(take_random(b, (int64_t)WIDTH * MLP, &b->weight));
    AORTA_TRY(aorta_device_alloc(b->device, (size_t)WIDTH * MLP * sizeof(float), "benchmark", &memory));
    b->dweight = memory;
    return report_all(b);
}

static void close_all(struct bench *b) {
    if (b->stream) aorta_status_free(aorta_stream_synchronize(b->stream)); /* told before, if it failed */
    void *const memory[] = {b->x, b->dy, b->weight, b->dweight};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) aorta_device_free(b->device, memory[i]);
    if (b->start) aorta_event_destroy(b->start);
    if (b->end) aorta_event_destroy(b->end);
    if (b->stream) aorta_stream_destroy(b->stream);
    aorta_device_close(b->device);
}

int main(int argc, char **argv) {
    struct bench bench = {.footprint = {.threads = 544, .registers = 96, .shared_bytes = 103808, .cluster = 4}};
    uint32_t *const numbers[] = {&bench.footprint.threads, &bench.footprint.registers, &bench.footprint.shared_bytes,
                                 &bench.footprint.cluster};
    for (int i = 1; i < argc && i <= 4; i++) *numbers[i - 1] = (uint32_t)strtoul(argv[i], NULL, 10);
    aorta_status status = aorta_device_open(AORTA_DEVICE_CUDA, 0, &bench.device);
    if (!status) status = aorta_stream_create(bench.device, "compute", AORTA_PRIORITY_NORMAL, &bench.stream);
    if (!status) status = run(&bench);
    if (bench.device) close_all(&bench);
    if (!status) return 0;
    fprintf(stderr, "bench_ops_beside: %s\n", aorta_status_message(status));
    aorta_status_free(status);
    return 1;
}
