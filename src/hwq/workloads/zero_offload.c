/* Training with parameters and optimizer on the host (as ZeRO-Offload: Ren et al., USENIX ATC 2021): a layer's
 * parameters are copied to the device ahead of their use, gradients are copied back as they are made, and the host runs
 * Adam on them while the device goes on.
 *
 * Streams: number s modulo 4 says what it does: 0 computes, 1 copies parameters to the device, 2 copies gradients to
 * the host, 3 runs the optimizer by calls on the host. Layers are dealt out to the streams of a kind. Parameters and
 * gradients on the device have two slots each, taken by turns. A layer is y = second(relu(first(x))); the loss is half
 * the squared length of the last y, whose gradient is y itself. */
#include "hwq/proof.h"

#include <math.h>
#include <string.h>

enum { MOST_LAYERS = 64, COMPUTE = 0, FETCH = 1, OFFLOAD = 2, OPTIMIZE = 3 };

struct options {
    int64_t layers, width, batch;
};

/* First and second linear layer of a pair, in one piece of memory. */
struct pair {
    struct aorta_hwq_layer first, second;
};

/* The host's side of a layer: all pinned, `count` floats each. */
struct held {
    float *parameters, *gradients, *m, *v;
    int64_t count, updates;
};

struct layer {
    struct held held;
    float *hidden, *y, *dhidden, *dx; /* [batch, width] */
    struct aorta_event *fetched, *used, *graded, *offloaded;
};

struct state {
    int64_t count; /* floats of a layer */
    float *x, *slots[2], *gradients[2];
    struct layer layers[MOST_LAYERS];
    float old[MOST_LAYERS][AORTA_HWQ_SAMPLES][3]; /* verification: parameter, m and v before the update */
    struct aorta_hwq_results results;
};

static const float rate = 1e-4f, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;

static int stream_for(const struct aorta_hwq *hwq, int what, int64_t layer) {
    const int count = (hwq->stream_count - what + 3) / 4;
    return what + 4 * (int)(layer % count);
}

static const char *role(const struct aorta_hwq *hwq, int stream) {
    static const char *const names[] = {"compute", "parameters to the device", "gradients to the host", "optimizer"};
    (void)hwq;
    return names[stream % 4];
}

static struct pair views(int64_t width, float *weights, float *gradients) {
    const int64_t square = width * width;
    struct pair p = {.first = {.in = width, .out = width}, .second = {.in = width, .out = width}};
    p.first.weight = weights, p.first.bias = weights + square;
    p.second.weight = weights + square + width, p.second.bias = weights + 2 * square + width;
    p.first.dweight = gradients, p.first.dbias = gradients + square;
    p.second.dweight = gradients + square + width, p.second.dbias = gradients + 2 * square + width;
    return p;
}

/* ---- setup ---- */

static aorta_status setup_held(struct aorta_hwq *hwq, struct held *held, int64_t count, int64_t width, uint64_t id) {
    float **const buffers[] = {&held->parameters, &held->gradients, &held->m, &held->v};
    *held = (struct held){.count = count};
    for (int i = 0; i < 4; i++) {
        void *memory;
        AORTA_TRY(aorta_hwq_pinned(hwq, (size_t)count * sizeof(float), "parameters and optimizer", &memory));
        memset(memory, 0, (size_t)count * sizeof(float));
        *buffers[i] = memory;
    }
    return aorta_hwq_values(hwq, id, 0, count, 1.0f / sqrtf((float)width), held->parameters);
}

static aorta_status setup_layer(struct aorta_hwq *hwq, struct state *state, int64_t index) {
    const struct options *o = hwq->options;
    struct layer *layer = &state->layers[index];
    AORTA_TRY(setup_held(hwq, &layer->held, state->count, o->width, 10 * (uint64_t)(index + 1)));
    float **const buffers[] = {&layer->hidden, &layer->y, &layer->dhidden, &layer->dx};
    for (int i = 0; i < 4; i++)
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, o->batch * o->width, "activations", buffers[i]));
    struct aorta_event **const events[] = {&layer->fetched, &layer->used, &layer->graded, &layer->offloaded};
    for (int i = 0; i < 4; i++) AORTA_TRY(aorta_hwq_event(hwq, events[i]));
    return NULL;
}

static aorta_status setup(struct aorta_hwq *hwq, void **made) {
    const struct options *o = hwq->options;
    AORTA_TRY(aorta_hwq_state(hwq, sizeof(struct state), made));
    struct state *state = *made;
    state->count = 2 * (o->width * o->width + o->width);
    AORTA_TRY(aorta_hwq_input(hwq, 1, o->batch * o->width, 1.0f, "input", &state->x));
    for (int i = 0; i < 2; i++) {
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, state->count, "parameters of a layer", &state->slots[i]));
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, state->count, "gradients of a layer", &state->gradients[i]));
    }
    for (int64_t l = 0; l < o->layers; l++) AORTA_TRY(setup_layer(hwq, state, l));
    return NULL;
}

/* ---- the optimizer, on the host ---- */

/* Adam (Kingma & Ba, 2015). Runs as a call in stream order. */
static aorta_status optimize(void *user) {
    struct held *h = user;
    h->updates++;
    const float correction1 = 1.0f - powf(beta1, (float)h->updates);
    const float correction2 = 1.0f - powf(beta2, (float)h->updates);
    const float *restrict g = h->gradients;
    float *restrict p = h->parameters, *restrict m = h->m, *restrict v = h->v;
    for (int64_t i = 0; i < h->count; i++) {
        m[i] = beta1 * m[i] + (1.0f - beta1) * g[i];
        v[i] = beta2 * v[i] + (1.0f - beta2) * g[i] * g[i];
        p[i] -= rate * (m[i] / correction1) / (sqrtf(v[i] / correction2) + epsilon);
    }
    return NULL;
}

/* ---- one iteration ---- */

/* Fills the layer's slot, behind the last use of what is there (`before` < 0: none in this iteration). */
static aorta_status fetch(struct aorta_hwq *hwq, struct state *state, int64_t l, int64_t before) {
    struct layer *layer = &state->layers[l];
    const int s = stream_for(hwq, FETCH, l);
    if (before >= 0) AORTA_TRY(aorta_stream_wait(hwq->streams[s], state->layers[before].used));
    AORTA_TRY(
        aorta_hwq_copy(hwq, s, state->slots[l % 2], layer->held.parameters, (size_t)state->count * sizeof(float)));
    return aorta_event_record(layer->fetched, hwq->streams[s]);
}

/* Layers follow each other, whatever their streams: `order` is the layer that ran before, or < 0. */
static aorta_status enter(struct aorta_hwq *hwq, const struct state *state, int64_t l, int64_t order) {
    struct aorta_stream *stream = hwq->streams[stream_for(hwq, COMPUTE, l)];
    if (order >= 0) AORTA_TRY(aorta_stream_wait(stream, state->layers[order].used));
    return aorta_stream_wait(stream, state->layers[l].fetched);
}

static const float *input_of(const struct state *state, int64_t l) {
    return l == 0 ? state->x : state->layers[l - 1].y;
}

static aorta_status forward(struct aorta_hwq *hwq, struct state *state, int64_t l) {
    const struct options *o = hwq->options;
    const struct layer *layer = &state->layers[l];
    const struct pair p = views(o->width, state->slots[l % 2], state->gradients[l % 2]);
    const int s = stream_for(hwq, COMPUTE, l);
    AORTA_TRY(enter(hwq, state, l, l - 1));
    AORTA_TRY(aorta_hwq_linear_relu(hwq, s, &p.first, o->batch, input_of(state, l), layer->hidden, false));
    AORTA_TRY(aorta_hwq_linear(hwq, s, &p.second, o->batch, layer->hidden, layer->y));
    return aorta_event_record(layer->used, hwq->streams[s]);
}

static const float *slope_of(const struct state *state, const struct options *o, int64_t l) {
    return l + 1 < o->layers ? state->layers[l + 1].dx : state->layers[l].y;
}

static aorta_status backward(struct aorta_hwq *hwq, struct state *state, int64_t l) {
    const struct options *o = hwq->options;
    const struct layer *layer = &state->layers[l];
    const struct pair p = views(o->width, state->slots[l % 2], state->gradients[l % 2]);
    const float *dy = slope_of(state, o, l);
    const int64_t n = o->batch;
    const int s = stream_for(hwq, COMPUTE, l);
    AORTA_TRY(enter(hwq, state, l, l + 1 < o->layers ? l + 1 : l));
    if (l + 2 < o->layers) AORTA_TRY(aorta_stream_wait(hwq->streams[s], state->layers[l + 2].offloaded));
    AORTA_TRY(aorta_hwq_linear_input(hwq, s, &p.second, n, dy, layer->dhidden, false));
    AORTA_TRY(aorta_hwq_relu_backward(hwq, s, n * o->width, layer->hidden, layer->dhidden, layer->dhidden));
    AORTA_TRY(aorta_hwq_linear_input(hwq, s, &p.first, n, layer->dhidden, layer->dx, false));
    AORTA_TRY(aorta_event_record(layer->used, hwq->streams[s])); /* gradients of weights need none */
    AORTA_TRY(aorta_hwq_linear_weight(hwq, s, &p.second, n, layer->hidden, dy, false));
    AORTA_TRY(aorta_hwq_linear_weight(hwq, s, &p.first, n, input_of(state, l), layer->dhidden, false));
    return aorta_event_record(layer->graded, hwq->streams[s]);
}

static aorta_status update(struct aorta_hwq *hwq, struct state *state, int64_t l) {
    struct layer *layer = &state->layers[l];
    const int s = stream_for(hwq, OFFLOAD, l), h = stream_for(hwq, OPTIMIZE, l);
    AORTA_TRY(aorta_stream_wait(hwq->streams[s], layer->graded));
    AORTA_TRY(
        aorta_hwq_copy(hwq, s, layer->held.gradients, state->gradients[l % 2], (size_t)state->count * sizeof(float)));
    AORTA_TRY(aorta_event_record(layer->offloaded, hwq->streams[s]));
    AORTA_TRY(aorta_stream_wait(hwq->streams[h], layer->offloaded));
    AORTA_TRY(aorta_stream_wait(hwq->streams[h], layer->fetched)); /* the copy that reads the parameters has ended */
    AORTA_TRY(aorta_hwq_begin(hwq, h, AORTA_HWQ_HOST, "adam"));
    AORTA_TRY(aorta_host_call(hwq->streams[h], optimize, &layer->held));
    return aorta_hwq_end(hwq, h);
}

static aorta_status iterate(struct aorta_hwq *hwq, void *opaque) {
    struct state *state = opaque;
    const struct options *o = hwq->options;
    AORTA_TRY(fetch(hwq, state, 0, -1));
    for (int64_t l = 0; l < o->layers; l++) {
        if (l + 1 < o->layers) AORTA_TRY(fetch(hwq, state, l + 1, l - 1));
        AORTA_TRY(forward(hwq, state, l));
    }
    for (int64_t l = o->layers - 1; l >= 0; l--) { /* the last two layers are still there */
        AORTA_TRY(backward(hwq, state, l));
        if (l >= 2) AORTA_TRY(fetch(hwq, state, l - 2, l));
        AORTA_TRY(update(hwq, state, l));
    }
    return NULL;
}

static aorta_status work(struct aorta_hwq *hwq, void *state, int64_t iterations, double *amount) {
    (void)state;
    *amount = (double)(iterations * ((const struct options *)hwq->options)->batch);
    return NULL;
}

/* ---- verification ---- */

/* One step of Adam from what was there before, in double precision. */
static void prove_update(struct aorta_hwq_proof *proof, const struct state *state, int64_t l) {
    const struct held *h = &state->layers[l].held;
    const double b1 = (double)beta1, b2 = (double)beta2;
    const double correction1 = 1.0 - pow(b1, (double)h->updates), correction2 = 1.0 - pow(b2, (double)h->updates);
    for (int64_t i = 0; i < aorta_hwq_sample_count(h->count); i++) {
        const int64_t at = aorta_hwq_sample(i, h->count);
        const float *old = state->old[l][i];
        const double g = (double)h->gradients[at], m = b1 * (double)old[1] + (1.0 - b1) * g;
        const double v = b2 * (double)old[2] + (1.0 - b2) * g * g;
        const double p = (double)old[0] - (double)rate * (m / correction1) / (sqrt(v / correction2) + (double)epsilon);
        aorta_hwq_compare(proof->check, (double)h->parameters[at], p, 1e-7 + 1e-3 * (double)rate, 1e-6,
                          "parameter %lld of layer %lld", (long long)at, (long long)l);
    }
}

/* A layer whose parameters, as they were, are still on the device. */
static aorta_status prove_layer(struct aorta_hwq_proof *proof, const struct state *state, int64_t l) {
    const struct options *o = proof->hwq->options;
    const struct layer *layer = &state->layers[l];
    const struct pair p = views(o->width, state->slots[l % 2], state->gradients[l % 2]);
    AORTA_TRY(aorta_hwq_prove_linear(proof, "first", &p.first, o->batch, input_of(state, l), layer->hidden,
                                     AORTA_HWQ_RELU, AORTA_HWQ_FP32));
    AORTA_TRY(aorta_hwq_prove_linear(proof, "second", &p.second, o->batch, layer->hidden, layer->y, AORTA_HWQ_PLAIN,
                                     AORTA_HWQ_FP32));
    return aorta_hwq_prove_input(proof, "gradient before a layer", &p.first, o->batch, layer->dhidden, layer->dx, NULL);
}

static aorta_status compare(struct aorta_hwq_proof *proof, void *opaque) {
    const struct state *state = opaque;
    const struct options *o = proof->hwq->options;
    for (int64_t l = 0; l < o->layers; l++) {
        const struct layer *layer = &state->layers[l];
        const struct pair p = views(o->width, layer->held.parameters, layer->held.gradients);
        if (l < 2) AORTA_TRY(prove_layer(proof, state, l));
        AORTA_TRY(aorta_hwq_prove_weight(proof, "first, on the host", &p.first, o->batch, input_of(state, l),
                                         layer->dhidden, 1.0));
        AORTA_TRY(aorta_hwq_prove_weight(proof, "second, on the host", &p.second, o->batch, layer->hidden,
                                         slope_of(state, o, l), 1.0));
        prove_update(proof, state, l);
    }
    return NULL;
}

static aorta_status verify(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_check *result) {
    struct state *state = opaque;
    const struct options *o = hwq->options;
    for (int64_t l = 0; l < o->layers; l++) {
        const struct held *h = &state->layers[l].held;
        for (int64_t i = 0; i < aorta_hwq_sample_count(h->count); i++) {
            const int64_t at = aorta_hwq_sample(i, h->count);
            const float now[3] = {h->parameters[at], h->m[at], h->v[at]};
            memcpy(state->old[l][i], now, sizeof now);
        }
    }
    return aorta_hwq_prove(hwq, result, &state->results, state, iterate, compare);
}

static const struct aorta_range_limits layer_count = {.min = 1, .max = MOST_LAYERS}, widths = {.min = 1, .max = 32768};
static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, layers, "4", layer_count, "layers, of two linear ones each"),
    AORTA_HWQ_ROW(struct options, width, "4096", widths, "width of all of them"),
    AORTA_HWQ_ROW(struct options, batch, "16", aorta_hwq_sizes, "samples"),
};

const struct aorta_hwq_workload aorta_hwq_zero_offload = {
    .name = "zero_offload",
    .summary = "copies both ways and the host's optimizer have to run beside the layers; the slowest of them decides",
    .group = AORTA_HWQ_P3,
    .category = AORTA_HWQ_PIPELINE,
    .sensitivity = AORTA_HWQ_MEDIUM,
    .min_streams = 4,
    .max_streams = 12,
    .recommended_streams = 6,
    .unit = "samples/s",
    .options = rows,
    .option_count = sizeof rows / sizeof *rows,
    .option_bytes = sizeof(struct options),
    .try_next = "--width 1024: a smaller optimizer step lets the copies show; aorta sdma measures them alone",
    .role = role,
    .setup = setup,
    .iterate = iterate,
    .work = work,
    .verify = verify,
};
