/* Inside the MPI backend: the library, a group, and the collectives over point-to-point messages. */
#ifndef AORTA_COMM_MPI_INTERNAL_H
#define AORTA_COMM_MPI_INTERNAL_H

#include "comm/backend.h"
#include "job/beacon.h"

#include <mpi.h>

/* ---- the library: Open MPI, loaded when it is first needed; the program also runs without it ---- */

/* Types are from mpi.h. mpi.def lists the functions, and the objects that the handle macros of mpi.h would link to.
 * libmpi.so.40 is the interface of Open MPI 4 and 5. */
struct mpi_api {
#define FUNCTION(name) __typeof__(&MPI_##name) name;
#define HANDLE(member, type, symbol) type member;
#include "comm/mpi.def"
#undef FUNCTION
#undef HANDLE
};

/* Loads the library. AORTA_UNSUPPORTED says why it cannot be. */
AORTA_MUST_USE aorta_status mpi_load(struct mpi_api *api);
/* False when nothing in this process has loaded it. */
bool mpi_loaded(struct mpi_api *api);

/* ---- groups ---- */

struct mpi_requests {
    const struct mpi_api *api;
    MPI_Request *items;
    int count;
    size_t capacity;
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
    char *scratch; /* blocks received from other ranks, to be summed */
    size_t scratch_bytes;
    bool failed; /* a peer did not answer; transfers may still be in flight, so nothing is freed */
};

/* Runs one collective to its end on the calling thread. */
aorta_status mpi_run(struct mpi_group *group, const struct aorta_comm_call *call);

/* ---- mpi.c ---- */

/* Whether this process has started MPI and not ended it. */
bool mpi_joined(const struct mpi_api *api);

/* A group of the ranks of `mpi`, without a beacon. After a failure it holds nothing. */
aorta_status mpi_group_begin(struct mpi_group *group, const struct mpi_api *api, MPI_Comm mpi, double timeout_s);
/* Without its communicator. After a failure MPI may still write into the scratch, which then stays. */
void mpi_group_free(struct mpi_group *group);

/* A call of MPI that waits for other ranks without a limit, and its result. */
struct mpi_call {
    int (*function)(struct mpi_call *call); /* set by mpi_bounded */
    const struct mpi_api *api;
    MPI_Comm comm, made;
    MPI_Group members;
    int level, error; /* level: MPI's thread level, or the exit code for MPI_Abort */
};
/* Runs the function on another thread. AORTA_TIMEOUT when it does not return in time: the thread is then
 * abandoned, as is everything that could wait for it. `rank` of `size` is for the message. */
aorta_status mpi_bounded(int (*function)(struct mpi_call *call), struct mpi_call *call, const char *name, int rank,
                         int size, double timeout_s);

/* ---- waiting ---- */

/* Waits until all requests are complete; sleeps between polls. AORTA_TIMEOUT after timeout_s; the caller
 * adds the ranks and the reason of the wait. Empties the list. */
aorta_status mpi_wait(struct mpi_requests *requests, double timeout_s);
/* A place for one more request; NULL when memory is exhausted. */
MPI_Request *mpi_request_add(struct mpi_requests *requests);
/* NULL for MPI_SUCCESS, else AORTA_COMM with MPI's own words. */
aorta_status mpi_check(const struct mpi_api *api, int error, const char *function);

#endif
