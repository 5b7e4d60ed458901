/* The end of a process that has met other ranks: it waits until all are ready to end.
 *
 * The remaining work of a rank (rank 0's report) has no known length, so until every rank is ready a thread of each
 * sends heartbeats. Ranks that MPI has joined send them over MPI, before MPI_Finalize; all other ranks meet once more
 * at rank 0's store. Under torchrun and srun nothing else ends a rank that stops there. */
#ifndef AORTA_JOB_LEAVE_H
#define AORTA_JOB_LEAVE_H

#include "job/ranks.h"

/* MPI's part, which src/comm has (mpi_run.c), as it has the library. */
struct aorta_leave_mpi {
    /* A group of all ranks; nothing stays allocated on failure. */
    aorta_status (*open)(double timeout_s, void **group);
    /* *any: whether `own` is true on any rank. Collective. */
    aorta_status (*any)(void *group, bool own, bool *any);
    /* Ends the group and, where `finalize` is set, MPI. */
    aorta_status (*close)(void *group, bool finalize);
};

struct aorta_leave_options {
    const struct aorta_ranks *met; /* the ranks that were met, also without MPI; NULL: none were */
    double timeout_s;
    const struct aorta_leave_mpi *mpi; /* NULL: MPI has not joined this process */
};

struct aorta_leave;

/* From now on this rank sends heartbeats. *leave is NULL for a single rank. */
AORTA_MUST_USE aorta_status aorta_leave_begin(const struct aorta_leave_options *options, struct aorta_leave **leave);
/* This rank is ready; returns when all are. AORTA_TIMEOUT or AORTA_COMM when a rank sends no heartbeat for
 * timeout_s. NULL is fine. */
AORTA_MUST_USE aorta_status aorta_leave_end(struct aorta_leave *leave);

#endif
