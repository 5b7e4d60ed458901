/* Preparations of a launcher's job, and the reports of its ranks. */
#include "job/launch.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/lines.h"
#include "job/beacon.h"
#include "job/launch_internal.h"

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

/* Files that Open MPI 4.1's mpirun opens: 38 with 2 ranks, 62 with 8. */
#define MPIRUN_FILES 40
#define MPIRUN_FILES_PER_RANK 6

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
    if (!options->command || !options->command[0])
        return AORTA_ERROR(AORTA_USAGE, "no command: write it after --, as in `aorta launch -n 2 -- aorta train …`");
    char path[PATH_MAX];
    if (aorta_program_find(options->command[0], path)) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "%s: no such program%s", options->command[0],
                       strchr(options->command[0], '/') ? "" : " in PATH");
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

/* The token keeps ranks of other jobs out of this job's rendezvous. */
static aorta_status make_token(char token[2 * TOKEN_BYTES + 1]) {
    unsigned char random[TOKEN_BYTES];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return AORTA_ERROR(AORTA_IO, "no random number: %s", strerror(errno));
    for (int i = 0; i < TOKEN_BYTES; i++) snprintf(token + (size_t)2 * i, 3, "%02x", random[i]);
    return NULL;
}

/* Prepares everything except the processes. Close the job on failure as well. */
static aorta_status open_job(struct job *job) {
    AORTA_TRY(check_options(job->options));
    AORTA_TRY(choose_mpirun(job));
    AORTA_TRY(reserve_files(job));
    AORTA_TRY(free_port(&job->port));
    AORTA_TRY(make_token(job->token));
    job->child_count = job->mpirun[0] ? 1 : job->options->ranks;
    job->children = calloc((size_t)job->child_count, sizeof *job->children);
    job->notified = calloc((size_t)job->options->ranks, sizeof *job->notified);
    if (!job->children || !job->notified) return AORTA_ERROR(AORTA_MEMORY, "out of memory for the ranks' state");
    AORTA_TRY(aorta_temporary_make("aorta-launch-", &job->directory));
    if (job->mpirun[0]) aorta_mpirun_shared_memory(job->options->ranks, &job->shared);
    AORTA_TRY(aorta_beacon_create(job->directory.path, job->options->ranks));
    return aorta_beacon_open_at(job->directory.path, 0, &job->beacon);
}

static void close_job(struct job *job) {
    aorta_beacon_close(job->beacon);
    free(job->notified);
    free(job->children);
    aorta_temporary_remove(&job->shared);
    aorta_temporary_remove(&job->directory);
}

int job_exit_code(int wait_status) {
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

/* The time of the failure, as the failed process may end after the processes that its failure ends. */
static int64_t failure_ns(const struct aorta_beacon_state *state) {
    return state->failed_ns ? state->failed_ns : state->ended_ns;
}

int job_first_failure(const struct job *job, struct aorta_beacon_state *first) {
    int found = -1;
    for (int rank = 0; rank < job->options->ranks; rank++) {
        struct aorta_beacon_state state = aorta_beacon_read(job->beacon, rank);
        if (!state.ended || state.wait_status == 0) continue;
        if (found >= 0 && failure_ns(&state) >= failure_ns(first)) continue;
        found = rank;
        *first = state;
    }
    return found;
}

int64_t job_all_ended_ns(const struct job *job) {
    int64_t last_ns = 0;
    for (int rank = 0; rank < job->options->ranks; rank++) {
        struct aorta_beacon_state state = aorta_beacon_read(job->beacon, rank);
        if (!state.ended) return 0;
        if (state.ended_ns > last_ns) last_ns = state.ended_ns;
    }
    return last_ns;
}

/* ---- a rank ---- */

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

static sigset_t ending_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < ENDING; i++) sigaddset(&set, ending[i]);
    return set;
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
    const sigset_t blocked = ending_signals();
    sigset_t mask;
    sigprocmask(SIG_BLOCK, &blocked, &mask);
    aorta_beacon_started(beacon, 0, getpgrp());
    pid_t pid = fork();
    int error = errno;
    if (pid == 0) become(command, &mask);
    on_ending_signals(SIG_IGN);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (pid < 0) return AORTA_ERROR(AORTA_IO, "cannot start %s: %s", command[0], strerror(error));
    aorta_beacon_started(beacon, pid, getpgrp());
    while (waitpid(pid, wait_status, 0) < 0)
        if (errno != EINTR) return AORTA_ERROR(AORTA_INTERNAL, "waitpid: %s", strerror(errno));
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
    /* One process group per rank, so that the launcher chooses the signals of the ranks, and reaches children of the
     * command, too. */
    if (getpgrp() != getpid()) setpgid(0, 0);
    aorta_status status = run_and_wait(command, beacon, &wait_status);
    aorta_beacon_close(beacon);
    *exit_code = job_exit_code(wait_status);
    /* Our launcher reads the beacon and ends the job; mpirun would only add its own words about it. */
    if (under_mpirun) *exit_code = 0;
    return status;
}

/* ---- the job ---- */

#define CHECK_NS 50000000 /* between two checks of the ranks */
/* After an interrupt the ranks finish their iteration and their files. After the first failure, the remaining ranks may
 * take this time. */
#define INTERRUPT_GRACE_S 30.0
/* Added to the ranks' own timeout, so that waiting ranks report it first, in more detail. */
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
    set_number(AORTA_COLUMNS, aorta_terminal_width(stdout));
    if (job->mpirun[0])
        aorta_mpirun_environment(job->directory.path, job->shared.path);
    else
        set_number("AORTA_LAUNCH_RANK", rank);
}

/* The arguments of a child: `[mpirun -n N] self launch --rank-exec -- COMMAND…`. */
static char **child_arguments(const struct job *job, struct aorta_arena *memory) {
    struct aorta_words words = {.arena = memory};
    if (job->mpirun[0]) {
        aorta_words_add_all(&words, (const char *const[]){job->mpirun, "-n", NULL});
        aorta_words_add(&words, aorta_arena_printf(memory, "%d", job->options->ranks));
    }
    aorta_words_add_all(&words, (const char *const[]){job->options->self, "launch", "--rank-exec", "--", NULL});
    aorta_words_add_all(&words, (const char *const *)job->options->command);
    return words.items;
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
    struct aorta_arena memory = {0};
    char **arguments = child_arguments(job, &memory);
    aorta_status status = aorta_arena_check(&memory, "the arguments of the ranks");
    for (int i = 0; i < job->child_count && !status; i++) {
        pid_t pid = fork();
        if (pid == 0) become_child(job, i, arguments);
        if (pid < 0)
            status = AORTA_ERROR(AORTA_IO, "cannot start rank %d: %s", i, strerror(errno));
        else
            job->children[i] = pid;
    }
    aorta_arena_free(&memory);
    return status;
}

/* ---- watching ---- */

static void signal_children(const struct job *job, int signal) {
    for (int i = 0; i < job->child_count; i++)
        if (job->children[i]) kill(job->children[i], signal);
}

/* A letter, '\0' for no process. */
static char process_state(pid_t pid) {
    char text[1024];
    const char *found = aorta_process_stat(pid, text);
    return *found ? found[1] : '\0';
}

static bool is_stopped(pid_t pid) {
    char state = process_state(pid);
    return state == 'T' || state == 't'; /* 't': by its debugger */
}

/* A stopped rank reacts to the signal only after SIGCONT. Returns false if the rank has not started yet. */
static bool signal_rank(const struct job *job, int rank) {
    struct aorta_beacon_state state = aorta_beacon_read(job->beacon, rank);
    if (!state.pid || state.ended) return state.pid;
    kill(-state.group, job->signal);
    /* Not to every rank: SIGCONT undoes the attaching of a debugger, or of a leak checker. */
    if (process_state(state.pid) == 'T' || process_state(state.group) == 'T') kill(-state.group, SIGCONT);
    return true;
}

/* Signals ranks that have started since the last signal. Returns their number. */
static int signal_missed_ranks(struct job *job) {
    int count = 0;
    for (int rank = 0; rank < job->options->ranks; rank++) {
        if (job->notified[rank] || !signal_rank(job, rank)) continue;
        job->notified[rank] = true;
        count++;
    }
    return count;
}

/* Returns false if a rank has not started yet. */
static bool signal_ranks(struct job *job, int signal) {
    job->signal = signal;
    memset(job->notified, 0, (size_t)job->options->ranks * sizeof *job->notified);
    return signal_missed_ranks(job) == job->options->ranks;
}

/* Running wrappers ignore the signal. For wrappers that are not running yet, and for mpirun, it ends the start. */
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

/* First kills only the ranks, so that mpirun can clean up after them, and the next time our child processes, too. */
static void kill_job(struct job *job) {
    (void)signal_ranks(job, SIGKILL);
    if (job->kills++) signal_children(job, SIGKILL);
    job->kill_at_ns = aorta_clock_ns() + KILL_NS;
}

/* While ranks still start, mpirun gets more time. */
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
        struct aorta_beacon_state state = aorta_beacon_read(job->beacon, rank);
        if (!state.group || state.ended) continue;
        const bool command = state.pid && is_stopped(state.pid);
        *found = (struct stop){.rank = rank, .wrapper = !command, .pid = command ? state.pid : state.group};
        if (command || is_stopped(state.group)) return true; /* a wrapper leads its group */
    }
    *found = (struct stop){.rank = -1, .pid = job->children[0]};
    return job->mpirun[0] && job->children[0] && is_stopped(job->children[0]);
}

/* The longest timeout of a rank for its peers; 0 if none has reported one. */
static int64_t longest_wait_ns(const struct job *job) {
    int64_t longest = 0;
    for (int rank = 0; rank < job->options->ranks; rank++) {
        struct aorta_beacon_state state = aorta_beacon_read(job->beacon, rank);
        if (state.timeout_ns > longest) longest = state.timeout_ns;
    }
    return longest;
}

/* Ranks that wait for a stopped one end after their timeout. If no rank waits for it (any longer), the job
 * would never end. */
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
        struct aorta_beacon_state state = aorta_beacon_read(job->beacon, rank);
        const bool gone = job->mpirun[0] ? state.group && kill(state.group, 0) && errno == ESRCH : !job->children[rank];
        if (!gone) continue;
        state = aorta_beacon_read(job->beacon, rank); /* it may have ended in between */
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

/* Begins to end the job if a rank has failed or the time limit is reached. */
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
    struct job job = {.options = options, .watched = ending_signals(), .lost = -1};
    sigaddset(&job.watched, SIGCHLD);
    sigprocmask(SIG_BLOCK, &job.watched, &job.former_mask); /* until the directories are gone */
    aorta_status status = open_job(&job);
    if (!status) {
        status = start_children(&job);
        if (status) end_job(&job, SIGTERM, options->grace_s);
        watch(&job);
    }
    if (!status) *exit_code = job_report(&job);
    close_job(&job);
    sigprocmask(SIG_SETMASK, &job.former_mask, NULL);
    return status;
}
