/* `launch_helper run RANKS MPI TIMEOUT COMMAND…` is a small `aorta launch`; `launch_helper launch --rank-exec -- …` is
 * its wrapper; `launch_helper rank ACTION [RANK]` is a rank that does something. */
#include "base/lines.h"
#include "comm/comm.h"
#include "job/beacon.h"
#include "job/launch.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int report(aorta_status status) {
    if (!status) return 0;
    fprintf(stderr, "launch_helper: %s\n", aorta_status_message(status));
    int exit_code = aorta_code_exit(aorta_status_code(status));
    aorta_status_free(status);
    return exit_code;
}

static int run(char **argv) {
    char self[PATH_MAX] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return 99;
    enum aorta_launch_mpi mpi = AORTA_LAUNCH_MPI_AUTO;
    if (!strcmp(argv[1], "always")) mpi = AORTA_LAUNCH_MPI_ALWAYS;
    if (!strcmp(argv[1], "never")) mpi = AORTA_LAUNCH_MPI_NEVER;
    const char *grace = getenv("LAUNCH_HELPER_GRACE");
    struct aorta_launch_options options = {.ranks = atoi(argv[0]),
                                           .timeout_s = atof(argv[2]),
                                           .grace_s = grace ? atof(grace) : 1,
                                           .mpi = mpi,
                                           .command = argv + 3,
                                           .self = self};
    int exit_code = 0;
    aorta_status status = aorta_launch_run(&options, &exit_code);
    return status ? report(status) : exit_code;
}

static void sleep_for_ever(void) {
    for (;;) pause();
}

/* ---- actions of a rank ---- */

static int action_env(int rank, int chosen) {
    (void)chosen;
    struct aorta_ranks ranks;
    aorta_status status = aorta_ranks_detect(&ranks);
    if (status) return report(status);
    printf("rank=%d/%d local=%d/%d launcher=%s master=%s mpi=%d\n", rank, ranks.world_size, ranks.local_rank,
           ranks.local_world_size, aorta_launcher_name(ranks.launcher), ranks.master_address, ranks.mpi);
    return ranks.master_port > 0 ? 0 : 98;
}

static void say(int rank, const char *text) {
    struct aorta_beacon *beacon = NULL;
    if (report(aorta_beacon_open(rank, &beacon))) exit(97);
    aorta_beacon_step(beacon, 12);
    aorta_beacon_set(beacon, text);
    aorta_beacon_close(beacon); /* the text stays */
}

static int action_fail(int rank, int chosen) {
    say(rank, rank == chosen ? "counting sheep" : "waiting");
    if (rank == chosen) return 42;
    sleep_for_ever();
    return 0;
}

/* The chosen rank fails first and ends last; the other ranks end because of it. */
static int action_fail_slowly(int rank, int chosen) {
    signal(SIGTERM, SIG_IGN);
    if (rank != chosen) {
        usleep(200000);
        return 1;
    }
    struct aorta_beacon *beacon = NULL;
    if (report(aorta_beacon_open(rank, &beacon))) exit(97);
    aorta_beacon_failed(beacon);
    aorta_beacon_close(beacon);
    usleep(600000);
    return 42;
}

static int action_kill(int rank, int chosen) {
    say(rank, "counting sheep");
    if (rank == chosen) kill(getpid(), SIGKILL);
    signal(SIGTERM, SIG_IGN); /* only SIGKILL ends the other ranks */
    sleep_for_ever();
    return 0;
}

static int action_hang(int rank, int chosen) {
    (void)chosen;
    say(rank, "waiting for Godot");
    sleep_for_ever();
    return 0;
}

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal) {
    interrupted = signal;
}

/* Like the trainer: finishes its work, then ends with the code of an interrupted run. */
static int action_interrupt(int rank, int chosen) {
    (void)chosen;
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    printf("rank %d is ready\n", rank);
    fflush(stdout);
    while (!interrupted) usleep(1000);
    usleep(100000 * (rank + 1));
    printf("rank %d was interrupted by %d\n", rank, (int)interrupted);
    return 1;
}

static aorta_status reduce_until(int rank, int chosen, struct aorta_comm *comm, struct aorta_stream *stream) {
    float buffer[1000] = {0};
    for (int i = 0;; i++) {
        if (chosen < 0 && i == 20) return NULL;
        if (rank == chosen && i == 20) kill(getpid(), SIGKILL);
        AORTA_TRY(aorta_all_reduce(comm, stream, buffer, buffer, 1000, AORTA_F32, AORTA_SUM));
        AORTA_TRY(aorta_stream_synchronize(stream));
    }
}

/* All-reduces; the chosen rank is killed in the middle, with -1 all end well. */
static int action_reduce(int rank, int chosen) {
    struct aorta_comm_options options = {.backend = "auto", .timeout_s = 60};
    struct aorta_comm *comm = NULL;
    struct aorta_stream *stream = NULL;
    aorta_status status = aorta_device_open(AORTA_DEVICE_CPU, 0, &options.device);
    if (!status) status = aorta_ranks_detect(&options.ranks);
    if (!status) status = aorta_comm_open(&options, &comm);
    if (!status) status = aorta_stream_create(options.device, "reduce", AORTA_PRIORITY_NORMAL, &stream);
    if (!status) status = reduce_until(rank, chosen, comm, stream);
    if (status) aorta_comm_abort(comm, report(status));
    aorta_stream_destroy(stream);
    aorta_comm_close(comm);
    aorta_device_close(options.device);
    return report(aorta_comm_shutdown(&options.ranks, 60));
}

/* A rank that gives up while another is inside a collective. */
static int action_abort(int rank, int chosen) {
    if (rank != chosen) return action_reduce(rank, -2);
    struct aorta_comm_options options = {.backend = "auto", .timeout_s = 60};
    struct aorta_comm *comm = NULL;
    aorta_status status = aorta_device_open(AORTA_DEVICE_CPU, 0, &options.device);
    if (!status) status = aorta_ranks_detect(&options.ranks);
    if (!status) status = aorta_comm_open(&options, &comm);
    if (status) return report(status);
    say(rank, "giving up");
    usleep(200000);
    aorta_comm_abort(comm, 7);
}

/* ---- a rank that is stopped ---- */

enum phase { START, GROUPS, COLLECTIVE, CLOSE, END, ALONE };

/* Which rank stops, and where. */
struct stop {
    int rank;
    bool own; /* it is this one */
    enum phase phase;
};

static void stop_at(const struct stop *stop, enum phase phase) {
    if (stop->own && stop->phase == phase) raise(SIGSTOP);
}

static aorta_status run_phases(const struct stop *stop, struct aorta_comm_options *options, struct aorta_comm **comm) {
    struct aorta_stream *stream;
    struct aorta_comm *group;
    void *buffer;
    stop_at(stop, START);
    AORTA_TRY(aorta_device_alloc(options->device, 4000, "reduced values", &buffer));
    AORTA_TRY(aorta_comm_open(options, comm));
    stop_at(stop, GROUPS);
    AORTA_TRY(aorta_comm_split(*comm, (const int[]){0, 1}, 2, &group));
    stop_at(stop, COLLECTIVE);
    AORTA_TRY(aorta_stream_create(options->device, "reduce", AORTA_PRIORITY_NORMAL, &stream));
    AORTA_TRY(aorta_all_reduce(group, stream, buffer, buffer, 1000, AORTA_F32, AORTA_SUM));
    AORTA_TRY(aorta_stream_synchronize(stream));
    aorta_stream_destroy(stream);
    aorta_device_free(options->device, buffer);
    stop_at(stop, CLOSE);
    aorta_comm_close(group);
    aorta_comm_close(*comm);
    aorta_device_close(options->device);
    *comm = NULL;
    stop_at(stop, END);
    struct aorta_leave *leave;
    AORTA_TRY(aorta_comm_leave_begin(&options->ranks, options->timeout_s, &leave));
    usleep(stop->own ? 300000 : 100000); /* the other one knows that it is alive */
    stop_at(stop, ALONE);
    if (!stop->own || stop->phase != ALONE) usleep(200000);
    return aorta_leave_end(leave);
}

/* chosen: 10 times the rank that stops, plus the phase. */
static int action_stop(int rank, int chosen) {
    const struct stop stop = {chosen / 10, rank == chosen / 10, (enum phase)(chosen % 10)};
    struct aorta_comm_options options = {.backend = "auto", .timeout_s = 8}; /* many start at the same time */
    struct aorta_comm *comm = NULL;
    enum aorta_device_kind kind = getenv("LAUNCH_HELPER_GPU") ? AORTA_DEVICE_CUDA : AORTA_DEVICE_CPU;
    aorta_status status = aorta_device_open(kind, 0, &options.device);
    if (!status) status = aorta_ranks_detect(&options.ranks);
    if (!status) status = run_phases(&stop, &options, &comm);
    if (status) aorta_comm_abort(comm, report(status));
    return 0;
}

/* Reports how long it waits for its peers, as aorta_comm_open does. */
static int action_timeout(int rank, int chosen) {
    (void)chosen;
    struct aorta_beacon *beacon = NULL;
    if (report(aorta_beacon_open(rank, &beacon))) return 97;
    aorta_beacon_timeout(beacon, 1);
    aorta_beacon_close(beacon);
    return 0;
}

/* mpirun gives ranks a pseudo-terminal, wherever its own output goes. */
static int action_terminal(int rank, int chosen) {
    (void)chosen;
    printf("rank %d: escapes=%d width=%d\n", rank, aorta_terminal_takes_escapes(stdout), aorta_terminal_width(stdout));
    return 0;
}

static const struct {
    const char *name;
    int (*run)(int rank, int chosen);
} actions[] = {
    {"env", action_env},         {"fail", action_fail},         {"fail_slowly", action_fail_slowly},
    {"kill", action_kill},       {"hang", action_hang},         {"interrupt", action_interrupt},
    {"reduce", action_reduce},   {"abort", action_abort},       {"stop", action_stop},
    {"timeout", action_timeout}, {"terminal", action_terminal},
};

static int be_rank(int argc, char **argv) {
    const char *rank = getenv("RANK");
    if (!rank) rank = getenv("OMPI_COMM_WORLD_RANK"); /* mpirun alone */
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(argv[0], actions[i].name) != 0) continue;
        return actions[i].run(rank ? atoi(rank) : -1, argc > 1 ? atoi(argv[1]) : -1);
    }
    return 96;
}

int main(int argc, char **argv) {
    if (argc > 5 && !strcmp(argv[1], "run")) return run(argv + 2);
    if (argc > 2 && !strcmp(argv[1], "rank")) return be_rank(argc - 2, argv + 2);
    if (argc > 4 && !strcmp(argv[1], "launch")) {
        int exit_code = 0;
        const char *late = getenv("LAUNCH_HELPER_LATE"), *rank = getenv("AORTA_LAUNCH_RANK");
        if (late && rank && !strcmp(late, rank)) { /* loaded so slowly that the other ranks are over by then */
            signal(SIGTERM, SIG_IGN);
            sleep(1);
        }
        aorta_status status = aorta_launch_rank(argv + 4, &exit_code);
        return status ? report(status) : exit_code;
    }
    return 95;
}
