/* Steps that a recorder of ours measured, as a trace like any other: how the metrics lines of runs come to their
 * analysis. */
#ifndef AORTA_MEASURE_MEASURED_TRACE_H
#define AORTA_MEASURE_MEASURED_TRACE_H

#include "trace/trace.h"

struct aorta_measured_step {
    int64_t number;
    int64_t step_ns;                     /* from step to step, as the run measured it; 0: not known */
    const struct aorta_profile *profile; /* with its overlap; both are borrowed until the trace is freed */
    const struct aorta_overlap *overlap;
};

/* What one rank measured. Texts are copied, steps are not. */
struct aorta_measured_rank {
    int rank, world_size;
    const char *path;                         /* what the trace is called */
    bool on_gpu;                              /* a range may hold many kernels */
    const char *device_name, *isa;            /* NULL: not known */
    int64_t memory_bytes, multiprocessors;    /* -1: not known */
    const struct aorta_measured_peaks *peaks; /* NULL: a table has them, or nothing has */
    const struct aorta_measured_step *steps;  /* in their order */
    size_t step_count;
};

/* AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_of_measured(const struct aorta_measured_rank *rank, struct aorta_trace **trace);

#endif
