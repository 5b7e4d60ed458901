/* Trace files of a run, by a schedule: which steps go into a file. Steps outside the schedule cost one comparison. */
#ifndef AORTA_MEASURE_STEP_TRACES_H
#define AORTA_MEASURE_STEP_TRACES_H

#include "measure/kineto_write.h"

/* As torch.profiler.schedule: a cycle skips `wait` steps, traces and drops `warmup` steps, and writes `active` steps.
 * `repeat` cycles; 0: until the run ends. Each cycle is a file. */
struct aorta_profiler_schedule {
    int64_t wait, warmup, active, repeat;
};
/* Whether the step (from 0) goes into a file, and into which (from 0). */
bool aorta_profiler_schedule_active(const struct aorta_profiler_schedule *schedule, int64_t step, int64_t *cycle);
/* Whether the kernel tracer is to run in the step: its cycle's warm-up has begun, or it goes into a file. */
bool aorta_profiler_schedule_tracing(const struct aorta_profiler_schedule *schedule, int64_t step);
/* Whether the last cycle has ended before the step. */
bool aorta_profiler_schedule_over(const struct aorta_profiler_schedule *schedule, int64_t step);
int64_t aorta_profiler_schedule_first_step(const struct aorta_profiler_schedule *schedule, int64_t cycle);

struct aorta_step_traces_settings { /* strings are copied, but for those of `about`, which are borrowed until close */
    struct aorta_profiler_schedule schedule;
    const char *directory; /* for TensorBoard: <directory>/rank<R>/<host>_<pid>.<time>.pt.trace.json; NULL: none */
    const char *chrome; /* for chrome://tracing and Perfetto: this file, with _step<first step> before its suffix unless
                           `repeat` is 1. NULL: none */
    struct aorta_kineto_about about;
};

struct aorta_step_traces;

/* Makes the folders. AORTA_IO. */
AORTA_MUST_USE aorta_status aorta_step_traces_open(const struct aorta_step_traces_settings *settings,
                                                   struct aorta_step_traces **traces);
/* Writes a step that the schedule asks for; else returns at once. Steps come in order. After a failure nothing is
 * written. With traced kernels the thread of the metrics lines calls it, so that the launching thread does not wait
 * for a disk. */
AORTA_MUST_USE aorta_status aorta_step_traces_add(struct aorta_step_traces *traces,
                                                  const struct aorta_step_metrics *metrics,
                                                  const struct aorta_activity_record *records, size_t count);
/* Ends the file, also in the middle of a cycle. */
AORTA_MUST_USE aorta_status aorta_step_traces_finish(struct aorta_step_traces *traces);
/* Number of complete files. *last is the path of the last file ("": none), valid until close. */
int64_t aorta_step_traces_written(const struct aorta_step_traces *traces, const char **last);
/* Steps not written by finish are lost. NULL is fine. */
void aorta_step_traces_close(struct aorta_step_traces *traces);

#endif
