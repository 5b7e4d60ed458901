/* Finding and preparing Open MPI's mpirun for local ranks. */
#ifndef AORTA_JOB_MPIRUN_H
#define AORTA_JOB_MPIRUN_H

#include "base/temporary.h"

#include <limits.h>
#include <stdbool.h>

/* The path of a program as execvp would find it; false when there is none that can be run. */
bool aorta_program_find(const char *name, char path[PATH_MAX]);
/* Open MPI's mpirun: "mpirun.openmpi" (Debian's name if several MPIs are installed), else "mpirun". */
bool aorta_mpirun_find(char path[PATH_MAX]);

/* A directory in /dev/shm for the ranks' segments, of 4 MiB each; they go with it, however mpirun ends. False where it
 * has no space for them (docker's default is 64 MiB): files of the job's directory do, in the same page cache. */
bool aorta_mpirun_shared_memory(int ranks, struct aorta_temporary *directory);
/* Sets the environment of mpirun and its ranks in this process, except variables that the user has set; called in the
 * child that becomes mpirun. `directory` is the job's own, `shared` that of its shared memory, or "". */
void aorta_mpirun_environment(const char *directory, const char *shared);
/* Removes another launcher's variables from the environment, and all that would mislead the ranks. */
void aorta_foreign_ranks_clear(void);

#endif
