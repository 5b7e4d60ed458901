/* `aorta launch`: starts the ranks, watches them, and ends the job when one fails. */
#include "job/launch_internal.h"

#include "base/clock.h"
#include "job/mpirun.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_NS 50000000 /* between two checks of the ranks */
/* After an interrupt the ranks finish their iteration and their files; the time that remaining ranks may take after the
 * first. */
#define INTERRUPT_GRACE_S 30.0
/* Beyond the ranks' own timeout: those that wait report it first, in more detail. */
#define STOPPED_SLACK_NS (2 * (int64_t)STATE_NS)
#define KILL_NS 10000000000      /* from the ranks' SIGKILL to that of mpirun, which takes some seconds to clean up */
#define STUCK_NS 10000000000     /* from the end of the last rank to that of mpirun, which cleans up meanwhile */
#define STUCK_KILL_NS 2000000000 /* from its SIGTERM to its SIGKILL */
#define STOPPED_GRACE_S 1.0      /* the other ranks only wait for it */

/* ---- starting ---- */

static void set_number(const char *name, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void set_environment(const struct job *job, int rank) {
    aorta_foreign_ranks_clear();
    setenv("AORTA_STATE_DIR", job->directory.path, 1);
    setenv("AORTA_RUN_TOKEN", job->token, 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_number("MASTER_PORT", job->port);
    set_number("WORLD_SIZE", job->options->ranks);
    set_number("LOCAL_WORLD_SIZE", job->options->ranks);
    if (job->mpirun[0])
        aorta_mpirun_environment(job->directory.path, job->shared.path);
    else
        set_number("AORTA_LAUNCH_RANK", rank);
}

/* The arguments of a child: `[mpirun -n N] self launch --rank-exec -- COMMAND…`. */
static char **child_arguments(struct job *job, char number[16]) {
    static char n[] = "-n", launch[] = "launch", rank_exec[] = "--rank-exec", dashes[] = "--";
    size_t length = 0, at = 0;
    while (job->options->command[length]) length++;
    char **arguments = calloc(length + 8, sizeof *arguments);
    if (!arguments) return NULL;
    snprintf(number, 16, "%d", job->options->ranks);
    if (job->mpirun[0]) {
        arguments[at++] = job->mpirun;
        arguments[at++] = n;
        arguments[at++] = number;
    }
    arguments[at++] = (char *)job->options->self;
    arguments[at++] = launch;
    arguments[at++] = rank_exec;
    arguments[at++] = dashes;
    memcpy(arguments + at, job->options->command, length * sizeof *arguments);
    return arguments;
}

static _Noreturn void become_child(struct job *job, int rank, char **arguments) {
    setpgid(0, 0);                    /* Ctrl-C reaches the launcher alone, which passes it on */
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* should the launcher be killed */
    sigprocmask(SIG_SETMASK, &job->former_mask, NULL);
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, STDIN_FILENO); /* this group may not read the terminal */
    set_environment(job, rank);
    execv(arguments[0], arguments);
    fprintf(stderr, "aorta launch: %s: %s\n", arguments[0], strerror(errno));
    _exit(127);
}

static aorta_status start_children(struct job *job) {
    char number[16];
    char **arguments = child_arguments(job, number);
    if (!arguments) return AORTA_ERROR(AORTA_MEMORY, "out of memory for the arguments of the ranks");
    aorta_status status = NULL;
    for (int i = 0; i < job->child_count && !status; i++) {
        pid_t pid = fork();
        if (pid == 0) become_child(job, i, arguments);
        if (pid < 0)
            status = AORTA_ERROR(AORTA_IO, "cannot start rank %d: %s", i, strerror(errno));
        else
            job->children[i] = pid;
    }
    free(arguments);
    return status;
}

/* ---- watching ---- */

static void signal_children(const struct job *job, int signal) {
    for (int i = 0; i < job->child_count; i++)
        if (job->children[i]) kill(job->children[i], signal);
}

/* A letter, '\0' for no process. proc(5): the state follows the name, which stands in parentheses and may hold some
 * itself. */
static char process_state(pid_t pid) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file) return '\0';
    size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = '\0';
    const char *name_end = strrchr(line, ')');
    return name_end && name_end[1] == ' ' ? name_end[2] : '\0';
}

static bool is_stopped(pid_t pid) {
    char state = process_state(pid);
    return state == 'T' || state == 't'; /* 't': by its debugger */
}

/* A stopped rank reacts to nothing else before it goes on. False: the rank has not started yet. */
static bool signal_rank(const struct job *job, int rank) {
    struct aorta_beacon_state state;
    aorta_beacon_read(job->beacons[rank], &state);
    if (!state.pid || state.ended) return state.pid;
    kill(-state.group, job->signal);
    /* Not to every rank: SIGCONT undoes the attaching of a debugger, or of a leak checker. */
    if (process_state(state.pid) == 'T' || process_state(state.group) == 'T') kill(-state.group, SIGCONT);
    return true;
}

/* Ranks that start later get the signal then. How many got it now. */
static int signal_missed_ranks(struct job *job) {
    int count = 0;
    for (int rank = 0; rank < job->options->ranks; rank++) {
        if (job->notified[rank] || !signal_rank(job, rank)) continue;
        job->notified[rank] = true;
        count++;
    }
    return count;
}

/* False: a rank has not started yet. */
static bool signal_ranks(struct job *job, int signal) {
    job->signal = signal;
    memset(job->notified, 0, (size_t)job->options->ranks * sizeof *job->notified);
    return signal_missed_ranks(job) == job->options->ranks;
}

/* Wrappers ignore the signal once they run; before that, and for mpirun, it ends the start itself. */
static void signal_start(struct job *job, int signal) {
    if (!signal_ranks(job, signal)) signal_children(job, signal);
}

static bool any_left(const struct job *job) {
    for (int i = 0; i < job->child_count; i++)
        if (job->children[i]) return true;
    return false;
}

static void reap(struct job *job) {
    for (int i = 0; i < job->child_count; i++) {
        int wait_status;
        if (!job->children[i] || waitpid(job->children[i], &wait_status, WNOHANG) != job->children[i]) continue;
        job->children[i] = 0;
        if (!job->child_failure) job->child_failure = job_exit_code(wait_status);
    }
}

/* Signals only the ranks: mpirun, ended while it starts the remaining ranks, would lose the output of the failed ones.
 */
static void end_job(struct job *job, int signal, double grace_s) {
    if (signal) (void)signal_ranks(job, signal);
    job->kill_at_ns = aorta_clock_ns() + (int64_t)(grace_s * 1e9);
}

/* First the ranks, so that mpirun can clean up after them; the next time its children as well. */
static void kill_job(struct job *job) {
    (void)signal_ranks(job, SIGKILL);
    if (job->kills++) signal_children(job, SIGKILL);
    job->kill_at_ns = aorta_clock_ns() + KILL_NS;
}

/* As long as ranks go on to start, mpirun has more time. */
static void signal_late_ranks(struct job *job) {
    if (!signal_missed_ranks(job) || !job->kills) return;
    job->kill_at_ns = aorta_clock_ns() + KILL_NS;
}

static void on_signal(struct job *job, int signal) {
    if (signal == SIGCHLD) return;
    signal_start(job, signal);
    if (!job->signals) job->signal_ns = aorta_clock_ns();
    if (++job->signals == 2) end_job(job, SIGTERM, job->options->grace_s);
}

/* Finds a stopped process: a rank that other ranks may wait for, its wrapper, or mpirun. */
static bool find_stopped(const struct job *job, struct stop *found) {
    for (int rank = 0; rank < job->options->ranks; rank++) {
        struct aorta_beacon_state state;
        aorta_beacon_read(job->beacons[rank], &state);
        if (!state.group || state.ended) continue;
        const bool command = state.pid && is_stopped(state.pid);
        *found = (struct stop){.rank = rank, .wrapper = !command, .pid = command ? state.pid : state.group};
        if (command || is_stopped(state.group)) return true; /* a wrapper leads its group */
    }
    *found = (struct stop){.rank = -1, .pid = job->children[0]};
    return job->mpirun[0] && job->children[0] && is_stopped(job->children[0]);
}

/* The longest that a rank waits for its peers; 0: none has reported it. */
static int64_t longest_wait_ns(const struct job *job) {
    int64_t longest = 0;
    for (int rank = 0; rank < job->options->ranks; rank++) {
        struct aorta_beacon_state state;
        aorta_beacon_read(job->beacons[rank], &state);
        if (state.timeout_ns > longest) longest = state.timeout_ns;
    }
    return longest;
}

/* Ranks that wait for a stopped one end after their timeout. If no rank waits for it, in no collective or no longer,
 * the job would never end. */
static void check_stopped(struct job *job) {
    struct stop found;
    const int64_t now_ns = aorta_clock_ns(), limit_ns = longest_wait_ns(job);
    if (!find_stopped(job, &found)) {
        job->stop.since_ns = 0;
        return;
    }
    if (found.pid != job->stop.pid || !job->stop.since_ns) {
        job->stop = found;
        job->stop.since_ns = now_ns;
    }
    job->stop.seen_ns = now_ns;
    if (now_ns - job->stop.since_ns > STATE_NS / 2) job_report_stopped(&job->stop, limit_ns);
    if (!limit_ns || now_ns - job->stop.since_ns < limit_ns + STOPPED_SLACK_NS) return;
    job->stopped_out = true;
    end_job(job, SIGTERM, STOPPED_GRACE_S);
}

/* A wrapper reports how its rank ended, unless it was killed. */
static int find_lost(const struct job *job) {
    for (int rank = 0; rank < job->options->ranks; rank++) {
        struct aorta_beacon_state state;
        aorta_beacon_read(job->beacons[rank], &state);
        const bool gone = job->mpirun[0] ? state.group && kill(state.group, 0) && errno == ESRCH : !job->children[rank];
        if (!gone) continue;
        aorta_beacon_read(job->beacons[rank], &state); /* it may have ended in between */
        if (!state.ended) return rank;
    }
    return -1;
}

/* Open MPI waits without a limit for the end of a message on any connection. */
static bool check_stuck(struct job *job) {
    const int64_t ended_ns = job->mpirun[0] ? job_all_ended_ns(job) : 0, now_ns = aorta_clock_ns();
    if (!ended_ns || now_ns < ended_ns + STUCK_NS) return false;
    job->stuck = true;
    signal_children(job, SIGTERM);
    job->kills = 1; /* no rank is left to be killed first */
    job->kill_at_ns = now_ns + STUCK_KILL_NS;
    return true;
}

/* Begins to end the job once a rank has failed or the time is over. */
static void check(struct job *job, int64_t start_ns) {
    struct aorta_beacon_state state;
    if (check_stuck(job)) return;
    double passed_s = (double)(aorta_clock_ns() - start_ns) * 1e-9;
    const bool failed = job_first_failure(job, &state) >= 0;
    if (!failed) job->lost = find_lost(job);
    if (failed || job->lost >= 0 || job->child_failure) {
        if (job->signals)
            end_job(job, 0, INTERRUPT_GRACE_S);
        else
            end_job(job, SIGTERM, job->options->grace_s);
    } else if (job->options->timeout_s > 0 && passed_s > job->options->timeout_s) {
        job->timed_out = true;
        end_job(job, SIGTERM, job->options->grace_s);
    }
}

static void watch(struct job *job) {
    const struct timespec pause = {.tv_nsec = CHECK_NS};
    const int64_t start_ns = aorta_clock_ns();
    int64_t state_ns = start_ns;
    while (any_left(job)) {
        int signal = sigtimedwait(&job->watched, NULL, &pause);
        if (signal > 0) on_signal(job, signal);
        reap(job);
        if (job->signal) signal_late_ranks(job);
        if (!job->kill_at_ns && aorta_clock_ns() > state_ns + STATE_NS) {
            check_stopped(job);
            state_ns = aorta_clock_ns();
        }
        if (!job->kill_at_ns)
            check(job, start_ns);
        else if (aorta_clock_ns() > job->kill_at_ns)
            kill_job(job);
    }
}

aorta_status aorta_launch_run(const struct aorta_launch_options *options, int *exit_code) {
    struct job job = {.options = options, .lost = -1};
    sigemptyset(&job.watched);
    sigaddset(&job.watched, SIGINT);
    sigaddset(&job.watched, SIGTERM);
    sigaddset(&job.watched, SIGHUP);
    sigaddset(&job.watched, SIGCHLD);
    sigprocmask(SIG_BLOCK, &job.watched, &job.former_mask); /* until the directories are gone */
    aorta_status status = job_open(&job);
    if (!status) {
        status = start_children(&job);
        if (status) end_job(&job, SIGTERM, options->grace_s);
        watch(&job);
    }
    if (!status) *exit_code = job_report(&job);
    job_close(&job);
    sigprocmask(SIG_SETMASK, &job.former_mask, NULL);
    return status;
}
