/* Chains of kernels that end before the host can launch the next: only the cost of launches remains. Each link is a
 * launch of its own. */
#include "hwq/graph.h"
#include "hwq/kernels/kernels.h"
#include "hwq/run.h"

#include <math.h>
#include <string.h>

enum { LINKS = 4, MOST_CHAINS = 10000 };

struct options {
    int64_t chains, elements;
};

struct state {
    struct hwq_tensor values[AORTA_HWQ_MAX_STREAMS];
};

static const struct {
    enum aorta_hwq_link link;
    float a, b;
} links[LINKS] = {{AORTA_HWQ_MULTIPLY, 1.01f, 0.0f},
                  {AORTA_HWQ_ADD, -0.25f, 0.0f},
                  {AORTA_HWQ_ABS, 0.0f, 0.0f},
                  {AORTA_HWQ_CLAMP, 0.0625f, 2.0f}};

/* One operation for each element and link. */
static double flops(const struct hwq_operation *o) {
    return (double)o->in[0].columns;
}

/* Has no `element`: the workload verifies chains itself, as their errors add up. */
static const struct hwq_kind chain_kind = {.name = "aorta_hwq_chain", .span = AORTA_SPAN_KERNEL, .flops = flops};

static struct hwq_operation *add_link(struct hwq_graph *g, int s, struct hwq_tensor values, int l) {
    const struct aorta_hwq_chain args = {.x = hwq_floats(values),
                                         .count = values.columns,
                                         .link = (int32_t)links[l].link,
                                         .a = links[l].a,
                                         .b = links[l].b};
    const struct hwq_operation o = {.kind = &chain_kind, .stream = s, .in = {values}, .out = {values}};
    return hwq_append_kernel(g, &o, &aorta_hwq_kernel_chain, &args, sizeof args);
}

/* Chain by chain, streams in turn, link by link. A stream's four launches are the same in every chain. */
static void build(struct hwq_graph *g) {
    const struct options *o = g->options;
    struct hwq_operation *operations[AORTA_HWQ_MAX_STREAMS][LINKS];
    struct state *state = g->state = hwq_state(g, sizeof *state);
    if (!state) return;
    for (int s = 0; s < g->hwq->stream_count; s++)
        state->values[s] = hwq_constant(g, AORTA_F32, o->elements, NULL, "values");
    for (int64_t c = 0; c < o->chains && !g->status; c++)
        for (int s = 0; s < g->hwq->stream_count; s++)
            for (int l = 0; l < LINKS; l++)
                if (c == 0)
                    operations[s][l] = add_link(g, s, state->values[s], l);
                else
                    hwq_again(g, operations[s][l]);
}

static aorta_status start(struct hwq_graph *g) {
    const struct state *state = g->state;
    const struct options *o = g->options;
    for (int s = 0; s < g->hwq->stream_count; s++)
        AORTA_TRY(aorta_hwq_fill(g->hwq, s, (uint64_t)s, AORTA_F32, o->elements, 1.0f, hwq_floats(state->values[s])));
    return NULL;
}

static double chain(double x, int64_t chains) {
    for (int64_t i = 0; i < chains; i++) {
        x = fabs(x * (double)links[0].a + (double)links[1].a);
        x = fmin(fmax(x, (double)links[3].a), (double)links[3].b);
    }
    return x;
}

/* Called after the iteration. The device's rounding errors of all links add up: 1e-7 each, and each chain increases an
 * error by 1%. */
static aorta_status verify(struct hwq_graph *g, struct aorta_hwq_check *check) {
    struct aorta_hwq *hwq = g->hwq;
    const struct state *state = g->state;
    const struct options *o = hwq->options;
    const double tolerance = 2e-7 * (double)o->chains * pow(1.01, (double)o->chains);
    const size_t bytes = (size_t)o->elements * sizeof(float);
    float *got = aorta_arena_alloc(hwq->arena, bytes), *first = aorta_arena_alloc(hwq->arena, bytes);
    AORTA_TRY(hwq_graph_check_order(g));
    if (!got || !first) return AORTA_ERROR(AORTA_MEMORY, "no host memory to verify");
    for (int s = 0; s < hwq->stream_count; s++) {
        AORTA_TRY(aorta_hwq_transfer(hwq, got, hwq_floats(state->values[s]), bytes));
        AORTA_TRY(aorta_hwq_values(hwq, (uint64_t)s, 0, o->elements, 1.0f, first));
        for (int64_t i = 0; i < o->elements; i++)
            aorta_hwq_compare(check, (double)got[i], chain((double)first[i], o->chains), fmin(tolerance, 0.01),
                              "element %lld of stream %d", (long long)i, s);
    }
    return NULL;
}

static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, chains, "100", NULL, 1, MOST_CHAINS, "chains of four kernels on each stream"),
    AORTA_HWQ_ROW(struct options, elements, "256", NULL, 1, HWQ_LARGEST, "elements that a kernel works on"),
};

/* The advice of some limits names --graph, too. */
static const char *try_of(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result) {
    const char *advice = aorta_hwq_finding_rows[result->limit.by].advice;
    if (run->graph || (advice && strstr(advice, "--graph"))) return NULL;
    return "--graph excludes the host and leaves the device's time for a kernel";
}

const struct aorta_hwq_workload aorta_hwq_tiny_kernel_stress = {
    .name = "tiny_kernel_stress",
    .summary = "thousands of kernels that end before the host can launch the next: only the launch rate matters",
    .group = AORTA_HWQ_P0,
    .category = "latency_sensitive",
    .sensitivity = "critical",
    .streams = {.min = 1, .max = 64, .recommended = 16},
    .unit = "GFLOPS",
    .independent = true,
    AORTA_HWQ_OPTIONS(rows, struct options),
    .try_of = try_of,
    .start = start,
    .verify = verify,
    .build = build,
};
