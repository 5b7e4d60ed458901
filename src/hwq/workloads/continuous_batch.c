/* Continuous batching of inference: new prompts are processed (prefill, bound by arithmetic) beside sequences that get
 * one more token each (decode, bound by reading their caches), then the caches are updated.
 *
 * Streams: a quarter for prefill (at most one for each prompt), a quarter for the updates of caches, the rest for
 * decoding; prompts and sequences are distributed over them. A layer is y = norm(x + attention(x)), the same weights
 * for both. Caches are rings: a new position takes the place of the oldest, so that every iteration does the same work.
 */
#include "hwq/verify.h"

#include <math.h>

enum { MOST_LAYERS = 64, MOST_GROUPS = AORTA_HWQ_MAX_STREAMS };

struct options {
    int64_t layers, width, heads, prompts, positions, sequences, window;
};

struct layer {
    struct aorta_hwq_layer qkv, out;
    struct aorta_hwq_norm norm;
};

/* A prompt, or the sequences of one decoding stream: `rows` = its new positions times its sequences. */
struct group {
    struct aorta_cache cache;
    int64_t rows, *positions;
    float *x, *qkv; /* [rows, E], [layers, rows, 3E] */
    float *scores;  /* prompts: [heads, positions, positions] */
    float *context[MOST_LAYERS], *made[MOST_LAYERS], *y[MOST_LAYERS];
    float *keys, *values; /* [layers, sequences, window, E] */
    struct aorta_hwq_norm_saved norm[MOST_LAYERS];
    struct aorta_event *done;
    struct aorta_hwq_sequence before; /* verification: the last sequence in the last layer */
};

struct state {
    struct layer layers[MOST_LAYERS];
    struct group prompts[MOST_GROUPS], decoding[MOST_GROUPS];
    int64_t decoding_count;
    struct aorta_hwq_results results;
};

static int prefill_streams(const struct aorta_hwq *hwq) {
    const int64_t prompts = ((const struct options *)hwq->options)->prompts;
    return hwq->stream_count / 4 < prompts ? hwq->stream_count / 4 : (int)prompts;
}
static int update_streams(const struct aorta_hwq *hwq) {
    return hwq->stream_count / 4;
}
static int decode_streams(const struct aorta_hwq *hwq) {
    return hwq->stream_count - prefill_streams(hwq) - update_streams(hwq);
}
static int prompt_stream(const struct aorta_hwq *hwq, int64_t prompt) {
    return (int)(prompt % prefill_streams(hwq));
}
static int decode_stream(const struct aorta_hwq *hwq, int64_t group) {
    return prefill_streams(hwq) + (int)group;
}
static int update_stream(const struct aorta_hwq *hwq, int64_t index) {
    return hwq->stream_count - 1 - (int)(index % update_streams(hwq));
}

static const char *role(const struct aorta_hwq *hwq, int stream) {
    if (stream < prefill_streams(hwq)) return "prefill";
    return stream < hwq->stream_count - update_streams(hwq) ? "decode" : "cache update";
}

static aorta_status check(const struct aorta_hwq *hwq) {
    const struct options *o = hwq->options;
    if (o->width % o->heads || o->width / o->heads > 128)
        return AORTA_ERROR(AORTA_USAGE,
                           "continuous_batch: %lld heads of a width of %lld; heads must divide it, into 128 at most",
                           (long long)o->heads, (long long)o->width);
    if (o->positions <= o->window) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "continuous_batch: prompts of %lld positions do not fit a window of %lld",
                       (long long)o->positions, (long long)o->window);
}

/* ---- setup ---- */

static aorta_status setup_group(struct aorta_hwq *hwq, struct state *state, struct group *g, int64_t sequences,
                                int64_t fresh, uint64_t id) {
    const struct options *o = hwq->options;
    g->cache = (struct aorta_cache){o->layers, sequences, o->window, o->heads, o->width / o->heads, fresh};
    g->rows = sequences * fresh;
    const int64_t cached = o->layers * sequences * o->window * o->width;
    AORTA_TRY(aorta_hwq_input(hwq, id, g->rows * o->width, 1.0f, "input", &g->x));
    AORTA_TRY(aorta_hwq_input(hwq, id + 1, cached, 1.0f, "keys", &g->keys));
    AORTA_TRY(aorta_hwq_input(hwq, id + 2, cached, 1.0f, "values", &g->values));
    AORTA_TRY(
        aorta_hwq_output(hwq, &state->results, o->layers * g->rows * 3 * o->width, "queries, keys, values", &g->qkv));
    for (int64_t l = 0; l < o->layers; l++) {
        float **const wide[] = {&g->context[l], &g->made[l], &g->norm[l].sum, &g->y[l]};
        for (int i = 0; i < 4; i++)
            AORTA_TRY(aorta_hwq_output(hwq, &state->results, g->rows * o->width, "activations", wide[i]));
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, g->rows, "statistics", &g->norm[l].mean));
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, g->rows, "statistics", &g->norm[l].rstd));
    }
    void *positions;
    int64_t full[1 << 10];
    for (int64_t i = 0; i < sequences; i++) full[i] = fresh > 1 ? 0 : o->window; /* prompts begin, others go on */
    AORTA_TRY(aorta_hwq_alloc(hwq, (size_t)sequences * sizeof *full, "positions", &positions));
    AORTA_TRY(aorta_hwq_upload(hwq, positions, full, (size_t)sequences * sizeof *full));
    g->positions = positions;
    return aorta_hwq_event(hwq, &g->done);
}

static aorta_status setup(struct aorta_hwq *hwq, void **made) {
    const struct options *o = hwq->options;
    AORTA_TRY(aorta_hwq_state(hwq, sizeof(struct state), made));
    struct state *state = *made;
    for (int64_t l = 0; l < o->layers; l++) {
        const uint64_t id = 10 * (uint64_t)(l + 1);
        AORTA_TRY(aorta_hwq_layer_make(hwq, id, o->width, 3 * o->width, false, &state->layers[l].qkv));
        AORTA_TRY(aorta_hwq_layer_make(hwq, id + 2, o->width, o->width, false, &state->layers[l].out));
        AORTA_TRY(aorta_hwq_norm_make(hwq, id + 4, o->width, false, &state->layers[l].norm));
    }
    for (int64_t p = 0; p < o->prompts; p++) {
        AORTA_TRY(setup_group(hwq, state, &state->prompts[p], 1, o->positions, 10000 + 10 * (uint64_t)p));
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, o->heads * o->positions * o->positions, "attention weights",
                                   &state->prompts[p].scores));
    }
    const int64_t streams = decode_streams(hwq);
    state->decoding_count = streams < o->sequences ? streams : o->sequences;
    for (int64_t g = 0; g < state->decoding_count; g++) {
        const int64_t first = o->sequences * g / state->decoding_count;
        const int64_t end = o->sequences * (g + 1) / state->decoding_count;
        AORTA_TRY(setup_group(hwq, state, &state->decoding[g], end - first, 1, 20000 + 10 * (uint64_t)g));
    }
    return NULL;
}

/* ---- one iteration ---- */

static float *qkv_of(const struct options *o, const struct group *g, int64_t l) {
    return g->qkv + l * g->rows * 3 * o->width;
}

/* All heads of a prompt: scores = q·kᵀ, context = weights·v. */
static struct aorta_products prompt_products(const struct options *o, bool scores) {
    const int64_t t = o->positions, dim = o->width / o->heads, row = 3 * o->width;
    if (scores)
        return (struct aorta_products){.batch = o->heads,
                                       .m = t,
                                       .n = t,
                                       .k = dim,
                                       .transpose_b = true,
                                       .lda = row,
                                       .ldb = row,
                                       .ldc = t,
                                       .a_batch = dim,
                                       .b_batch = dim,
                                       .c_batch = t * t};
    return (struct aorta_products){.batch = o->heads,
                                   .m = t,
                                   .n = dim,
                                   .k = t,
                                   .lda = t,
                                   .ldb = row,
                                   .ldc = o->width,
                                   .a_batch = t * t,
                                   .b_batch = dim,
                                   .c_batch = dim};
}

static struct aorta_softmax prompt_softmax(const struct options *o) {
    const int64_t dim = o->width / o->heads;
    return (struct aorta_softmax){
        .rows = o->heads * o->positions, .width = o->positions, .scale = 1.0f / sqrtf((float)dim), .causal = true};
}

static aorta_status prompt_attention(struct aorta_hwq *hwq, int s, const struct group *g, const float *qkv,
                                     float *context) {
    const struct options *o = hwq->options;
    const struct aorta_products scores = prompt_products(o, true), sum = prompt_products(o, false);
    AORTA_TRY(aorta_hwq_products(hwq, s, &scores, qkv, qkv + o->width, g->scores));
    AORTA_TRY(aorta_hwq_softmax(hwq, s, prompt_softmax(o), g->scores, g->scores));
    return aorta_hwq_products(hwq, s, &sum, g->scores, qkv + 2 * o->width, context);
}

static aorta_status decode_attention(struct aorta_hwq *hwq, int s, const struct group *g, int64_t l) {
    const struct options *o = hwq->options;
    const int64_t first = l * g->cache.batch * o->window * o->width;
    return aorta_hwq_attend(hwq, s, &g->cache, 0, 1, qkv_of(o, g, l), g->keys + first, g->values + first, g->positions,
                            g->context[l]);
}

static aorta_status run_layer(struct aorta_hwq *hwq, int s, const struct state *state, const struct group *g,
                              int64_t l) {
    const struct options *o = hwq->options;
    const struct layer *layer = &state->layers[l];
    const float *x = l == 0 ? g->x : g->y[l - 1];
    AORTA_TRY(aorta_hwq_linear(hwq, s, &layer->qkv, g->rows, x, qkv_of(o, g, l)));
    AORTA_TRY(g->scores ? prompt_attention(hwq, s, g, qkv_of(o, g, l), g->context[l]) : decode_attention(hwq, s, g, l));
    AORTA_TRY(aorta_hwq_linear(hwq, s, &layer->out, g->rows, g->context[l], g->made[l]));
    return aorta_hwq_norm_forward(hwq, s, &layer->norm, g->rows, g->made[l], x, &g->norm[l], g->y[l]);
}

static aorta_status update(struct aorta_hwq *hwq, struct group *g, int64_t index, int from) {
    const int s = update_stream(hwq, index);
    AORTA_TRY(aorta_hwq_after(hwq, s, g->done, from));
    AORTA_TRY(aorta_hwq_append(hwq, s, &g->cache, g->qkv, g->keys, g->values, g->positions, NULL));
    return g->scores ? NULL : aorta_hwq_advance(hwq, s, g->cache.batch, g->positions, NULL, 1);
}

/* Layer by layer, so that neither side waits for the host to have queued the other. */
static aorta_status iterate(struct aorta_hwq *hwq, void *opaque) {
    struct state *state = opaque;
    const struct options *o = hwq->options;
    for (int64_t l = 0; l < o->layers; l++) {
        for (int64_t g = 0; g < state->decoding_count; g++)
            AORTA_TRY(run_layer(hwq, decode_stream(hwq, g), state, &state->decoding[g], l));
        for (int64_t p = 0; p < o->prompts; p++)
            AORTA_TRY(run_layer(hwq, prompt_stream(hwq, p), state, &state->prompts[p], l));
    }
    for (int64_t g = 0; g < state->decoding_count; g++)
        AORTA_TRY(update(hwq, &state->decoding[g], g, decode_stream(hwq, g)));
    for (int64_t p = 0; p < o->prompts; p++)
        AORTA_TRY(update(hwq, &state->prompts[p], state->decoding_count + p, prompt_stream(hwq, p)));
    return NULL;
}

static aorta_status work(struct aorta_hwq *hwq, void *state, int64_t iterations, double *amount) {
    const struct options *o = hwq->options;
    (void)state;
    *amount = (double)(iterations * (o->prompts * o->positions + o->sequences));
    return NULL;
}

/* ---- verification ---- */

static aorta_status verify_attention(struct aorta_hwq_verifier *verifier, const struct group *g, int64_t l) {
    const struct options *o = verifier->hwq->options;
    const bool last = l == o->layers - 1;
    if (!g->scores && last)
        return aorta_hwq_verify_attend(verifier, "decoding", &g->cache, 0, 1, g->cache.batch - 1, &g->before,
                                       qkv_of(o, g, l), g->context[l]);
    if (!g->scores || !last) return NULL; /* the weights are the last layer's */
    const struct aorta_products sum = prompt_products(o, false);
    AORTA_TRY(aorta_hwq_verify_products(verifier, "context of a prompt", &sum, g->scores,
                                        qkv_of(o, g, l) + 2 * o->width, g->context[l]));
    const float *qkv, *weights;
    const int64_t t = o->positions, dim = o->width / o->heads, count = o->heads * t * t;
    AORTA_TRY(aorta_hwq_fetch(verifier, qkv_of(o, g, l), t * 3 * o->width, &qkv));
    AORTA_TRY(aorta_hwq_fetch(verifier, g->scores, count, &weights));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t at = aorta_hwq_sample(i, count), head = at / (t * t), row = at / t % t, key = at % t;
        const float *q = qkv + row * 3 * o->width + head * dim;
        double sum_of_all = 0.0, own = 0.0;
        for (int64_t j = -1; j <= row; j++) { /* first the queried key */
            double score = 0.0;
            const float *k = qkv + (j < 0 ? key : j) * 3 * o->width + o->width + head * dim;
            for (int64_t d = 0; d < dim; d++) score += (double)q[d] * (double)k[d] / sqrt((double)dim);
            if (j < 0)
                own = score;
            else
                sum_of_all += exp(score - own);
        }
        aorta_hwq_compare(verifier->check, (double)weights[at], key <= row ? 1.0 / sum_of_all : 0.0, 1e-7, 3e-5,
                          "weight %lld of a prompt", (long long)at);
    }
    return NULL;
}

static aorta_status verify_group(struct aorta_hwq_verifier *verifier, const struct state *state,
                                 const struct group *g) {
    const struct options *o = verifier->hwq->options;
    for (int64_t l = 0; l < o->layers; l++) {
        const struct layer *layer = &state->layers[l];
        AORTA_TRY(aorta_hwq_verify_linear(verifier, "queries, keys, values", &layer->qkv, g->rows,
                                          l ? g->y[l - 1] : g->x, qkv_of(o, g, l), AORTA_HWQ_PLAIN, AORTA_HWQ_FP32));
        AORTA_TRY(verify_attention(verifier, g, l));
        AORTA_TRY(aorta_hwq_verify_linear(verifier, "attention", &layer->out, g->rows, g->context[l], g->made[l],
                                          AORTA_HWQ_PLAIN, AORTA_HWQ_FP32));
        AORTA_TRY(aorta_hwq_verify_norm(verifier, "norm", &layer->norm, g->rows, g->norm[l].sum, g->y[l]));
    }
    return aorta_hwq_verify_append(verifier, &g->cache, o->layers - 1, g->cache.batch - 1, g->cache.fresh - 1,
                                   g->before.position + g->cache.fresh - 1, g->qkv, g->keys, g->values);
}

static aorta_status compare(struct aorta_hwq_verifier *verifier, void *opaque) {
    const struct state *state = opaque;
    const struct options *o = verifier->hwq->options;
    for (int64_t g = 0; g < state->decoding_count; g++) AORTA_TRY(verify_group(verifier, state, &state->decoding[g]));
    for (int64_t p = 0; p < o->prompts; p++) AORTA_TRY(verify_group(verifier, state, &state->prompts[p]));
    return NULL;
}

static aorta_status verify(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_check *result) {
    struct state *state = opaque;
    const struct options *o = hwq->options;
    for (int64_t i = 0; i < state->decoding_count + o->prompts; i++) {
        struct group *g = i < o->prompts ? &state->prompts[i] : &state->decoding[i - o->prompts];
        AORTA_TRY(aorta_hwq_sequence_fetch(hwq, &g->cache, o->layers - 1, g->cache.batch - 1, g->keys, g->values,
                                           g->positions, &g->before));
    }
    return aorta_hwq_verify_iteration(hwq, result, &state->results, state, iterate, compare);
}

static const struct aorta_range_limits layer_count = {.min = 1, .max = MOST_LAYERS};
static const struct aorta_range_limits prompt_count = {.min = 1, .max = MOST_GROUPS},
                                       decode_count = {.min = 1, .max = 1024};
static const struct aorta_range_limits prompt_positions = {.min = 2, .max = 65536};
static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, layers, "8", layer_count, "attention layers"),
    AORTA_HWQ_ROW(struct options, width, "1024", aorta_hwq_sizes, "width of a layer"),
    AORTA_HWQ_ROW(struct options, heads, "8", aorta_hwq_sizes, "heads of the attention"),
    AORTA_HWQ_ROW(struct options, prompts, "2", prompt_count, "prompts that are worked through"),
    AORTA_HWQ_ROW(struct options, positions, "512", prompt_positions, "positions of a prompt"),
    AORTA_HWQ_ROW(struct options, sequences, "16", decode_count, "sequences that get one more token"),
    AORTA_HWQ_ROW(struct options, window, "2048", aorta_hwq_sizes, "positions of a sequence in a cache"),
};

static const struct aorta_hwq_size on_cpu[] = {
    {"width", "256"}, {"layers", "4"}, {"positions", "64"}, {"window", "256"}, {0}};

const struct aorta_hwq_workload aorta_hwq_continuous_batch = {
    .name = "continuous_batch",
    .summary = "decoding, which reads memory, has to get its share beside prefill, which fills the multiprocessors",
    .group = AORTA_HWQ_P1,
    .category = AORTA_HWQ_INFERENCE,
    .sensitivity = AORTA_HWQ_HIGH,
    .min_streams = 4,
    .max_streams = 16,
    .recommended_streams = 8,
    .unit = "tokens/s",
    .options = rows,
    .option_count = sizeof rows / sizeof *rows,
    .option_bytes = sizeof(struct options),
    .on_cpu = on_cpu,
    .try_next = "--window 8192 makes decoding heavier, --positions 2048 prefill: the time of both together shows how "
                "they share",
    .check = check,
    .role = role,
    .setup = setup,
    .iterate = iterate,
    .work = work,
    .verify = verify,
};
