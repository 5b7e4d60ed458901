/* What `aorta help CAUSE` prints. */
#ifndef AORTA_REPORT_CAUSE_HELP_H
#define AORTA_REPORT_CAUSE_HELP_H

#include "base/text.h"
#include "verdict/verdict.h"

/* Meaning, measurement, gain, fixes by program and when not to apply them; lines of 100 columns. */
void aorta_cause_help(enum aorta_cause cause, struct aorta_text *out);

#endif
