#include "base/signals.h"

#include "base/thread.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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
