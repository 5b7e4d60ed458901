/* Routing to experts, against the definition token by token. */
#include "rig.h"

#include <math.h>
#include <stdlib.h>

static int64_t best_of(const double *logits, int64_t experts, const bool *taken) {
    int64_t best = -1;
    for (int64_t e = 0; e < experts; e++)
        if (!taken[e] && (best < 0 || logits[e] > logits[best])) best = e;
    return best;
}

struct routing {
    int32_t *choices, *slots, *owners, *loads;
    double *weights;
};

static struct routing route_naive(struct rig *rig, struct aorta_route s, const double *logits) {
    struct routing r = {calloc((size_t)(s.tokens * s.top), sizeof(int32_t)),
                        calloc((size_t)(s.tokens * s.top), sizeof(int32_t)),
                        calloc((size_t)(s.experts * s.capacity), sizeof(int32_t)),
                        calloc((size_t)s.experts, sizeof(int32_t)), rig_values(rig, s.tokens * s.top)};
    assert_true(r.choices && r.slots && r.owners && r.loads);
    for (int64_t i = 0; i < s.experts * s.capacity; i++) r.owners[i] = -1;
    for (int64_t t = 0; t < s.tokens; t++) {
        bool taken[64] = {false};
        double sum = 0.0;
        for (int64_t k = 0; k < s.top; k++) {
            const int64_t e = best_of(logits + t * s.experts, s.experts, taken), i = t * s.top + k;
            taken[e] = true;
            const int32_t row = r.loads[e]++;
            r.choices[i] = (int32_t)e;
            r.slots[i] = row < s.capacity ? (int32_t)(e * s.capacity + row) : -1;
            if (row < s.capacity) r.owners[e * s.capacity + row] = (int32_t)t;
            sum += r.weights[i] = exp(logits[t * s.experts + e]);
        }
        for (int64_t k = 0; k < s.top; k++) r.weights[t * s.top + k] /= sum;
    }
    return r;
}

static void same(struct rig *rig, const char *what, const int32_t *device, const int32_t *expected, int64_t count) {
    int32_t *got = calloc((size_t)count, sizeof *got);
    assert_non_null(got);
    rig_get_bytes(rig, got, device, (size_t)count * sizeof *got);
    for (int64_t i = 0; i < count; i++)
        if (got[i] != expected[i])
            fail_msg("%s[%lld] is %d, not %d", what, (long long)i, (int)got[i], (int)expected[i]);
    free(got);
}

static void check_route(struct rig *rig, struct aorta_route s) {
    const int64_t choices = s.tokens * s.top, rows = s.experts * s.capacity;
    double *logits = rig_random(rig, AORTA_F32, s.tokens * s.experts, 3);
    if (s.experts > 2) logits[1] = logits[2] = 7.0; /* equals: the first comes first */
    struct routing r = route_naive(rig, s, logits);
    const size_t int_bytes = (size_t)choices * sizeof(int32_t);
    const struct aorta_route_args t = {.shape = s,
                                       .logits = rig_put(rig, AORTA_F32, logits, s.tokens * s.experts),
                                       .choices = rig_alloc(rig, int_bytes),
                                       .slots = rig_alloc(rig, int_bytes),
                                       .owners = rig_alloc(rig, (size_t)rows * sizeof(int32_t)),
                                       .loads = rig_alloc(rig, (size_t)s.experts * sizeof(int32_t)),
                                       .weights = rig_alloc(rig, int_bytes)};
    check_ok(aorta_route_plan(rig->stream, &t));
    same(rig, "choices", t.choices, r.choices, choices);
    same(rig, "slots", t.slots, r.slots, choices);
    same(rig, "owners", t.owners, r.owners, rows);
    same(rig, "loads", t.loads, r.loads, s.experts);
    rig_close_to("weights", rig_get(rig, AORTA_F32, t.weights, choices), r.weights, choices, 2e-6, 0);

    double *x = rig_random(rig, AORTA_F32, s.tokens * s.width, 1), *sent = rig_values(rig, rows * s.width);
    double *y = rig_values(rig, s.tokens * s.width);
    for (int64_t i = 0; i < rows * s.width; i++) {
        const int64_t owner = r.owners[i / s.width];
        sent[i] = owner < 0 ? 0.0 : x[owner * s.width + i % s.width];
    }
    float *z = rig_alloc(rig, (size_t)(rows * s.width) * sizeof(float));
    float *out = rig_alloc(rig, (size_t)(s.tokens * s.width) * sizeof(float));
    check_ok(aorta_route_dispatch(
        rig->stream, &(struct aorta_route_args){
                         .shape = s, .owners = t.owners, .x = rig_put(rig, AORTA_F32, x, s.tokens * s.width), .y = z}));
    rig_close_to("sent", rig_get(rig, AORTA_F32, z, rows * s.width), sent, rows * s.width, 0, 0);
    check_ok(aorta_route_combine(
        rig->stream, &(struct aorta_route_args){.shape = s, .slots = t.slots, .weights = t.weights, .x = z, .y = out}));
    for (int64_t i = 0; i < choices * s.width; i++) {
        const int64_t choice = i / s.width, slot = r.slots[choice];
        if (slot >= 0)
            y[choice / s.top * s.width + i % s.width] += r.weights[choice] * sent[slot * s.width + i % s.width];
    }
    rig_close_to("y", rig_get(rig, AORTA_F32, out, s.tokens * s.width), y, s.tokens * s.width, 3e-6, 1e-7);
    free(r.choices), free(r.slots), free(r.owners), free(r.loads);
}

static void routing(void **state) {
    static const struct aorta_route shapes[] = {
        {.tokens = 1, .experts = 1, .top = 1, .capacity = 1, .width = 3},
        {.tokens = 50, .experts = 8, .top = 2, .capacity = 20, .width = 24},
        {.tokens = 300, .experts = 5, .top = 2, .capacity = 90, .width = 17}, /* some exceed the capacity */
        {.tokens = 700, .experts = 8, .top = 1, .capacity = 700, .width = 8},
        {.tokens = 9, .experts = 33, .top = 8, .capacity = 2, .width = 5},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_route(*state, shapes[i]);
        rig_reset(state);
    }
}

static void wrong_arguments(void **state) {
    struct rig *rig = *state;
    float some[4] = {0};
    struct aorta_route_args none = {.shape = {.tokens = 1, .experts = 1, .top = 2, .capacity = 1, .width = 4}};
    struct aorta_route *s = &none.shape;
    check_fails(aorta_route_plan(rig->stream, &none), AORTA_INTERNAL, "experts is 1, must be at least 2");
    s->experts = 9, s->top = 9;
    check_fails(aorta_route_plan(rig->stream, &none), AORTA_INTERNAL, "9 choices (at most 8)");
    s->top = 1;
    check_fails(aorta_route_plan(rig->stream, &none), AORTA_INTERNAL, "logits is NULL");
    check_fails(aorta_route_dispatch(rig->stream, &(struct aorta_route_args){.shape = *s, .x = some, .y = some}),
                AORTA_INTERNAL, "owners is NULL");
    check_fails(aorta_route_combine(rig->stream,
                                    &(struct aorta_route_args){.shape = *s, .weights = some, .x = some, .y = some}),
                AORTA_INTERNAL, "slots is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {rig_test(routing), rig_test(wrong_arguments)};
    return rig_run_tests("ops: route", tests);
}
