/* Which rank each of several traces is of. */
#ifndef AORTA_TRACE_RANKS_H
#define AORTA_TRACE_RANKS_H

#include "trace/trace.h"

/* Of each of the list's traces the rank that it says itself, else what the name of its file says; -1: not known, as for
 * the traces of a file that holds several, and where hosts that recorded at the same time numbered their ranks each
 * from 0. NULL: no memory. */
int *aorta_trace_ranks_known(const struct aorta_trace_list *list, struct aorta_arena *memory);

/* Cycles of a profile schedule (PyTorch's wait, warmup, active, repeat), each in a file of its own. */

/* How many files of the trace's rank come after it, their marked steps after its own. */
size_t aorta_trace_later_cycles(const struct aorta_trace_list *list, size_t trace);

/* Of files of one rank whose marked steps follow each other the last is left in the list, for it is the steadiest; the
 * others are freed. How many cycles there were, at most; 1: nothing was. */
size_t aorta_trace_take_last_cycle(struct aorta_trace_list *list);

#endif
