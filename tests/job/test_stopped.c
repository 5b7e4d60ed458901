/* A rank that is stopped (SIGSTOP), in any phase: the job ends within the ranks' timeout, and the message names it. */
#include "check.h"

#include "base/clock.h"
#include "job/launch.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_S 60.0 /* ranks wait for 1 or 8 s; busy machines need more */

struct job {
    const char *name;
    const char *arguments[10]; /* of mpirun, or of the launcher */
    const char *words[4];      /* that its output has */
    bool may_crash;            /* Open MPI's mpirun does at times, when its ranks have aborted */
    pid_t pid;
    int output, status; /* of waitpid; -1: it did not end */
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

/* Ends a process that does not end within the limit. */
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
    if (job->status == 0 || (!WIFEXITED(job->status) && !job->may_crash))
        fail_msg("%s: status %d:\n%s", job->name, job->status, text);
    for (int i = 0; job->words[i]; i++)
        if (!strstr(text, job->words[i])) fail_msg("%s: no \"%s\" in:\n%s", job->name, job->words[i], text);
}

/* They wait, mostly, so all run at the same time. */
static void start_all(const char *program, struct job *jobs, size_t count) {
    for (size_t i = 0; i < count; i++) start(&jobs[i], program);
}

static void end_all(struct job *jobs, size_t count) {
    for (size_t i = 0; i < count; i++) await(&jobs[i]);
    for (size_t i = 0; i < count; i++) check_end(&jobs[i]);
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- mpirun alone: nobody but the ranks themselves can end the job ---- */

static struct job by_mpirun(const char *name, const char *phase, const char *word, const char *more) {
    return (struct job){.name = name,
                        .arguments = {"-n", "2", LAUNCH_HELPER, "rank", "stop", phase},
                        .words = {word, more},
                        .may_crash = true};
}

static void test_under_mpirun(void **state) {
    (void)state;
    char mpirun[PATH_MAX];
    if (!aorta_mpirun_find(mpirun)) skip();
    struct job jobs[] = {
        by_mpirun("start", "10", "MPI_Init_thread: rank 0 of 2 waited 8.0 s for its peers", NULL),
        by_mpirun("groups", "11", "rank 0", "waited 8.0 s for its peers"),
        by_mpirun("collective", "12", "all_reduce #1 of 2 ranks, 4000 bytes: rank 0 waited 8.0 s for its peers", NULL),
        by_mpirun("close", "13", "rank 0", "waited 8.0 s for its peers"),
        by_mpirun("end", "14", "at the end of the run: ", "rank 0 waited 8.0 s for its peers"),
        by_mpirun("rank 0 alone", "5", "at the end of the run: ", "rank 1 waited 8.0 s for its peers"),
    };
    start_all(mpirun, jobs, COUNT(jobs));
    end_all(jobs, COUNT(jobs));
}

/* ---- under the launcher ---- */

/* On a GPU the ranks meet at rank 0's store and join no MPI. The store, NCCL's calls or the watchdog end the job; in
 * the last phases the last rendezvous. */
static struct job on_gpu(const char *name, const char *phase, const char *word, const char *more) {
    return (struct job){.name = name,
                        .arguments = {"run", "2", "never", "0", LAUNCH_HELPER, "rank", "stop", phase},
                        .words = {word, more}};
}

/* As torchrun starts ranks: nothing looks for stopped ones, and when one ends with a failure the other ranks are
 * killed. The stopped rank is in the background. */
static struct job by_torchrun(const char *name, const char *phase, const char *port, const char *word) {
    static const char script[] =
        "export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$1; stopped=$(($2 / 10)); "
        "RANK=$stopped LOCAL_RANK=$stopped \"$HELPER\" rank stop $2 & "
        "other=$((1 - stopped)); RANK=$other LOCAL_RANK=$other \"$HELPER\" rank stop $2; code=$?; "
        "kill -KILL $!; exit $code";
    return (struct job){.name = name, .arguments = {"-c", script, "torchrun", port, phase}, .words = {word}};
}

/* No rank waits for the stopped process. */
static struct job by_shell(const char *name, const char *through, const char *command, const char *word) {
    return (struct job){.name = name,
                        .arguments = {"run", "2", through, "0", "/bin/sh", "-c", command},
                        .words = {word, ") was stopped (SIGSTOP, or a debugger) for "}};
}

static void use_gpu(void) {
    setenv("AORTA_LIBRARY_PATH", FAKE_LIBRARIES, 1);
    setenv("AORTA_CACHE_DIR", FAKE_CACHE, 1);
    setenv("LAUNCH_HELPER_GPU", "1", 1);
}

static void test_under_the_launcher(void **state) {
    (void)state;
    const char first[] = "aorta launch: rank 0 ended with exit status 1";
    const char stopped[] =
        ") was stopped (SIGSTOP, or a debugger)"; /* for this long, or the other ranks waited for it */
    struct job gpu[] = {
        on_gpu("start of rank 1", "10", "these ranks of 2 did not connect", first),
        on_gpu("start of rank 0", "0", "rank 1 found no rank 0 of this run", NULL),
        on_gpu("groups", "11", "rank 0 waited for rank 1", first),
        on_gpu("collective", "12", "last collective queued: all_reduce #1 of 2 ranks, 4000 bytes", first),
        on_gpu("close of rank 1", "13", "aorta launch: rank 1 (process ", NULL),
        on_gpu("close of rank 0", "3", "aorta launch: rank 0 (process ", NULL),
        on_gpu("end", "14", "aorta launch: rank 1 (process ", stopped),
        on_gpu("rank 0 alone", "5", "aorta launch: rank 0 (process ", stopped),
    };
#define WAITS "\"$HELPER\" rank timeout; "
#define RANK_1 WAITS "if test $RANK = 1; then "
    struct job others[] = {
        by_shell("rank", "never", RANK_1 "kill -STOP $$; fi; exit 0",
                 ") is stopped (SIGSTOP, or a debugger); the job ends if it does not go on within 1 s."),
        by_shell("both", "always", WAITS "kill -STOP $$", "aorta launch: rank "),
        by_shell("wrapper", "always", RANK_1 "kill -STOP $PPID; fi; exec sleep 1",
                 "aorta launch: the wrapper of rank 1 (process "),
        by_shell("mpirun", "always", RANK_1 "kill -STOP $(ps -o ppid= -p $PPID); fi; exec sleep 1",
                 "aorta launch: mpirun (process "),
    };
    use_gpu();
    start_all(LAUNCH_HELPER, gpu, COUNT(gpu));
    unsetenv("LAUNCH_HELPER_GPU");
    start_all(LAUNCH_HELPER, others, COUNT(others));
    end_all(gpu, COUNT(gpu));
    end_all(others, COUNT(others));
}

static void test_under_torchrun(void **state) {
    (void)state;
    struct job torchrun[] = {
        by_torchrun("close of rank 1 under torchrun", "13", "21170", "at the end of the run: "),
        by_torchrun("close of rank 0 under torchrun", "3", "21180", "at the end of the run: "),
        by_torchrun("end of rank 1 under torchrun", "14", "21190", "these ranks of 2 did not connect to 127.0.0.1"),
        by_torchrun("end of rank 0 under torchrun", "4", "21200", "rank 1 found no rank 0 of this run"),
        by_torchrun("rank 0 alone under torchrun", "5", "21210", "at the end of the run: "),
        by_torchrun("rank 1 alone under torchrun", "15", "21220",
                    "at the end of the run: rank 0 waited 8.0 s for rank 1"),
    };
    use_gpu();
    start_all("/bin/sh", torchrun, COUNT(torchrun));
    unsetenv("LAUNCH_HELPER_GPU");
    end_all(torchrun, COUNT(torchrun));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_under_mpirun),
        cmocka_unit_test(test_under_the_launcher),
        cmocka_unit_test(test_under_torchrun),
    };
    setenv("HELPER", LAUNCH_HELPER, 1); /* for scripts */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
