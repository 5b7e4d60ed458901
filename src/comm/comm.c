#include "comm/comm.h"

#include "comm/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- choosing a backend ---- */

static aorta_status choose_one_rank(const char *name, struct aorta_comm *comm) {
    comm->backend = &aorta_comm_local;
    if (strcmp(name, "auto") != 0 && strcmp(name, "local") != 0) {
        comm->note = "one rank has nobody to talk to: its collectives are copies of the same bytes (backend local)";
    }
    return NULL;
}

static aorta_status check_name(const char *name) {
    static const char *const names[] = {"auto", "local", "mpi", "gloo", "nccl"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!strcmp(name, names[i])) return NULL;
    }
    return AORTA_ERROR(AORTA_CONFIG, "distributed.backend: \"%s\" is none of auto, local, mpi, gloo, nccl", name);
}

static aorta_status choose_for_gpu(const char *name, const char *kind, struct aorta_comm *comm) {
    comm->backend = &aorta_comm_nccl;
    if (!strcmp(name, "auto") || !strcmp(name, "nccl")) return NULL;
    return AORTA_ERROR(AORTA_CONFIG,
                       "distributed.backend: %s serves host memory, and the device is %s: write auto or nccl, or set "
                       "device.kind to cpu",
                       name, kind);
}

static aorta_status choose_backend(const struct aorta_comm_options *options, struct aorta_comm *comm) {
    const char *name = options->backend;
    const struct aorta_device_info *device = aorta_device_get_info(options->device);
    AORTA_TRY(check_name(name));
    bool cpu = device->kind == AORTA_DEVICE_CPU;
    if (!strcmp(name, "nccl") && cpu) {
        return AORTA_ERROR(AORTA_CONFIG,
                           "distributed.backend: nccl serves GPUs, and the device is cpu: write auto or mpi, "
                           "or set device.kind to cuda or hip");
    }
    if (options->ranks.world_size == 1 && strcmp(name, "nccl") != 0) return choose_one_rank(name, comm);
    if (!strcmp(name, "local")) {
        return AORTA_ERROR(AORTA_CONFIG,
                           "distributed.backend: local serves one rank, and there are %d: write auto or %s",
                           options->ranks.world_size, cpu ? "mpi" : "nccl");
    }
    if (!cpu) return choose_for_gpu(name, aorta_device_kind_name(device->kind), comm);
    comm->backend = &aorta_comm_mpi;
    if (!strcmp(name, "gloo")) comm->note = "gloo, the customary name of host collectives, means the mpi backend here";
    return NULL;
}

/* ---- groups ---- */

aorta_status aorta_comm_open(const struct aorta_comm_options *options, struct aorta_comm **comm) {
    *comm = NULL;
    struct aorta_comm made = {.device = options->device, .timeout_s = options->timeout_s};
    AORTA_TRY(choose_backend(options, &made));
    if (!(options->timeout_s > 0)) {
        return AORTA_ERROR(AORTA_CONFIG, "distributed.timeout_s: %g must be greater than 0", options->timeout_s);
    }
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
        if (ranks[i] < 0 || ranks[i] >= parent->size) {
            return AORTA_ERROR(AORTA_USAGE, "group: rank %d is not in the parent group of %d", ranks[i], parent->size);
        }
        for (int j = 0; j < i; j++) {
            if (ranks[j] == ranks[i]) return AORTA_ERROR(AORTA_USAGE, "group: rank %d is named twice", ranks[i]);
        }
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
    comm->backend->close(comm);
    free(comm);
}

void aorta_comm_shutdown(void) {
    aorta_mpi_leave();
}

_Noreturn void aorta_comm_abort(struct aorta_comm *comm, int exit_code) {
    (void)comm; /* the end of the process ends its kernels and tells its peers */
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

bool aorta_comm_simulated(const struct aorta_comm *comm) {
    return comm->backend->simulated;
}

const char *aorta_comm_note(const struct aorta_comm *comm) {
    return comm->note;
}

/* ---- collectives ---- */

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    const char *first = a, *second = b;
    return first < second + b_bytes && second < first + a_bytes;
}

/* Buffers must be apart unless they are exactly the permitted in-place form. `send_blocks` and `receive_blocks` count
 * the blocks of `count` elements in each; `send_at` and `receive_at` say which of them is this rank's own. */
static aorta_status check_buffers(const struct aorta_comm *comm, const struct aorta_comm_call *call) {
    bool gather = call->kind == AORTA_ALL_GATHER, scatter = call->kind == AORTA_REDUCE_SCATTER;
    bool exchange = call->kind == AORTA_ALL_TO_ALL;
    size_t block = call->count * aorta_dtype_size(call->dtype), size = (size_t)comm->size;
    size_t send_bytes = scatter || exchange ? block * size : block;
    size_t receive_bytes = gather || exchange ? block * size : block;
    const char *send = call->send, *receive = call->receive;
    if (call->kind == AORTA_BROADCAST || call->kind == AORTA_BARRIER || block == 0) return NULL;
    size_t own = (size_t)comm->rank * block;
    if (gather && send == receive + own) return NULL;
    if (scatter && receive == send + own) return NULL;
    if (call->kind == AORTA_ALL_REDUCE && send == receive) return NULL;
    if (!overlap(send, send_bytes, receive, receive_bytes)) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "%s: the send and receive buffers overlap in a way that is not the in-place form",
                       aorta_collective_name(call->kind));
}

static aorta_status enqueue(struct aorta_comm *comm, struct aorta_stream *stream, const struct aorta_comm_call *call) {
    const char *name = aorta_collective_name(call->kind);
    if (call->count > SIZE_MAX / 16 / (size_t)comm->size) {
        return AORTA_ERROR(AORTA_USAGE, "%s: %zu elements are more than memory can hold", name, call->count);
    }
    if (call->count && (!call->send || !call->receive)) {
        return AORTA_ERROR(AORTA_USAGE, "%s: a buffer of %zu elements is NULL", name, call->count);
    }
    if (call->root < 0 || call->root >= comm->size) {
        return AORTA_ERROR(AORTA_USAGE, "%s: root %d is not in a group of %d", name, call->root, comm->size);
    }
    bool reduces = call->kind == AORTA_ALL_REDUCE || call->kind == AORTA_REDUCE_SCATTER;
    if (reduces && call->dtype == AORTA_U8) {
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%s: elements of type uint8 cannot be reduced", name);
    }
    AORTA_TRY(check_buffers(comm, call));
    return comm->backend->enqueue(comm, stream, call);
}

aorta_status aorta_all_reduce(struct aorta_comm *comm, struct aorta_stream *stream, const void *send, void *receive,
                              size_t count, enum aorta_dtype dtype, enum aorta_reduction reduction) {
    return enqueue(comm, stream,
                   &(struct aorta_comm_call){AORTA_ALL_REDUCE, send, receive, count, dtype, reduction, 0});
}

aorta_status aorta_reduce_scatter(struct aorta_comm *comm, struct aorta_stream *stream, const void *send, void *receive,
                                  size_t count, enum aorta_dtype dtype, enum aorta_reduction reduction) {
    return enqueue(comm, stream,
                   &(struct aorta_comm_call){AORTA_REDUCE_SCATTER, send, receive, count, dtype, reduction, 0});
}

aorta_status aorta_all_gather(struct aorta_comm *comm, struct aorta_stream *stream, const void *send, void *receive,
                              size_t count, enum aorta_dtype dtype) {
    return enqueue(comm, stream,
                   &(struct aorta_comm_call){AORTA_ALL_GATHER, send, receive, count, dtype, AORTA_SUM, 0});
}

aorta_status aorta_broadcast(struct aorta_comm *comm, struct aorta_stream *stream, void *buffer, size_t count,
                             enum aorta_dtype dtype, int root) {
    return enqueue(comm, stream,
                   &(struct aorta_comm_call){AORTA_BROADCAST, buffer, buffer, count, dtype, AORTA_SUM, root});
}

aorta_status aorta_all_to_all(struct aorta_comm *comm, struct aorta_stream *stream, const void *send, void *receive,
                              size_t count, enum aorta_dtype dtype) {
    return enqueue(comm, stream,
                   &(struct aorta_comm_call){AORTA_ALL_TO_ALL, send, receive, count, dtype, AORTA_SUM, 0});
}

aorta_status aorta_barrier(struct aorta_comm *comm, struct aorta_stream *stream) {
    return enqueue(comm, stream, &(struct aorta_comm_call){.kind = AORTA_BARRIER});
}
