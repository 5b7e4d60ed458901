/* Training with parameters and optimizer on the host (as ZeRO-Offload: Ren et al., USENIX ATC 2021): a layer's
 * parameters are copied to the device ahead of their use, gradients are copied back when they are ready, and the host
 * runs AdamW on them, on several threads, while the device continues.
 *
 * Stream s has role s modulo 4: 0 computes, 1 copies parameters to the device, 2 copies gradients to
 * the host, 3 runs the optimizer by calls on the host. Layers are distributed over the streams of a role. Parameters
 * and gradients on the device have two slots each, used alternately. A layer is y = second(relu(first(x))); the loss is
 * half the squared length of the last y, whose gradient is y itself. */
#include "hwq/thread_pool.h"
#include "hwq/verify.h"
#include "ops/cpu/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LAYERS = 64, COMPUTE = 0, FETCH = 1, OFFLOAD = 2, OPTIMIZE = 3 };

struct options {
    int64_t layers, width, batch, threads;
};

/* First and second linear layer of a pair, in one piece of memory. */
struct pair {
    struct aorta_hwq_layer first, second;
};

/* The host's side of a layer: all pinned, `count` floats each. */
struct host_state {
    float *parameters, *gradients, *m, *v;
    int64_t count;
    struct aorta_step_state step;
    struct aorta_hwq_thread_pool *pool;
};

struct layer {
    struct host_state host;
    float *hidden, *y, *dhidden, *dx; /* [batch, width] */
    struct aorta_event *fetched, *used, *graded, *offloaded;
};

struct state {
    int64_t count; /* floats of a layer */
    float *x, *slots[2], *gradients[2];
    struct layer layers[MOST_LAYERS];
    struct aorta_hwq_thread_pool *pool;
    int64_t spent_ns, updates;                        /* of the pool and of a layer, at `start` */
    float *old;                                       /* verification: parameters before the update, of all layers */
    float moments[MOST_LAYERS][AORTA_HWQ_SAMPLES][2]; /* and samples of m and v */
    struct aorta_hwq_results results;
};

/* torch.optim.AdamW's, with a lower rate: steps of 1e-3 for all weights of a wide layer at once diverge. */
static const float rate = 1e-5f, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, decay = 0.01f;

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

static aorta_status setup_host(struct aorta_hwq *hwq, struct host_state *host, struct aorta_hwq_thread_pool *pool,
                               int64_t count, uint64_t id) {
    const int64_t width = ((const struct options *)hwq->options)->width;
    float **const buffers[] = {&host->parameters, &host->gradients, &host->m, &host->v};
    *host = (struct host_state){.count = count, .step = {.lr = rate, .finite = 1, .grad_factor = 1.0f}, .pool = pool};
    for (int i = 0; i < 4; i++) {
        void *memory;
        AORTA_TRY(aorta_hwq_pinned(hwq, (size_t)count * sizeof(float), "parameters and optimizer", &memory));
        memset(memory, 0, (size_t)count * sizeof(float));
        *buffers[i] = memory;
    }
    return aorta_hwq_values(hwq, id, 0, count, 1.0f / sqrtf((float)width), host->parameters);
}

static aorta_status setup_layer(struct aorta_hwq *hwq, struct state *state, int64_t index) {
    const struct options *o = hwq->options;
    struct layer *layer = &state->layers[index];
    AORTA_TRY(setup_host(hwq, &layer->host, state->pool, state->count, 10 * (uint64_t)(index + 1)));
    float **const buffers[] = {&layer->hidden, &layer->y, &layer->dhidden, &layer->dx};
    for (int i = 0; i < 4; i++)
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, o->batch * o->width, "activations", buffers[i]));
    struct aorta_event **const events[] = {&layer->fetched, &layer->used, &layer->graded, &layer->offloaded};
    for (int i = 0; i < 4; i++) AORTA_TRY(aorta_hwq_event(hwq, events[i]));
    return NULL;
}

static void teardown(struct aorta_hwq *hwq, void *opaque) {
    (void)hwq;
    aorta_hwq_thread_pool_destroy(((struct state *)opaque)->pool);
}

static aorta_status setup(struct aorta_hwq *hwq, void **made) {
    const struct options *o = hwq->options;
    AORTA_TRY(aorta_hwq_state(hwq, sizeof(struct state), made));
    struct state *state = *made;
    state->count = 2 * (o->width * o->width + o->width);
    AORTA_TRY(
        aorta_hwq_thread_pool_create(o->threads ? (int)o->threads : aorta_hwq_thread_pool_default(), &state->pool));
    AORTA_TRY(aorta_hwq_input(hwq, 1, o->batch * o->width, 1.0f, "input", &state->x));
    for (int i = 0; i < 2; i++) {
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, state->count, "parameters of a layer", &state->slots[i]));
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, state->count, "gradients of a layer", &state->gradients[i]));
    }
    for (int64_t l = 0; l < o->layers; l++) AORTA_TRY(setup_layer(hwq, state, l));
    return NULL;
}

/* ---- the optimizer, on the host ---- */

static aorta_status optimize_piece(void *user, int64_t first, int64_t count) {
    const struct host_state *h = user;
    const struct aorta_adamw_args args = {
        .shape = {count, beta1, beta2, epsilon, decay, &h->step, AORTA_F32},
        .parameter = h->parameters + first,
        .gradient = h->gradients + first,
        .m = h->m + first,
        .v = h->v + first,
    };
    return aorta_cpu_ops()->adamw(&args);
}

/* Runs as a call in stream order, which cannot queue operations of src/ops: it calls their loops. */
static aorta_status optimize(void *user) {
    struct host_state *h = user;
    const double t = (double)++h->step.updates;
    h->step.bias_correction1 = (float)(1.0 - pow((double)beta1, t));
    h->step.bias_correction2 = (float)(1.0 - pow((double)beta2, t));
    return aorta_hwq_thread_pool_run(h->pool, optimize_piece, h, h->count);
}

/* ---- one iteration ---- */

/* Fills the layer's slot, after the last use of its contents (`before` < 0: none in this iteration). */
static aorta_status fetch(struct aorta_hwq *hwq, struct state *state, int64_t l, int64_t before) {
    struct layer *layer = &state->layers[l];
    const int s = stream_for(hwq, FETCH, l);
    if (before >= 0) AORTA_TRY(aorta_stream_wait(hwq->streams[s], state->layers[before].used));
    AORTA_TRY(
        aorta_hwq_copy(hwq, s, state->slots[l % 2], layer->host.parameters, (size_t)state->count * sizeof(float)));
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
        aorta_hwq_copy(hwq, s, layer->host.gradients, state->gradients[l % 2], (size_t)state->count * sizeof(float)));
    AORTA_TRY(aorta_event_record(layer->offloaded, hwq->streams[s]));
    AORTA_TRY(aorta_stream_wait(hwq->streams[h], layer->offloaded));
    AORTA_TRY(aorta_stream_wait(hwq->streams[h], layer->fetched)); /* the copy that reads the parameters has ended */
    AORTA_TRY(aorta_hwq_begin(hwq, h, AORTA_SPAN_HOST, "adamw"));
    AORTA_TRY(aorta_host_call(hwq->streams[h], optimize, &layer->host));
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
    for (int64_t l = o->layers - 1; l >= 0; l--) { /* the last two layers are still in memory */
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

static aorta_status start(struct aorta_hwq *hwq, void *opaque) {
    struct state *state = opaque;
    (void)hwq;
    state->spent_ns = aorta_hwq_thread_pool_busy_ns(state->pool);
    state->updates = state->layers[0].host.step.updates;
    return NULL;
}

/* The optimizer's time in an iteration. It reads four floats of each parameter and writes three. */
static aorta_status report(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_result *result) {
    const struct state *state = opaque;
    const struct options *o = hwq->options;
    const double iterations = (double)(state->layers[0].host.step.updates - state->updates);
    const double ms = (double)(aorta_hwq_thread_pool_busy_ns(state->pool) - state->spent_ns) * 1e-6 / iterations;
    const double gigabytes = 7.0 * sizeof(float) * (double)(o->layers * state->count) * 1e-9;
    const char *const reason = "no iteration was measured";
    AORTA_TRY(aorta_hwq_result_figure(result, "optimizer", "ms", ms, reason));
    return aorta_hwq_result_figure(result, "optimizer_memory_rate", "GB/s", gigabytes / (ms * 1e-3), reason);
}

/* ---- verification ---- */

/* One step of AdamW from the state before, in double precision. */
static void verify_update(struct aorta_hwq_verifier *verifier, const struct state *state, int64_t l) {
    const struct host_state *h = &state->layers[l].host;
    const float *old = state->old + l * state->count;
    const double b1 = (double)beta1, b2 = (double)beta2, lr = (double)rate, t = (double)h->step.updates;
    const double correction1 = 1.0 - pow(b1, t), correction2 = 1.0 - pow(b2, t);
    for (int64_t i = 0; i < aorta_hwq_sample_count(h->count); i++) {
        const int64_t at = aorta_hwq_sample(i, h->count);
        const double g = (double)h->gradients[at], before = (double)old[at];
        const double old_m = b1 * (double)state->moments[l][i][0], old_v = b2 * (double)state->moments[l][i][1];
        const double m = old_m + (1.0 - b1) * g, v = old_v + (1.0 - b2) * g * g;
        const double p =
            before - lr * (double)decay * before - lr * (m / correction1) / (sqrt(v / correction2) + (double)epsilon);
        /* m can be the small difference of large terms. */
        aorta_hwq_compare(verifier->check, (double)h->m[at], m, 1e-6 * (fabs(old_m) + fabs(g)) + 1e-30, 0,
                          "m %lld of layer %lld", (long long)at, (long long)l);
        aorta_hwq_compare(verifier->check, (double)h->v[at], v, 1e-30, 1e-5, "v %lld of layer %lld", (long long)at,
                          (long long)l);
        /* A step is much smaller than its parameter: compare the change. */
        aorta_hwq_compare(verifier->check, (double)h->parameters[at] - before, p - before,
                          1.2e-7 * fabs(before) + 1e-3 * lr, 0, "change of parameter %lld of layer %lld", (long long)at,
                          (long long)l);
    }
}

/* The slope before the first linear layer of a pair: relu'(hidden) · dy · weight. */
static aorta_status verify_slope(struct aorta_hwq_verifier *verifier, const struct layer *layer,
                                 const struct aorta_hwq_layer *second, const float *slope, int64_t rows) {
    const int64_t width = second->in, count = rows * width;
    const float *dy, *weight, *hidden, *dhidden;
    AORTA_TRY(aorta_hwq_fetch(verifier, slope, count, &dy));
    AORTA_TRY(aorta_hwq_fetch(verifier, second->weight, width * width, &weight));
    AORTA_TRY(aorta_hwq_fetch(verifier, layer->hidden, count, &hidden));
    AORTA_TRY(aorta_hwq_fetch(verifier, layer->dhidden, count, &dhidden));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t at = aorta_hwq_sample(i, count), row = at / width, column = at % width;
        double sum = 0.0, magnitude = 0.0;
        for (int64_t k = 0; k < width; k++) {
            const double product = (double)dy[row * width + k] * (double)weight[k * width + column];
            sum += product;
            magnitude += fabs(product);
        }
        aorta_hwq_compare(verifier->check, (double)dhidden[at], hidden[at] > 0.0f ? sum : 0.0,
                          AORTA_HWQ_FP32 * magnitude + 1e-30, 0, "gradient between the layers of a pair[%lld, %lld]",
                          (long long)row, (long long)column);
    }
    return NULL;
}

/* Against the parameters that the host had before the iteration, so that the copies are checked as well. */
static aorta_status verify_layer(struct aorta_hwq_verifier *verifier, const struct state *state, int64_t l) {
    const struct options *o = verifier->hwq->options;
    const struct layer *layer = &state->layers[l];
    const struct pair p = views(o->width, state->old + l * state->count, layer->host.gradients);
    const float *x = input_of(state, l), *dy = slope_of(state, o, l);
    const int64_t n = o->batch;
    AORTA_TRY(
        aorta_hwq_verify_linear(verifier, "first", &p.first, n, x, layer->hidden, AORTA_HWQ_RELU, AORTA_HWQ_FP32));
    AORTA_TRY(aorta_hwq_verify_linear(verifier, "second", &p.second, n, layer->hidden, layer->y, AORTA_HWQ_PLAIN,
                                      AORTA_HWQ_FP32));
    AORTA_TRY(verify_slope(verifier, layer, &p.second, dy, n));
    AORTA_TRY(aorta_hwq_verify_input(verifier, "gradient before a pair", &p.first, n, layer->dhidden, layer->dx, NULL));
    AORTA_TRY(aorta_hwq_verify_weight(verifier, "first, on the host", &p.first, n, x, layer->dhidden, 1.0));
    return aorta_hwq_verify_weight(verifier, "second, on the host", &p.second, n, layer->hidden, dy, 1.0);
}

static aorta_status compare(struct aorta_hwq_verifier *verifier, void *opaque) {
    const struct state *state = opaque;
    const struct options *o = verifier->hwq->options;
    for (int64_t l = 0; l < o->layers; l++) {
        AORTA_TRY(verify_layer(verifier, state, l));
        verify_update(verifier, state, l);
    }
    return NULL;
}

/* Saves the state before the update, and overwrites the gradients of the iteration before. */
static void remember(struct state *state, int64_t l) {
    const struct host_state *h = &state->layers[l].host;
    memcpy(state->old + l * h->count, h->parameters, (size_t)h->count * sizeof(float));
    memset(h->gradients, 0xFF, (size_t)h->count * sizeof(float));
    for (int64_t i = 0; i < aorta_hwq_sample_count(h->count); i++) {
        const int64_t at = aorta_hwq_sample(i, h->count);
        state->moments[l][i][0] = h->m[at];
        state->moments[l][i][1] = h->v[at];
    }
}

static aorta_status verify(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_check *result) {
    struct state *state = opaque;
    const struct options *o = hwq->options;
    state->old = malloc((size_t)(o->layers * state->count) * sizeof(float));
    if (!state->old) return AORTA_ERROR(AORTA_MEMORY, "no host memory for a copy of the parameters to verify");
    for (int64_t l = 0; l < o->layers; l++) remember(state, l);
    aorta_status status = aorta_hwq_verify_iteration(hwq, result, &state->results, state, iterate, compare);
    free(state->old);
    state->old = NULL;
    return status;
}

static const struct aorta_range_limits layer_count = {.min = 1, .max = MOST_LAYERS}, widths = {.min = 1, .max = 32768};
static const struct aorta_range_limits thread_count = {.min = 0, .max = 256};
static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, layers, "4", layer_count, "layers, of two linear ones each"),
    AORTA_HWQ_ROW(struct options, width, "4096", widths, "width of all of them"),
    AORTA_HWQ_ROW(struct options, batch, "16", aorta_hwq_sizes, "samples"),
    AORTA_HWQ_ROW(struct options, threads, "0", thread_count,
                  "threads of the optimizer; 0: one for each processor, 16 at most"),
};

static const struct aorta_hwq_size on_cpu[] = {{"width", "512"}, {0}};

const struct aorta_hwq_workload aorta_hwq_zero_offload = {
    .name = "zero_offload",
    .summary = "copies both ways and the host's optimizer run beside the layers; the slowest of the three limits",
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
    .on_cpu = on_cpu,
    .try_next =
        "--threads 1 and more show the optimizer's cost; with --width 1024 copies matter more, and aorta sdma measures "
        "them alone",
    .role = role,
    .setup = setup,
    .start = start,
    .iterate = iterate,
    .work = work,
    .verify = verify,
    .report = report,
    .teardown = teardown,
};
