#include "base/thread.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/parallel.h"
#include "base/signals.h"
#include "base/table.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
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

/* ---- a call again and again ---- */

static void *repeat(void *user) {
    struct aorta_repeated *repeated = user;
    pthread_mutex_lock(&repeated->lock);
    for (;;) {
        const int64_t due_ns = aorta_clock_ns() + repeated->every_ns;
        while (!repeated->ending && !aorta_cond_wait_until(&repeated->wake, &repeated->lock, due_ns)) continue;
        if (repeated->ending) break;
        pthread_mutex_unlock(&repeated->lock);
        repeated->call(repeated->user);
        pthread_mutex_lock(&repeated->lock);
    }
    pthread_mutex_unlock(&repeated->lock);
    return NULL;
}

int aorta_repeat(struct aorta_repeated *repeated, const char *name, int64_t every_ns, void (*call)(void *user),
                 void *user) {
    *repeated = (struct aorta_repeated){.every_ns = every_ns, .call = call, .user = user};
    pthread_mutex_init(&repeated->lock, NULL);
    aorta_cond_init(&repeated->wake);
    const int error = aorta_thread_start(&repeated->thread, repeat, repeated);
    repeated->running = !error;
    if (!error) pthread_setname_np(repeated->thread, name);
    return error;
}

void aorta_repeat_end(struct aorta_repeated *repeated) {
    if (!repeated->running) return;
    pthread_mutex_lock(&repeated->lock);
    repeated->ending = true;
    pthread_cond_signal(&repeated->wake);
    pthread_mutex_unlock(&repeated->lock);
    pthread_join(repeated->thread, NULL);
    pthread_cond_destroy(&repeated->wake);
    pthread_mutex_destroy(&repeated->lock);
    repeated->running = false;
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

/* ---- work in pieces ---- */

struct pieces {
    aorta_piece run;
    void *user;
    size_t count;
    atomic_size_t next;
    pthread_mutex_t lock; /* of the members below */
    aorta_status status;
    size_t failed; /* the piece that `status` is of */
};

/* Pieces begin in order, so all pieces below a failed piece have begun, and the lowest failure is always found. */
static void fail(struct pieces *pieces, size_t piece, aorta_status status) {
    atomic_store(&pieces->next, pieces->count);
    pthread_mutex_lock(&pieces->lock);
    const bool first = !pieces->status || piece < pieces->failed;
    aorta_status dropped = first ? pieces->status : status;
    if (first) {
        pieces->status = status;
        pieces->failed = piece;
    }
    pthread_mutex_unlock(&pieces->lock);
    aorta_status_free(dropped);
}

static void *run_some(void *argument) {
    struct pieces *pieces = argument;
    for (;;) {
        const size_t piece = atomic_fetch_add(&pieces->next, 1);
        if (piece >= pieces->count) return NULL;
        aorta_status status = pieces->run(pieces->user, piece);
        if (status) fail(pieces, piece, status);
    }
}

enum { MOST = 16 };

int aorta_processors(void) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (!sched_getaffinity(0, sizeof allowed, &allowed)) return CPU_COUNT(&allowed);
    const long online = sysconf(_SC_NPROCESSORS_ONLN); /* more than the set has place for */
    return online > 1 ? (int)online : 1;
}

size_t aorta_parallel_width(void) {
    const int processors = aorta_processors();
    return processors < MOST ? (size_t)processors : MOST;
}

aorta_status aorta_parallel(size_t count, aorta_piece run, void *user) {
    pthread_t threads[MOST];
    struct pieces pieces = {.run = run, .user = user, .count = count, .lock = PTHREAD_MUTEX_INITIALIZER};
    const size_t width = count > 1 ? aorta_parallel_width() : 1, wanted = width < count ? width : count;
    size_t started = 0;
    for (; started + 1 < wanted; started++)
        if (aorta_thread_start(&threads[started], run_some, &pieces)) break; /* fewer are slower, no worse */
    run_some(&pieces);
    for (size_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&pieces.lock);
    return pieces.status;
}

/* ---- signals ---- */

struct aorta_signals {
    aorta_signals_first *first;
    void *user;
    pthread_t thread;
    atomic_int signal;
    atomic_bool over;
};

static bool is_ignored(int signal) {
    struct sigaction action;
    return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static void *wait_for_signals(void *user) {
    struct aorta_signals *signals = user;
    sigset_t set = aorta_ending_signals();
    for (;;) {
        int signal = 0;
        if (sigwait(&set, &signal)) continue;
        if (atomic_load(&signals->over)) return NULL;
        if (is_ignored(signal)) continue;
        if (!atomic_load(&signals->signal)) {
            atomic_store(&signals->signal, signal);
            if (!signals->first || !signals->first(signals->user, signal)) continue;
        }
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        raise(signal); /* its action ends the process */
    }
}

aorta_status aorta_signals_begin(aorta_signals_first *first, void *user, struct aorta_signals **result) {
    sigset_t set = aorta_ending_signals();
    struct aorta_signals *signals = calloc(1, sizeof *signals);
    if (!signals) return AORTA_ERROR(AORTA_MEMORY, "no memory for the signals of a run");
    signals->first = first;
    signals->user = user;
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    const int error = aorta_thread_start(&signals->thread, wait_for_signals, signals);
    if (error) {
        free(signals);
        return AORTA_ERROR(AORTA_MEMORY, "no thread that waits for signals: %s", strerror(error));
    }
    *result = signals;
    return NULL;
}

int aorta_signals_get(const struct aorta_signals *signals) {
    return signals ? atomic_load(&signals->signal) : 0;
}

void aorta_signals_end(struct aorta_signals *signals) {
    if (!signals) return;
    atomic_store(&signals->over, true);
    pthread_kill(signals->thread, SIGTERM);
    pthread_join(signals->thread, NULL);
    free(signals);
}

const char *aorta_signal_name(int signal) {
    return signal == SIGINT ? "SIGINT" : "SIGTERM"; /* no other one is taken */
}

aorta_status aorta_signals_check(const struct aorta_signals *signals) {
    const int signal = aorta_signals_get(signals);
    return signal ? AORTA_ERROR(AORTA_INTERRUPTED, "interrupted by %s", aorta_signal_name(signal)) : NULL;
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
