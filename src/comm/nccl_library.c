/* The library of the NCCL backend, its errors, and calls that are in progress. */
#include "comm/comm.h"
#include "comm/nccl_internal.h"

#include "base/clock.h"
#include "comm/bounded.h"
#include "device/gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POLL_NS 20000
#define STATE_POLL_NS 1000000

static const struct aorta_symbol symbols[] = {
#define ROW(member, symbol, required) {#symbol, offsetof(struct nccl_api, member), required},
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

aorta_status nccl_library_of(struct aorta_device *device, struct nccl_library **library) {
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

aorta_status nccl_wait(struct nccl_group *group, int result, const char *function) {
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

struct task {
    struct nccl_call call;
    nccl_function *function;
    aorta_status status; /* of the thread itself */
};

static void run_task(void *argument) {
    struct task *task = argument;
    task->status = aorta_gpu_make_current(task->call.device);
    if (!task->status) task->call.result = task->function(&task->call);
}

aorta_status nccl_bounded(const struct nccl_group *group, nccl_function *function, struct nccl_call *call,
                          const char *name) {
    const struct nccl_domain *domain = group->domain;
    call->api = domain->api;
    call->device = domain->device;
    struct task task = {.call = *call, .function = function};
    int error = aorta_bounded(run_task, &task, sizeof task, domain->timeout_s, &domain->failed);
    if (error == ECANCELED) return aorta_annotate(nccl_failure(domain), "%s", name);
    if (error == ETIMEDOUT) return aorta_bounded_late(name, group->rank, group->size, domain->timeout_s);
    if (error) return AORTA_ERROR(AORTA_IO, "%s: no thread: %s", name, strerror(error));
    *call = task.call;
    return task.status ? task.status : nccl_check(call->api, call->made ? call->made : call->comm, call->result, name);
}
