/* Cycles of a profile schedule (PyTorch's wait, warmup, active, repeat), each in a file of its own. */
#ifndef AORTA_TRACE_CYCLES_H
#define AORTA_TRACE_CYCLES_H

#include "trace/trace.h"

/* How many files of the trace's rank come after it, their marked steps after its own. */
size_t aorta_trace_later_cycles(const struct aorta_trace_list *list, size_t trace);

/* Of files of one rank whose marked steps follow each other the last is left in the list, for it is the steadiest; the
 * others are freed. How many cycles there were, at most; 1: nothing was. */
size_t aorta_trace_take_last_cycle(struct aorta_trace_list *list);

#endif
