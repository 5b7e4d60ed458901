/* Calls into a library that wait for other ranks without end, with a time limit. */
#ifndef AORTA_COMM_BOUNDED_H
#define AORTA_COMM_BOUNDED_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Runs function(argument) on another thread and waits for its end, for timeout_s at most, and no longer than until
 * *cancelled is set (NULL: never is). The thread works on a copy of the `bytes` of *argument, which is copied back when
 * it has ended. 0; ETIMEDOUT or ECANCELED when it has not: the thread is then left alone, so the function touches
 * nothing but its argument and the library. Another errno when there is no thread. */
int aorta_bounded(void (*function)(void *argument), void *argument, size_t bytes, double timeout_s,
                  const _Atomic bool *cancelled);

/* AORTA_TIMEOUT: "NAME: rank 1 of 2 waited 3.0 s for its peers; …". */
AORTA_MUST_USE aorta_status aorta_bounded_late(const char *name, int rank, int size, double timeout_s);

#endif
