/* The collectives, over MPI's point-to-point messages.
 *
 * MPI's own nonblocking collectives are not used (but for the barrier): MPI knows no bf16, would round 16-bit sums at
 * every step, and Open MPI's reduce-scatter ran at a tenth of the memory's speed. Direct exchange between all pairs
 * moves the least data that any method can for all-gather, reduce-scatter, all-to-all and all-reduce (Thakur,
 * Rabenseifner, Gropp 2005, "Optimization of Collective Communication Operations in MPICH"), and inside a host Open
 * MPI copies a message once, straight from the sender's memory.
 */
#include "comm/mpi_group.h"

#include "comm/reduce.h"

#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES ((size_t)4 << 20) /* longest single message, so that groups take turns in MPI's progress */
#define PIECE_BYTES                                                                                                    \
    ((size_t)256 << 10)               /* of a block on its way into a sum: the pieces of a few ranks fit the cache     \
                                       */
#define SMALL_BYTES ((size_t)8 << 10) /* all-reduce: up to here every rank sends everything to all, in one step */

enum tag { TAG_GATHER = 1, TAG_REDUCE, TAG_SHARE, TAG_BROADCAST, TAG_EXCHANGE };

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* ---- messages ---- */

static aorta_status out_of_memory(void) {
    return AORTA_ERROR(AORTA_MEMORY, "out of memory for a collective's own buffers");
}

static aorta_status send_pieces(struct mpi_group *group, const char *from, size_t bytes, size_t piece, int peer,
                                enum tag tag) {
    for (size_t at = 0; at < bytes; at += piece) {
        MPI_Request *request = mpi_request_add(&group->sends);
        if (!request) return out_of_memory();
        int length = (int)smaller(piece, bytes - at);
        int error = group->api.Isend(from + at, length, group->api.byte, peer, tag, group->mpi, request);
        AORTA_TRY(mpi_check(&group->api, error, "MPI_Isend"));
    }
    return NULL;
}

static aorta_status receive_pieces(struct mpi_group *group, char *to, size_t bytes, size_t piece, int peer,
                                   enum tag tag) {
    for (size_t at = 0; at < bytes; at += piece) {
        MPI_Request *request = mpi_request_add(&group->receives);
        if (!request) return out_of_memory();
        int length = (int)smaller(piece, bytes - at);
        int error = group->api.Irecv(to + at, length, group->api.byte, peer, tag, group->mpi, request);
        AORTA_TRY(mpi_check(&group->api, error, "MPI_Irecv"));
    }
    return NULL;
}

static aorta_status wait_all(struct mpi_group *group) {
    AORTA_TRY(mpi_wait(&group->receives, group->timeout_s));
    return mpi_wait(&group->sends, group->timeout_s);
}

/* Each rank starts with its neighbour, so that no rank is everybody's first. */
static int peer_at(const struct mpi_group *group, int step) {
    return (int)(((int64_t)group->rank + step) % group->size);
}

static aorta_status reserve_scratch(struct mpi_group *group, size_t bytes) {
    if (group->scratch_bytes >= bytes) return NULL;
    char *grown = realloc(group->scratch, bytes);
    if (!grown) return out_of_memory();
    group->scratch = grown;
    group->scratch_bytes = bytes;
    return NULL;
}

/* ---- blocks: a buffer of `total` bytes cut into one block of `block` bytes per rank, the last ones shorter ---- */

struct blocks {
    size_t total, block;
};

static size_t block_start(const struct blocks *blocks, int rank) {
    return smaller((size_t)rank * blocks->block, blocks->total);
}

static size_t block_bytes(const struct blocks *blocks, int rank) {
    return smaller(blocks->block, blocks->total - block_start(blocks, rank));
}

/* Every rank's block goes to its place in everybody's `receive`; `own` is this rank's. */
static aorta_status gather(struct mpi_group *group, const struct blocks *blocks, const char *own, char *receive,
                           enum tag tag) {
    size_t bytes = block_bytes(blocks, group->rank);
    for (int step = 1; step < group->size; step++) {
        int to = peer_at(group, step), from = peer_at(group, group->size - step);
        AORTA_TRY(receive_pieces(group, receive + block_start(blocks, from), block_bytes(blocks, from), MESSAGE_BYTES,
                                 from, tag));
        AORTA_TRY(send_pieces(group, own, bytes, MESSAGE_BYTES, to, tag));
    }
    char *place = receive + block_start(blocks, group->rank);
    if (place != own && bytes) memcpy(place, own, bytes);
    return wait_all(group);
}

/* Receives bytes [at, at + length) of every peer's version of our block and reduces them with our own into `out`. */
static aorta_status reduce_piece(struct mpi_group *group, const struct aorta_comm_call *call, const char *own,
                                 char *out, size_t length, enum tag tag, const void **inputs) {
    for (int step = 1; step < group->size; step++) {
        int peer = peer_at(group, step);
        char *place = group->scratch + (size_t)(step - 1) * length;
        inputs[peer] = place;
        AORTA_TRY(receive_pieces(group, place, length, length, peer, tag));
    }
    inputs[group->rank] = own;
    AORTA_TRY(mpi_wait(&group->receives, group->timeout_s));
    aorta_reduce_blocks(out, inputs, group->size, length / aorta_dtype_size(call->dtype), call->dtype, call->reduction);
    return NULL;
}

/* `out` = this rank's block of the reduction of everybody's `send`. All pieces are offered at once; each rank takes
 * and reduces those of its block one after the other, so no rank waits for the slower sums of another. */
static aorta_status reduce_scatter(struct mpi_group *group, const struct aorta_comm_call *call,
                                   const struct blocks *blocks, char *out, const void **inputs) {
    const char *send = call->send, *own = send + block_start(blocks, group->rank);
    size_t bytes = block_bytes(blocks, group->rank);
    AORTA_TRY(reserve_scratch(group, (size_t)(group->size - 1) * smaller(bytes, PIECE_BYTES)));
    for (int step = 1; step < group->size; step++) {
        int to = peer_at(group, step);
        AORTA_TRY(
            send_pieces(group, send + block_start(blocks, to), block_bytes(blocks, to), PIECE_BYTES, to, TAG_REDUCE));
    }
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        size_t length = smaller(PIECE_BYTES, bytes - at);
        AORTA_TRY(reduce_piece(group, call, own + at, out + at, length, TAG_REDUCE, inputs));
    }
    return mpi_wait(&group->sends, group->timeout_s);
}

/* ---- one function per collective; `bytes` are those of call->count elements ---- */

static aorta_status run_all_gather(struct mpi_group *group, const struct aorta_comm_call *call, size_t bytes) {
    const struct blocks blocks = {bytes * (size_t)group->size, bytes};
    return gather(group, &blocks, call->send, call->receive, TAG_GATHER);
}

static aorta_status with_inputs(struct mpi_group *group, const void ***inputs) {
    *inputs = calloc((size_t)group->size, sizeof **inputs);
    return *inputs ? NULL : out_of_memory();
}

static aorta_status run_reduce_scatter(struct mpi_group *group, const struct aorta_comm_call *call, size_t bytes) {
    const struct blocks blocks = {bytes * (size_t)group->size, bytes};
    const void **inputs;
    AORTA_TRY(with_inputs(group, &inputs));
    aorta_status status = reduce_scatter(group, call, &blocks, call->receive, inputs);
    free(inputs);
    return status;
}

static aorta_status all_reduce_small(struct mpi_group *group, const struct aorta_comm_call *call, size_t bytes,
                                     const void **inputs) {
    AORTA_TRY(reserve_scratch(group, (size_t)group->size * bytes));
    for (int step = 1; step < group->size; step++) {
        AORTA_TRY(send_pieces(group, call->send, bytes, bytes, peer_at(group, step), TAG_SHARE));
    }
    /* The sum may go where our own send buffer is, so it waits in the scratch until everybody has ours. */
    char *sum = group->scratch + (size_t)(group->size - 1) * bytes;
    AORTA_TRY(reduce_piece(group, call, call->send, sum, bytes, TAG_SHARE, inputs));
    AORTA_TRY(mpi_wait(&group->sends, group->timeout_s));
    memcpy(call->receive, sum, bytes);
    return NULL;
}

static aorta_status all_reduce_large(struct mpi_group *group, const struct aorta_comm_call *call, size_t bytes,
                                     const void **inputs) {
    size_t element = aorta_dtype_size(call->dtype), size = (size_t)group->size;
    const struct blocks blocks = {bytes, (call->count + size - 1) / size * element};
    char *receive = call->receive, *own = receive + block_start(&blocks, group->rank);
    AORTA_TRY(reduce_scatter(group, call, &blocks, own, inputs));
    return gather(group, &blocks, own, receive, TAG_GATHER);
}

static aorta_status run_all_reduce(struct mpi_group *group, const struct aorta_comm_call *call, size_t bytes) {
    const void **inputs;
    AORTA_TRY(with_inputs(group, &inputs));
    aorta_status status = bytes <= SMALL_BYTES ? all_reduce_small(group, call, bytes, inputs)
                                               : all_reduce_large(group, call, bytes, inputs);
    free(inputs);
    return status;
}

static aorta_status run_broadcast(struct mpi_group *group, const struct aorta_comm_call *call, size_t bytes) {
    if (group->rank != call->root) {
        AORTA_TRY(receive_pieces(group, call->receive, bytes, MESSAGE_BYTES, call->root, TAG_BROADCAST));
        return wait_all(group);
    }
    for (int step = 1; step < group->size; step++) {
        AORTA_TRY(send_pieces(group, call->send, bytes, MESSAGE_BYTES, peer_at(group, step), TAG_BROADCAST));
    }
    return wait_all(group);
}

static aorta_status run_all_to_all(struct mpi_group *group, const struct aorta_comm_call *call, size_t bytes) {
    const char *send = call->send;
    char *receive = call->receive;
    for (int step = 1; step < group->size; step++) {
        int to = peer_at(group, step), from = peer_at(group, group->size - step);
        AORTA_TRY(receive_pieces(group, receive + (size_t)from * bytes, bytes, MESSAGE_BYTES, from, TAG_EXCHANGE));
        AORTA_TRY(send_pieces(group, send + (size_t)to * bytes, bytes, MESSAGE_BYTES, to, TAG_EXCHANGE));
    }
    size_t own = (size_t)group->rank * bytes;
    memcpy(receive + own, send + own, bytes);
    return wait_all(group);
}

static aorta_status run_barrier(struct mpi_group *group, const struct aorta_comm_call *call, size_t bytes) {
    (void)call;
    (void)bytes;
    MPI_Request *request = mpi_request_add(&group->receives);
    if (!request) return out_of_memory();
    AORTA_TRY(mpi_check(&group->api, group->api.Ibarrier(group->mpi, request), "MPI_Ibarrier"));
    return mpi_wait(&group->receives, group->timeout_s);
}

typedef aorta_status collective_function(struct mpi_group *group, const struct aorta_comm_call *call, size_t bytes);

static collective_function *const functions[AORTA_COLLECTIVE_COUNT] = {
    [AORTA_ALL_REDUCE] = run_all_reduce, [AORTA_REDUCE_SCATTER] = run_reduce_scatter,
    [AORTA_ALL_GATHER] = run_all_gather, [AORTA_BROADCAST] = run_broadcast,
    [AORTA_ALL_TO_ALL] = run_all_to_all, [AORTA_BARRIER] = run_barrier,
};

/* ---- running ---- */

aorta_status mpi_run(struct mpi_group *group, const struct aorta_comm_call *call) {
    char text[AORTA_BEACON_TEXT];
    group->sequence++;
    aorta_comm_describe(call, group->sequence, group->size, text);
    if (group->failed) return AORTA_ERROR(AORTA_COMM, "%s: an earlier collective of this group has failed", text);
    aorta_beacon_set(group->beacon, text);
    if (call->count == 0 && call->kind != AORTA_BARRIER) return NULL;
    aorta_status status = functions[call->kind](group, call, call->count * aorta_dtype_size(call->dtype));
    if (!status) return NULL;
    group->failed = true;
    if (aorta_status_code(status) != AORTA_TIMEOUT) return aorta_annotate(status, "%s: rank %d", text, group->rank);
    double waited_s = group->timeout_s;
    aorta_status_free(status);
    return AORTA_ERROR(AORTA_TIMEOUT,
                       "%s: rank %d waited %.1f s for its peers; is a rank dead or late? "
                       "(distributed.timeout_s)",
                       text, group->rank, waited_s);
}
