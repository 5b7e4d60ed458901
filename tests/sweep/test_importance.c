/* Shares of the variance of functions whose shares are known. */
#include "check.h"
#include "sweep/result.h"

#include <math.h>

static void add_trial(struct aorta_trials *trials, int64_t cell, int repeat, double figure) {
    struct aorta_trial trial = {.cell = cell, .repeat = repeat, .figures = {figure, NAN, NAN, NAN}};
    check_ok(aorta_trials_add(trials, &trial));
}

static void three_knobs(struct aorta_sweep_plan *plan, struct aorta_arena *arena) {
    check_ok(aorta_sweep_space_add(&plan->space, "a=0,1,2,3", false, arena));
    check_ok(aorta_sweep_space_add(&plan->space, "b=0,1", false, arena));
    check_ok(aorta_sweep_space_add(&plan->space, "c=x,y,z", false, arena));
}

static double level(const struct aorta_sweep_plan *plan, int64_t cell, int knob) {
    return aorta_sweep_level(&plan->space, cell, knob);
}

/* y = 2a + 3(-1)^b + a'(-1)^b with a' = a - 1.5: variances over the grid are 4 * 1.25, 9, 1.25; c has none. */
static void test_grid(void **state) {
    (void)state;
    struct aorta_arena arena = {0};
    struct aorta_trials trials = {0};
    struct aorta_sweep_plan plan = {0};
    struct aorta_sweep_importance importance;
    const double total = 4 * 1.25 + 9 + 1.25;
    three_knobs(&plan, &arena);
    for (int repeat = 0; repeat < 2; repeat++)
        for (int64_t cell = 0; cell < 24; cell++) {
            const double a = level(&plan, cell, 0), sign = level(&plan, cell, 1) > 0 ? -1 : 1;
            add_trial(&trials, cell, repeat, 2 * a + 3 * sign + (a - 1.5) * sign);
        }
    check_ok(aorta_sweep_importance_make(&plan, &trials, &importance));
    assert_float_equal(importance.mains[0].share, 5 / total, 1e-9);
    assert_float_equal(importance.mains[1].share, 9 / total, 1e-9);
    assert_float_equal(importance.mains[2].share, 0, 1e-9);
    assert_float_equal(importance.pairs[0].share, 1.25 / total, 1e-9);
    assert_float_equal(importance.pairs[1].share, 0, 1e-9);
    assert_float_equal(importance.noise, 0, 1e-9);
    assert_true(importance.counts[0] && importance.counts[1] && !importance.counts[2]);
    assert_float_equal(importance.levels[0][3].mean, 6, 1e-9);
    aorta_trials_free(&trials);
    aorta_arena_free(&arena);
}

/* A number in [-1, 1) that only looks random. */
static double wobble(uint64_t i) {
    i = (i + 1) * 0x9E3779B97F4A7C15u;
    i = (i ^ i >> 31) * 0xD6E8FEB86659FD93u;
    return (double)(i >> 32) / 2147483648.0 - 1;
}

/* Half of the grid is missing: `a` moves the figure by 1 a level, the noise by up to 0.5, `b` and `c` do nothing. In
 * 200 such sweeps the useless knobs may count in about 5% of them. */
static void test_noise(void **state) {
    (void)state;
    struct aorta_arena arena = {0};
    struct aorta_sweep_plan plan = {0};
    int wrong = 0, missed = 0;
    three_knobs(&plan, &arena);
    for (uint64_t sweep = 0; sweep < 200; sweep++) {
        struct aorta_trials trials = {0};
        struct aorta_sweep_importance importance;
        for (int64_t cell = 0; cell < 24; cell++)
            for (int repeat = 0; repeat < 2 && wobble(sweep * 100 + (uint64_t)cell) < 0; repeat++)
                add_trial(&trials, cell, repeat,
                          level(&plan, cell, 0) + 0.5 * wobble(sweep * 1000 + (uint64_t)(2 * cell + repeat) + 77777));
        check_ok(aorta_sweep_importance_make(&plan, &trials, &importance));
        missed += !importance.counts[0];
        assert_true(importance.total[0] > importance.total[1] && importance.total[0] > importance.total[2]);
        wrong += importance.mains[1].counts || importance.mains[2].counts;
        aorta_trials_free(&trials);
    }
    aorta_arena_free(&arena);
    assert_in_range(wrong, 0, 20);
    assert_in_range(missed, 0, 1); /* one sweep has four points for seven means */
}

/* A machine that gets faster from one repeat to the next: the drift is no noise, and hides no knob. The figures are
 * those of a PyTorch job on one GPU: `a` is CUDA_LAUNCH_BLOCKING, `b` a variable that nothing reads. */
static void test_drift(void **state) {
    (void)state;
    static const double figures[2][4] = {{77.9, 80.0, 94.9, 88.0}, {66.8, 69.3, 82.9, 87.8}};
    struct aorta_arena arena = {0};
    struct aorta_trials trials = {0};
    struct aorta_sweep_plan plan = {0};
    struct aorta_sweep_importance importance;
    check_ok(aorta_sweep_space_add(&plan.space, "a=unset,1", true, &arena));
    check_ok(aorta_sweep_space_add(&plan.space, "b=1,2", true, &arena));
    for (int repeat = 0; repeat < 2; repeat++)
        for (int64_t cell = 0; cell < 4; cell++) add_trial(&trials, cell, repeat, figures[repeat][cell]);
    check_ok(aorta_sweep_importance_make(&plan, &trials, &importance));
    /* The four points fell by 11.1, 10.7, 12.0 and 0.2: by 8.5 on average, and the rest in halves of its squares. */
    assert_int_equal(importance.freedom, 3);
    assert_float_equal(importance.noise, sqrt((2.6 * 2.6 + 2.2 * 2.2 + 3.5 * 3.5 + 8.3 * 8.3) / 2 / 3), 1e-9);
    assert_true(importance.counts[0] && !importance.counts[1]);
    aorta_trials_free(&trials);
    aorta_arena_free(&arena);
}

/* Without repeats the noise is what no knob explains, and pairs have no p; with one trial nothing is known. */
static void test_unrepeated(void **state) {
    (void)state;
    struct aorta_arena arena = {0};
    struct aorta_trials trials = {0};
    struct aorta_sweep_plan plan = {0};
    struct aorta_sweep_importance importance;
    three_knobs(&plan, &arena);
    add_trial(&trials, 0, 0, 1);
    check_ok(aorta_sweep_importance_make(&plan, &trials, &importance));
    assert_true(isnan(importance.noise) && !importance.counts[0] && !importance.mains[0].measured);
    for (int64_t cell = 1; cell < 24; cell++)
        add_trial(&trials, cell, 0, 1 + level(&plan, cell, 2) + 0.2 * wobble((uint64_t)cell));
    check_ok(aorta_sweep_importance_make(&plan, &trials, &importance));
    assert_true(importance.counts[2] && !importance.counts[0] && !importance.counts[1]);
    assert_true(!importance.repeated && isnan(importance.pairs[0].p));
    aorta_trials_free(&trials);
    aorta_arena_free(&arena);
}

/* Repeats of the baseline show the noise, alone or as runs of the point that it is. */
static void test_baseline_repeats(void **state) {
    (void)state;
    struct aorta_arena arena = {0};
    struct aorta_trials trials = {0};
    struct aorta_sweep_plan plan = {.baseline = true};
    struct aorta_sweep_importance importance;
    check_ok(aorta_sweep_space_add(&plan.space, "a=0,1,2", false, &arena));
    for (int64_t cell = 0; cell < 3; cell++) add_trial(&trials, cell, 0, 10 + (double)cell);
    add_trial(&trials, AORTA_SWEEP_BASELINE, 0, 11);
    check_ok(aorta_sweep_importance_make(&plan, &trials, &importance));
    assert_true(!importance.repeated);
    plan.equal = 1 + 1; /* it is a=1 */
    check_ok(aorta_sweep_importance_make(&plan, &trials, &importance));
    assert_true(importance.repeated && importance.freedom == 1 && importance.levels[0][1].done == 2);
    assert_float_equal(importance.noise, 0, 1e-9);
    plan.equal = 0;
    for (int repeat = 1; repeat < 4; repeat++) add_trial(&trials, AORTA_SWEEP_BASELINE, repeat, 11 + repeat % 2);
    check_ok(aorta_sweep_importance_make(&plan, &trials, &importance));
    assert_true(!importance.repeated); /* nothing else is in these rounds, so they may have drifted */
    for (int repeat = 1; repeat < 4; repeat++) add_trial(&trials, 0, repeat, 10);
    check_ok(aorta_sweep_importance_make(&plan, &trials, &importance));
    assert_int_equal(importance.freedom, 3);
    assert_true(importance.repeated && importance.noise > 0);
    aorta_trials_free(&trials);
    aorta_arena_free(&arena);
}

/* Knobs that act only together share what they explain. */
static void test_shares_add_up(void **state) {
    (void)state;
    struct aorta_arena arena = {0};
    struct aorta_trials trials = {0};
    struct aorta_sweep_plan plan = {0};
    struct aorta_sweep_importance importance;
    three_knobs(&plan, &arena);
    for (int repeat = 0; repeat < 2; repeat++)
        for (int64_t cell = 0; cell < 24; cell++)
            add_trial(&trials, cell, repeat, (level(&plan, cell, 0) > 1) == (level(&plan, cell, 1) > 0) ? 1 : 2);
    check_ok(aorta_sweep_importance_make(&plan, &trials, &importance));
    assert_float_equal(importance.pairs[0].share, 1, 1e-9);
    assert_float_equal(importance.total[0], 0.5, 1e-9);
    assert_float_equal(importance.total[0] + importance.total[1] + importance.total[2], 1, 1e-9);
    aorta_trials_free(&trials);
    aorta_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_unrepeated),
        cmocka_unit_test(test_baseline_repeats),
        cmocka_unit_test(test_shares_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
