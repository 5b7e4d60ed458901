/* Mixture of experts: every token is sent to its best experts, on any stream and rank, and back.
 *
 * Streams: 0 runs the gate, packs the tokens by expert and sums the results; 1 carries the all-to-alls; the
 * others run the experts of this rank, each expert's rows cut into parts where there are more streams than experts.
 * Tokens keep their order within an expert. An expert takes at most `capacity` rows from each rank (as in Lepikhin et
 * al., "GShard", ICLR 2021), so that the host does not need their number: unused rows are zero, choices beyond the
 * capacity are dropped, counted and reported. */
#include "hwq/verify.h"

#include <math.h>

enum { MOST_EXPERTS = 64, GATE = 0, EXCHANGE = 1, FIRST_EXPERT = 2 };

struct options {
    int64_t batch, positions, experts, top, width, hidden;
    double capacity;
};

struct expert {
    struct aorta_hwq_layer up, down;
    float *inner, *active; /* [ranks · capacity, hidden]: before and after GELU */
};

struct state {
    struct aorta_route shape;
    int64_t own, ranks, parts; /* experts of this rank; pieces that an expert's rows are cut into */
    struct aorta_hwq_layer gate;
    struct expert experts[MOST_EXPERTS];
    struct aorta_route_tensors plan;
    float *x, *logits, *y;              /* [tokens, …] */
    float *sent, *taken, *made, *given; /* [experts · capacity, width]: for each rank its experts' rows, or from it */
    struct aorta_event *packed, *arrived, *worked[AORTA_HWQ_MAX_STREAMS], *returned;
    struct aorta_hwq_results results;
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

static aorta_status setup_plan(struct aorta_hwq *hwq, struct state *state) {
    const struct aorta_route *s = &state->shape;
    const struct {
        void **to;
        int64_t count;
    } integers[] = {{(void **)&state->plan.choices, s->tokens * s->top},
                    {(void **)&state->plan.slots, s->tokens * s->top},
                    {(void **)&state->plan.owners, s->experts * s->capacity},
                    {(void **)&state->plan.loads, s->experts}};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        AORTA_TRY(aorta_hwq_output_bytes(hwq, &state->results, (size_t)integers[i].count * sizeof(int32_t),
                                         "plan of the routing", integers[i].to));
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, s->tokens * s->top, "weights of experts", &state->plan.weights));
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, s->tokens * s->experts, "logits of the gate", &state->logits));
    state->plan.logits = state->logits;
    return NULL;
}

static aorta_status setup_experts(struct aorta_hwq *hwq, struct state *state) {
    const struct options *o = hwq->options;
    const int64_t first = aorta_comm_rank(hwq->world) * state->own, rows = state->ranks * state->shape.capacity;
    for (int64_t e = 0; e < state->own; e++) {
        struct expert *expert = &state->experts[e];
        const uint64_t id = 100 + 10 * (uint64_t)(first + e);
        AORTA_TRY(aorta_hwq_layer_make(hwq, id, o->width, o->hidden, false, &expert->up));
        AORTA_TRY(aorta_hwq_layer_make(hwq, id + 2, o->hidden, o->width, false, &expert->down));
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, rows * o->hidden, "inside an expert", &expert->inner));
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, rows * o->hidden, "inside an expert", &expert->active));
    }
    return NULL;
}

static aorta_status setup(struct aorta_hwq *hwq, void **made) {
    const struct options *o = hwq->options;
    AORTA_TRY(aorta_hwq_state(hwq, sizeof(struct state), made));
    struct state *state = *made;
    const double fair = (double)(tokens_of(o) * o->top) / (double)o->experts;
    const int64_t capacity = ((int64_t)ceil(fair * o->capacity) + 7) / 8 * 8;
    state->shape = (struct aorta_route){tokens_of(o), o->experts, o->top, capacity, o->width};
    state->ranks = aorta_comm_size(hwq->world);
    state->own = o->experts / state->ranks;
    state->parts = (hwq->stream_count - FIRST_EXPERT) / state->own;
    if (state->parts < 1) state->parts = 1;
    const int64_t exchanged = o->experts * capacity * o->width;
    float **const buffers[] = {&state->sent, &state->taken, &state->made, &state->given};
    for (int i = 0; i < 4; i++)
        AORTA_TRY(aorta_hwq_output(hwq, &state->results, exchanged, "rows of experts", buffers[i]));
    AORTA_TRY(aorta_hwq_output(hwq, &state->results, tokens_of(o) * o->width, "output", &state->y));
    AORTA_TRY(aorta_hwq_input(hwq, 1 + 1000 * (uint64_t)aorta_comm_rank(hwq->world), tokens_of(o) * o->width, 1.0f,
                              "tokens", &state->x));
    AORTA_TRY(aorta_hwq_layer_make(hwq, 10, o->width, o->experts, false, &state->gate));
    AORTA_TRY(setup_plan(hwq, state));
    AORTA_TRY(setup_experts(hwq, state));
    AORTA_TRY(aorta_hwq_event(hwq, &state->packed));
    AORTA_TRY(aorta_hwq_event(hwq, &state->arrived));
    AORTA_TRY(aorta_hwq_event(hwq, &state->returned));
    for (int s = FIRST_EXPERT; s < hwq->stream_count; s++) AORTA_TRY(aorta_hwq_event(hwq, &state->worked[s]));
    return NULL;
}

static aorta_status gate(struct aorta_hwq *hwq, struct state *state) {
    struct aorta_stream *stream = hwq->streams[GATE];
    AORTA_TRY(aorta_hwq_linear(hwq, GATE, &state->gate, state->shape.tokens, state->x, state->logits));
    AORTA_TRY(aorta_hwq_begin(hwq, GATE, AORTA_SPAN_KERNEL, "route_plan"));
    AORTA_TRY(aorta_route_plan(stream, state->shape, &state->plan));
    AORTA_TRY(aorta_hwq_end(hwq, GATE));
    AORTA_TRY(aorta_hwq_begin(hwq, GATE, AORTA_SPAN_KERNEL, "route_dispatch"));
    AORTA_TRY(aorta_route_dispatch(stream, state->shape, state->plan.owners, state->x, state->sent));
    return aorta_hwq_end(hwq, GATE);
}

/* Some rows of one expert that came from one rank. */
static aorta_status run_rows(struct aorta_hwq *hwq, int s, const struct state *state, int64_t e, int64_t rank,
                             int64_t first, int64_t rows) {
    const struct options *o = hwq->options;
    const struct expert *expert = &state->experts[e];
    const int64_t row = (rank * state->own + e) * state->shape.capacity + first; /* in `taken` and `made` */
    const int64_t at = (rank * state->shape.capacity + first) * expert->up.out;  /* in the expert's own memory */
    AORTA_TRY(aorta_hwq_linear(hwq, s, &expert->up, rows, state->taken + row * o->width, expert->inner + at));
    AORTA_TRY(aorta_hwq_gelu(hwq, s, rows * expert->up.out, expert->inner + at, expert->active + at));
    return aorta_hwq_linear(hwq, s, &expert->down, rows, expert->active + at, state->made + row * o->width);
}

static aorta_status run_experts(struct aorta_hwq *hwq, struct state *state) {
    const int streams = hwq->stream_count - FIRST_EXPERT;
    const int64_t capacity = state->shape.capacity;
    for (int i = 0; i < streams; i++) AORTA_TRY(aorta_stream_wait(hwq->streams[FIRST_EXPERT + i], state->arrived));
    for (int64_t part = 0; part < state->parts; part++)
        for (int64_t e = 0; e < state->own; e++) {
            const int s = FIRST_EXPERT + (int)((part * state->own + e) % streams);
            const int64_t first = capacity * part / state->parts, end = capacity * (part + 1) / state->parts;
            for (int64_t rank = 0; rank < state->ranks && end > first; rank++)
                AORTA_TRY(run_rows(hwq, s, state, e, rank, first, end - first));
        }
    for (int i = 0; i < streams; i++)
        AORTA_TRY(aorta_hwq_after(hwq, EXCHANGE, state->worked[FIRST_EXPERT + i], FIRST_EXPERT + i));
    return NULL;
}

static aorta_status iterate(struct aorta_hwq *hwq, void *opaque) {
    struct state *state = opaque;
    const int64_t block = state->own * state->shape.capacity * state->shape.width;
    AORTA_TRY(gate(hwq, state));
    AORTA_TRY(aorta_hwq_after(hwq, EXCHANGE, state->packed, GATE));
    AORTA_TRY(aorta_hwq_all_to_all(hwq, EXCHANGE, hwq->world, state->sent, state->taken, block));
    AORTA_TRY(aorta_event_record(state->arrived, hwq->streams[EXCHANGE]));
    AORTA_TRY(run_experts(hwq, state));
    AORTA_TRY(aorta_hwq_all_to_all(hwq, EXCHANGE, hwq->world, state->made, state->given, block));
    AORTA_TRY(aorta_hwq_after(hwq, GATE, state->returned, EXCHANGE));
    AORTA_TRY(aorta_hwq_begin(hwq, GATE, AORTA_SPAN_KERNEL, "route_combine"));
    AORTA_TRY(aorta_route_combine(hwq->streams[GATE], state->shape, state->plan.slots, state->plan.weights,
                                  state->given, state->y));
    return aorta_hwq_end(hwq, GATE);
}

static aorta_status work(struct aorta_hwq *hwq, void *state, int64_t iterations, double *amount) {
    (void)state;
    *amount = (double)(iterations * tokens_of(hwq->options));
    return NULL;
}

/* ---- verification ---- */

/* The plan, token by token in their order, from the device's logits. */
static aorta_status verify_plan(struct aorta_hwq_verifier *verifier, const struct state *state, const int32_t **slots) {
    const struct aorta_route *s = &state->shape;
    const float *logits;
    const void *fetched = NULL;
    int32_t loads[MOST_EXPERTS] = {0};
    AORTA_TRY(aorta_hwq_fetch(verifier, state->logits, s->tokens * s->experts, &logits));
    AORTA_TRY(
        aorta_hwq_fetch_bytes(verifier, state->plan.slots, (size_t)(s->tokens * s->top) * sizeof **slots, &fetched));
    *slots = fetched;
    for (int64_t t = 0; t < s->tokens; t++) {
        bool taken[MOST_EXPERTS] = {false};
        for (int64_t k = 0; k < s->top; k++) {
            int64_t best = -1;
            for (int64_t e = 0; e < s->experts; e++)
                if (!taken[e] && (best < 0 || logits[t * s->experts + e] > logits[t * s->experts + best])) best = e;
            taken[best] = true;
            const int32_t row = loads[best]++;
            const int64_t slot = row < s->capacity ? best * s->capacity + row : -1;
            aorta_hwq_compare(verifier->check, (double)(*slots)[t * s->top + k], (double)slot, 0.5, 0,
                              "row of choice %lld of token %lld", (long long)k, (long long)t);
        }
    }
    return NULL;
}

/* Tokens as sent, and the weighted sums of the results. */
static aorta_status verify_tokens(struct aorta_hwq_verifier *verifier, const struct state *state,
                                  const int32_t *slots) {
    const struct aorta_route *s = &state->shape;
    const int64_t exchanged = s->experts * s->capacity * s->width, count = s->tokens * s->width;
    const float *logits, *x, *sent, *given, *y;
    AORTA_TRY(aorta_hwq_fetch(verifier, state->logits, s->tokens * s->experts, &logits));
    AORTA_TRY(aorta_hwq_fetch(verifier, state->x, count, &x));
    AORTA_TRY(aorta_hwq_fetch(verifier, state->sent, exchanged, &sent));
    AORTA_TRY(aorta_hwq_fetch(verifier, state->given, exchanged, &given));
    AORTA_TRY(aorta_hwq_fetch(verifier, state->y, count, &y));
    const void *choices = NULL;
    AORTA_TRY(
        aorta_hwq_fetch_bytes(verifier, state->plan.choices, (size_t)(s->tokens * s->top) * sizeof(int32_t), &choices));
    for (int64_t i = 0; i < aorta_hwq_sample_count(count); i++) {
        const int64_t at = aorta_hwq_sample(i, count), token = at / s->width, column = at % s->width;
        double sum = 0.0, all = 0.0, magnitude = 0.0;
        for (int64_t k = 0; k < s->top; k++) {
            const int64_t choice = token * s->top + k, slot = slots[choice];
            const double weight = exp((double)logits[token * s->experts + ((const int32_t *)choices)[choice]]);
            all += weight;
            if (slot < 0) continue;
            aorta_hwq_compare(verifier->check, (double)sent[slot * s->width + column], (double)x[at], 0, 1e-30,
                              "token %lld as sent, column %lld", (long long)token, (long long)column);
            sum += weight * (double)given[slot * s->width + column];
            magnitude += weight * fabs((double)given[slot * s->width + column]);
        }
        aorta_hwq_compare(verifier->check, (double)y[at], sum / all, 1e-5 * magnitude / all + 1e-30, 0,
                          "output of token %lld, column %lld", (long long)token, (long long)column);
    }
    return NULL;
}

/* The data that this rank sends to itself, out and back; with one rank that is everything. */
static aorta_status verify_exchange(struct aorta_hwq_verifier *verifier, const struct state *state, const float *from,
                                    const float *to) {
    const int64_t block = state->own * state->shape.capacity * state->shape.width;
    const int64_t first = aorta_comm_rank(verifier->hwq->world) * block;
    const float *before, *after;
    AORTA_TRY(aorta_hwq_fetch(verifier, from + first, block, &before));
    AORTA_TRY(aorta_hwq_fetch(verifier, to + first, block, &after));
    for (int64_t i = 0; i < aorta_hwq_sample_count(block); i++) {
        const int64_t at = aorta_hwq_sample(i, block);
        aorta_hwq_compare(verifier->check, (double)after[at], (double)before[at], 1e-30, 0, "exchanged element %lld",
                          (long long)at);
    }
    return NULL;
}

static aorta_status verify_expert(struct aorta_hwq_verifier *verifier, const struct state *state, int64_t e) {
    const struct expert *expert = &state->experts[e];
    const int64_t capacity = state->shape.capacity, width = state->shape.width;
    for (int64_t rank = 0; rank < state->ranks; rank++) {
        const int64_t row = (rank * state->own + e) * capacity, at = rank * capacity * expert->up.out;
        AORTA_TRY(aorta_hwq_verify_linear(verifier, "inside an expert", &expert->up, capacity,
                                          state->taken + row * width, expert->inner + at, AORTA_HWQ_PLAIN,
                                          AORTA_HWQ_FP32));
        AORTA_TRY(aorta_hwq_verify_gelu(verifier, "GELU of an expert", capacity * expert->up.out, expert->inner + at,
                                        expert->active + at));
        AORTA_TRY(aorta_hwq_verify_linear(verifier, "output of an expert", &expert->down, capacity, expert->active + at,
                                          state->made + row * width, AORTA_HWQ_PLAIN, AORTA_HWQ_FP32));
    }
    return NULL;
}

static aorta_status compare(struct aorta_hwq_verifier *verifier, void *opaque) {
    const struct state *state = opaque;
    const int32_t *slots;
    AORTA_TRY(aorta_hwq_verify_linear(verifier, "logits of the gate", &state->gate, state->shape.tokens, state->x,
                                      state->logits, AORTA_HWQ_PLAIN, AORTA_HWQ_FP32));
    AORTA_TRY(verify_plan(verifier, state, &slots));
    AORTA_TRY(verify_tokens(verifier, state, slots));
    AORTA_TRY(verify_exchange(verifier, state, state->sent, state->taken));
    AORTA_TRY(verify_exchange(verifier, state, state->made, state->given));
    for (int64_t e = 0; e < state->own; e++) AORTA_TRY(verify_expert(verifier, state, e));
    return NULL;
}

static aorta_status verify(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_check *result) {
    return aorta_hwq_verify_iteration(hwq, result, &((struct state *)opaque)->results, opaque, iterate, compare);
}

/* ---- figures ---- */

static aorta_status report(struct aorta_hwq *hwq, void *opaque, struct aorta_hwq_result *result) {
    const struct state *state = opaque;
    int32_t loads[MOST_EXPERTS];
    AORTA_TRY(aorta_hwq_download(hwq, loads, state->plan.loads, (size_t)state->shape.experts * sizeof *loads));
    double most = 0.0, dropped = 0.0;
    for (int64_t e = 0; e < state->shape.experts; e++) {
        most = fmax(most, (double)loads[e]);
        dropped += fmax((double)(loads[e] - state->shape.capacity), 0.0);
    }
    const double all = (double)(state->shape.tokens * state->shape.top);
    AORTA_TRY(aorta_hwq_result_figure(result, "busiest_expert_share", "of choices", most / all, NULL));
    return aorta_hwq_result_figure(result, "dropped_share", "of choices", dropped / all, NULL);
}

static const struct aorta_range_limits expert_count = {.min = 1, .max = MOST_EXPERTS}, top_count = {.min = 1, .max = 8};
static const struct aorta_range_limits factors = {.min = 0.1, .max = 64};
static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, batch, "4", aorta_hwq_sizes, "sequences"),
    AORTA_HWQ_ROW(struct options, positions, "512", aorta_hwq_sizes, "tokens of each"),
    AORTA_HWQ_ROW(struct options, experts, "8", expert_count, "experts, over all ranks"),
    AORTA_HWQ_ROW(struct options, top, "2", top_count, "experts of a token"),
    AORTA_HWQ_ROW(struct options, width, "1024", aorta_hwq_sizes, "width of a token"),
    AORTA_HWQ_ROW(struct options, hidden, "4096", aorta_hwq_sizes, "width inside an expert"),
    {"capacity", AORTA_OPTION_DOUBLE, offsetof(struct options, capacity), "1.25", .limits = &factors,
     .help = "rows that an expert takes, as a multiple of its fair share; choices beyond are dropped"},
};

static const struct aorta_hwq_size on_cpu[] = {{"width", "128"}, {"hidden", "512"}, {"positions", "128"}, {0}};

const struct aorta_hwq_workload aorta_hwq_moe = {
    .name = "moe",
    .summary = "many experts' products, each on its own stream, between two all-to-alls that depend on all of them",
    .group = AORTA_HWQ_P1,
    .category = AORTA_HWQ_DISTRIBUTED,
    .sensitivity = AORTA_HWQ_CRITICAL,
    .min_streams = 4,
    .max_streams = 32,
    .recommended_streams = 16,
    .unit = "tokens/s",
    .collectives = true,
    .options = rows,
    .option_count = sizeof rows / sizeof *rows,
    .option_bytes = sizeof(struct options),
    .on_cpu = on_cpu,
    .try_next =
        "--capacity 1 shows what padding costs; fewer --hidden make the experts small enough for queues to matter",
    .check = check,
    .role = role,
    .setup = setup,
    .iterate = iterate,
    .work = work,
    .verify = verify,
    .report = report,
};
