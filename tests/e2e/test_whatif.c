/* aorta whatif on runs of ours, beside runs with the resources that it was asked for.
 *
 * What the steps consist of sleeps: kernels in each layer's pass on both ranks, which figures hardly depend on the
 * machine with. */
#include "check.h"
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 12, RANKS = 2, ATTEMPTS = 4 };
static const double close_to = 0.2;

/* On two ranks kernels of so many ms in each layer's pass: eight a step. */
static void train(struct e2e_run *run, int ranks, int kernel_ms) {
    char words[512], kernels[128] = "";
    if (ranks > 1)
        snprintf(kernels, sizeof kernels, "\"slow_rank:rank=0,ms=%d,per=layer\",\"slow_rank:rank=1,ms=%d,per=layer\"",
                 kernel_ms, kernel_ms);
    snprintf(words, sizeof words,
             "'training.inject=[%s]' training.max_steps=%d model.num_layers=4 dataset.num_samples=2000", kernels,
             STEPS);
    e2e_train_well(run, ranks, STEPS, words);
}

static void ask(const struct e2e_run *run, const char *options, struct e2e_run *asked) {
    char words[1024];
    *asked = (struct e2e_run){0};
    snprintf(words, sizeof words, "whatif %s/out %s", run->directory, options);
    e2e_start_command(asked, words);
    e2e_finish(asked);
}

static json_t *figures(const struct e2e_run *run, const char *options) {
    struct e2e_run asked;
    ask(run, options, &asked);
    if (asked.exit_code) fail_msg("exit status %d: %s", asked.exit_code, asked.output);
    const char *begin = strchr(asked.output, '{');
    json_t *json = begin ? json_loads(begin, 0, NULL) : NULL;
    if (!json) fail_msg("no JSON: %s", asked.output);
    e2e_free(&asked);
    return json;
}

static double step_ms(const json_t *json, int ranks) {
    const json_t *steps = e2e_get(json, "steps");
    for (size_t i = 0; i < json_array_size(steps); i++)
        if ((int)e2e_number(json_array_get(steps, i), "ranks") == ranks)
            return e2e_number(json_array_get(steps, i), "step_ms");
    fail_msg("no step of %d ranks", ranks);
    return NAN;
}

/* The step that whatif measures is the one that the report replays. */
static void the_step_is_that_of_the_report(void **state) {
    (void)state;
    struct e2e_run run, report;
    train(&run, RANKS, 10);
    json_t *summary = e2e_report(&run, &report), *json = figures(&run, "--json");
    double measured_ms = e2e_number(json, "measured_ms");
    assert_true(fabs(measured_ms - e2e_number(summary, "labels.run.replay.measured_ms")) < 1e-5);
    assert_true(measured_ms >= 80 && fabs(e2e_number(json, "replayed_ms") - measured_ms) < 1e-9);
    assert_true(fabs(step_ms(json, RANKS) - measured_ms) < 1e-9);
    assert_int_equal((int)e2e_number(json, "recorded_ranks"), RANKS);
    assert_true(e2e_number(json, "recorded_link.latency_us") >= 0);
    json_decref(json);
    json = figures(&run, "--ranks 4,1024 --bandwidth 1MB/s --latency 1ms --json");
    assert_true(step_ms(json, 1024) > step_ms(json, 4) && step_ms(json, 4) > 0);
    json_decref(json);
    json_decref(summary);
    e2e_free(&report);
    e2e_free(&run);
}

/* Kernels of 5 ms instead of 10, predicted from each other. */
static void kernels_twice_as_fast(void **state) {
    (void)state;
    double slow_off = 1, fast_off = 1;
    for (int i = 0; i < ATTEMPTS && (slow_off > close_to || fast_off > close_to); i++) {
        struct e2e_run slow, fast;
        train(&slow, RANKS, 10);
        train(&fast, RANKS, 5);
        json_t *from_slow = figures(&slow, "--compute 2x --json"), *from_fast = figures(&fast, "--compute 0.5 --json");
        double slow_ms = e2e_number(from_slow, "measured_ms"), fast_ms = e2e_number(from_fast, "measured_ms");
        fast_off = fabs(step_ms(from_slow, RANKS) - fast_ms) / fast_ms;
        slow_off = fabs(step_ms(from_fast, RANKS) - slow_ms) / slow_ms;
        print_message("%.1f and %.1f ms, predicted %.1f and %.1f\n", slow_ms, fast_ms, step_ms(from_fast, RANKS),
                      step_ms(from_slow, RANKS));
        json_decref(from_slow);
        json_decref(from_fast);
        e2e_free(&slow);
        e2e_free(&fast);
    }
    assert_true(fast_off <= close_to && slow_off <= close_to);
}

static void one_rank_shows_no_link(void **state) {
    (void)state;
    struct e2e_run run, asked;
    train(&run, 1, 0);
    ask(&run, "--ranks 2", &asked);
    e2e_expect_output(&asked, 2, "one rank was recorded, which uses no link; give the link");
    e2e_free(&asked);
    ask(&run, "--ranks 2 --bandwidth 10G --latency 50us", &asked);
    e2e_expect_output(&asked, 0, "50 us, 1.25 GB/s, as given");
    e2e_free(&asked);
    e2e_free(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_step_is_that_of_the_report),
        cmocka_unit_test(kernels_twice_as_fast),
        cmocka_unit_test(one_rank_shows_no_link),
    };
    return cmocka_run_group_tests(tests, e2e_open, e2e_close);
}
