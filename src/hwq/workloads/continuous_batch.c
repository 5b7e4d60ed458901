/* Continuous batching of inference: new prompts are processed (prefill, bound by arithmetic) while sequences get one
 * more token each (decode, bound by reading their caches), then the caches are updated.
 *
 * Streams: a quarter for prefill (at most one for each prompt), a quarter for the updates of caches, half for decoding;
 * prompts and sequences are distributed over them. A layer is y = norm(x + attention(x)), with the same weights for
 * both. Caches are rings: a new position replaces the oldest, so that every iteration does the same work. */
#include "hwq/operations.h"

#include <math.h>

enum { MOST_LAYERS = 64, MOST_GROUPS = AORTA_HWQ_MAX_STREAMS };

struct options {
    int64_t layers, width, heads, prompts, positions, sequences, window;
};

struct layer {
    struct hwq_layer qkv, out;
    struct hwq_norm norm;
};

/* A prompt, or the sequences of one decoding stream: `rows` = its new positions times its sequences. */
struct group {
    struct hwq_cache cache;
    int64_t rows;
    struct hwq_tensor y, qkv, scores; /* y: of the layer before; scores, of prompts: [heads · positions, positions] */
};

struct state {
    struct layer layers[MOST_LAYERS];
    struct group prompts[MOST_GROUPS], decoding[MOST_GROUPS];
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
    AORTA_TRY(hwq_check_heads(hwq, o->heads, o->width));
    if (o->positions <= o->window) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "continuous_batch: prompts of %lld positions do not fit a window of %lld",
                       (long long)o->positions, (long long)o->window);
}

static void make_group(struct hwq_graph *g, struct group *group, int64_t sequences, int64_t fresh, uint64_t id) {
    const struct options *o = g->options;
    const struct aorta_cache shape = {o->layers, sequences, o->window, o->heads, o->width / o->heads, fresh};
    int64_t full[1 << 10];
    for (int64_t i = 0; i < sequences; i++) full[i] = fresh > 1 ? 0 : o->window; /* a prompt's cache is empty */
    group->rows = sequences * fresh;
    group->y = hwq_input(g, id, group->rows, o->width, 1.0f, "input");
    group->cache = hwq_cache(g, id + 1, shape, hwq_constant(g, AORTA_I64, sequences, full, "positions"));
    group->qkv = hwq_result(g, AORTA_F32, o->layers * group->rows, 3 * o->width, "queries, keys, values");
}

/* All heads at once: scores = q·kᵀ, context = weights·v. */
static struct hwq_tensor prompt_attention(struct hwq_graph *g, int s, const struct group *group,
                                          struct hwq_tensor qkv) {
    const struct options *o = g->options;
    const int64_t dim = o->width / o->heads;
    struct hwq_tensor part[3]; /* queries, keys, values */
    for (int i = 0; i < 3; i++) part[i] = hwq_comb(hwq_columns(qkv, i * o->width, o->width), 0, dim, dim);
    hwq_products(hwq_into(g, group->scores), s, o->heads, part[0], hwq_transposed(part[1]));
    hwq_softmax(g, s, group->scores, 1.0f / sqrtf((float)dim));
    const struct hwq_tensor context = hwq_result(g, AORTA_F32, group->rows, o->width, "context");
    hwq_products(hwq_into(g, hwq_comb(context, 0, dim, dim)), s, o->heads, group->scores, part[2]);
    return context;
}

static void run_layer(struct hwq_graph *g, int s, const struct layer *layer, struct group *group, int64_t l) {
    struct hwq_norm_saved saved = {0};
    const struct hwq_tensor qkv =
        hwq_linear(hwq_into(g, hwq_rows(group->qkv, l * group->rows, group->rows)), s, &layer->qkv, group->y);
    const struct hwq_tensor context =
        group->scores.memory ? prompt_attention(g, s, group, qkv) : hwq_attend(g, s, &group->cache, l, 0, 1, qkv);
    group->y = hwq_norm_forward(g, s, &layer->norm, hwq_linear(g, s, &layer->out, context), group->y, &saved);
}

static void update(struct hwq_graph *g, const struct group *group, int64_t index) {
    const struct hwq_tensor all = {0};
    const int s = update_stream(g->hwq, index);
    hwq_cache_append(g, s, &group->cache, group->qkv, all);
    if (!group->scores.memory) hwq_cache_advance(g, s, group->cache.positions, all, 1);
}

static int64_t make_tensors(struct hwq_graph *g, struct state *state) {
    const struct options *o = g->options;
    const int64_t streams = decode_streams(g->hwq), groups = streams < o->sequences ? streams : o->sequences;
    for (int64_t l = 0; l < o->layers; l++) {
        const uint64_t id = 10 * (uint64_t)(l + 1);
        state->layers[l] =
            (struct layer){hwq_layer(g, id, o->width, 3 * o->width, false),
                           hwq_layer(g, id + 2, o->width, o->width, false), hwq_norm(g, id + 4, o->width)};
    }
    for (int64_t p = 0; p < o->prompts; p++) {
        make_group(g, &state->prompts[p], 1, o->positions, 10000 + 10 * (uint64_t)p);
        state->prompts[p].scores = hwq_result(g, AORTA_F32, o->heads * o->positions, o->positions, "attention weights");
    }
    for (int64_t i = 0; i < groups; i++)
        make_group(g, &state->decoding[i], o->sequences * (i + 1) / groups - o->sequences * i / groups, 1,
                   20000 + 10 * (uint64_t)i);
    return groups;
}

/* Layer by layer, so that neither side waits for the host to have queued the other. */
static void build(struct hwq_graph *g) {
    const struct options *o = g->options;
    struct state *state = hwq_state(g, sizeof *state);
    if (!state) return;
    const int64_t groups = make_tensors(g, state);
    for (int64_t l = 0; l < o->layers && !g->status; l++) {
        for (int64_t i = 0; i < groups; i++)
            run_layer(g, decode_stream(g->hwq, i), &state->layers[l], &state->decoding[i], l);
        for (int64_t p = 0; p < o->prompts; p++)
            run_layer(g, prompt_stream(g->hwq, p), &state->layers[l], &state->prompts[p], l);
    }
    for (int64_t i = 0; i < groups && !g->status; i++) update(g, &state->decoding[i], i);
    for (int64_t p = 0; p < o->prompts && !g->status; p++) update(g, &state->prompts[p], groups + p);
    g->work = (double)(o->prompts * o->positions + o->sequences);
}

static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, layers, "8", "4", 1, MOST_LAYERS, "attention layers"),
    AORTA_HWQ_ROW(struct options, width, "1024", "256", 1, HWQ_LARGEST, "width of a layer"),
    AORTA_HWQ_ROW(struct options, heads, "8", NULL, 1, HWQ_LARGEST, "heads of the attention"),
    AORTA_HWQ_ROW(struct options, prompts, "2", NULL, 1, MOST_GROUPS, "prompts that are processed"),
    AORTA_HWQ_ROW(struct options, positions, "512", "64", 2, 65536, "positions of a prompt"),
    AORTA_HWQ_ROW(struct options, sequences, "16", NULL, 1, 1024, "sequences that get one more token"),
    AORTA_HWQ_ROW(struct options, window, "2048", "256", 1, HWQ_LARGEST, "positions of a sequence in a cache"),
};

const struct aorta_hwq_workload aorta_hwq_continuous_batch = {
    .name = "continuous_batch",
    .summary = "decoding, which reads memory, has to get its share during prefill, which fills the multiprocessors",
    .group = AORTA_HWQ_P1,
    .category = "inference",
    .sensitivity = "high",
    .streams = {.min = 4, .max = 16, .recommended = 8},
    .unit = "tokens/s",
    AORTA_HWQ_OPTIONS(rows, struct options),
    .try_next = "--window 8192 makes decoding heavier, --positions 2048 makes prefill heavier",
    .check = check,
    .role = role,
    .build = build,
};
