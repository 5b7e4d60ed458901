#include "sweep/process.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double grace_s = 5;
static const struct timespec pause_time = {.tv_nsec = 100000000};

struct aorta_sweep_signals {
    sigset_t watched, former;
};

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};

aorta_status aorta_sweep_signals_begin(struct aorta_sweep_signals **result) {
    struct aorta_sweep_signals *signals = calloc(1, sizeof *signals);
    if (!signals) return AORTA_ERROR(AORTA_MEMORY, "no memory for the signals of a sweep");
    sigemptyset(&signals->watched);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) sigaddset(&signals->watched, ending[i]);
    sigaddset(&signals->watched, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals->watched, &signals->former);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* what a trial leaves behind becomes our child */
    *result = signals;
    return NULL;
}

void aorta_sweep_signals_end(struct aorta_sweep_signals *signals) {
    if (!signals) return;
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    sigprocmask(SIG_SETMASK, &signals->former, NULL);
    free(signals);
}

/* ---- the child ---- */

static _Noreturn void become(const struct aorta_sweep_signals *signals, const struct aorta_sweep_process *process,
                             pid_t parent) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* should the sweep be killed */
    if (getppid() != parent) _exit(127);
    sigprocmask(SIG_SETMASK, &signals->former, NULL);
    if (process->work) {
        process->work(process->user);
        _exit(0);
    }
    int null = open("/dev/null", O_RDONLY), log = open(process->log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    if (null >= 0) dup2(null, STDIN_FILENO);
    if (log >= 0) {
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
        close(log);
    }
    for (int i = 0; i < process->variable_count; i++) {
        const struct aorta_sweep_variable *variable = &process->variables[i];
        if (variable->value)
            setenv(variable->name, variable->value, 1);
        else
            unsetenv(variable->name);
    }
    execvp(process->command[0], process->command);
    fprintf(stderr, "aorta sweep: %s: %s\n", process->command[0], strerror(errno));
    _exit(127);
}

/* ---- its end ---- */

/* Kills all children of this process: children of the trial's dead processes are ours, too. */
static int kill_children(void) {
    char path[64];
    int pid, killed = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    while (fscanf(file, "%d", &pid) == 1) killed += kill(pid, SIGKILL) == 0;
    fclose(file);
    return killed;
}

static void end_descendants(pid_t group) {
    const int64_t until_ns = aorta_clock_ns() + (int64_t)(grace_s * 1e9);
    kill(-group, SIGKILL);
    while (aorta_clock_ns() < until_ns) {
        int killed = kill_children();
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        if (!killed) return;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

static double seconds_since(int64_t start_ns) {
    return (double)(aorta_clock_ns() - start_ns) / 1e9;
}

int aorta_sweep_signals_wait(const struct aorta_sweep_signals *signals) {
    int signal = sigtimedwait(&signals->watched, NULL, &pause_time);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        if (signal == ending[i]) return signal;
    return 0;
}

/* SIGTERM, once more, SIGKILL: a launcher ends its ranks at once after the second, and cleans up after them, which
 * nobody does for one that is killed. */
static void watch(const struct aorta_sweep_signals *signals, const struct aorta_sweep_process *process, pid_t child,
                  struct aorta_sweep_end *end) {
    const int64_t start_ns = aorta_clock_ns();
    double sent_s = 0;
    int sent = 0, wait_status = 0;
    while (waitpid(child, &wait_status, WNOHANG) != child) {
        const int signal = aorta_sweep_signals_wait(signals);
        end->seconds = seconds_since(start_ns);
        if (signal) end->interrupted = signal;
        const bool late =
            sent ? end->seconds > sent_s + grace_s : process->timeout_s > 0 && end->seconds > process->timeout_s;
        if (!late && !signal) continue;
        if (!sent) end->timed_out = !signal;
        kill(-child, sent < 2 ? SIGTERM : SIGKILL);
        sent++;
        sent_s = end->seconds;
    }
    end->seconds = seconds_since(start_ns);
    end->exit_code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
    end->signal = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
}

aorta_status aorta_sweep_process_run(const struct aorta_sweep_signals *signals,
                                     const struct aorta_sweep_process *process, struct aorta_sweep_end *end) {
    *end = (struct aorta_sweep_end){0};
    const pid_t self = getpid(), child = fork();
    if (child == 0) become(signals, process, self);
    if (child < 0)
        return AORTA_ERROR(AORTA_IO, "cannot start %s: %s", process->work ? "a process" : process->command[0],
                           strerror(errno));
    setpgid(child, child); /* as the child does: either may be first */
    watch(signals, process, child, end);
    end_descendants(child);
    return NULL;
}
