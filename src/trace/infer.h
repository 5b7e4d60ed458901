/* Steps of programs that do not mark them with ProfilerStep#N. */
#ifndef AORTA_TRACE_INFER_H
#define AORTA_TRACE_INFER_H

#include "base/arena.h"
#include "trace/trace.h"

/* The number of repetitions of a loop in a step: layers of a model run the same kernels, and only their times
 * differ. */
struct aorta_layers {
    size_t period;   /* repetitions of the loop in a step; 0: unknown */
    int64_t first;   /* a repetition that begins a step */
    double strength; /* of the evidence, in standard deviations */
};

/* Replaces *best if these values, one per repetition, have a period with stronger evidence, which is that values a
 * whole number of periods apart are alike (Kruskal-Wallis test). A period of two does not count, as programs alternate
 * between two buffers. AORTA_MEMORY. */
void aorta_layers_find(const int64_t *values, size_t count, struct aorta_arena *memory, struct aorta_layers *best);

/* From ranges that the program marks. With `step_range`, an extended regular expression, a step begins with each range
 * whose name matches, and marked steps are replaced; AORTA_USAGE if the expression is invalid or a trace with device
 * work has no such range. If `step_range` is NULL, traces without steps get steps between the ends of an optimizer's
 * ranges (`Optimizer.step#…`), else steps that begin with an engine's ranges (`step[…]`, `execute_model…`), unless a
 * trace with device work has no such ranges. Steps at the same time have the same number in all traces. */
AORTA_MUST_USE aorta_status aorta_trace_mark_steps(struct aorta_trace_list *list, const char *step_range);

/* Checks the expression before a program is run. AORTA_USAGE if it is invalid; NULL is fine. */
AORTA_MUST_USE aorta_status aorta_trace_check_step_range(const char *step_range);

/* Finds steps from repetition in the order of kernels: on the stream of compute, a kernel that runs once per step
 * divides the recording. Candidates are kernels that recur after the same number of other kernels most of the time. The
 * parts between them must then also be equal, kernel by kernel. A step begins after the optimizer's last kernel, or
 * else where the device was idle longest.
 *
 * A loop of one to three kernels counts if the recording ends with at least twenty of its runs and no longer loop
 * exists.
 *
 * A loop may be a layer. If a loop has few kernels, none of an optimizer, and its times vary with a period of several
 * repetitions, one period is a step.
 *
 * Gives traces without steps the steps that repetition shows, at least three. If there are several traces with device
 * work, all or none get steps. Steps at the same time have the same number in all traces. Traces without repetition
 * stay as they are. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_infer_steps(struct aorta_trace_list *list);

enum { AORTA_FEWEST_STEPS = 3 };

/* Steps found in one trace; owned. */
struct aorta_found_steps {
    struct aorta_trace_step *steps;
    size_t count;
    struct aorta_layers layers; /* refers to the numbers of the steps before `shift` was added */
    int64_t shift;
};
struct aorta_trace_step *aorta_found_steps_new(size_t count, struct aorta_arena *memory);
/* Finds the steps of one trace from repetition; none if nothing repeats. Sets memory->failed if memory is exhausted. */
void aorta_trace_find_repeated_steps(const struct aorta_trace *trace, struct aorta_arena *memory,
                                     struct aorta_found_steps *found);

#endif
