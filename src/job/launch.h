/* `aorta launch`: starts local ranks and watches them.
 *
 * The launcher starts one wrapper per rank, through mpirun where it is to be used, else directly. A wrapper gives its
 * program both contracts (torchrun's and, under mpirun, MPI's), waits for it and writes how it ended to the beacon. */
#ifndef AORTA_JOB_LAUNCH_H
#define AORTA_JOB_LAUNCH_H

#include "base/directories.h"
#include "base/status.h"

#include <limits.h>
#include <stdbool.h>

enum aorta_launch_mpi {
    AORTA_LAUNCH_MPI_AUTO,   /* through mpirun when there is more than one rank and mpirun is installed */
    AORTA_LAUNCH_MPI_ALWAYS, /* AORTA_UNSUPPORTED without mpirun */
    AORTA_LAUNCH_MPI_NEVER
};

struct aorta_launch_options {
    int ranks;
    double timeout_s; /* the job is ended after so long; 0: never */
    double grace_s;   /* between SIGTERM and SIGKILL for the ranks that are left (under mpirun: 1 s after a failure) */
    enum aorta_launch_mpi mpi;
    char *const *command; /* NULL-terminated; command[0] is looked for in PATH */
    const char *self;     /* path of a program that, called as `self launch --rank-exec -- COMMAND…`, calls
                           * aorta_launch_rank (normally aorta itself) */
};

/* Runs the job to its end. *exit_code is 0 when every rank ended with 0, else that of the rank that failed first
 * (128 + signal when a signal ended it). Failures of the job are also printed on stderr, with rank, exit status or
 * signal, and last operation. SIGINT and SIGTERM are passed on to all ranks; a second one ends the ranks that are left
 * after grace_s. The process must have no other threads. */
AORTA_MUST_USE aorta_status aorta_launch_run(const struct aorta_launch_options *options, int *exit_code);

/* One rank's wrapper: runs `command` to its end with the rank's environment; *exit_code as above. AORTA_USAGE when it
 * was not started by aorta_launch_run. */
AORTA_MUST_USE aorta_status aorta_launch_rank(char *const *command, int *exit_code);

/* ---- Open MPI's mpirun for local ranks (ranks.c) ---- */

/* The path of a program as execvp would find it; false when there is none that can be run. */
bool aorta_program_find(const char *name, char path[PATH_MAX]);
/* Open MPI's mpirun: "mpirun.openmpi" (Debian's name if several MPIs are installed), else "mpirun". */
bool aorta_mpirun_find(char path[PATH_MAX]);

/* A directory in /dev/shm for the ranks' segments, of 4 MiB each, which are removed with it, however mpirun ends.
 * Returns false if /dev/shm has no space for them (docker's default is 64 MiB). Then files in the job's directory
 * serve, in the same page cache. */
bool aorta_mpirun_shared_memory(int ranks, struct aorta_temporary *directory);
/* Sets the environment of mpirun and its ranks in this process, except variables that the user has set; called in the
 * child that becomes mpirun. `directory` is the job's own, `shared` that of its shared memory, or "". */
void aorta_mpirun_environment(const char *directory, const char *shared);
/* Removes another launcher's variables from the environment, and all that would mislead the ranks. */
void aorta_foreign_ranks_clear(void);

#endif
