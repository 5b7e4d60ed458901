/* Chains of kernels that end before the host can launch the next: only the cost of launches remains. Each link is a
 * launch of its own. */
#include "hwq/kernels/kernels.h"
#include "hwq/run.h"
#include "hwq/verify.h"

#include <math.h>

enum { LINKS = 4, MOST_CHAINS = 10000 };

struct options {
    int64_t chains, elements;
};

struct state {
    float *values[AORTA_HWQ_MAX_STREAMS];
    struct aorta_hwq_prepared **launches; /* in the order of launching: chain by chain, streams in turn, link by link */
    size_t launch_count;
};

static const struct {
    enum aorta_hwq_link link;
    float a, b;
} links[LINKS] = {{AORTA_HWQ_MULTIPLY, 1.01f, 0.0f},
                  {AORTA_HWQ_ADD, -0.25f, 0.0f},
                  {AORTA_HWQ_ABS, 0.0f, 0.0f},
                  {AORTA_HWQ_CLAMP, 0.0625f, 2.0f}};

static aorta_status prepare_stream(struct aorta_hwq *hwq, int stream, float *values,
                                   struct aorta_hwq_prepared **launches) {
    const struct options *o = hwq->options;
    for (int l = 0; l < LINKS; l++) {
        const struct aorta_hwq_chain args = {
            .x = values, .count = o->elements, .link = (int32_t)links[l].link, .a = links[l].a, .b = links[l].b};
        AORTA_TRY(aorta_hwq_prepare(hwq, stream, &aorta_hwq_kernel_chain, &args, sizeof args, &launches[l]));
    }
    return NULL;
}

/* A stream's four launches are the same in every chain. */
static aorta_status setup(struct aorta_hwq *hwq, void **made) {
    const struct options *o = hwq->options;
    const size_t round = (size_t)hwq->stream_count * LINKS;
    AORTA_TRY(aorta_hwq_state(hwq, sizeof(struct state), made));
    struct state *state = *made;
    state->launch_count = (size_t)o->chains * round;
    AORTA_TRY(aorta_hwq_state(hwq, state->launch_count * sizeof *state->launches, (void **)&state->launches));
    for (int s = 0; s < hwq->stream_count; s++) {
        AORTA_TRY(aorta_hwq_alloc(hwq, (size_t)o->elements * sizeof(float), "values", (void **)&state->values[s]));
        AORTA_TRY(prepare_stream(hwq, s, state->values[s], &state->launches[s * LINKS]));
    }
    for (size_t i = round; i < state->launch_count; i++) state->launches[i] = state->launches[i - round];
    return NULL;
}

static aorta_status start(struct aorta_hwq *hwq, void *opaque) {
    struct state *state = opaque;
    const struct options *o = hwq->options;
    for (int s = 0; s < hwq->stream_count; s++)
        AORTA_TRY(aorta_hwq_fill(hwq, s, (uint64_t)s, AORTA_F32, o->elements, 1.0f, state->values[s]));
    return NULL;
}

static aorta_status iterate(struct aorta_hwq *hwq, void *opaque) {
    const struct state *state = opaque;
    return aorta_hwq_launch_prepared(hwq, state->launches, state->launch_count);
}

/* One operation for each element and link. */
static aorta_status work(struct aorta_hwq *hwq, void *state, int64_t iterations, double *amount) {
    const struct options *o = hwq->options;
    (void)state;
    *amount = (double)iterations * (double)o->chains * LINKS * (double)o->elements * hwq->stream_count * 1e-9;
    return NULL;
}

static double chain(double x, int64_t chains) {
    for (int64_t i = 0; i < chains; i++) {
        x = fabs(x * (double)links[0].a + (double)links[1].a);
        x = fmin(fmax(x, (double)links[3].a), (double)links[3].b);
    }
    return x;
}

/* In the arithmetic of the device the roundings of all links add up: 1e-7 each, and each chain makes an error 1%
 * larger.
 */
static aorta_status verify(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_check *check) {
    const struct state *state = opaque;
    const struct options *o = hwq->options;
    const double tolerance = 2e-7 * (double)o->chains * pow(1.01, (double)o->chains);
    float *got, *first;
    AORTA_TRY(aorta_hwq_state(hwq, (size_t)o->elements * sizeof *got, (void **)&got));
    AORTA_TRY(aorta_hwq_state(hwq, (size_t)o->elements * sizeof *first, (void **)&first));
    for (int s = 0; s < hwq->stream_count; s++) {
        AORTA_TRY(aorta_hwq_download(hwq, got, state->values[s], (size_t)o->elements * sizeof *got));
        AORTA_TRY(aorta_hwq_values(hwq, (uint64_t)s, 0, o->elements, 1.0f, first));
        for (int64_t i = 0; i < o->elements; i++)
            aorta_hwq_compare(check, (double)got[i], chain((double)first[i], o->chains), fmin(tolerance, 0.01), 0.0,
                              "element %lld of stream %d", (long long)i, s);
    }
    return NULL;
}

static const struct aorta_range_limits chain_count = {.min = 1, .max = MOST_CHAINS};
static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, chains, "100", chain_count, "chains of four kernels on each stream"),
    AORTA_HWQ_ROW(struct options, elements, "256", aorta_hwq_sizes, "elements that a kernel works on"),
};

/* The limit's own advice names --graph where launches limit. */
static const char *try_of(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result) {
    if (run->graph || result->limit.by == AORTA_HWQ_LIMIT_LAUNCHES) return NULL;
    return "--graph excludes the host: the rest is the device's time for a kernel";
}

const struct aorta_hwq_workload aorta_hwq_tiny_kernel_stress = {
    .name = "tiny_kernel_stress",
    .summary = "thousands of kernels that end before the host can launch the next: only the launch rate matters",
    .group = AORTA_HWQ_P0,
    .category = AORTA_HWQ_LATENCY_SENSITIVE,
    .sensitivity = AORTA_HWQ_CRITICAL,
    .min_streams = 1,
    .max_streams = 64,
    .recommended_streams = 16,
    .unit = "GFLOPS",
    .independent = true,
    .options = rows,
    .option_count = sizeof rows / sizeof *rows,
    .option_bytes = sizeof(struct options),
    .try_of = try_of,
    .setup = setup,
    .start = start,
    .iterate = iterate,
    .work = work,
    .verify = verify,
};
