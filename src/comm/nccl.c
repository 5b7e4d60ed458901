/* The backend for GPUs: NCCL, or RCCL, which has the same interface. Opening, groups, closing. */
#include "comm/nccl_internal.h"

#include "device/gpu.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- domains ---- */

static aorta_status domain_open(const struct aorta_comm_options *options, struct nccl_domain **domain) {
    struct nccl_library *library;
    AORTA_TRY(nccl_library_of(options->device, &library));
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

/* NULL when memory is exhausted. From here on the watchdog looks after it. */
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

/* Ends it in order; otherwise it ends with the process. After a failure the watchdog owns it. */
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
    aorta_status status = nccl_library_of(comm->device, &library);
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
    .enqueue = nccl_enqueue,
    .version = nccl_version,
    .alloc = nccl_alloc,
};
