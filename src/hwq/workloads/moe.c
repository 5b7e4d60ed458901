/* Mixture of experts: every token is sent to its best experts, on any stream and rank, and back.
 *
 * Streams: 0 runs the gate, packs the tokens by expert and sums the results; 1 carries the all-to-alls; streams from 2
 * on run the experts of this rank, each expert's rows cut into parts if there are more streams than experts. Tokens
 * keep their order within an expert. An expert takes at most `capacity` rows from each rank (as in Lepikhin et al.,
 * "GShard", ICLR 2021), so that the host does not need their number: unused rows are zero, choices beyond the capacity
 * are dropped, counted and reported. */
#include "hwq/operations.h"

#include <math.h>

enum { MOST_EXPERTS = 64, GATE = 0, EXCHANGE = 1, FIRST_EXPERT = 2 };

struct options {
    int64_t batch, positions, experts, top, width, hidden;
    double capacity;
};

struct state {
    struct aorta_route shape;
    int64_t own, ranks; /* experts of this rank */
    struct hwq_tensor choices, slots, owners, loads, weights;
    struct hwq_tensor taken, made; /* [experts · capacity, width]: each rank's rows for our experts, and the results */
};

static int64_t tokens_of(const struct options *o) {
    return o->batch * o->positions;
}

static const char *role(const struct aorta_hwq *hwq, int stream) {
    (void)hwq;
    return stream == GATE ? "gate and sum" : stream == EXCHANGE ? "all-to-all" : "experts";
}

static aorta_status check(const struct aorta_hwq *hwq) {
    const struct options *o = hwq->options;
    const int ranks = aorta_comm_size(hwq->world);
    if (o->top > o->experts)
        return AORTA_ERROR(AORTA_USAGE, "moe: top is %lld, but there are only %lld experts", (long long)o->top,
                           (long long)o->experts);
    if (o->experts % ranks == 0) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "moe: %lld experts cannot be shared by %d ranks; choose a multiple of the ranks",
                       (long long)o->experts, ranks);
}

/* ---- the plan: which experts a token goes to, and into which of their rows ---- */

enum { CHOICES, SLOTS, OWNERS, LOADS, WEIGHTS }; /* outputs of the plan */

static const struct aorta_route *route_of(const struct hwq_operation *o) {
    return o->shape;
}

static aorta_status run_plan(const struct hwq_operation *o, struct aorta_stream *stream) {
    const struct aorta_route_args args = {.shape = *route_of(o),
                                          .logits = hwq_floats(o->in[0]),
                                          .choices = hwq_at_device(o->out[CHOICES]),
                                          .slots = hwq_at_device(o->out[SLOTS]),
                                          .owners = hwq_at_device(o->out[OWNERS]),
                                          .loads = hwq_at_device(o->out[LOADS]),
                                          .weights = hwq_floats(o->out[WEIGHTS])};
    return aorta_route_plan(stream, &args);
}

/* The best experts of a token; of equal ones the first. */
static void choose(const struct hwq_element *e, int64_t token, int64_t choices[8]) {
    const struct aorta_route *s = route_of(e->o);
    bool taken[MOST_EXPERTS] = {false};
    for (int64_t k = 0; k < s->top; k++) {
        int64_t best = -1;
        double most = 0.0;
        for (int64_t i = 0; i < s->experts; i++) {
            const double logit = hwq_at(e, 0, token, i).value;
            if (taken[i] || (best >= 0 && logit <= most)) continue;
            best = i;
            most = logit;
        }
        taken[best] = true;
        choices[k] = best;
    }
}

/* Repeats the plan token by token. `row` is the token, or 0 for owners and loads. */
static struct hwq_value plan_element(const struct hwq_element *e) {
    const int64_t row = e->row, column = e->column;
    const struct aorta_route *s = route_of(e->o);
    const bool of_token = e->output != OWNERS && e->output != LOADS;
    const int64_t first = e->output == CHOICES || e->output == WEIGHTS ? row : 0, last = of_token ? row : s->tokens - 1;
    int64_t loads[MOST_EXPERTS] = {0}, choices[8] = {0};
    double owner = -1.0;
    for (int64_t t = first; t <= last; t++) {
        choose(e, t, choices);
        for (int64_t k = 0; k < s->top; k++) {
            const int64_t load = loads[choices[k]]++, slot = load < s->capacity ? choices[k] * s->capacity + load : -1;
            if (e->output == SLOTS && t == row && k == column) return hwq_exact((double)slot);
            if (slot == column) owner = (double)t;
        }
    }
    if (e->output == CHOICES) return hwq_exact((double)choices[column]);
    if (e->output == OWNERS) return hwq_exact(owner);
    if (e->output == LOADS) return hwq_exact((double)loads[column]);
    double sum = 0.0;
    const double own = hwq_at(e, 0, row, choices[column]).value;
    for (int64_t k = 0; k < s->top; k++) sum += exp(hwq_at(e, 0, row, choices[k]).value - own);
    return (struct hwq_value){1.0 / sum, 1e-5 / sum};
}

static const struct hwq_kind route_plan = {.name = "route_plan", .run = run_plan, .element = plan_element};

static void add_plan(struct hwq_graph *g, struct state *state, struct hwq_tensor logits) {
    const struct aorta_route *s = &state->shape;
    state->choices = hwq_result(g, AORTA_I32, s->tokens, s->top, "choices of tokens");
    state->slots = hwq_result(g, AORTA_I32, s->tokens, s->top, "rows of choices");
    state->owners = hwq_result(g, AORTA_I32, 1, s->experts * s->capacity, "tokens of rows");
    state->loads = hwq_result(g, AORTA_I32, 1, s->experts, "loads of experts");
    state->weights = hwq_result(g, AORTA_F32, s->tokens, s->top, "weights of experts");
    const struct hwq_operation o = {.kind = &route_plan,
                                    .stream = GATE,
                                    .in = {logits},
                                    .out = {state->choices, state->slots, state->owners, state->loads, state->weights}};
    hwq_append(g, &o, s, sizeof *s);
}

/* ---- rows by expert, and back ---- */

static aorta_status run_dispatch(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_route_dispatch(stream, &(struct aorta_route_args){.shape = *route_of(o),
                                                                   .owners = hwq_at_device(o->in[0]),
                                                                   .x = hwq_floats(o->in[1]),
                                                                   .y = hwq_floats(o->out[0])});
}

static struct hwq_value dispatch_element(const struct hwq_element *e) {
    const int64_t token = (int64_t)hwq_at(e, 0, 0, e->row).value;
    return token < 0 ? hwq_exact(0.0) : hwq_at(e, 1, token, e->column);
}

static const struct hwq_kind dispatch = {
    .name = "route_dispatch", .run = run_dispatch, .element = dispatch_element, .moves = true};

static aorta_status run_combine(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_route_combine(stream, &(struct aorta_route_args){.shape = *route_of(o),
                                                                  .slots = hwq_at_device(o->in[0]),
                                                                  .weights = hwq_floats(o->in[1]),
                                                                  .x = hwq_floats(o->in[2]),
                                                                  .y = hwq_floats(o->out[0])});
}

static struct hwq_value combine_element(const struct hwq_element *e) {
    struct hwq_sum sum = {0};
    for (int64_t k = 0; k < route_of(e->o)->top; k++) {
        const int64_t slot = (int64_t)hwq_at(e, 0, e->row, k).value;
        if (slot >= 0) hwq_sum_product(&sum, hwq_at(e, 1, e->row, k), hwq_at(e, 2, slot, e->column));
    }
    return hwq_sum_end(&sum, 1e-5);
}

static const struct hwq_kind combine = {.name = "route_combine", .run = run_combine, .element = combine_element};

/* ---- the graph ---- */

struct expert {
    struct hwq_layer up, down;
    struct hwq_tensor inner, active; /* [ranks · capacity, hidden]: before and after GELU */
};

/* Some rows of one expert that came from one rank. */
static void run_rows(struct hwq_graph *g, int s, const struct state *state, const struct expert *expert, int64_t e,
                     int64_t rank, struct hwq_part part) {
    const int64_t row = (rank * state->own + e) * state->shape.capacity + part.first; /* in `taken` and `made` */
    const int64_t at = rank * state->shape.capacity + part.first;                     /* in the expert's own memory */
    const struct hwq_tensor inner = hwq_linear(hwq_into(g, hwq_rows(expert->inner, at, part.count)), s, &expert->up,
                                               hwq_rows(state->taken, row, part.count));
    const struct hwq_tensor active = hwq_gelu(hwq_into(g, hwq_rows(expert->active, at, part.count)), s, inner);
    hwq_linear(hwq_into(g, hwq_rows(state->made, row, part.count)), s, &expert->down, active);
}

static void run_experts(struct hwq_graph *g, const struct state *state) {
    const struct options *o = g->options;
    const int streams = g->hwq->stream_count - FIRST_EXPERT;
    const int64_t capacity = state->shape.capacity, parts = streams > state->own ? streams / state->own : 1;
    struct expert experts[MOST_EXPERTS];
    for (int64_t e = 0; e < state->own; e++) {
        const uint64_t id = 100 + 10 * (uint64_t)(aorta_comm_rank(g->hwq->world) * state->own + e);
        experts[e] = (struct expert){
            hwq_layer(g, id, o->width, o->hidden, false), hwq_layer(g, id + 2, o->hidden, o->width, false),
            hwq_result(g, AORTA_F32, state->ranks * capacity, o->hidden, "inside an expert"),
            hwq_result(g, AORTA_F32, state->ranks * capacity, o->hidden, "inside an expert, after GELU")};
    }
    for (int64_t part = 0; part < parts; part++)
        for (int64_t e = 0; e < state->own; e++) {
            const int s = FIRST_EXPERT + (int)((part * state->own + e) % streams);
            const struct hwq_part rows = hwq_part(capacity, parts, part);
            for (int64_t rank = 0; rank < state->ranks && rows.count; rank++)
                run_rows(g, s, state, &experts[e], e, rank, rows);
        }
}

static void build(struct hwq_graph *g) {
    const struct options *o = g->options;
    const double fair = (double)(tokens_of(o) * o->top) / (double)o->experts;
    const int64_t capacity = ((int64_t)ceil(fair * o->capacity) + 7) / 8 * 8;
    struct state *state = g->state = hwq_state(g, sizeof *state);
    if (!state) return;
    state->shape = (struct aorta_route){tokens_of(o), o->experts, o->top, capacity, o->width};
    state->ranks = aorta_comm_size(g->hwq->world);
    state->own = o->experts / state->ranks;
    g->work = (double)tokens_of(o);
    const struct hwq_tensor x =
        hwq_input(g, 1 + 1000 * (uint64_t)aorta_comm_rank(g->hwq->world), tokens_of(o), o->width, 1.0f, "tokens");
    const struct hwq_layer gate = hwq_layer(g, 10, o->width, o->experts, false);
    add_plan(g, state, hwq_linear(g, GATE, &gate, x));
    const struct hwq_tensor sent = hwq_result(g, AORTA_F32, o->experts * capacity, o->width, "rows by expert");
    const struct hwq_operation packing = {.kind = &dispatch, .stream = GATE, .in = {state->owners, x}, .out = {sent}};
    hwq_append(g, &packing, &state->shape, sizeof state->shape);
    state->taken = hwq_all_to_all(g, EXCHANGE, g->hwq->world, sent);
    state->made = hwq_result(g, AORTA_F32, o->experts * capacity, o->width, "outputs of experts");
    run_experts(g, state);
    const struct hwq_tensor given = hwq_all_to_all(g, EXCHANGE, g->hwq->world, state->made);
    const struct hwq_tensor y = hwq_result(g, AORTA_F32, tokens_of(o), o->width, "output");
    const struct hwq_operation sum = {
        .kind = &combine, .stream = GATE, .in = {state->slots, state->weights, given}, .out = {y}};
    hwq_append(g, &sum, &state->shape, sizeof state->shape);
}

/* ---- figures ---- */

static aorta_status report(struct hwq_graph *g, struct aorta_hwq_result *result) {
    const struct state *state = g->state;
    int32_t loads[MOST_EXPERTS];
    AORTA_TRY(aorta_hwq_transfer(g->hwq, loads, hwq_at_device(state->loads), hwq_bytes(state->loads)));
    double most = 0.0, dropped = 0.0;
    for (int64_t e = 0; e < state->shape.experts; e++) {
        most = fmax(most, (double)loads[e]);
        dropped += fmax((double)(loads[e] - state->shape.capacity), 0.0);
    }
    const double all = (double)(state->shape.tokens * state->shape.top);
    aorta_hwq_result_figure(result, "busiest_expert_share", "of choices", most / all, NULL);
    aorta_hwq_result_figure(result, "dropped_share", "of choices", dropped / all, NULL);
    return NULL;
}

static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, batch, "4", NULL, 1, HWQ_LARGEST, "sequences"),
    AORTA_HWQ_ROW(struct options, positions, "512", "128", 1, HWQ_LARGEST, "tokens of each"),
    AORTA_HWQ_ROW(struct options, experts, "8", NULL, 1, MOST_EXPERTS, "experts, over all ranks"),
    AORTA_HWQ_ROW(struct options, top, "2", NULL, 1, 8, "experts of a token"),
    AORTA_HWQ_ROW(struct options, width, "1024", "128", 1, HWQ_LARGEST, "width of a token"),
    AORTA_HWQ_ROW(struct options, hidden, "4096", "512", 1, HWQ_LARGEST, "width inside an expert"),
    {"capacity", AORTA_OPTION_DOUBLE, offsetof(struct options, capacity), "1.25", .limits = AORTA_LIMITS(0.1, 64),
     .help = "rows that an expert takes, as a multiple of its fair share; choices beyond are dropped"},
};

const struct aorta_hwq_workload aorta_hwq_moe = {
    .name = "moe",
    .summary = "many experts' products, each on its own stream, between two all-to-alls that depend on all of them",
    .group = AORTA_HWQ_P1,
    .category = "distributed",
    .sensitivity = "critical",
    .streams = {.min = 4, .max = 32, .recommended = 16},
    .unit = "tokens/s",
    .collectives = true,
    AORTA_HWQ_OPTIONS(rows, struct options),
    .try_next = "--capacity 1 shows the cost of padding; with a smaller --hidden queues matter more",
    .check = check,
    .role = role,
    .report = report,
    .build = build,
};
