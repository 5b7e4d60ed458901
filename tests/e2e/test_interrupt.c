/* Runs that are ended early: by signals, by the death of a rank, by a rank that hangs. */
#include "check.h"
#include "folder.h"
#include "run.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Long enough to be interrupted; steps of some milliseconds. */
#define LONG                                                                                                           \
    "training.epochs=10000 training.max_steps=20000 training.batch_size=8 dataset.sequence_length=16 "                 \
    "model.model_dim=96 model.num_heads=4 model.mlp_hidden_dim=192 dataset.num_samples=400 "

enum { LAUNCHER = -1 };

/* Starts `ranks` ranks and, after three lines of each, sends the signal to one of them or to the launcher. */
static void signal_run(struct e2e_run *run, int ranks, int target, int signal, const char *words) {
    char all[512];
    snprintf(all, sizeof all, LONG "%s", words);
    e2e_start(run, ranks, all);
    for (int rank = 0; rank < ranks; rank++) e2e_wait_for_lines(run, rank, 3);
    kill(target == LAUNCHER ? run->pid : e2e_rank_pid(run, target), signal);
    e2e_finish(run);
}

/* All ranks ended after the same step, said so, and left whole files. */
static void check_orderly_end(struct e2e_run *run, const char *who) {
    char message[64];
    e2e_read_lines(run, false);
    size_t steps = e2e_steps(run, 0);
    assert_in_range(steps, 3, 19999);
    for (int rank = 0; rank < run->ranks; rank++) {
        if (e2e_steps(run, rank) != steps)
            fail_msg("%s: rank %d ended after %zu steps, rank 0 after %zu", who, rank, e2e_steps(run, rank), steps);
        for (size_t step = 0; step < steps; step++)
            assert_int_equal((int)e2e_number(e2e_line(run, rank, step), "global_step"), (int)step);
    }
    snprintf(message, sizeof message, "after %zu of 20000 steps; the files in", steps);
    e2e_expect_output(run, 1, message);
    e2e_expect_output(run, 1, "aorta: interrupted");
    assert_true(e2e_exists(run, "out/config.json"));
}

static void test_signals(void **state) {
    (void)state;
    static const struct {
        int ranks, target, signal;
        const char *words, *message;
    } cases[] = {
        {1, 0, SIGINT, "", "interrupted by SIGINT after"},
        {1, 0, SIGTERM, "", "interrupted by SIGTERM after"},
        {1, 0, SIGINT, "compile.enabled=true", "interrupted by SIGINT after"},
        {2, LAUNCHER, SIGINT, "", "interrupted by SIGINT after"},
        {2, LAUNCHER, SIGTERM, "", "interrupted"},
        {2, 0, SIGINT, "", "interrupted by SIGINT after"},
        {2, 1, SIGINT, "", "interrupted"},
        {2, 1, SIGTERM, "distributed.mode=ddp", "interrupted"},
        {2, 1, SIGTERM, "compile.enabled=true", "interrupted"},
        {4, 3, SIGTERM, "fsdp.sharding_strategy=hybrid_shard fsdp.hybrid_shard_gpus_per_node=2", "interrupted"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct e2e_run run;
        char who[128];
        snprintf(who, sizeof who, "%d ranks, signal %d to %d, %s", cases[i].ranks, cases[i].signal, cases[i].target,
                 cases[i].words);
        signal_run(&run, cases[i].ranks, cases[i].target, cases[i].signal, cases[i].words);
        e2e_expect_output(&run, 1, cases[i].message);
        check_orderly_end(&run, who);
        e2e_free(&run);
    }
}

/* kill -9: what was written is valid up to the last line. */
static void test_killed_alone(void **state) {
    (void)state;
    struct e2e_run run;
    signal_run(&run, 1, 0, SIGKILL, "");
    assert_int_equal(run.exit_code, 128 + SIGKILL);
    e2e_read_lines(&run, true);
    assert_true(e2e_steps(&run, 0) >= 3);
    e2e_free(&run);
}

/* The job ends soon, and says which rank died of what while doing what. */
static void test_killed_rank(void **state) {
    (void)state;
    for (int target = 0; target < 2; target++) {
        struct e2e_run run;
        char message[64];
        signal_run(&run, 2, target, SIGKILL, "");
        snprintf(message, sizeof message, "rank %d was ended by signal 9 (Killed), in step", target);
        e2e_expect_output(&run, 128 + SIGKILL, message);
        e2e_expect_output(&run, 128 + SIGKILL, "last operation");
        e2e_read_lines(&run, true);
        for (int rank = 0; rank < 2; rank++) assert_true(e2e_steps(&run, rank) >= 3);
        e2e_expect_gone(e2e_rank_pid(&run, 1 - target));
        if (run.seconds > 60) fail_msg("it took %.1f s", run.seconds);
        e2e_free(&run);
    }
}

/* A rank that hangs ends the job after distributed.timeout_s; the message says which rank waited, and for what. */
static void test_hanging_rank(void **state) {
    (void)state;
    struct e2e_run run;
    signal_run(&run, 2, 1, SIGSTOP, "distributed.timeout_s=4");
    e2e_expect_output(&run, 1, "[rank 0] error: step ");
    e2e_expect_output(&run, 1, "rank 0 waited 4.0 s for its peers");
    e2e_expect_output(&run, 1, " of 2 ranks, "); /* the collective by name, number and size */
    e2e_read_lines(&run, true);
    assert_true(e2e_steps(&run, 0) >= 3);
    e2e_expect_gone(e2e_rank_pid(&run, 1));
    if (run.seconds > 60) fail_msg("it took %.1f s", run.seconds);
    e2e_expect_output(&run, run.exit_code, "aorta launch: rank 1 (process ");
    e2e_expect_output(&run, run.exit_code, ") was stopped (SIGSTOP, or a debugger)");
    e2e_free(&run);
}

#define TINY                                                                                                           \
    " train --override training.output_dir=out distributed.timeout_s=3 device.kind=cpu training.max_steps=3 "          \
    "training.batch_size=2 dataset.num_samples=64 model.num_layers=1 model.model_dim=16 model.num_heads=2 "            \
    "model.mlp_hidden_dim=16"

/* A rank hangs before the rendezvous, and rank 0 while it writes the report: by a gnuplot that stops the program above
 * its timeout. The lines are complete then. */
static void test_stopped_at_both_ends(void **state) {
    (void)state;
    static const struct {
        const char *words, *who;
        bool lines;
    } rows[] = {{"launch -n 2 -- sh -c '[ $RANK = 0 ] || kill -STOP $$; exec " AORTA_PROGRAM TINY "'",
                 "rank 1 (process ", false},
                {"launch -n 2 -- sh -c 'mkdir -p bin; printf \"#!/bin/sh\\nkill -STOP \\$(sed -n s/PPid:.//p "
                 "/proc/\\$PPID/status); sleep 60\\n\" "
                 ">bin/gnuplot.$$ && chmod +x bin/gnuplot.$$ && mv bin/gnuplot.$$ bin/gnuplot; PATH=$PWD/bin:$PATH "
                 "exec " AORTA_PROGRAM TINY "'",
                 "rank 0 (process ", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct e2e_run run;
        e2e_start_command(&run, rows[i].words);
        e2e_finish(&run);
        e2e_expect_output(&run, 1, rows[i].who);
        e2e_expect_output(&run, 1, ") was stopped (SIGSTOP, or a debugger)");
        if (run.seconds > 60) fail_msg("it took %.1f s", run.seconds);
        run.ranks = 2;
        e2e_read_lines(&run, false);
        for (int rank = 0; rows[i].lines && rank < 2; rank++) assert_int_equal(e2e_steps(&run, rank), 3);
        e2e_free(&run);
    }
}

/* Files of ranks that the new run does not have would be taken for its own. */
static void test_files_of_earlier_ranks_are_renamed(void **state) {
    (void)state;
    struct e2e_run four, two;
    char words[128];
    snprintf(words, sizeof words, "training.batch_size=2 training.output_dir=%s/again", e2e_workspace());
    e2e_train(&four, 4, words);
    assert_int_equal(four.exit_code, 0);
    e2e_train(&two, 2, words);
    if (strstr(four.output, "an earlier run")) fail_msg("%s", four.output);
    e2e_expect_output(&two, 0, "again holds results of an earlier run: its metrics are replaced now");
    e2e_expect_output(&two, 0, "rank_02_metrics.jsonl is of an earlier run with more ranks");
    static const struct {
        const char *name;
        bool there;
    } files[] = {{"rank_00_metrics.jsonl", true},      {"rank_01_metrics.jsonl", true},
                 {"rank_02_metrics.jsonl", false},     {"rank_03_metrics.jsonl", false},
                 {"rank_02_metrics.jsonl.old", true},  {"rank_03_metrics.jsonl.old", true},
                 {"rank_01_metrics.jsonl.old", false}, {"config.json", true}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/again/%s", e2e_workspace(), files[i].name);
        if ((access(path, F_OK) == 0) != files[i].there) fail_msg("%s", path);
    }
    e2e_free(&two);
    e2e_free(&four);
}

/* The report of an interrupted run is written before any rank ends. */
static void test_interrupted_run_is_reported(void **state) {
    (void)state;
    struct e2e_run run;
    char command[1024];
    snprintf(command, sizeof command,
             "launch -n 2 -- %s train --config %s/base.yaml -q --override training.output_dir=out " LONG, AORTA_PROGRAM,
             e2e_workspace());
    e2e_start_command(&run, command);
    run.ranks = 2;
    for (int rank = 0; rank < 2; rank++) e2e_wait_for_lines(&run, rank, 12);
    kill(run.pid, SIGINT);
    e2e_finish(&run);
    check_orderly_end(&run, "with a report");
    e2e_expect_output(&run, 1, "Verdict: ");
    assert_true(e2e_exists(&run, "out/summary.json"));
    e2e_free(&run);
}

/* A disk that fills up (here: a limit on the size of files): the message names the file; the lines before stay. */
static void test_full_disk(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* its runtime maps a file of its own, which the limit cuts */
#endif
    struct e2e_run run;
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 300000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    e2e_start(&run, 1, "training.max_steps=40");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    e2e_finish(&run);
    e2e_expect_output(&run, 1, "rank_00_metrics.jsonl: File too large");
    e2e_read_lines(&run, true);
    assert_in_range(e2e_steps(&run, 0), 1, 39);
    e2e_free(&run);
}

/* A signal in the last step, when nobody asks for one any more: the run ends as it would, with its report. */
static void test_signal_in_the_last_step(void **state) {
    (void)state;
    struct e2e_run run;
    char words[768];
    snprintf(words, sizeof words,
             "train --config %s/base.yaml --override training.max_steps=3 training.inject=host_pause:ms=1000 "
             "training.output_dir=%s/last",
             e2e_workspace(), e2e_workspace());
    char lines[512];
    snprintf(lines, sizeof lines, "%s/last/rank_00_metrics.jsonl", e2e_workspace());
    e2e_start_command(&run, words);
    struct stat info = {0};
    while (stat(lines, &info) || !info.st_size) usleep(2000); /* written before the last step begins with its pause */
    usleep(200000);
    kill(run.pid, SIGTERM);
    e2e_finish(&run);
    e2e_expect_output(&run, 0, "SIGTERM: all steps are queued, the run ends as without it");
    e2e_expect_output(&run, 0, "Verdict: ");
    e2e_free(&run);
}

/* ---- the end of a run ---- */

/* A program named gnuplot that says it was started and then does this, found by the run first. */
static void make_gnuplot(const char *does) {
    char script[512], path[300];
    snprintf(path, sizeof path, "%s/bin", e2e_workspace());
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/bin/gnuplot", e2e_workspace());
    int length = snprintf(script, sizeof script, "#!/bin/sh\ntouch %s/drawing\n%s\n", e2e_workspace(), does);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(script, 1, (size_t)length, file), length);
    assert_int_equal(fclose(file) | chmod(path, 0700), 0);
}

static void start_with_report(struct e2e_run *run, int ranks, const char *behind) {
    char words[1200];
    snprintf(words, sizeof words,
             "launch -n %d -- sh -c 'PATH=%s/bin:$PATH; echo $$ > pid.$RANK; exec %s train -q --config %s/base.yaml "
             "--override training.max_steps=3 training.output_dir=out%s'",
             ranks, e2e_workspace(), AORTA_PROGRAM, e2e_workspace(), behind);
    e2e_start_command(run, words);
}

/* Ended while the report is made, each rank in its turn: the run says that it has none, and what it has. */
static void test_ended_in_the_report(void **state) {
    (void)state;
    static const struct {
        int signal, exit_code;
        const char *words;
    } cases[] = {
        {SIGTERM, 143, "SIGTERM: the report is not finished; the metrics in out are complete"},
        {SIGINT, 130, "SIGINT: the report is not finished; the metrics in out are complete"},
        {SIGKILL, 137, "rank 0 was ended by signal 9 (Killed)"},
    };
    char drawing[300];
    snprintf(drawing, sizeof drawing, "%s/drawing", e2e_workspace());
    make_gnuplot("exec sleep 20");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct e2e_run run;
        unlink(drawing);
        start_with_report(&run, 2, "");
        while (access(drawing, F_OK)) usleep(2000);
        kill(e2e_rank_pid(&run, 0), cases[i].signal);
        e2e_finish(&run);
        e2e_expect_output(&run, cases[i].exit_code, cases[i].words);
        assert_true(e2e_exists(&run, "out/summary.json"));
        e2e_free(&run);
    }
}

/* Where the verdict cannot be printed the run is no success, and nothing is printed into a file of the run. */
static void test_nowhere_to_print(void **state) {
    (void)state;
    static const char *const behind[] = {" >&-", " >/dev/full", " <&- >&-", " | sleep 0"};
    make_gnuplot("exit 1");
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
        struct e2e_run run;
        char words[1024];
        snprintf(words, sizeof words,
                 "train -q --config %s/base.yaml --override training.max_steps=3 training.output_dir=out%s",
                 e2e_workspace(), behind[i]);
        e2e_start_command(&run, words);
        e2e_finish(&run);
        e2e_expect_output(&run, i == 3 ? 0 : 1,
                          "the metrics in out are complete, the report is not: cannot write to the standard output");
        assert_true(e2e_exists(&run, "out/summary.json"));
        e2e_free(&run);
    }
}

/* Two ranks are refused: rank 0 says why, and the other one, which the launcher ends as it waits, nothing. */
static void test_busy_directory(void **state) {
    (void)state;
    struct e2e_run run, other;
    char words[512];
    e2e_start(&run, 1, LONG);
    e2e_wait_for_lines(&run, 0, 3);
    snprintf(words, sizeof words, "training.output_dir=%s/out distributed.timeout_s=1", run.directory);
    e2e_train(&other, 2, words);
    e2e_expect_output(&other, 2, "another job writes into");
    if (strstr(other.output, "dead or late") || strstr(other.output, "Terminated")) fail_msg("%s", other.output);
    kill(run.pid, SIGTERM);
    e2e_finish(&run);
    e2e_free(&other);
    e2e_free(&run);
}

/* The directory is removed in the middle: all lines are written again, the report is made, and the run is no success.
 */
static void test_removed_directory(void **state) {
    (void)state;
    struct e2e_run run, other;
    e2e_start(&run, 2, "training.max_steps=400 training.epochs=100");
    for (int rank = 0; rank < 2; rank++) e2e_wait_for_lines(&run, rank, 3);
    char words[512], out[300];
    snprintf(words, sizeof words, "training.output_dir=%s/out", run.directory);
    e2e_train(&other, 1, words);
    e2e_expect_output(&other, 2, "another job writes into");
    snprintf(out, sizeof out, "%s/out", run.directory);
    folder_remove(out); /* fails where a rank is faster to make its file again */
    e2e_finish(&run);
    e2e_expect_output(&run, 1, "[rank 0] warning: training.output_dir: the metrics of this rank were removed from");
    e2e_expect_output(&run, 1, "was removed during the run; its files are in");
    e2e_read_lines(&run, false);
    for (int rank = 0; rank < 2; rank++) assert_int_equal(e2e_steps(&run, rank), 400);
    assert_true(e2e_exists(&run, "out/config.json"));
    assert_false(e2e_exists(&run, "out/.aorta.lock"));
    e2e_free(&other);
    e2e_free(&run);
}

/* Nobody writes into the pipe: it is refused, not waited for. */
static void test_start_values_from_a_pipe(void **state) {
    (void)state;
    struct e2e_run run;
    char words[256], pipe[200];
    snprintf(pipe, sizeof pipe, "%s/pipe", e2e_workspace());
    assert_int_equal(mkfifo(pipe, 0600), 0);
    snprintf(words, sizeof words, "training.init_from=%s", pipe);
    e2e_start(&run, 1, words);
    e2e_finish(&run);
    e2e_expect_output(&run, 2, "pipe: it is no regular file");
    e2e_free(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_killed_alone),
        cmocka_unit_test(test_killed_rank),
        cmocka_unit_test(test_hanging_rank),
        cmocka_unit_test(test_files_of_earlier_ranks_are_renamed),
        cmocka_unit_test(test_interrupted_run_is_reported),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_busy_directory),
        cmocka_unit_test(test_stopped_at_both_ends),
        cmocka_unit_test(test_removed_directory),
        cmocka_unit_test(test_signal_in_the_last_step),
        cmocka_unit_test(test_ended_in_the_report),
        cmocka_unit_test(test_nowhere_to_print),
        cmocka_unit_test(test_start_values_from_a_pipe),
    };
    return cmocka_run_group_tests(tests, e2e_open, e2e_close);
}
