/* `aorta launch`: starts the ranks, watches them, and ends the job when one fails. */
#include "comm/launch.h"

#include "base/clock.h"
#include "comm/beacon.h"
#include "comm/launch_directory.h"
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
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_NS 50000000   /* between two checks of the ranks */
#define STATE_NS 1000000000 /* between two checks of their states */
/* mpirun lets a stopped rank go on to end it, and may do so before the launcher has seen which rank failed. */
#define STOPPED_NS (3 * (int64_t)STATE_NS)
/* After an interrupt the ranks finish their iteration and their files; how long the others may take after the first. */
#define INTERRUPT_GRACE_S 30.0
/* Beyond the ranks' own timeout: those that wait report it first, in more detail. */
#define STOPPED_SLACK_NS (2 * (int64_t)STATE_NS)
#define STOPPED_GRACE_S 1.0 /* the others wait for it, and do nothing else */
/* What Open MPI 4.1's mpirun opens: 38 files with 2 ranks, 62 with 8. */
#define MPIRUN_FILES 40
#define MPIRUN_FILES_PER_RANK 6
#define TOKEN_BYTES 16

/* A process of the job that is stopped. */
struct stop {
    int rank; /* -1: mpirun */
    bool wrapper;
    pid_t pid;        /* 0: none was ever seen */
    int64_t since_ns; /* when it was first seen so; 0: it goes on */
    int64_t seen_ns;  /* when it was last seen so */
    bool reported;
};

struct job {
    const struct aorta_launch_options *options;
    struct launch_directory directory;
    char mpirun[PATH_MAX]; /* "": the ranks are our own children */
    int port;
    char token[2 * TOKEN_BYTES + 1]; /* of the rendezvous */
    struct aorta_beacon **beacons;   /* [ranks] */
    pid_t *children;                 /* [child_count]: mpirun alone, or one wrapper per rank; 0: has ended */
    int child_count;
    int child_failure; /* exit code of the first child that ended with one */
    sigset_t watched, former_mask;
    int signals;        /* how many the user has sent */
    int64_t signal_ns;  /* the first of them */
    int signal;         /* last sent to the ranks; 0: none */
    bool *notified;     /* [ranks]: whether they had started and got it */
    bool timed_out;     /* the job took longer than allowed */
    bool stopped_out;   /* `stop` took longer than the ranks wait */
    int lost;           /* the rank whose wrapper ended without a word; -1: none */
    int64_t kill_at_ns; /* when the remaining ranks get SIGKILL; 0: the job is not being ended */
    int kills;          /* how often it was sent */
    struct stop stop;   /* the last one */
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
    AORTA_TRY(aorta_beacon_create(job->directory.path, job->options->ranks));
    for (int rank = 0; rank < job->options->ranks; rank++) {
        AORTA_TRY(aorta_beacon_open_at(job->directory.path, rank, &job->beacons[rank]));
    }
    return NULL;
}

/* mpirun hangs or crashes where it can open too few files. */
static aorta_status reserve_files(const struct job *job) {
    const rlim_t needed = MPIRUN_FILES + MPIRUN_FILES_PER_RANK * (rlim_t)job->options->ranks;
    struct rlimit limit;
    if (!job->mpirun[0] || getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= needed) return NULL;
    if (limit.rlim_max >= needed) {
        limit.rlim_cur = needed;
        if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return NULL;
    }
    return AORTA_ERROR(AORTA_UNSUPPORTED,
                       "mpirun needs %llu open files for %d ranks, and this process may have %llu: raise the limit "
                       "(ulimit -n %llu)",
                       (unsigned long long)needed, job->options->ranks, (unsigned long long)limit.rlim_max,
                       (unsigned long long)needed);
}

/* Lets no other job's rank into the rendezvous of this one. */
static aorta_status make_token(char token[2 * TOKEN_BYTES + 1]) {
    unsigned char random[TOKEN_BYTES];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return AORTA_ERROR(AORTA_IO, "no random number: %s", strerror(errno));
    for (int i = 0; i < TOKEN_BYTES; i++) snprintf(token + (size_t)2 * i, 3, "%02x", random[i]);
    return NULL;
}

static aorta_status job_open(struct job *job) {
    AORTA_TRY(check_options(job->options));
    AORTA_TRY(choose_mpirun(job));
    AORTA_TRY(reserve_files(job));
    AORTA_TRY(free_port(&job->port));
    AORTA_TRY(make_token(job->token));
    job->child_count = job->mpirun[0] ? 1 : job->options->ranks;
    job->children = calloc((size_t)job->child_count, sizeof *job->children);
    job->beacons = calloc((size_t)job->options->ranks, sizeof *job->beacons);
    job->notified = calloc((size_t)job->options->ranks, sizeof *job->notified);
    if (!job->children || !job->beacons || !job->notified)
        return AORTA_ERROR(AORTA_MEMORY, "out of memory for the ranks' state");
    AORTA_TRY(launch_directory_make(&job->directory));
    return open_beacons(job);
}

static void job_close(struct job *job) {
    for (int rank = 0; job->beacons && rank < job->options->ranks; rank++) aorta_beacon_close(job->beacons[rank]);
    free(job->beacons);
    free(job->notified);
    free(job->children);
    launch_directory_remove(&job->directory);
}

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
        aorta_mpirun_environment(job->options->ranks, job->directory.path);
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

/* A stopped rank reacts to nothing else before it goes on. False: the rank has not started yet. */
static bool signal_rank(const struct job *job, int rank) {
    struct aorta_beacon_state state;
    aorta_beacon_read(job->beacons[rank], &state);
    if (!state.pid || state.ended) return state.pid;
    kill(-state.group, job->signal);
    kill(-state.group, SIGCONT);
    return true;
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

/* A rank that the others may wait for, its wrapper, or mpirun. */
static bool find_stopped(const struct job *job, struct stop *found) {
    for (int rank = 0; rank < job->options->ranks; rank++) {
        struct aorta_beacon_state state;
        aorta_beacon_read(job->beacons[rank], &state);
        if (!state.pid || state.ended) continue;
        const bool command = is_stopped(state.pid);
        *found = (struct stop){.rank = rank, .wrapper = !command, .pid = command ? state.pid : state.group};
        if (command || is_stopped(state.group)) return true; /* a wrapper leads its group */
    }
    *found = (struct stop){.rank = -1, .pid = job->children[0]};
    return job->mpirun[0] && job->children[0] && is_stopped(job->children[0]);
}

/* "rank 1 (process 4711)" */
static const char *name_stopped(const struct stop *stop, char text[64]) {
    if (stop->rank < 0)
        snprintf(text, 64, "mpirun (process %d)", (int)stop->pid);
    else
        snprintf(text, 64, "%srank %d (process %d)", stop->wrapper ? "the wrapper of " : "", stop->rank,
                 (int)stop->pid);
    return text;
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

static void report_stopped(struct stop *stop, int64_t limit_ns) {
    char name[64];
    if (stop->reported) return;
    stop->reported = true;
    fprintf(stderr, "aorta launch: %s is stopped (SIGSTOP, or a debugger)", name_stopped(stop, name));
    if (limit_ns > 0) fprintf(stderr, "; the job ends if it does not go on within %.0f s", (double)limit_ns * 1e-9);
    fputs(".\n", stderr);
}

/* Ranks that wait for a stopped one end by themselves; where nobody waits for it, in no collective or not any more, the
 * job would never end. */
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
    if (now_ns - job->stop.since_ns > STATE_NS / 2) report_stopped(&job->stop, limit_ns);
    if (!limit_ns || now_ns - job->stop.since_ns < limit_ns + STOPPED_SLACK_NS) return;
    job->stopped_out = true;
    end_job(job, SIGTERM, STOPPED_GRACE_S);
}

/* A wrapper reports how its rank ended, unless it was killed. */
static int find_lost(const struct job *job) {
    for (int rank = 0; rank < job->options->ranks; rank++) {
        struct aorta_beacon_state state;
        aorta_beacon_read(job->beacons[rank], &state);
        const bool gone = job->mpirun[0] ? state.pid && kill(state.group, 0) && errno == ESRCH : !job->children[rank];
        if (!gone) continue;
        aorta_beacon_read(job->beacons[rank], &state); /* it may have ended in between */
        if (!state.ended) return rank;
    }
    return -1;
}

/* Begins to end the job once a rank has failed or the time is over. */
static void check(struct job *job, int64_t start_ns) {
    struct aorta_beacon_state state;
    double passed_s = (double)(aorta_clock_ns() - start_ns) * 1e-9;
    const bool failed = first_failure(job, &state) >= 0;
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
        if (job->signal) (void)signal_missed_ranks(job);
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
    if (!job->stop.pid || job->stop.rank == rank || state->ended_ns > job->stop.seen_ns + STOPPED_NS) return;
    char name[64];
    fprintf(stderr, "aorta launch: %s was stopped (SIGSTOP, or a debugger), and the others waited for it.\n",
            name_stopped(&job->stop, name));
}

static void report_stopped_out(const struct job *job) {
    const struct stop *stop = &job->stop;
    char name[64];
    fprintf(stderr, "aorta launch: %s was stopped (SIGSTOP, or a debugger) for %.1f s, and the job was ended",
            name_stopped(stop, name), (double)(stop->seen_ns - stop->since_ns) * 1e-9);
    if (stop->rank >= 0) {
        struct aorta_beacon_state state;
        aorta_beacon_read(job->beacons[stop->rank], &state);
        report_operation(&state);
    }
    fputs(".\n", stderr);
}

static void report_lost(const struct job *job) {
    struct aorta_beacon_state state;
    aorta_beacon_read(job->beacons[job->lost], &state);
    fprintf(stderr, "aorta launch: rank %d was lost: its wrapper", job->lost);
    if (state.group) fprintf(stderr, " (process %d)", state.group);
    fputs(" ended", stderr);
    if (!job->mpirun[0]) fprintf(stderr, " with exit status %d", job->child_failure);
    fputs(", and the rank with it", stderr);
    report_operation(&state);
    fprintf(stderr, "%s\n", job->options->ranks > 1 ? ". The other ranks were ended." : ".");
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

/* Signals that the user sends through us, and the one that follows. */
static bool is_ending_signal(int wait_status) {
    if (!WIFSIGNALED(wait_status)) return false;
    const int signal = WTERMSIG(wait_status);
    return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGKILL;
}

static bool all_ended(const struct job *job) {
    for (int rank = 0; rank < job->options->ranks; rank++) {
        struct aorta_beacon_state state;
        aorta_beacon_read(job->beacons[rank], &state);
        if (!state.ended) return false;
    }
    return true;
}

static int at_least_1(int exit_code) {
    return exit_code ? exit_code : 1;
}

/* No rank failed by itself, and yet not every one ended with 0. */
static int report_end(const struct job *job) {
    if (job->signals)
        fputs("aorta launch: interrupted before all ranks had started.\n", stderr);
    else
        fprintf(stderr, "aorta launch: %s ended with exit status %d before all ranks had started\n",
                job->mpirun[0] ? job->mpirun : "a wrapper", job->child_failure);
    return at_least_1(job->child_failure);
}

static int report(const struct job *job) {
    struct aorta_beacon_state state;
    if (job->timed_out) {
        report_timeout(job);
        return 1;
    }
    if (job->stopped_out) {
        report_stopped_out(job);
        return 1;
    }
    if (job->lost >= 0 && !job->signals) {
        report_lost(job);
        return at_least_1(job->child_failure);
    }
    int rank = first_failure(job, &state);
    if (rank >= 0 && job->signals && is_ending_signal(state.wait_status)) {
        fprintf(stderr, "aorta launch: interrupted; the ranks were ended by signal %d (%s).\n",
                WTERMSIG(state.wait_status), strsignal(WTERMSIG(state.wait_status)));
        return exit_code_of(state.wait_status);
    }
    if (rank >= 0) {
        report_failure(job, rank, &state);
        return exit_code_of(state.wait_status);
    }
    return all_ended(job) ? 0 : report_end(job);
}

aorta_status aorta_launch_run(const struct aorta_launch_options *options, int *exit_code) {
    struct job job = {.options = options, .lost = -1};
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
