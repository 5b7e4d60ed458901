/* This process's rank and the number of ranks, from its launcher's environment. */
#ifndef AORTA_JOB_RANKS_H
#define AORTA_JOB_RANKS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum aorta_launcher {
    AORTA_LAUNCH_NONE,
    AORTA_LAUNCH_AORTA,
    AORTA_LAUNCH_TORCHRUN,
    AORTA_LAUNCH_MPIRUN,
    AORTA_LAUNCH_SRUN
};

struct aorta_ranks {
    enum aorta_launcher launcher;
    int rank, world_size;
    int local_rank, local_world_size;
    bool mpi; /* started so that MPI_Init joins the ranks (mpirun, aorta launch over mpirun, srun with PMI) */
    char master_address[256];
    int master_port; /* 0: not set */
};

/* Reads the contracts of aorta launch and torchrun (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
 * MASTER_PORT), Open MPI (OMPI_COMM_WORLD_*), MPICH/PMI (PMI_RANK, PMI_SIZE) and Slurm (SLURM_PROCID, SLURM_NTASKS, …).
 * None of them: one rank. AORTA_USAGE names a variable that is missing or not a number, and its value. */
AORTA_MUST_USE aorta_status aorta_ranks_detect(struct aorta_ranks *ranks);
const char *aorta_launcher_name(enum aorta_launcher launcher);

/* The hash of a list of ranks, by which ranks compare their lists. */
uint64_t aorta_ranks_hash(const int *ranks, int count);

#endif
