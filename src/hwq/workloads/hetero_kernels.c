/* Large products on half the streams, tiny kernels on the other half: how long a tiny kernel waits in a convoy of large
 * products. Its latency is the time from one tiny kernel's end to the end of the next on that stream, by their stamps,
 * alone and during the products. */
#include "hwq/iterations.h"
#include "hwq/kernels/kernels.h"
#include "hwq/limit.h"
#include "hwq/operations.h"
#include "hwq/run.h"

#include <math.h>

enum interleave { ALTERNATING, BATCHED, RANDOM };
enum {
    CONVOY_ITERATIONS = 10,
    FEWEST_FOR_P99 = 1000, /* ten samples exceed it */
    JITTER_NS = 500,       /* a core that changes its clock rate doubles a kernel of 0.2 us */
    SHORTEST_CPU_NS = 1000 /* on a CPU: shorter kernels would be no longer than the system's work in between */
};

struct options {
    int64_t size, elements, ratio;
    int interleave;
};

static const char *role(const struct aorta_hwq *hwq, int stream) {
    return stream < hwq->stream_count / 2 ? "products" : "tiny kernels";
}

/* ---- the order ---- */

/* A product of each stream comes with `ratio` tiny kernels on its partner. Batched: all products first. Random: an
 * order that the seed determines. */
static size_t make_order(const struct aorta_hwq *hwq, int products, int *order) {
    const struct options *o = hwq->options;
    const int tiny = hwq->stream_count - products;
    size_t count = 0;
    if (o->interleave == BATCHED)
        for (int p = 0; p < products; p++) order[count++] = p;
    for (int64_t r = 0; r < o->ratio; r++)
        for (int t = 0; t < tiny; t++) {
            if (o->interleave != BATCHED && r == 0 && t < products) order[count++] = t;
            order[count++] = products + t;
        }
    uint64_t random = hwq->seed * 2 + 1;
    for (size_t i = count; o->interleave == RANDOM && i > 1; i--) {
        random = random * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX */
        const size_t other = (size_t)((random >> 33) % i);
        const int swapped = order[i - 1];
        order[i - 1] = order[other];
        order[other] = swapped;
    }
    return count;
}

/* ---- the graph ---- */

static const float factor = 1.5f, addend = 0.25f;

static struct hwq_value tiny_element(const struct hwq_element *e) {
    const double y = hwq_at(e, 0, e->row, e->column).value * (double)factor + (double)addend;
    return (struct hwq_value){y, 1e-6 + 1e-6 * fabs(y)};
}

static double tiny_flops(const struct hwq_operation *o) {
    return 2.0 * (double)o->in[0].columns;
}

static const struct hwq_kind tiny = {
    .name = "aorta_hwq_multiply_add", .span = AORTA_SPAN_KERNEL, .element = tiny_element, .flops = tiny_flops};

static struct hwq_operation *add_tiny(struct hwq_graph *g, int s) {
    const int64_t count = ((const struct options *)g->options)->elements;
    const struct hwq_tensor x = hwq_input(g, 1000 + (uint64_t)s, 1, count, 1.0f, "input of a tiny kernel");
    const struct hwq_tensor y = hwq_result(g, AORTA_F32, 1, count, "output of a tiny kernel");
    const struct aorta_hwq_multiply_add args = {
        .x = hwq_floats(x), .y = hwq_floats(y), .count = count, .factor = factor, .addend = addend};
    const struct hwq_operation o = {.kind = &tiny, .stream = s, .in = {x}, .out = {y}};
    return hwq_append_kernel(g, &o, &aorta_hwq_kernel_multiply_add, &args, sizeof args);
}

static void build(struct hwq_graph *g) {
    const struct options *o = g->options;
    const int64_t n = o->size;
    const int products = g->hwq->stream_count / 2;
    struct hwq_operation *operations[AORTA_HWQ_MAX_STREAMS] = {NULL};
    int *order = hwq_state(g, (size_t)g->hwq->stream_count * (size_t)(o->ratio + 1) * sizeof *order);
    const size_t count = order ? make_order(g->hwq, products, order) : 0;
    for (size_t i = 0; i < count && !g->status; i++) {
        const int s = order[i];
        if (operations[s])
            hwq_again(g, operations[s]);
        else
            operations[s] = s < products ? hwq_product(g, s, AORTA_F32, n, n, n, NULL) : add_tiny(g, s);
    }
}

/* ---- convoys ---- */

struct convoy {
    struct aorta_arena memory;
    int products;                   /* streams of products come first */
    struct aorta_hwq_samples waits; /* ns */
};

/* Spans of a stream are in its order. */
static aorta_status add_spans(void *user, const struct aorta_hwq_spans *spans) {
    struct convoy *convoy = user;
    int64_t before[AORTA_HWQ_MAX_STREAMS] = {0};
    for (size_t i = 0; i < spans->count; i++) {
        const struct aorta_span *span = &spans->items[i];
        if (span->stream < convoy->products) continue;
        if (before[span->stream])
            aorta_hwq_samples_add(&convoy->waits, (double)(span->end_ns - before[span->stream]), &convoy->memory);
        before[span->stream] = span->end_ns;
    }
    return aorta_arena_check(&convoy->memory, "samples");
}

static aorta_status measure(struct hwq_graph *g, bool alone, struct aorta_summary *found) {
    struct convoy convoy = {.products = g->hwq->stream_count / 2};
    const struct aorta_hwq_plan plan = {.gate = true, .independent = true, .iterations = CONVOY_ITERATIONS, .g = g};
    g->without = alone ? 1u << AORTA_SPAN_GEMM : 0;
    aorta_status status = aorta_hwq_stamp_iterations(&plan, add_spans, &convoy);
    g->without = 0;
    *found = aorta_summarise(convoy.waits.items, convoy.waits.count);
    aorta_arena_free(&convoy.memory);
    return status;
}

/* Measures alone before and after the products and takes the slower result, as clock rates change in between. */
static aorta_status measure_alone(struct hwq_graph *g, struct aorta_summary *alone) {
    struct aorta_summary again;
    AORTA_TRY(measure(g, true, &again));
    if (again.p50 > alone->p50) *alone = again;
    return NULL;
}

static enum aorta_hwq_finding find_convoy(double alone_ns, double during_ns, bool tail, bool too_short) {
    if (during_ns < 1.2 * alone_ns || during_ns - alone_ns < JITTER_NS)
        return tail ? AORTA_HWQ_NO_CONVOY_TAIL : AORTA_HWQ_NO_CONVOY;
    if (too_short) return tail ? AORTA_HWQ_CONVOY_UNCLEAR_TAIL : AORTA_HWQ_CONVOY_UNCLEAR;
    return tail ? AORTA_HWQ_CONVOY_TAIL : AORTA_HWQ_CONVOY;
}

static aorta_status report(struct hwq_graph *g, struct aorta_hwq_result *result) {
    struct aorta_summary alone, during;
    const char *none = "fewer than two tiny kernels on a stream (--ratio)";
    AORTA_TRY(aorta_annotate(measure(g, true, &alone), "tiny kernels alone"));
    AORTA_TRY(aorta_annotate(measure(g, false, &during), "tiny kernels during products"));
    AORTA_TRY(aorta_annotate(measure_alone(g, &alone), "tiny kernels alone"));
    result->figure_group = "Tiny kernels, from one end to the next on their stream";
    aorta_hwq_result_figure(result, "tiny_alone_p50", "us", alone.p50 * 1e-3, none);
    aorta_hwq_result_figure(result, "tiny_alone_p99", "us", alone.p99 * 1e-3, none);
    aorta_hwq_result_figure(result, "tiny_during_gemm_p50", "us", during.p50 * 1e-3, none);
    aorta_hwq_result_figure(result, "tiny_during_gemm_p99", "us", during.p99 * 1e-3, none);
    aorta_hwq_result_figure(result, "tiny_samples", "samples", (double)during.count, NULL);
    const bool tail = during.count >= FEWEST_FOR_P99 && alone.count >= FEWEST_FOR_P99; /* else medians are compared */
    const double alone_ns = tail ? alone.p99 : alone.p50, during_ns = tail ? during.p99 : during.p50;
    aorta_hwq_result_figure(result, "convoy_factor", "x", during_ns / alone_ns, none);
    const bool cpu = aorta_device_get_info(g->hwq->device)->kind == AORTA_DEVICE_CPU;
    const bool too_short = cpu && alone.p50 < SHORTEST_CPU_NS;
    aorta_hwq_result_finding(result, find_convoy(alone_ns, during_ns, tail, too_short));
    return NULL;
}

static const struct aorta_choice patterns[] = {
    {"alternating", ALTERNATING}, {"batched", BATCHED}, {"random", RANDOM}, {0}};
static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, size, "4096", "512", 1, HWQ_LARGEST, "rows and columns of the products' matrices"),
    AORTA_HWQ_ROW(struct options, elements, "1024", NULL, 1, HWQ_LARGEST, "elements of a tiny kernel"),
    AORTA_HWQ_ROW(struct options, ratio, "10", NULL, 1, 1000, "tiny kernels for each product"),
    {"interleave", AORTA_OPTION_CHOICE, offsetof(struct options, interleave), "alternating", .choices = patterns,
     .help = "the order of launching: in turn, all products first, or at random"},
};

static const char *try_of(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result) {
    const struct options *o = run->options;
    (void)result;
    if (o->interleave == BATCHED) return "aorta hwq map shows which streams share a queue";
    return "--interleave batched shows the worst order; aorta hwq map shows which streams share a queue";
}

const struct aorta_hwq_workload aorta_hwq_hetero_kernels = {
    .name = "hetero_kernels",
    .summary = "large products and tiny kernels on other streams: do the tiny ones wait (convoy effect)?",
    .group = AORTA_HWQ_P0,
    .category = "latency_sensitive",
    .sensitivity = "critical",
    .streams = {.min = 2, .max = 64, .recommended = 8},
    .unit = "GFLOPS",
    .independent = true,
    AORTA_HWQ_OPTIONS(rows, struct options),
    .try_of = try_of,
    .role = role,
    .report = report,
    .build = build,
};
