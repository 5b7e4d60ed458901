/* The choice of a backend, the backend of one rank, and the checks that all backends share. */
#include "comm/comm.h"
#include "base/clock.h"
#include "base/thread.h"
#include "comm/backend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- one rank: it receives its own data ---- */

static aorta_status local_open(const struct aorta_comm_options *options, struct aorta_comm *comm) {
    (void)options;
    comm->rank = 0;
    comm->size = 1;
    return NULL;
}

static aorta_status local_split(struct aorta_comm *parent, const int *ranks, int count, struct aorta_comm *comm) {
    (void)parent, (void)ranks, (void)count, (void)comm; /* it has the parent's rank and size */
    return NULL;
}

static aorta_status local_enqueue(struct aorta_comm *comm, struct aorta_stream *stream,
                                  const struct aorta_comm_call *call) {
    (void)comm;
    for (int i = 0; i < call->piece_count; i++) {
        const struct aorta_comm_piece *piece = &call->pieces[i];
        const size_t count = call->send_counts ? call->send_counts[0] : piece->count;
        if (piece->send == piece->receive || count == 0) continue; /* in place, broadcast, barrier */
        AORTA_TRY(aorta_copy(stream, piece->receive, piece->send, count * aorta_dtype_size(call->dtype)));
    }
    return NULL;
}

const struct aorta_comm_backend aorta_comm_local = {
    .name = "local",
    .simulated = true,
    .open = local_open,
    .split = local_split,
    .enqueue = local_enqueue,
};

/* ---- choosing a backend ---- */

static aorta_status choose_one_rank(const char *name, struct aorta_comm *comm) {
    comm->backend = &aorta_comm_local;
    if (strcmp(name, "auto") != 0 && strcmp(name, "local") != 0)
        comm->note = "there is one rank: its collectives are copies of the same bytes (backend local)";
    return NULL;
}

static const char *called(const struct aorta_comm_options *options) {
    return options->backend_key ? options->backend_key : "backend";
}

static aorta_status check_name(const struct aorta_comm_options *options) {
    const char *name = options->backend;
#define NAME(word) #word,
    static const char *const names[] = {AORTA_COMM_BACKENDS(NAME)};
#undef NAME
#define NAME(word) ", " #word
    static const char list[] = AORTA_COMM_BACKENDS(NAME);
#undef NAME
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return NULL;
    return AORTA_ERROR(AORTA_CONFIG, "%s: \"%s\" is none of %s", called(options), name, list + 2);
}

static aorta_status choose_for_gpu(const struct aorta_comm_options *options, const char *kind,
                                   struct aorta_comm *comm) {
    const char *name = options->backend;
    comm->backend = &aorta_comm_nccl;
    if (!strcmp(name, "auto") || !strcmp(name, "nccl")) return NULL;
    return AORTA_ERROR(AORTA_CONFIG,
                       "%s: %s serves host memory, and the device is %s: write auto or nccl, or choose the device cpu",
                       called(options), name, kind);
}

static aorta_status choose_backend(const struct aorta_comm_options *options, struct aorta_comm *comm) {
    const char *name = options->backend;
    const struct aorta_device_info *device = aorta_device_get_info(options->device);
    AORTA_TRY(check_name(options));
    bool cpu = device->kind == AORTA_DEVICE_CPU;
    if (options->ranks.world_size == 1 && (cpu || strcmp(name, "nccl") != 0)) return choose_one_rank(name, comm);
    if (!strcmp(name, "local")) {
        return AORTA_ERROR(AORTA_CONFIG, "%s: local serves one rank, and there are %d: write auto or %s",
                           called(options), options->ranks.world_size, cpu ? "mpi" : "nccl");
    }
    if (!cpu) return choose_for_gpu(options, aorta_device_kind_name(device->kind), comm);
    comm->backend = &aorta_comm_mpi;
    if (!strcmp(name, "gloo")) comm->note = "gloo, the customary name of host collectives, means the mpi backend here";
    if (!strcmp(name, "nccl")) comm->note = "nccl serves GPUs, and the device is cpu: it means the mpi backend here";
    return NULL;
}

/* ---- groups ---- */

aorta_status aorta_comm_open(const struct aorta_comm_options *options, struct aorta_comm **comm) {
    *comm = NULL;
    struct aorta_comm made = {.device = options->device, .timeout_s = options->timeout_s};
    AORTA_TRY(choose_backend(options, &made));
    if (!(options->timeout_s > 0))
        return AORTA_ERROR(AORTA_CONFIG, "distributed.timeout_s: %g must be greater than 0", options->timeout_s);
    struct aorta_beacon *beacon;
    AORTA_TRY(aorta_beacon_open(options->ranks.rank, &beacon));
    aorta_beacon_timeout(beacon, options->timeout_s);
    aorta_beacon_close(beacon);
    *comm = malloc(sizeof **comm);
    if (!*comm) return AORTA_ERROR(AORTA_MEMORY, "out of memory for a group of ranks");
    **comm = made;
    aorta_status status = made.backend->open(options, *comm);
    if (status) {
        free(*comm);
        *comm = NULL;
    }
    return status;
}

static aorta_status check_list(const struct aorta_comm *parent, const int *ranks, int count) {
    bool member = count == 0;
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= parent->size)
            return AORTA_ERROR(AORTA_USAGE, "group: rank %d is not in the parent group of %d", ranks[i], parent->size);
        for (int j = 0; j < i; j++)
            if (ranks[j] == ranks[i]) return AORTA_ERROR(AORTA_USAGE, "group: rank %d is named twice", ranks[i]);
        member = member || ranks[i] == parent->rank;
    }
    if (member && count >= 0) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "group: rank %d is not in the list it passed itself", parent->rank);
}

aorta_status aorta_comm_split(struct aorta_comm *parent, const int *ranks, int count, struct aorta_comm **comm) {
    *comm = NULL;
    AORTA_TRY(check_list(parent, ranks, count));
    struct aorta_comm *made = malloc(sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "out of memory for a group of ranks");
    *made = *parent;
    made->state = NULL;
    aorta_status status = parent->backend->split(parent, ranks, count, made);
    if (status || count == 0)
        free(made);
    else
        *comm = made;
    return status;
}

void aorta_comm_close(struct aorta_comm *comm) {
    if (!comm) return;
    if (comm->backend->close) comm->backend->close(comm);
    free(comm);
}

aorta_status aorta_comm_alloc(struct aorta_comm *const *comms, int count, size_t bytes, const char *what,
                              void **memory) {
    const struct aorta_comm_backend *backend = comms[0]->backend;
    *memory = NULL;
    if (count > AORTA_COMM_MAX_SHARERS) return AORTA_ERROR(AORTA_INTERNAL, "%s: shared by %d groups", what, count);
    if (backend->alloc) return backend->alloc(comms, count, bytes, what, memory);
    return AORTA_ERROR(AORTA_UNSUPPORTED, "%s: ranks of the backend %s share no device memory; NCCL's do", what,
                       backend->name);
}

_Noreturn void aorta_comm_abort(struct aorta_comm *comm, int exit_code) {
    (void)comm; /* the process' end ends its kernels, and its peers notice the end */
    fflush(stdout);
    fflush(stderr);
    aorta_mpi_abort(exit_code);
    _exit(exit_code);
}

int aorta_comm_rank(const struct aorta_comm *comm) {
    return comm->rank;
}

int aorta_comm_size(const struct aorta_comm *comm) {
    return comm->size;
}

const char *aorta_comm_backend(const struct aorta_comm *comm) {
    return comm->backend->name;
}

const char *aorta_comm_version(struct aorta_comm *comm, char *text, size_t capacity) {
    char version[256] = "";
    if (comm->backend->version) comm->backend->version(comm, version, sizeof version);
    snprintf(text, capacity, "%s%s%s", comm->backend->name, *version ? " " : "", version);
    return text;
}

bool aorta_comm_simulated(const struct aorta_comm *comm) {
    return comm->backend->simulated || aorta_comm_size(comm) == 1;
}

const char *aorta_comm_note(const struct aorta_comm *comm) {
    return comm->note;
}

/* ---- collectives ---- */

int64_t aorta_comm_bytes(const struct aorta_comm_call *call, int size) {
    const bool blocks = call->kind == AORTA_ALL_GATHER || call->kind == AORTA_REDUCE_SCATTER ||
                        (call->kind == AORTA_ALL_TO_ALL && !call->send_counts);
    size_t sent = 0, received = 0;
    for (int i = 0; call->send_counts && i < size; i++)
        sent += call->send_counts[i], received += call->receive_counts[i];
    for (int i = 0; i < call->piece_count; i++) sent += call->pieces[i].count;
    return (int64_t)((sent > received ? sent : received) * aorta_dtype_size(call->dtype)) * (blocks ? size : 1);
}

void aorta_comm_describe(const struct aorta_comm_call *call, uint64_t sequence, int size,
                         char text[AORTA_BEACON_TEXT]) {
    const double bytes = (double)aorta_comm_bytes(call, size);
    int length = snprintf(text, AORTA_BEACON_TEXT, "%s #%llu of %d %s", aorta_collective_name(call->kind),
                          (unsigned long long)sequence, size, size == 1 ? "rank" : "ranks");
    if (call->kind == AORTA_BARRIER) return;
    text += length;
    size_t capacity = AORTA_BEACON_TEXT - (size_t)length;
    if (bytes < 10240)
        snprintf(text, capacity, ", %.0f bytes", bytes);
    else if (bytes < 1048576)
        snprintf(text, capacity, ", %.1f KiB", bytes / 1024);
    else
        snprintf(text, capacity, ", %.1f MiB", bytes / 1048576);
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    const char *first = a, *second = b;
    return first < second + b_bytes && second < first + a_bytes;
}

/* The bytes that a piece of a collective reads and writes. */
struct extent {
    const char *send, *receive;
    size_t send_bytes, receive_bytes;
};

static struct extent extent_of(const struct aorta_comm *comm, const struct aorta_comm_call *call,
                               const struct aorta_comm_piece *piece) {
    bool gather = call->kind == AORTA_ALL_GATHER, scatter = call->kind == AORTA_REDUCE_SCATTER;
    bool exchange = call->kind == AORTA_ALL_TO_ALL;
    size_t block = piece->count * aorta_dtype_size(call->dtype), size = (size_t)comm->size;
    return (struct extent){.send = piece->send,
                           .receive = piece->receive,
                           .send_bytes = scatter || exchange ? block * size : block,
                           .receive_bytes = gather || exchange ? block * size : block};
}

/* Buffers must not overlap, except in exactly the permitted in-place form. */
static bool buffers_fine(const struct aorta_comm *comm, const struct aorta_comm_call *call,
                         const struct aorta_comm_piece *piece) {
    const struct extent e = extent_of(comm, call, piece);
    if (call->kind == AORTA_BROADCAST || call->kind == AORTA_BARRIER || piece->count == 0) return true;
    size_t own = (size_t)comm->rank * piece->count * aorta_dtype_size(call->dtype);
    if (call->kind == AORTA_ALL_GATHER && e.send == e.receive + own) return true;
    if (call->kind == AORTA_REDUCE_SCATTER && e.receive == e.send + own) return true;
    if (call->kind == AORTA_ALL_REDUCE && e.send == e.receive) return true;
    return !overlap(e.send, e.send_bytes, e.receive, e.receive_bytes);
}

/* Whether the bytes that one piece writes are read or written by the other. */
static bool pieces_collide(const struct extent *a, const struct extent *b) {
    return overlap(a->receive, a->receive_bytes, b->receive, b->receive_bytes) ||
           overlap(a->receive, a->receive_bytes, b->send, b->send_bytes) ||
           overlap(a->send, a->send_bytes, b->receive, b->receive_bytes);
}

static aorta_status check_piece(const struct aorta_comm *comm, const struct aorta_comm_call *call, int index) {
    const char *name = aorta_collective_name(call->kind);
    const struct aorta_comm_piece *piece = &call->pieces[index];
    if (piece->count && (!piece->send || !piece->receive))
        return AORTA_ERROR(AORTA_USAGE, "%s: a buffer of %zu elements is NULL", name, piece->count);
    if (!buffers_fine(comm, call, piece)) {
        return AORTA_ERROR(AORTA_USAGE,
                           "%s: the send and receive buffers overlap in a way that is not the in-place form", name);
    }
    const struct extent own = extent_of(comm, call, piece);
    for (int other = 0; other < index && piece->count; other++) {
        const struct extent others = extent_of(comm, call, &call->pieces[other]);
        if (call->pieces[other].count && pieces_collide(&own, &others))
            return AORTA_ERROR(AORTA_USAGE, "%s: buffers overlap those of piece %d", name, other);
    }
    return NULL;
}

/* Checks the pieces and sets the count of all their elements. */
static aorta_status check_pieces(const struct aorta_comm *comm, struct aorta_comm_call *call) {
    const size_t most = SIZE_MAX / 16 / (size_t)comm->size;
    for (int i = 0; i < call->piece_count; i++) {
        size_t count = call->pieces[i].count;
        if (count > most - call->count) {
            return AORTA_ERROR(AORTA_USAGE, "%s: %zu elements are more than memory can hold",
                               aorta_collective_name(call->kind), count);
        }
        call->count += count;
        aorta_status status = check_piece(comm, call, i);
        if (status) return call->piece_count > 1 ? aorta_annotate(status, "piece %d", i) : status;
    }
    return NULL;
}

/* Elements of all parts. AORTA_USAGE: more than memory can hold. */
static aorta_status sum_counts(const struct aorta_comm *comm, const size_t *counts, size_t *sum) {
    *sum = 0;
    for (int i = 0; i < comm->size; i++) {
        if (counts[i] > SIZE_MAX / 16 - *sum)
            return AORTA_ERROR(AORTA_USAGE, "all_to_all: %zu elements for rank %d are more than memory can hold",
                               counts[i], i);
        *sum += counts[i];
    }
    return NULL;
}

static aorta_status check_parts(const struct aorta_comm *comm, struct aorta_comm_call *call) {
    const void *send = call->pieces->send, *receive = call->pieces->receive;
    size_t sent, received;
    AORTA_TRY(sum_counts(comm, call->send_counts, &sent));
    AORTA_TRY(sum_counts(comm, call->receive_counts, &received));
    if ((sent && !send) || (received && !receive))
        return AORTA_ERROR(AORTA_USAGE, "all_to_all: a buffer of %zu elements is NULL",
                           sent && !send ? sent : received);
    if (overlap(send, sent * aorta_dtype_size(call->dtype), receive, received * aorta_dtype_size(call->dtype)))
        return AORTA_ERROR(AORTA_USAGE, "all_to_all: the send and receive buffers overlap");
    if (call->send_counts[comm->rank] != call->receive_counts[comm->rank])
        return AORTA_ERROR(AORTA_USAGE, "all_to_all: rank %d sends itself %zu elements and expects %zu", comm->rank,
                           call->send_counts[comm->rank], call->receive_counts[comm->rank]);
    call->count = sent > received ? sent : received;
    return NULL;
}

static aorta_status check_call(const struct aorta_comm *comm, struct aorta_comm_call *call) {
    const char *name = aorta_collective_name(call->kind);
    const bool reduces = call->kind == AORTA_ALL_REDUCE || call->kind == AORTA_REDUCE_SCATTER;
    if (call->send_counts) return check_parts(comm, call);
    if (call->piece_count < 1 || call->piece_count > AORTA_COMM_MAX_PIECES)
        return AORTA_ERROR(AORTA_USAGE, "%s: %d pieces, where one call takes 1 to %d", name, call->piece_count,
                           AORTA_COMM_MAX_PIECES);
    if (call->root < 0 || call->root >= comm->size)
        return AORTA_ERROR(AORTA_USAGE, "%s: root %d is not in a group of %d", name, call->root, comm->size);
    if (reduces && call->dtype == AORTA_U8)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%s: elements of type uint8 cannot be reduced", name);
    return check_pieces(comm, call);
}

static const struct aorta_kernel kernels[AORTA_COLLECTIVE_COUNT] = {
    [AORTA_ALL_REDUCE] = {"all_reduce", aorta_mpi_kernel, aorta_nccl_kernel},
    [AORTA_REDUCE_SCATTER] = {"reduce_scatter", aorta_mpi_kernel, aorta_nccl_kernel},
    [AORTA_ALL_GATHER] = {"all_gather", aorta_mpi_kernel, aorta_nccl_kernel},
    [AORTA_BROADCAST] = {"broadcast", aorta_mpi_kernel, aorta_nccl_kernel},
    [AORTA_ALL_TO_ALL] = {"all_to_all", aorta_mpi_kernel, aorta_nccl_kernel},
    [AORTA_BARRIER] = {"barrier", aorta_mpi_kernel, aorta_nccl_kernel},
};

aorta_status aorta_collective(struct aorta_comm *comm, struct aorta_stream *stream,
                              const struct aorta_comm_call *wanted) {
    struct aorta_comm_work work = {comm->state, *wanted};
    work.call.count = 0;
    AORTA_TRY(check_call(comm, &work.call));
    if (comm->backend->enqueue) return comm->backend->enqueue(comm, stream, &work.call);
    return aorta_launch(stream, &kernels[work.call.kind], &work, sizeof work);
}

aorta_status aorta_all_reduce(struct aorta_comm *comm, struct aorta_stream *stream, const void *send, void *receive,
                              size_t count, enum aorta_dtype dtype, enum aorta_reduction reduction) {
    const struct aorta_comm_call call = {.kind = AORTA_ALL_REDUCE,
                                         .dtype = dtype,
                                         .reduction = reduction,
                                         .piece_count = 1,
                                         .pieces = {{send, receive, count}}};
    return aorta_collective(comm, stream, &call);
}

aorta_status aorta_broadcast(struct aorta_comm *comm, struct aorta_stream *stream, void *buffer, size_t count,
                             enum aorta_dtype dtype, int root) {
    const struct aorta_comm_call call = {
        .kind = AORTA_BROADCAST, .dtype = dtype, .root = root, .piece_count = 1, .pieces = {{buffer, buffer, count}}};
    return aorta_collective(comm, stream, &call);
}

aorta_status aorta_barrier(struct aorta_comm *comm, struct aorta_stream *stream) {
    struct aorta_comm_call call = {.kind = AORTA_BARRIER, .piece_count = 1};
    return aorta_collective(comm, stream, &call);
}

/* ---- calls with a time limit ---- */

/* The last of the caller and the thread that leaves it frees it. */
struct bounded {
    _Atomic int users;
    void (*function)(void *argument);
    _Alignas(max_align_t) char argument[];
};

static void leave(struct bounded *bounded) {
    if (atomic_fetch_sub(&bounded->users, 1) == 1) free(bounded);
}

static void *run(void *user) {
    struct bounded *bounded = user;
    bounded->function(bounded->argument);
    leave(bounded);
    return NULL;
}

static bool is_set(const _Atomic bool *flag) {
    return flag && atomic_load(flag);
}

int aorta_bounded(void (*function)(void *argument), void *argument, size_t bytes, double timeout_s,
                  const _Atomic bool *cancelled) {
    static const struct timespec nap = {.tv_nsec = 1000000};
    const int64_t until_ns = aorta_clock_ns() + (int64_t)(timeout_s * 1e9);
    struct bounded *made = calloc(1, sizeof *made + bytes);
    if (!made) return ENOMEM;
    made->users = 2;
    made->function = function;
    memcpy(made->argument, argument, bytes);
    pthread_t thread;
    int error = aorta_thread_start(&thread, run, made);
    if (error) {
        free(made);
        return error;
    }
    while ((error = pthread_tryjoin_np(thread, NULL)) == EBUSY && !is_set(cancelled) && aorta_clock_ns() < until_ns)
        nanosleep(&nap, NULL);
    if (error)
        pthread_detach(thread);
    else
        memcpy(argument, made->argument, bytes);
    leave(made);
    if (!error) return 0;
    return is_set(cancelled) ? ECANCELED : ETIMEDOUT;
}

aorta_status aorta_bounded_late(const char *name, int rank, int size, double timeout_s) {
    return AORTA_ERROR(AORTA_TIMEOUT,
                       "%s: rank %d of %d waited %.1f s for its peers; is a rank dead or late? (distributed.timeout_s, "
                       "aorta hwq: --timeout-s)",
                       name, rank, size, timeout_s);
}
