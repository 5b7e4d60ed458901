/* SIGINT and SIGTERM while a program works. A thread waits for them, so that they count in every phase, independent of
 * the other threads: loops ask for the first one, the second one ends the process at once. No handler, nothing global.
 */
#ifndef AORTA_BASE_SIGNALS_H
#define AORTA_BASE_SIGNALS_H

#include "base/status.h"

#include <stdbool.h>

struct aorta_signals;

/* Called for the first signal, on the thread that waits; NULL: nothing is. True: the process ends now, as with a
 * second. */
typedef bool aorta_signals_first(void *user, int signal);

/* Blocks the signals for this thread and those it starts, so it comes before any other thread. Signals that are ignored
 * stay so. AORTA_MEMORY: no thread. */
AORTA_MUST_USE aorta_status aorta_signals_begin(aorta_signals_first *first, void *user, struct aorta_signals **signals);
/* The first one, or 0. NULL is fine. Any thread. */
int aorta_signals_get(const struct aorta_signals *signals);
const char *aorta_signal_name(int signal); /* "SIGINT", "SIGTERM" */
/* NULL is fine. The signals stay blocked; one that comes from here on waits until they are not. */
void aorta_signals_end(struct aorta_signals *signals);

/* AORTA_INTERRUPTED once there was one: for loops that can take a second. */
AORTA_MUST_USE aorta_status aorta_signals_check(const struct aorta_signals *signals);

#endif
