#include "record/run.h"

#include "base/clock.h"
#include "measure/machine.h"
#include "record/inject/settings.h"

#include <errno.h>
#include <glob.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_NS = 100000000, LOOKS_AT_FIRST = 20, LOOK_EVERY = 20 };

static const int passed_on[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGQUIT};

static _Noreturn void become(const struct aorta_trace_run_options *options, const sigset_t *mask) {
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* should this process be killed */
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (options->output_to_error) dup2(STDERR_FILENO, STDOUT_FILENO);
    for (size_t i = 0; i < options->variable_count; i++)
        setenv(options->variables[i].name, options->variables[i].value, 1);
    execvp(options->command[0], options->command);
    int error = errno;
    fprintf(stderr, "aorta trace run: %s: %s\n", options->command[0], strerror(error));
    _exit(error == ENOENT ? 127 : 126); /* as shells do */
}

static bool any_spool(const char *directory) {
    char pattern[4096];
    static const char *const levels[] = {"", "window-*/"};
    bool any = false;
    for (size_t i = 0; i < sizeof levels / sizeof *levels && !any; i++) {
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s/%s*" AORTA_SPOOL_SUFFIX, directory, levels[i]);
        any = glob(pattern, GLOB_NOSORT, NULL, &found) == 0;
        globfree(&found);
    }
    return any;
}

/* Often at first, for short programs, then seldom; no more once something is recorded. */
static void watch(const struct aorta_trace_run_options *options, pid_t child, int round,
                  struct aorta_cuda_search *search) {
    if (!options->spools || search->driver_pid) return;
    if (round > LOOKS_AT_FIRST && round % LOOK_EVERY) return;
    if (!any_spool(options->spools)) aorta_cuda_search_look(search, child, AORTA_INJECT_DIRECTORY);
}

static void pass_on(pid_t child, const siginfo_t *info) {
    bool terminals = (info->si_signo == SIGINT || info->si_signo == SIGQUIT) && info->si_code == SI_KERNEL;
    if (info->si_signo != SIGCHLD && !terminals) kill(child, info->si_signo);
}

/* Processor seconds of those that have ended and been waited for, and of theirs. */
static double children_s(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_CHILDREN, &usage)) return NAN;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static aorta_status wait_for(const struct aorta_trace_run_options *options, pid_t child, const sigset_t *watched,
                             struct aorta_machine_watch *machine, struct aorta_trace_run_result *result) {
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    int wait_status = 0;
    pid_t ended = 0;
    for (int round = 0; ended == 0; round++) {
        siginfo_t info;
        if (sigtimedwait(watched, &info, &pause) > 0) pass_on(child, &info);
        ended = waitpid(child, &wait_status, WNOHANG);
        if (ended == 0) watch(options, child, round, &result->search);
        if (ended == 0) aorta_machine_watch_look(machine);
    }
    if (ended < 0) return AORTA_ERROR(AORTA_INTERNAL, "waitpid: %s", strerror(errno));
    result->signal = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
    result->exit_code = result->signal ? 128 + result->signal : WEXITSTATUS(wait_status);
    return NULL;
}

/* If the machine's readings cannot be written, the recording still goes on. */
static aorta_status wait_watching(const struct aorta_trace_run_options *options, pid_t child, const sigset_t *watched,
                                  struct aorta_trace_run_result *result) {
    struct aorta_machine_watch *machine = NULL;
    const double before_s = children_s();
    aorta_status unwatched =
        options->machine ? aorta_machine_watch_open(options->machine, child, true, &machine) : NULL;
    if (unwatched)
        fprintf(stderr, "aorta trace run: the machine is not watched: %s\n", aorta_status_message(unwatched));
    aorta_status_free(unwatched);
    aorta_status status = wait_for(options, child, watched, machine, result);
    aorta_machine_watch_close(machine, status ? NAN : children_s() - before_s);
    return status;
}

aorta_status aorta_trace_run_program(const struct aorta_trace_run_options *options,
                                     struct aorta_trace_run_result *result) {
    sigset_t watched, former;
    *result = (struct aorta_trace_run_result){0};
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++) sigaddset(&watched, passed_on[i]);
    int64_t start_ns = aorta_clock_ns();
    fflush(NULL);
    sigprocmask(SIG_BLOCK, &watched, &former);
    pid_t child = fork();
    if (child == 0) become(options, &former);
    aorta_status status = NULL, started = NULL;
    if (child < 0) {
        status = AORTA_ERROR(AORTA_IO, "cannot start %s: %s", options->command[0], strerror(errno));
    } else {
        if (options->started) started = options->started(options->user);
        status = wait_watching(options, child, &watched, result);
    }
    if (started && !status)
        status = started;
    else
        aorta_status_free(started);
    sigprocmask(SIG_SETMASK, &former, NULL);
    result->seconds = (double)(aorta_clock_ns() - start_ns) * 1e-9;
    return status;
}
