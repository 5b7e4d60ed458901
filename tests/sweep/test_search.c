/* What each method finds of known functions, and that a stopped search goes on as if it had not been. */
#include "check.h"
#include "sweep/sweep.h"

#include <math.h>

typedef double function(const struct aorta_sweep_space *space, int64_t cell);

/* The distance to level 5 of each knob but the last, which changes nothing. */
static double bowl(const struct aorta_sweep_space *space, int64_t cell) {
    double sum = 1;
    for (int k = 0; k < space->count - 1; k++) sum += pow(aorta_sweep_level(space, cell, k) - 5, 2);
    return sum;
}

static void add_knobs(struct aorta_sweep_space *space, int count, struct aorta_arena *arena) {
    for (int k = 0; k < count; k++) {
        char text[64];
        snprintf(text, sizeof text, "knob%d=0,1,2,3,4,5,6,7", k);
        check_ok(aorta_sweep_space_add(space, text, false, arena));
    }
}

/* Runs up to `most` more trials; those of a cell that 7 divides fail when `failing`. */
static size_t run(const struct aorta_sweep_plan *plan, function *f, bool failing, size_t most,
                  struct aorta_trials *trials) {
    size_t ran = 0;
    for (; ran < most; ran++) {
        struct aorta_sweep_next next;
        bool more;
        check_ok(aorta_sweep_choose(plan, trials, &next, &more));
        if (!more) break;
        struct aorta_trial trial = {
            .number = (int64_t)trials->count, .cell = next.cell, .repeat = next.repeat, .steps = next.steps};
        for (int i = 0; i < AORTA_SWEEP_OBJECTIVE_COUNT; i++) trial.figures[i] = NAN;
        if (failing && next.cell % 7 == 0)
            trial.state = AORTA_TRIAL_FAILED;
        else
            trial.figures[plan->objective] = f(&plan->space, next.cell);
        for (size_t i = 0; i < trials->count; i++)
            assert_false(trials->items[i].cell == next.cell && trials->items[i].repeat == next.repeat &&
                         trials->items[i].steps == next.steps);
        check_ok(aorta_trials_add(trials, &trial));
    }
    return ran;
}

static double best(const struct aorta_sweep_plan *plan, const struct aorta_trials *trials) {
    double cost = INFINITY;
    for (size_t i = 0; i < trials->count; i++)
        if (trials->items[i].steps == plan->steps) cost = fmin(cost, aorta_sweep_cost(plan, &trials->items[i]));
    return cost;
}

static void test_grid(void **state) {
    (void)state;
    struct aorta_arena arena = {0};
    struct aorta_trials trials = {0};
    struct aorta_sweep_plan plan = {.method = AORTA_SWEEP_GRID, .repeats = 3};
    add_knobs(&plan.space, 2, &arena);
    assert_int_equal(aorta_sweep_planned(&plan), 3 * 64);
    assert_int_equal(run(&plan, bowl, false, 1000, &trials), 3 * 64);
    assert_float_equal(best(&plan, &trials), 1, 0);
    /* All points once, then all once more. */
    for (int i = 0; i < 3 * 64; i++) assert_int_equal(trials.items[i].repeat, i / 64);
    aorta_trials_free(&trials);
    /* Ten of 64 fail, and are not repeated. */
    assert_int_equal(run(&plan, bowl, true, 1000, &trials), 3 * 54 + 10);
    aorta_trials_free(&trials);
    aorta_arena_free(&arena);
}

/* With few trials of 32768 points; over 20 seeds TPE must be nearer than chance, by the mean of the best cost. */
static void test_tpe_beats_random(void **state) {
    (void)state;
    struct aorta_arena arena = {0};
    double sums[2] = {0};
    struct aorta_sweep_plan plan = {.points = 60, .repeats = 1};
    add_knobs(&plan.space, 5, &arena);
    for (plan.seed = 0; plan.seed < 20; plan.seed++)
        for (int tpe = 0; tpe < 2; tpe++) {
            struct aorta_trials trials = {0};
            plan.method = tpe ? AORTA_SWEEP_TPE : AORTA_SWEEP_RANDOM;
            assert_int_equal(run(&plan, bowl, true, 1000, &trials), 60);
            sums[tpe] += best(&plan, &trials);
            aorta_trials_free(&trials);
        }
    aorta_arena_free(&arena);
    if (sums[1] > 0.5 * sums[0]) fail_msg("TPE %g, random %g", sums[1] / 20, sums[0] / 20);
}

/* A space that is smaller than what is asked for is tried whole. */
static void test_tpe_small(void **state) {
    (void)state;
    struct aorta_arena arena = {0};
    struct aorta_trials trials = {0};
    struct aorta_sweep_plan plan = {
        .method = AORTA_SWEEP_TPE, .objective = AORTA_SWEEP_OVERLAP_RATIO, .points = 1000, .repeats = 2};
    check_ok(aorta_sweep_space_add(&plan.space, "a=x,y,z", false, &arena));
    check_ok(aorta_sweep_space_add(&plan.space, "b=1,2,4", false, &arena));
    assert_true(plan.space.knobs[1].ordered && !plan.space.knobs[0].ordered);
    assert_int_equal(run(&plan, bowl, false, 1000, &trials), 9 + 3);
    aorta_trials_free(&trials);
    aorta_arena_free(&arena);
}

/* Far from the end a point looks up to 4 worse than it is; the order of the other points stays. */
static void test_halving(void **state) {
    (void)state;
    struct aorta_arena arena = {0};
    struct aorta_trials trials = {0};
    struct aorta_sweep_plan plan = {.method = AORTA_SWEEP_HALVING, .points = 27, .repeats = 2, .steps = 90};
    add_knobs(&plan.space, 3, &arena);
    assert_int_equal(run(&plan, bowl, false, 1000, &trials), 27 + 9 + 3 + 3);
    assert_int_equal(aorta_sweep_planned(&plan), 27 + 9 + 3 + 3);
    double all = INFINITY;
    for (size_t i = 0; i < trials.count; i++) {
        assert_int_equal(trials.items[i].steps, i < 27 ? 10 : i < 36 ? 30 : 90);
        all = fmin(all, aorta_sweep_cost(&plan, &trials.items[i]));
    }
    assert_float_equal(best(&plan, &trials), all, 0);
    aorta_trials_free(&trials);
    /* Whatever fails at the start does not go on. */
    run(&plan, bowl, true, 1000, &trials);
    for (size_t i = 0; i < trials.count; i++)
        if (trials.items[i].steps > 10) assert_true(trials.items[i].cell % 7 != 0);
    aorta_trials_free(&trials);
    aorta_arena_free(&arena);
}

static void test_stopped(void **state) {
    (void)state;
    struct aorta_arena arena = {0};
    struct aorta_sweep_plan plan = {.points = 12, .repeats = 2, .steps = 45, .seed = 3};
    add_knobs(&plan.space, 3, &arena);
    for (plan.method = AORTA_SWEEP_GRID; plan.method <= AORTA_SWEEP_TPE; plan.method++) {
        struct aorta_trials whole = {0}, pieces = {0};
        run(&plan, bowl, true, 1000, &whole);
        while (run(&plan, bowl, true, 1, &pieces)) {
        }
        assert_int_equal(whole.count, pieces.count);
        for (size_t i = 0; i < whole.count; i++) assert_int_equal(whole.items[i].cell, pieces.items[i].cell);
        aorta_trials_free(&whole);
        aorta_trials_free(&pieces);
    }
    aorta_arena_free(&arena);
}

static double figure_of(const struct aorta_sweep_plan *plan, const struct aorta_trial *trial) {
    return trial->cell % 7 == 0 ? NAN : bowl(&plan->space, trial->cell);
}

/* As jobs of a cluster do: up to `jobs` pending, and the last of them ends first. */
static void run_pending(const struct aorta_sweep_plan *plan, size_t jobs, struct aorta_trials *trials) {
    size_t pending = 0;
    for (;;) {
        struct aorta_sweep_next next = {0};
        bool more = false;
        if (pending < jobs) check_ok(aorta_sweep_choose(plan, trials, &next, &more));
        if (more && !next.waits) {
            const struct aorta_trial trial = {
                .cell = next.cell, .repeat = next.repeat, .steps = next.steps, .state = AORTA_TRIAL_PENDING};
            check_ok(aorta_trials_add(trials, &trial));
            pending++;
            continue;
        }
        if (!pending) break;
        size_t last = trials->count - 1;
        while (trials->items[last].state != AORTA_TRIAL_PENDING) last--;
        struct aorta_trial *trial = &trials->items[last];
        trial->figures[plan->objective] = figure_of(plan, trial);
        trial->state = isnan(trial->figures[plan->objective]) ? AORTA_TRIAL_FAILED : AORTA_TRIAL_DONE;
        pending--;
    }
}

/* Whichever trials are pending: the same trials in the same order. */
static void test_pending(void **state) {
    (void)state;
    struct aorta_arena arena = {0};
    struct aorta_sweep_plan plan = {.points = 24, .repeats = 2, .steps = 90, .seed = 3, .baseline = true};
    add_knobs(&plan.space, 3, &arena);
    for (plan.method = AORTA_SWEEP_GRID; plan.method <= AORTA_SWEEP_TPE; plan.method++) {
        struct aorta_trials alone = {0};
        run_pending(&plan, 1, &alone);
        for (size_t jobs = 2; jobs <= 32; jobs *= 4) {
            struct aorta_trials many = {0};
            run_pending(&plan, jobs, &many);
            assert_int_equal(many.count, alone.count);
            if (!many.items || !alone.items) {
                fail_msg("no trials");
                return;
            }
            for (size_t i = 0; i < many.count; i++) {
                assert_int_equal(many.items[i].cell, alone.items[i].cell);
                assert_int_equal(many.items[i].repeat, alone.items[i].repeat);
            }
            aorta_trials_free(&many);
        }
        aorta_trials_free(&alone);
    }
    aorta_arena_free(&arena);
}

static void test_space(void **state) {
    (void)state;
    static const struct {
        const char *text, *part;
    } wrong[] = {{"a", "write NAME=VALUE,VALUE"},  {"=1", "write NAME=VALUE,VALUE"},
                 {"a=1,,2", "an empty value"},     {"a=", "an empty value"},
                 {"a=1,2,1", "1 is listed twice"}, {"list=1", "the knob is given twice"}};
    struct aorta_arena arena = {0};
    struct aorta_sweep_space space = {0};
    check_ok(aorta_sweep_space_add(&space, "list=[1,2],\"a,b\",{c: 1, d: 2},'e,f'", false, &arena));
    assert_int_equal(space.knobs[0].count, 4);
    assert_string_equal(space.knobs[0].values[1], "\"a,b\"");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_fails(aorta_sweep_space_add(&space, wrong[i].text, false, &arena), AORTA_USAGE, wrong[i].part);
    aorta_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_space),     cmocka_unit_test(test_grid),    cmocka_unit_test(test_halving),
        cmocka_unit_test(test_stopped),   cmocka_unit_test(test_pending), cmocka_unit_test(test_tpe_beats_random),
        cmocka_unit_test(test_tpe_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
