/* Gradient accumulation: micro-batches run forward and backward and add up their gradients, and the reduction of the
 * first half of the parameters begins when half of the micro-batches are done.
 *
 * Streams: the last quarter (at least one) reduces, all before it compute. Micro-batch m runs on compute stream m
 * modulo their number, and adds to each gradient after micro-batch m − 1. For the first parameters, the sums of the
 * first half of the micro-batches are reduced while the second half adds to a second sum; all other sums are reduced
 * after the last micro-batch. Each reduction is followed, on its stream, by the step of its parameters (SGD) into a
 * second copy, so that every iteration starts from equal parameters. */
#include "hwq/operations.h"

enum { LAYERS = 3, EARLY = 2, MOST_MICRO = 64 };

struct options {
    int64_t micro, batch, in, hidden, classes;
};

/* Gradients of all layers in one piece of memory, weights then biases of each. */
struct sums {
    struct hwq_tensor early, late; /* of the first EARLY layers, and of the layers after them */
    struct hwq_tensor of[LAYERS];
    struct hwq_layer layers[LAYERS]; /* gradients alone */
};

struct state {
    struct hwq_layer layers[LAYERS];
    struct hwq_tensor parameters[LAYERS]; /* after the step: weight, then bias */
    struct sums first, second;            /* of the first half of the micro-batches and of the second */
};

static const float rate = 0.01f;

static int reducers(const struct aorta_hwq *hwq) {
    return hwq->stream_count >= 8 ? hwq->stream_count / 4 : 1;
}

static int reduce_stream(const struct aorta_hwq *hwq, int index) {
    return hwq->stream_count - 1 - index % reducers(hwq);
}

static const char *role(const struct aorta_hwq *hwq, int stream) {
    return stream < hwq->stream_count - reducers(hwq) ? "compute" : "all-reduce";
}

static void make_sums(struct hwq_graph *g, const struct state *state, struct sums *sums) {
    int64_t used = 0, early = 0, all = 0;
    for (int l = 0; l < LAYERS; l++) all += state->parameters[l].columns;
    const struct hwq_tensor memory = hwq_result(g, AORTA_F32, 1, all, "gradients");
    for (int l = 0; l < LAYERS; l++) {
        const struct hwq_layer *layer = &state->layers[l];
        sums->of[l] = hwq_piece(memory, used, 1, state->parameters[l].columns);
        sums->layers[l] = hwq_layer_in((struct hwq_tensor){0}, memory, &used, layer->in, layer->out, true, 1);
        if (l == EARLY - 1) early = used;
    }
    sums->early = hwq_piece(memory, 0, 1, early);
    sums->late = hwq_piece(memory, early, 1, all - early);
}

static void make_tensors(struct hwq_graph *g, struct state *state) {
    const struct options *o = g->options;
    const int64_t widths[LAYERS + 1] = {o->in, o->hidden, o->hidden, o->classes};
    for (int l = 0; l < LAYERS; l++) {
        state->layers[l] = hwq_layer(g, 10 * (uint64_t)(l + 1), widths[l], widths[l + 1], false);
        state->parameters[l] = hwq_result(g, AORTA_F32, 1, widths[l] * widths[l + 1] + widths[l + 1], "new parameters");
    }
    make_sums(g, state, &state->first);
    make_sums(g, state, &state->second);
}

/* Which sum a micro-batch adds to for a layer, and whether it is the first to do so. The late layers have one sum. */
static const struct sums *sums_of(const struct state *state, const struct options *o, int64_t index, int layer,
                                  bool *begins) {
    const int64_t half = (o->micro + 1) / 2;
    const bool second = layer < EARLY && index >= half;
    *begins = index == 0 || (second && index == half);
    return second ? &state->second : &state->first;
}

static struct hwq_tensor labels_of(struct hwq_graph *g, int64_t index) {
    const struct options *o = g->options;
    int64_t values[1 << 10];
    for (int64_t i = 0; i < o->batch; i++) values[i] = (index * 131 + i * 37) % o->classes;
    return hwq_constant(g, AORTA_I64, o->batch, values, "labels");
}

/* Ranks have equal inputs, so their sum is a multiple of our own. */
static void run_micro(struct hwq_graph *g, const struct state *state, int64_t index) {
    const struct options *o = g->options;
    const int s = (int)(index % (g->hwq->stream_count - reducers(g->hwq)));
    struct hwq_tensor y[LAYERS + 1], dy;
    y[0] = hwq_input(g, 1000 + (uint64_t)index, o->batch, o->in, 1.0f, "input");
    for (int l = 0; l < LAYERS; l++)
        y[l + 1] = l < LAYERS - 1 ? hwq_linear_relu(g, s, &state->layers[l], y[l], false)
                                  : hwq_linear(g, s, &state->layers[l], y[l]);
    dy = hwq_cross_entropy(g, s, y[LAYERS], labels_of(g, index),
                           1.0f / (float)(o->micro * o->batch * aorta_comm_size(g->hwq->world)));
    for (int l = LAYERS - 1; l >= 0; l--) {
        bool begins;
        const struct sums *sums = sums_of(state, o, index, l, &begins);
        hwq_linear_weight(g, s, &sums->layers[l], y[l], dy, !begins);
        if (l == 0) break;
        dy = hwq_linear_input(g, s, &state->layers[l], dy);
        hwq_relu_backward(g, s, y[l], dy);
    }
}

/* Gradients of a layer into the new parameters, which start from the old ones. */
static void step(struct hwq_graph *g, int s, const struct state *state, const struct sums *sums, int l, bool begins) {
    const struct hwq_layer *layer = &state->layers[l];
    const int64_t weights = layer->in * layer->out;
    const struct hwq_tensor to = state->parameters[l];
    if (begins) {
        hwq_copy(hwq_into(g, hwq_piece(to, 0, layer->out, layer->in)), s, layer->weight);
        hwq_copy(hwq_into(g, hwq_piece(to, weights, 1, layer->out)), s, layer->bias);
    }
    hwq_add(g, s, to, sums->of[l], -rate);
}

static void all_reduce(struct hwq_graph *g, int s, struct hwq_tensor gradients) {
    hwq_all_reduce(hwq_into(g, gradients), s, g->hwq->world, NULL, gradients, true);
}

/* The sums of the first half of the micro-batches for the first layers. */
static void reduce_early(struct hwq_graph *g, const struct state *state) {
    const int s = reduce_stream(g->hwq, 0);
    all_reduce(g, s, state->first.early);
    for (int l = 0; l < EARLY; l++) step(g, s, state, &state->first, l, true);
}

static void reduce_late(struct hwq_graph *g, const struct state *state, bool second) {
    const int s = reduce_stream(g->hwq, 1);
    all_reduce(g, s, state->first.late);
    for (int l = EARLY; l < LAYERS; l++) step(g, s, state, &state->first, l, true);
    if (!second) return;
    all_reduce(g, s, state->second.early);
    for (int l = 0; l < EARLY; l++) step(g, s, state, &state->second, l, false);
}

static void build(struct hwq_graph *g) {
    const struct options *o = g->options;
    const int64_t half = (o->micro + 1) / 2;
    struct state *state = hwq_state(g, sizeof *state);
    if (!state) return;
    make_tensors(g, state);
    for (int64_t m = 0; m < o->micro; m++) {
        run_micro(g, state, m);
        if (m == half - 1) reduce_early(g, state);
    }
    reduce_late(g, state, o->micro > half);
    g->work = (double)(o->micro * o->batch);
}

static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, micro, "4", NULL, 1, MOST_MICRO, "micro-batches that add up to a step"),
    AORTA_HWQ_ROW(struct options, batch, "32", NULL, 1, 1024, "samples of a micro-batch"),
    AORTA_HWQ_ROW(struct options, in, "1024", "256", 1, HWQ_LARGEST, "width of the input"),
    AORTA_HWQ_ROW(struct options, hidden, "2048", "512", 1, HWQ_LARGEST, "width of the two hidden layers"),
    AORTA_HWQ_ROW(struct options, classes, "1000", NULL, 1, HWQ_LARGEST, "classes, the width of the output"),
};

const struct aorta_hwq_workload aorta_hwq_grad_accum = {
    .name = "grad_accum",
    .summary = "reductions of finished gradients run while micro-batches still compute",
    .group = AORTA_HWQ_P2,
    .category = "distributed",
    .sensitivity = "medium",
    .streams = {.min = 2, .max = 16, .recommended = 6},
    .unit = "samples/s",
    .collectives = true,
    AORTA_HWQ_OPTIONS(rows, struct options),
    .try_next = "with --streams 2 all micro-batches share a stream: the difference is the gain of parallel streams",
    .role = role,
    .build = build,
};
