/* The page of runs: summary.json, what each iteration took, and the streams over time. */
#ifndef AORTA_REPORT_PAGE_RUN_H
#define AORTA_REPORT_PAGE_RUN_H

#include "report/comparison.h"

struct aorta_page_runs {
    const struct aorta_labelled *runs;
    size_t count;
    const struct aorta_label *labels; /* of them */
    size_t label_count;
    const struct aorta_label *reference; /* the others are compared with it; NULL: with the first */
};

/* `summary`: the text of summary.json. AORTA_UNSUPPORTED, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_page_of_runs(const struct aorta_page_runs *runs, const struct aorta_text *summary,
                                               struct aorta_text *out);

#endif
