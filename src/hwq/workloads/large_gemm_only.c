/* One large product on each stream: the peak rate of the device, and the cost of several products at once. */
#include "hwq/verify.h"

struct options {
    int64_t size;
};

struct state {
    struct aorta_hwq_layer layers[AORTA_HWQ_MAX_STREAMS]; /* the weight is the second matrix, transposed */
    float *x[AORTA_HWQ_MAX_STREAMS], *y[AORTA_HWQ_MAX_STREAMS];
    struct aorta_hwq_results results;
};

static aorta_status setup(struct aorta_hwq *hwq, void **made) {
    const struct options *o = hwq->options;
    const int64_t n = o->size;
    AORTA_TRY(aorta_hwq_state(hwq, sizeof(struct state), made));
    struct state *state = *made;
    for (int s = 0; s < hwq->stream_count; s++) {
        state->layers[s] = (struct aorta_hwq_layer){.in = n, .out = n};
        AORTA_TRY(aorta_hwq_input(hwq, 2 * (uint64_t)s, n * n, 1.0f, "first matrix", &state->x[s]));
        AORTA_TRY(aorta_hwq_input(hwq, 2 * (uint64_t)s + 1, n * n, 1.0f, "second matrix", &state->layers[s].weight));
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, n * n, "product", &state->y[s]));
    }
    return NULL;
}

static aorta_status iterate(struct aorta_hwq *hwq, void *opaque) {
    const struct state *state = opaque;
    for (int s = 0; s < hwq->stream_count; s++)
        AORTA_TRY(aorta_hwq_linear(hwq, s, &state->layers[s], ((const struct options *)hwq->options)->size, state->x[s],
                                   state->y[s]));
    return NULL;
}

static aorta_status work(struct aorta_hwq *hwq, void *state, int64_t iterations, double *amount) {
    const double n = (double)((const struct options *)hwq->options)->size;
    (void)state;
    *amount = (double)iterations * hwq->stream_count * 2.0 * n * n * n * 1e-12;
    return NULL;
}

static aorta_status compare(struct aorta_hwq_verifier *verifier, void *opaque) {
    const struct state *state = opaque;
    for (int s = 0; s < verifier->hwq->stream_count; s++)
        AORTA_TRY(aorta_hwq_verify_linear(verifier, "product", &state->layers[s],
                                          ((const struct options *)verifier->hwq->options)->size, state->x[s],
                                          state->y[s], AORTA_HWQ_PLAIN, AORTA_HWQ_FP32));
    return NULL;
}

static aorta_status verify(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_check *check) {
    return aorta_hwq_verify_iteration(hwq, check, &((struct state *)opaque)->results, opaque, iterate, compare);
}

static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, size, "8192", aorta_hwq_sizes, "rows and columns of the matrices"),
};

static const struct aorta_hwq_size on_cpu[] = {{"size", "384"}, {0}};

const struct aorta_hwq_workload aorta_hwq_large_gemm_only = {
    .name = "large_gemm_only",
    .summary = "one large fp32 product a stream: each fills the device, so more streams should change nothing",
    .group = AORTA_HWQ_P0,
    .category = AORTA_HWQ_LATENCY_SENSITIVE,
    .sensitivity = AORTA_HWQ_LOW,
    .min_streams = 1,
    .max_streams = 16,
    .recommended_streams = 4,
    .unit = "TFLOPS",
    .independent = true,
    .options = rows,
    .option_count = sizeof rows / sizeof *rows,
    .option_bytes = sizeof(struct options),
    .on_cpu = on_cpu,
    .try_next = "--size 2048: products that do not fill the device gain from parallel streams",
    .setup = setup,
    .iterate = iterate,
    .work = work,
    .verify = verify,
};
