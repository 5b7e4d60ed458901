/* Threads of the host that share a loop among them: an optimizer that runs there has to read and write more memory than
 * one thread can.
 *
 * Threads: run may be called from any thread, from several at a time as well: then one loop waits for the other. */
#ifndef AORTA_HWQ_CREW_H
#define AORTA_HWQ_CREW_H

#include "base/status.h"

#include <stdint.h>

struct aorta_hwq_crew;

/* Elements [first, first + count) of a loop. */
typedef aorta_status (*aorta_hwq_piece)(void *user, int64_t first, int64_t count);

/* How many threads a loop that is bound by memory is worth: the processors that this process may use, 16 at most. */
int aorta_hwq_crew_size(void);
/* `threads` counts the one that calls run, which takes part. */
AORTA_MUST_USE aorta_status aorta_hwq_crew_create(int threads, struct aorta_hwq_crew **crew);
/* Runs `piece` over [0, total), in pieces whose order and threads are left to chance; returns when all have ended.
 * After a failure pieces that have not begun are left out; of several failures one is returned. */
AORTA_MUST_USE aorta_status aorta_hwq_crew_run(struct aorta_hwq_crew *crew, aorta_hwq_piece piece, void *user,
                                               int64_t total);
/* How long loops have run in all, without the time that they waited for each other. */
int64_t aorta_hwq_crew_spent_ns(struct aorta_hwq_crew *crew);
void aorta_hwq_crew_destroy(struct aorta_hwq_crew *crew); /* NULL is fine; no loop runs */

#endif
