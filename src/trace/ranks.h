/* Which rank each of several traces is of. */
#ifndef AORTA_TRACE_RANKS_H
#define AORTA_TRACE_RANKS_H

#include "trace/trace.h"

/* Of each of the list's traces the rank that it says itself, else what the name of its file says; -1: not known, as for
 * the traces of a file that holds several, and where hosts that recorded at the same time numbered their ranks each
 * from 0. The caller frees them. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_ranks_known(const struct aorta_trace_list *list, int **ranks);

/* Whether both say the time of day, and were recorded at the same time. */
bool aorta_trace_overlap_in_time(const struct aorta_trace *a, const struct aorta_trace *b);

#endif
