/* The four files of the sparse pipeline on two ranks, as their first lines say: each ends with a verdict, and those
 * that cache rows say how many were there, also when they are interrupted. */
#include "check.h"
#include "run.h"

#include <signal.h>
#include <string.h>

static const char cached[] = "rows that batches needed on rank 0: ";

static void start(struct e2e_run *run, const char *file, int steps) {
    char words[1024];
    snprintf(words, sizeof words,
             "launch -n 2 -- %s train --config %s/sparse_data_dist_%s.yaml --override training.output_dir=out "
             "training.max_steps=%d",
             AORTA_PROGRAM, CONFIGS, file, steps);
    e2e_start_command(run, words);
}

static void test_files(void **state) {
    static const struct {
        const char *name;
        bool caches;
    } files[] = {{"base", false}, {"queue_contended", false}, {"overlap_ineff", true}, {"overlap_latency", true}};
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct e2e_run run;
        start(&run, files[i].name, 5);
        e2e_finish(&run);
        e2e_expect_output(&run, 0, "Verdict: ");
        e2e_expect_output(&run, 0, "on a CPU sizes are reduced");
        if ((strstr(run.output, cached) != NULL) != files[i].caches) fail_msg("%s: %s", files[i].name, run.output);
        assert_true(e2e_exists(&run, "out/index.html"));
        e2e_free(&run);
    }
}

static void test_interrupted(void **state) {
    struct e2e_run run;
    (void)state;
    start(&run, "overlap_latency", 100000);
    e2e_wait_for_lines(&run, 0, 5);
    assert_int_equal(kill(run.pid, SIGINT), 0);
    e2e_finish(&run);
    e2e_expect_output(&run, 1, cached);
    e2e_expect_output(&run, 1, "Verdict: ");
    e2e_free(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files), cmocka_unit_test(test_interrupted)};
    return cmocka_run_group_tests(tests, e2e_open, e2e_close);
}
