#include "run.h"

#include "base/clock.h"
#include "base/files.h"
#include "check.h"
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double time_limit_s = 300; /* with a sanitizer and a loaded machine */

static const char base_config[] =
    "training: {batch_size: 4, mixed_precision: none, max_steps: 6, grad_clip_norm: 1.0}\n"
    "optimizer: {lr: 1.0e-3}\n"
    "scheduler: {warmup_steps: 3, total_steps: 20}\n"
    "dataset: {num_samples: 200, sequence_length: 7, num_dense_features: 3, dense_dim: 10, sparse_features: 4,\n"
    "  vocab_size: 101}\n"
    "model: {vocab_size: 101, embedding_dim: 20, num_dense_features: 3, dense_dim: 10, model_dim: 24, num_heads: 3,\n"
    "  num_layers: 3, mlp_hidden_dim: 40, dropout: 0.0}\n"
    "dataloader: {num_workers: 1}\n";

/* The one workspace of this test program. */
static char workspace[64];
static int run_number;

const char *e2e_workspace(void) {
    return workspace;
}

/* What runs type and print does not depend on the path of the source or of the build. */
static void link_here(const char *name, const char *target) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", workspace, name);
    assert_int_equal(symlink(target, path), 0);
}

int e2e_open(void **state) {
    (void)state;
    char path[128];
    folder_make(workspace, "e2e");
    snprintf(path, sizeof path, "%s/base.yaml", workspace);
    check_ok(aorta_file_replace(path, base_config, strlen(base_config)));
    link_here("aorta", PROGRAM_FILE);
    link_here("config", SOURCE_CONFIG);
    return 0;
}

/* Jobs that train for several runs (programs/trains.c), by the number of ranks. */
static struct job {
    struct e2e_run run; /* of the job itself; pid 0: it is not started */
    int lines[E2E_MAX_RANKS], done;
} jobs[E2E_MAX_RANKS + 1];

static int end_job(struct job *job);

int e2e_close(void **state) {
    (void)state;
    int failed = 0;
    for (int ranks = 1; ranks <= E2E_MAX_RANKS; ranks++) failed |= end_job(&jobs[ranks]);
    return folder_remove(workspace) || failed;
}

/* ---- starting and ending ---- */

static void new_run(struct e2e_run *run, int ranks) {
    *run = (struct e2e_run){.ranks = ranks};
    snprintf(run->name, sizeof run->name, "run%03d", ++run_number);
    snprintf(run->directory, sizeof run->directory, "%s/%s", workspace, run->name);
    check_ok(aorta_directory_make(run->directory));
}

static void in_child(const struct e2e_run *run, char *const *arguments) {
    static const char *const contract[] = {"RANK",         "WORLD_SIZE",      "LOCAL_RANK",
                                           "MASTER_ADDR",  "MASTER_PORT",     "LOCAL_WORLD_SIZE",
                                           "SLURM_PROCID", "AORTA_STATE_DIR", "OMPI_COMM_WORLD_RANK"};
    char path[300];
    snprintf(path, sizeof path, "%s/output", run->directory);
    int output = open(path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (output < 0 || input < 0) _exit(94);
    for (size_t i = 0; i < sizeof contract / sizeof *contract; i++) unsetenv(contract[i]);
    dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execv(arguments[0], arguments);
    _exit(94);
}

static void spawn(struct e2e_run *run, char *const *arguments) {
    run->seconds = (double)aorta_clock_ns() * 1e-9;
    run->pid = fork();
    assert_true(run->pid >= 0);
    if (run->pid == 0) in_child(run, arguments);
}

void e2e_start(struct e2e_run *run, int ranks, const char *words) {
    char script[4096], number[16];
    new_run(run, ranks);
    int length = snprintf(script, sizeof script,
                          "echo $$ > %s/pid.${RANK:-0}; exec %s/aorta train --config %s/base.yaml --no-report "
                          "--override training.output_dir=%s/out %s",
                          run->directory, workspace, workspace, run->directory, words);
    assert_true(length < (int)sizeof script);
    snprintf(number, sizeof number, "%d", ranks);
    char *launch[] = {(char[]){PROGRAM_FILE}, (char[]){"launch"}, (char[]){"-n"}, number, (char[]){"--"},
                      (char[]){"/bin/sh"},    (char[]){"-c"},     script,         NULL};
    spawn(run, ranks > 1 ? launch : launch + 5);
}

void e2e_start_command(struct e2e_run *run, const char *words) {
    char script[4096];
    new_run(run, 1);
    int length = snprintf(script, sizeof script, "cd %s; exec " AORTA_PROGRAM " %s", run->directory, words);
    assert_true(length < (int)sizeof script);
    char *shell[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, script, NULL};
    spawn(run, shell);
}

static void nap(void) {
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static double now_s(void) {
    return (double)aorta_clock_ns() * 1e-9;
}

static void read_output(struct e2e_run *run) {
    char path[300];
    size_t length;
    snprintf(path, sizeof path, "%s/output", run->directory);
    check_ok(aorta_file_read(path, &run->output, &length));
}

void e2e_finish(struct e2e_run *run) {
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(run->pid, &status, WNOHANG)) == 0) {
        if (now_s() - run->seconds > time_limit_s) kill(run->pid, SIGKILL);
        nap();
    }
    assert_int_equal(ended, run->pid);
    run->seconds = now_s() - run->seconds;
    run->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    read_output(run);
}

/* ---- several runs in one job ---- */

/* The pipe is open for both directions, so that nobody waits for the other end to be opened. */
static int make_pipe(const struct job *job, const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", job->run.directory, name);
    assert_int_equal(mkfifo(path, 0600), 0);
    int file = open(path, O_RDWR | O_CLOEXEC);
    assert_true(file >= 0);
    return file;
}

static struct job *job_of(int ranks) {
    struct job *job = &jobs[ranks];
    char number[16], name[16];
    if (job->run.pid) return job;
    new_run(&job->run, ranks);
    for (int rank = 0; rank < ranks; rank++) {
        snprintf(name, sizeof name, "rank.%d", rank);
        job->lines[rank] = make_pipe(job, name);
    }
    job->done = make_pipe(job, "done");
    snprintf(number, sizeof number, "%d", ranks);
    char *launch[] = {(char[]){PROGRAM_FILE}, (char[]){"launch"},   (char[]){"-n"},     number,
                      (char[]){"--"},         (char[]){E2E_TRAINS}, job->run.directory, NULL};
    spawn(&job->run, ranks > 1 ? launch : launch + 5);
    return job;
}

/* Closes its pipes, which makes it end. Returns its exit code. */
static int end_job(struct job *job) {
    if (!job->run.pid) return 0;
    for (int rank = 0; rank < job->run.ranks; rank++) close(job->lines[rank]);
    close(job->done);
    e2e_finish(&job->run);
    if (job->run.exit_code) print_error("a job of %d ranks printed %s", job->run.ranks, job->run.output);
    e2e_free(&job->run);
    job->run.pid = 0;
    return job->run.exit_code;
}

/* Until all ranks are done, or the job has ended: false. */
static bool await_ranks(const struct job *job) {
    char bytes[E2E_MAX_RANKS];
    for (int left = job->run.ranks; left > 0;) {
        siginfo_t ended = {0};
        if (poll(&(struct pollfd){.fd = job->done, .events = POLLIN}, 1, 50) > 0) {
            ssize_t count = read(job->done, bytes, (size_t)left);
            assert_true(count > 0);
            left -= (int)count;
        } else if (waitid(P_PID, (id_t)job->run.pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid) {
            return false;
        } else if (now_s() - job->run.seconds > time_limit_s) {
            kill(job->run.pid, SIGKILL);
        }
    }
    return true;
}

static void train_in_job(struct e2e_run *run, int ranks, const char *words) {
    char line[4096];
    struct job *job = job_of(ranks);
    new_run(run, ranks);
    int length = snprintf(line, sizeof line,
                          "%s aorta train --config %s/base.yaml --no-report --override training.output_dir=%s/out %s\n",
                          run->directory, workspace, run->directory, words);
    assert_true(length < (int)sizeof line);
    job->run.seconds = run->seconds = now_s();
    for (int rank = 0; rank < ranks; rank++) assert_int_equal(write(job->lines[rank], line, (size_t)length), length);
    if (!await_ranks(job)) run->exit_code = end_job(job);
    run->seconds = now_s() - run->seconds;
    read_output(run);
    e2e_read_lines(run, false);
}

void e2e_train_well(struct e2e_run *run, int ranks, int steps, const char *words) {
    if (getenv("AORTA_LIBRARY_PATH")) /* a process loads one vendor's libraries */
        e2e_train(run, ranks, words);
    else
        train_in_job(run, ranks, words);
    if (run->exit_code) fail_msg("%d ranks, %s: exit %d, printed %s", ranks, words, run->exit_code, run->output);
    for (int rank = 0; rank < ranks; rank++)
        if (steps && (int)e2e_steps(run, rank) != steps)
            fail_msg("%d ranks, %s: rank %d has %zu lines", ranks, words, rank, e2e_steps(run, rank));
}

void e2e_free(struct e2e_run *run) {
    for (int rank = 0; rank < E2E_MAX_RANKS; rank++) json_decref(run->lines[rank]);
    free(run->output);
}

void e2e_train(struct e2e_run *run, int ranks, const char *words) {
    e2e_start(run, ranks, words);
    e2e_finish(run);
    e2e_read_lines(run, false);
}

void e2e_expect_output(const struct e2e_run *run, int exit_code, const char *part) {
    if (run->exit_code != exit_code || !strstr(run->output, part))
        fail_msg("exit %d, expected %d with \"%s\"; printed: %s", run->exit_code, exit_code, part, run->output);
}

bool e2e_exists(const struct e2e_run *run, const char *path) {
    char full[400];
    snprintf(full, sizeof full, "%s/%s", run->directory, path);
    return access(full, F_OK) == 0;
}

pid_t e2e_rank_pid(const struct e2e_run *run, int rank) {
    char path[300], *text;
    size_t length;
    snprintf(path, sizeof path, "%s/pid.%d", run->directory, rank);
    check_ok(aorta_file_read(path, &text, &length));
    pid_t pid = (pid_t)strtol(text, NULL, 10);
    free(text);
    assert_true(pid > 1);
    return pid;
}

static bool running(pid_t pid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *behind_name = strrchr(text, ')'); /* then the state: proc(5) */
    return behind_name && !strchr("ZX", behind_name[2]);
}

void e2e_expect_gone(pid_t pid) {
    for (double start = now_s(); running(pid); nap())
        if (now_s() - start > 10) fail_msg("process %d is still running", (int)pid);
}

json_t *e2e_report(const struct e2e_run *run, struct e2e_run *report) {
    char text[700];
    json_error_t error;
    snprintf(text, sizeof text, "report --log-dir %s/out --label run --output %s/report --no-pictures", run->directory,
             run->directory);
    e2e_start_command(report, text);
    e2e_finish(report);
    e2e_expect_output(report, 0, "Verdict: ");
    snprintf(text, sizeof text, "%s/report/summary.json", run->directory);
    json_t *summary = json_load_file(text, 0, &error);
    if (!summary) fail_msg("%s: line %d: %s", text, error.line, error.text);
    return summary;
}

void e2e_use_fake_gpu(const char *libraries) {
    char cache[300];
    snprintf(cache, sizeof cache, "%s/cache", workspace);
    setenv("AORTA_CACHE_DIR", cache, 1);
    setenv("AORTA_LIBRARY_PATH", libraries, 1);
    setenv("FAKE_GPU_KERNELS", "ignore", 1);
}

/* ---- files of lines ---- */

static void lines_path(const struct e2e_run *run, int rank, char path[400]) {
    snprintf(path, 400, "%s/out/rank_%02d_metrics.jsonl", run->directory, rank);
}

void e2e_wait_for_lines(const struct e2e_run *run, int rank, size_t lines) {
    char path[400];
    lines_path(run, rank, path);
    for (double start = now_s();; nap()) {
        FILE *file = fopen(path, "r");
        size_t found = 0;
        for (int c; file && (c = getc(file)) != EOF;) found += c == '\n';
        if (file) fclose(file);
        if (found >= lines) return;
        if (now_s() - start > time_limit_s) fail_msg("%s has %zu lines, not %zu", path, found, lines);
    }
}

static json_t *parse_lines(const char *path, char *text, bool cut) {
    json_t *lines = json_array();
    for (char *line = text, *end = NULL; *line; line = end + 1) {
        json_error_t error;
        end = strchr(line, '\n');
        if (!end) {
            if (!cut) fail_msg("%s: the last line is cut", path);
            break;
        }
        json_t *object = json_loadb(line, (size_t)(end - line), JSON_REJECT_DUPLICATES, &error);
        if (!object) fail_msg("%s: line %zu: %s", path, json_array_size(lines) + 1, error.text);
        json_array_append_new(lines, object);
    }
    return lines;
}

void e2e_read_lines(struct e2e_run *run, bool cut) {
    for (int rank = 0; rank < E2E_MAX_RANKS; rank++) {
        char path[400], *text;
        size_t length;
        lines_path(run, rank, path);
        if (access(path, F_OK) != 0) continue;
        check_ok(aorta_file_read(path, &text, &length));
        run->lines[rank] = parse_lines(path, text, cut);
        free(text);
    }
}

size_t e2e_steps(const struct e2e_run *run, int rank) {
    return json_array_size(run->lines[rank]);
}

const json_t *e2e_line(const struct e2e_run *run, int rank, size_t step) {
    const json_t *line = json_array_get(run->lines[rank], step);
    if (!line) fail_msg("%s: rank %d has no step %zu; printed: %s", run->name, rank, step, run->output);
    return line;
}

const json_t *e2e_get(const json_t *object, const char *path) {
    char key[64];
    for (const char *rest = path; *rest;) {
        size_t length = strcspn(rest, ".");
        snprintf(key, sizeof key, "%.*s", (int)length, rest);
        object = json_object_get(object, key);
        rest += length + (rest[length] == '.');
    }
    if (!object) fail_msg("there is no %s", path);
    return object;
}

double e2e_number(const json_t *object, const char *path) {
    const json_t *value = e2e_get(object, path);
    if (!json_is_number(value)) fail_msg("%s is not a number", path);
    return json_number_value(value);
}

double e2e_mean_loss(const struct e2e_run *run, size_t step) {
    double sum = 0;
    for (int rank = 0; rank < run->ranks; rank++) sum += e2e_number(e2e_line(run, rank, step), "loss");
    return sum / run->ranks;
}

/* ---- ranges ---- */

const json_t *e2e_ranges(const json_t *line) {
    return e2e_get(line, "profile.ranges");
}

static bool same(const char *wanted, const json_t *range, const char *path) {
    return !wanted || strcmp(json_string_value(e2e_get(range, path)), wanted) == 0;
}

static bool fits(const json_t *range, struct e2e_filter filter) {
    return same(filter.function, range, "metadata.function") && same(filter.tag, range, "tag") &&
           same(filter.stream, range, "stream") && same(filter.kind, range, "metadata.kind");
}

int e2e_count(const json_t *line, struct e2e_filter filter) {
    size_t i;
    json_t *range;
    int count = 0;
    json_array_foreach((json_t *)(uintptr_t)e2e_ranges(line), i, range) count += fits(range, filter);
    return count;
}

const json_t *e2e_range(const json_t *line, struct e2e_filter filter, int nth) {
    size_t i;
    json_t *range;
    int left = nth < 0 ? e2e_count(line, filter) + nth : nth;
    json_array_foreach((json_t *)(uintptr_t)e2e_ranges(line), i, range) {
        if (fits(range, filter) && left-- == 0) return range;
    }
    fail_msg("no range %s %s (%d)", filter.function ? filter.function : "", filter.tag ? filter.tag : "", nth);
    return NULL;
}

double e2e_start_ms(const json_t *range) {
    return e2e_number(range, "start_ms");
}

double e2e_end_ms(const json_t *range) {
    return e2e_number(range, "end_ms");
}

double e2e_enqueue_ms(const json_t *range) {
    return e2e_number(range, "metadata.enqueue_ms");
}

int e2e_index(const json_t *line, const json_t *range) {
    const json_t *ranges = e2e_ranges(line);
    for (size_t i = 0; i < json_array_size(ranges); i++)
        if (json_array_get(ranges, i) == range) return (int)i;
    fail_msg("the range is of another line");
    return -1;
}
