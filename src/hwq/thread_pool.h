/* A pool of host threads that run a loop together: one thread cannot use the memory bandwidth that an optimizer on the
 * host needs. Any thread may call run; loops of several threads wait for each other. */
#ifndef AORTA_HWQ_THREAD_POOL_H
#define AORTA_HWQ_THREAD_POOL_H

#include "base/status.h"

#include <stdint.h>

struct aorta_hwq_thread_pool;

/* Elements [first, first + count) of a loop. */
typedef void (*aorta_hwq_loop_body)(void *user, int64_t first, int64_t count);

/* `threads` includes the caller of run, which takes part. */
AORTA_MUST_USE aorta_status aorta_hwq_thread_pool_create(int threads, struct aorta_hwq_thread_pool **pool);
/* Runs `body` over [0, total), in pieces in any order on any thread; returns when all have ended. */
void aorta_hwq_thread_pool_run(struct aorta_hwq_thread_pool *pool, aorta_hwq_loop_body body, void *user, int64_t total);
/* The run time of all loops, without the time that they waited for each other. */
int64_t aorta_hwq_thread_pool_busy_ns(struct aorta_hwq_thread_pool *pool);
void aorta_hwq_thread_pool_destroy(struct aorta_hwq_thread_pool *pool); /* NULL is fine; no loop runs */

#endif
