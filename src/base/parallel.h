/* Work in pieces, on all processors (thread.c).
 *
 * Pieces do not write shared data, so the result does not depend on their distribution. */
#ifndef AORTA_BASE_PARALLEL_H
#define AORTA_BASE_PARALLEL_H

#include "base/status.h"

#include <stddef.h>

typedef aorta_status (*aorta_piece)(void *user, size_t piece);

/* Calls `run` for the pieces 0 … count - 1, each once, on this thread and on further ones; returns once they are done.
 * After a failure no further piece begins; of several failures the one of the lowest piece is returned. */
AORTA_MUST_USE aorta_status aorta_parallel(size_t count, aorta_piece run, void *user);

/* Processors that this process may run on: at least 1. */
int aorta_processors(void);
/* Number of threads for many pieces: 1 to 16. */
size_t aorta_parallel_width(void);

#endif
