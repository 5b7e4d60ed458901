/* A run as it is reported: its steps that count, its recording, analysis and verdict. */
#ifndef AORTA_REPORT_LABELLED_H
#define AORTA_REPORT_LABELLED_H

#include "measure/clocks.h"
#include "measure/run_files.h"
#include "report/machine.h"
#include "report/settings.h"
#include "verdict/verdict.h"

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
    /* Every iteration was traced: the steps' `profile` and `overlap` are the kernel view, `kernels` the range
     * view; figures and verdict are made from kernels. */
    bool by_kernels;
    struct aorta_measured *measured; /* one for each of run.ranks */
    struct aorta_clocks *clocks;     /* one for each of run.ranks */
    size_t lowest_clock;             /* the rank in it whose clock is the lowest, as a share of its maximum */
    struct aorta_records records;
    struct aorta_recorded_machine machine;
    struct aorta_settings settings, environment; /* in the run's arena; none: its directory has no such file */
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

#endif
