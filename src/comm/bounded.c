#include "comm/bounded.h"

#include "base/clock.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_NS 50000000

struct bounded {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done, abandoned;
    void (*function)(void *argument);
    _Alignas(max_align_t) char argument[];
};

static void release(struct bounded *bounded) {
    pthread_cond_destroy(&bounded->ended);
    pthread_mutex_destroy(&bounded->lock);
    free(bounded);
}

static void *run(void *user) {
    struct bounded *bounded = user;
    bounded->function(bounded->argument);
    pthread_mutex_lock(&bounded->lock);
    bounded->done = true;
    bool abandoned = bounded->abandoned;
    pthread_cond_signal(&bounded->ended);
    pthread_mutex_unlock(&bounded->lock);
    if (abandoned) release(bounded);
    return NULL;
}

static bool is_set(const _Atomic bool *flag) {
    return flag && atomic_load(flag);
}

/* False when the time is over first, or the call is cancelled: the thread then owns the object. */
static bool await(struct bounded *bounded, double timeout_s, const _Atomic bool *cancelled) {
    const int64_t until_ns = aorta_clock_ns() + (int64_t)(timeout_s * 1e9);
    pthread_mutex_lock(&bounded->lock);
    while (!bounded->done && !is_set(cancelled) && aorta_clock_ns() < until_ns)
        aorta_cond_wait_until(&bounded->ended, &bounded->lock, aorta_clock_ns() + CHECK_NS);
    bool done = bounded->done;
    bounded->abandoned = !done;
    pthread_mutex_unlock(&bounded->lock);
    return done;
}

int aorta_bounded(void (*function)(void *argument), void *argument, size_t bytes, double timeout_s,
                  const _Atomic bool *cancelled) {
    struct bounded *made = calloc(1, sizeof *made + bytes);
    if (!made) return ENOMEM;
    aorta_cond_init(&made->ended);
    pthread_mutex_init(&made->lock, NULL);
    made->function = function;
    memcpy(made->argument, argument, bytes);
    pthread_t thread;
    int error = aorta_thread_start(&thread, run, made);
    if (error) {
        release(made);
        return error;
    }
    pthread_detach(thread);
    if (!await(made, timeout_s, cancelled)) return is_set(cancelled) ? ECANCELED : ETIMEDOUT;
    memcpy(argument, made->argument, bytes);
    release(made);
    return 0;
}

aorta_status aorta_bounded_late(const char *name, int rank, int size, double timeout_s) {
    return AORTA_ERROR(AORTA_TIMEOUT,
                       "%s: rank %d of %d waited %.1f s for its peers; is a rank dead or late? (distributed.timeout_s, "
                       "aorta hwq: --timeout-s)",
                       name, rank, size, timeout_s);
}
