/* The wrapper around a rank of `aorta launch`: see launch.h. */
#include "job/beacon.h"
#include "job/launch.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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
    *exit_code = WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    /* Our launcher reads the beacon and ends the job; mpirun would only add its own words about it. */
    if (under_mpirun) *exit_code = 0;
    return status;
}
