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

/* Finds steps from repetition in the order of kernels: on the stream of compute, a kernel that runs once per step
 * divides the recording. Candidates are kernels that recur after the same number of other kernels most of the time. The
 * parts between them must then also be equal, kernel by kernel. A step begins after the optimizer's last kernel, or
 * else where the device was idle longest.
 *
 * A loop of one to three kernels counts if the recording ends with at least twenty of its runs and no longer loop
 * exists.
 *
 * What repeats may be a layer. If the times of a loop of few kernels without an optimizer's kernel vary with a period
 * of some repetitions, one period is a step.
 *
 * Gives traces without steps the steps that repetition shows, at least three. If there are several traces with device
 * work, all or none get steps. A step has the same number in all of them, as far as their times show. Traces without
 * repetition stay as they are. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_infer_steps(struct aorta_trace_list *list);

enum { AORTA_FEWEST_STEPS = 3 };

/* Steps found in one trace; owned. */
struct aorta_found_steps {
    struct aorta_trace_step *steps;
    size_t count;
    struct aorta_layers layers; /* by the numbers that the steps had before `shift` was added */
    int64_t shift;
};
struct aorta_trace_step *aorta_found_steps_new(size_t count, struct aorta_arena *memory);
/* Finds the steps of one trace from repetition; fails with the memory. */
void aorta_trace_find_repeated_steps(const struct aorta_trace *trace, struct aorta_arena *memory,
                                     struct aorta_found_steps *found);

#endif
