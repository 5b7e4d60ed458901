/* summary.json: figures, verdict and comparison of labelled runs (layout: docs/metrics-format.md). */
#ifndef AORTA_REPORT_SUMMARY_H
#define AORTA_REPORT_SUMMARY_H

#include "base/json.h"
#include "base/statistics.h"
#include "report/labelled.h"

enum { AORTA_SUMMARY_SCHEMA = 1 };

/* A figure that each iteration has; NaN where it was not measured. (metric.c) */
struct aorta_metric {
    const char *key, *unit;
    bool higher_is_better;
    double (*get)(const struct aorta_run_step *step);
};
extern const struct aorta_metric aorta_metrics[]; /* ends with a NULL key */

/* The difference of two figures, perhaps of the same run. A sample is an iteration's mean over its ranks. (metric.c) */
AORTA_MUST_USE aorta_status aorta_metric_compare(const struct aorta_labelled *reference,
                                                 const struct aorta_metric *reference_metric,
                                                 const struct aorta_labelled *candidate,
                                                 const struct aorta_metric *candidate_metric,
                                                 struct aorta_comparison *comparison);
/* "significant (p = 0.012)", "within the noise (p = 0.4)", or why nothing is known. (metric.c) */
void aorta_metric_chance(const struct aorta_comparison *comparison, struct aorta_text *out);

/* The figure that differs most beyond the noise, for better or worse, in one sentence with its end; or that none does.
 * Times count where they differ by 1% of the step or more. (metric.c) */
AORTA_MUST_USE aorta_status aorta_metric_largest_change(const struct aorta_labelled *reference,
                                                        const struct aorta_labelled *candidate, struct aorta_text *out);

/* One object: all figures of two runs, and the sentence above. */
AORTA_MUST_USE aorta_status aorta_summary_comparison(const struct aorta_labelled *reference,
                                                     const struct aorta_labelled *candidate, struct aorta_json *json);
/* `reference` and `candidate`: indices in `runs`, or negative. */
AORTA_MUST_USE aorta_status aorta_summary_write(const struct aorta_labelled *runs, size_t count, int reference,
                                                int candidate, struct aorta_text *out);

/* datasets.c: for readers of the original Python toolkit's summary.json, the member "datasets", and in the comparison
 * the shares of compute that ran beside communication and their difference. */
void aorta_summary_datasets(const struct aorta_labelled *runs, size_t count, struct aorta_json *json);
void aorta_summary_ratios(const struct aorta_labelled *reference, const struct aorta_labelled *candidate,
                          struct aorta_json *json);

/* The tables of the summaries as CSV: figures.csv and collectives.csv in the folder. AORTA_IO, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_summary_csv(const struct aorta_labelled *runs, size_t count, const char *folder);

#endif
