/* Speculative decoding: a small draft model proposes a few tokens one after the other, the main model evaluates all of
 * them at once, and accepts as many as its own distribution allows (aorta_accept). Everything, the number of accepted
 * tokens too, stays on the device.
 *
 * Stream s has role s modulo 4: 0 drafts, 1 verifies, 2 accepts or rejects, 3 updates caches.
 * There is a request for each drafting stream (--requests). The draft model's last pass, which only computes the keys
 * of the last proposal, runs beside the main model. Caches are rings over the last `context` positions.
 */
#include "hwq/verify.h"

#include <math.h>

#define AORTA_DRAW_FUNCTION static inline
#define aorta_draw_log logf
#include "base/philox.h"
#include "ops/draw.h"

enum { MOST_LAYERS = 48, MOST_REQUESTS = 16, MOST_FRESH = 33, DRAFT = 0, VERIFY = 1, ACCEPT = 2, UPDATE = 3 };

struct options {
    int64_t draft_width, draft_layers, main_width, main_layers, head_width, drafted, context, vocab, requests;
};

struct layer {
    struct aorta_hwq_layer qkv, out, up, down;
    struct aorta_hwq_norm norm1, norm2;
};

struct model {
    int64_t width, layer_count;
    float *table; /* [vocab, width] */
    struct layer layers[MOST_LAYERS];
    struct aorta_hwq_layer head;
};

/* Activations of a model for one request: [fresh, width] unless noted, row j for token j. */
struct thoughts {
    struct aorta_cache cache;
    float *x, *qkv, *keys, *values; /* qkv [layers, fresh, 3E]; caches [layers, context, E] */
    float *context[MOST_LAYERS], *out[MOST_LAYERS], *y1[MOST_LAYERS], *inner[MOST_LAYERS], *active[MOST_LAYERS];
    float *mlp[MOST_LAYERS], *y[MOST_LAYERS];
    struct aorta_hwq_norm_saved norm1[MOST_LAYERS], norm2[MOST_LAYERS];
    float *logits, *logsums;          /* [rows, vocab], [rows] */
    struct aorta_hwq_sequence before; /* verification: the last layer's cache */
};

struct request {
    struct thoughts draft, main;
    int64_t *tokens;                    /* the last one of the text, then the proposed ones */
    int64_t *positions, *step, *totals; /* tokens so far; iterations; tokens accepted since `start` */
    int32_t *accepted, *counts;
    int64_t start_step; /* *step at `start` */
    struct aorta_event *drafted, *verified, *decided, *finished;
};

struct state {
    struct model draft, main;
    struct request requests[MOST_REQUESTS];
    int64_t request_count, fresh;
    struct aorta_hwq_results results;
};

static int stream_for(const struct aorta_hwq *hwq, int what, int64_t request) {
    const int count = (hwq->stream_count - what + 3) / 4;
    return what + 4 * (int)(request % count);
}

static const char *role(const struct aorta_hwq *hwq, int stream) {
    static const char *const names[] = {"draft", "verify", "accept", "cache update"};
    (void)hwq;
    return names[stream % 4];
}

static aorta_status check(const struct aorta_hwq *hwq) {
    const struct options *o = hwq->options;
    if (o->draft_width % o->head_width || o->main_width % o->head_width)
        return AORTA_ERROR(AORTA_USAGE,
                           "speculative_decode: heads of %lld do not divide widths of %lld (draft) and %lld (main)",
                           (long long)o->head_width, (long long)o->draft_width, (long long)o->main_width);
    if (o->drafted < o->context) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "speculative_decode: %lld drafted tokens do not fit a context of %lld",
                       (long long)o->drafted, (long long)o->context);
}

/* ---- setup ---- */

static aorta_status setup_model(struct aorta_hwq *hwq, struct model *model, uint64_t id, int64_t width,
                                int64_t layers) {
    const struct options *o = hwq->options;
    *model = (struct model){.width = width, .layer_count = layers};
    AORTA_TRY(aorta_hwq_input(hwq, id, o->vocab * width, 1.0f, "table of tokens", &model->table));
    AORTA_TRY(aorta_hwq_layer_make(hwq, id + 1, width, o->vocab, false, &model->head));
    for (int64_t l = 0; l < layers; l++) {
        struct layer *layer = &model->layers[l];
        const uint64_t at = id + 20 * (uint64_t)(l + 1);
        AORTA_TRY(aorta_hwq_layer_make(hwq, at, width, 3 * width, false, &layer->qkv));
        AORTA_TRY(aorta_hwq_layer_make(hwq, at + 2, width, width, false, &layer->out));
        AORTA_TRY(aorta_hwq_layer_make(hwq, at + 4, width, 4 * width, false, &layer->up));
        AORTA_TRY(aorta_hwq_layer_make(hwq, at + 6, 4 * width, width, false, &layer->down));
        AORTA_TRY(aorta_hwq_norm_make(hwq, at + 8, width, false, &layer->norm1));
        AORTA_TRY(aorta_hwq_norm_make(hwq, at + 10, width, false, &layer->norm2));
    }
    return NULL;
}

static aorta_status setup_thoughts(struct aorta_hwq *hwq, struct state *state, const struct model *model, uint64_t id,
                                   struct thoughts *t) {
    const struct options *o = hwq->options;
    const int64_t n = state->fresh, width = model->width, cached = model->layer_count * o->context * width;
    t->cache = (struct aorta_cache){model->layer_count, 1, o->context, width / o->head_width, o->head_width, n};
    AORTA_TRY(aorta_hwq_input(hwq, id, cached, 1.0f, "keys", &t->keys));
    AORTA_TRY(aorta_hwq_input(hwq, id + 1, cached, 1.0f, "values", &t->values));
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, n * width, "tokens as vectors", &t->x));
    AORTA_TRY(
        aorta_hwq_output(hwq, &state->results, model->layer_count * n * 3 * width, "queries, keys, values", &t->qkv));
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, n * o->vocab, "logits", &t->logits));
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, n, "their sums", &t->logsums));
    for (int64_t l = 0; l < model->layer_count; l++) {
        const struct {
            float **memory;
            int64_t count;
        } buffers[] = {{&t->context[l], width},   {&t->out[l], width},        {&t->y1[l], width},
                       {&t->inner[l], 4 * width}, {&t->active[l], 4 * width}, {&t->mlp[l], width},
                       {&t->y[l], width},         {&t->norm1[l].sum, width},  {&t->norm1[l].mean, 1},
                       {&t->norm1[l].rstd, 1},    {&t->norm2[l].sum, width},  {&t->norm2[l].mean, 1},
                       {&t->norm2[l].rstd, 1}};
        for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
            AORTA_TRY(aorta_hwq_output(hwq, &state->results, n * buffers[i].count, "activations", buffers[i].memory));
    }
    return NULL;
}

static aorta_status setup_request(struct aorta_hwq *hwq, struct state *state, int64_t index) {
    const struct options *o = hwq->options;
    struct request *r = &state->requests[index];
    void *memory;
    AORTA_TRY(setup_thoughts(hwq, state, &state->draft, 50000 + 100 * (uint64_t)index, &r->draft));
    AORTA_TRY(setup_thoughts(hwq, state, &state->main, 50050 + 100 * (uint64_t)index, &r->main));
    int64_t start[MOST_FRESH + 3] = {0};
    start[0] = index % o->vocab;
    start[state->fresh] = o->context; /* the context is full */
    AORTA_TRY(aorta_hwq_alloc(hwq, sizeof start, "tokens", &memory));
    AORTA_TRY(aorta_hwq_upload(hwq, memory, start, sizeof start));
    r->tokens = memory;
    r->positions = r->tokens + state->fresh;
    r->step = r->positions + 1;
    r->totals = r->step + 1;
    AORTA_TRY(
        aorta_hwq_output_bytes(hwq, &state->results, sizeof *r->accepted, "tokens accepted", (void **)&r->accepted));
    AORTA_TRY(aorta_hwq_output_bytes(hwq, &state->results, sizeof *r->counts, "tokens to keep", (void **)&r->counts));
    struct aorta_event **const events[] = {&r->drafted, &r->verified, &r->decided, &r->finished};
    for (int i = 0; i < 4; i++) AORTA_TRY(aorta_hwq_event(hwq, events[i]));
    return NULL;
}

static aorta_status setup(struct aorta_hwq *hwq, void **made) {
    const struct options *o = hwq->options;
    AORTA_TRY(aorta_hwq_state(hwq, sizeof(struct state), made));
    struct state *state = *made;
    state->fresh = o->drafted + 1;
    state->request_count = o->requests ? o->requests : (hwq->stream_count + 3) / 4;
    AORTA_TRY(setup_model(hwq, &state->draft, 1000, o->draft_width, o->draft_layers));
    AORTA_TRY(setup_model(hwq, &state->main, 3000, o->main_width, o->main_layers));
    for (int64_t r = 0; r < state->request_count; r++) AORTA_TRY(setup_request(hwq, state, r));
    return NULL;
}

static aorta_status start(struct aorta_hwq *hwq, void *opaque) {
    struct state *state = opaque;
    static const int64_t none = 0;
    for (int64_t i = 0; i < state->request_count; i++) {
        struct request *r = &state->requests[i];
        AORTA_TRY(aorta_hwq_upload(hwq, r->totals, &none, sizeof none));
        AORTA_TRY(aorta_hwq_download(hwq, &r->start_step, r->step, sizeof r->start_step));
    }
    return NULL;
}

/* ---- one iteration ---- */

/* Tokens first … first + rows − 1 through all layers. */
static aorta_status think(struct aorta_hwq *hwq, int s, const struct model *m, const struct thoughts *t,
                          const struct request *r, int64_t first, int64_t rows) {
    const struct options *o = hwq->options;
    const int64_t width = m->width, at = first * width, fresh = t->cache.fresh;
    AORTA_TRY(aorta_hwq_embed(hwq, s, rows, o->vocab, width, r->tokens + first, m->table, t->x + at));
    for (int64_t l = 0; l < m->layer_count; l++) {
        const struct layer *layer = &m->layers[l];
        const float *x = (l == 0 ? t->x : t->y[l - 1]) + at;
        float *qkv = t->qkv + l * fresh * 3 * width;
        const int64_t cached = l * o->context * width;
        const struct aorta_hwq_norm_saved saved1 = {t->norm1[l].sum + at, t->norm1[l].mean + first,
                                                    t->norm1[l].rstd + first};
        const struct aorta_hwq_norm_saved saved2 = {t->norm2[l].sum + at, t->norm2[l].mean + first,
                                                    t->norm2[l].rstd + first};
        AORTA_TRY(aorta_hwq_linear(hwq, s, &layer->qkv, rows, x, qkv + 3 * at));
        AORTA_TRY(aorta_hwq_attend(hwq, s, &t->cache, first, rows, qkv, t->keys + cached, t->values + cached,
                                   r->positions, t->context[l] + at));
        AORTA_TRY(aorta_hwq_linear(hwq, s, &layer->out, rows, t->context[l] + at, t->out[l] + at));
        AORTA_TRY(aorta_hwq_norm_forward(hwq, s, &layer->norm1, rows, t->out[l] + at, x, &saved1, t->y1[l] + at));
        AORTA_TRY(aorta_hwq_linear(hwq, s, &layer->up, rows, t->y1[l] + at, t->inner[l] + 4 * at));
        AORTA_TRY(aorta_hwq_gelu(hwq, s, rows * 4 * width, t->inner[l] + 4 * at, t->active[l] + 4 * at));
        AORTA_TRY(aorta_hwq_linear(hwq, s, &layer->down, rows, t->active[l] + 4 * at, t->mlp[l] + at));
        AORTA_TRY(
            aorta_hwq_norm_forward(hwq, s, &layer->norm2, rows, t->mlp[l] + at, t->y1[l] + at, &saved2, t->y[l] + at));
    }
    return NULL;
}

static aorta_status draft(struct aorta_hwq *hwq, struct state *state, int64_t index) {
    const struct options *o = hwq->options;
    const struct request *r = &state->requests[index];
    const struct thoughts *t = &r->draft;
    const struct model *m = &state->draft;
    const int s = stream_for(hwq, DRAFT, index);
    for (int64_t j = 0; j < o->drafted; j++) {
        AORTA_TRY(think(hwq, s, m, t, r, j, 1));
        AORTA_TRY(
            aorta_hwq_linear(hwq, s, &m->head, 1, t->y[m->layer_count - 1] + j * m->width, t->logits + j * o->vocab));
        AORTA_TRY(aorta_hwq_begin(hwq, s, AORTA_SPAN_KERNEL, "sample"));
        AORTA_TRY(aorta_sample(hwq->streams[s], 1, o->vocab, t->logits + j * o->vocab, hwq->seed, (uint32_t)j, r->step,
                               r->tokens + j + 1, t->logsums + j));
        AORTA_TRY(aorta_hwq_end(hwq, s));
    }
    AORTA_TRY(aorta_event_record(r->drafted, hwq->streams[s]));
    AORTA_TRY(think(hwq, s, m, t, r, o->drafted, 1));
    return aorta_event_record(r->finished, hwq->streams[s]);
}

static aorta_status decide(struct aorta_hwq *hwq, struct state *state, int64_t index) {
    const struct options *o = hwq->options;
    struct request *r = &state->requests[index];
    const struct model *m = &state->main;
    const int s = stream_for(hwq, VERIFY, index), a = stream_for(hwq, ACCEPT, index),
              u = stream_for(hwq, UPDATE, index);
    AORTA_TRY(aorta_stream_wait(hwq->streams[s], r->drafted));
    AORTA_TRY(think(hwq, s, m, &r->main, r, 0, state->fresh));
    AORTA_TRY(aorta_hwq_linear(hwq, s, &m->head, state->fresh, r->main.y[m->layer_count - 1], r->main.logits));
    AORTA_TRY(aorta_hwq_after(hwq, a, r->verified, s));
    AORTA_TRY(aorta_stream_wait(hwq->streams[a], r->finished)); /* it reads the step, and tokens that are replaced */
    AORTA_TRY(aorta_hwq_begin(hwq, a, AORTA_SPAN_KERNEL, "logsum"));
    AORTA_TRY(aorta_logsum(hwq->streams[a], state->fresh, o->vocab, r->main.logits, r->main.logsums));
    AORTA_TRY(aorta_hwq_end(hwq, a));
    const struct aorta_acceptance_tensors tensors = {.tokens = r->tokens + 1,
                                                     .q = r->draft.logits,
                                                     .q_logsums = r->draft.logsums,
                                                     .p = r->main.logits,
                                                     .p_logsums = r->main.logsums,
                                                     .step = r->step,
                                                     .next = r->tokens,
                                                     .totals = r->totals,
                                                     .accepted = r->accepted,
                                                     .counts = r->counts};
    const struct aorta_acceptance shape = {.batch = 1, .drafted = o->drafted, .vocab = o->vocab, .seed = hwq->seed};
    AORTA_TRY(aorta_hwq_begin(hwq, a, AORTA_SPAN_KERNEL, "accept"));
    AORTA_TRY(aorta_accept(hwq->streams[a], shape, &tensors));
    AORTA_TRY(aorta_hwq_end(hwq, a));
    AORTA_TRY(aorta_hwq_after(hwq, u, r->decided, a));
    AORTA_TRY(aorta_hwq_append(hwq, u, &r->draft.cache, r->draft.qkv, r->draft.keys, r->draft.values, r->positions,
                               r->counts));
    AORTA_TRY(
        aorta_hwq_append(hwq, u, &r->main.cache, r->main.qkv, r->main.keys, r->main.values, r->positions, r->counts));
    return aorta_hwq_advance(hwq, u, 1, r->positions, r->counts, 0);
}

static aorta_status iterate(struct aorta_hwq *hwq, void *opaque) {
    struct state *state = opaque;
    for (int64_t r = 0; r < state->request_count; r++) AORTA_TRY(draft(hwq, state, r));
    for (int64_t r = 0; r < state->request_count; r++) AORTA_TRY(decide(hwq, state, r));
    return NULL;
}

/* Accepted tokens, and one more that every iteration draws itself. */
static aorta_status work(struct aorta_hwq *hwq, void *opaque, int64_t iterations, double *amount) {
    const struct state *state = opaque;
    *amount = (double)(iterations * state->request_count);
    for (int64_t r = 0; r < state->request_count; r++) {
        int64_t accepted;
        AORTA_TRY(aorta_hwq_download(hwq, &accepted, state->requests[r].totals, sizeof accepted));
        *amount += (double)accepted;
    }
    return NULL;
}

/* How many of the tokens that were proposed since `start` have been accepted. */
static aorta_status report(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_result *result) {
    const struct state *state = opaque;
    const struct options *o = hwq->options;
    double accepted = 0.0, proposed = 0.0;
    for (int64_t r = 0; r < state->request_count; r++) {
        int64_t total, step;
        AORTA_TRY(aorta_hwq_download(hwq, &total, state->requests[r].totals, sizeof total));
        AORTA_TRY(aorta_hwq_download(hwq, &step, state->requests[r].step, sizeof step));
        accepted += (double)total;
        proposed += (double)(o->drafted * (step - state->requests[r].start_step));
    }
    return aorta_hwq_result_figure(result, "accepted_share", "of proposed tokens",
                                   proposed > 0.0 ? accepted / proposed : NAN, "no iterations");
}

/* ---- verification ---- */

static aorta_status verify_model(struct aorta_hwq_verifier *verifier, const struct state *state, const struct model *m,
                                 const struct thoughts *t, int64_t drawn) {
    const int64_t n = state->fresh, last = m->layer_count - 1;
    for (int64_t l = 0; l <= last; l++) {
        const struct layer *layer = &m->layers[l];
        const struct {
            const char *what;
            const struct aorta_hwq_layer *layer;
            const float *x, *y;
        } linears[] = {{"queries, keys, values", &layer->qkv, l ? t->y[l - 1] : t->x, t->qkv + l * n * 3 * m->width},
                       {"attention", &layer->out, t->context[l], t->out[l]},
                       {"inside the MLP", &layer->up, t->y1[l], t->inner[l]},
                       {"MLP", &layer->down, t->active[l], t->mlp[l]}};
        for (size_t i = 0; i < sizeof linears / sizeof *linears; i++)
            AORTA_TRY(aorta_hwq_verify_linear(verifier, linears[i].what, linears[i].layer, n, linears[i].x,
                                              linears[i].y, AORTA_HWQ_PLAIN, AORTA_HWQ_FP32));
        AORTA_TRY(aorta_hwq_verify_norm(verifier, "first norm", &layer->norm1, n, t->norm1[l].sum, t->y1[l]));
        AORTA_TRY(aorta_hwq_verify_gelu(verifier, "GELU", n * 4 * m->width, t->inner[l], t->active[l]));
        AORTA_TRY(aorta_hwq_verify_norm(verifier, "second norm", &layer->norm2, n, t->norm2[l].sum, t->y[l]));
    }
    AORTA_TRY(aorta_hwq_verify_attend(verifier, "attention of the last layer", &t->cache, 0, n, 0, &t->before,
                                      t->qkv + last * n * 3 * m->width, t->context[last]));
    return aorta_hwq_verify_linear(verifier, "logits", &m->head, drawn, t->y[last], t->logits, AORTA_HWQ_PLAIN,
                                   AORTA_HWQ_FP32);
}

/* The input of a model: the rows of its table for the proposed tokens. */
static aorta_status verify_input(struct aorta_hwq_verifier *verifier, const struct model *m, const struct thoughts *t,
                                 const int64_t *tokens, int64_t fresh) {
    const float *x, *row;
    AORTA_TRY(aorta_hwq_fetch(verifier, t->x, fresh * m->width, &x));
    for (int64_t j = 1; j < fresh; j++) { /* the first has been replaced by the token drawn last */
        AORTA_TRY(aorta_hwq_fetch(verifier, m->table + tokens[j] * m->width, m->width, &row));
        for (int64_t i = 0; i < m->width; i++)
            aorta_hwq_compare(verifier->check, (double)x[j * m->width + i], (double)row[i], 1e-30, 0,
                              "vector of token %lld, element %lld", (long long)j, (long long)i);
    }
    return NULL;
}

static unsigned word_of(uint64_t seed, int64_t index, uint32_t site, int64_t step) {
    const struct aorta_philox counter = {{(uint32_t)(index / 4), 0, site, (uint32_t)step}};
    return aorta_philox4x32_10(counter, (uint32_t)seed, (uint32_t)(seed >> 32)).word[index % 4];
}

static double logsum_of(const float *x, int64_t count) {
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) sum += exp((double)x[i]);
    return log(sum);
}

/* The last accepted row, and the first. */
static aorta_status verify_cache(struct aorta_hwq_verifier *verifier, const struct thoughts *t, int64_t accepted) {
    const int64_t layer = t->cache.layers - 1;
    AORTA_TRY(
        aorta_hwq_verify_append(verifier, &t->cache, layer, 0, 0, t->before.position, t->qkv, t->keys, t->values));
    return aorta_hwq_verify_append(verifier, &t->cache, layer, 0, accepted, t->before.position + accepted, t->qkv,
                                   t->keys, t->values);
}

/* That each proposed token has the best score, and that as many were accepted as the random numbers allow. */
static aorta_status verify_tokens(struct aorta_hwq_verifier *verifier, const struct state *state,
                                  const struct request *r) {
    enum { ACCEPT_SITE = 0xACCE }; /* see ops/sample.c */
    const struct options *o = verifier->hwq->options;
    const uint64_t seed = verifier->hwq->seed;
    const float *q, *p;
    const void *fetched = NULL;
    int64_t step;
    int32_t accepted, counts;
    AORTA_TRY(aorta_hwq_fetch(verifier, r->draft.logits, o->drafted * o->vocab, &q));
    AORTA_TRY(aorta_hwq_fetch(verifier, r->main.logits, state->fresh * o->vocab, &p));
    AORTA_TRY(aorta_hwq_fetch_bytes(verifier, r->tokens, (size_t)state->fresh * sizeof(int64_t), &fetched));
    AORTA_TRY(aorta_hwq_download(verifier->hwq, &step, r->step, sizeof step));
    AORTA_TRY(aorta_hwq_download(verifier->hwq, &accepted, r->accepted, sizeof accepted));
    AORTA_TRY(aorta_hwq_download(verifier->hwq, &counts, r->counts, sizeof counts));
    const int64_t *tokens = fetched;
    bool decided = false;
    step--; /* as it was */
    for (int64_t j = 0; j < o->drafted; j++) {
        const float *x = q + j * o->vocab;
        const int64_t token = tokens[j + 1];
        if (token < 0 || token >= o->vocab)
            return AORTA_ERROR(AORTA_DEVICE, "speculative_decode: token %lld was drawn", (long long)token);
        double best = -INFINITY, own = -INFINITY;
        for (int64_t i = 0; i < o->vocab; i++) {
            const double score =
                (double)x[i] - log((double)aorta_draw_exponential(word_of(seed, i, (uint32_t)j, step)));
            best = fmax(best, score);
            if (i == token) own = score;
        }
        aorta_hwq_compare(verifier->check, own, best, 1e-4, 0, "score of proposal %lld", (long long)j);
        const double ratio = exp((double)p[j * o->vocab + token] - logsum_of(p + j * o->vocab, o->vocab) -
                                 (double)x[token] + logsum_of(x, o->vocab));
        const double number = (double)aorta_draw_uniform(word_of(seed, j, ACCEPT_SITE, step));
        if (decided || fabs(number - ratio) < 1e-4) continue; /* rounding decides */
        decided = number >= ratio;
        aorta_hwq_compare(verifier->check, accepted > j, !decided, 0.5, 0, "acceptance of proposal %lld", (long long)j);
    }
    aorta_hwq_compare(verifier->check, (double)counts, (double)accepted + 1.0, 0.5, 0, "tokens to keep");
    AORTA_TRY(verify_input(verifier, &state->draft, &r->draft, tokens, state->fresh));
    AORTA_TRY(verify_input(verifier, &state->main, &r->main, tokens, state->fresh));
    AORTA_TRY(verify_cache(verifier, &r->draft, accepted));
    return verify_cache(verifier, &r->main, accepted);
}

static aorta_status compare(struct aorta_hwq_verifier *verifier, void *opaque) {
    const struct state *state = opaque;
    const struct options *o = verifier->hwq->options;
    for (int64_t i = 0; i < state->request_count; i++) {
        const struct request *r = &state->requests[i];
        AORTA_TRY(verify_model(verifier, state, &state->draft, &r->draft, o->drafted));
        AORTA_TRY(verify_model(verifier, state, &state->main, &r->main, state->fresh));
        AORTA_TRY(verify_tokens(verifier, state, r));
    }
    return NULL;
}

static aorta_status verify(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_check *result) {
    struct state *state = opaque;
    const struct options *o = hwq->options;
    for (int64_t i = 0; i < state->request_count; i++) {
        struct request *r = &state->requests[i];
        AORTA_TRY(aorta_hwq_sequence_fetch(hwq, &r->draft.cache, o->draft_layers - 1, 0, r->draft.keys, r->draft.values,
                                           r->positions, &r->draft.before));
        AORTA_TRY(aorta_hwq_sequence_fetch(hwq, &r->main.cache, o->main_layers - 1, 0, r->main.keys, r->main.values,
                                           r->positions, &r->main.before));
    }
    return aorta_hwq_verify_iteration(hwq, result, &state->results, state, iterate, compare);
}

static const struct aorta_range_limits layer_count = {.min = 1, .max = MOST_LAYERS};
static const struct aorta_range_limits head_widths = {.min = 1, .max = 128}, drafts = {.min = 1, .max = MOST_FRESH - 1};
static const struct aorta_range_limits request_counts = {.min = 0, .max = MOST_REQUESTS};
static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, draft_width, "256", aorta_hwq_sizes, "width of the draft model"),
    AORTA_HWQ_ROW(struct options, draft_layers, "4", layer_count, "its layers"),
    AORTA_HWQ_ROW(struct options, main_width, "1024", aorta_hwq_sizes, "width of the main model"),
    AORTA_HWQ_ROW(struct options, main_layers, "12", layer_count, "its layers"),
    AORTA_HWQ_ROW(struct options, head_width, "64", head_widths, "width of a head, in both"),
    AORTA_HWQ_ROW(struct options, drafted, "4", drafts, "tokens proposed at a time"),
    AORTA_HWQ_ROW(struct options, context, "128", aorta_hwq_sizes, "positions that are remembered"),
    AORTA_HWQ_ROW(struct options, vocab, "32000", aorta_hwq_sizes, "different tokens"),
    AORTA_HWQ_ROW(struct options, requests, "0", request_counts, "requests at a time; 0: one for each drafting stream"),
};

static const struct aorta_hwq_size on_cpu[] = {{"draft_width", "64"}, {"draft_layers", "2"}, {"main_width", "256"},
                                               {"main_layers", "4"},  {"vocab", "2000"},     {0}};

const struct aorta_hwq_workload aorta_hwq_speculative_decode = {
    .name = "speculative_decode",
    .summary = "long chains of tiny kernels across streams: each switch adds to the latency",
    .group = AORTA_HWQ_P1,
    .category = AORTA_HWQ_INFERENCE,
    .sensitivity = AORTA_HWQ_HIGH,
    .min_streams = 4,
    .max_streams = 12,
    .recommended_streams = 6,
    .unit = "tokens/s",
    .options = rows,
    .option_count = sizeof rows / sizeof *rows,
    .option_bytes = sizeof(struct options),
    .on_cpu = on_cpu,
    .try_next =
        "--graph, as the host's launches dominate; --drafted 2 and 8, as the accepted share falls with the length",
    .check = check,
    .role = role,
    .setup = setup,
    .start = start,
    .iterate = iterate,
    .work = work,
    .verify = verify,
    .report = report,
};
