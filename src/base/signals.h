/* Handles SIGINT and SIGTERM. A thread waits for them, so they work in every phase, whatever the other threads do.
 * Loops ask for the first signal; the second ends the process at once. There is no handler and nothing global.
 */
#ifndef AORTA_BASE_SIGNALS_H
#define AORTA_BASE_SIGNALS_H

#include "base/status.h"

#include <stdbool.h>

struct aorta_signals;

/* Called for the first signal, on the waiting thread; may be NULL. Returns true to end the process at once. */
typedef bool aorta_signals_first(void *user, int signal);

/* Blocks the signals for this thread and the threads it starts, so call it before any other thread starts. Ignored
 * signals stay ignored. AORTA_MEMORY if no thread can be started. */
AORTA_MUST_USE aorta_status aorta_signals_begin(aorta_signals_first *first, void *user, struct aorta_signals **signals);
/* The first one, or 0. NULL is fine. Any thread. */
int aorta_signals_get(const struct aorta_signals *signals);
const char *aorta_signal_name(int signal); /* "SIGINT", "SIGTERM" */
/* NULL is fine. The signals stay blocked; later signals are pending. */
void aorta_signals_end(struct aorta_signals *signals);

/* AORTA_INTERRUPTED after the first signal: for loops that can take a second. */
AORTA_MUST_USE aorta_status aorta_signals_check(const struct aorta_signals *signals);

#endif
