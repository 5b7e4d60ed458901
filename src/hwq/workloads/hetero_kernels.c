/* Large products on half the streams, tiny kernels on the others: how long a tiny kernel waits in a convoy of large
 * ones. Its latency is the time from one tiny kernel's end to the end of the next on the same stream, by their stamps,
 * alone and beside the products. */
#include "hwq/gaps.h"
#include "hwq/iterations.h"
#include "hwq/kernels/kernels.h"
#include "hwq/run.h"
#include "hwq/verify.h"

#include <math.h>

enum interleave { ALTERNATING, BATCHED, RANDOM };
enum {
    CONVOY_ITERATIONS = 10,
    FEWEST_FOR_P99 = 1000, /* ten samples lie beyond it */
    JITTER_NS = 500        /* a core that changes its clock rate doubles a kernel of 0.2 us */
};

struct options {
    int64_t size, elements, ratio;
    int interleave;
};

struct state {
    int products; /* streams 0 … products − 1 multiply, the others run tiny kernels */
    struct aorta_hwq_layer layers[AORTA_HWQ_MAX_STREAMS];
    float *x[AORTA_HWQ_MAX_STREAMS], *y[AORTA_HWQ_MAX_STREAMS];
    float *in[AORTA_HWQ_MAX_STREAMS], *out[AORTA_HWQ_MAX_STREAMS];
    struct aorta_hwq_prepared *launches[AORTA_HWQ_MAX_STREAMS];
    int *order; /* streams in the order of launching */
    size_t order_count;
    bool alone; /* without the products */
    struct aorta_hwq_results results;
};

static const float factor = 1.5f, addend = 0.25f;

/* ---- the order ---- */

/* A product of each stream comes with `ratio` tiny kernels on its partner. Batched: all products first. Random: any
 * order, the same for the same seed. */
static void make_order(const struct aorta_hwq *hwq, struct state *state) {
    const struct options *o = hwq->options;
    const int tiny = hwq->stream_count - state->products;
    size_t count = 0;
    if (o->interleave == BATCHED)
        for (int p = 0; p < state->products; p++) state->order[count++] = p;
    for (int64_t r = 0; r < o->ratio; r++)
        for (int t = 0; t < tiny; t++) {
            if (o->interleave != BATCHED && r == 0 && t < state->products) state->order[count++] = t;
            state->order[count++] = state->products + t;
        }
    state->order_count = count;
    uint64_t random = hwq->seed * 2 + 1;
    for (size_t i = count; o->interleave == RANDOM && i > 1; i--) {
        random = random * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX */
        const size_t other = (size_t)((random >> 33) % i);
        const int swapped = state->order[i - 1];
        state->order[i - 1] = state->order[other];
        state->order[other] = swapped;
    }
}

/* ---- setup ---- */

static aorta_status setup_product(struct aorta_hwq *hwq, struct state *state, int s) {
    const int64_t n = ((const struct options *)hwq->options)->size;
    state->layers[s] = (struct aorta_hwq_layer){.in = n, .out = n};
    AORTA_TRY(aorta_hwq_input(hwq, 2 * (uint64_t)s, n * n, 1.0f, "first matrix", &state->x[s]));
    AORTA_TRY(aorta_hwq_input(hwq, 2 * (uint64_t)s + 1, n * n, 1.0f, "second matrix", &state->layers[s].weight));
    return aorta_hwq_output(hwq, &state->results, n * n, "product", &state->y[s]);
}

static aorta_status setup_tiny(struct aorta_hwq *hwq, struct state *state, int s) {
    const int64_t count = ((const struct options *)hwq->options)->elements;
    AORTA_TRY(aorta_hwq_input(hwq, 1000 + (uint64_t)s, count, 1.0f, "input of a tiny kernel", &state->in[s]));
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, count, "output of a tiny kernel", &state->out[s]));
    const struct aorta_hwq_multiply_add args = {
        .x = state->in[s], .y = state->out[s], .count = count, .factor = factor, .addend = addend};
    return aorta_hwq_prepare(hwq, s, &aorta_hwq_kernel_multiply_add, &args, sizeof args, &state->launches[s]);
}

static aorta_status setup(struct aorta_hwq *hwq, void **made) {
    const struct options *o = hwq->options;
    AORTA_TRY(aorta_hwq_state(hwq, sizeof(struct state), made));
    struct state *state = *made;
    state->products = hwq->stream_count / 2;
    const size_t most = (size_t)hwq->stream_count * (size_t)(o->ratio + 1);
    AORTA_TRY(aorta_hwq_state(hwq, most * sizeof *state->order, (void **)&state->order));
    make_order(hwq, state);
    for (int s = 0; s < hwq->stream_count; s++)
        AORTA_TRY(s < state->products ? setup_product(hwq, state, s) : setup_tiny(hwq, state, s));
    return NULL;
}

static const char *role(const struct aorta_hwq *hwq, int stream) {
    return stream < hwq->stream_count / 2 ? "products" : "tiny kernels";
}

static aorta_status iterate(struct aorta_hwq *hwq, void *opaque) {
    const struct state *state = opaque;
    const int64_t n = ((const struct options *)hwq->options)->size;
    for (size_t i = 0; i < state->order_count; i++) {
        const int s = state->order[i];
        if (s >= state->products)
            AORTA_TRY(aorta_hwq_launch_prepared(hwq, &state->launches[s], 1));
        else if (!state->alone)
            AORTA_TRY(aorta_hwq_linear(hwq, s, &state->layers[s], n, state->x[s], state->y[s]));
    }
    return NULL;
}

static aorta_status work(struct aorta_hwq *hwq, void *opaque, int64_t iterations, double *amount) {
    const struct state *state = opaque;
    const struct options *o = hwq->options;
    const double n = (double)o->size, tiny = (double)(hwq->stream_count - state->products);
    const double operations = state->products * 2.0 * n * n * n + tiny * (double)(o->ratio * o->elements) * 2.0;
    *amount = (double)iterations * operations * 1e-9;
    return NULL;
}

/* ---- convoys ---- */

struct convoy {
    const struct state *state;
    struct aorta_hwq_samples waits; /* ns */
};

/* Spans of a stream are in its order. */
static aorta_status add_spans(void *user, const struct aorta_hwq_spans *spans) {
    struct convoy *convoy = user;
    int64_t before[AORTA_HWQ_MAX_STREAMS] = {0};
    for (size_t i = 0; i < spans->count; i++) {
        const struct aorta_span *span = &spans->items[i];
        if (span->stream < convoy->state->products) continue;
        if (before[span->stream])
            AORTA_TRY(aorta_hwq_samples_add(&convoy->waits, (double)(span->end_ns - before[span->stream])));
        before[span->stream] = span->end_ns;
    }
    return NULL;
}

static aorta_status measure(struct aorta_hwq *hwq, struct state *state, bool alone, struct aorta_summary *found) {
    struct convoy convoy = {.state = state};
    const struct aorta_hwq_plan plan = {
        .gate = true, .independent = true, .iterations = CONVOY_ITERATIONS, .iterate = iterate, .state = state};
    state->alone = alone;
    aorta_status status = aorta_hwq_stamp_iterations(hwq, &plan, add_spans, &convoy);
    state->alone = false;
    *found = aorta_summarise(convoy.waits.items, convoy.waits.count);
    aorta_hwq_samples_free(&convoy.waits);
    return status;
}

/* Alone before and after the products: the slower one, as clock rates change between measurements. */
static aorta_status measure_alone(struct aorta_hwq *hwq, struct state *state, struct aorta_summary *alone) {
    struct aorta_summary again;
    AORTA_TRY(measure(hwq, state, true, &again));
    if (again.p50 > alone->p50) *alone = again;
    return NULL;
}

static bool is_longer(double beside_ns, double alone_ns) {
    return beside_ns >= 1.2 * alone_ns && beside_ns - alone_ns >= JITTER_NS;
}

static aorta_status say_convoy(const struct aorta_summary *alone, const struct aorta_summary *beside,
                               struct aorta_hwq_result *result) {
    const double usual = beside->p50 / alone->p50, tail = beside->p99 / alone->p99;
    const bool enough = beside->count >= FEWEST_FOR_P99 && alone->count >= FEWEST_FOR_P99;
    if (!isfinite(usual) || !isfinite(tail)) return NULL;
    if (!is_longer(beside->p50, alone->p50) && !(enough && is_longer(beside->p99, alone->p99)))
        return aorta_hwq_result_finding(result,
                                        "no convoy: tiny kernels take as long beside products as alone "
                                        "(%.3g us, alone %.3g us)",
                                        beside->p50 * 1e-3, alone->p50 * 1e-3);
    if (!enough)
        return aorta_hwq_result_finding(
            result,
            "convoy: beside products one tiny kernel in two takes %.3g us or more instead of "
            "%.3g us (%.3g times)",
            beside->p50 * 1e-3, alone->p50 * 1e-3, usual);
    return aorta_hwq_result_finding(
        result,
        "convoy: beside products one tiny kernel in two takes %.3g us or more instead of %.3g "
        "us (%.3g times), and one in a hundred %.3g us instead of %.3g us (%.3g times)",
        beside->p50 * 1e-3, alone->p50 * 1e-3, usual, beside->p99 * 1e-3, alone->p99 * 1e-3, tail);
}

static aorta_status report(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_result *result) {
    struct aorta_summary alone, beside;
    const char *none = "fewer than two tiny kernels on a stream (--ratio)";
    AORTA_TRY(aorta_annotate(measure(hwq, opaque, true, &alone), "tiny kernels alone"));
    AORTA_TRY(aorta_annotate(measure(hwq, opaque, false, &beside), "tiny kernels beside products"));
    AORTA_TRY(aorta_annotate(measure_alone(hwq, opaque, &alone), "tiny kernels alone"));
    result->figure_group = "tiny kernels, from the end of one to the end of the next on its stream";
    AORTA_TRY(aorta_hwq_result_figure(result, "tiny_alone_p50", "us", alone.p50 * 1e-3, none));
    AORTA_TRY(aorta_hwq_result_figure(result, "tiny_alone_p99", "us", alone.p99 * 1e-3, none));
    AORTA_TRY(aorta_hwq_result_figure(result, "tiny_beside_gemm_p50", "us", beside.p50 * 1e-3, none));
    AORTA_TRY(aorta_hwq_result_figure(result, "tiny_beside_gemm_p99", "us", beside.p99 * 1e-3, none));
    AORTA_TRY(aorta_hwq_result_figure(result, "tiny_samples", "samples", (double)beside.count, NULL));
    AORTA_TRY(aorta_hwq_result_figure(result, "convoy_factor", "x", beside.p99 / alone.p99, none));
    return say_convoy(&alone, &beside, result);
}

/* ---- verification ---- */

static aorta_status verify_tiny(struct aorta_hwq_verifier *verifier, const struct state *state, int s) {
    const int64_t count = ((const struct options *)verifier->hwq->options)->elements;
    const float *in, *out;
    AORTA_TRY(aorta_hwq_fetch(verifier, state->in[s], count, &in));
    AORTA_TRY(aorta_hwq_fetch(verifier, state->out[s], count, &out));
    for (int64_t i = 0; i < count; i++)
        aorta_hwq_compare(verifier->check, (double)out[i], (double)in[i] * (double)factor + (double)addend, 1e-6, 1e-6,
                          "element %lld of stream %d", (long long)i, s);
    return NULL;
}

static aorta_status compare(struct aorta_hwq_verifier *verifier, void *opaque) {
    const struct state *state = opaque;
    const int64_t n = ((const struct options *)verifier->hwq->options)->size;
    for (int s = 0; s < verifier->hwq->stream_count; s++)
        AORTA_TRY(s >= state->products ? verify_tiny(verifier, state, s)
                                       : aorta_hwq_verify_linear(verifier, "product", &state->layers[s], n, state->x[s],
                                                                 state->y[s], AORTA_HWQ_PLAIN, AORTA_HWQ_FP32));
    return NULL;
}

static aorta_status verify(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_check *check) {
    return aorta_hwq_verify_iteration(hwq, check, &((struct state *)opaque)->results, opaque, iterate, compare);
}

static const struct aorta_range_limits ratios = {.min = 1, .max = 1000};
static const struct aorta_choice patterns[] = {
    {"alternating", ALTERNATING}, {"batched", BATCHED}, {"random", RANDOM}, {0}};
static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, size, "4096", aorta_hwq_sizes, "rows and columns of the products' matrices"),
    AORTA_HWQ_ROW(struct options, elements, "1024", aorta_hwq_sizes, "elements of a tiny kernel"),
    AORTA_HWQ_ROW(struct options, ratio, "10", ratios, "tiny kernels for each product"),
    {"interleave", AORTA_OPTION_CHOICE, offsetof(struct options, interleave), "alternating", .choices = patterns,
     .help = "the order of launching: in turn, all products first, or at random"},
};

static const char *try_of(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result) {
    const struct options *o = run->options;
    (void)result;
    if (o->interleave == BATCHED) return "aorta hwq map shows which streams share a queue";
    return "--interleave batched shows the worst order; aorta hwq map shows which streams share a queue";
}

static const struct aorta_hwq_size on_cpu[] = {{"size", "512"}, {0}};

const struct aorta_hwq_workload aorta_hwq_hetero_kernels = {
    .name = "hetero_kernels",
    .summary = "large products delay tiny kernels on other streams: the convoy effect",
    .group = AORTA_HWQ_P0,
    .category = AORTA_HWQ_LATENCY_SENSITIVE,
    .sensitivity = AORTA_HWQ_CRITICAL,
    .min_streams = 2,
    .max_streams = 64,
    .recommended_streams = 8,
    .unit = "GFLOPS",
    .independent = true,
    .options = rows,
    .option_count = sizeof rows / sizeof *rows,
    .option_bytes = sizeof(struct options),
    .on_cpu = on_cpu,
    .try_of = try_of,
    .role = role,
    .setup = setup,
    .iterate = iterate,
    .work = work,
    .verify = verify,
    .report = report,
};
