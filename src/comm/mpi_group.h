/* Inside the MPI backend: a group, and the collectives over point-to-point messages. */
#ifndef AORTA_COMM_MPI_GROUP_H
#define AORTA_COMM_MPI_GROUP_H

#include "comm/backend.h"
#include "comm/beacon.h"
#include "comm/mpi_library.h"

struct mpi_requests {
    const struct mpi_api *api;
    MPI_Request *items;
    int count, capacity;
};

/* Used by one stream at a time, on that stream's thread. */
struct mpi_group {
    struct mpi_api api;
    MPI_Comm mpi; /* of this group alone: groups never see each other's messages */
    int rank, size;
    double timeout_s;
    struct aorta_beacon *beacon; /* may be NULL */
    uint64_t sequence;           /* collectives begun */
    struct mpi_requests sends, receives;
    char *scratch; /* blocks of other ranks on their way into a sum */
    size_t scratch_bytes;
    bool failed; /* a peer did not come: transfers may still be under way, so nothing is ever freed */
};

/* Runs one collective to its end on the calling thread. */
aorta_status mpi_run(struct mpi_group *group, const struct aorta_comm_call *call);

/* ---- mpi_wait.c ---- */

/* Waits until all requests are complete; lets other threads have the processor meanwhile. AORTA_TIMEOUT after
 * timeout_s; the caller adds who waited for what. Empties the list. */
aorta_status mpi_wait(struct mpi_requests *requests, double timeout_s);
/* A place for one more request; NULL when memory is exhausted. */
MPI_Request *mpi_request_add(struct mpi_requests *requests);
/* NULL for MPI_SUCCESS, else AORTA_COMM with MPI's own words. */
aorta_status mpi_check(const struct mpi_api *api, int error, const char *function);

#endif
