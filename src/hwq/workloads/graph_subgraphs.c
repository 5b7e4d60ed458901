/* Independent subgraphs of small operations that can run in parallel, and an operation that depends on all of them.
 * Subgraph g runs on stream g modulo the streams; stream 0 then computes the mean of their outputs. */
#include "hwq/operations.h"

enum { LAYERS = 3, MOST_GRAPHS = 64 };

struct options {
    int64_t graphs, batch, in, hidden, out;
};

/* Layer by layer over all subgraphs, so that every stream has work as soon as it can. */
static void build(struct hwq_graph *g) {
    const struct options *o = g->options;
    const int64_t widths[LAYERS + 1] = {o->in, o->hidden, o->hidden, o->out};
    const struct hwq_tensor outputs = hwq_result(g, AORTA_F32, o->graphs * o->batch, o->out, "outputs");
    struct hwq_tensor y[MOST_GRAPHS];
    for (int64_t k = 0; k < o->graphs; k++) y[k] = hwq_input(g, 100 * (uint64_t)k, o->batch, o->in, 1.0f, "input");
    for (int l = 0; l < LAYERS; l++)
        for (int64_t k = 0; k < o->graphs; k++) {
            const int s = hwq_stream(g, 0, 1, k);
            const uint64_t id = 100 * (uint64_t)k + 10 * (uint64_t)(l + 1);
            const struct hwq_layer layer = hwq_layer(g, id, widths[l], widths[l + 1], false);
            if (l == LAYERS - 1)
                hwq_linear(hwq_into(g, hwq_rows(outputs, k * o->batch, o->batch)), s, &layer, y[k]);
            else
                y[k] = hwq_linear_relu(g, s, &layer, y[k], false);
        }
    hwq_sum_pieces(g, 0, outputs, o->graphs, 1.0f / (float)o->graphs);
    g->work = (double)o->batch;
}

static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, graphs, "8", NULL, 1, MOST_GRAPHS, "independent subgraphs"),
    AORTA_HWQ_ROW(struct options, batch, "32", NULL, 1, HWQ_LARGEST, "samples of each"),
    AORTA_HWQ_ROW(struct options, in, "1024", "256", 1, HWQ_LARGEST, "width of the input"),
    AORTA_HWQ_ROW(struct options, hidden, "2048", "512", 1, HWQ_LARGEST, "width of the two hidden layers"),
    AORTA_HWQ_ROW(struct options, out, "512", "128", 1, HWQ_LARGEST, "width of the output"),
};

const struct aorta_hwq_workload aorta_hwq_graph_subgraphs = {
    .name = "graph_subgraphs",
    .summary = "chains of small products run in parallel only where their streams do not share queues",
    .group = AORTA_HWQ_P2,
    .category = "latency_sensitive",
    .sensitivity = "high",
    .streams = {.min = 4, .max = 32, .recommended = 8},
    .unit = "samples/s",
    AORTA_HWQ_OPTIONS(rows, struct options),
    .try_next = "compare 4, 8 and 16 streams: more than one stream for each subgraph (--graphs) gains nothing",
    .build = build,
};
