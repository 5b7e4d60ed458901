/* Determines the ranks of several traces. */
#ifndef AORTA_TRACE_RANKS_H
#define AORTA_TRACE_RANKS_H

#include "trace/trace.h"

/* The rank of each trace, from the trace or else its file name. -1 if unknown: for several traces in one file without
 * ranks, or if hosts that recorded at the same time each numbered their ranks from 0. NULL if memory is exhausted. */
int *aorta_trace_ranks_known(const struct aorta_trace_list *list, struct aorta_arena *memory);

/* Cycles of a profile schedule (PyTorch's wait, warmup, active, repeat), each in a file of its own. */

/* The number of later files of the same rank, with marked steps after this trace's. */
size_t aorta_trace_later_cycles(const struct aorta_trace_list *list, size_t trace);

/* If files of one rank have consecutive marked steps, keeps only the last file, as it is the steadiest, and frees
 * earlier ones. Returns the largest number of cycles; 1 if nothing was removed. */
size_t aorta_trace_take_last_cycle(struct aorta_trace_list *list);

/* Two traces, one of which nothing calls a rank of a job (no rank, no collective), that were not recorded at one time:
 * they are separate runs. False: there are none. */
bool aorta_trace_find_separate(const struct aorta_trace_list *list, const struct aorta_trace *found[2]);

/* Gives each spool of the list a rank of its own. Ranks from the environment stay; if two processes have the same rank,
 * the process with more work keeps it. Further spools are numbered in order of device and start. */
void aorta_spool_number_ranks(struct aorta_trace_list *list);

#endif
