/* Inside the NCCL backend: domains of groups that were opened together, and the watchdog over them.
 *
 * Making communicators waits for peers, on a thread that is abandoned after timeout_s (nccl_bounded). With
 * NCCL_COMM_BLOCKING=0 a call may return "in progress", and is then polled. Collectives cannot be polled: a kernel
 * whose peer never calls runs for ever, and the host waits for it; the first of a communicator may block the host
 * itself. So a watchdog thread checks, without touching the GPU, for
 *   - a rank that has died (its connection to the rendezvous has ended),
 *   - failures that NCCL itself has noticed (a broken network),
 *   - the host being blocked in a call on the device for longer than timeout_s,
 * and then gives up: the device is declared failed, so that every further call on it returns this failure, and the
 * communicators are aborted, which ends their kernels. If the host is still blocked then, the process is ended. */
#ifndef AORTA_COMM_NCCL_INTERNAL_H
#define AORTA_COMM_NCCL_INTERNAL_H

#include "base/thread.h"
#include "comm/backend.h"
#include "comm/nccl_api.h"

#include <pthread.h>
#include <stdatomic.h>

/* The library, once per device. */
struct nccl_library {
    struct nccl_api api;
    uint64_t openings; /* of this device so far */
};

/* Created by one aorta_comm_open, with all groups split from it. */
struct nccl_domain {
    const struct nccl_api *api;
    struct aorta_device *device;
    struct aorta_beacon *beacon; /* may be NULL */
    double timeout_s;
    int rank;                      /* in the world */
    struct aorta_control *control; /* of the world; closed with the last group */

    pthread_mutex_t lock;
    struct nccl_group *groups; /* open ones */
    int group_count;           /* open or being closed */
    /* Communicators are being aborted and must not be used any more. Set after `failure` and `message`. */
    _Atomic bool failed;
    enum aorta_code failure;
    char message[512];
    _Atomic bool ending;
    struct aorta_repeated watchdog;
    struct nccl_watch *watch;     /* its state */
    char last[AORTA_BEACON_TEXT]; /* the collective queued last */
};

struct nccl_group {
    struct nccl_domain *domain;
    struct nccl_group *next;
    _Atomic(void *) comm; /* NULL once it is aborted */
    struct aorta_control *control;
    int rank, size;
    uint64_t sequence; /* collectives queued */
    void *token;       /* device memory of one element, for barriers */
};

/* ---- the library ---- */

/* NULL for success, else AORTA_COMM with the library's words. */
aorta_status nccl_check(const struct nccl_api *api, void *comm, int result, const char *function);
/* Why the domain was given up; call it when `failed` is set. */
aorta_status nccl_failure(const struct nccl_domain *domain);

/* For calls on another thread (nccl_bounded): waits, without end, while `comm` is in progress. */
int nccl_wait_ready(const struct nccl_api *api, void *comm, int result);

/* A call that waits for other ranks; `made` and `result` are its results. */
struct nccl_call {
    int (*function)(struct nccl_call *call); /* these three are set by nccl_bounded */
    const struct nccl_api *api;
    struct aorta_device *device;
    aorta_status status; /* of the thread itself */
    void *comm, *made;
    struct nccl_unique_id id;
    int color, key, result;
    void *memory, *window;
    size_t bytes;
};
/* Runs the function on another thread. AORTA_TIMEOUT when it does not return in time; the thread is then abandoned,
 * so the function may use only its call and the library. */
aorta_status nccl_bounded(const struct nccl_group *group, int (*function)(struct nccl_call *call),
                          struct nccl_call *call, const char *name);

/* ---- symmetric memory (nccl_watch.c) ---- */

aorta_status nccl_alloc(struct aorta_comm *const *comms, int count, size_t bytes, const char *what, void **memory);

/* ---- nccl_watch.c ---- */

aorta_status nccl_watch_begin(struct nccl_domain *domain);
void nccl_watch_end(struct nccl_domain *domain);

#endif
