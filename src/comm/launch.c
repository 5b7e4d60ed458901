/* `aorta launch`: starts the ranks, watches them, ends the job when one fails, and the wrapper around each rank. */
#include "comm/launch.h"

#include "base/clock.h"
#include "comm/beacon.h"
#include "comm/mpirun.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_NS 50000000   /* between two checks of the ranks */
#define STATE_NS 1000000000 /* between two checks of their states */
/* mpirun lets a stopped rank go on to end it, and may do so before the launcher has seen which rank failed. */
#define STOPPED_NS (3 * (int64_t)STATE_NS)
/* After an interrupt the ranks finish their iteration and their files; how long the others may take after the first. */
#define INTERRUPT_GRACE_S 30.0

struct job {
    const struct aorta_launch_options *options;
    char directory[PATH_MAX];
    char mpirun[PATH_MAX]; /* "": the ranks are our own children */
    int port;
    struct aorta_beacon **beacons; /* [ranks] */
    pid_t *children;               /* [child_count]: mpirun alone, or one wrapper per rank; 0: has ended */
    int child_count;
    int child_failure; /* exit code of the first child that ended with one */
    sigset_t watched, former_mask;
    int signals;        /* how many the user has sent */
    int64_t signal_ns;  /* the first of them */
    int signal;         /* last sent to the ranks; 0: none */
    bool *notified;     /* [ranks]: whether they had started and got it */
    bool timed_out;     /* the job took longer than allowed */
    int64_t kill_at_ns; /* when the remaining ranks get SIGKILL; 0: the job is not being ended */
    int kills;          /* how often it was sent */
    int stopped;        /* the rank last seen stopped, by SIGSTOP or a debugger; -1: none */
    int64_t stopped_ns; /* when it was last seen so */
};

/* ---- setting up ---- */

static aorta_status free_port(int *port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return AORTA_ERROR(AORTA_IO, "no socket for MASTER_PORT: %s", strerror(errno));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    bool found = bind(fd, (struct sockaddr *)&address, length) == 0 &&
                 getsockname(fd, (struct sockaddr *)&address, &length) == 0;
    int error = errno;
    close(fd);
    if (!found) return AORTA_ERROR(AORTA_IO, "no free port for MASTER_PORT: %s", strerror(error));
    *port = ntohs(address.sin_port);
    return NULL;
}

static aorta_status choose_mpirun(struct job *job) {
    enum aorta_launch_mpi mpi = job->options->mpi;
    bool wanted = mpi == AORTA_LAUNCH_MPI_ALWAYS || (mpi == AORTA_LAUNCH_MPI_AUTO && job->options->ranks > 1);
    if (wanted && aorta_mpirun_find(job->mpirun)) return NULL;
    job->mpirun[0] = '\0';
    if (mpi != AORTA_LAUNCH_MPI_ALWAYS) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED, "mpirun is not in PATH (Debian and Ubuntu: apt install openmpi-bin)");
}

static aorta_status check_options(const struct aorta_launch_options *options) {
    if (options->ranks < 1) return AORTA_ERROR(AORTA_USAGE, "-n %d: at least one rank is needed", options->ranks);
    if (!options->command || !options->command[0]) {
        return AORTA_ERROR(AORTA_USAGE, "no command: write it after --, as in `aorta launch -n 2 -- aorta train …`");
    }
    char path[PATH_MAX];
    if (aorta_program_find(options->command[0], path)) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "%s: no such program%s", options->command[0],
                       strchr(options->command[0], '/') ? "" : " in PATH");
}

static aorta_status open_beacons(struct job *job) {
    AORTA_TRY(aorta_beacon_create(job->directory, job->options->ranks));
    for (int rank = 0; rank < job->options->ranks; rank++) {
        AORTA_TRY(aorta_beacon_open_at(job->directory, rank, &job->beacons[rank]));
    }
    return NULL;
}

static aorta_status job_open(struct job *job) {
    AORTA_TRY(check_options(job->options));
    AORTA_TRY(choose_mpirun(job));
    AORTA_TRY(free_port(&job->port));
    job->child_count = job->mpirun[0] ? 1 : job->options->ranks;
    job->children = calloc((size_t)job->child_count, sizeof *job->children);
    job->beacons = calloc((size_t)job->options->ranks, sizeof *job->beacons);
    job->notified = calloc((size_t)job->options->ranks, sizeof *job->notified);
    if (!job->children || !job->beacons || !job->notified)
        return AORTA_ERROR(AORTA_MEMORY, "out of memory for the ranks' state");
    const char *parent = getenv("TMPDIR");
    snprintf(job->directory, sizeof job->directory, "%s/aorta-launch-XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(job->directory)) {
        aorta_status status = AORTA_ERROR(AORTA_IO, "%s: %s (TMPDIR names the place)", job->directory, strerror(errno));
        job->directory[0] = '\0';
        return status;
    }
    return open_beacons(job);
}

static void job_close(struct job *job) {
    for (int rank = 0; job->beacons && rank < job->options->ranks; rank++) aorta_beacon_close(job->beacons[rank]);
    free(job->beacons);
    free(job->notified);
    free(job->children);
    if (!job->directory[0]) return;
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s/beacon", job->directory);
    unlink(path);
    rmdir(job->directory);
}

/* ---- starting ---- */

static void set_number(const char *name, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void set_environment(const struct job *job, int rank) {
    aorta_foreign_ranks_clear();
    setenv("AORTA_STATE_DIR", job->directory, 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_number("MASTER_PORT", job->port);
    set_number("WORLD_SIZE", job->options->ranks);
    set_number("LOCAL_WORLD_SIZE", job->options->ranks);
    if (job->mpirun[0])
        aorta_mpirun_environment();
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
    for (int i = 0; i < job->child_count; i++) {
        if (job->children[i]) kill(job->children[i], signal);
    }
}

/* False: the rank has not started yet. */
static bool signal_rank(const struct job *job, int rank) {
    struct aorta_beacon_state state;
    aorta_beacon_read(job->beacons[rank], &state);
    if (state.pid && !state.ended) kill(-state.group, job->signal);
    return state.pid;
}

/* Ranks that start later get the signal then. False: a rank has not started yet. */
static bool signal_missed_ranks(struct job *job) {
    bool all_notified = true;
    for (int rank = 0; rank < job->options->ranks; rank++) {
        job->notified[rank] = job->notified[rank] || signal_rank(job, rank);
        all_notified = all_notified && job->notified[rank];
    }
    return all_notified;
}

static void signal_ranks(struct job *job, int signal) {
    job->signal = signal;
    memset(job->notified, 0, (size_t)job->options->ranks * sizeof *job->notified);
    /* Wrappers ignore this once they run; before that, and for mpirun, it ends the start itself. */
    if (!signal_missed_ranks(job)) signal_children(job, signal);
}

static bool any_left(const struct job *job) {
    for (int i = 0; i < job->child_count; i++) {
        if (job->children[i]) return true;
    }
    return false;
}

static int exit_code_of(int wait_status) {
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

static void reap(struct job *job) {
    for (int i = 0; i < job->child_count; i++) {
        int wait_status;
        if (!job->children[i] || waitpid(job->children[i], &wait_status, WNOHANG) != job->children[i]) continue;
        job->children[i] = 0;
        if (!job->child_failure) job->child_failure = exit_code_of(wait_status);
    }
}

/* The process of a rank that has failed may take longer to end than those that its failure ends. */
static int64_t failure_ns(const struct aorta_beacon_state *state) {
    return state->failed_ns ? state->failed_ns : state->ended_ns;
}

/* The rank that failed first, or -1. */
static int first_failure(const struct job *job, struct aorta_beacon_state *first) {
    int found = -1;
    for (int rank = 0; rank < job->options->ranks; rank++) {
        struct aorta_beacon_state state;
        aorta_beacon_read(job->beacons[rank], &state);
        if (!state.ended || state.wait_status == 0) continue;
        if (found >= 0 && failure_ns(&state) >= failure_ns(first)) continue;
        found = rank;
        *first = state;
    }
    return found;
}

static void end_job(struct job *job, int signal, double grace_s) {
    if (signal) signal_ranks(job, signal);
    job->kill_at_ns = aorta_clock_ns() + (int64_t)(grace_s * 1e9);
}

/* First the ranks, so that mpirun can clean up after them; the next time its children as well. */
static void kill_job(struct job *job) {
    signal_ranks(job, SIGKILL);
    if (job->kills++) signal_children(job, SIGKILL);
    job->kill_at_ns = aorta_clock_ns() + 2000000000;
}

static void on_signal(struct job *job, int signal) {
    if (signal == SIGCHLD) return;
    signal_ranks(job, signal);
    if (!job->signals) job->signal_ns = aorta_clock_ns();
    if (++job->signals == 2) end_job(job, SIGTERM, job->options->grace_s);
}

/* proc(5): the state follows the name, which stands in parentheses and may hold some itself. */
static bool is_stopped(pid_t pid) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = '\0';
    const char *name_end = strrchr(line, ')');
    return name_end && name_end[1] == ' ' && (name_end[2] == 'T' || name_end[2] == 't');
}

/* A rank that the others may wait for. */
static void find_stopped(struct job *job) {
    for (int rank = 0; rank < job->options->ranks; rank++) {
        struct aorta_beacon_state state;
        aorta_beacon_read(job->beacons[rank], &state);
        if (!state.pid || state.ended || !is_stopped(state.pid)) continue;
        job->stopped = rank;
        job->stopped_ns = aorta_clock_ns();
        return;
    }
}

/* Begins to end the job once a rank has failed or the time is over. */
static void check(struct job *job, int64_t start_ns) {
    struct aorta_beacon_state state;
    double passed_s = (double)(aorta_clock_ns() - start_ns) * 1e-9;
    if (job->child_failure || first_failure(job, &state) >= 0) {
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
        if (job->signal) (void)signal_missed_ranks(job);
        if (!job->kill_at_ns && aorta_clock_ns() > state_ns + STATE_NS) {
            find_stopped(job);
            state_ns = aorta_clock_ns();
        }
        if (!job->kill_at_ns)
            check(job, start_ns);
        else if (aorta_clock_ns() > job->kill_at_ns)
            kill_job(job);
    }
}

/* ---- the report ---- */

static void report_operation(const struct aorta_beacon_state *state) {
    if (state->step >= 0) fprintf(stderr, ", in step %lld", (long long)state->step);
    if (!state->reported_ns) {
        if (!state->failed_ns) fprintf(stderr, "; it had reported no operation");
        return;
    }
    int64_t until_ns = state->ended ? state->ended_ns : aorta_clock_ns();
    double ago_s = (double)(until_ns - state->reported_ns) * 1e-9;
    fprintf(stderr, "; last operation, begun %.1f s before: %s", ago_s, state->text);
}

/* It ended by itself, as the user had asked: what it was doing by then explains nothing. */
static bool ended_as_asked(const struct job *job, const struct aorta_beacon_state *state) {
    return job->signals && WIFEXITED(state->wait_status) && state->ended_ns > job->signal_ns;
}

static void report_failure(const struct job *job, int rank, const struct aorta_beacon_state *state) {
    if (ended_as_asked(job, state)) {
        fprintf(stderr, "aorta launch: interrupted; rank %d ended with exit status %d.\n", rank,
                WEXITSTATUS(state->wait_status));
        return;
    }
    if (WIFSIGNALED(state->wait_status)) {
        int signal = WTERMSIG(state->wait_status);
        fprintf(stderr, "aorta launch: rank %d %s by signal %d (%s)", rank,
                state->failed_ns ? "failed, and was ended" : "was ended", signal, strsignal(signal));
    } else {
        fprintf(stderr, "aorta launch: rank %d ended with exit status %d", rank, WEXITSTATUS(state->wait_status));
    }
    /* A wrong command line or configuration: nothing had begun, and the rank has printed what is wrong. */
    bool mistake = WIFEXITED(state->wait_status) && WEXITSTATUS(state->wait_status) == 2;
    if (!mistake || state->reported_ns) report_operation(state);
    bool ended_others = job->options->ranks > 1 && !job->signals;
    fprintf(stderr, "%s\n", ended_others ? ". The other ranks were ended." : ".");
    if (job->stopped < 0 || job->stopped == rank || state->ended_ns > job->stopped_ns + STOPPED_NS) return;
    fprintf(stderr, "aorta launch: rank %d was stopped (SIGSTOP, or a debugger), and the others waited for it.\n",
            job->stopped);
}

static void report_timeout(const struct job *job) {
    fprintf(stderr, "aorta launch: the job did not end within %g s (--timeout-s) and was ended\n",
            job->options->timeout_s);
    for (int rank = 0; rank < job->options->ranks; rank++) {
        struct aorta_beacon_state state;
        aorta_beacon_read(job->beacons[rank], &state);
        fprintf(stderr, "aorta launch: rank %d", rank);
        report_operation(&state);
        fputs(".\n", stderr);
    }
}

/* A rank whose end is not recorded: its wrapper was killed with it, or never ran. */
static int find_lost_rank(const struct job *job) {
    for (int rank = 0; rank < job->options->ranks; rank++) {
        struct aorta_beacon_state state;
        aorta_beacon_read(job->beacons[rank], &state);
        if (!state.ended) return rank;
    }
    return -1;
}

static int report(const struct job *job) {
    struct aorta_beacon_state state;
    if (job->timed_out) {
        report_timeout(job);
        return 1;
    }
    int rank = first_failure(job, &state);
    if (rank >= 0) {
        report_failure(job, rank, &state);
        return exit_code_of(state.wait_status);
    }
    int lost = find_lost_rank(job);
    if (lost < 0) return 0;
    fprintf(stderr, "aorta launch: rank %d was lost: %s ended with exit status %d\n", lost,
            job->mpirun[0] ? job->mpirun : "its wrapper", job->child_failure);
    return job->child_failure ? job->child_failure : 1;
}

aorta_status aorta_launch_run(const struct aorta_launch_options *options, int *exit_code) {
    struct job job = {.options = options, .stopped = -1};
    sigemptyset(&job.watched);
    sigaddset(&job.watched, SIGINT);
    sigaddset(&job.watched, SIGTERM);
    sigaddset(&job.watched, SIGHUP);
    sigaddset(&job.watched, SIGCHLD);
    aorta_status status = job_open(&job);
    if (!status) {
        sigprocmask(SIG_BLOCK, &job.watched, &job.former_mask);
        status = start_children(&job);
        if (status) end_job(&job, SIGTERM, options->grace_s);
        watch(&job);
        sigprocmask(SIG_SETMASK, &job.former_mask, NULL);
    }
    if (!status) *exit_code = report(&job);
    job_close(&job);
    return status;
}

/* ---- the wrapper around a rank ---- */

/* mpirun numbers the ranks it starts; a rank started directly is numbered by the launcher. */
static aorta_status find_rank(int *rank, bool *under_mpirun) {
    const char *text = getenv("OMPI_COMM_WORLD_RANK");
    *under_mpirun = text != NULL;
    if (!text) text = getenv("AORTA_LAUNCH_RANK");
    if (!text) return AORTA_ERROR(AORTA_USAGE, "launch --rank-exec is for `aorta launch` itself: it sets the rank");
    *rank = atoi(text);
    setenv("RANK", text, 1);
    setenv("LOCAL_RANK", text, 1);
    return NULL;
}

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
enum { ENDING = sizeof ending / sizeof *ending };

static void on_ending_signals(void (*action)(int)) {
    for (int i = 0; i < ENDING; i++) signal(ending[i], action);
}

static void block_ending_signals(sigset_t *before) {
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < ENDING; i++) sigaddset(&set, ending[i]);
    sigprocmask(SIG_BLOCK, &set, before);
}

static _Noreturn void become(char *const *command, const sigset_t *mask) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* should the wrapper be killed */
    on_ending_signals(SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(command[0], command);
    int error = errno;
    fprintf(stderr, "aorta launch: %s: %s\n", command[0], strerror(error));
    _exit(error == ENOENT ? 127 : 126); /* as shells do */
}

/* The wrapper outlives the command, to report how it ended, and ignores signals that end it. They are blocked, not
 * lost, until the command has reset them for itself. */
static aorta_status run_and_wait(char *const *command, struct aorta_beacon *beacon, int *wait_status) {
    sigset_t mask;
    block_ending_signals(&mask);
    pid_t pid = fork();
    int error = errno;
    if (pid == 0) become(command, &mask);
    on_ending_signals(SIG_IGN);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (pid < 0) return AORTA_ERROR(AORTA_IO, "cannot start %s: %s", command[0], strerror(error));
    aorta_beacon_started(beacon, pid, getpgrp());
    while (waitpid(pid, wait_status, 0) < 0) {
        if (errno != EINTR) return AORTA_ERROR(AORTA_INTERNAL, "waitpid: %s", strerror(errno));
    }
    aorta_beacon_ended(beacon, *wait_status);
    return NULL;
}

aorta_status aorta_launch_rank(char *const *command, int *exit_code) {
    int rank = 0, wait_status = 0;
    bool under_mpirun;
    AORTA_TRY(find_rank(&rank, &under_mpirun));
    struct aorta_beacon *beacon;
    AORTA_TRY(aorta_beacon_open(rank, &beacon));
    if (!beacon) return AORTA_ERROR(AORTA_USAGE, "launch --rank-exec is for `aorta launch` itself: no AORTA_STATE_DIR");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* One process group per rank, so that the launcher decides which signals the ranks get, and reaches children of
     * the command too. */
    if (getpgrp() != getpid()) setpgid(0, 0);
    aorta_status status = run_and_wait(command, beacon, &wait_status);
    aorta_beacon_close(beacon);
    *exit_code = WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    /* Our launcher reads the beacon and ends the job; mpirun would only add its own words about it. */
    if (under_mpirun) *exit_code = 0;
    return status;
}
