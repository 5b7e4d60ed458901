/* The interface of a backend of the collectives. One const table each: comm.c (one rank), mpi.c, nccl.c. */
#ifndef AORTA_COMM_BACKEND_H
#define AORTA_COMM_BACKEND_H

#include "base/dtype.h"
#include "base/status.h"
#include "comm/comm.h"
#include "job/beacon.h"
#include "job/control.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct aorta_comm_backend {
    const char *name;
    bool simulated;
    /* Fill rank, size and state of `comm`, whose other fields are set. On failure nothing stays allocated. */
    aorta_status (*open)(const struct aorta_comm_options *options, struct aorta_comm *comm);
    /* Makes `comm`, a copy of `parent`, the group of the given ranks. With count 0 it only takes part in the agreement
     * and fills nothing. */
    aorta_status (*split)(struct aorta_comm *parent, const int *ranks, int count, struct aorta_comm *comm);
    void (*close)(struct aorta_comm *comm); /* NULL: there is nothing to do */
    /* comm.c has checked the call. If NULL, the backend's kernel runs it (aorta_mpi_kernel, aorta_nccl_kernel). */
    aorta_status (*enqueue)(struct aorta_comm *comm, struct aorta_stream *stream, const struct aorta_comm_call *call);
    /* NULL: no library. At most `capacity` bytes, with the NUL. */
    void (*version)(struct aorta_comm *comm, char *text, size_t capacity);
    /* NULL: not available. */
    aorta_status (*alloc)(struct aorta_comm *const *comms, int count, size_t bytes, const char *what, void **memory);
};

struct aorta_comm {
    const struct aorta_comm_backend *backend;
    struct aorta_device *device;
    const char *note;
    double timeout_s;
    int rank, size;
    void *state; /* the backend's own */
};

extern const struct aorta_comm_backend aorta_comm_local;
extern const struct aorta_comm_backend aorta_comm_mpi;
extern const struct aorta_comm_backend aorta_comm_nccl;

/* What a collective's kernel gets. */
struct aorta_comm_work {
    void *state; /* of the group */
    struct aorta_comm_call call;
};
aorta_status aorta_mpi_kernel(const void *work);
aorta_status aorta_nccl_kernel(struct aorta_stream *stream, const void *work);

/* "all_gather #12 of 2 ranks, 1.0 MiB": the 12th collective of a group of this size. */
void aorta_comm_describe(const struct aorta_comm_call *call, uint64_t sequence, int size, char text[AORTA_BEACON_TEXT]);

/* For aorta_control_open. (mpi_run.c) */
extern const struct aorta_control_transport aorta_control_over_mpi;

/* Ends the process, with or without open groups; does nothing if MPI was never joined. */
void aorta_mpi_abort(int exit_code);

/* ---- calls that wait for other ranks without end, with a time limit ---- */

/* Runs function(argument) on another thread and waits for its end, for at most timeout_s or until *cancelled is set
 * (`cancelled` may be NULL). The thread works on a copy of the `bytes` of *argument, which is copied back at its end.
 * Returns 0, ETIMEDOUT or ECANCELED if the thread has not ended, or another errno if no thread could be started. A
 * thread that has not ended is abandoned, so the function may use only its argument and the library. */
int aorta_bounded(void (*function)(void *argument), void *argument, size_t bytes, double timeout_s,
                  const _Atomic bool *cancelled);

/* AORTA_TIMEOUT: "NAME: rank 1 of 2 waited 3.0 s for its peers; …". */
AORTA_MUST_USE aorta_status aorta_bounded_late(const char *name, int rank, int size, double timeout_s);

/* ---- reducing in host memory ---- */

/* out[count] = reduction over blocks[0..ranks) of count elements each, in that order. `out` may be one of the blocks.
 * Any type but uint8. */
void aorta_reduce_blocks(void *out, const void *const *blocks, int ranks, size_t count, enum aorta_dtype dtype,
                         enum aorta_reduction reduction);

#endif
