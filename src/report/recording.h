/* What recording ranges cost: steps with ranges beside steps without, in one run (profiling.record_every). */
#ifndef AORTA_REPORT_RECORDING_H
#define AORTA_REPORT_RECORDING_H

#include "report/summary.h"

extern const struct aorta_row aorta_recording_rows[]; /* of the member below, for the docs */

/* The member "recording_cost" of summary.json, and a sentence; where all steps are of one kind, the sentence says what
 * records of kernels cost their launches at most, or there is none. */
void aorta_recording_json(const struct aorta_labelled *labelled, struct aorta_json *json);
void aorta_recording_text(const struct aorta_labelled *labelled, struct aorta_text *out);

#endif
