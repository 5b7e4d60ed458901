/* Waiting for messages without taking the processor from compute.
 *
 * MPI moves data only inside its calls, so a thread has to poll. A thread that polls all the time takes the core from
 * compute; one that sleeps long leaves the link idle between the pieces of a message. So it polls again at once after a
 * poll that did work and for a moment afterwards, then sleeps in growing steps. Yielding would be worse for both: on a
 * busy core the thread loses its turn, which is milliseconds, while a thread that slept for 20 µs runs at once when it
 * wakes. (So mpi_yield_when_idle is left to Open MPI, which sets it for more ranks than cores.) */
#include "base/array.h"
#include "base/clock.h"
#include "comm/backend.h"
#include "comm/mpi_internal.h"
#include "job/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define WORKED_NS 30000 /* processor time of a poll that moved data; an idle one needs 1 to 10 µs */
#define POLL_NS 10000   /* after the last work, polls continue without sleep for this time */
#define SLEEP_FIRST_NS 20000
#define SLEEP_LAST_NS 250000
#define TIMER_SLACK_NS 1000 /* Linux's default of 50 µs would more than double the short sleeps */

static int64_t thread_time_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* `idle_ns`: time since data last moved. The sleep is a sixteenth of it, within bounds. So it makes a long wait at most
 * a sixteenth longer, and the polls use some 3% of a core. */
static void back_off(int64_t idle_ns) {
    if (idle_ns < POLL_NS) return;
    int64_t sleep_ns = idle_ns / 16;
    if (sleep_ns < SLEEP_FIRST_NS) sleep_ns = SLEEP_FIRST_NS;
    if (sleep_ns > SLEEP_LAST_NS) sleep_ns = SLEEP_LAST_NS;
    nanosleep(&(struct timespec){.tv_nsec = sleep_ns}, NULL);
}

aorta_status mpi_check(const struct mpi_api *api, int error, const char *function) {
    if (error == MPI_SUCCESS) return NULL;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    /* Before MPI_Init and after MPI_Finalize MPI ends the process that asks. */
    if (!mpi_joined(api) || api->Error_string(error, text, &length) != MPI_SUCCESS)
        length = snprintf(text, sizeof text, "it failed");
    return AORTA_ERROR(AORTA_COMM, "%s: %.*s (error %d)", function, length, text, error);
}

aorta_status mpi_wait(struct mpi_requests *requests, double timeout_s) {
    const int64_t start_ns = aorta_clock_ns();
    int64_t worked_ns = start_ns, before_ns = thread_time_ns();
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    for (;;) {
        int done = 0;
        int error = requests->api->Testall(requests->count, requests->items, &done, MPI_STATUSES_IGNORE);
        AORTA_TRY(mpi_check(requests->api, error, "MPI_Testall"));
        if (done) break;
        int64_t after_ns = thread_time_ns(), now_ns = aorta_clock_ns();
        double waited_s = (double)(now_ns - start_ns) * 1e-9;
        if (waited_s > timeout_s) return AORTA_ERROR(AORTA_TIMEOUT, "waited %.1f s for its peers", waited_s);
        if (after_ns - before_ns > WORKED_NS)
            worked_ns = now_ns;
        else
            back_off(now_ns - worked_ns);
        before_ns = thread_time_ns();
    }
    requests->count = 0;
    return NULL;
}

MPI_Request *mpi_request_add(struct mpi_requests *requests) {
    const size_t count = (size_t)requests->count + 1;
    if (!aorta_array_fit(&requests->items, &requests->capacity, count, sizeof *requests->items)) return NULL;
    MPI_Request *added = &requests->items[requests->count++];
    *added = requests->api->request_null;
    return added;
}

/* ---- collectives ----
 * The collectives, over MPI's point-to-point messages.
 *
 * MPI's own nonblocking collectives are not used (but for the barrier): MPI knows no bf16, would round 16-bit sums at
 * every step, and Open MPI's reduce-scatter ran at a tenth of the memory's speed. Direct exchange between all pairs
 * moves the least data that any method can for all-gather, reduce-scatter, all-to-all and all-reduce (Thakur,
 * Rabenseifner, Gropp 2005, "Optimization of Collective Communication Operations in MPICH"), and inside a host Open
 * MPI copies a message once, straight from the sender's memory.
 */

#define MESSAGE_BYTES ((size_t)4 << 20) /* longest single message, so that groups take turns in MPI's progress */
#define PART_BYTES ((size_t)256 << 10)  /* of received blocks to be summed: those of a few ranks fit the cache */
#define SMALL_BYTES ((size_t)8 << 10)   /* all-reduce: up to here every rank sends everything to all, in one step */

enum tag { TAG_GATHER = 1, TAG_REDUCE, TAG_SHARE, TAG_BROADCAST, TAG_EXCHANGE };

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* ---- messages ---- */

static aorta_status out_of_memory(void) {
    return AORTA_ERROR(AORTA_MEMORY, "out of memory for a collective's own buffers");
}

static aorta_status send_parts(struct mpi_group *group, const char *from, size_t bytes, size_t part, int peer,
                               enum tag tag) {
    for (size_t at = 0; at < bytes; at += part) {
        MPI_Request *request = mpi_request_add(&group->sends);
        if (!request) return out_of_memory();
        int length = (int)smaller(part, bytes - at);
        int error = group->api.Isend(from + at, length, group->api.byte, peer, tag, group->mpi, request);
        AORTA_TRY(mpi_check(&group->api, error, "MPI_Isend"));
    }
    return NULL;
}

static aorta_status receive_parts(struct mpi_group *group, char *to, size_t bytes, size_t part, int peer,
                                  enum tag tag) {
    for (size_t at = 0; at < bytes; at += part) {
        MPI_Request *request = mpi_request_add(&group->receives);
        if (!request) return out_of_memory();
        int length = (int)smaller(part, bytes - at);
        int error = group->api.Irecv(to + at, length, group->api.byte, peer, tag, group->mpi, request);
        AORTA_TRY(mpi_check(&group->api, error, "MPI_Irecv"));
    }
    return NULL;
}

static aorta_status wait_all(struct mpi_group *group) {
    AORTA_TRY(mpi_wait(&group->receives, group->timeout_s));
    return mpi_wait(&group->sends, group->timeout_s);
}

/* Each rank starts with its neighbour, so that not all ranks start with the same peer. */
static int peer_at(const struct mpi_group *group, int step) {
    return (int)(((int64_t)group->rank + step) % group->size);
}

static aorta_status reserve_scratch(struct mpi_group *group, size_t bytes) {
    return aorta_array_fit(&group->scratch, &group->scratch_bytes, bytes, 1) ? NULL : out_of_memory();
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

/* Starts the transfer of every rank's block to its place in every rank's `receive`; `own` is this rank's block.
 * wait_all ends it. */
static aorta_status offer_gather(struct mpi_group *group, const struct blocks *blocks, const char *own, char *receive,
                                 enum tag tag) {
    size_t bytes = block_bytes(blocks, group->rank);
    for (int step = 1; step < group->size; step++) {
        int to = peer_at(group, step), from = peer_at(group, group->size - step);
        AORTA_TRY(receive_parts(group, receive + block_start(blocks, from), block_bytes(blocks, from), MESSAGE_BYTES,
                                from, tag));
        AORTA_TRY(send_parts(group, own, bytes, MESSAGE_BYTES, to, tag));
    }
    char *place = receive + block_start(blocks, group->rank);
    if (place != own && bytes) memcpy(place, own, bytes);
    return NULL;
}

/* ---- sums ---- */

/* Parts of this rank's own blocks that are received and summed together, so that small ones share a wait. */
struct batch {
    int count;
    size_t bytes; /* of all parts */
    struct part {
        const char *own; /* this rank's version */
        char *out;       /* where the sum goes */
        size_t bytes;
    } parts[AORTA_COMM_MAX_PIECES];
};

/* Receives every peer's versions of the parts and reduces them with our own. Empties the batch. `inputs` holds
 * a pointer per rank. */
static aorta_status reduce_batch(struct mpi_group *group, const struct aorta_comm_call *call, struct batch *batch,
                                 enum tag tag, const void **inputs) {
    char *place = group->scratch;
    for (int i = 0; i < batch->count; i++) {
        size_t bytes = batch->parts[i].bytes;
        for (int step = 1; step < group->size; step++, place += bytes)
            AORTA_TRY(receive_parts(group, place, bytes, bytes, peer_at(group, step), tag));
    }
    AORTA_TRY(mpi_wait(&group->receives, group->timeout_s));
    place = group->scratch;
    for (int i = 0; i < batch->count; i++) {
        const struct part *part = &batch->parts[i];
        inputs[group->rank] = part->own;
        for (int step = 1; step < group->size; step++, place += part->bytes) inputs[peer_at(group, step)] = place;
        aorta_reduce_blocks(part->out, inputs, group->size, part->bytes / aorta_dtype_size(call->dtype), call->dtype,
                            call->reduction);
    }
    *batch = (struct batch){0};
    return NULL;
}

/* A buffer in a reduce-scatter: every rank gets the sum of its own block. */
struct reduced {
    struct blocks blocks;
    const char *send;
    char *out;
};

static aorta_status offer_blocks(struct mpi_group *group, const struct reduced *list, int count) {
    for (int step = 1; step < group->size; step++) {
        int to = peer_at(group, step);
        for (int i = 0; i < count; i++) {
            const struct blocks *blocks = &list[i].blocks;
            AORTA_TRY(send_parts(group, list[i].send + block_start(blocks, to), block_bytes(blocks, to), PART_BYTES, to,
                                 TAG_REDUCE));
        }
    }
    return NULL;
}

/* The sends of all parts start at once. Each rank receives and reduces the parts of its own blocks in batches, so that
 * no rank waits for the slower sums of another rank. */
static aorta_status reduce_scatter(struct mpi_group *group, const struct aorta_comm_call *call,
                                   const struct reduced *list, int count, const void **inputs) {
    size_t total = 0;
    for (int i = 0; i < count; i++) total += block_bytes(&list[i].blocks, group->rank);
    AORTA_TRY(reserve_scratch(group, (size_t)(group->size - 1) * smaller(total, PART_BYTES)));
    AORTA_TRY(offer_blocks(group, list, count));
    struct batch batch = {0};
    for (int i = 0; i < count; i++) {
        const char *own = list[i].send + block_start(&list[i].blocks, group->rank);
        size_t bytes = block_bytes(&list[i].blocks, group->rank);
        for (size_t at = 0; at < bytes; at += PART_BYTES) {
            size_t length = smaller(PART_BYTES, bytes - at);
            if (batch.bytes + length > PART_BYTES || batch.count == AORTA_COMM_MAX_PIECES)
                AORTA_TRY(reduce_batch(group, call, &batch, TAG_REDUCE, inputs));
            batch.parts[batch.count++] = (struct part){own + at, list[i].out + at, length};
            batch.bytes += length;
        }
    }
    AORTA_TRY(reduce_batch(group, call, &batch, TAG_REDUCE, inputs));
    return mpi_wait(&group->sends, group->timeout_s);
}

/* ---- one function per collective; `bytes` are those of call->count elements ---- */

/* A piece of an all-gather or reduce-scatter: one block per rank, all of a size. */
static struct blocks blocks_of(const struct mpi_group *group, const struct aorta_comm_call *call, int piece) {
    size_t bytes = call->pieces[piece].count * aorta_dtype_size(call->dtype);
    return (struct blocks){bytes * (size_t)group->size, bytes};
}

static aorta_status run_all_gather(struct mpi_group *group, const struct aorta_comm_call *call, size_t bytes) {
    (void)bytes;
    for (int i = 0; i < call->piece_count; i++) {
        const struct aorta_comm_piece *piece = &call->pieces[i];
        const struct blocks blocks = blocks_of(group, call, i);
        AORTA_TRY(offer_gather(group, &blocks, piece->send, piece->receive, TAG_GATHER));
    }
    return wait_all(group);
}

static aorta_status with_inputs(struct mpi_group *group, const void ***inputs) {
    *inputs = calloc((size_t)group->size, sizeof **inputs);
    return *inputs ? NULL : out_of_memory();
}

static aorta_status run_reduce_scatter(struct mpi_group *group, const struct aorta_comm_call *call, size_t bytes) {
    (void)bytes;
    struct reduced list[AORTA_COMM_MAX_PIECES];
    for (int i = 0; i < call->piece_count; i++)
        list[i] = (struct reduced){blocks_of(group, call, i), call->pieces[i].send, call->pieces[i].receive};
    const void **inputs;
    AORTA_TRY(with_inputs(group, &inputs));
    aorta_status status = reduce_scatter(group, call, list, call->piece_count, inputs);
    free(inputs);
    return status;
}

static aorta_status all_reduce_small(struct mpi_group *group, const struct aorta_comm_call *call, size_t bytes,
                                     const void **inputs) {
    AORTA_TRY(reserve_scratch(group, (size_t)group->size * bytes));
    for (int step = 1; step < group->size; step++)
        AORTA_TRY(send_parts(group, call->pieces->send, bytes, bytes, peer_at(group, step), TAG_SHARE));
    /* The sum may overwrite our send buffer, so it stays in the scratch memory until all ranks have received our
     * values. */
    char *sum = group->scratch + (size_t)(group->size - 1) * bytes;
    struct batch batch = {1, bytes, {{call->pieces->send, sum, bytes}}};
    AORTA_TRY(reduce_batch(group, call, &batch, TAG_SHARE, inputs));
    AORTA_TRY(mpi_wait(&group->sends, group->timeout_s));
    memcpy(call->pieces->receive, sum, bytes);
    return NULL;
}

static aorta_status all_reduce_large(struct mpi_group *group, const struct aorta_comm_call *call, size_t bytes,
                                     const void **inputs) {
    size_t element = aorta_dtype_size(call->dtype), size = (size_t)group->size;
    const struct blocks blocks = {bytes, (call->count + size - 1) / size * element};
    char *receive = call->pieces->receive, *own = receive + block_start(&blocks, group->rank);
    const struct reduced reduced = {blocks, call->pieces->send, own};
    AORTA_TRY(reduce_scatter(group, call, &reduced, 1, inputs));
    AORTA_TRY(offer_gather(group, &blocks, own, receive, TAG_GATHER));
    return wait_all(group);
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
        AORTA_TRY(receive_parts(group, call->pieces->receive, bytes, MESSAGE_BYTES, call->root, TAG_BROADCAST));
        return wait_all(group);
    }
    for (int step = 1; step < group->size; step++)
        AORTA_TRY(send_parts(group, call->pieces->send, bytes, MESSAGE_BYTES, peer_at(group, step), TAG_BROADCAST));
    return wait_all(group);
}

/* The part of an all-to-all's buffer that is for a rank, or from it; `block` bytes each where they are equal. */
struct part_place {
    size_t start, bytes;
};

static struct part_place part_of(const size_t *counts, enum aorta_dtype dtype, size_t block, int rank) {
    if (!counts) return (struct part_place){(size_t)rank * block, block};
    size_t before = 0;
    for (int i = 0; i < rank; i++) before += counts[i];
    return (struct part_place){before * aorta_dtype_size(dtype), counts[rank] * aorta_dtype_size(dtype)};
}

static aorta_status run_all_to_all(struct mpi_group *group, const struct aorta_comm_call *call, size_t bytes) {
    const char *send = call->pieces->send;
    char *receive = call->pieces->receive;
    for (int step = 1; step < group->size; step++) {
        int to = peer_at(group, step), from = peer_at(group, group->size - step);
        const struct part_place in = part_of(call->receive_counts, call->dtype, bytes, from);
        const struct part_place out = part_of(call->send_counts, call->dtype, bytes, to);
        AORTA_TRY(receive_parts(group, receive + in.start, in.bytes, MESSAGE_BYTES, from, TAG_EXCHANGE));
        AORTA_TRY(send_parts(group, send + out.start, out.bytes, MESSAGE_BYTES, to, TAG_EXCHANGE));
    }
    const struct part_place in = part_of(call->receive_counts, call->dtype, bytes, group->rank);
    const struct part_place out = part_of(call->send_counts, call->dtype, bytes, group->rank);
    if (in.bytes) memcpy(receive + in.start, send + out.start, in.bytes);
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
                       "(distributed.timeout_s, aorta hwq: --timeout-s)",
                       text, group->rank, waited_s);
}

/* ---- the ranks of a job ----
 * MPI for the ranks of a job, except collectives on streams: small exchanges on the host (job/control.h), and the end
 * of the processes that it has joined (job/control.h). */

#if __has_include(<sanitizer/lsan_interface.h>)
#include <sanitizer/lsan_interface.h>
#endif
#include <stdlib.h>

/* ---- control ---- */

static aorta_status control_open(const struct aorta_control_options *options, void **group) {
    struct aorta_comm *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "out of memory for a group of ranks");
    *made = (struct aorta_comm){.backend = &aorta_comm_mpi, .timeout_s = options->timeout_s};
    const struct aorta_comm_options like = {.ranks = options->ranks, .timeout_s = options->timeout_s};
    aorta_status status = aorta_comm_mpi.open(&like, made);
    if (status)
        free(made);
    else
        *group = made;
    return status;
}

static aorta_status control_split(void *parent, const int *ranks, int count, void **group) {
    struct aorta_comm *made;
    aorta_status status = aorta_comm_split(parent, ranks, count, &made);
    *group = made;
    return status;
}

static aorta_status control_share(void *group, void *data, size_t bytes) {
    const struct aorta_comm_call call = {
        .kind = AORTA_BROADCAST, .dtype = AORTA_U8, .count = bytes, .piece_count = 1, .pieces = {{data, data, bytes}}};
    return mpi_run(((struct aorta_comm *)group)->state, &call);
}

static void control_close(void *group) {
    aorta_comm_close(group);
}

/* mpirun itself ends the job when a rank dies. */
const struct aorta_control_transport aorta_control_over_mpi = {control_open, control_split, control_share, NULL,
                                                               control_close};

/* ---- the end ---- */

static aorta_status leave_open(double timeout_s, void **group) {
    struct mpi_api api;
    AORTA_TRY(mpi_load(&api));
    struct mpi_group *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "out of memory for the end of the ranks");
    aorta_status status = mpi_group_begin(made, &api, api.world, timeout_s);
    if (status)
        free(made);
    else
        *group = made;
    return status;
}

static aorta_status leave_any(void *group, bool own, bool *any) {
    int32_t mine = own, all = 0;
    const struct aorta_comm_call call = {.kind = AORTA_ALL_REDUCE,
                                         .dtype = AORTA_I32,
                                         .reduction = AORTA_MAX,
                                         .count = 1,
                                         .piece_count = 1,
                                         .pieces = {{&mine, &all, 1}}};
    AORTA_TRY(mpi_run(group, &call));
    *any = all;
    return NULL;
}

/* Open MPI unloads its parts in MPI_Finalize, so its unfreed blocks would then be reported as ours. So builds that
 * check for leaks do it before. */
static void check_leaks(void) {
#if defined(__SANITIZE_ADDRESS__)
    __lsan_do_leak_check();
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
    __lsan_do_leak_check();
#endif
#endif
}

static int finalize_mpi(struct mpi_call *call) {
    return call->api->Finalize();
}

static aorta_status leave_close(void *user, bool finalize) {
    struct mpi_group *group = user;
    const int rank = group->rank, size = group->size;
    const double timeout_s = group->timeout_s;
    struct mpi_api api = group->api;
    mpi_group_free(group);
    if (!finalize) return NULL;
    check_leaks();
    struct mpi_call call = {.api = &api};
    return mpi_bounded(finalize_mpi, &call, "MPI_Finalize", rank, size, timeout_s);
}

static const struct aorta_leave_mpi leave_over_mpi = {leave_open, leave_any, leave_close};

aorta_status aorta_comm_leave_begin(const struct aorta_ranks *met, double timeout_s, struct aorta_leave **leave) {
    struct mpi_api api;
    const bool joined = mpi_loaded(&api) && mpi_joined(&api);
    const struct aorta_leave_options options = {
        .met = met, .timeout_s = timeout_s, .mpi = joined ? &leave_over_mpi : NULL};
    return aorta_leave_begin(&options, leave);
}

aorta_status aorta_comm_shutdown(const struct aorta_ranks *met, double timeout_s) {
    struct aorta_leave *leave;
    AORTA_TRY(aorta_comm_leave_begin(met, timeout_s, &leave));
    return aorta_leave_end(leave);
}
