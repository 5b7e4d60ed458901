/* The library of the NCCL backend, its errors, and calls that are in progress. */
#include "base/clock.h"
#include "comm/backend.h"
#include "comm/comm.h"
#include "comm/nccl_internal.h"
#include "device/gpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POLL_NS 20000
#define STATE_POLL_NS 1000000

static const struct aorta_symbol symbols[] = {
#define ROW(member, symbol, required, ...) {#symbol, offsetof(struct nccl_api, member), required},
#include "comm/nccl.def"
#undef ROW
};

const struct aorta_library_description aorta_nccl_library = {
    .purpose = "collectives between NVIDIA GPUs",
    .names = (const char *const[]){"libnccl.so.2", "libnccl.so", NULL},
    .symbols = symbols,
    .symbol_count = sizeof symbols / sizeof *symbols,
    .install = "NCCL 2.14 or newer is needed: apt install libnccl2 (from NVIDIA's repository)",
};

const struct aorta_library_description aorta_rccl_library = {
    .purpose = "collectives between AMD GPUs",
    .names = (const char *const[]){"librccl.so.1", "librccl.so", NULL},
    .symbols = symbols,
    .symbol_count = sizeof symbols / sizeof *symbols,
    .install = "RCCL of ROCm 5.7 or newer is needed: apt install rccl (from AMD's repository)",
};

static aorta_status library_open(struct aorta_device *device, void **state) {
    const bool hip = aorta_device_get_info(device)->kind == AORTA_DEVICE_HIP;
    struct nccl_library *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "out of memory for the collectives' library");
    struct aorta_library library;
    aorta_status status = aorta_library_open(hip ? &aorta_rccl_library : &aorta_nccl_library, &made->api, &library);
    if (status)
        free(made);
    else
        *state = made;
    return status;
}

static aorta_status library_of(struct aorta_device *device, struct nccl_library **library) {
    static const char key;
    void *state;
    AORTA_TRY(aorta_device_attachment(device, &key, library_open, free, &state));
    *library = state;
    return NULL;
}

aorta_status nccl_check(const struct nccl_api *api, void *comm, int result, const char *function) {
    if (result == NCCL_SUCCESS) return NULL;
    const char *more = api->last_error ? api->last_error(comm) : NULL;
    return AORTA_ERROR(AORTA_COMM, "%s: %s%s%s", function, api->error_text(result), more && *more ? ": " : "",
                       more ? more : "");
}

aorta_status nccl_failure(const struct nccl_domain *domain) {
    return AORTA_ERROR(domain->failure, "%s", domain->message);
}

/* The communicator's state, unless the watchdog is aborting it. */
static aorta_status ask(struct nccl_group *group, int *state) {
    struct nccl_domain *domain = group->domain;
    pthread_mutex_lock(&domain->lock);
    bool aborted = atomic_load(&domain->failed);
    int result = aborted ? NCCL_SUCCESS : domain->api->async_error(group->comm, state);
    pthread_mutex_unlock(&domain->lock);
    if (aborted) return nccl_failure(domain);
    return nccl_check(domain->api, group->comm, result, "ncclCommGetAsyncError");
}

/* As nccl_check, but waits while the call is in progress; AORTA_TIMEOUT after timeout_s. */
static aorta_status wait_for_result(struct nccl_group *group, int result, const char *function) {
    const int64_t start_ns = aorta_clock_ns();
    while (result == NCCL_IN_PROGRESS) {
        AORTA_TRY(ask(group, &result));
        if (result != NCCL_IN_PROGRESS) break;
        double waited_s = (double)(aorta_clock_ns() - start_ns) * 1e-9;
        if (waited_s > group->domain->timeout_s)
            return aorta_bounded_late(function, group->rank, group->size, waited_s);
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    return nccl_check(group->domain->api, group->comm, result, function);
}

int nccl_wait_ready(const struct nccl_api *api, void *comm, int result) {
    while (result == NCCL_IN_PROGRESS) {
        nanosleep(&(struct timespec){.tv_nsec = STATE_POLL_NS}, NULL);
        int asked = api->async_error(comm, &result);
        if (asked != NCCL_SUCCESS) return asked;
    }
    return result;
}

static void run_call(void *argument) {
    struct nccl_call *call = argument;
    call->status = aorta_gpu_make_current(call->device);
    if (!call->status) call->result = call->function(call);
}

aorta_status nccl_bounded(const struct nccl_group *group, int (*function)(struct nccl_call *call),
                          struct nccl_call *call, const char *name) {
    const struct nccl_domain *domain = group->domain;
    call->function = function;
    call->api = domain->api;
    call->device = domain->device;
    int error = aorta_bounded(run_call, call, sizeof *call, domain->timeout_s, &domain->failed);
    if (error == ECANCELED) return aorta_annotate(nccl_failure(domain), "%s", name);
    if (error == ETIMEDOUT) return aorta_bounded_late(name, group->rank, group->size, domain->timeout_s);
    if (error) return AORTA_ERROR(AORTA_IO, "%s: no thread: %s", name, strerror(error));
    return call->status ? call->status
                        : nccl_check(call->api, call->made ? call->made : call->comm, call->result, name);
}

/* ---- domains ---- */

static aorta_status domain_open(const struct aorta_comm_options *options, struct nccl_domain **domain) {
    struct nccl_library *library;
    AORTA_TRY(library_of(options->device, &library));
    struct nccl_domain *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "out of memory for a group of ranks");
    made->api = &library->api;
    made->device = options->device;
    made->timeout_s = options->timeout_s;
    made->rank = options->ranks.rank;
    aorta_status status = aorta_beacon_open(made->rank, &made->beacon);
    const struct aorta_control_options control = {.ranks = options->ranks,
                                                  .timeout_s = options->timeout_s,
                                                  .instance = ++library->openings,
                                                  .mpi = &aorta_control_over_mpi};
    if (!status) status = aorta_control_open(&control, &made->control);
    if (!status) status = nccl_watch_begin(made);
    if (!status) {
        *domain = made;
        return NULL;
    }
    aorta_control_close(made->control);
    aorta_beacon_close(made->beacon);
    free(made);
    return status;
}

static void domain_close(struct nccl_domain *domain) {
    nccl_watch_end(domain);
    aorta_control_close(domain->control);
    aorta_beacon_close(domain->beacon);
    free(domain);
}

/* ---- groups ---- */

/* NULL when memory is exhausted. From here on the watchdog checks the group. */
static struct nccl_group *group_make(struct nccl_domain *domain, struct aorta_control *control, int rank, int size) {
    struct nccl_group *made = calloc(1, sizeof *made);
    if (!made) return NULL;
    *made = (struct nccl_group){.domain = domain, .control = control, .rank = rank, .size = size};
    pthread_mutex_lock(&domain->lock);
    made->next = domain->groups;
    domain->groups = made;
    domain->group_count++;
    pthread_mutex_unlock(&domain->lock);
    return made;
}

static void group_remove(struct nccl_group *group) {
    struct nccl_domain *domain = group->domain;
    pthread_mutex_lock(&domain->lock);
    struct nccl_group **place = &domain->groups;
    while (*place && *place != group) place = &(*place)->next;
    if (*place) *place = group->next;
    pthread_mutex_unlock(&domain->lock);
}

static int end(struct nccl_call *call) {
    int result = nccl_wait_ready(call->api, call->comm, call->api->finalize(call->comm));
    return result == NCCL_SUCCESS ? call->api->destroy(call->comm) : result;
}

/* Ends the communicator; if that fails, it ends with the process. After a failure the watchdog owns it. */
static void end_communicator(struct nccl_group *group) {
    struct nccl_call call = {.comm = group->comm};
    if (!call.comm || atomic_load(&group->domain->failed)) return;
    aorta_status_free(nccl_bounded(group, end, &call, "ncclCommDestroy"));
}

static void group_close(struct nccl_group *group) {
    struct nccl_domain *domain = group->domain;
    aorta_status_free(aorta_gpu_make_current(domain->device)); /* a lost device: nothing on it is left to end */
    group_remove(group);
    end_communicator(group);
    aorta_device_free(domain->device, group->token);
    if (group->control != domain->control) aorta_control_close(group->control);
    free(group);
    if (--domain->group_count == 0) domain_close(domain);
}

/* Rank 0 of the group makes an id; the message also reports a failure. */
static aorta_status exchange_id(struct nccl_group *group, struct nccl_unique_id *id) {
    struct {
        int32_t result;
        struct nccl_unique_id id;
    } message = {0};
    const struct nccl_api *api = group->domain->api;
    aorta_status status = NULL;
    if (group->rank == 0) {
        message.result = api->unique_id(&message.id);
        status = nccl_check(api, NULL, message.result, "ncclGetUniqueId");
    }
    status = aorta_status_join(status, aorta_control_share(group->control, &message, sizeof message));
    if (status)
        return aorta_annotate(status, "id of a group of %d %s", group->size, group->size == 1 ? "rank" : "ranks");
    *id = message.id;
    if (message.result == NCCL_SUCCESS) return NULL;
    return AORTA_ERROR(AORTA_COMM, "rank 0 of a group of %d ranks could not make an id for it: %s", group->size,
                       api->error_text(message.result));
}

/* NCCL reads undefined settings from its environment. Colour and key are size and rank here. */
static int init_rank(struct nccl_call *call) {
    struct nccl_config config = {
        .size = sizeof config,
        .magic = NCCL_CONFIG_MAGIC,
        .version = NCCL_CONFIG_VERSION,
        .blocking = NCCL_UNDEFINED,
        .cga_cluster_size = NCCL_UNDEFINED,
        .min_ctas = NCCL_UNDEFINED,
        .max_ctas = NCCL_UNDEFINED,
        .split_share = NCCL_UNDEFINED,
        .later = NCCL_UNDEFINED,
    };
    int result = call->api->init_rank(&call->made, call->color, call->id, call->key, &config);
    return nccl_wait_ready(call->api, call->made, result);
}

static aorta_status make_communicator(struct nccl_group *group) {
    struct nccl_call call = {.color = group->size, .key = group->rank};
    AORTA_TRY(exchange_id(group, &call.id));
    AORTA_TRY(nccl_bounded(group, init_rank, &call, "ncclCommInitRankConfig"));
    group->comm = call.made;
    return NULL;
}

/* In progress, the child exists once the parent is ready again. */
static int split(struct nccl_call *call) {
    int result = call->api->split(call->comm, call->color, call->key, &call->made, NULL);
    bool in_progress = result == NCCL_IN_PROGRESS;
    result = nccl_wait_ready(call->api, call->comm, result);
    if (result != NCCL_SUCCESS || !in_progress || !call->made) return result;
    return nccl_wait_ready(call->api, call->made, NCCL_IN_PROGRESS);
}

/* Splitting is collective over the parent: a rank that joins no group, or a disputed one, takes part without a colour.
 */
static aorta_status split_communicator(struct nccl_group *parent, int color, int key, struct nccl_group *group) {
    struct nccl_call call = {.comm = parent->comm, .color = color, .key = key};
    AORTA_TRY(nccl_bounded(parent, split, &call, "ncclCommSplit"));
    if (!group) return NULL;
    group->comm = call.made;
    return call.made ? NULL : AORTA_ERROR(AORTA_COMM, "ncclCommSplit gave no communicator");
}

/* Takes over `group`, also on failure. */
static aorta_status finish_group(struct nccl_group *group, aorta_status status, struct aorta_comm *comm) {
    struct nccl_domain *domain = group->domain;
    if (!status) status = aorta_device_alloc(domain->device, 256, "barrier of a group", &group->token);
    if (status) {
        group_close(group);
        return status;
    }
    comm->rank = group->rank;
    comm->size = group->size;
    comm->state = group;
    return NULL;
}

static aorta_status nccl_open(const struct aorta_comm_options *options, struct aorta_comm *comm) {
    AORTA_TRY(aorta_gpu_make_current(options->device));
    struct nccl_domain *domain;
    AORTA_TRY(domain_open(options, &domain));
    struct nccl_group *group = group_make(domain, domain->control, options->ranks.rank, options->ranks.world_size);
    if (!group) {
        domain_close(domain);
        return AORTA_ERROR(AORTA_MEMORY, "out of memory for a group of ranks");
    }
    return finish_group(group, make_communicator(group), comm);
}

static int smallest(const int *ranks, int count) {
    int found = ranks[0];
    for (int i = 1; i < count; i++) found = ranks[i] < found ? ranks[i] : found;
    return found;
}

static aorta_status split_into(struct nccl_group *parent, const int *ranks, int count, struct aorta_control *control,
                               struct aorta_comm *comm) {
    int key = 0;
    while (ranks[key] != parent->rank) key++;
    struct nccl_group *group = group_make(parent->domain, control, key, count);
    if (!group) {
        aorta_control_close(control);
        return AORTA_ERROR(AORTA_MEMORY, "out of memory for a group of ranks");
    }
    aorta_status status = parent->domain->api->split ? split_communicator(parent, smallest(ranks, count), key, group)
                                                     : make_communicator(group);
    return finish_group(group, status, comm);
}

static aorta_status nccl_split(struct aorta_comm *parent_comm, const int *ranks, int count, struct aorta_comm *comm) {
    struct nccl_group *parent = parent_comm->state;
    struct aorta_control *control;
    if (atomic_load(&parent->domain->failed)) return nccl_failure(parent->domain);
    AORTA_TRY(aorta_gpu_make_current(parent->domain->device));
    aorta_status status = aorta_control_split(parent->control, ranks, count, &control);
    if (status && aorta_status_code(status) != AORTA_USAGE) return status;
    if (status || count == 0) {
        bool takes_part = parent->domain->api->split != NULL;
        aorta_status other = takes_part ? split_communicator(parent, NCCL_NO_COLOR, 0, NULL) : NULL;
        return aorta_status_join(status, other);
    }
    return split_into(parent, ranks, count, control, comm);
}

static void nccl_close(struct aorta_comm *comm) {
    group_close(comm->state);
}

/* 22703 is 2.27.3. */
static void nccl_version(struct aorta_comm *comm, char *text, size_t capacity) {
    struct nccl_library *library;
    int version = 0;
    aorta_status status = library_of(comm->device, &library);
    if (!status && library->api.version(&version) == NCCL_SUCCESS)
        snprintf(text, capacity, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    aorta_status_free(status);
}

const struct aorta_comm_backend aorta_comm_nccl = {
    .name = "nccl",
    .simulated = false,
    .open = nccl_open,
    .split = nccl_split,
    .close = nccl_close,
    .version = nccl_version,
    .alloc = nccl_alloc,
};

/* ---- collectives ---- */

static const int types[AORTA_DTYPE_COUNT] = {
    [AORTA_F32] = NCCL_FLOAT32, [AORTA_F16] = NCCL_FLOAT16, [AORTA_BF16] = NCCL_BFLOAT16,
    [AORTA_I64] = NCCL_INT64,   [AORTA_I32] = NCCL_INT32,   [AORTA_U8] = NCCL_UINT8,
};
static const int reductions[] = {[AORTA_SUM] = NCCL_SUM, [AORTA_MAX] = NCCL_MAX};

static bool fine(int result) {
    return result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS;
}

/* One send and one receive for each rank. */
static int all_to_all(const struct nccl_group *group, const struct aorta_comm_call *call,
                      const struct aorta_comm_piece *piece, void *stream) {
    const struct nccl_api *api = group->domain->api;
    const size_t element = aorta_dtype_size(call->dtype);
    const int type = types[call->dtype];
    const char *send = piece->send;
    char *receive = piece->receive;
    int result = NCCL_SUCCESS;
    for (int peer = 0; peer < group->size && fine(result); peer++) {
        const size_t out = call->send_counts ? call->send_counts[peer] : piece->count;
        const size_t in = call->receive_counts ? call->receive_counts[peer] : piece->count;
        if (out) result = api->send(send, out, type, peer, group->comm, stream);
        if (fine(result) && in) result = api->receive(receive, in, type, peer, group->comm, stream);
        send += out * element, receive += in * element;
    }
    return result;
}

static int run_piece(const struct nccl_group *group, const struct aorta_comm_call *call,
                     const struct aorta_comm_piece *p, void *stream) {
    const struct nccl_api *api = group->domain->api;
    const int type = types[call->dtype], reduction = reductions[call->reduction];
    switch (call->kind) {
    case AORTA_ALL_REDUCE:
        return api->all_reduce(p->send, p->receive, p->count, type, reduction, group->comm, stream);
    case AORTA_REDUCE_SCATTER:
        return api->reduce_scatter(p->send, p->receive, p->count, type, reduction, group->comm, stream);
    case AORTA_ALL_GATHER:
        return api->all_gather(p->send, p->receive, p->count, type, group->comm, stream);
    case AORTA_BROADCAST:
        return api->broadcast(p->send, p->receive, p->count, type, call->root, group->comm, stream);
    case AORTA_ALL_TO_ALL:
        return all_to_all(group, call, p, stream);
    default: /* a barrier: an all-reduce of one element whose result is not used */
        return api->all_reduce(group->token, group->token, 1, NCCL_INT32, NCCL_SUM, group->comm, stream);
    }
}

/* Several pieces, and the messages of an all-to-all, make a group, which NCCL runs as one kernel. */
static int run_pieces(const struct nccl_group *group, const struct aorta_comm_call *call, void *stream) {
    const struct nccl_api *api = group->domain->api;
    if (call->piece_count == 1 && call->kind != AORTA_ALL_TO_ALL) return run_piece(group, call, call->pieces, stream);
    int result = api->group_start();
    if (result != NCCL_SUCCESS) return result;
    for (int i = 0; i < call->piece_count && fine(result); i++)
        if (call->pieces[i].count || call->send_counts) result = run_piece(group, call, &call->pieces[i], stream);
    int ended = api->group_end();
    return fine(result) ? ended : result;
}

static const char *const names[AORTA_COLLECTIVE_COUNT] = {
    [AORTA_ALL_REDUCE] = "ncclAllReduce",         [AORTA_REDUCE_SCATTER] = "ncclReduceScatter",
    [AORTA_ALL_GATHER] = "ncclAllGather",         [AORTA_BROADCAST] = "ncclBroadcast",
    [AORTA_ALL_TO_ALL] = "ncclSend and ncclRecv", [AORTA_BARRIER] = "ncclAllReduce",
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

aorta_status aorta_nccl_kernel(struct aorta_stream *stream, const void *user) {
    const struct aorta_comm_work *work = user;
    struct nccl_group *group = work->state;
    const struct aorta_comm_call *call = &work->call;
    announce(group, call);
    if (call->count == 0 && call->kind != AORTA_BARRIER) return NULL;
    if (atomic_load(&group->domain->failed)) return nccl_failure(group->domain);
    void *handle = aorta_gpu_stream_handle(stream);
    aorta_status status = wait_for_result(group, run_pieces(group, call, handle), names[call->kind]);
    if (!status) return NULL;
    char text[AORTA_BEACON_TEXT];
    aorta_comm_describe(call, group->sequence, group->size, text);
    return aorta_annotate(status, "%s: rank %d", text, group->rank);
}
