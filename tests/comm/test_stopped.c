/* A rank that is stopped (SIGSTOP), in any phase: the job ends within the ranks' timeout, and what is said names it. */
#include "check.h"

#include "base/clock.h"
#include "comm/mpirun.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_S 15.0 /* ranks wait 1 s; the rest is for busy machines */

struct job {
    const char *name;
    const char *arguments[10]; /* of mpirun, or of the launcher */
    const char *words[4];      /* that its output has */
    pid_t pid;
    int output, status; /* of waitpid; -1: it did not end by itself */
    int64_t start_ns;
};

static void start(struct job *job, const char *program) {
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    job->start_ns = aorta_clock_ns();
    job->pid = fork();
    if (job->pid == 0) {
        char *argv[12] = {strdup(program)};
        for (int i = 0; job->arguments[i]; i++) argv[i + 1] = strdup(job->arguments[i]);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        setpgid(0, 0);
        execv(program, argv);
        _exit(94);
    }
    close(ends[1]);
    job->output = ends[0];
}

/* What does not end by itself is ended. */
static void await(struct job *job) {
    while (waitpid(job->pid, &job->status, WNOHANG) == 0) {
        if ((double)(aorta_clock_ns() - job->start_ns) * 1e-9 > LIMIT_S) {
            kill(-job->pid, SIGTERM); /* a launcher ends its ranks */
            sleep(3);
            kill(-job->pid, SIGKILL);
            waitpid(job->pid, &job->status, 0);
            job->status = -1;
            return;
        }
        usleep(20000);
    }
}

static void check_end(struct job *job) {
    char text[8192] = "";
    fcntl(job->output, F_SETFL, O_NONBLOCK); /* a process that is left would keep it open */
    ssize_t length = read(job->output, text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    close(job->output);
    if (job->status == -1) fail_msg("%s: it did not end:\n%s", job->name, text);
    if (!WIFEXITED(job->status) || WEXITSTATUS(job->status) == 0)
        fail_msg("%s: status %d:\n%s", job->name, job->status, text);
    for (int i = 0; job->words[i]; i++) {
        if (!strstr(text, job->words[i])) fail_msg("%s: no \"%s\" in:\n%s", job->name, job->words[i], text);
    }
}

/* They wait, mostly, so all run at the same time. */
static void check_all(const char *program, struct job *jobs, size_t count) {
    for (size_t i = 0; i < count; i++) start(&jobs[i], program);
    for (size_t i = 0; i < count; i++) await(&jobs[i]);
    for (size_t i = 0; i < count; i++) check_end(&jobs[i]);
}

/* Nobody but the ranks themselves can end the job. */
static void test_under_mpirun(void **state) {
    (void)state;
    char mpirun[PATH_MAX];
    if (!aorta_mpirun_find(mpirun)) skip();
#define JOB(title, phase, ...)                                                                                         \
    {                                                                                                                  \
        .name = title, .arguments = {"-n", "2", LAUNCH_HELPER, "rank", "stop", phase}, .words = { __VA_ARGS__ }        \
    }
    struct job jobs[] = {
        JOB("start", "10", "MPI_Init_thread: rank 0 of 2 waited 1.0 s for its peers"),
        JOB("groups", "11", "rank 0", "waited 1.0 s for its peers"),
        JOB("collective", "12", "all_reduce #1 of 2 ranks, 4000 bytes: rank 0 waited 1.0 s for its peers"),
        JOB("close", "13", "rank 0", "waited 1.0 s for its peers"),
        JOB("end", "14", "at the end of the run: ", "rank 0 waited 1.0 s for its peers"),
        JOB("rank 0 alone", "5", "at the end of the run: ", "rank 1 waited 1.0 s for its peers"),
    };
#undef JOB
    check_all(mpirun, jobs, sizeof jobs / sizeof *jobs);
}

/* On a GPU the ranks meet at rank 0's store and join no MPI. What ends the job: the store, NCCL's calls, the watchdog;
 * in the last two phases the launcher, since no rank waits any more. */
static void test_on_gpus(void **state) {
    (void)state;
#define JOB(title, phase, ...) \
    { .name = title, .arguments = {"run", "2", "never", "0", LAUNCH_HELPER, "rank", "stop", phase}, .words = {__VA_ARGS__} }
    struct job jobs[] = {
        JOB("start of rank 1", "10", "these ranks of 2 did not connect", "aorta launch: rank 0 ended with exit status 1"),
        JOB("start of rank 0", "0", "rank 1 found no rank 0 of this run"),
        JOB("groups", "11", "aorta launch: rank 0 ended with exit status 1"),
        JOB("collective", "12", "waited 1.", "aorta launch: rank 0 ended with exit status 1"),
        JOB("close of rank 1", "13", "aorta launch: rank 1 (process "),
        JOB("close of rank 0", "3", "aorta launch: rank 0 (process "),
        JOB("end", "14", "aorta launch: rank 1 (process ", ") was stopped (SIGSTOP, or a debugger) for "),
        JOB("rank 0 alone", "5", "aorta launch: rank 0 (process ", ") was stopped (SIGSTOP, or a debugger) for "),
    };
#undef JOB
    setenv("LAUNCH_HELPER_GPU", "1", 1);
    setenv("AORTA_LIBRARY_PATH", FAKE_LIBRARIES, 1);
    setenv("AORTA_CACHE_DIR", FAKE_CACHE, 1);
    check_all(LAUNCH_HELPER, jobs, sizeof jobs / sizeof *jobs);
    unsetenv("LAUNCH_HELPER_GPU");
}

/* No rank waits for the one that is stopped, or the one that does not know for how long: the launcher ends the job. */
static void test_by_the_launcher(void **state) {
    (void)state;
#define JOB(title, through, command, ...)                                                                              \
    {                                                                                                                  \
        .name = title, .arguments = {"run", "2", through, "0", "/bin/sh", "-c", command}, .words = { __VA_ARGS__ }     \
    }
#define WAITS LAUNCH_HELPER " rank timeout; "
    struct job jobs[] = {
        JOB("rank", "never", WAITS "if test $RANK = 1; then kill -STOP $$; fi; exit 0",
            "aorta launch: rank 1 (process ",
            ") is stopped (SIGSTOP, or a debugger); the job ends if it does not go on",
            ") was stopped (SIGSTOP, or a debugger) for "),
        JOB("both", "always", WAITS "kill -STOP $$", "was stopped (SIGSTOP, or a debugger) for "),
        JOB("wrapper", "always", WAITS "if test $RANK = 1; then kill -STOP $PPID; fi; exec sleep 1",
            "aorta launch: the wrapper of rank 1 (process "),
        JOB("mpirun", "always", WAITS "if test $RANK = 1; then kill -STOP $(ps -o ppid= -p $PPID); fi; exec sleep 1",
            "aorta launch: mpirun (process "),
    };
#undef JOB
    check_all(LAUNCH_HELPER, jobs, sizeof jobs / sizeof *jobs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_under_mpirun),
        cmocka_unit_test(test_on_gpus),
        cmocka_unit_test(test_by_the_launcher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
