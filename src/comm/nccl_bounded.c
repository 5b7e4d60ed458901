/* Calls that make and end communicators wait for all ranks, without end. Here each runs on a thread of its own, and is
 * abandoned when it takes longer than timeout_s. */
#include "comm/nccl_group.h"

#include "base/clock.h"
#include "base/thread.h"
#include "device/gpu.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_NS 50000000

struct bounded {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done, abandoned;
    nccl_function *function;
    struct nccl_call call;
    aorta_status status; /* of the thread itself */
};

static void release(struct bounded *bounded) {
    pthread_cond_destroy(&bounded->ended);
    pthread_mutex_destroy(&bounded->lock);
    aorta_status_free(bounded->status);
    free(bounded);
}

static void *run(void *argument) {
    struct bounded *bounded = argument;
    struct nccl_call *call = &bounded->call;
    aorta_status status = aorta_gpu_make_current(call->device);
    if (!status) call->result = bounded->function(call);
    pthread_mutex_lock(&bounded->lock);
    bounded->status = status;
    bounded->done = true;
    bool abandoned = bounded->abandoned;
    pthread_cond_signal(&bounded->ended);
    pthread_mutex_unlock(&bounded->lock);
    if (abandoned) release(bounded);
    return NULL;
}

static struct bounded *make(nccl_function *function, const struct nccl_call *call) {
    struct bounded *made = calloc(1, sizeof *made);
    if (!made) return NULL;
    aorta_cond_init(&made->ended);
    pthread_mutex_init(&made->lock, NULL);
    made->function = function;
    made->call = *call;
    return made;
}

/* False when the time is over first, or the domain has failed: the thread then owns the object. */
static bool await(struct bounded *bounded, const struct nccl_domain *domain) {
    const int64_t until_ns = aorta_clock_ns() + (int64_t)(domain->timeout_s * 1e9);
    pthread_mutex_lock(&bounded->lock);
    while (!bounded->done && !atomic_load(&domain->failed) && aorta_clock_ns() < until_ns)
        aorta_cond_wait_until(&bounded->ended, &bounded->lock, aorta_clock_ns() + CHECK_NS);
    bool done = bounded->done;
    bounded->abandoned = !done;
    pthread_mutex_unlock(&bounded->lock);
    return done;
}

aorta_status nccl_bounded(const struct nccl_group *group, nccl_function *function, struct nccl_call *call,
                          const char *name) {
    const struct nccl_domain *domain = group->domain;
    call->api = domain->api;
    call->device = domain->device;
    struct bounded *bounded = make(function, call);
    if (!bounded) return AORTA_ERROR(AORTA_MEMORY, "out of memory for a group of ranks");
    pthread_t thread;
    int error = aorta_thread_start(&thread, run, bounded);
    if (error) {
        release(bounded);
        return AORTA_ERROR(AORTA_IO, "%s: no thread: %s", name, strerror(error));
    }
    pthread_detach(thread);
    if (!await(bounded, domain)) {
        if (atomic_load(&domain->failed)) return aorta_annotate(nccl_failure(domain), "%s", name);
        return AORTA_ERROR(AORTA_TIMEOUT,
                           "%s: rank %d of %d waited %.1f s for its peers; is a rank dead or late? "
                           "(distributed.timeout_s)",
                           name, group->rank, group->size, domain->timeout_s);
    }
    *call = bounded->call;
    aorta_status status = bounded->status;
    bounded->status = NULL;
    release(bounded);
    return status ? status : nccl_check(call->api, call->made ? call->made : call->comm, call->result, name);
}
