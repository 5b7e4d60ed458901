/* Preparations of a launcher's job, and the reports of its ranks. */
#include "job/launch_internal.h"
#include "job/mpirun.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static aorta_status open_beacons(struct job *job) {
    AORTA_TRY(aorta_beacon_create(job->directory.path, job->options->ranks));
    for (int rank = 0; rank < job->options->ranks; rank++)
        AORTA_TRY(aorta_beacon_open_at(job->directory.path, rank, &job->beacons[rank]));
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

aorta_status job_open(struct job *job) {
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
    AORTA_TRY(aorta_temporary_make("aorta-launch-", &job->directory));
    if (job->mpirun[0]) aorta_mpirun_shared_memory(job->options->ranks, &job->shared);
    return open_beacons(job);
}

void job_close(struct job *job) {
    for (int rank = 0; job->beacons && rank < job->options->ranks; rank++) aorta_beacon_close(job->beacons[rank]);
    free(job->beacons);
    free(job->notified);
    free(job->children);
    aorta_temporary_remove(&job->shared);
    aorta_temporary_remove(&job->directory);
}

int job_exit_code(int wait_status) {
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

/* The process of a rank that has failed may take longer to end than those that its failure ends. */
static int64_t failure_ns(const struct aorta_beacon_state *state) {
    return state->failed_ns ? state->failed_ns : state->ended_ns;
}

int job_first_failure(const struct job *job, struct aorta_beacon_state *first) {
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

int64_t job_all_ended_ns(const struct job *job) {
    int64_t last_ns = 0;
    for (int rank = 0; rank < job->options->ranks; rank++) {
        struct aorta_beacon_state state;
        aorta_beacon_read(job->beacons[rank], &state);
        if (!state.ended) return 0;
        if (state.ended_ns > last_ns) last_ns = state.ended_ns;
    }
    return last_ns;
}
