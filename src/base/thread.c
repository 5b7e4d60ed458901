#include "base/thread.h"

#include <time.h>

/* A new thread inherits the mask of the one that makes it. */
int aorta_thread_start(pthread_t *thread, void *(*function)(void *), void *user) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, function, user);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

sigset_t aorta_ending_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

void aorta_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

int aorta_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t time_ns) {
    const struct timespec until = {time_ns / 1000000000, time_ns % 1000000000};
    return pthread_cond_timedwait(cond, lock, &until);
}
