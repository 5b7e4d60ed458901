/* Training with parameters and optimizer on the host (as ZeRO-Offload: Ren et al., USENIX ATC 2021): a layer's
 * parameters are copied to the device ahead of their use, gradients are copied back when they are ready, and the host
 * runs AdamW on them, on several threads, while the device continues.
 *
 * Stream s has role s modulo 4: 0 computes, 1 copies parameters to the device, 2 copies gradients to
 * the host, 3 runs the optimizer by calls on the host. Layers are distributed over the streams of a role. Parameters
 * and gradients on the device have two slots each, used alternately. A layer is y = second(relu(first(x))); the loss is
 * half the squared length of the last y, whose gradient is y itself. */
#include "base/parallel.h"
#include "hwq/operations.h"
#include "hwq/thread_pool.h"
#include "ops/cpu/cpu.h"

#include <math.h>

enum { MOST_LAYERS = 64, COMPUTE = 0, FETCH = 1, OFFLOAD = 2, OPTIMIZE = 3, ROLES };

struct options {
    int64_t layers, width, batch, threads;
};

/* First and second linear layer of a pair, in one piece of memory. */
struct pair {
    struct hwq_layer first, second;
};

struct layer {
    struct hwq_tensor parameters, gradients, m, v; /* the host's: pinned, `count` floats each */
    struct hwq_tensor x, hidden, y;                /* [batch, width] */
    struct aorta_step_state step;
    struct aorta_hwq_thread_pool *pool;
};

struct state {
    int64_t count; /* floats of a layer */
    struct hwq_tensor slots[2], gradients[2];
    struct layer layers[MOST_LAYERS];
    struct aorta_hwq_thread_pool *pool;
    int64_t spent_ns, updates; /* time of the pool and updates of a layer, at `start` */
};

/* The values of torch.optim.AdamW with a lower rate: steps of 1e-3 for all weights of a wide layer diverge. */
static const float rate = 1e-5f, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, decay = 0.01f;

static const char *const roles[] = {"compute", "parameters to the device", "gradients to the host", "optimizer", NULL};

/* ---- the optimizer, on the host ---- */

static void optimize_piece(void *user, int64_t first, int64_t count) {
    const struct layer *layer = user;
    const struct aorta_adamw_args args = {
        .count = count,
        .beta1 = beta1,
        .beta2 = beta2,
        .eps = epsilon,
        .weight_decay = decay,
        .state = &layer->step,
        .parameter = hwq_floats(layer->parameters) + first,
        .gradient = hwq_floats(layer->gradients) + first,
        .m = hwq_floats(layer->m) + first,
        .v = hwq_floats(layer->v) + first,
    };
    aorta_status_free(aorta_cpu_ops()->adamw(&args)); /* it cannot fail */
}

/* A call in stream order cannot queue operations of src/ops, so it calls their loops. */
static void optimize(void *user) {
    struct layer *layer = user;
    const double t = (double)++layer->step.updates;
    layer->step.bias_correction1 = (float)(1.0 - pow((double)beta1, t));
    layer->step.bias_correction2 = (float)(1.0 - pow((double)beta2, t));
    aorta_hwq_thread_pool_run(layer->pool, optimize_piece, layer, layer->parameters.columns);
}

static aorta_status run_adamw(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_host_call(stream, optimize, *(struct layer *const *)o->shape);
}

enum { PARAMETERS, M, V, GRADIENTS }; /* outputs, and inputs */

/* m can be the small difference of large terms. A step is much smaller than its parameter, and so is its allowed
 * error. */
static struct hwq_value adamw_element(const struct hwq_element *e) {
    const int64_t row = e->row, column = e->column;
    const struct layer *layer = *(struct layer *const *)e->o->shape;
    const double b1 = (double)beta1, b2 = (double)beta2, lr = (double)rate, t = (double)layer->step.updates;
    const double before = hwq_at(e, PARAMETERS, row, column).value, g = hwq_at(e, GRADIENTS, row, column).value;
    const double old_m = b1 * hwq_at(e, M, row, column).value, old_v = b2 * hwq_at(e, V, row, column).value;
    const double m = old_m + (1.0 - b1) * g, v = old_v + (1.0 - b2) * g * g;
    if (e->output == M) return (struct hwq_value){m, 1e-6 * (fabs(old_m) + fabs(g)) + 1e-30};
    if (e->output == V) return (struct hwq_value){v, 1e-5 * v + 1e-30};
    const double slope = m / (1.0 - pow(b1, t)) / (sqrt(v / (1.0 - pow(b2, t))) + (double)epsilon);
    return (struct hwq_value){before - lr * (double)decay * before - lr * slope, 1.2e-7 * fabs(before) + 1e-3 * lr};
}

static const struct hwq_kind adamw = {
    .name = "adamw", .span = AORTA_SPAN_HOST, .run = run_adamw, .element = adamw_element};

/* ---- the graph ---- */

static void make_layer(struct hwq_graph *g, struct state *state, int64_t l) {
    const struct options *o = g->options;
    struct layer *layer = &state->layers[l];
    layer->parameters = hwq_pinned(g, AORTA_F32, state->count, false, "parameters");
    layer->gradients = hwq_pinned(g, AORTA_F32, state->count, true, "gradients on the host");
    layer->m = hwq_pinned(g, AORTA_F32, state->count, false, "m");
    layer->v = hwq_pinned(g, AORTA_F32, state->count, false, "v");
    if (g->status) return;
    layer->step = (struct aorta_step_state){.lr = rate, .finite = 1, .grad_factor = 1.0f};
    layer->pool = state->pool;
    hwq_fail(g, aorta_hwq_values(g->hwq, 10 * (uint64_t)(l + 1), 0, state->count, 1.0f / sqrtf((float)o->width),
                                 hwq_floats(layer->parameters)));
}

static void end_pool(void *pool) {
    aorta_hwq_thread_pool_destroy(pool);
}

static void make_tensors(struct hwq_graph *g, struct state *state) {
    const struct options *o = g->options;
    state->count = 2 * (o->width * o->width + o->width);
    hwq_fail(g, aorta_hwq_thread_pool_create(o->threads ? (int)o->threads : (int)aorta_parallel_width(), &state->pool));
    if (state->pool) hwq_owns(g, end_pool, state->pool);
    for (int i = 0; i < 2; i++) {
        state->slots[i] = hwq_result(g, AORTA_F32, 1, state->count, "parameters of a layer");
        state->gradients[i] = hwq_result(g, AORTA_F32, 1, state->count, "gradients of a layer");
    }
    for (int64_t l = 0; l < o->layers; l++) make_layer(g, state, l);
}

static void fetch(struct hwq_graph *g, const struct state *state, int64_t l) {
    hwq_copy(hwq_into(g, state->slots[l % 2]), hwq_stream(g, FETCH, ROLES, l), state->layers[l].parameters);
}

static struct pair pair_of(const struct hwq_graph *g, const struct state *state, int64_t l) {
    const int64_t width = ((const struct options *)g->options)->width;
    const struct hwq_tensor weights = state->slots[l % 2], gradients = state->gradients[l % 2];
    int64_t used = 0;
    struct pair p = {.first = hwq_layer_in(weights, gradients, &used, width, width, true, 1)};
    p.second = hwq_layer_in(weights, gradients, &used, width, width, true, 1);
    return p;
}

static void forward(struct hwq_graph *g, struct state *state, int64_t l) {
    struct layer *layer = &state->layers[l];
    const struct pair p = pair_of(g, state, l);
    const int s = hwq_stream(g, COMPUTE, ROLES, l);
    if (l > 0) layer->x = layer[-1].y;
    layer->hidden = hwq_linear_relu(g, s, &p.first, layer->x, false);
    layer->y = hwq_linear(g, s, &p.second, layer->hidden);
}

/* Returns the gradient of the layer's input. */
static struct hwq_tensor backward(struct hwq_graph *g, const struct state *state, int64_t l, struct hwq_tensor dy) {
    const struct layer *layer = &state->layers[l];
    const struct pair p = pair_of(g, state, l);
    const int s = hwq_stream(g, COMPUTE, ROLES, l);
    const struct hwq_tensor dhidden = hwq_linear_input(g, s, &p.second, dy);
    hwq_relu_backward(g, s, layer->hidden, dhidden);
    const struct hwq_tensor dx = hwq_linear_input(g, s, &p.first, dhidden);
    hwq_linear_weight(g, s, &p.second, layer->hidden, dy, false);
    hwq_linear_weight(g, s, &p.first, layer->x, dhidden, false);
    return dx;
}

static void update(struct hwq_graph *g, struct state *state, int64_t l) {
    struct layer *layer = &state->layers[l];
    hwq_copy(hwq_into(g, layer->gradients), hwq_stream(g, OFFLOAD, ROLES, l), state->gradients[l % 2]);
    const struct hwq_operation o = {.kind = &adamw,
                                    .stream = hwq_stream(g, OPTIMIZE, ROLES, l),
                                    .in = {layer->parameters, layer->m, layer->v, layer->gradients},
                                    .out = {layer->parameters, layer->m, layer->v}};
    hwq_append(g, &o, &layer, sizeof layer);
}

static void build(struct hwq_graph *g) {
    const struct options *o = g->options;
    struct state *state = g->state = hwq_state(g, sizeof *state);
    if (!state) return;
    make_tensors(g, state);
    if (g->status) return;
    g->work = (double)o->batch;
    state->layers[0].x = hwq_input(g, 1, o->batch, o->width, 1.0f, "input");
    fetch(g, state, 0);
    for (int64_t l = 0; l < o->layers; l++) {
        if (l + 1 < o->layers) fetch(g, state, l + 1);
        forward(g, state, l);
    }
    struct hwq_tensor dy = state->layers[o->layers - 1].y;
    for (int64_t l = o->layers - 1; l >= 0; l--) { /* the last two layers are still in memory */
        dy = backward(g, state, l, dy);
        if (l >= 2) fetch(g, state, l - 2);
        update(g, state, l);
    }
}

/* ---- figures ---- */

static aorta_status start(struct hwq_graph *g) {
    struct state *state = g->state;
    state->spent_ns = aorta_hwq_thread_pool_busy_ns(state->pool);
    state->updates = state->layers[0].step.updates;
    return NULL;
}

/* The optimizer reads four floats of each parameter and writes three. */
static aorta_status report(struct hwq_graph *g, struct aorta_hwq_result *result) {
    const struct state *state = g->state;
    const struct options *o = g->options;
    const double iterations = (double)(state->layers[0].step.updates - state->updates);
    const double ms = (double)(aorta_hwq_thread_pool_busy_ns(state->pool) - state->spent_ns) * 1e-6 / iterations;
    const double gigabytes = 7.0 * sizeof(float) * (double)(o->layers * state->count) * 1e-9;
    const char *const reason = "no iteration was measured";
    aorta_hwq_result_figure(result, "optimizer", "ms", ms, reason);
    aorta_hwq_result_figure(result, "optimizer_memory_rate", "GB/s", gigabytes / (ms * 1e-3), reason);
    return NULL;
}

static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, layers, "4", NULL, 1, MOST_LAYERS, "layers, of two linear ones each"),
    AORTA_HWQ_ROW(struct options, width, "4096", "512", 1, 32768, "width of all of them"),
    AORTA_HWQ_ROW(struct options, batch, "16", NULL, 1, HWQ_LARGEST, "samples"),
    AORTA_HWQ_ROW(struct options, threads, "0", NULL, 0, 256,
                  "threads of the optimizer; 0: one for each processor, 16 at most"),
};

const struct aorta_hwq_workload aorta_hwq_zero_offload = {
    .name = "zero_offload",
    .summary = "copies both ways and the host's optimizer run during the layers; the slowest of the three limits",
    .group = AORTA_HWQ_P3,
    .category = "pipeline",
    .sensitivity = "medium",
    .streams = {.min = 4, .max = 12, .recommended = 6},
    .unit = "samples/s",
    AORTA_HWQ_OPTIONS(rows, struct options),
    .try_next = "--threads shows the cost of the optimizer; with --width 1024 copies matter more",
    .roles = roles,
    .start = start,
    .report = report,
    .build = build,
};
