/* Iterations made by hand as a recording, as the metrics lines of a run become one. */
#ifndef AORTA_TESTS_MEASURED_SAMPLE_H
#define AORTA_TESTS_MEASURED_SAMPLE_H

#include "analysis/analysis.h"
#include "measure/run_files.h"

struct sample_recording {
    struct aorta_trace_list traces;
    struct aorta_trace_analysis analysis;
};

/* Ranks and steps in any order. `device`: what to say of the ranks' device, or NULL; warmup below 0: automatic. */
aorta_status sample_analyze(const struct aorta_iteration *iterations, size_t count, int warmup,
                            const struct aorta_metrics_device *device, struct sample_recording *recording);
void sample_recording_free(struct sample_recording *recording);

#endif
