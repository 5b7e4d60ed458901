/* What each step of each recording spent on what; for compare.c. */
#ifndef AORTA_ANALYSIS_COMPARE_SAMPLES_H
#define AORTA_ANALYSIS_COMPARE_SAMPLES_H

#include "analysis/compare.h"
#include "base/table.h"

/* One recording's samples of a row. */
struct compare_series {
    double *ns;   /* of each step, summed over ranks; NULL: it does not occur */
    double count; /* in all */
};

struct compare_samples_row {
    enum aorta_trace_section section;
    const char *name;
    struct compare_series *series; /* one for each input */
    bool counted;                  /* things that can be counted: kernels, not stretches of time */
    bool communicates;             /* it has collectives */
    bool part;                     /* as in aorta_trace_compare_row, and: */
    enum aorta_good good;
    struct aorta_trace_below *below; /* of sides */
};

struct compare_samples {
    struct aorta_arena *arena; /* borrowed */
    size_t inputs;
    size_t *steps;   /* of each input */
    uint32_t *sides; /* of each input: the side that it belongs to */
    bool stepped;
    struct compare_samples_row *rows; /* owned */
    size_t count, capacity;
    struct aorta_table table; /* of rows, by section and name */
};

/* Ends with aorta_compare_samples_free, also on failure. */
AORTA_MUST_USE aorta_status aorta_compare_samples_make(const struct aorta_trace_compare_input *inputs, size_t count,
                                                       struct aorta_arena *arena, struct compare_samples *samples);
void aorta_compare_samples_free(struct compare_samples *samples);

#endif
