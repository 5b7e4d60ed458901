/* Steps of programs that mark none by ProfilerStep#N. */
#ifndef AORTA_TRACE_INFER_H
#define AORTA_TRACE_INFER_H

#include "base/arena.h"
#include "trace/trace.h"

#include <stddef.h>
#include <stdint.h>

/* How many repetitions of a loop make a step: the layers of a model run equal kernels, and only their times differ. */
struct aorta_layers {
    size_t period;   /* repetitions of the loop in a step; 0: nothing shows */
    int64_t first;   /* a repetition that begins a step */
    double strength; /* of the evidence, in standard deviations */
};

/* Replaces *best where these values, one for each repetition, show a period with more evidence: those that are a whole
 * number of periods apart are alike, whatever the scale (the test of Kruskal and Wallis). A period of two does not
 * count: programs alternate between two buffers. AORTA_MEMORY. */
void aorta_layers_find(const int64_t *values, size_t count, struct aorta_arena *memory, struct aorta_layers *best);

/* From ranges that the program marks. `step_range`: a step begins with each range whose name has this
 * extended regular expression, and marked steps no longer count; AORTA_USAGE where it is none, or a trace has no such
 * range. NULL: traces without steps get those between the ends of an optimizer's ranges (`Optimizer.step#…`), else
 * those that begin with the ranges of an engine (`step[…]`, `execute_model…`); nothing happens where a trace with
 * device work has none of them. Steps have the same number in all traces, as far as their times show. */
AORTA_MUST_USE aorta_status aorta_trace_mark_steps(struct aorta_trace_list *list, const char *step_range);

/* AORTA_USAGE where it is no regular expression, so that a program need not run first; NULL is fine. */
AORTA_MUST_USE aorta_status aorta_trace_check_step_range(const char *step_range);

/* From repetition in the order of kernels: on the stream of compute, a kernel that runs once a step divides
 * the recording. The kernels of which that seems true are those that come back after the same number of others most of
 * the time; what they divide must then also be equal, kernel by kernel. A step begins behind the optimizer's last
 * kernel, or else where the device was idle longest.
 *
 * A loop of one to three kernels counts where the recording ends with it, twenty times at least, and no longer one
 * shows.
 *
 * What repeats may be a layer. Where a loop of few kernels without an optimizer's differs in its times with a period of
 * some repetitions, these make a step.
 *
 * Gives traces without steps those that repetition shows, three at least. Of several traces with device work all or
 * none get steps; a step has the same number in all of them, as far as their times show. Nothing happens where nothing
 * repeats. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_infer_steps(struct aorta_trace_list *list);

enum { AORTA_FEWEST_STEPS = 3 };

/* What was found for one trace; owned. */
struct aorta_found_steps {
    struct aorta_trace_step *steps;
    size_t count;
    struct aorta_layers layers; /* by the numbers that the steps had before `shift` was added */
    int64_t shift;
};
struct aorta_trace_step *aorta_found_steps_new(size_t count, struct aorta_arena *memory);
/* The steps of one trace by what repeats in it; fails with the memory. */
void aorta_trace_find_repeated_steps(const struct aorta_trace *trace, struct aorta_arena *memory,
                                     struct aorta_found_steps *found);

#endif
