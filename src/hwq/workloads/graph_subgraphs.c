/* Independent subgraphs of small operations that can run in parallel, and an operation that depends on all of them.
 * Subgraph g runs on stream g modulo the streams; the mean of their outputs on stream 0 after all others. */
#include "hwq/verify.h"

enum { LAYERS = 3, MOST_GRAPHS = 64 };

struct options {
    int64_t graphs, batch, in, hidden, out;
};

struct subgraph {
    struct aorta_hwq_layer layers[LAYERS];
    float *x, *y[LAYERS]; /* [batch, width]; the last is in `outputs` */
    struct aorta_event *done;
};

struct state {
    struct subgraph graphs[MOST_GRAPHS];
    float *outputs, *mean; /* [graphs, batch, out]; [batch, out] */
    struct aorta_hwq_results results;
};

static int stream_of(const struct aorta_hwq *hwq, int64_t graph) {
    return (int)(graph % hwq->stream_count);
}

static aorta_status setup_subgraph(struct aorta_hwq *hwq, struct state *state, int64_t index) {
    const struct options *o = hwq->options;
    const int64_t widths[LAYERS + 1] = {o->in, o->hidden, o->hidden, o->out};
    struct subgraph *graph = &state->graphs[index];
    const uint64_t id = 100 * (uint64_t)index;
    AORTA_TRY(aorta_hwq_input(hwq, id, o->batch * o->in, 1.0f, "input", &graph->x));
    for (int l = 0; l < LAYERS; l++) {
        AORTA_TRY(
            aorta_hwq_layer_make(hwq, id + 10 * (uint64_t)(l + 1), widths[l], widths[l + 1], false, &graph->layers[l]));
        if (l < LAYERS - 1)
            AORTA_TRY(aorta_hwq_output(hwq, &state->results, o->batch * o->hidden, "activations", &graph->y[l]));
        else
            graph->y[l] = state->outputs + index * o->batch * o->out;
    }
    return aorta_hwq_event(hwq, &graph->done);
}

static aorta_status setup(struct aorta_hwq *hwq, void **made) {
    const struct options *o = hwq->options;
    AORTA_TRY(aorta_hwq_state(hwq, sizeof(struct state), made));
    struct state *state = *made;
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, o->graphs * o->batch * o->out, "outputs", &state->outputs));
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, o->batch * o->out, "mean of the outputs", &state->mean));
    for (int64_t g = 0; g < o->graphs; g++) AORTA_TRY(setup_subgraph(hwq, state, g));
    return NULL;
}

/* Layer by layer over all subgraphs, so that every stream has work as soon as it can. */
static aorta_status iterate(struct aorta_hwq *hwq, void *opaque) {
    struct state *state = opaque;
    const struct options *o = hwq->options;
    for (int l = 0; l < LAYERS; l++)
        for (int64_t g = 0; g < o->graphs; g++) {
            const struct subgraph *graph = &state->graphs[g];
            const float *x = l == 0 ? graph->x : graph->y[l - 1];
            AORTA_TRY(
                l < LAYERS - 1
                    ? aorta_hwq_linear_relu(hwq, stream_of(hwq, g), &graph->layers[l], o->batch, x, graph->y[l], false)
                    : aorta_hwq_linear(hwq, stream_of(hwq, g), &graph->layers[l], o->batch, x, graph->y[l]));
        }
    for (int64_t g = 1; g < o->graphs && g < hwq->stream_count; g++)
        AORTA_TRY(aorta_hwq_after(hwq, 0, state->graphs[g].done, stream_of(hwq, g)));
    return aorta_hwq_sum_pieces(hwq, 0, state->mean, state->outputs, o->graphs, o->batch * o->out,
                                1.0f / (float)o->graphs);
}

static aorta_status work(struct aorta_hwq *hwq, void *state, int64_t iterations, double *amount) {
    (void)state;
    *amount = (double)(iterations * ((const struct options *)hwq->options)->batch);
    return NULL;
}

static aorta_status verify_mean(struct aorta_hwq_verifier *verifier, const struct state *state) {
    const struct options *o = verifier->hwq->options;
    const int64_t count = o->batch * o->out;
    const float *outputs, *mean;
    AORTA_TRY(aorta_hwq_fetch(verifier, state->outputs, o->graphs * count, &outputs));
    AORTA_TRY(aorta_hwq_fetch(verifier, state->mean, count, &mean));
    for (int64_t i = 0; i < count; i++) {
        double sum = 0.0;
        for (int64_t g = 0; g < o->graphs; g++) sum += (double)outputs[g * count + i] / (double)o->graphs;
        aorta_hwq_compare(verifier->check, (double)mean[i], sum, 1e-6, 1e-6, "mean[%lld]", (long long)i);
    }
    return NULL;
}

static aorta_status compare(struct aorta_hwq_verifier *verifier, void *opaque) {
    const struct state *state = opaque;
    const struct options *o = verifier->hwq->options;
    for (int64_t g = 0; g < o->graphs; g++)
        for (int l = 0; l < LAYERS; l++) {
            const struct subgraph *graph = &state->graphs[g];
            AORTA_TRY(aorta_hwq_verify_linear(verifier, "output of a layer", &graph->layers[l], o->batch,
                                              l == 0 ? graph->x : graph->y[l - 1], graph->y[l],
                                              l < LAYERS - 1 ? AORTA_HWQ_RELU : AORTA_HWQ_PLAIN, AORTA_HWQ_FP32));
        }
    return verify_mean(verifier, state);
}

static aorta_status verify(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_check *check) {
    return aorta_hwq_verify_iteration(hwq, check, &((struct state *)opaque)->results, opaque, iterate, compare);
}

static const struct aorta_range_limits graph_count = {.min = 1, .max = MOST_GRAPHS};
static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, graphs, "8", graph_count, "independent subgraphs"),
    AORTA_HWQ_ROW(struct options, batch, "32", aorta_hwq_sizes, "samples of each"),
    AORTA_HWQ_ROW(struct options, in, "1024", aorta_hwq_sizes, "width of the input"),
    AORTA_HWQ_ROW(struct options, hidden, "2048", aorta_hwq_sizes, "width of the two hidden layers"),
    AORTA_HWQ_ROW(struct options, out, "512", aorta_hwq_sizes, "width of the output"),
};

static const struct aorta_hwq_size on_cpu[] = {{"in", "256"}, {"hidden", "512"}, {"out", "128"}, {0}};

const struct aorta_hwq_workload aorta_hwq_graph_subgraphs = {
    .name = "graph_subgraphs",
    .summary = "chains of small products run in parallel only where their streams do not share queues",
    .group = AORTA_HWQ_P2,
    .category = AORTA_HWQ_LATENCY_SENSITIVE,
    .sensitivity = AORTA_HWQ_HIGH,
    .min_streams = 4,
    .max_streams = 32,
    .recommended_streams = 8,
    .unit = "samples/s",
    .options = rows,
    .option_count = sizeof rows / sizeof *rows,
    .option_bytes = sizeof(struct options),
    .on_cpu = on_cpu,
    .try_next = "compare 4, 8 and 16 streams: more than one stream for each subgraph (--graphs) gains nothing",
    .setup = setup,
    .iterate = iterate,
    .work = work,
    .verify = verify,
};
