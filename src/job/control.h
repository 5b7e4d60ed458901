/* Small exchanges of a group's ranks on the host before they can communicate on their GPUs: the list of its ranks, and
 * the id of its communicator. They use the rendezvous if MASTER_ADDR and MASTER_PORT are set (torchrun, aorta
 * launch), so that GPU runs start no MPI, else MPI (mpirun, srun). */
#ifndef AORTA_JOB_CONTROL_H
#define AORTA_JOB_CONTROL_H

#include "job/ranks.h"

#include <stddef.h>
#include <stdint.h>

struct aorta_control_options {
    struct aorta_ranks ranks;
    double timeout_s;
    uint64_t instance;                         /* numbers the openings of this process, the same on all ranks */
    const struct aorta_control_transport *mpi; /* serves ranks that MPI has joined (src/comm/mpi_run.c) */
};

/* A group's way to exchange; its state is the transport's own, and nothing stays allocated on failure. */
struct aorta_control_transport {
    aorta_status (*open)(const struct aorta_control_options *options, void **group);
    /* count 0: takes part in the agreement only; *group is NULL then. */
    aorta_status (*split)(void *parent, const int *ranks, int count, void **group);
    aorta_status (*share)(void *group, void *data, size_t bytes);
    int (*lost)(void *group); /* NULL: not known */
    void (*close)(void *group);
};

struct aorta_control;

/* Among all ranks. */
AORTA_MUST_USE aorta_status aorta_control_open(const struct aorta_control_options *options,
                                               struct aorta_control **control);
/* Makes the control of these ranks of `parent`. Called by all its ranks, and fails, as aorta_comm_split does. */
AORTA_MUST_USE aorta_status aorta_control_split(struct aorta_control *parent, const int *ranks, int count,
                                                struct aorta_control **control);
/* Copies `bytes` of data from rank 0 of the group to its other ranks. */
AORTA_MUST_USE aorta_status aorta_control_share(struct aorta_control *control, void *data, size_t bytes);
/* The world rank of the first process that has died; -1: none, or not known. Any thread. */
int aorta_control_lost(struct aorta_control *control);
/* Collective over the group. NULL is fine. */
void aorta_control_close(struct aorta_control *control);

/* ---- the end of a process that has met other ranks: it waits until all are ready to end ----
 *
 * The remaining work of a rank (rank 0's report) has no known length, so until every rank is ready a thread of each
 * sends heartbeats. Ranks that MPI has joined send them over MPI, before MPI_Finalize; all other ranks meet once more
 * at rank 0's store. Under torchrun and srun nothing else ends a rank that stops there. */

/* MPI's part, implemented in src/comm (mpi_run.c), which has the library. */
struct aorta_leave_mpi {
    /* A group of all ranks; nothing stays allocated on failure. */
    aorta_status (*open)(double timeout_s, void **group);
    /* *any: whether `own` is true on any rank. Collective. */
    aorta_status (*any)(void *group, bool own, bool *any);
    /* Ends the group and, where `finalize` is set, MPI. */
    aorta_status (*close)(void *group, bool finalize);
};

struct aorta_leave_options {
    const struct aorta_ranks *met; /* the ranks that this rank met, also without MPI; may be NULL */
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
