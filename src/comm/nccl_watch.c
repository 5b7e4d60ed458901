/* The watchdog: see nccl_internal.h. */
#include "base/clock.h"
#include "base/thread.h"
#include "comm/nccl_internal.h"
#include "device/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_NS 100000000
#define ASK_NS 500000000     /* between two questions for lost ranks */
#define SETTLE_NS 250000000  /* from finding one to failing: see find_lost_rank */
#define SLACK_NS 500000000   /* added to timeout_s, so that calls with their own timeout report first, in more detail */
#define GRACE_NS 10000000000 /* from abandoning to ending a process that is still blocked */

struct nccl_watch {
    struct nccl_domain *domain;
    struct aorta_device_calls calls; /* as seen last */
    int64_t moved_ns;                /* when they last changed */
    int64_t asked_ns;
    int lost; /* the rank whose process has ended; -1: none */
    int64_t lost_ns;
    int64_t abandoned_ns; /* 0: not yet */
};

/* ---- failures ---- */

/* A rank's connections close before its process has ended. So this rank waits for SETTLE_NS before it fails, and the
 * launcher names the right rank as the first. */
static aorta_status find_lost_rank(struct nccl_watch *watch, int64_t now_ns) {
    if (watch->lost < 0) {
        if (now_ns - watch->asked_ns < ASK_NS) return NULL;
        watch->asked_ns = now_ns;
        watch->lost = aorta_control_lost(watch->domain->control);
        watch->lost_ns = now_ns;
    }
    if (watch->lost < 0 || now_ns - watch->lost_ns < SETTLE_NS) return NULL;
    return AORTA_ERROR(AORTA_COMM, "rank %d is gone: its process has ended or its host cannot be reached", watch->lost);
}

/* Called with the lock. */
static aorta_status find_error(const struct nccl_domain *domain) {
    for (const struct nccl_group *group = domain->groups; group; group = group->next) {
        int state = NCCL_SUCCESS;
        int result = group->comm ? domain->api->async_error(group->comm, &state) : NCCL_SUCCESS;
        if (result == NCCL_SUCCESS) result = state;
        if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) continue;
        return aorta_annotate(nccl_check(domain->api, group->comm, result, "ncclCommGetAsyncError"), "group of %d %s",
                              group->size, group->size == 1 ? "rank" : "ranks");
    }
    return NULL;
}

static bool is_blocked(struct nccl_watch *watch, int64_t now_ns) {
    struct aorta_device_calls calls = aorta_device_count_calls(watch->domain->device);
    bool moved = calls.begun != watch->calls.begun || calls.ended != watch->calls.ended;
    watch->calls = calls;
    if (moved || calls.begun == calls.ended) watch->moved_ns = now_ns;
    return now_ns - watch->moved_ns > (int64_t)(watch->domain->timeout_s * 1e9) + SLACK_NS;
}

static aorta_status find_hang(struct nccl_watch *watch, int64_t now_ns) {
    const struct nccl_domain *domain = watch->domain;
    bool waits = is_blocked(watch, now_ns);
    if (!waits || !domain->last[0]) return NULL; /* no collective was queued, so it waits for something else */
    return AORTA_ERROR(
        AORTA_TIMEOUT,
        "waited %.1f s for the device; is a rank dead or late? (distributed.timeout_s, aorta hwq: --timeout-s)",
        (double)(now_ns - watch->moved_ns) * 1e-9);
}

/* ---- abandoning the domain ---- */

struct abort_task {
    const struct nccl_api *api;
    struct aorta_device *device;
    void *comm;
};

/* A thread for each communicator: aborting one may wait for the kernels of another. */
static void *abort_comm(void *argument) {
    struct abort_task task = *(struct abort_task *)argument;
    free(argument);
    aorta_status_free(aorta_gpu_make_current(task.device)); /* if it is lost there is nothing to abort */
    task.api->abort(task.comm);
    return NULL;
}

/* Called with the lock. A communicator that cannot be aborted is left to the end of the process. */
static void abort_all(struct nccl_domain *domain) {
    for (struct nccl_group *group = domain->groups; group; group = group->next) {
        if (!group->comm) continue;
        struct abort_task *task = malloc(sizeof *task);
        pthread_t thread;
        if (task) {
            *task = (struct abort_task){domain->api, domain->device, group->comm};
            if (aorta_thread_start(&thread, abort_comm, task))
                free(task);
            else
                pthread_detach(thread);
        }
        group->comm = NULL;
    }
}

/* Called with the lock; takes over `why`. */
static void abandon(struct nccl_watch *watch, aorta_status why, int64_t now_ns) {
    struct nccl_domain *domain = watch->domain;
    why = aorta_annotate(why, "rank %d, last collective queued: %s", domain->rank,
                         domain->last[0] ? domain->last : "none");
    snprintf(domain->message, sizeof domain->message, "%s", aorta_status_message(why));
    domain->failure = aorta_status_code(why);
    watch->abandoned_ns = now_ns;
    watch->calls = aorta_device_count_calls(domain->device);
    atomic_store(&domain->failed, true);
    aorta_device_fail(domain->device, why);
    abort_all(domain);
}

/* Nothing else ends a process whose kernels do not end. */
static void end_process(const struct nccl_watch *watch) {
    const struct nccl_domain *domain = watch->domain;
    fprintf(stderr, "aorta: %s. The device is still blocked, so this process ends.\n", domain->message);
    aorta_comm_abort(NULL, aorta_code_exit(domain->failure));
}

static void check_blocked(struct nccl_watch *watch, int64_t now_ns) {
    struct aorta_device_calls calls = aorta_device_count_calls(watch->domain->device);
    bool stuck = calls.begun == watch->calls.begun && calls.ended == watch->calls.ended && calls.begun != calls.ended;
    if (!stuck) {
        watch->calls = calls;
        watch->abandoned_ns = now_ns;
    } else if (now_ns - watch->abandoned_ns > GRACE_NS) {
        end_process(watch);
    }
}

/* ---- the thread ---- */

/* The lock is taken to use a communicator, as it is to abort one. */
static void check(void *user) {
    struct nccl_watch *watch = user;
    struct nccl_domain *domain = watch->domain;
    const int64_t now_ns = aorta_clock_ns();
    if (watch->abandoned_ns) {
        check_blocked(watch, now_ns);
        return;
    }
    aorta_status why = find_lost_rank(watch, now_ns);
    pthread_mutex_lock(&domain->lock);
    if (!why) why = find_error(domain);
    if (!why) why = find_hang(watch, now_ns);
    if (why && !atomic_load(&domain->ending))
        abandon(watch, why, now_ns);
    else
        aorta_status_free(why);
    pthread_mutex_unlock(&domain->lock);
}

aorta_status nccl_watch_begin(struct nccl_domain *domain) {
    const int64_t now_ns = aorta_clock_ns();
    struct nccl_watch *watch = malloc(sizeof *watch);
    if (!watch) return AORTA_ERROR(AORTA_MEMORY, "out of memory for the watchdog of collectives");
    *watch = (struct nccl_watch){.domain = domain, .moved_ns = now_ns, .asked_ns = now_ns, .lost = -1};
    pthread_mutex_init(&domain->lock, NULL);
    int error = aorta_repeat(&domain->watchdog, "watchdog", CHECK_NS, check, watch);
    domain->watch = watch;
    if (!error) return NULL;
    nccl_watch_end(domain);
    return AORTA_ERROR(AORTA_IO, "no thread for the watchdog of collectives: %s", strerror(error));
}

void nccl_watch_end(struct nccl_domain *domain) {
    atomic_store(&domain->ending, true);
    aorta_repeat_end(&domain->watchdog);
    pthread_mutex_destroy(&domain->lock);
    free(domain->watch);
}

/* ---- symmetric memory ----
 * Memory that NCCL calls symmetric: allocated by it, and registered with each communicator as a window, through which
 * its kernels reach the same place on every rank. */

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

/* Allocates memory and counts it as the device's. On failure nothing stays allocated. */
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
