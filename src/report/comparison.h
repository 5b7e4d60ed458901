/* The comparison of labels that terminal, summary.json and page share. */
#ifndef AORTA_REPORT_COMPARISON_H
#define AORTA_REPORT_COMPARISON_H

#include "base/compare.h"
#include "report/summary.h"

/* A label: one run, or several equal ones. */
struct aorta_label {
    const struct aorta_recorded *runs; /* borrowed */
    size_t count;
};

/* Two figures of the same run. */
struct aorta_comparison aorta_run_compare(const struct aorta_recorded *run, const struct aorta_metric *reference,
                                          const struct aorta_metric *candidate, struct aorta_arena *memory);

/* Differences of configuration, environment and clocks, as far as they are known. */
void aorta_recorded_differences(const struct aorta_recorded *reference, const struct aorta_recorded *candidate,
                                struct aorta_differences *differences);

/* Prints a headline and its facts; `answer`: the headline alone. */
void aorta_label_comparison_text(const struct aorta_label *reference, const struct aorta_label *candidate, bool answer,
                                 struct aorta_text *out);
/* One object: all figures of two labels, and the sentence. */
void aorta_label_comparison_json(const struct aorta_label *reference, const struct aorta_label *candidate,
                                 struct aorta_json *json);

#endif
