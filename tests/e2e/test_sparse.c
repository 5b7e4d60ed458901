/* The four files of the sparse pipeline on two ranks, as their first lines say: each ends with a verdict, and those
 * that cache rows say how many were there, also when they are interrupted. */
#include "base/clock.h"
#include "base/files.h"
#include "check.h"
#include "run.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char cached[] = "rows that batches needed on rank 0: ";

static void start(struct e2e_run *run, const char *file, int steps) {
    char words[1024];
    snprintf(words, sizeof words,
             "launch -n 2 -- " AORTA_PROGRAM " train --config ../config/torchrec_dist/sparse_data_dist_%s.yaml "
             "--override training.output_dir=out training.max_steps=%d",
             file, steps);
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

/* Until the run has said this. */
static void wait_for_words(const struct e2e_run *run, const char *words) {
    char path[400];
    snprintf(path, sizeof path, "%s/output", run->directory);
    for (int i = 0; i < 3000; i++, usleep(10000)) {
        char *output;
        size_t length;
        if (access(path, R_OK)) continue; /* it has not begun yet */
        check_ok(aorta_file_read(path, &output, &length));
        const bool said = strstr(output, words) != NULL;
        free(output);
        if (said) return;
    }
    fail_msg("it does not say \"%s\"", words);
}

/* Half a minute of preparing, which a signal ends. */
static void test_interrupted_while_preparing(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        struct e2e_run run;
        char words[1024];
        snprintf(words, sizeof words,
                 "launch -n %d -- %s train --override training.output_dir=out RunOptions.num_batches=400000 "
                 "ModelSelectionConfig.batch_size=8192 ModelSelectionConfig.feature_pooling_avg=0",
                 ranks, AORTA_PROGRAM);
        e2e_start_command(&run, words);
        wait_for_words(&run, "preparing 400000 batches"); /* which all ranks do then: they have met */
        const int64_t sent_ns = aorta_clock_ns();
        assert_int_equal(kill(run.pid, SIGTERM), 0);
        e2e_finish(&run);
        const double seconds = (double)(aorta_clock_ns() - sent_ns) * 1e-9;
        e2e_expect_output(&run, 1, "preparing the batches: interrupted by SIGTERM");
        if (seconds > 8) fail_msg("%d ranks: it took %.1f s", ranks, seconds);
        e2e_free(&run);
    }
}

/* A rank that stands still meanwhile ends the job at its timeout, and is named. */
static void test_stopped_while_preparing(void **state) {
    (void)state;
    struct e2e_run run;
    e2e_start_command(&run, "launch -n 2 -- sh -c 'echo $$ >pid.$RANK; exec " AORTA_PROGRAM
                            " train --override training.output_dir=out RunOptions.num_batches=20000 "
                            "distributed.timeout_s=3 ModelSelectionConfig.batch_size=8192 "
                            "ModelSelectionConfig.feature_pooling_avg=0'");
    wait_for_words(&run, "preparing 20000 batches");
    assert_int_equal(kill(e2e_rank_pid(&run, 1), SIGSTOP), 0);
    e2e_finish(&run);
    e2e_expect_output(&run, 1, ") was stopped (SIGSTOP, or a debugger)");
    /* On a loaded host the launcher may end the job before rank 0's own timeout is over. */
    if (!strstr(run.output, "and the job was ended")) e2e_expect_output(&run, 1, "[rank 0] error: ");
    e2e_expect_gone(e2e_rank_pid(&run, 1));
    e2e_free(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files), cmocka_unit_test(test_interrupted),
                                       cmocka_unit_test(test_interrupted_while_preparing),
                                       cmocka_unit_test(test_stopped_while_preparing)};
    return cmocka_run_group_tests(tests, e2e_open, e2e_close);
}
