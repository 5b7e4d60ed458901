#include "base/thread.h"
#include "base/clock.h"
#include "base/table.h"

#include <string.h>
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

/* ---- the clock ---- */

int64_t aorta_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- hashes ---- */

/* 16 bytes at a time. */
uint64_t aorta_hash_bytes(const void *bytes, size_t length) {
    const unsigned char *at = bytes;
    uint64_t hash = length, a, b;
    for (size_t left = length; left >= 16; left -= 16, at += 16) {
        memcpy(&a, at, 8);
        memcpy(&b, at + 8, 8);
        hash = aorta_hash_add(a ^ hash, b);
    }
    unsigned char rest[16] = {0};
    memcpy(rest, at, length % 16);
    memcpy(&a, rest, 8);
    memcpy(&b, rest + 8, 8);
    return aorta_hash_add(a ^ hash, b);
}
