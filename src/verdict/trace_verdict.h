/* The verdict on recorded traces: the engine of verdict.h on the windows of all ranks. */
#ifndef AORTA_VERDICT_TRACE_VERDICT_H
#define AORTA_VERDICT_TRACE_VERDICT_H

#include "timeline/analysis.h"
#include "verdict/verdict.h"

/* The caller ends *verdict with aorta_verdict_free; it borrows nothing of the analysis. */
AORTA_MUST_USE aorta_status aorta_trace_verdict(const struct aorta_trace_analysis *analysis,
                                                struct aorta_verdict *verdict);

/* What of late launches may be the recording's own, which makes each of so many launches a step longer
 * (trace_recorder.c). False: below what deserves a note. */
bool aorta_recording_share(const struct aorta_verdict *verdict, double launches, char *sentence, size_t size);
/* Sets the verdict's note where late launches may be the recording's own (trace_recorder.c). */
AORTA_MUST_USE aorta_status aorta_trace_recording_note(const struct aorta_trace_analysis *analysis,
                                                       struct aorta_verdict *verdict);

#endif
