/* Which rank each of several traces is of. */
#ifndef AORTA_TRACE_RANKS_H
#define AORTA_TRACE_RANKS_H

#include "trace/trace.h"

/* The rank of each trace in the list: as the trace says, else as its file name says. -1: not known, as in a file with
 * several traces that name no rank, and where hosts that recorded at the same time each numbered their ranks from 0.
 * NULL: no memory. */
int *aorta_trace_ranks_known(const struct aorta_trace_list *list, struct aorta_arena *memory);

/* Cycles of a profile schedule (PyTorch's wait, warmup, active, repeat), each in a file of its own. */

/* How many files of the trace's rank follow it: their marked steps come after its own. */
size_t aorta_trace_later_cycles(const struct aorta_trace_list *list, size_t trace);

/* Where files of one rank have marked steps that follow each other, only the last file stays in the list, as it is the
 * steadiest; the earlier ones are freed. Returns the largest number of cycles; 1: nothing was removed. */
size_t aorta_trace_take_last_cycle(struct aorta_trace_list *list);

/* Two traces, one of which nothing calls a rank of a job (no rank, no collective), that were not recorded at one time:
 * they are separate runs. False: there are none. */
bool aorta_trace_find_separate(const struct aorta_trace_list *list, const struct aorta_trace *found[2]);

/* Gives each spool of the list a rank of its own. Ranks that the environment named stay (if two processes have one
 * rank, the one with more work keeps it); other spools follow in order of device and start. */
void aorta_spool_number_ranks(struct aorta_trace_list *list);

#endif
