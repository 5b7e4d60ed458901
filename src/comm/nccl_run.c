/* Queueing collectives on a GPU's stream. */
#include "comm/nccl_internal.h"

#include "device/gpu.h"

#include <string.h>

static const int types[AORTA_DTYPE_COUNT] = {
    [AORTA_F32] = NCCL_FLOAT32, [AORTA_F16] = NCCL_FLOAT16, [AORTA_BF16] = NCCL_BFLOAT16,
    [AORTA_I64] = NCCL_INT64,   [AORTA_I32] = NCCL_INT32,   [AORTA_U8] = NCCL_UINT8,
};
static const int reductions[] = {[AORTA_SUM] = NCCL_SUM, [AORTA_MAX] = NCCL_MAX};

/* Queues one piece of the call. */
typedef int run_function(const struct nccl_api *api, const struct nccl_group *group, const struct aorta_comm_call *call,
                         const struct aorta_comm_piece *piece, void *stream);

static bool fine(int result) {
    return result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS;
}

static int reduce_scatter(const struct nccl_api *api, const struct nccl_group *group,
                          const struct aorta_comm_call *call, const struct aorta_comm_piece *piece, void *stream) {
    return api->reduce_scatter(piece->send, piece->receive, piece->count, types[call->dtype],
                               reductions[call->reduction], group->comm, stream);
}

static int all_gather(const struct nccl_api *api, const struct nccl_group *group, const struct aorta_comm_call *call,
                      const struct aorta_comm_piece *piece, void *stream) {
    return api->all_gather(piece->send, piece->receive, piece->count, types[call->dtype], group->comm, stream);
}

static int all_reduce(const struct nccl_api *api, const struct nccl_group *group, const struct aorta_comm_call *call,
                      const struct aorta_comm_piece *piece, void *stream) {
    return api->all_reduce(piece->send, piece->receive, piece->count, types[call->dtype], reductions[call->reduction],
                           group->comm, stream);
}

static int broadcast(const struct nccl_api *api, const struct nccl_group *group, const struct aorta_comm_call *call,
                     const struct aorta_comm_piece *piece, void *stream) {
    return api->broadcast(piece->send, piece->receive, piece->count, types[call->dtype], call->root, group->comm,
                          stream);
}

/* One send and one receive for each rank, which NCCL runs as one kernel. */
static int all_to_all(const struct nccl_api *api, const struct nccl_group *group, const struct aorta_comm_call *call,
                      const struct aorta_comm_piece *piece, void *stream) {
    const size_t element = aorta_dtype_size(call->dtype);
    const int type = types[call->dtype];
    const char *send = piece->send;
    char *receive = piece->receive;
    int result = api->group_start();
    if (result != NCCL_SUCCESS) return result;
    for (int peer = 0; peer < group->size && fine(result); peer++) {
        const size_t out = call->send_counts ? call->send_counts[peer] : piece->count;
        const size_t in = call->receive_counts ? call->receive_counts[peer] : piece->count;
        if (out) result = api->send(send, out, type, peer, group->comm, stream);
        if (fine(result) && in) result = api->receive(receive, in, type, peer, group->comm, stream);
        send += out * element, receive += in * element;
    }
    int ended = api->group_end();
    return fine(result) ? ended : result;
}

/* An all-reduce of one element whose result is not used. */
static int barrier(const struct nccl_api *api, const struct nccl_group *group, const struct aorta_comm_call *call,
                   const struct aorta_comm_piece *piece, void *stream) {
    (void)call, (void)piece;
    return api->all_reduce(group->token, group->token, 1, NCCL_INT32, NCCL_SUM, group->comm, stream);
}

/* Several pieces make a group, which NCCL runs as one kernel. */
static int run_pieces(const struct nccl_api *api, const struct nccl_group *group, const struct aorta_comm_call *call,
                      run_function *run, void *stream) {
    if (call->piece_count == 1) return run(api, group, call, call->pieces, stream);
    int result = api->group_start();
    if (result != NCCL_SUCCESS) return result;
    for (int i = 0; i < call->piece_count && fine(result); i++)
        if (call->pieces[i].count) result = run(api, group, call, &call->pieces[i], stream);
    int ended = api->group_end();
    return fine(result) ? ended : result;
}

static const struct {
    run_function *run;
    const char *name;
} functions[AORTA_COLLECTIVE_COUNT] = {
    [AORTA_ALL_REDUCE] = {all_reduce, "ncclAllReduce"},
    [AORTA_REDUCE_SCATTER] = {reduce_scatter, "ncclReduceScatter"},
    [AORTA_ALL_GATHER] = {all_gather, "ncclAllGather"},
    [AORTA_BROADCAST] = {broadcast, "ncclBroadcast"},
    [AORTA_ALL_TO_ALL] = {all_to_all, "ncclSend and ncclRecv"},
    [AORTA_BARRIER] = {barrier, "ncclAllReduce"},
};

struct kernel_arguments {
    struct nccl_group *group;
    struct aorta_comm_call call;
};

static void announce(struct nccl_group *group, const struct aorta_comm_call *call) {
    struct nccl_domain *domain = group->domain;
    char text[AORTA_BEACON_TEXT];
    group->sequence++;
    aorta_comm_describe(call, group->sequence, group->size, text);
    aorta_beacon_set(domain->beacon, text);
    pthread_mutex_lock(&domain->lock);
    memcpy(domain->last, text, sizeof text);
    pthread_mutex_unlock(&domain->lock);
}

static aorta_status run_kernel(struct aorta_stream *stream, const void *arguments) {
    const struct kernel_arguments *kernel = arguments;
    struct nccl_group *group = kernel->group;
    const struct aorta_comm_call *call = &kernel->call;
    announce(group, call);
    if (call->count == 0 && call->kind != AORTA_BARRIER) return NULL;
    if (atomic_load(&group->domain->failed)) return nccl_failure(group->domain);
    void *handle = aorta_gpu_stream_handle(stream);
    int result = run_pieces(group->domain->api, group, call, functions[call->kind].run, handle);
    aorta_status status = nccl_wait(group, result, functions[call->kind].name);
    if (!status) return NULL;
    char text[AORTA_BEACON_TEXT];
    aorta_comm_describe(call, group->sequence, group->size, text);
    return aorta_annotate(status, "%s: rank %d", text, group->rank);
}

static const struct aorta_kernel kernels[AORTA_COLLECTIVE_COUNT] = {
    [AORTA_ALL_REDUCE] = {.name = "all_reduce", .gpu = run_kernel},
    [AORTA_REDUCE_SCATTER] = {.name = "reduce_scatter", .gpu = run_kernel},
    [AORTA_ALL_GATHER] = {.name = "all_gather", .gpu = run_kernel},
    [AORTA_BROADCAST] = {.name = "broadcast", .gpu = run_kernel},
    [AORTA_ALL_TO_ALL] = {.name = "all_to_all", .gpu = run_kernel},
    [AORTA_BARRIER] = {.name = "barrier", .gpu = run_kernel},
};

aorta_status nccl_enqueue(struct aorta_comm *comm, struct aorta_stream *stream, const struct aorta_comm_call *call) {
    const struct kernel_arguments arguments = {comm->state, *call};
    return aorta_launch(stream, &kernels[call->kind], &arguments, sizeof arguments);
}
