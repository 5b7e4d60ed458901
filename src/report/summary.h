/* summary.json: figures, verdict and comparison of labelled runs (layout: docs/metrics-format.md). */
#ifndef AORTA_REPORT_SUMMARY_H
#define AORTA_REPORT_SUMMARY_H

#include "base/json.h"
#include "base/result_table.h"
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
/* What equal steps reach in all the time that they take, waiting included: the harmonic mean. NaN: none is known. */
double aorta_rate_mean(const double *samples, size_t count);

struct aorta_label; /* report/comparison.h */
/* `reference` and `candidate`: the labels that are compared, or NULL. */
AORTA_MUST_USE aorta_status aorta_summary_write(const struct aorta_labelled *runs, size_t count,
                                                const struct aorta_label *reference,
                                                const struct aorta_label *candidate, struct aorta_text *out);

/* One object: what the summary has of one run. */
void aorta_summary_of(const struct aorta_labelled *labelled, struct aorta_json *json);

/* Its rows, for the docs: the run, a figure, collectives of a kind, what records of kernels there are; and of struct
 * aorta_run what each file holds. */
extern const struct aorta_row aorta_summary_rows[], aorta_summary_statistics_rows[], aorta_summary_collective_rows[],
    aorta_summary_records_rows[];
extern const struct aorta_result_table aorta_summary_coverage;

/* datasets.c: for readers of the original Python toolkit's summary.json, the member "datasets", and in the comparison
 * the shares of compute that ran beside communication and their difference. */
void aorta_summary_datasets(const struct aorta_labelled *runs, size_t count, struct aorta_json *json);
void aorta_summary_ratios(const struct aorta_labelled *reference, const struct aorta_labelled *candidate,
                          struct aorta_json *json);

/* The tables of the summaries as CSV: figures.csv and collectives.csv in the folder. AORTA_IO, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_summary_csv(const struct aorta_labelled *runs, size_t count, const char *folder);

#endif
