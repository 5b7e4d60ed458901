/* Gradient accumulation: micro-batches run forward and backward and add up their gradients, and the reduction of the
 * first half of the parameters begins when half of the micro-batches are done.
 *
 * Streams: the last quarter (one at least) reduces, the others compute; micro-batch m runs on compute stream m modulo
 * their number, and adds to each gradient after micro-batch m − 1. The sums of the first half of the micro-batches for
 * the first parameters are reduced while the others add to a second sum; the rest is reduced after the last
 * micro-batch. Each reduction is followed, on its stream, by the step of its parameters (SGD) into a second copy, so
 * that every iteration starts from the same ones. */
#include "hwq/verify.h"

#include <math.h>

enum { LAYERS = 3, MOST_MICRO = 64, EARLY = 2 }; /* of the layers, the first EARLY are reduced early */

struct options {
    int64_t micro, batch, in, hidden, classes;
};

struct micro {
    float *x, *y[LAYERS], *dy[LAYERS], *losses;
    int64_t *labels;
    struct aorta_event *added[LAYERS]; /* its gradients of a layer are in the sum */
};

/* Gradients of all layers one after the other, as a layer's dweight and dbias; the first EARLY come first. */
struct sums {
    float *memory;
    struct aorta_hwq_layer layers[LAYERS];
};

struct state {
    struct aorta_hwq_layer layers[LAYERS];
    float *parameters[LAYERS]; /* after the step: weight, then bias */
    struct sums first, second; /* of the first half of the micro-batches and of the second */
    struct micro micro[MOST_MICRO];
    struct aorta_event *early;
    int64_t early_count, count; /* elements of the first EARLY layers, and of all */
    struct aorta_hwq_results results;
};

static const float rate = 0.01f;

static int reducers(const struct aorta_hwq *hwq) {
    return hwq->stream_count >= 8 ? hwq->stream_count / 4 : 1;
}

static int compute_stream(const struct aorta_hwq *hwq, int64_t micro) {
    return (int)(micro % (hwq->stream_count - reducers(hwq)));
}

static int reduce_stream(const struct aorta_hwq *hwq, int index) {
    return hwq->stream_count - 1 - index % reducers(hwq);
}

static const char *role(const struct aorta_hwq *hwq, int stream) {
    return stream < hwq->stream_count - reducers(hwq) ? "compute" : "all-reduce";
}

static aorta_status setup_sums(struct aorta_hwq *hwq, struct state *state, struct sums *sums) {
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, state->count, "gradients", &sums->memory));
    float *next = sums->memory;
    for (int l = 0; l < LAYERS; l++) {
        struct aorta_hwq_layer *layer = &sums->layers[l];
        *layer = state->layers[l];
        layer->dweight = next;
        layer->dbias = next + layer->in * layer->out;
        next = layer->dbias + layer->out;
    }
    return NULL;
}

static aorta_status setup_micro(struct aorta_hwq *hwq, struct state *state, int64_t index) {
    const struct options *o = hwq->options;
    struct micro *m = &state->micro[index];
    void *labels;
    int64_t values[1 << 10];
    AORTA_TRY(aorta_hwq_input(hwq, 1000 + (uint64_t)index, o->batch * o->in, 1.0f, "input", &m->x));
    for (int l = 0; l < LAYERS; l++) {
        const int64_t count = o->batch * state->layers[l].out;
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, count, "activations", &m->y[l]));
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, count, "their gradients", &m->dy[l]));
        AORTA_TRY(aorta_hwq_event(hwq, &m->added[l]));
    }
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, o->batch, "losses", &m->losses));
    AORTA_TRY(aorta_hwq_alloc(hwq, (size_t)o->batch * sizeof *values, "labels", &labels));
    for (int64_t i = 0; i < o->batch; i++) values[i] = (index * 131 + i * 37) % o->classes;
    m->labels = labels;
    return aorta_hwq_upload(hwq, labels, values, (size_t)o->batch * sizeof *values);
}

static aorta_status setup(struct aorta_hwq *hwq, void **made) {
    const struct options *o = hwq->options;
    const int64_t widths[LAYERS + 1] = {o->in, o->hidden, o->hidden, o->classes};
    AORTA_TRY(aorta_hwq_state(hwq, sizeof(struct state), made));
    struct state *state = *made;
    for (int l = 0; l < LAYERS; l++) {
        const int64_t count = widths[l] * widths[l + 1] + widths[l + 1];
        AORTA_TRY(
            aorta_hwq_layer_make(hwq, 10 * (uint64_t)(l + 1), widths[l], widths[l + 1], false, &state->layers[l]));
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, count, "parameters", &state->parameters[l]));
        state->count += count;
        if (l < EARLY) state->early_count += count;
    }
    AORTA_TRY(setup_sums(hwq, state, &state->first));
    AORTA_TRY(setup_sums(hwq, state, &state->second));
    for (int64_t m = 0; m < o->micro; m++) AORTA_TRY(setup_micro(hwq, state, m));
    return aorta_hwq_event(hwq, &state->early);
}

/* Which sum a micro-batch adds to for a layer, and whether it is the first to do so. The late layers have one sum. */
static struct sums *sums_of(struct state *state, const struct options *o, int64_t index, int layer, bool *begins) {
    const int64_t half = (o->micro + 1) / 2;
    const bool second = layer < EARLY && index >= half;
    *begins = index == 0 || (second && index == half);
    return second ? &state->second : &state->first;
}

static aorta_status add_gradients(struct aorta_hwq *hwq, struct state *state, int64_t index, int l, const float *x) {
    const struct options *o = hwq->options;
    struct micro *m = &state->micro[index];
    const int s = compute_stream(hwq, index);
    bool begins;
    const struct sums *sums = sums_of(state, o, index, l, &begins);
    if (!begins) AORTA_TRY(aorta_stream_wait(hwq->streams[s], state->micro[index - 1].added[l]));
    AORTA_TRY(aorta_hwq_linear_weight(hwq, s, &sums->layers[l], o->batch, x, m->dy[l], !begins));
    return aorta_event_record(m->added[l], hwq->streams[s]);
}

static aorta_status run_micro(struct aorta_hwq *hwq, struct state *state, int64_t index) {
    const struct options *o = hwq->options;
    struct micro *m = &state->micro[index];
    const int s = compute_stream(hwq, index);
    const float weight = 1.0f / (float)(o->micro * o->batch * aorta_comm_size(hwq->world));
    for (int l = 0; l < LAYERS - 1; l++)
        AORTA_TRY(
            aorta_hwq_linear_relu(hwq, s, &state->layers[l], o->batch, l == 0 ? m->x : m->y[l - 1], m->y[l], false));
    AORTA_TRY(aorta_hwq_linear(hwq, s, &state->layers[LAYERS - 1], o->batch, m->y[LAYERS - 2], m->y[LAYERS - 1]));
    AORTA_TRY(aorta_hwq_cross_entropy(hwq, s, o->batch, o->classes, m->y[LAYERS - 1], m->labels, weight, m->losses,
                                      m->dy[LAYERS - 1]));
    for (int l = LAYERS - 1; l >= 0; l--) {
        const int64_t count = o->batch * state->layers[l].in;
        AORTA_TRY(add_gradients(hwq, state, index, l, l == 0 ? m->x : m->y[l - 1]));
        if (l == 0) break;
        AORTA_TRY(aorta_hwq_linear_input(hwq, s, &state->layers[l], o->batch, m->dy[l], m->dy[l - 1], false));
        AORTA_TRY(aorta_hwq_relu_backward(hwq, s, count, m->y[l - 1], m->dy[l - 1], m->dy[l - 1]));
    }
    return NULL;
}

/* Gradients of a layer in `sums` into the new parameters, which start from the old ones. */
static aorta_status step(struct aorta_hwq *hwq, int s, const struct state *state, const struct sums *sums, int l,
                         bool begins) {
    const struct aorta_hwq_layer *layer = &state->layers[l];
    const int64_t weights = layer->in * layer->out;
    float *to = state->parameters[l];
    if (begins) {
        AORTA_TRY(aorta_hwq_copy(hwq, s, to, layer->weight, (size_t)weights * sizeof(float)));
        AORTA_TRY(aorta_hwq_copy(hwq, s, to + weights, layer->bias, (size_t)layer->out * sizeof(float)));
    }
    return aorta_hwq_add(hwq, s, to, sums->layers[l].dweight, weights + layer->out, -rate);
}

/* The sums of the first half of the micro-batches for the first layers. */
static aorta_status reduce_early(struct aorta_hwq *hwq, struct state *state, int64_t last) {
    const int s = reduce_stream(hwq, 0);
    for (int l = 0; l < EARLY; l++) AORTA_TRY(aorta_stream_wait(hwq->streams[s], state->micro[last].added[l]));
    AORTA_TRY(aorta_hwq_all_reduce(hwq, s, hwq->world, state->first.memory, state->early_count));
    for (int l = 0; l < EARLY; l++) AORTA_TRY(step(hwq, s, state, &state->first, l, true));
    return aorta_event_record(state->early, hwq->streams[s]);
}

/* The rest, after the early reduction: a group of ranks runs one collective at a time. */
static aorta_status reduce_late(struct aorta_hwq *hwq, struct state *state, int64_t last, bool second) {
    const int s = reduce_stream(hwq, 1);
    AORTA_TRY(aorta_stream_wait(hwq->streams[s], state->early));
    for (int l = 0; l < LAYERS; l++) AORTA_TRY(aorta_stream_wait(hwq->streams[s], state->micro[last].added[l]));
    AORTA_TRY(aorta_hwq_all_reduce(hwq, s, hwq->world, state->first.memory + state->early_count,
                                   state->count - state->early_count));
    for (int l = EARLY; l < LAYERS; l++) AORTA_TRY(step(hwq, s, state, &state->first, l, true));
    if (!second) return NULL;
    AORTA_TRY(aorta_hwq_all_reduce(hwq, s, hwq->world, state->second.memory, state->early_count));
    for (int l = 0; l < EARLY; l++) AORTA_TRY(step(hwq, s, state, &state->second, l, false));
    return NULL;
}

static aorta_status iterate(struct aorta_hwq *hwq, void *opaque) {
    struct state *state = opaque;
    const struct options *o = hwq->options;
    const int64_t half = (o->micro + 1) / 2;
    for (int64_t m = 0; m < o->micro; m++) {
        AORTA_TRY(run_micro(hwq, state, m));
        if (m == half - 1) AORTA_TRY(reduce_early(hwq, state, m));
    }
    return reduce_late(hwq, state, o->micro - 1, o->micro > half);
}

static aorta_status work(struct aorta_hwq *hwq, void *state, int64_t iterations, double *amount) {
    const struct options *o = hwq->options;
    (void)state;
    *amount = (double)(iterations * o->micro * o->batch);
    return NULL;
}

/* ---- verification ---- */

static aorta_status verify_micro(struct aorta_hwq_verifier *verifier, const struct state *state,
                                 const struct micro *m) {
    const struct options *o = verifier->hwq->options;
    for (int l = 0; l < LAYERS; l++)
        AORTA_TRY(aorta_hwq_verify_linear(verifier, "activation", &state->layers[l], o->batch, l ? m->y[l - 1] : m->x,
                                          m->y[l], l < LAYERS - 1 ? AORTA_HWQ_RELU : AORTA_HWQ_PLAIN, AORTA_HWQ_FP32));
    const float *logits, *slope;
    AORTA_TRY(aorta_hwq_fetch(verifier, m->y[LAYERS - 1], o->batch * o->classes, &logits));
    AORTA_TRY(aorta_hwq_fetch(verifier, m->dy[LAYERS - 1], o->batch * o->classes, &slope));
    const void *labels;
    AORTA_TRY(aorta_hwq_fetch_bytes(verifier, m->labels, (size_t)o->batch * sizeof(int64_t), &labels));
    const double weight = 1.0 / (double)(o->micro * o->batch * aorta_comm_size(verifier->hwq->world));
    for (int64_t i = 0; i < aorta_hwq_sample_count(o->batch * o->classes); i++) {
        const int64_t at = aorta_hwq_sample(i, o->batch * o->classes), row = at / o->classes;
        double sum = 0.0;
        for (int64_t c = 0; c < o->classes; c++) sum += exp((double)logits[row * o->classes + c] - (double)logits[at]);
        const bool hit = ((const int64_t *)labels)[row] == at % o->classes;
        aorta_hwq_compare(verifier->check, (double)slope[at], weight * (1.0 / sum - (hit ? 1.0 : 0.0)), 1e-6 * weight,
                          1e-5, "gradient of the loss[%lld]", (long long)at);
    }
    return NULL;
}

/* dy of the layer below = relu'(y) · dy·weight. */
static aorta_status verify_slopes(struct aorta_hwq_verifier *verifier, const struct state *state, const struct micro *m,
                                  int l) {
    const struct options *o = verifier->hwq->options;
    const struct aorta_hwq_layer *layer = &state->layers[l];
    const float *dy, *weight, *y, *dx;
    AORTA_TRY(aorta_hwq_fetch(verifier, m->dy[l], o->batch * layer->out, &dy));
    AORTA_TRY(aorta_hwq_fetch(verifier, layer->weight, layer->in * layer->out, &weight));
    AORTA_TRY(aorta_hwq_fetch(verifier, m->y[l - 1], o->batch * layer->in, &y));
    AORTA_TRY(aorta_hwq_fetch(verifier, m->dy[l - 1], o->batch * layer->in, &dx));
    for (int64_t i = 0; i < aorta_hwq_sample_count(o->batch * layer->in); i++) {
        const int64_t at = aorta_hwq_sample(i, o->batch * layer->in), row = at / layer->in, column = at % layer->in;
        double sum = 0.0, magnitude = 0.0;
        for (int64_t k = 0; k < layer->out; k++) {
            const double product = (double)dy[row * layer->out + k] * (double)weight[k * layer->in + column];
            sum += product;
            magnitude += fabs(product);
        }
        aorta_hwq_compare(verifier->check, (double)dx[at], y[at] > 0.0f ? sum : 0.0, AORTA_HWQ_FP32 * magnitude + 1e-30,
                          0, "gradient of an activation[%lld]", (long long)at);
    }
    return NULL;
}

/* New parameters against old ones less the rate times all gradients, summed here over the micro-batches. Ranks have the
 * same inputs, so that their sum is `size` times our own. */
static aorta_status verify_step(struct aorta_hwq_verifier *verifier, const struct state *state, int l) {
    const struct options *o = verifier->hwq->options;
    const struct aorta_hwq_layer *layer = &state->layers[l];
    const int64_t count = layer->in * layer->out;
    const float *old, *new, *x[MOST_MICRO], *dy[MOST_MICRO];
    AORTA_TRY(aorta_hwq_fetch(verifier, layer->weight, count, &old));
    AORTA_TRY(aorta_hwq_fetch(verifier, state->parameters[l], count, &new));
    for (int64_t m = 0; m < o->micro; m++) {
        const struct micro *micro = &state->micro[m];
        AORTA_TRY(aorta_hwq_fetch(verifier, l ? micro->y[l - 1] : micro->x, o->batch * layer->in, &x[m]));
        AORTA_TRY(aorta_hwq_fetch(verifier, micro->dy[l], o->batch * layer->out, &dy[m]));
    }
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t at = aorta_hwq_sample(i, count), row = at / layer->in, column = at % layer->in;
        double sum = 0.0;
        for (int64_t m = 0; m < o->micro; m++)
            for (int64_t b = 0; b < o->batch; b++)
                sum += (double)dy[m][b * layer->out + row] * (double)x[m][b * layer->in + column];
        sum *= (double)aorta_comm_size(verifier->hwq->world);
        /* Both are much smaller than the parameter: compare the change. */
        const double change = -(double)rate * sum;
        aorta_hwq_compare(verifier->check, (double)new[at] - (double)old[at], change,
                          2e-7 * fabs((double)old[at]) + 1e-9, 1e-4, "change of a weight[%lld, %lld]", (long long)row,
                          (long long)column);
    }
    return NULL;
}

static aorta_status compare(struct aorta_hwq_verifier *verifier, void *opaque) {
    const struct state *state = opaque;
    const struct options *o = verifier->hwq->options;
    for (int64_t m = 0; m < o->micro; m++) {
        AORTA_TRY(verify_micro(verifier, state, &state->micro[m]));
        for (int l = LAYERS - 1; l > 0; l--) AORTA_TRY(verify_slopes(verifier, state, &state->micro[m], l));
    }
    for (int l = 0; l < LAYERS; l++) AORTA_TRY(verify_step(verifier, state, l));
    return NULL;
}

static aorta_status verify(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_check *check) {
    return aorta_hwq_verify_iteration(hwq, check, &((struct state *)opaque)->results, opaque, iterate, compare);
}

static const struct aorta_range_limits micro_count = {.min = 1, .max = MOST_MICRO},
                                       batch_size = {.min = 1, .max = 1024};
static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, micro, "4", micro_count, "micro-batches that add up to a step"),
    AORTA_HWQ_ROW(struct options, batch, "32", batch_size, "samples of a micro-batch"),
    AORTA_HWQ_ROW(struct options, in, "1024", aorta_hwq_sizes, "width of the input"),
    AORTA_HWQ_ROW(struct options, hidden, "2048", aorta_hwq_sizes, "width of the two hidden layers"),
    AORTA_HWQ_ROW(struct options, classes, "1000", aorta_hwq_sizes, "classes, the width of the output"),
};

static const struct aorta_hwq_size on_cpu[] = {{"in", "256"}, {"hidden", "512"}, {0}};

const struct aorta_hwq_workload aorta_hwq_grad_accum = {
    .name = "grad_accum",
    .summary = "reductions of finished gradients run beside micro-batches that are still computing",
    .group = AORTA_HWQ_P2,
    .category = AORTA_HWQ_DISTRIBUTED,
    .sensitivity = AORTA_HWQ_MEDIUM,
    .min_streams = 2,
    .max_streams = 16,
    .recommended_streams = 6,
    .unit = "samples/s",
    .collectives = true,
    .options = rows,
    .option_count = sizeof rows / sizeof *rows,
    .option_bytes = sizeof(struct options),
    .on_cpu = on_cpu,
    .try_next = "with --streams 2 all micro-batches share a stream: the difference is the gain of parallel streams",
    .role = role,
    .setup = setup,
    .iterate = iterate,
    .work = work,
    .verify = verify,
};
