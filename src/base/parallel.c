#include "base/parallel.h"
#include "base/signals.h"
#include "base/thread.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pieces {
    aorta_piece run;
    void *user;
    size_t count;
    atomic_size_t next;
    pthread_mutex_t lock; /* of the members below */
    aorta_status status;
    size_t failed; /* the piece that `status` is of */
};

/* Pieces begin in their order: those below one that failed have begun, and the lowest failure is always found. */
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
            if (!signals->first(signals->user, signal)) continue;
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

aorta_status aorta_signals_check(const struct aorta_signals *signals) {
    const int signal = aorta_signals_get(signals);
    return signal ? AORTA_ERROR(AORTA_INTERRUPTED, "interrupted by %s", strsignal(signal)) : NULL;
}
