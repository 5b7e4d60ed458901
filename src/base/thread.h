/* Threads of the host, and waits with a time limit. */
#ifndef AORTA_BASE_THREAD_H
#define AORTA_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* pthread_create with default attributes; all signals are blocked in the new thread, as the program's own threads
 * handle them. Returns 0 or an errno. */
int aorta_thread_start(pthread_t *thread, void *(*function)(void *), void *user);

/* The signals of a user or a batch system that end a program: SIGINT and SIGTERM. */
sigset_t aorta_ending_signals(void);

/* A condition variable whose waits end at times of aorta_clock_ns. */
void aorta_cond_init(pthread_cond_t *cond);
/* Waits until it is signalled or aorta_clock_ns is time_ns. 0, or ETIMEDOUT. */
int aorta_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t time_ns);

/* A thread that calls a function, first after `every_ns`, then so long after each call. */
struct aorta_repeated { /* zero-initialise */
    int64_t every_ns;
    void (*call)(void *user);
    void *user;
    bool running, ending;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
};
/* The first 15 bytes of `name` are the thread's. An errno, 0 for success. */
int aorta_repeat(struct aorta_repeated *repeated, const char *name, int64_t every_ns, void (*call)(void *user),
                 void *user);
/* Returns once no call runs any more. Not running: nothing. */
void aorta_repeat_end(struct aorta_repeated *repeated);

#endif
