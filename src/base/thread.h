/* Threads beside the program's own. */
#ifndef AORTA_BASE_THREAD_H
#define AORTA_BASE_THREAD_H

#include <pthread.h>

/* pthread_create with default attributes; the new thread gets no signals, which are for the program's own threads. An
 * errno, 0 for success. */
int aorta_thread_start(pthread_t *thread, void *(*function)(void *), void *user);

#endif
