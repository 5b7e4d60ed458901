/* Memory that NCCL calls symmetric: allocated by it, and registered with each communicator as a window, through which
 * its kernels reach the same place on every rank. */
#include "comm/nccl_internal.h"

#include "device/gpu.h"

#include <stdlib.h>

struct shared {
    struct nccl_domain *domain;
    int count;
    struct nccl_group *groups[AORTA_COMM_MAX_SHARERS];
    void *windows[AORTA_COMM_MAX_SHARERS]; /* NULL: not registered */
};

static int register_window(struct nccl_call *call) {
    int result =
        call->api->window_register(call->comm, call->memory, call->bytes, &call->window, NCCL_WINDOW_SYMMETRIC);
    return nccl_wait_ready(call->api, call->comm, result);
}

static int deregister_window(struct nccl_call *call) {
    int result = call->api->window_deregister(call->comm, call->window);
    return nccl_wait_ready(call->api, call->comm, result);
}

/* After a failure the communicators are aborted, and the memory is left to the end of the process. */
static void put(void *owner, void *memory) {
    struct shared *shared = owner;
    struct nccl_domain *domain = shared->domain;
    for (int i = 0; i < shared->count && !atomic_load(&domain->failed); i++) {
        struct nccl_call call = {.comm = shared->groups[i]->comm, .window = shared->windows[i]};
        if (call.window)
            aorta_status_free(nccl_bounded(shared->groups[i], deregister_window, &call, "ncclCommWindowDeregister"));
    }
    aorta_status current = aorta_gpu_make_current(domain->device);
    if (!current && !atomic_load(&domain->failed)) domain->api->memory_free(memory);
    aorta_status_free(current); /* a lost device: its memory is gone anyway */
    free(shared);
}

static aorta_status enter(struct shared *shared, int which, void *memory, size_t bytes) {
    struct nccl_group *group = shared->groups[which];
    struct nccl_call call = {.comm = group->comm, .memory = memory, .bytes = bytes};
    if (atomic_load(&shared->domain->failed)) return nccl_failure(shared->domain);
    AORTA_TRY(nccl_bounded(group, register_window, &call, "ncclCommWindowRegister"));
    shared->windows[which] = call.window;
    if (call.window) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED,
                       "NCCL makes no symmetric memory here: the GPUs of the %d ranks cannot reach "
                       "each other's, or NCCL_CUMEM_ENABLE or NCCL_WIN_ENABLE is 0",
                       group->size);
}

static aorta_status check_library(const struct nccl_api *api) {
    int version = 0;
    if (api->memory_alloc && api->memory_free && api->window_register && api->window_deregister) return NULL;
    AORTA_TRY(nccl_check(api, NULL, api->version(&version), "ncclGetVersion"));
    return AORTA_ERROR(AORTA_UNSUPPORTED,
                       "symmetric memory needs the windows of NCCL 2.27, which version %d.%d.%d has not",
                       version / 10000, version / 100 % 100, version % 100);
}

/* Counted as the device's, or nothing. */
static aorta_status obtain(struct shared *shared, size_t bytes, const char *what, void **memory) {
    const struct nccl_api *api = shared->domain->api;
    struct aorta_device *device = shared->domain->device;
    AORTA_TRY(aorta_gpu_make_current(device));
    const int result = api->memory_alloc(memory, bytes);
    if (result != NCCL_SUCCESS && aorta_device_memory(device).free > bytes)
        return nccl_check(api, NULL, result, "ncclMemAlloc");
    if (result != NCCL_SUCCESS) *memory = NULL;
    aorta_status status = aorta_device_adopt(device, *memory, bytes, what, put, shared);
    if (status && *memory) api->memory_free(*memory);
    return status;
}

aorta_status nccl_alloc(struct aorta_comm *const *comms, int count, size_t bytes, const char *what, void **memory) {
    const size_t rounded = (bytes + NCCL_WINDOW_ALIGNMENT - 1) / NCCL_WINDOW_ALIGNMENT * NCCL_WINDOW_ALIGNMENT;
    struct nccl_group *first = comms[0]->state;
    AORTA_TRY(aorta_annotate(check_library(first->domain->api), "%s", what));
    struct shared *shared = calloc(1, sizeof *shared);
    if (!shared) return AORTA_ERROR(AORTA_MEMORY, "%s: out of host memory", what);
    *shared = (struct shared){.domain = first->domain, .count = count};
    for (int i = 0; i < count; i++) shared->groups[i] = comms[i]->state;
    void *made = NULL;
    aorta_status status = obtain(shared, rounded, what, &made);
    if (status) {
        free(shared);
        return status;
    }
    for (int i = 0; i < count && !status; i++) status = enter(shared, i, made, rounded);
    if (status) // NOLINT(clang-analyzer-unix.Malloc): `shared` is owned by the memory until it is freed
        aorta_device_free(first->domain->device, made);
    else
        *memory = made;
    return aorta_annotate(status, "%s", what);
}
