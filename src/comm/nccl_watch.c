/* The watchdog: see nccl_group.h. */
#include "comm/nccl_group.h"

#include "base/clock.h"
#include "device/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_NS 100000000
#define ASK_NS 500000000     /* between two questions for lost ranks */
#define SETTLE_NS 250000000  /* from finding one to failing: see look_for_lost */
#define SLACK_NS 500000000   /* beyond timeout_s: calls that wait themselves report first, and say more */
#define MERCY_NS 10000000000 /* from giving up to ending a process that is still held up */

struct watch {
    struct nccl_domain *domain;
    struct aorta_device_calls calls; /* as seen last */
    int64_t moved_ns;                /* when they last changed */
    int64_t asked_ns;
    int lost; /* the rank found to be gone; -1: none */
    int64_t lost_ns;
    int64_t given_up_ns; /* 0: not yet */
};

/* ---- what is looked for ---- */

/* A rank's connections close before its process has ended. Who ends because of it waits until that is over, so that a
 * launcher that tells which rank ended first does not name the wrong one. */
static aorta_status look_for_lost(struct watch *watch, int64_t now_ns) {
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
static aorta_status look_for_errors(const struct nccl_domain *domain) {
    for (const struct nccl_group *group = domain->groups; group; group = group->next) {
        int state = NCCL_SUCCESS;
        int result = group->comm ? domain->api->async_error(group->comm, &state) : NCCL_SUCCESS;
        if (result == NCCL_SUCCESS) result = state;
        if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) continue;
        return aorta_annotate(nccl_check(domain->api, group->comm, result, "ncclCommGetAsyncError"),
                              "group of %d ranks", group->size);
    }
    return NULL;
}

static bool held_up(struct watch *watch, int64_t now_ns) {
    struct aorta_device_calls calls = aorta_device_count_calls(watch->domain->device);
    bool moved = calls.begun != watch->calls.begun || calls.ended != watch->calls.ended;
    watch->calls = calls;
    if (moved || calls.begun == calls.ended) watch->moved_ns = now_ns;
    return now_ns - watch->moved_ns > (int64_t)(watch->domain->timeout_s * 1e9) + SLACK_NS;
}

static aorta_status look_for_hang(struct watch *watch, int64_t now_ns) {
    const struct nccl_domain *domain = watch->domain;
    bool waits = held_up(watch, now_ns);
    if (!waits || !domain->last[0]) return NULL; /* nothing was ever queued: it waits for something else */
    return AORTA_ERROR(AORTA_TIMEOUT, "waited %.1f s for the device; is a rank dead or late? (distributed.timeout_s)",
                       (double)(now_ns - watch->moved_ns) * 1e-9);
}

/* ---- giving up ---- */

struct abortion {
    const struct nccl_api *api;
    struct aorta_device *device;
    void *comm;
};

/* A thread for each communicator: aborting one may wait for the kernels of another. */
static void *abort_comm(void *argument) {
    struct abortion abortion = *(struct abortion *)argument;
    free(argument);
    aorta_status_free(aorta_gpu_make_current(abortion.device)); /* if it is lost there is nothing to abort */
    abortion.api->abort(abortion.comm);
    return NULL;
}

/* Called with the lock. A communicator that cannot be aborted is left to the end of the process. */
static void abort_all(struct nccl_domain *domain) {
    for (struct nccl_group *group = domain->groups; group; group = group->next) {
        if (!group->comm) continue;
        struct abortion *abortion = malloc(sizeof *abortion);
        pthread_t thread;
        if (abortion) {
            *abortion = (struct abortion){domain->api, domain->device, group->comm};
            if (pthread_create(&thread, NULL, abort_comm, abortion))
                free(abortion);
            else
                pthread_detach(thread);
        }
        group->comm = NULL;
    }
}

/* Called with the lock; takes over `why`. */
static void give_up(struct watch *watch, aorta_status why, int64_t now_ns) {
    struct nccl_domain *domain = watch->domain;
    why = aorta_annotate(why, "rank %d, last collective queued: %s", domain->rank,
                         domain->last[0] ? domain->last : "none");
    snprintf(domain->message, sizeof domain->message, "%s", aorta_status_message(why));
    domain->failure = aorta_status_code(why);
    watch->given_up_ns = now_ns;
    watch->calls = aorta_device_count_calls(domain->device);
    atomic_store(&domain->failed, true);
    aorta_device_fail(domain->device, why);
    abort_all(domain);
}

/* Nothing else ends a process whose kernels do not end. */
static void end_process(const struct watch *watch) {
    const struct nccl_domain *domain = watch->domain;
    fprintf(stderr, "aorta: %s. The device did not come free, so this process ends.\n", domain->message);
    aorta_comm_abort(NULL, aorta_code_exit(domain->failure));
}

static void see_whether_free(struct watch *watch, int64_t now_ns) {
    struct aorta_device_calls calls = aorta_device_count_calls(watch->domain->device);
    bool stuck = calls.begun == watch->calls.begun && calls.ended == watch->calls.ended && calls.begun != calls.ended;
    if (!stuck) {
        watch->calls = calls;
        watch->given_up_ns = now_ns;
    } else if (now_ns - watch->given_up_ns > MERCY_NS) {
        end_process(watch);
    }
}

/* ---- the thread ---- */

/* Called without the lock, which is held while communicators are touched: they end under it too. */
static void look(struct watch *watch) {
    struct nccl_domain *domain = watch->domain;
    const int64_t now_ns = aorta_clock_ns();
    if (watch->given_up_ns) {
        see_whether_free(watch, now_ns);
        return;
    }
    aorta_status why = look_for_lost(watch, now_ns);
    pthread_mutex_lock(&domain->lock);
    if (!why) why = look_for_errors(domain);
    if (!why) why = look_for_hang(watch, now_ns);
    if (why && !domain->ending)
        give_up(watch, why, now_ns);
    else
        aorta_status_free(why);
    pthread_mutex_unlock(&domain->lock);
}

static void *run(void *argument) {
    struct nccl_domain *domain = argument;
    const int64_t now_ns = aorta_clock_ns();
    struct watch watch = {.domain = domain, .moved_ns = now_ns, .asked_ns = now_ns, .lost = -1};
    pthread_mutex_lock(&domain->lock);
    while (!domain->ending) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += LOOK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&domain->wake, &domain->lock, &until);
        if (domain->ending) break;
        pthread_mutex_unlock(&domain->lock);
        look(&watch);
        pthread_mutex_lock(&domain->lock);
    }
    pthread_mutex_unlock(&domain->lock);
    return NULL;
}

aorta_status nccl_watch_begin(struct nccl_domain *domain) {
    pthread_condattr_t attributes;
    pthread_mutex_init(&domain->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&domain->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    int error = pthread_create(&domain->watchdog, NULL, run, domain);
    if (!error) return NULL;
    pthread_cond_destroy(&domain->wake);
    pthread_mutex_destroy(&domain->lock);
    return AORTA_ERROR(AORTA_IO, "no thread for the watchdog of collectives: %s", strerror(error));
}

void nccl_watch_end(struct nccl_domain *domain) {
    pthread_mutex_lock(&domain->lock);
    domain->ending = true;
    pthread_cond_signal(&domain->wake);
    pthread_mutex_unlock(&domain->lock);
    pthread_join(domain->watchdog, NULL);
    pthread_cond_destroy(&domain->wake);
    pthread_mutex_destroy(&domain->lock);
}
