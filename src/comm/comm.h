/* Collectives, ordered on a stream, over groups of ranks.
 *
 * All ranks of a group call the same collectives on it in the same order. A collective counts elements of `dtype`.
 * Send and receive buffers may be the same memory where noted (in place), else must not overlap. Zero counts are
 * allowed.
 *
 * Reductions on host memory: element by element, ranks are taken in the order 0, 1, 2, …; fp32, fp16 and bf16 are
 * accumulated in fp32 and rounded once at the end (round to nearest even), so that the result is the same on every
 * rank, in every run and for every way of cutting the work into groups of elements. int32 and int64 wrap around. A NaN
 * on any rank makes the element NaN, in AORTA_MAX too. uint8 cannot be reduced (AORTA_UNSUPPORTED).
 *
 * NCCL connects the ranks of a group at its first collective of each kind and blocks the host until all have called it:
 * ranks that share two groups must make these first calls in the same order.
 *
 * On GPUs the library has its own order and rounds its own way: 16-bit types may be rounded after every addition, and
 * what AORTA_MAX makes of a NaN is not defined.
 *
 * Backends: "local" (one rank: a copy of the same bytes; results are marked `simulated`), "mpi" (host memory),
 * "nccl" (GPUs: NCCL, RCCL). Calls return once queued; a collective on host memory sleeps between polls, so
 * that compute on other streams continues. In graphs they run with every replay.
 *
 * Failures on host memory reach the stream (device.h): AORTA_TIMEOUT names the collective, group, own rank and the time
 * waited. On GPUs a hanging collective blocks the whole device, so the device fails (aorta_device_fail): as soon as a
 * rank has died (AORTA_COMM names it; except under MPI, where mpirun ends the job), and once
 * the host has been blocked in one call on the device for timeout_s (AORTA_TIMEOUT). So timeout_s must be longer than
 * the longest wait in one call. A process that is still blocked after that is ended.
 * Threads: different groups may be used from different streams at the same time; one group from one stream at a time.
 */
#ifndef AORTA_COMM_COMM_H
#define AORTA_COMM_COMM_H

#include "base/collective.h"
#include "base/dtype.h"
#include "device/device.h"
#include "job/control.h"
#include "job/ranks.h"

struct aorta_comm;

enum aorta_reduction { AORTA_SUM, AORTA_MAX };

/* The names of backends: ROW(name). gloo means mpi. */
#define AORTA_COMM_BACKENDS(ROW) ROW(auto) ROW(local) ROW(mpi) ROW(gloo) ROW(nccl)
#define AORTA_COMM_NAME(name) AORTA_COMM_NAME_##name,
enum aorta_comm_name { AORTA_COMM_BACKENDS(AORTA_COMM_NAME) };
#undef AORTA_COMM_NAME

struct aorta_comm_options {
    struct aorta_device *device; /* borrowed; outlives the group */
    const char *backend;         /* a name of AORTA_COMM_BACKENDS */
    const char *backend_key;     /* the user's name of it, for messages: "--backend"; NULL: "backend" */
    struct aorta_ranks ranks;    /* as found by aorta_ranks_detect */
    double timeout_s;            /* longest a collective may wait for its peers */
};

/* The group of all ranks. AORTA_UNSUPPORTED when the backend cannot serve this device or start method; the message
 * says which commands would work. */
AORTA_MUST_USE aorta_status aorta_comm_open(const struct aorta_comm_options *options, struct aorta_comm **comm);
/* A group of `count` ranks of `parent` (its numbering), called by every rank of the parent with the list of its own
 * group, as all ranks agree on the groups. A rank that passes count 0 gets NULL. The list of all ranks gives an
 * independent duplicate, whose collectives run concurrently with the parent's. Overlapping groups come from several
 * calls. No work of the parent may be in flight. AORTA_USAGE, on every rank concerned, when two ranks passed different
 * lists. */
AORTA_MUST_USE aorta_status aorta_comm_split(struct aorta_comm *parent, const int *ranks, int count,
                                             struct aorta_comm **comm);
/* Ends a group; collective over its members. All queued work must have finished. NULL is fine. */
void aorta_comm_close(struct aorta_comm *comm);
/* Every rank calls this once, after the last close and before a successful end, as mpirun regards a rank that ends
 * without it as failed. Waits for the other ranks, so never call it after a failure (aorta_comm_abort is for
 * that). No group can be opened afterwards. `met`: the ranks if a group of all ranks was opened, else NULL.
 * AORTA_TIMEOUT or AORTA_COMM when a rank gives no sign of life for timeout_s; then call aorta_comm_abort. */
AORTA_MUST_USE aorta_status aorta_comm_shutdown(const struct aorta_ranks *met, double timeout_s);
/* aorta_comm_shutdown in two halves, aorta_leave_end being the second: in between a rank may do its own work for any
 * time, while its thread sends heartbeats. The second half returns the failures of both. */
AORTA_MUST_USE aorta_status aorta_comm_leave_begin(const struct aorta_ranks *met, double timeout_s,
                                                   struct aorta_leave **leave);
/* Ends this process and, where MPI joins them, all ranks, at once, with this exit code. `comm` may be NULL. */
_Noreturn void aorta_comm_abort(struct aorta_comm *comm, int exit_code);

int aorta_comm_rank(const struct aorta_comm *comm);
int aorta_comm_size(const struct aorta_comm *comm);
const char *aorta_comm_backend(const struct aorta_comm *comm); /* "local", "mpi", "nccl" */
/* The backend's library with its version, "nccl 2.27.3"; `text` receives at most `capacity` bytes and is returned. */
const char *aorta_comm_version(struct aorta_comm *comm, char *text, size_t capacity);
bool aorta_comm_simulated(
    const struct aorta_comm *comm); /* a collective is a copy: "local", and any group of one rank */
/* Something the user should know about the choice of backend ("gloo means mpi here"), for the caller to log; NULL:
 * nothing. Static. */
const char *aorta_comm_note(const struct aorta_comm *comm);
/* The MPI library that would be loaded ("Open MPI v4.1.4, …"; "not found"), first line only; does not start MPI. `text`
 * receives at most `capacity` bytes with the NUL and is returned. */
const char *aorta_comm_mpi_version(char *text, size_t capacity);
/* The libraries of collectives between GPUs (nccl.c). */
extern const struct aorta_library_description aorta_nccl_library, aorta_rccl_library;

AORTA_MUST_USE aorta_status aorta_all_reduce(struct aorta_comm *comm, struct aorta_stream *stream, const void *send,
                                             void *receive, size_t count, enum aorta_dtype dtype,
                                             enum aorta_reduction reduction);
/* buffer[count] of `root` on every rank. */
AORTA_MUST_USE aorta_status aorta_broadcast(struct aorta_comm *comm, struct aorta_stream *stream, void *buffer,
                                            size_t count, enum aorta_dtype dtype, int root);
AORTA_MUST_USE aorta_status aorta_barrier(struct aorta_comm *comm, struct aorta_stream *stream);

/* Device memory that all ranks of the groups reach on each other's GPU: collectives between such memory, at equal
 * places on all ranks, need no buffers in between and fewer multiprocessors. All ranks of the groups make this call
 * with equal arguments. Freed by aorta_device_free, before the groups are closed; contents undefined. At most
 * AORTA_COMM_MAX_SHARERS groups. AORTA_UNSUPPORTED names the reason: another backend than "nccl", NCCL before 2.27,
 * GPUs that cannot reach each other. NCCL 2.28.3 gives wrong values for several pieces of it in one collective (two
 * H200, 2026-11-22). */
enum { AORTA_COMM_MAX_SHARERS = 2 };
AORTA_MUST_USE aorta_status aorta_comm_alloc(struct aorta_comm *const *comms, int count, size_t bytes, const char *what,
                                             void **memory);

/* ---- any collective ---- */

/* The buffers of a collective of `size` ranks:
 *
 *   all-reduce      receive[count] = the reduction of send[count]; in place: receive == send
 *   reduce-scatter  receive[count] = this rank's block of the reduction of send[size × count]; in place: receive ==
 *                   send + rank × count
 *   all-gather      receive[size × count] = every rank's send[count]; in place: send == receive + rank × count
 *   all-to-all      block i of receive = block `rank` of rank i's send; blocks of `count` elements
 *
 * They overlap no other piece's. */
struct aorta_comm_piece {
    const void *send;
    void *receive;
    size_t count;
};
enum { AORTA_COMM_MAX_PIECES = 16 };

/* An all-gather or a reduce-scatter takes 1 to AORTA_COMM_MAX_PIECES pieces as one collective: it has one place in the
 * order of the group's collectives and one name in messages, NCCL runs it as one kernel, MPI sends all pieces before it
 * waits for any. All ranks pass equal counts in one order. All other collectives have one piece.
 *
 * An all-to-all may have parts of unequal size: rank i gets the i-th part of `send`, of send_counts[i] elements, and
 * its part for this rank becomes the i-th of `receive`; parts follow each other. Each rank expects exactly the sent
 * count. Both arrays, one count per rank, stay unchanged until the collective has run. */
struct aorta_comm_call {
    enum aorta_collective kind;
    enum aorta_dtype dtype;
    enum aorta_reduction reduction;
    int root;
    size_t count; /* set by the call: elements of all pieces, or with unequal parts of the larger buffer */
    const size_t *send_counts, *receive_counts; /* NULL: equal parts */
    int piece_count;
    struct aorta_comm_piece pieces[AORTA_COMM_MAX_PIECES];
};
AORTA_MUST_USE aorta_status aorta_collective(struct aorta_comm *comm, struct aorta_stream *stream,
                                             const struct aorta_comm_call *call);
/* Bytes of the larger buffer of one of `size` ranks, as nccl-tests count. */
int64_t aorta_comm_bytes(const struct aorta_comm_call *call, int size);

#endif
