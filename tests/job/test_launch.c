/* The launcher from outside: its processes, their end, its messages. */
#include "check.h"

#include "base/clock.h"
#include "folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct run {
    pid_t pid;
    int output; /* both streams of the launcher */
    char text[16384];
    size_t length;
    int exit_code;
    double seconds;
    int64_t start_ns;
};

/* `arguments` is NULL-terminated and begins after the program's name. */
static void start(struct run *run, const char *const *arguments) {
    int ends[2];
    *run = (struct run){.start_ns = aorta_clock_ns()};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    run->pid = fork();
    if (run->pid == 0) {
        char *argv[32] = {(char[]){LAUNCH_HELPER}};
        for (int i = 0; arguments[i]; i++) argv[i + 1] = strdup(arguments[i]);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execv(LAUNCH_HELPER, argv);
        _exit(94);
    }
    close(ends[1]);
    run->output = ends[0];
}

/* Reads until `text` has come, or to the end when it is NULL. */
static void read_until(struct run *run, const char *text) {
    while (run->length < sizeof run->text - 1 && !(text && strstr(run->text, text))) {
        ssize_t got = read(run->output, run->text + run->length, sizeof run->text - 1 - run->length);
        if (got <= 0) break;
        run->length += (size_t)got;
    }
}

static void finish(struct run *run) {
    int status;
    read_until(run, NULL);
    close(run->output);
    assert_int_equal(waitpid(run->pid, &status, 0), run->pid);
    run->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    run->seconds = (double)(aorta_clock_ns() - run->start_ns) * 1e-9;
}

static void expect(const struct run *run, int exit_code, const char *const *parts) {
    for (int i = 0; parts[i]; i++)
        if (!strstr(run->text, parts[i])) fail_msg("no \"%s\" in:\n%s", parts[i], run->text);
    if (run->exit_code != exit_code) fail_msg("exit code %d, expected %d:\n%s", run->exit_code, exit_code, run->text);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void launch(struct run *run, const char *const *arguments) {
    start(run, arguments);
    finish(run);
}

static void expect_quiet_mpirun(const struct run *run) {
    if (strstr(run->text, "-----") || strstr(run->text, "mpirun")) fail_msg("mpirun's own words:\n%s", run->text);
}

static void test_contract(void **state) {
    (void)state;
    struct run run;
    launch(&run, WORDS("run", "2", "never", "0", LAUNCH_HELPER, "rank", "env"));
    expect(&run, 0,
           WORDS("rank=0/2 local=0/2 launcher=aorta launch master=127.0.0.1 mpi=0\n",
                 "rank=1/2 local=1/2 launcher=aorta launch master=127.0.0.1 mpi=0\n"));
    launch(&run, WORDS("run", "1", "auto", "0", LAUNCH_HELPER, "rank", "env"));
    expect(&run, 0, WORDS("rank=0/1 local=0/1 launcher=aorta launch master=127.0.0.1 mpi=0\n"));
    launch(&run, WORDS("run", "3", "always", "0", LAUNCH_HELPER, "rank", "env"));
    expect(&run, 0, WORDS("rank=0/3", "rank=1/3", "rank=2/3 local=2/3 launcher=aorta launch", "mpi=1"));
    expect_quiet_mpirun(&run);
}

static void test_output_in_a_file_has_no_escapes(void **state) {
    (void)state;
    struct run run;
    setenv("TERM", "xterm", 1);
    launch(&run, WORDS("run", "2", "always", "0", LAUNCH_HELPER, "rank", "terminal"));
    expect(&run, 0, WORDS("rank 0: escapes=0 width=0\n", "rank 1: escapes=0 width=0\n"));
}

/* Both ways of starting; `through` is "never" or "always". */
static void check_fail(const char *through) {
    struct run run;
    launch(&run, WORDS("run", "3", through, "0", LAUNCH_HELPER, "rank", "fail", "1"));
    expect(&run, 42,
           WORDS("rank 1 ended with exit status 42, in step 12; last operation, begun ",
                 " s before: counting sheep. The other ranks were ended."));
    assert_true(run.seconds < 10);
    expect_quiet_mpirun(&run);
}

/* The report names the rank that failed, not the one whose process ended first. */
static void test_fail_slowly(void **state) {
    (void)state;
    struct run run;
    launch(&run, WORDS("run", "3", "never", "0", LAUNCH_HELPER, "rank", "fail_slowly", "1"));
    expect(&run, 42, WORDS("aorta launch: rank 1 ended with exit status 42", "The other ranks were ended."));
}

static void test_fail(void **state) {
    (void)state;
    check_fail("never");
    check_fail("always");
}

/* A program that ends with 2 has reported a mistake before it began: it has no operation to report. */
static void test_ends_before_the_beginning(void **state) {
    (void)state;
    struct run run;
    launch(&run, WORDS("run", "2", "never", "0", "/bin/sh", "-c", "test $RANK = 0 && sleep 5; exit 2"));
    expect(&run, 2, WORDS("aorta launch: rank 1 ended with exit status 2. The other ranks were ended.\n"));
    launch(&run, WORDS("run", "1", "never", "0", "/bin/sh", "-c", "exit 3"));
    expect(&run, 3, WORDS("rank 0 ended with exit status 3; it had reported no operation.\n"));
}

static void check_kill(const char *through) {
    struct run run;
    launch(&run, WORDS("run", "2", through, "0", LAUNCH_HELPER, "rank", "kill", "1"));
    expect(&run, 137, WORDS("rank 1 was ended by signal 9 (Killed), in step 12; last operation", "counting sheep"));
    assert_true(run.seconds < 10);
    expect_quiet_mpirun(&run);
}

static void test_kill(void **state) {
    (void)state;
    check_kill("never");
    check_kill("always");
}

/* A rank fails while another is only about to run, which is ended at once all the same. */
static void test_failure_at_the_start(void **state) {
    (void)state;
    struct run run;
    setenv("LAUNCH_HELPER_GRACE", "20", 1); /* so that nobody is killed instead */
    for (int i = 0; i < 40; i++) {
        launch(&run, WORDS("run", "2", "never", "0", "/bin/sh", "-c", "[ $RANK = 0 ] && exit 3; exec sleep 4"));
        expect(&run, 3, WORDS("rank 0 ended with exit status 3"));
        if (run.seconds > 3) fail_msg("launch %d: the other rank ran on, %.1f s:\n%s", i, run.seconds, run.text);
    }
    unsetenv("LAUNCH_HELPER_GRACE");
}

/* A wrapper that starts long after another rank has failed. */
static void test_late_wrapper(void **state) {
    (void)state;
    struct run run;
    setenv("LAUNCH_HELPER_LATE", "1", 1);
    setenv("LAUNCH_HELPER_GRACE", "20", 1);
    launch(&run, WORDS("run", "2", "never", "0", "/bin/sh", "-c", "[ $RANK = 0 ] && exit 3; exec sleep 8"));
    unsetenv("LAUNCH_HELPER_LATE");
    unsetenv("LAUNCH_HELPER_GRACE");
    expect(&run, 3, WORDS("rank 0 ended with exit status 3"));
    if (run.seconds > 5) fail_msg("the other rank ran on, %.1f s:\n%s", run.seconds, run.text);
}

/* An mpirun that passes on its ranks' output once all have ended, and starts and ends slowly, as on a busy machine. */
static void test_failure_while_mpirun_starts(void **state) {
    static const char slow_mpirun[] = "#!/bin/sh\nranks=$2 rank=0\nshift 2\nwhile [ $rank -lt $ranks ]; do\n"
                                      "OMPI_COMM_WORLD_RANK=$rank \"$@\" 2>>\"$0.said\" & rank=$((rank+1)); sleep 0.3; "
                                      "done\nwait\nsleep 2.5\ncat \"$0.said\" >&2\n";
    char directory[] = "/tmp/aorta-launch-test-XXXXXX", program[64], path[4096];
    const char *former = getenv("PATH");
    char *before = strdup(former ? former : "");
    struct run run;
    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(program, sizeof program, "%s/mpirun.openmpi", directory);
    snprintf(path, sizeof path, "%s:%s", directory, before);
    FILE *file = fopen(program, "w");
    assert_true(file && fputs(slow_mpirun, file) >= 0 && fchmod(fileno(file), 0700) == 0 && fclose(file) == 0);
    setenv("PATH", path, 1);
    setenv("LAUNCH_HELPER_GRACE", "0.1", 1);
    launch(&run, WORDS("run", "9", "always", "0", "/bin/sh", "-c", "echo rank $RANK is out of luck >&2; exit 3"));
    unsetenv("LAUNCH_HELPER_GRACE");
    setenv("PATH", before, 1);
    free(before);
    unlink(program);
    unlink(strcat(program, ".said"));
    rmdir(directory);
    expect(&run, 3, WORDS("rank 0 is out of luck\n", "aorta launch: rank 0 ended with exit status 3"));
}

static void test_timeout(void **state) {
    (void)state;
    struct run run;
    launch(&run, WORDS("run", "2", "never", "0.5", LAUNCH_HELPER, "rank", "hang"));
    expect(&run, 1, WORDS("did not end within 0.5 s", "rank 0, in step 12", "rank 1, in step 12", "waiting for Godot"));
    assert_true(run.seconds < 10);
}

static void check_interrupt(const char *through) {
    struct run run;
    start(&run, WORDS("run", "2", through, "0", LAUNCH_HELPER, "rank", "interrupt"));
    read_until(&run, "is ready");
    usleep(300000); /* the other one, too */
    kill(run.pid, SIGINT);
    finish(&run);
    expect(&run, 1,
           WORDS("rank 0 was interrupted by 2", "rank 1 was interrupted by 2",
                 "aorta launch: interrupted; the ranks ended with exit status 1.\n"));
    assert_null(strstr(run.text, "last operation"));
    assert_true(run.seconds < 10);
    expect_quiet_mpirun(&run);
}

static void test_interrupt(void **state) {
    (void)state;
    check_interrupt("never");
    check_interrupt("always");
}

/* The ranks do not react to signals: the second one ends them. */
static void test_second_interrupt(void **state) {
    (void)state;
    struct run run;
    start(&run, WORDS("run", "1", "never", "0", "/bin/sh", "-c",
                      "trap '' INT TERM; echo is ready; while :; do sleep 1; done"));
    read_until(&run, "is ready");
    kill(run.pid, SIGINT);
    usleep(200000);
    kill(run.pid, SIGINT);
    finish(&run);
    assert_true(run.exit_code != 0);
    assert_true(run.seconds < 10);
}

static void test_collectives(void **state) {
    (void)state;
    struct run run;
    launch(&run, WORDS("run", "2", "auto", "0", LAUNCH_HELPER, "rank", "reduce", "-1"));
    expect(&run, 0, WORDS(""));
    assert_string_equal(run.text, "");
    launch(&run, WORDS("run", "4", "auto", "0", LAUNCH_HELPER, "rank", "reduce", "-1"));
    expect(&run, 0, WORDS(""));
    launch(&run, WORDS("run", "2", "never", "0", LAUNCH_HELPER, "rank", "reduce", "-1"));
    expect(&run, 1, WORDS("`aorta launch -n 2 -- aorta …`", "`mpirun -n 2 aorta …`"));
}

/* A rank dies in the middle of the job while the other ranks wait for it in a collective. */
static void test_kill_in_collective(void **state) {
    (void)state;
    struct run run;
    launch(&run, WORDS("run", "3", "auto", "0", LAUNCH_HELPER, "rank", "reduce", "1"));
    expect(&run, 137,
           WORDS("rank 1 was ended by signal 9 (Killed); last operation, begun 0.",
                 "all_reduce #20 of 3 ranks, 4000 bytes. The other ranks were ended."));
    assert_true(run.seconds < 10);
    expect_quiet_mpirun(&run);
}

static void test_abort(void **state) {
    (void)state;
    struct run run;
    launch(&run, WORDS("run", "2", "auto", "0", LAUNCH_HELPER, "rank", "abort", "1"));
    expect(&run, 7, WORDS("rank 1 ended with exit status 7", "giving up"));
    assert_true(run.seconds < 10);
    expect_quiet_mpirun(&run);
}

static void test_mistakes(void **state) {
    (void)state;
    struct run run;
    launch(&run, WORDS("run", "0", "auto", "0", LAUNCH_HELPER, "rank", "env"));
    expect(&run, 2, WORDS("-n 0: at least one rank"));
    launch(&run, WORDS("run", "2", "auto", "0", "no-such-program-anywhere"));
    expect(&run, 2, WORDS("no-such-program-anywhere: no such program in PATH"));
    launch(&run, WORDS("run", "2", "auto", "0", "/etc/passwd"));
    expect(&run, 2, WORDS("/etc/passwd: no such program"));
    launch(&run, WORDS("launch", "--rank-exec", "--", "true"));
    expect(&run, 2, WORDS("--rank-exec is for `aorta launch` itself"));
}

/* Without mpirun in PATH: "auto" starts the ranks itself, "always" says what to install. */
static void test_without_mpirun(void **state) {
    (void)state;
    const char *former = getenv("PATH");
    char *path = strdup(former ? former : "");
    struct run run;
    setenv("PATH", "/nonexistent", 1);
    launch(&run, WORDS("run", "2", "auto", "0", LAUNCH_HELPER, "rank", "env"));
    expect(&run, 0, WORDS("rank=1/2", "mpi=0"));
    launch(&run, WORDS("run", "2", "always", "0", LAUNCH_HELPER, "rank", "env"));
    expect(&run, 1, WORDS("mpirun is not in PATH"));
    setenv("PATH", path, 1);
    free(path);
}

/* It goes on before the launcher knows of the failure, as mpirun lets it. */
static void test_stopped_rank(void **state) {
    (void)state;
    char script[512], file[] = "/tmp/aorta-launch-test-XXXXXX";
    close(mkstemp(file));
    const char *const waits[] = {"1.5", "6"};
    for (int i = 0; i < 2; i++) {
        struct run run;
        snprintf(script, sizeof script,
                 "if test $RANK = 1; then echo $$ >%s; kill -STOP $$; exec sleep 60; fi;"
                 "sleep 1.8; kill -CONT $(cat %s); sleep %s; exit 3",
                 file, file, waits[i]);
        launch(&run, WORDS("run", "2", "never", "0", "/bin/sh", "-c", script));
        expect(&run, 3, WORDS("rank 0 ended with exit status 3"));
        const char *named =
            strstr(run.text, " was stopped (SIGSTOP, or a debugger), and the other ranks waited for it");
        if ((named != NULL) != (i == 0))
            fail_msg("after %s s:\n%s", waits[i], run.text); /* long ago it does not matter */
        assert_true(!named || strstr(run.text, "aorta launch: rank 1 (process "));
    }
    unlink(file);
}

/* No file stays in the temporary directory, for any working directory of the process that names it. */
static void check_cleans_up(const char *through) {
    char directory[] = "aorta-launch-test-XXXXXX", former[PATH_MAX];
    assert_non_null(getcwd(former, sizeof former));
    assert_int_equal(chdir("/tmp"), 0);
    assert_non_null(mkdtemp(directory));
    setenv("TMPDIR", directory, 1);
    struct run run;
    launch(&run, WORDS("run", "2", through, "0", LAUNCH_HELPER, "rank", "fail", "0"));
    unsetenv("TMPDIR");
    expect(&run, 42, WORDS("rank 0 ended with exit status 42"));
    if (strstr(run.text, "ERROR") || strstr(run.text, "CANNOT")) fail_msg("Open MPI's words:\n%s", run.text);
    assert_int_equal(rmdir(directory), 0); /* fails unless empty */
    assert_int_equal(chdir(former), 0);
}

static void test_cleans_up(void **state) {
    (void)state;
    check_cleans_up("never");
    check_cleans_up("always");
}

/* ---- messages when something other than a rank ends ---- */

static void check_lost(const char *through) {
    struct run run;
    start(&run, WORDS("run", "2", through, "0", "/bin/sh", "-c",
                      "test $RANK = 1 && sleep 0.3 && kill -KILL $PPID; exec sleep 20"));
    finish(&run);
    expect(&run, run.exit_code,
           WORDS("aorta launch: rank 1 was lost: its wrapper (process ", "The other ranks were ended."));
    assert_true(run.exit_code != 0 && run.seconds < 10);
    assert_null(strstr(run.text, "rank 0"));
    expect_quiet_mpirun(&run);
}

static void test_killed_wrapper(void **state) {
    (void)state;
    check_lost("never");
    check_lost("always");
}

/* From then on the launcher passes signals on. */
static void await_child(const struct run *run) {
    char path[64], children[16] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)run->pid, (int)run->pid);
    for (int i = 0; i < 2000 && !children[0]; i++) {
        FILE *file = fopen(path, "r");
        if (!file || !fgets(children, sizeof children, file)) usleep(5000);
        if (file) fclose(file);
    }
}

/* No rank is named: none has failed, and which one ran first is chance. */
static void check_early_interrupt(const char *through, int signal, int delay_us) {
    struct run run;
    start(&run, WORDS("run", "2", through, "0", "/bin/sh", "-c", "exec sleep 20"));
    await_child(&run);
    usleep((useconds_t)delay_us);
    kill(run.pid, signal);
    finish(&run);
    expect(&run, run.exit_code, WORDS("aorta launch: interrupted"));
    assert_true(run.exit_code != 0 && run.seconds < 10);
    if (strstr(run.text, "rank 0") || strstr(run.text, "rank 1")) fail_msg("after %d us:\n%s", delay_us, run.text);
    expect_quiet_mpirun(&run);
}

static void test_early_interrupt(void **state) {
    (void)state;
    for (int delay_us = 0; delay_us < 200000; delay_us += 50000) check_early_interrupt("always", SIGINT, delay_us);
    check_early_interrupt("never", SIGTERM, 0);
}

/* The ranks finish their iteration at the first one, and end at the second. */
static void test_two_terminations(void **state) {
    (void)state;
    struct run run;
    start(&run, WORDS("run", "2", "always", "0", "/bin/sh", "-c",
                      "trap 'trap - TERM' TERM; echo is ready; while :; do sleep 0.1; done"));
    read_until(&run, "is ready");
    usleep(300000);
    for (int i = 0; i < 2; i++) {
        kill(run.pid, SIGTERM);
        usleep(300000);
    }
    finish(&run);
    expect(&run, 143, WORDS("aorta launch: interrupted; the ranks were ended by signal 15 (Terminated).\n"));
    assert_null(strstr(run.text, "rank 0"));
}

/* ---- what mpirun needs ---- */

static void test_open_files(void **state) {
    (void)state;
    struct run run;
    struct rlimit before, few = {24, 24};
    getrlimit(RLIMIT_NOFILE, &before);
    pid_t pid = fork();
    if (pid == 0) { /* the hard limit never comes back */
        setrlimit(RLIMIT_NOFILE, &few);
        launch(&run, WORDS("run", "2", "always", "0", "/bin/true"));
        expect(&run, 1, WORDS("mpirun needs 52 open files for 2 ranks, and this process may have 24", "ulimit -n 52"));
        _exit(run.seconds < 5 ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    few.rlim_max = before.rlim_max; /* as setrlimit allows a process */
    setrlimit(RLIMIT_NOFILE, &few);
    launch(&run, WORDS("run", "2", "always", "0", "/bin/true"));
    setrlimit(RLIMIT_NOFILE, &before);
    expect(&run, 0, WORDS(""));
}

/* The segments of two ranks have 4 MiB each. */
static void test_small_shared_memory(void **state) {
    (void)state;
    struct run run;
    launch(&run, WORDS("run", "1", "never", "0", "/usr/bin/unshare", "-m", "/bin/sh", "-c",
                       "mount -t tmpfs -o size=1m tmpfs /dev/shm"));
    if (run.exit_code) skip(); /* no rights */
    start(&run, WORDS("run", "1", "never", "0", "/usr/bin/unshare", "-m", "/bin/sh", "-c",
                      "unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE; mount -t tmpfs -o size=1m tmpfs /dev/shm && "
                      "exec \"$0\" run 2 always 0 \"$0\" rank reduce -1",
                      LAUNCH_HELPER));
    finish(&run);
    expect(&run, 0, WORDS(""));
    assert_string_equal(run.text, "");
}

/* Nothing can be written there, as where it is not mounted. */
static void test_no_shared_memory(void **state) {
    (void)state;
    struct run run;
    launch(&run, WORDS("run", "1", "never", "0", "/usr/bin/unshare", "-m", "/bin/sh", "-c",
                       "mount -t tmpfs -o ro tmpfs /dev/shm"));
    if (run.exit_code) skip(); /* no rights */
    start(&run, WORDS("run", "1", "never", "0", "/usr/bin/unshare", "-m", "/bin/sh", "-c",
                      "unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE; mount -t tmpfs -o ro tmpfs /dev/shm && "
                      "exec \"$0\" run 2 always 0 \"$0\" rank reduce -1",
                      LAUNCH_HELPER));
    finish(&run);
    expect(&run, 0, WORDS(""));
    assert_string_equal(run.text, "");
}

/* mpirun's remaining shared memory is removed with the folder that it was given. */
static void test_shared_memory_goes(void **state) {
    (void)state;
    struct run run;
    char path[256] = "";
    static const char script[] = "touch $OMPI_MCA_btl_vader_backing_directory/vader_segment.$RANK && "
                                 "echo in $OMPI_MCA_btl_vader_backing_directory";
    launch(&run, WORDS("run", "2", "always", "0", "/bin/sh", "-c", script));
    expect(&run, 0, WORDS("in /dev/shm/aorta-launch-"));
    assert_int_equal(sscanf(strstr(run.text, "in /dev/shm"), "in %255s", path), 1);
    assert_int_equal(access(path, F_OK), -1);
}

/* ---- what killed launchers leave ---- */

static char *path_in(const char *directory, const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void make_left(const char *parent, const char *name, int age_s) {
    char directory[200];
    snprintf(directory, sizeof directory, "%s/%s", parent, name);
    assert_int_equal(mkdir(directory, 0700), 0);
    close(open(path_in(directory, "beacon"), O_CREAT | O_WRONLY, 0600));
    assert_int_equal(mkdir(path_in(directory, "ompi"), 0700), 0);
    close(open(path_in(directory, "ompi/contact"), O_CREAT | O_WRONLY, 0600));
    assert_int_equal(symlink("../../..", path_in(directory, "ompi/up")), 0);
    const struct timespec then = {.tv_sec = time(NULL) - age_s}, times[] = {then, then};
    assert_int_equal(utimensat(AT_FDCWD, directory, times, 0), 0);
}

static int entries(const char *path) {
    DIR *list = opendir(path);
    assert_non_null(list);
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(list));) count += entry->d_name[0] != '.';
    closedir(list);
    return count;
}

/* A signal comes while the launcher says what happened: nobody reads, so that it waits there.
 *
 *   rank       fills the pipe, exit 3
 *   launcher                   "aorta launch: rank 0 …" waits -> SIGTERM -> the pipe is read -> ends
 */
static void test_signal_while_reporting(void **state) {
    (void)state;
    char parent[] = "/tmp/aorta-launch-test-XXXXXX", scrap[4096];
    assert_non_null(mkdtemp(parent));
    setenv("TMPDIR", parent, 1);
    struct run run;
    start(&run, WORDS("run", "1", "never", "0", "/bin/sh", "-c", "head -c 65536 /dev/zero; exit 3"));
    unsetenv("TMPDIR");
    for (int filled = 0; filled < 65536; usleep(10000)) assert_int_equal(ioctl(run.output, FIONREAD, &filled), 0);
    usleep(300000);
    assert_int_equal(entries(parent), 1);
    kill(run.pid, SIGTERM);
    usleep(50000);
    for (int rest = 65536; rest > 0;) rest -= (int)read(run.output, scrap, sizeof scrap);
    finish(&run);
    expect(&run, 128 + SIGTERM, WORDS("rank 0 ended with exit status 3"));
    assert_int_equal(entries(parent), 0);
    assert_int_equal(rmdir(parent), 0);
}

/* Open MPI waits for the end of a message on any connection to its port: its ranks have ended, it has not. */
static void test_stuck_mpirun(void **state) {
    (void)state;
    static const char script[] = "#!/bin/sh\nshift 2\nOMPI_COMM_WORLD_RANK=0 \"$@\"\nexec sleep 60\n";
    char folder[] = "/tmp/aorta-mpirun-XXXXXX", *path;
    assert_non_null(mkdtemp(folder));
    int file = open(path_in(folder, "mpirun.openmpi"), O_CREAT | O_WRONLY | O_CLOEXEC, 0700);
    assert_int_equal(write(file, script, sizeof script - 1), sizeof script - 1);
    close(file);
    const char *former = getenv("PATH");
    if (!former) former = "";
    char *before = strdup(former);
    assert_true(asprintf(&path, "%s:%s", folder, former) > 0);
    setenv("PATH", path, 1);
    struct run run;
    launch(&run, WORDS("run", "1", "always", "0", LAUNCH_HELPER, "rank", "env"));
    setenv("PATH", before, 1);
    free(path);
    free(before);
    expect(&run, 0, WORDS("rank=0/1", "all ranks have ended and mpirun did not"));
    assert_true(run.seconds < 40);
    assert_int_equal(unlink(path_in(folder, "mpirun.openmpi")), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void test_sweep(void **state) {
    (void)state;
    char parent[] = "/tmp/aorta-launch-test-XXXXXX", elsewhere[] = "/tmp/aorta-launch-test-XXXXXX";
    assert_non_null(mkdtemp(parent));
    assert_non_null(mkdtemp(elsewhere));
    close(open(path_in(elsewhere, "mine"), O_CREAT | O_WRONLY, 0600));
    make_left(parent, "aorta-launch-killed", 100);
    make_left(parent, "aorta-launch-young", 0);
    make_left(parent, "aorta-launch-lives", 100);
    assert_int_equal(symlink(elsewhere, path_in(parent, "aorta-launch-link")), 0);
    int lock = open(path_in(parent, "aorta-launch-lives"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    setenv("TMPDIR", parent, 1);
    struct run run;
    launch(&run, WORDS("run", "1", "never", "0", "/bin/true"));
    unsetenv("TMPDIR");
    close(lock);
    expect(&run, 0, WORDS(""));
    assert_int_equal(access(path_in(parent, "aorta-launch-killed"), F_OK), -1);
    assert_int_equal(access(path_in(elsewhere, "mine"), F_OK), 0);
    assert_int_equal(access(path_in(parent, "aorta-launch-young/ompi/contact"), F_OK), 0);
    assert_int_equal(access(path_in(parent, "aorta-launch-lives/ompi/contact"), F_OK), 0);
    assert_int_equal(folder_remove(parent), 0);
    assert_int_equal(access(path_in(elsewhere, "mine"), F_OK), 0);
    assert_int_equal(folder_remove(elsewhere), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contract),
        cmocka_unit_test(test_output_in_a_file_has_no_escapes),
        cmocka_unit_test(test_fail),
        cmocka_unit_test(test_fail_slowly),
        cmocka_unit_test(test_ends_before_the_beginning),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_failure_at_the_start),
        cmocka_unit_test(test_late_wrapper),
        cmocka_unit_test(test_failure_while_mpirun_starts),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_second_interrupt),
        cmocka_unit_test(test_collectives),
        cmocka_unit_test(test_kill_in_collective),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_without_mpirun),
        cmocka_unit_test(test_stopped_rank),
        cmocka_unit_test(test_cleans_up),
        cmocka_unit_test(test_killed_wrapper),
        cmocka_unit_test(test_early_interrupt),
        cmocka_unit_test(test_two_terminations),
        cmocka_unit_test(test_open_files),
        cmocka_unit_test(test_small_shared_memory),
        cmocka_unit_test(test_no_shared_memory),
        cmocka_unit_test(test_shared_memory_goes),
        cmocka_unit_test(test_signal_while_reporting),
        cmocka_unit_test(test_stuck_mpirun),
        cmocka_unit_test(test_sweep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
