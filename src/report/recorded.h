/* Reads and analyses what a command line names: traces, or the directory of a run of `aorta train`. The metrics lines
 * of such a run become one trace per rank. If the run has no ranges (recording was off), the traces in its directory
 * are used. */
#ifndef AORTA_REPORT_RECORDED_H
#define AORTA_REPORT_RECORDED_H

#include "report/summary.h"
#include "trace/open.h"

struct aorta_recorded {
    const struct aorta_trace_analysis *analysis; /* of the following */
    const struct aorta_verdict *verdict;         /* NULL before aorta_recorded_evaluate */
    bool is_run;
    struct aorta_labelled run; /* traces have no steps; their machine and environment are in the folder of the first */
};

/* `reading` is for traces: with a run AORTA_USAGE names what of it was set. Else as aorta_run_read,
 * aorta_trace_open_inputs and aorta_trace_analyze. The caller ends *recorded, also after a failure. */
AORTA_MUST_USE aorta_status aorta_recorded_open(const char *const *paths, size_t count,
                                                const struct aorta_trace_options *reading,
                                                const struct aorta_trace_analysis_options *options,
                                                const struct aorta_log *log, struct aorta_recorded *recorded);
/* Sets the verdict: of a run the one of `aorta report`. */
AORTA_MUST_USE aorta_status aorta_recorded_evaluate(struct aorta_recorded *recorded);
/* What differs between two, as far as it is known. */
AORTA_MUST_USE aorta_status aorta_recorded_differences(const struct aorta_recorded *reference,
                                                       const struct aorta_recorded *candidate,
                                                       struct aorta_differences *differences);
void aorta_recorded_free(struct aorta_recorded *recorded);

#endif
