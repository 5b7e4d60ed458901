#include "trace/coverage.h"

/* Where more is missing than recorded, what is missing may outweigh every cause that is found. */
static const double MOST_MISSING = 0.5;

double aorta_trace_missing_share(const struct aorta_trace *trace) {
    const struct aorta_trace_coverage *coverage = &trace->coverage;
    const double dispatches = (double)(coverage->dispatches + coverage->lost);
    /* Work whose launches are not in the file is there all the same, as where the file is a part of a recording. */
    const double known = (double)coverage->unanswered + (double)(trace->host_only ? 0 : trace->work_count);
    const double launched = known > 0 ? (double)coverage->unanswered / known : 0;
    const double numbered = dispatches > 0 ? (double)coverage->lost / dispatches : 0;
    return launched > numbered ? launched : numbered;
}

bool aorta_trace_is_too_thin(const struct aorta_trace *trace) {
    return aorta_trace_missing_share(trace) > MOST_MISSING;
}
