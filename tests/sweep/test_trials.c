/* aorta sweep as a user runs it: twelve points of which one crashes and one hangs, a sweep that is killed, interrupted
 * and resumed, and a sweep of real runs. */
#include "base/files.h"
#include "check.h"
#include "folder.h"
#include "report/page.h"
#include "sweep/run.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[FOLDER_PATH];

/* `good` takes 10 ms a level, MODE 4; `useless` and the repeat wobble by up to 1. */
static const char script[] =
    "case $1$2$MODE in 3bfast) kill -SEGV $$ ;; 2aslow) sleep 100 & sleep 100 ;; esac\n"
    "[ $MODE = slow ] && slow=4 || slow=0\n"
    "[ $2 = a ] && wobble=3 || wobble=5\n"
    "echo \"{\\\"step_ms\\\": $((100 - 10 * $1 + slow)).$(((wobble * 7 + $1 * 3 + AORTA_SWEEP_REPEAT * 4) % 10))}\" "
    ">$AORTA_SWEEP_RESULT\n"
    "echo $AORTA_SWEEP_DIR >>starts\n"
    "sleep 0.02\n";

static const char yaml[] =
    "training: {batch_size: 4, mixed_precision: none, max_steps: 6}\n"
    "dataset: {num_samples: 200, sequence_length: 7, num_dense_features: 3, dense_dim: 10, sparse_features: 4,\n"
    "  vocab_size: 101}\n"
    "model: {vocab_size: 101, embedding_dim: 20, num_dense_features: 3, dense_dim: 10, model_dim: 24, num_heads: 3,\n"
    "  num_layers: 2, mlp_hidden_dim: 40, dropout: 0.0}\n"
    "dataloader: {num_workers: 1}\n";

static const char sparse[] = "{RunOptions: {num_batches: 3}, ModelSelectionConfig: {batch_size: 4}, "
                             "EmbeddingTablesConfig: {num_unweighted_features: 2, num_weighted_features: 1}}\n";

#define PLANTED                                                                                                        \
    "sweep -o out --grid good=1,2,3 useless=a,b --env MODE=fast,slow --timeout-s 2 --no-trace %s -- sh script "        \
    "{good} {useless}"

static int set_up(void **state) {
    (void)state;
    folder_make(folder, "sweep");
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(symlink(PROGRAM_FILE, "aorta"), 0); /* commands need no quotes then, whatever the build's path */
    check_ok(aorta_file_replace("script", script, strlen(script)));
    check_ok(aorta_file_replace("base.yaml", yaml, strlen(yaml)));
    check_ok(aorta_file_replace("sparse.yaml", sparse, strlen(sparse)));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    (void)!system("umount disk 2>/dev/null"); /* of a test that failed */
    return chdir("/") || folder_remove(folder);
}

static pid_t start(const char *words) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) return pid;
    char command[1024];
    snprintf(command, sizeof command, "exec ./aorta %s >output 2>&1", words);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(126);
}

static void finish(pid_t pid, int expected, const char *part) {
    int status;
    size_t length;
    char *output;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    check_ok(aorta_file_read("output", &output, &length));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != expected || !strstr(output, part))
        fail_msg("status %x instead of exit code %d, or no \"%s\" in:\n%s", (unsigned)status, expected, part, output);
    free(output);
}

static void run(const char *words, int expected, const char *part) {
    finish(start(words), expected, part);
}

static int lines_of(const char *path) {
    char *bytes;
    size_t length;
    int lines = 0;
    if (access(path, F_OK)) return 0;
    check_ok(aorta_file_read(path, &bytes, &length));
    for (size_t i = 0; i < length; i++) lines += bytes[i] == '\n';
    free(bytes);
    return lines;
}

static void wait_for_lines(int lines) {
    for (int i = 0; i < 6000 && lines_of("out/trials.jsonl") < lines; i++) usleep(10000);
    assert_true(lines_of("out/trials.jsonl") >= lines);
}

/* A child that its parent forked just before it was killed holds the lock until it runs its program. */
static void wait_for_lock(void) {
    const int file = open("out/.aorta.lock", O_RDWR | O_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(flock(file, LOCK_EX), 0);
    close(file);
}

static const json_t *get(const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    if (!value) fail_msg("no %s", key);
    return value;
}

static json_t *read_sweep(void) {
    json_t *root = json_load_file("out/sweep.json", 0, NULL);
    assert_non_null(root);
    return root;
}

/* Twelve points of which ten are repeated, each trial once. */
static void check_planted(void) {
    json_t *root = read_sweep();
    const json_t *states = get(root, "states"), *knobs = get(root, "knobs"), *best = get(get(root, "best"), "values");
    assert_int_equal(json_integer_value(get(states, "done")), 20);
    assert_int_equal(json_integer_value(get(states, "crashed")), 1);
    assert_int_equal(json_integer_value(get(states, "hung")), 1);
    assert_int_equal(lines_of("out/trials.jsonl"), 1 + 22);
    assert_string_equal(json_string_value(get(best, "good")), "3");
    assert_string_equal(json_string_value(get(best, "MODE")), "fast");
    double importance[3];
    for (size_t k = 0; k < 3; k++) importance[k] = json_number_value(get(json_array_get(knobs, k), "importance"));
    assert_true(importance[0] > 0.7 && importance[0] > importance[2] && importance[2] > importance[1]);
    assert_true(json_is_true(get(json_array_get(knobs, 0), "beats_noise")));
    assert_true(json_is_false(get(json_array_get(knobs, 1), "beats_noise")));
    json_decref(root);
}

static void test_killed_and_resumed(void **state) {
    (void)state;
    char words[512], resume[512];
    snprintf(words, sizeof words, PLANTED, "");
    snprintf(resume, sizeof resume, PLANTED, "--resume");
    pid_t pid = start(words);
    wait_for_lines(1 + 4);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    wait_for_lock();
    /* As if it had died within a line. */
    FILE *lines = fopen("out/trials.jsonl", "a");
    assert_non_null(lines);
    fputs("{\"trial\": 99, \"ce", lines);
    fclose(lines);
    const int before = lines_of("out/trials.jsonl");
    run(words, 2, "--resume goes on with it");

    pid = start(resume);
    wait_for_lines(before + 3);
    kill(pid, SIGINT);
    finish(pid, 1, "interrupted by SIGINT after");
    run(resume, 0, "good 9");
    check_planted();
    /* At most the two that were cut off ran twice. */
    assert_in_range(lines_of("starts"), 20, 22);

    run(resume, 0, "useless: within the noise");
    assert_in_range(lines_of("starts"), 20, 22);
    run("sweep -o out --grid good=1,2 --resume --no-trace -- sh script {good} b", 2,
        "is of another sweep; repeat its command, or");
    assert_int_equal(system("MODE=x; . out/best.env; test $MODE = fast"), 0);
}

/* "STATE: REASON" of the only trial. */
static void check_trial(const char *directory, const char *state, const char *part) {
    char path[64];
    snprintf(path, sizeof path, "%s/sweep.json", directory);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    const json_t *trials = get(root, "trials"), *trial = json_array_get(trials, 0);
    const char *reason = json_string_value(get(trial, "reason"));
    assert_int_equal(json_array_size(trials), 1);
    if (strcmp(json_string_value(get(trial, "state")), state) != 0 || !reason || !strstr(reason, part))
        fail_msg("%s: %s: %s", directory, json_string_value(get(trial, "state")), reason);
    json_decref(root);
}

/* Whatever a trial leaves where its files should be: the next one runs, and the row says what was wrong. */
static void test_hostile_results(void **state) {
    (void)state;
    static const struct {
        const char *trial, *state, *reason;
    } cases[] = {
        {"mkfifo $AORTA_SWEEP_RESULT", "no_figure", "it is no regular file"},
        {"mkdir $AORTA_SWEEP_RESULT", "no_figure", "it is no regular file"},
        {"ln -s /dev/zero $AORTA_SWEEP_RESULT", "no_figure", "it is no regular file"},
        {"rm $AORTA_SWEEP_DIR/log && mkfifo $AORTA_SWEEP_DIR/log; exit 3", "failed", "exit code 3 without any output"},
        {"head -c 2000000 /dev/zero >$AORTA_SWEEP_RESULT", "no_figure", "it is larger than 1 MiB"},
        {"echo {\\\"step_ms\\\": -5} >$AORTA_SWEEP_RESULT", "no_figure", "step_ms is -5, which is not in (0, 1e+12]"},
        {"echo {\\\"step_ms\\\": 0} >$AORTA_SWEEP_RESULT", "no_figure", "step_ms is 0, which is not in"},
        {"echo {\\\"step_ms\\\": 1e308} >$AORTA_SWEEP_RESULT", "no_figure", "step_ms is 1e+308, which is not in"},
        {"echo {\\\"step_ms\\\": 5, \\\"overlap_ratio\\\": 1.5} >$AORTA_SWEEP_RESULT", "no_figure",
         "overlap_ratio is 1.5, which is not in [0, 1]"},
        {"kill -KILL $$", "crashed", "signal 9 (Killed)"},
        {"exit 7", "failed", "exit code 7 without any output"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[512], directory[32];
        snprintf(directory, sizeof directory, "hostile%zu", i);
        snprintf(words, sizeof words, "sweep -o %s --env X=1 --no-baseline --repeats 1 --no-trace -- sh -c '%s'",
                 directory, cases[i].trial);
        run(words, 1, "1 trial: 1");
        check_trial(directory, cases[i].state, cases[i].reason);
    }
}

/* A launcher whose ranks need two signals:
 *
 *     sweep      SIGTERM ── 0.3 s ── SIGTERM
 *     launcher            SIGTERM            SIGTERM, removes its directory and ends
 *     ranks                   go on              end
 *
 * Neither the launcher's directory nor Open MPI's files are left in TMPDIR. */
static void test_launcher_cleans_up(void **state) {
    (void)state;
    static const char rank[] = "trap 'test -n \"$once\" && exit 1; once=1' TERM INT\n"
                               "touch ready.$RANK\n"
                               "while :; do sleep 0.05; done\n";
    check_ok(aorta_file_replace("rank", rank, strlen(rank)));
    assert_int_equal(mkdir("temporary", 0700), 0);
    char temporary[FOLDER_PATH + 16];
    snprintf(temporary, sizeof temporary, "%s/temporary", folder);
    setenv("TMPDIR", temporary, 1);
    pid_t pid = start("sweep -o launcher --env X=1 --no-baseline --repeats 1 --no-trace -- "
                      "./aorta launch -n 2 -- sh rank");
    for (int i = 0; i < 3000 && (access("ready.0", F_OK) || access("ready.1", F_OK)); i++) usleep(10000);
    usleep(100000);
    kill(pid, SIGTERM);
    usleep(300000);
    kill(pid, SIGTERM);
    finish(pid, 1, "interrupted by SIGTERM after 0 trials");
    unsetenv("TMPDIR");
    assert_int_equal(rmdir("temporary"), 0);
}

/* Reading the results is work of the trial's kind: neither the timeout nor a signal waits for it. */
static void sleep_long(void *user) {
    (void)user;
    sleep(100);
}

static void die(void *user) {
    *(int *)user = 1; /* the process's own copy */
    raise(SIGKILL);
}

static void test_work_ends(void **state) {
    (void)state;
    struct aorta_sweep_signals signals;
    struct aorta_sweep_end end;
    int touched = 0;
    aorta_sweep_signals_begin(&signals);
    struct aorta_sweep_process process = {.work = sleep_long, .timeout_s = 0.3};
    check_ok(aorta_sweep_process_run(&signals, &process, &end));
    assert_true(end.timed_out && end.seconds < 3);
    const pid_t self = getpid(), sender = fork();
    if (sender == 0) {
        usleep(200000);
        kill(self, SIGTERM);
        _exit(0);
    }
    process.timeout_s = 0;
    check_ok(aorta_sweep_process_run(&signals, &process, &end));
    assert_true(end.interrupted == SIGTERM && end.seconds < 3);
    process = (struct aorta_sweep_process){.work = die, .user = &touched};
    check_ok(aorta_sweep_process_run(&signals, &process, &end));
    assert_int_equal(end.signal, SIGKILL);
    assert_int_equal(touched, 0);
    aorta_sweep_signals_end(&signals);
}

/* A trial that found no space runs again with --resume, other failed trials with --retry. */
static void test_runs_again(void **state) {
    (void)state;
    static const char job[] = "--grid x=1,2,3,4 --no-baseline --repeats 1 %s --no-trace -- sh -c 'case {x} in 2) test "
                              "-e free || { echo cp: No "
                              "space left on device; exit 1; } ;; 3) test -e mended || exit 3 ;; esac; "
                              "echo {\\\"step_ms\\\": {x}} >$AORTA_SWEEP_RESULT'";
    char text[512], words[600];
    snprintf(text, sizeof text, job, "");
    snprintf(words, sizeof words, "sweep -o space %s", text);
    run(words, 0, "4 trials: 2 done, 1 failed, 1 disk_full");
    assert_int_equal(close(creat("free", 0600)), 0);
    snprintf(words, sizeof words, "sweep -o space --resume %s", text);
    run(words, 0, "4 trials: 3 done, 1 failed");
    assert_int_equal(lines_of("space/trials.jsonl"), 1 + 4 + 1);
    run(words, 0, "4 trials: 3 done, 1 failed");
    run("sweep --read space", 0, "4 trials: 3 done, 1 failed");
    assert_int_equal(lines_of("space/trials.jsonl"), 1 + 4 + 1);
    snprintf(words, sizeof words, "sweep -o space --retry crashed no_figure %s", text);
    run(words, 0, "4 trials: 3 done, 1 failed");
    snprintf(words, sizeof words, "sweep -o space --retry failed %s", text);
    run(words, 0, "4 trials: 3 done, 1 failed");
    assert_int_equal(close(creat("mended", 0600)), 0);
    run(words, 0, "4 trials: 4 done");
    run(words, 0, "4 trials: 4 done");
    assert_int_equal(lines_of("space/trials.jsonl"), 1 + 4 + 1 + 2);
    assert_int_equal(access("space/trials/0006/result.json", R_OK), 0);
    snprintf(words, sizeof words, "sweep -o space --retry done %s", text);
    run(words, 2, "--retry done: expected failed, crashed");
}

/* On a disk of 8 MiB, the third trial leaves a file that takes what is left. Nothing is recorded then; with space the
 * sweep goes on and is whole. */
static void test_full_disk(void **state) {
    (void)state;
    static const char job[] = "sweep -o disk/out --grid x=1,2,3,4 --no-baseline --repeats 1 %s --no-trace -- sh -c "
                              "'test {x} != 3 || test -e free2 || cat /dev/zero >disk/big; "
                              "echo {\\\"step_ms\\\": {x}} >$AORTA_SWEEP_RESULT && test -s $AORTA_SWEEP_RESULT'";
    char words[512];
    check_ok(aorta_directory_make("disk"));
    if (system("mount -t tmpfs -o size=8m none disk 2>/dev/null")) {
        print_message("no disk can be mounted here\n");
        skip();
    }
    snprintf(words, sizeof words, job, "");
    run(words, 1, "disk/out: No space left on device; trial");
    const int recorded = lines_of("disk/out/trials.jsonl") - 1;
    assert_in_range(recorded, 0, 3);
    assert_int_equal(close(creat("free2", 0600)), 0);
    unlink("disk/big");
    snprintf(words, sizeof words, job, "--resume");
    run(words, 0, "4 trials: 4 done");
    assert_int_equal(system("umount disk"), 0);
}

/* What a trial leaves behind is ended with it: the other sleep of the one that hung. */
static void test_nothing_left(void **state) {
    (void)state;
    run("sweep -o left --grid x=1,2 --repeats 1 --timeout-s 0.3 --no-trace -- sh -c "
        "'setsid sleep 300 & echo $! >>pids; if [ {x} = 1 ]; then sleep 300; fi; exit 3'",
        1, "no trial measured step_ms");
    FILE *pids = fopen("pids", "r");
    assert_non_null(pids);
    int pid, count = 0;
    for (; fscanf(pids, "%d", &pid) == 1; count++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d", pid);
        assert_int_not_equal(access(path, F_OK), 0);
    }
    fclose(pids);
    assert_int_equal(count, 2);
}

static void test_train(void **state) {
    (void)state;
    run("sweep -o out2 --config base.yaml --grid model.num_layers=1,2 --env OMP_NUM_THREADS=unset --repeats 1 -n 2 "
        "--steps 5 --objective exposed_comm_ms",
        0, " model.num_layers=");
    json_t *root = json_load_file("out2/sweep.json", 0, NULL);
    assert_non_null(root);
    const json_t *figures = json_array_get(get(root, "trials"), 0);
    assert_true(json_is_null(get(figures, "cell")));
    assert_true(json_is_null(get(get(figures, "values"), "model.num_layers")));
    assert_string_equal(json_string_value(get(get(figures, "values"), "OMP_NUM_THREADS")), "unset");
    assert_int_equal(json_integer_value(get(get(root, "baseline"), "runs")), 2); /* it is a point of the grid, too */
    assert_string_equal(json_string_value(get(get(root, "noise"), "from")), "repeats");
    assert_true(json_number_value(get(figures, "step_ms")) > 0);
    assert_true(json_number_value(get(figures, "throughput")) > 0);
    assert_true(json_number_value(get(figures, "exposed_comm_ms")) > 0);
    json_decref(root);
    run("sweep -o one --config base.yaml --grid model.num_layers=1 --no-baseline --repeats 1 -n 2 --steps 5", 0,
        "Best of 1 point: model.num_layers=1: step_ms ");
    run("train --config one/best.yaml --override training.output_dir=again --quiet --no-report", 0, "");
    assert_int_equal(lines_of("again/rank_00_metrics.jsonl"), 6);
}

/* Keys of the sparse pipeline are knobs as well, and values that need another one's are right in some points. */
static void test_sparse(void **state) {
    (void)state;
    run("sweep -o sparse-out --config sparse.yaml --grid RunOptions.num_batches=3,4 "
        "--grid ModelSelectionConfig.batch_sizes=[2,2,2] --repeats 1 --override PipelineConfig.pipeline=sparse",
        0, "3 trials: 2 done, 1 failed");
    run("train --config sparse-out/best.yaml --override training.output_dir=sparse --quiet --no-report", 0, "");
    assert_int_equal(lines_of("sparse/rank_00_metrics.jsonl"), 3);
    run("sweep --config sparse.yaml --grid PipelineConfig.pipeline=base,fast --dry-run", 2,
        "expected one of base, sparse, fused");
    run("sweep --config sparse.yaml --grid RunOptions.batches=1,2 --dry-run", 2,
        "--grid RunOptions.batches=1: RunOptions.batches: unknown key; did you mean RunOptions.num_batches");
}

/* The knobs of the costliest causes, of this device, with which the run can be swept. */
static void test_suggest(void **state) {
    (void)state;
    static const char summary[] = "{\"labels\": {\"run\": {\"device\": \"%s\", \"verdict\": ["
                                  "{\"cause\": \"copy\", \"share\": 0.001}, {\"cause\": \"data_wait\", \"share\": 0.2},"
                                  "{\"cause\": \"slow_collective\", \"gain_share\": 0.3, \"share\": 0.1}]}}}";
    char text[512];
    check_ok(aorta_directory_make("first"));
    snprintf(text, sizeof text, summary, "cpu");
    check_ok(aorta_file_replace("first/summary.json", text, strlen(text)));
    run("sweep --suggest first --config base.yaml --dry-run", 0,
        "fsdp.sharding_strategy=full_shard,shard_grad_op: slow");
    run("sweep --suggest first --config base.yaml --dry-run", 0,
        "dataloader.num_workers=1,2,4: data_wait, 20% of a step");
    run("sweep --suggest first --config base.yaml --dry-run", 0, "14 trials of 6 combinations and the baseline");
    run("sweep --suggest first --config sparse.yaml --dry-run", 0,
        "RunOptions.sharding_type=table_wise,row_wise,column_wise: slow_collective, 30% of a step");
    run("sweep --suggest first --config sparse.yaml --dry-run", 0, "8 trials of 3 combinations and the baseline");
    run("sweep --suggest first --dry-run -- true", 2, "no knob is known");
    snprintf(text, sizeof text, summary, "cuda");
    check_ok(aorta_file_replace("first/summary.json", text, strlen(text)));
    run("sweep --suggest first --dry-run -- true", 0, "--env  NCCL_MAX_CTAS=unset,4,8,16,32: slow_collective, 30%");
    run("sweep --suggest nowhere --dry-run -- true", 2, "no summary.json and no analysis.json");
}

/* The second sweep takes 8 ms longer in all points but one. */
static void test_compare(void **state) {
    (void)state;
    for (int slow = 0; slow < 2; slow++) {
        char words[512];
        snprintf(
            words, sizeof words,
            "sweep -o driver%d --grid a=1,2,3,4 --env V=p,q --no-trace -- sh -c "
            "'test ${V}{a} = q4 && d=0 || d=%d; echo \"{\\\"step_ms\\\": $(({a} * 10 + d))}\" >$AORTA_SWEEP_RESULT'",
            slow, slow * 8);
        run(words, 0, "16 trials: 16 done");
    }
    run("sweep --compare driver0 driver1", 0, "driver1 is slower than driver0: step_ms 22.1 -> 30.3 ms (+37%, 95%: +");
    run("sweep --compare driver0 driver1", 0, "%), worse at 7 of 8 points\n");
    run("sweep --compare driver0 driver1", 0,
        "  different   word 10 of the command is d=8;, was d=0;\n  chance      p = 0.0");
    run("sweep --compare driver0 driver0", 0, "driver0 is within the noise of driver0: step_ms 22.1 -> 22.1 ms (+0.0%");
    run("sweep --compare driver0 driver1 --json", 0, "step_ms 22.1 -> 30.3 ms (+37%), worse");
    run("sweep --compare driver0 driver1", 0, "step_ms 10.0 -> 18.0 ms (+80%) at a=1 V=p\n");
    run("sweep --compare driver0 driver1 driver0 --label A 'B <1>' C", 0,
        "B <1> is slower than A: step_ms 22.1 -> 30.3 ms");
    run("sweep --compare driver0 driver1 driver0 --label A 'B <1>' C", 0, "C is within the noise of A");
    run("sweep --compare driver0 driver1 --label A", 2, "--label: 1 names for 2 directories");
    run("sweep --compare driver0 driver0", 0, "  chance      p = ");
    run("sweep --compare driver0 driver1 --json", 0, "\"kind\": \"sweep_comparison\"");
    run("sweep --compare driver0", 2, "takes two directories of sweeps or more");
    run("sweep --compare driver0 out", 2, "have different knobs");
}

/* Two equal sweeps, one after the other, on a machine that became 13% slower in between: each point of the second is
 * longer by as much, and a paired test of the points alone is sure of a regression.
 *
 *      a=1  first |--100--|   second |---113---|
 *      a=2  first |----200----|   second |-----226-----|   …
 */
static void test_equal_sweeps(void **state) {
    (void)state;
    for (int later = 0; later < 2; later++) {
        char words[512];
        snprintf(words, sizeof words,
                 "sweep -o equal%d --grid a=1,2,3,4 --env V=p,q --no-trace -- sh -c "
                 "'echo \"{\\\"step_ms\\\": $(({a} * %d + AORTA_SWEEP_REPEAT))}\" >$AORTA_SWEEP_RESULT'",
                 later, later ? 113 : 100);
        run(words, 0, "16 trials: 16 done");
    }
    run("sweep --compare equal0 equal1", 0, "equal1 is within the noise of equal0: step_ms ");
    run("sweep --compare equal0 equal1", 0, "  chance      p = ");
    run("sweep --compare equal0 equal1", 0, "equal sweeps are assumed to differ by ");
}

/* A batch of 4 takes less time than one of 8, and does half the work: what compares is throughput. */
static void test_work_of_a_step(void **state) {
    (void)state;
    static const char job[] = "--grid batch=4,8 --no-trace -- sh -c 'echo \"{\\\"step_ms\\\": $((10 + {batch})), "
                              "\\\"throughput\\\": $(({batch} * 1000 / (10 + {batch})))}\" >$AORTA_SWEEP_RESULT'";
    char words[512];
    snprintf(words, sizeof words, "sweep -o batches %s", job);
    run(words, 0, "Best of 2 points: batch=8: throughput 444 1/s (2 runs), 55.8% above the median (285)");
    snprintf(words, sizeof words, "sweep -o steps --objective step_ms %s", job);
    run(words, 2, "--objective step_ms: batch changes the work of a step");
    run("sweep --grid training.batch_size=4,8 --dry-run --json", 0, "6 trials of 2 combinations and the baseline");
}

/* Without a knob the job takes 7 ms. A failed baseline is no sweep's failure. */
static void test_baseline(void **state) {
    (void)state;
    static const char job[] = "--env X=5,9 --no-trace %s -- sh -c 'test ${X:-7} != %s && "
                              "echo {\\\"step_ms\\\": ${X:-7}} >$AORTA_SWEEP_RESULT'";
    char words[512], text[256];
    snprintf(text, sizeof text, job, "", "none");
    snprintf(words, sizeof words, "sweep -o base %s", text);
    run(words, 0,
        "Best of 2 points: X=5: step_ms 5 ms (2 runs), 28.6% below the baseline (7), 44.4% below the worst (9)\n");
    assert_int_equal(lines_of("base/trials.jsonl"), 1 + 6);
    snprintf(words, sizeof words, "sweep -o base --resume %s", text);
    run(words, 0, "below the baseline (7)");
    assert_int_equal(lines_of("base/trials.jsonl"), 1 + 6);
    snprintf(text, sizeof text, job, "", "7");
    snprintf(words, sizeof words, "sweep -o failed %s", text);
    run(words, 0, "5 trials: 4 done, 1 failed");
    run("sweep -o pair --grid a=1,2 b=1,2 --no-trace -- sh -c "
        "'echo {\\\"step_ms\\\": $(( {a} == {b} ? 10 : 20 ))} >$AORTA_SWEEP_RESULT'",
        0, "b 50% of the variance, 50% only together with a; 1 15, 2 15");
    snprintf(text, sizeof text, job, "--no-baseline", "none");
    snprintf(words, sizeof words, "sweep -o bare %s", text);
    run(words, 0, "4 trials: 4 done");
}

/* Repeats differ by more than the two values do, so that neither is the best, and no file says so. */
static void test_no_winner(void **state) {
    (void)state;
    static const char job[] = "sweep -o %s --env X=5,6 --repeats 3 --no-trace -- sh -c "
                              "'echo {\\\"step_ms\\\": $((${X:-5} + %s * AORTA_SWEEP_REPEAT))} "
                              ">$AORTA_SWEEP_RESULT'";
    char words[512];
    snprintf(words, sizeof words, job, "noisy", "9 * X");
    run(words, 0, "No winner: all 2 points are within the noise of ±");
    assert_int_equal(access("noisy/best.env", F_OK), -1);
    run("sweep -o apart --env X=5,6 --repeats 2 --no-trace -- sh -c 'echo {\\\"step_ms\\\": "
        "$((${X:-5} == 5 ? 10 + 2 * AORTA_SWEEP_REPEAT : 16 - 3 * AORTA_SWEEP_REPEAT))} >$AORTA_SWEEP_RESULT'",
        0, "No winner: 2 points differ by up to 24%, not significant with 2 repeats (more --repeats)");
    static const char wide[] = "sweep -o wide --objective throughput --env X=5,6 --repeats 2 --no-trace -- sh -c 'echo "
                               "{\\\"throughput\\\": $((${X:-5} == 5 ? 100 + 2000 * AORTA_SWEEP_REPEAT : 10 + 80 * "
                               "AORTA_SWEEP_REPEAT))} >$AORTA_SWEEP_RESULT'";
    run(wide, 0, "No winner: 2 points differ by up to 2100%, not significant with 2 repeats (more --repeats)");
    run("sweep --read wide", 0, "the baseline (1100), 2100%\n");
    run("sweep -o once --env X=5,6 --repeats 1 --no-trace -- sh -c 'echo {\\\"step_ms\\\": ${X:-7}} "
        ">$AORTA_SWEEP_RESULT'",
        0, "noise       not known: no point has two runs (--repeats 2)\n  files ");
    snprintf(words, sizeof words, job, "quiet", "0");
    run(words, 0, "Best of 2 points: X=5: step_ms 5 ms (3 runs)");
    run(words, 2, "quiet has a sweep; --resume goes on with it");
    run("sweep --read quiet", 0, "  noise       0 (0%), from 4 repeats\n");
    assert_int_equal(access("quiet/best.env", F_OK), 0);
}

/* The halves of one sweep: q takes 5 ms longer than p, but for a=4, and noise of 1 ms. */
static void test_halves(void **state) {
    (void)state;
    run("sweep -o both --grid a=1,2,3,4 --env V=p,q,r --no-trace -- sh -c "
        "'test ${V}{a} = q4 && d=0 || d=5; test $V = q || d=0; "
        "echo \"{\\\"step_ms\\\": $(({a} * 10 + d + AORTA_SWEEP_REPEAT))}\" >$AORTA_SWEEP_RESULT'",
        0, "24 trials: 24 done");
    run("sweep --read both", 0, "24 trials: 24 done");
    run("sweep --compare both --by V=p,q", 0,
        "V=q differs from V=p at some points, not over all: step_ms 22.7 -> 27.5 ms");
    run("sweep --compare both --by V=p,q", 0, "%), worse at 3 of 4 points\n");
    run("sweep --compare both --by V=q,p", 0, "best        V=q: a=1: 15.5");
    run("sweep --compare both --by V=p,q", 0, "step_ms 10.5 -> 15.5 ms (+48%) at a=1\n");
    run("sweep --compare both --by V=p,q --label A B", 2, "--label: the halves of --by are called by their values");
    run("sweep --compare both --by V=p,r", 0, "  chance      p = ");
    run("sweep --compare both --by V", 2, "give two values of the knob");
    run("sweep --compare both --by V=p,s", 2, "give two values of the knob, as --by NAME=A,B; it has p, q, r");
    run("sweep --compare both --by W", 2, "has no such knob");
    run("sweep --compare both both --by V", 2, "goes with one directory");
    run("sweep --compare both --by V=p,q --json", 0, "");
    json_t *root = json_load_file("output", 0, NULL);
    assert_non_null(root);
    const json_t *comparison = json_array_get(get(root, "comparisons"), 0), *row;
    size_t i, counted = 0, all = 0;
    assert_int_equal(json_array_size(get(root, "points")), 4);
    json_array_foreach(get(comparison, "rows"), i, row) {
        assert_string_equal(json_string_value(get(row, "figure")), "step_ms");
        if (json_is_null(get(row, "point"))) {
            all++;
            continue;
        }
        const json_t *point = json_array_get(get(root, "points"), (size_t)json_integer_value(get(row, "point")));
        const bool same = !strcmp(json_string_value(get(get(point, "values"), "a")), "4");
        assert_int_equal(json_is_true(get(row, "counts")), !same);
        assert_true(same ? json_number_value(get(row, "p_value")) == 1 : json_number_value(get(row, "p_value")) < 0.01);
        counted += json_is_true(get(row, "counts"));
    }
    assert_int_equal(counted, 3);
    assert_int_equal(all, 1);
    assert_int_equal(json_array_size(get(comparison, "changes")), 3);
    json_decref(root);
}

/* Runs of the original toolkit in folders whose names are the knobs; one of them also left a recording of kernels. */
static void test_folders(void **state) {
    (void)state;
    static const char make[] =
        "for v in 6.2 7.0; do for t in 256 512; do for c in 28 42; do for r in 1 2; do "
        "mkdir -p $v/${t}thread/nccl_${c}channels/rep$r && "
        "cp '" DATA "/report/data/original/rank_00_metrics.jsonl' $v/${t}thread/nccl_${c}channels/rep$r || exit 1; "
        "done; done; done; done; at=6.2/256thread/nccl_28channels/rep1/torch_profiler/rank0 && mkdir -p $at && "
        "cp '" DATA "/trace/data/fsdp2_rank0.json' $at/a.pt.trace.json";
    assert_int_equal(system(make), 0);
    run("sweep --compare 6.2 7.0", 0, "7.0 is within the noise of 6.2: step_ms 80.4 -> 80.4 ms (+0.0%");
    run("sweep --compare 6.2 7.0", 0, "best        6.2: thread=256 nccl_channels=28: 80.4\n");
    run("sweep --compare 6.2 7.0 --json", 0, "");
    json_t *root = json_load_file("output", 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_array_size(get(root, "points")), 4);
    const json_t *last = get(json_array_get(get(root, "points"), 3), "values"), *figure;
    assert_string_equal(json_string_value(get(last, "thread")), "512");
    assert_string_equal(json_string_value(get(last, "nccl_channels")), "42");
    bool kernels = false;
    size_t i;
    json_array_foreach(get(root, "figures"), i, figure) {
        kernels |= !strcmp(json_string_value(get(figure, "name")), "gemm");
    }
    assert_true(kernels);
    json_decref(root);
    run("sweep --compare 6.2 .", 2, "have different knobs");
}

/* More trials of a point than anybody looks at, and two points whose names differ in their last character of 140. */
static void test_large_folders(void **state) {
    (void)state;
    static const char make[] =
        "long=$(printf '%0139d' 0 | tr 0 x); for v in 8.1 8.2; do for t in 1 2; do for r in $(seq 35); do "
        "mkdir -p $v/$long$t/rep$r && "
        "cp '" DATA "/report/data/original/rank_00_metrics.jsonl' $v/$long$t/rep$r || exit 1; done; done; "
        "for r in $(seq 36 70); do mv $v/${long}2/rep$((r - 35)) $v/${long}1/rep$r; done; mkdir -p $v/${long}2/rep1 && "
        "cp '" DATA "/report/data/original/rank_00_metrics.jsonl' $v/${long}2/rep1; done";
    char *page;
    size_t length, trials = 0;
    assert_int_equal(system(make), 0);
    run("sweep --compare 8.1 8.2 --json", 0, "");
    json_t *root = json_load_file("output", 0, NULL);
    assert_int_equal(json_array_size(get(root, "points")), 2);
    json_decref(root);
    if (!aorta_page_available()) return;
    run("sweep --compare 8.1 8.2 --html many.html", 0, "");
    check_ok(aorta_file_read("many.html", &page, &length));
    for (const char *at = page; (at = strstr(at, "/rep")); at++) trials++;
    assert_true(trials >= 2 * (70 + 1));
    free(page);
}

/* The page is written where this build has pages, and carries the results. */
static void test_pages(void **state) {
    (void)state;
    static const struct {
        const char *words, *part;
    } pages[] = {{"--read driver0", "\"kind\": \"sweep\""},
                 {"--compare driver0 driver1", "\"kind\": \"sweep_comparison\""},
                 {"--compare both --by V=p,q", "V=p"}};
    if (!aorta_page_available()) {
        run("sweep --read driver0 --html page.html", 1, "page.html: this build writes no pages");
        return;
    }
    assert_int_equal(access("driver0/index.html", R_OK), 0);
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        char words[128], *page;
        size_t length;
        snprintf(words, sizeof words, "sweep %s --html page.html", pages[i].words);
        run(words, 0, "");
        check_ok(aorta_file_read("page.html", &page, &length));
        assert_non_null(strstr(page, pages[i].part));
        free(page);
        unlink("page.html");
    }
}

static void test_hwq(void **state) {
    (void)state;
    run("sweep -o out3 --hwq tiny_kernel_stress --grid streams=1,2 device=cpu graph=false,true --repeats 1 --steps 3 "
        "--objective throughput",
        0, "5 trials: 5 done");
    run("sweep --read out3", 0, " GFLOPS (1 run)");
    run("sweep --read out3", 0, "; grid of hwq run tiny_kernel_stress\n");
    run("sweep --compare out3 out3", 0, " GFLOPS (");
    run("sweep --compare out3 out3", 0, "  importance  streams: ");
    run("sweep --compare out3 out3", 0, "% of the variance of out3");
}

/* Trials that all fail, of one knob. */
static void test_nothing_measured(void **state) {
    (void)state;
    run("sweep -o none --grid a=1,5 --repeats 1 --no-baseline --no-trace -- sh -c 'exit {a}'", 1,
        "No result: no trial measured step_ms");
    run("sweep --compare none none", 0, "no trial of none measured step_ms: nothing to compare");
    run("sweep --compare none --by a=1,5", 2,
        "--by a=1,5: this is the only knob of none; --read none compares its values");
}

static void test_wrong(void **state) {
    (void)state;
    static const struct {
        const char *words, *part;
    } wrong[] = {
        {"sweep", "no knobs: give --grid KEY=A,B"},
        {"sweep --grid model.num_layer=1,2", "did you mean"},
        {"sweep --grid model.num_layers=1,two", "model.num_layers"},
        {"sweep --grid x=1,2 -- true", "write {x} in the command"},
        {"sweep --env 'A B=1,2' -- true", "no name of a variable"},
        {"sweep --search halving --env A=1,2 -- true", "needs --steps N"},
        {"sweep --search halving --steps 9 --env A=1,2 -- true", "write {steps} in the command"},
        {"sweep --hwq x --config base.yaml --env A=1,2", "exclude each other"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) run(wrong[i].words, 2, wrong[i].part);
    assert_int_not_equal(access("sweep", F_OK), 0);
    run("sweep --dry-run --env A=1,2 --no-trace -- echo {steps}", 0,
        "6 trials of 2 combinations and the baseline; the first is baseline");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_and_resumed),
        cmocka_unit_test(test_hostile_results),
        cmocka_unit_test(test_launcher_cleans_up),
        cmocka_unit_test(test_work_ends),
        cmocka_unit_test(test_runs_again),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_nothing_left),
        cmocka_unit_test(test_train),
        cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_suggest),
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_equal_sweeps),
        cmocka_unit_test(test_work_of_a_step),
        cmocka_unit_test(test_baseline),
        cmocka_unit_test(test_no_winner),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_large_folders),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_hwq),
        cmocka_unit_test(test_nothing_measured),
        cmocka_unit_test(test_wrong),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
