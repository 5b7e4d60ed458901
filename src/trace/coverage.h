/* How much of the device's work a recording holds, as far as it says itself what ran. */
#ifndef AORTA_TRACE_COVERAGE_H
#define AORTA_TRACE_COVERAGE_H

#include "trace/trace.h"

/* The larger share that is missing: of kernels that were launched, or of dispatches by their numbers. 0: none is, or
 * the file does not say. */
double aorta_trace_missing_share(const struct aorta_trace *trace);

/* Whether too much is missing to say what limits a step: then there is no verdict, but what to record instead. */
bool aorta_trace_is_too_thin(const struct aorta_trace *trace);

#endif
