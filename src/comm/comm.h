/* Collectives, ordered on a stream, over groups of ranks.
 *
 * All ranks of a group call the same collectives on it in the same order. A collective counts elements of `dtype`;
 * sums of fp16 and bf16 are accumulated in fp32 and rounded once. Send and receive buffers may be the same memory where
 * noted (in place), else must not overlap. Zero counts are allowed.
 *
 * Backends: "local" (one rank: a copy of the same bytes; results are marked `simulated`), "mpi" (host memory),
 * "nccl" (GPUs). Calls return once queued; while a collective is in flight it yields the processor between polls, so
 * that compute on the other streams goes on.
 *
 * Failures reach the stream (device.h): AORTA_TIMEOUT names the collective, group, own rank and the time waited.
 * Threads: different groups may be used from different streams at the same time; one group from one stream at a time.
 */
#ifndef AORTA_COMM_COMM_H
#define AORTA_COMM_COMM_H

#include "base/collective.h"
#include "base/dtype.h"
#include "comm/ranks.h"
#include "device/device.h"

struct aorta_comm;

enum aorta_reduction { AORTA_SUM, AORTA_MAX };

struct aorta_comm_options {
    struct aorta_device *device; /* borrowed; outlives the group */
    const char *backend;         /* "auto", "local", "mpi", "gloo" (means mpi), "nccl" */
    struct aorta_ranks ranks;    /* as found by aorta_ranks_detect */
    double timeout_s;            /* longest a collective may wait for its peers */
};

/* The group of all ranks. AORTA_UNSUPPORTED when the backend cannot serve this device or start method; the message
 * says which commands would work. */
AORTA_MUST_USE aorta_status aorta_comm_open(const struct aorta_comm_options *options, struct aorta_comm **comm);
/* A group of `count` ranks of `parent` (its numbering), called by every rank of the parent with its own list, as all
 * ranks agree who is with whom; a rank that passes count 0 gets NULL. Same list as the parent: an independent
 * duplicate, whose collectives run beside the parent's. */
AORTA_MUST_USE aorta_status aorta_comm_split(struct aorta_comm *parent, const int *ranks, int count,
                                             struct aorta_comm **comm);
/* Ends a group; collective over its members. All queued work must have finished. NULL is fine. */
void aorta_comm_close(struct aorta_comm *comm);

int aorta_comm_rank(const struct aorta_comm *comm);
int aorta_comm_size(const struct aorta_comm *comm);
const char *aorta_comm_backend(const struct aorta_comm *comm); /* "local", "mpi", "nccl" */
bool aorta_comm_simulated(const struct aorta_comm *comm);      /* true for "local" */

/* receive[count] = reduction over ranks of send[count]; in place allowed (send == receive). */
AORTA_MUST_USE aorta_status aorta_all_reduce(struct aorta_comm *comm, struct aorta_stream *stream, const void *send,
                                             void *receive, size_t count, enum aorta_dtype dtype,
                                             enum aorta_reduction reduction);
/* receive[count] = this rank's block of the reduction of send[size × count]; in place: receive == send + rank × count.
 */
AORTA_MUST_USE aorta_status aorta_reduce_scatter(struct aorta_comm *comm, struct aorta_stream *stream, const void *send,
                                                 void *receive, size_t count, enum aorta_dtype dtype,
                                                 enum aorta_reduction reduction);
/* receive[size × count] = every rank's send[count]; in place: send == receive + rank × count. */
AORTA_MUST_USE aorta_status aorta_all_gather(struct aorta_comm *comm, struct aorta_stream *stream, const void *send,
                                             void *receive, size_t count, enum aorta_dtype dtype);
/* buffer[count] of `root` on every rank. */
AORTA_MUST_USE aorta_status aorta_broadcast(struct aorta_comm *comm, struct aorta_stream *stream, void *buffer,
                                            size_t count, enum aorta_dtype dtype, int root);
/* receive block i = rank i's send block `rank`; blocks of `count` elements. */
AORTA_MUST_USE aorta_status aorta_all_to_all(struct aorta_comm *comm, struct aorta_stream *stream, const void *send,
                                             void *receive, size_t count, enum aorta_dtype dtype);
AORTA_MUST_USE aorta_status aorta_barrier(struct aorta_comm *comm, struct aorta_stream *stream);

#endif
