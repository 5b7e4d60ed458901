/* profiling.*: trace files of the steps that its schedule asks for. */
#ifndef AORTA_TRAIN_TRACING_H
#define AORTA_TRAIN_TRACING_H

#include "measure/metrics.h"
#include "measure/step_traces.h"
#include "train/context.h"

/* Opens the files' writer below training.output_dir; NULL where profiling.enabled is false. `tracer`: of GPUs, else
 * NULL. Warns when the run, of `steps` steps, ends before the first traced one. */
AORTA_MUST_USE aorta_status aorta_tracing_open(const struct aorta_train_context *context, struct aorta_tracer *tracer,
                                               int64_t steps, struct aorta_step_traces **traces);
/* Which steps the profile's schedule asks for. */
struct aorta_profiler_schedule aorta_tracing_schedule(const struct aorta_train_options *options);
/* The traced run's steps go into the files once their kernels are known. */
void aorta_tracing_follow(struct aorta_step_traces *traces, struct aorta_metrics_lines *lines);
/* Ends the files and says where they are. NULL is fine; the writer is closed in any case. */
AORTA_MUST_USE aorta_status aorta_tracing_close(const struct aorta_train_context *context,
                                                struct aorta_step_traces *traces);

#endif
