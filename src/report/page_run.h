/* The page of runs: summary.json, what each iteration took, and the streams over time. */
#ifndef AORTA_REPORT_PAGE_RUN_H
#define AORTA_REPORT_PAGE_RUN_H

#include "report/summary.h"

/* `summary`: the text of summary.json. AORTA_UNSUPPORTED, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_page_of_runs(const struct aorta_labelled *runs, size_t count,
                                               const struct aorta_text *summary, struct aorta_text *out);

#endif
