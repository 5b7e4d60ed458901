/* summary.json: figures, verdict and comparison of labelled runs (layout: docs/metrics-format.md). */
#ifndef AORTA_REPORT_SUMMARY_H
#define AORTA_REPORT_SUMMARY_H

#include "base/json.h"
#include "base/statistics.h"
#include "formats/measured.h"
#include "measure/clocks.h"
#include "report/run.h"

enum { AORTA_SUMMARY_SCHEMA = 1 };

/* The steps of a rank that count: run.steps[first .. first + count). */
struct aorta_measured {
    size_t first, count;
};

/* What the kernel records of the measured iterations are. */
struct aorta_records {
    int64_t iterations;                   /* that have records */
    int64_t kernels, attributed, dropped; /* in all; whose range is known; lost */
    int64_t launches;                     /* calls of the host that launched them */
};

/* A run with its verdict. */
struct aorta_labelled {
    struct aorta_run run;
    struct aorta_trace_list traces; /* of the ranks with ranges; their steps' profiles are the run's */
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    bool has_verdict; /* there were ranges; else there is neither analysis nor verdict */
    size_t warmup;    /* iterations of each rank left out of the figures: recorded ones, and what lies between them */
    /* Every iteration was traced: the steps' `profile` and `overlap` are the kernel view, `kernel_profile` and
     * `kernel_overlap` the range view; figures and verdict are made from kernels. */
    bool by_kernels;
    struct aorta_measured *measured; /* one for each of run.ranks */
    struct aorta_clocks *clocks;     /* one for each of run.ranks */
    size_t lowest_clock;             /* the rank in it whose clock is the lowest, as a share of its maximum */
    struct aorta_records records;
};

/* Takes over *run on success. */
AORTA_MUST_USE aorta_status aorta_labelled_make(struct aorta_run *run,
                                                const struct aorta_trace_analysis_options *options,
                                                struct aorta_labelled *labelled);
void aorta_labelled_free(struct aorta_labelled *labelled);

/* The steps of run.ranks[rank] that count: run.steps[*first .. *first + result). And the most that a rank has. */
size_t aorta_measured_steps(const struct aorta_labelled *labelled, size_t rank, size_t *first);
size_t aorta_measured_most(const struct aorta_labelled *labelled);

/* Clocks of the ranks from the measured steps, and the note on them in the verdict. (clocks.c) */
AORTA_MUST_USE aorta_status aorta_labelled_clocks(struct aorta_labelled *labelled);

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
