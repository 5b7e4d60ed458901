#include "base/thread.h"

#include <signal.h>

/* A new thread inherits the mask of the one that makes it. */
int aorta_thread_start(pthread_t *thread, void *(*function)(void *), void *user) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, function, user);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
