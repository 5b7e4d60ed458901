/* Speculative decoding: a small draft model proposes a few tokens one after the other, the main model evaluates all of
 * them at once, and accepts as many as its own distribution allows (aorta_accept). Everything, including the number of
 * accepted tokens, stays on the device.
 *
 * Stream s has role s modulo 4: 0 drafts, 1 verifies, 2 accepts or rejects, 3 updates caches.
 * There is a request for each drafting stream (--requests). The draft model's last pass, which only computes the keys
 * of the last proposal, runs during the main model's. Caches are rings over the last `context` positions. */
#include "hwq/operations.h"

#include <math.h>

#include "base/philox.h"
#include "ops/shared.h"

enum { MOST_LAYERS = 48, MOST_REQUESTS = 16, MOST_FRESH = 33, DRAFT = 0, VERIFY = 1, ACCEPT = 2, UPDATE = 3, ROLES };

struct options {
    int64_t draft_width, draft_layers, main_width, main_layers, head_width, drafted, context, vocab, requests;
};

struct model {
    int64_t width, layer_count;
    struct hwq_tensor table; /* [vocab, width] */
    struct hwq_block blocks[MOST_LAYERS];
    struct hwq_layer head;
};

/* A model's tensors of one request: row j for token j. */
struct context {
    struct hwq_cache cache;
    struct hwq_tensor qkv, logits, logsums; /* [layers · fresh, 3E], [rows, vocab], [rows, 1] */
};

struct request {
    struct context draft, main;
    struct hwq_tensor tokens;                  /* the last one of the text, then the proposed ones */
    struct hwq_tensor positions, step, totals; /* tokens so far; iterations; tokens accepted since `start` */
    struct hwq_tensor accepted, counts;
    int64_t start_step; /* *step at `start` */
};

struct state {
    struct model draft, main;
    struct request requests[MOST_REQUESTS];
    int64_t request_count, fresh;
};

static const char *const roles[] = {"draft", "verify", "accept", "cache update", NULL};

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

/* ---- acceptance ---- */

enum { TOKENS, Q, Q_LOGSUMS, P, P_LOGSUMS, OLD_STEP, OLD_TOTALS }; /* inputs */
enum { STEP, NEXT, TOTALS, ACCEPTED, COUNTS };                     /* outputs */

static aorta_status run_accept(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct aorta_accept_args args = {.shape = *(const struct aorta_acceptance *)o->shape,
                                           .tokens = hwq_at_device(o->in[TOKENS]),
                                           .q = hwq_floats(o->in[Q]),
                                           .q_logsums = hwq_floats(o->in[Q_LOGSUMS]),
                                           .p = hwq_floats(o->in[P]),
                                           .p_logsums = hwq_floats(o->in[P_LOGSUMS]),
                                           .step = hwq_at_device(o->out[STEP]),
                                           .next = hwq_at_device(o->out[NEXT]),
                                           .totals = hwq_at_device(o->out[TOTALS]),
                                           .accepted = hwq_at_device(o->out[ACCEPTED]),
                                           .counts = hwq_at_device(o->out[COUNTS])};
    return aorta_accept(stream, &args);
}

/* The random numbers determine the count. Where rounding could change it, the device's count is accepted. */
static struct hwq_value accepted_element(const struct hwq_element *e) {
    enum { ACCEPT_SITE = 0xACCE }; /* see ops/inference.c */
    const struct aorta_acceptance *shape = e->o->shape;
    const int64_t step = (int64_t)hwq_at(e, OLD_STEP, 0, 0).value;
    const double found = hwq_written(e, ACCEPTED, 0, 0).value;
    int64_t j = 0;
    for (; j < shape->drafted; j++) {
        const int64_t token = (int64_t)hwq_at(e, TOKENS, 0, j).value;
        if (token < 0 || token >= shape->vocab) return hwq_exact(NAN);
        const double ratio = exp(hwq_at(e, P, j, token).value - hwq_at(e, P_LOGSUMS, j, 0).value -
                                 hwq_at(e, Q, j, token).value + hwq_at(e, Q_LOGSUMS, j, 0).value);
        const double number = (double)aorta_draw_uniform(aorta_philox_word(shape->seed, j, 0, ACCEPT_SITE, step));
        if (fabs(number - ratio) < 1e-4 ? found == (double)j : number >= ratio) break;
    }
    return hwq_exact((double)j);
}

static struct hwq_value accept_element(const struct hwq_element *e) {
    if (e->output == STEP) return hwq_exact(hwq_at(e, OLD_STEP, e->row, e->column).value + 1.0);
    if (e->output == NEXT) return hwq_unknown();
    const struct hwq_value accepted = accepted_element(e);
    if (e->output == ACCEPTED) return accepted;
    if (e->output == COUNTS) return hwq_exact(accepted.value + 1.0);
    return hwq_exact(hwq_at(e, OLD_TOTALS, e->row, e->column).value + accepted.value);
}

static const struct hwq_kind accept = {.name = "accept", .run = run_accept, .element = accept_element};

static void add_acceptance(struct hwq_graph *g, int s, const struct request *r) {
    const struct options *o = g->options;
    const struct aorta_acceptance shape = {.batch = 1, .drafted = o->drafted, .vocab = o->vocab, .seed = g->hwq->seed};
    const struct hwq_operation operation = {
        .kind = &accept,
        .stream = s,
        .in = {hwq_columns(r->tokens, 1, o->drafted), hwq_rows(r->draft.logits, 0, o->drafted),
               hwq_rows(r->draft.logsums, 0, o->drafted), r->main.logits, r->main.logsums, r->step, r->totals},
        .out = {r->step, hwq_columns(r->tokens, 0, 1), r->totals, r->accepted, r->counts}};
    hwq_append(g, &operation, &shape, sizeof shape);
}

/* ---- tensors ---- */

static void make_model(struct hwq_graph *g, struct model *model, uint64_t id, int64_t width, int64_t layers) {
    const struct options *o = g->options;
    model->width = width;
    model->layer_count = layers;
    model->table = hwq_input(g, id, o->vocab, width, 1.0f, "table of tokens");
    model->head = hwq_layer(g, id + 1, width, o->vocab, false);
    for (int64_t l = 0; l < layers; l++) model->blocks[l] = hwq_block(g, id + 20 * (uint64_t)(l + 1), width);
}

static struct context make_context(struct hwq_graph *g, const struct state *state, const struct model *m, uint64_t id,
                                   struct hwq_tensor positions) {
    const struct options *o = g->options;
    const int64_t n = state->fresh;
    const struct aorta_cache shape = {m->layer_count, 1, o->context, m->width / o->head_width, o->head_width, n};
    return (struct context){.cache = hwq_cache(g, id, shape, positions),
                            .qkv = hwq_result(g, AORTA_F32, m->layer_count * n, 3 * m->width, "queries, keys, values"),
                            .logits = hwq_result(g, AORTA_F32, n, o->vocab, "logits"),
                            .logsums = hwq_result(g, AORTA_F32, n, 1, "logarithms of sums")};
}

static void make_request(struct hwq_graph *g, struct state *state, int64_t index) {
    const struct options *o = g->options;
    struct request *r = &state->requests[index];
    int64_t start[MOST_FRESH + 3] = {0};
    start[0] = index % o->vocab;
    start[state->fresh] = o->context; /* the context is full */
    const struct hwq_tensor memory = hwq_constant(g, AORTA_I64, state->fresh + 3, start, "tokens and counters");
    r->tokens = hwq_columns(memory, 0, state->fresh);
    r->positions = hwq_columns(memory, state->fresh, 1);
    r->step = hwq_columns(memory, state->fresh + 1, 1);
    r->totals = hwq_columns(memory, state->fresh + 2, 1);
    r->draft = make_context(g, state, &state->draft, 50000 + 100 * (uint64_t)index, r->positions);
    r->main = make_context(g, state, &state->main, 50050 + 100 * (uint64_t)index, r->positions);
    r->accepted = hwq_result(g, AORTA_I32, 1, 1, "tokens accepted");
    r->counts = hwq_result(g, AORTA_I32, 1, 1, "tokens to keep");
}

/* ---- one iteration ---- */

/* Tokens first … first + rows − 1 through all layers. */
static struct hwq_tensor run_layers(struct hwq_graph *g, int s, const struct model *m, const struct context *t,
                                    const struct request *r, int64_t first, int64_t rows) {
    const int64_t fresh = t->cache.shape.fresh;
    struct hwq_tensor x = hwq_embed(g, s, hwq_columns(r->tokens, first, rows), m->table);
    for (int64_t l = 0; l < m->layer_count; l++) {
        hwq_linear(hwq_into(g, hwq_rows(t->qkv, l * fresh + first, rows)), s, &m->blocks[l].qkv, x);
        const struct hwq_tensor context =
            hwq_attend(g, s, &t->cache, l, first, rows, hwq_rows(t->qkv, l * fresh, first + rows));
        x = hwq_block_rest(g, s, &m->blocks[l], context, x);
    }
    return x;
}

/* The last pass only makes the keys of the last proposal, while the main model runs. */
static void draft(struct hwq_graph *g, const struct state *state, int64_t index) {
    const int64_t drafted = ((const struct options *)g->options)->drafted;
    const struct request *r = &state->requests[index];
    const struct model *m = &state->draft;
    const int s = hwq_stream(g, DRAFT, ROLES, index);
    for (int64_t j = 0; j < drafted; j++) {
        const struct hwq_tensor y = run_layers(g, s, m, &r->draft, r, j, 1);
        const struct hwq_tensor logits = hwq_linear(hwq_into(g, hwq_rows(r->draft.logits, j, 1)), s, &m->head, y);
        struct hwq_tensor logsum = hwq_rows(r->draft.logsums, j, 1);
        hwq_sample(g, s, logits, (uint32_t)j, r->step, hwq_columns(r->tokens, j + 1, 1), &logsum);
    }
    run_layers(g, s, m, &r->draft, r, drafted, 1);
}

static void decide(struct hwq_graph *g, const struct state *state, int64_t index) {
    const struct request *r = &state->requests[index];
    const struct model *m = &state->main;
    const int s = hwq_stream(g, VERIFY, ROLES, index), a = hwq_stream(g, ACCEPT, ROLES, index);
    const int u = hwq_stream(g, UPDATE, ROLES, index);
    const struct hwq_tensor y = run_layers(g, s, m, &r->main, r, 0, state->fresh);
    const struct hwq_tensor logits = hwq_linear(hwq_into(g, r->main.logits), s, &m->head, y);
    hwq_logsum(hwq_into(g, r->main.logsums), a, logits);
    add_acceptance(g, a, r);
    hwq_cache_append(g, u, &r->draft.cache, r->draft.qkv, r->counts);
    hwq_cache_append(g, u, &r->main.cache, r->main.qkv, r->counts);
    hwq_cache_advance(g, u, r->positions, r->counts, 0);
}

static void build(struct hwq_graph *g) {
    const struct options *o = g->options;
    struct state *state = g->state = hwq_state(g, sizeof *state);
    if (!state) return;
    state->fresh = o->drafted + 1;
    state->request_count = o->requests ? o->requests : (g->hwq->stream_count + 3) / 4;
    make_model(g, &state->draft, 1000, o->draft_width, o->draft_layers);
    make_model(g, &state->main, 3000, o->main_width, o->main_layers);
    for (int64_t r = 0; r < state->request_count; r++) make_request(g, state, r);
    for (int64_t r = 0; r < state->request_count; r++) draft(g, state, r);
    for (int64_t r = 0; r < state->request_count; r++) decide(g, state, r);
}

/* ---- figures ---- */

static aorta_status start(struct hwq_graph *g) {
    struct state *state = g->state;
    static const int64_t none = 0;
    for (int64_t i = 0; i < state->request_count; i++) {
        struct request *r = &state->requests[i];
        AORTA_TRY(aorta_hwq_transfer(g->hwq, hwq_at_device(r->totals), &none, sizeof none));
        AORTA_TRY(aorta_hwq_transfer(g->hwq, &r->start_step, hwq_at_device(r->step), sizeof r->start_step));
    }
    return NULL;
}

/* Accepted tokens, and one more that every iteration draws itself. */
static aorta_status work(struct hwq_graph *g, int64_t iterations, double *amount) {
    const struct state *state = g->state;
    *amount = (double)(iterations * state->request_count);
    for (int64_t r = 0; r < state->request_count; r++) {
        int64_t accepted;
        AORTA_TRY(aorta_hwq_transfer(g->hwq, &accepted, hwq_at_device(state->requests[r].totals), sizeof accepted));
        *amount += (double)accepted;
    }
    return NULL;
}

/* How many of the tokens that were proposed since `start` have been accepted. */
static aorta_status report(struct hwq_graph *g, struct aorta_hwq_result *result) {
    const struct state *state = g->state;
    const struct options *o = g->options;
    double accepted = 0.0, proposed = 0.0;
    for (int64_t r = 0; r < state->request_count; r++) {
        int64_t total, step;
        AORTA_TRY(aorta_hwq_transfer(g->hwq, &total, hwq_at_device(state->requests[r].totals), sizeof total));
        AORTA_TRY(aorta_hwq_transfer(g->hwq, &step, hwq_at_device(state->requests[r].step), sizeof step));
        accepted += (double)total;
        proposed += (double)(o->drafted * (step - state->requests[r].start_step));
    }
    aorta_hwq_result_figure(result, "accepted_share", "of proposed tokens", proposed > 0.0 ? accepted / proposed : NAN,
                            "no iterations");
    return NULL;
}

static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, draft_width, "256", "64", 1, HWQ_LARGEST, "width of the draft model"),
    AORTA_HWQ_ROW(struct options, draft_layers, "4", "2", 1, MOST_LAYERS, "its layers"),
    AORTA_HWQ_ROW(struct options, main_width, "1024", "256", 1, HWQ_LARGEST, "width of the main model"),
    AORTA_HWQ_ROW(struct options, main_layers, "12", "4", 1, MOST_LAYERS, "its layers"),
    AORTA_HWQ_ROW(struct options, head_width, "64", NULL, 1, 128, "width of a head, in both"),
    AORTA_HWQ_ROW(struct options, drafted, "4", NULL, 1, MOST_FRESH - 1, "tokens proposed at a time"),
    AORTA_HWQ_ROW(struct options, context, "128", NULL, 1, HWQ_LARGEST, "positions that are remembered"),
    AORTA_HWQ_ROW(struct options, vocab, "32000", "2000", 1, HWQ_LARGEST, "different tokens"),
    AORTA_HWQ_ROW(struct options, requests, "0", NULL, 0, MOST_REQUESTS,
                  "requests at a time; 0: one for each drafting stream"),
};

const struct aorta_hwq_workload aorta_hwq_speculative_decode = {
    .name = "speculative_decode",
    .summary = "long chains of tiny kernels across streams: each switch adds to the latency",
    .group = AORTA_HWQ_P1,
    .category = "inference",
    .sensitivity = "high",
    .streams = {.min = 4, .max = 12, .recommended = 6},
    .unit = "tokens/s",
    AORTA_HWQ_OPTIONS(rows, struct options),
    .try_next = "--drafted 2 and 8: the accepted share falls with the length",
    .check = check,
    .roles = roles,
    .start = start,
    .report = report,
    .work = work,
    .build = build,
};
