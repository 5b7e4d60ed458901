/* Drawn tokens have the right frequencies, and tokens are accepted and rejected accordingly. */
#include "device/gpu.h"
#include "rig.h"

#include <math.h>

enum { ROWS = 4000, VOCAB = 11 };

/* The emulator is slow: there fewer cases have to do, with wider bounds. */
static int64_t cases(const struct rig *rig, int64_t all) {
    const bool emulated =
        aorta_device_is_gpu(rig->device) && aorta_device_get_info(rig->device)->kind == AORTA_DEVICE_CPU;
    return emulated ? all / 40 : all;
}

static double *softmax(struct rig *rig, const double *x, int64_t count) {
    double *p = rig_values(rig, count), sum = 0.0;
    for (int64_t i = 0; i < count; i++) sum += exp(x[i]);
    for (int64_t i = 0; i < count; i++) p[i] = exp(x[i]) / sum;
    return p;
}

/* Shares of `total` drawn tokens: within five standard deviations. */
static void check_shares(const char *what, const int64_t *seen, const double *p, int64_t count, double total) {
    for (int64_t i = 0; i < count; i++) {
        const double share = (double)seen[i] / total, allowed = 5.0 * sqrt(p[i] * (1.0 - p[i]) / total) + 1e-3;
        if (fabs(share - p[i]) > allowed)
            fail_msg("%s: token %lld came in %g of all cases instead of %g", what, (long long)i, share, p[i]);
    }
}

static void drawn_as_often(void **state) {
    struct rig *rig = *state;
    const int64_t n = cases(rig, ROWS);
    double *x = rig_random(rig, AORTA_F32, VOCAB, 2), *rows = rig_values(rig, ROWS * VOCAB),
           *sums = rig_values(rig, ROWS);
    double total = 0.0;
    for (int i = 0; i < VOCAB; i++) total += exp(x[i]);
    for (int i = 0; i < ROWS * VOCAB; i++) rows[i] = x[i % VOCAB];
    for (int i = 0; i < ROWS; i++) sums[i] = log(total);
    const int64_t step = 3;
    int64_t *tokens = rig_alloc(rig, ROWS * sizeof *tokens), got[ROWS], again[ROWS], seen[VOCAB] = {0};
    float *device = rig_put(rig, AORTA_F32, rows, ROWS * VOCAB), *logsums = rig_alloc(rig, ROWS * sizeof(float));
    const int64_t *at = rig_put_bytes(rig, &step, sizeof step);
    check_ok(aorta_sample(rig->stream, &(struct aorta_sample_args){.rows = n,
                                                                   .vocab = VOCAB,
                                                                   .x = device,
                                                                   .seed = 42,
                                                                   .site = 7,
                                                                   .step = at,
                                                                   .tokens = tokens,
                                                                   .logsums = logsums}));
    rig_get_bytes(rig, got, tokens, (size_t)n * sizeof *got);
    rig_close_to("logsum", rig_get(rig, AORTA_F32, logsums, n), sums, n, 1e-6, 1e-6);
    for (int64_t i = 0; i < n; i++) {
        assert_in_range(got[i], 0, VOCAB - 1);
        seen[got[i]]++;
    }
    check_shares("drawn", seen, softmax(rig, x, VOCAB), VOCAB, (double)n);
    /* Repeated draws are equal; another step gives other tokens. */
    check_ok(aorta_sample(rig->stream, &(struct aorta_sample_args){.rows = n,
                                                                   .vocab = VOCAB,
                                                                   .x = device,
                                                                   .seed = 42,
                                                                   .site = 7,
                                                                   .step = at,
                                                                   .tokens = tokens,
                                                                   .logsums = logsums}));
    rig_get_bytes(rig, again, tokens, (size_t)n * sizeof *again);
    assert_memory_equal(got, again, (size_t)n * sizeof *got);
    check_ok(aorta_sample(
        rig->stream,
        &(struct aorta_sample_args){
            .rows = n, .vocab = VOCAB, .x = device, .seed = 42, .site = 7, .tokens = tokens, .logsums = logsums}));
    rig_get_bytes(rig, again, tokens, (size_t)n * sizeof *again);
    assert_memory_not_equal(got, again, (size_t)n * sizeof *got);
}

/* Rows that are one token's for certain. */
static void certain(void **state) {
    struct rig *rig = *state;
    enum { WIDE = 5003 };
    double *x = rig_random(rig, AORTA_F32, 2 * WIDE, 1);
    x[4999] = 200.0, x[WIDE] = 200.0;
    int64_t *tokens = rig_alloc(rig, 2 * sizeof *tokens), got[2];
    float *logsums = rig_alloc(rig, 2 * sizeof(float));
    check_ok(aorta_sample(rig->stream, &(struct aorta_sample_args){.rows = 2,
                                                                   .vocab = WIDE,
                                                                   .x = rig_put(rig, AORTA_F32, x, 2 * WIDE),
                                                                   .seed = 1,
                                                                   .site = 2,
                                                                   .tokens = tokens,
                                                                   .logsums = logsums}));
    rig_get_bytes(rig, got, tokens, sizeof got);
    assert_int_equal(got[0], 4999);
    assert_int_equal(got[1], 0);
}

enum { BATCH = 4000, DRAFTED = 2, WORDS = 5 };

struct game {
    struct aorta_accept_args t;
    double *p, *q;
    int64_t batch;
};

/* Every sequence has the same distributions; the drafts are drawn from q. */
static struct game game_begin(struct rig *rig, double *p, double *q) {
    const int64_t batch = cases(rig, BATCH);
    double *ps = rig_values(rig, (DRAFTED + 1) * BATCH * WORDS), *qs = rig_values(rig, DRAFTED * BATCH * WORDS);
    for (int i = 0; i < (DRAFTED + 1) * BATCH * WORDS; i++) ps[i] = p[i % WORDS];
    for (int i = 0; i < DRAFTED * BATCH * WORDS; i++) qs[i] = q[i % WORDS];
    const int64_t zeros[BATCH] = {0};
    struct game g = {.batch = batch, .p = softmax(rig, p, WORDS), .q = softmax(rig, q, WORDS)};
    float *p_sums = rig_alloc(rig, (DRAFTED + 1) * BATCH * sizeof(float));
    float *q_sums = rig_alloc(rig, DRAFTED * BATCH * sizeof(float));
    int64_t *tokens = rig_alloc(rig, DRAFTED * BATCH * sizeof *tokens);
    g.t = (struct aorta_accept_args){.shape = {.batch = batch, .drafted = DRAFTED, .vocab = WORDS, .seed = 77},
                                     .tokens = tokens,
                                     .q = rig_put(rig, AORTA_F32, qs, DRAFTED * BATCH * WORDS),
                                     .q_logsums = q_sums,
                                     .p = rig_put(rig, AORTA_F32, ps, (DRAFTED + 1) * BATCH * WORDS),
                                     .p_logsums = p_sums,
                                     .step = rig_put_bytes(rig, zeros, sizeof *zeros),
                                     .next = rig_alloc(rig, sizeof zeros),
                                     .totals = rig_put_bytes(rig, zeros, sizeof zeros),
                                     .accepted = rig_alloc(rig, BATCH * sizeof(int32_t)),
                                     .counts = rig_alloc(rig, BATCH * sizeof(int32_t))};
    check_ok(aorta_sample(rig->stream, &(struct aorta_sample_args){.rows = DRAFTED * batch,
                                                                   .vocab = WORDS,
                                                                   .x = g.t.q,
                                                                   .seed = 9,
                                                                   .site = 1,
                                                                   .tokens = tokens,
                                                                   .logsums = q_sums}));
    check_ok(aorta_sample(
        rig->stream,
        &(struct aorta_sample_args){.rows = (DRAFTED + 1) * batch, .vocab = WORDS, .x = g.t.p, .logsums = p_sums}));
    return g;
}

static void play(struct rig *rig, const struct game *g) {
    check_ok(aorta_accept(rig->stream, &g->t));
}

/* The theorem: for any draft, the first output token has the main model's distribution, and is a proposed one with
 * probability Σ min(p, q). */
static void output_is_the_main_models(void **state) {
    struct rig *rig = *state;
    double p[WORDS] = {0.5, -1.0, 1.5, 0.0, -0.5}, q[WORDS] = {1.5, 0.5, -0.5, 0.0, -2.0}, agree = 0.0;
    struct game g = game_begin(rig, p, q);
    play(rig, &g);
    int64_t tokens[DRAFTED * BATCH], next[BATCH], totals[BATCH], seen[WORDS] = {0}, taken = 0, step;
    int32_t accepted[BATCH], counts[BATCH];
    rig_get_bytes(rig, tokens, g.t.tokens, DRAFTED * (size_t)g.batch * sizeof *tokens);
    rig_get_bytes(rig, next, g.t.next, (size_t)g.batch * sizeof *next);
    rig_get_bytes(rig, totals, g.t.totals, (size_t)g.batch * sizeof *totals);
    rig_get_bytes(rig, accepted, g.t.accepted, (size_t)g.batch * sizeof *accepted);
    rig_get_bytes(rig, counts, g.t.counts, (size_t)g.batch * sizeof *counts);
    rig_get_bytes(rig, &step, g.t.step, sizeof step);
    assert_int_equal(step, 1);
    for (int64_t b = 0; b < g.batch; b++) {
        assert_in_range(accepted[b], 0, DRAFTED);
        assert_in_range(next[b], 0, WORDS - 1);
        assert_int_equal(counts[b], accepted[b] + 1);
        assert_int_equal(totals[b], accepted[b]);
        if (accepted[b] < DRAFTED) assert_true(g.p[next[b]] > g.q[next[b]]);
        seen[accepted[b] > 0 ? tokens[b] : next[b]]++;
        taken += accepted[b] > 0;
    }
    check_shares("first token", seen, g.p, WORDS, (double)g.batch);
    for (int i = 0; i < WORDS; i++) agree += fmin(g.p[i], g.q[i]);
    assert_true(fabs((double)taken / (double)g.batch - agree) < 5.0 * sqrt(0.25 / (double)g.batch));
    play(rig, &g); /* totals grow, the step too, and other numbers are drawn */
    int64_t more[BATCH];
    int32_t then[BATCH];
    rig_get_bytes(rig, more, g.t.totals, (size_t)g.batch * sizeof *more);
    rig_get_bytes(rig, then, g.t.accepted, (size_t)g.batch * sizeof *then);
    for (int64_t b = 0; b < g.batch; b++) assert_int_equal(more[b], totals[b] + then[b]);
    assert_memory_not_equal(accepted, then, (size_t)g.batch * sizeof *then);
}

static void all_and_none(void **state) {
    struct rig *rig = *state;
    double p[WORDS] = {0.5, -1.0, 1.5, 0.0, -0.5}, sure[WORDS] = {50, 0, 0, 0, 0}, other[WORDS] = {0, 50, 0, 0, 0};
    int32_t accepted[BATCH];
    int64_t next[BATCH];
    struct game same = game_begin(rig, p, p);
    play(rig, &same);
    rig_get_bytes(rig, accepted, same.t.accepted, (size_t)same.batch * sizeof *accepted);
    for (int64_t b = 0; b < same.batch; b++) assert_int_equal(accepted[b], DRAFTED);
    rig_reset(state);
    rig = *state;
    struct game never = game_begin(rig, sure, other);
    play(rig, &never);
    rig_get_bytes(rig, accepted, never.t.accepted, (size_t)never.batch * sizeof *accepted);
    rig_get_bytes(rig, next, never.t.next, (size_t)never.batch * sizeof *next);
    for (int64_t b = 0; b < never.batch; b++) {
        assert_int_equal(accepted[b], 0);
        assert_int_equal(next[b], 0);
    }
}

static void wrong_arguments(void **state) {
    struct rig *rig = *state;
    float some[4] = {0};
    int64_t token;
    check_fails(
        aorta_sample(rig->stream,
                     &(struct aorta_sample_args){
                         .rows = 1, .vocab = 0, .x = some, .seed = 1, .site = 1, .tokens = &token, .logsums = some}),
        AORTA_INTERNAL, "vocab is 0");
    check_fails(aorta_sample(rig->stream,
                             &(struct aorta_sample_args){
                                 .rows = 1, .vocab = 4, .x = some, .seed = 1, .site = 1, .tokens = &token}),
                AORTA_INTERNAL, "logsums is NULL");
    struct aorta_accept_args none = {.shape = {.batch = 1, .drafted = 33, .vocab = 4}};
    check_fails(aorta_accept(rig->stream, &none), AORTA_INTERNAL, "drafted is 33, at most 32");
    none.shape.drafted = 1;
    check_fails(aorta_accept(rig->stream, &none), AORTA_INTERNAL, "tokens is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {rig_test(drawn_as_often), rig_test(certain), rig_test(output_is_the_main_models),
                                       rig_test(all_and_none), rig_test(wrong_arguments)};
    return rig_run_tests("ops: sample", tests);
}
