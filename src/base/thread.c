#include "base/thread.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

static int64_t read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t aorta_clock_ns(void) {
    return read_clock(CLOCK_MONOTONIC);
}

int64_t aorta_clock_day(void) {
    return read_clock(CLOCK_REALTIME);
}

/* ---- files ---- */

int aorta_write_all(int file, const void *bytes, size_t length) {
    const char *at = bytes;
    while (length > 0) {
        ssize_t written = write(file, at, length);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return errno;
        at += written;
        length -= (size_t)written;
    }
    return 0;
}

size_t aorta_file_peek(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "re");
    const size_t length = file ? fread(text, 1, size - 1, file) : 0;
    if (file) fclose(file);
    text[length] = '\0';
    return length;
}

size_t aorta_command_line(char *command, size_t size) {
    size_t length = aorta_file_peek("/proc/self/cmdline", command, size);
    while (length && !command[length - 1]) length--;
    for (size_t i = 0; i < length; i++)
        if (!command[i]) command[i] = ' ';
    return length;
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
