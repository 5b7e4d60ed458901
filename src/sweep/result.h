/* The result of a sweep: its best point, the importance of each knob, and their files. */
#ifndef AORTA_SWEEP_RESULT_H
#define AORTA_SWEEP_RESULT_H

#include "sweep/run.h"
#include "sweep/sweep.h"

/* The share of the objective's variance that each knob explains: analysis of variance by least squares, with repeats
 * as randomised blocks (Fisher 1925; without a full grid, each knob given all other knobs, Yates 1934). On a full grid
 * the shares are those of the functional ANOVA (Hutter, Hoos & Leyton-Brown 2014). */

struct aorta_sweep_effect {
    int knobs[2];  /* the second is -1 for a knob alone */
    double share;  /* explained share of the variance over all trials, minus the share expected by chance; 0 … 1 */
    double p;      /* p value, times the number of such effects; NaN: unknown */
    bool measured; /* whether the trials can show it: they have the needed combinations of values */
    bool counts;   /* p < aorta_significance */
};

struct aorta_sweep_level {
    double mean; /* of the objective over the trials with this value; NaN: none has it */
    int done, failed;
};

struct aorta_sweep_importance {
    /* Standard deviation of repeated trials of a point with the same number of steps, including the baseline's, after
     * subtracting the mean of each repeat. Without repeats: of the residuals of a model with single knobs. NaN if both
     * are unknown. */
    double noise;
    int freedom;   /* of the noise: degrees of freedom */
    bool repeated; /* the noise is that of repeats */
    struct aorta_sweep_effect mains[AORTA_SWEEP_MOST_KNOBS];
    struct aorta_sweep_effect pairs[AORTA_SWEEP_MOST_KNOBS * (AORTA_SWEEP_MOST_KNOBS - 1) / 2];
    int pair_count;
    struct aorta_sweep_level levels[AORTA_SWEEP_MOST_KNOBS][AORTA_SWEEP_MOST_VALUES];
    bool counts[AORTA_SWEEP_MOST_KNOBS];  /* significant, alone or in a pair */
    double total[AORTA_SWEEP_MOST_KNOBS]; /* share alone plus half of its pairs' shares; at most 1 in total */
};

/* Sets noise, freedom and repeated alone. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_sweep_noise_make(const struct aorta_sweep_plan *plan,
                                                   const struct aorta_trials *trials,
                                                   struct aorta_sweep_importance *importance);
/* AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_sweep_importance_make(const struct aorta_sweep_plan *plan,
                                                        const struct aorta_trials *trials,
                                                        struct aorta_sweep_importance *importance);

/* The trials of a point with the same steps that have the figure. */
struct aorta_sweep_point {
    int64_t cell, steps;
    int runs;
    double figures[AORTA_SWEEP_OBJECTIVE_COUNT]; /* means */
    double cost;                                 /* of the objective's mean; lower is better */
};

struct aorta_sweep_result {
    const struct aorta_sweep_plan *plan; /* borrowed, as the trials */
    const struct aorta_trials *trials;
    struct aorta_sweep_point *points;     /* of whole trials first, each group from the best to the worst */
    size_t count, whole;                  /* in all, of whole trials */
    const struct aorta_sweep_point *best; /* NULL: no trial has the figure. Halving and TPE choose a repeated point */
    size_t alike;                         /* other points that only chance may have made worse */
    bool wins;                            /* the best point, or a knob, beats the noise */
    struct aorta_sweep_point baseline;    /* 0 runs: none has the figure */
    bool baseline_alike;                  /* its distance from the best point may be chance */
    int states[AORTA_TRIAL_STATE_COUNT];
    double seconds; /* of all trials */
    struct aorta_sweep_importance importance;
};

/* Ends with aorta_sweep_result_free; on failure there is nothing to free. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_sweep_result_make(const struct aorta_sweep_plan *plan,
                                                    const struct aorta_trials *trials,
                                                    struct aorta_sweep_result *result);
void aorta_sweep_result_free(struct aorta_sweep_result *result);

/* Writes at most ten lines, or with `answer` only the first. */
void aorta_sweep_result_text(const struct aorta_sweep_result *result, bool answer, struct aorta_text *text);
/* sweep.json */
void aorta_sweep_result_json(const struct aorta_sweep_result *result, struct aorta_text *text);
/* points.csv in the folder. AORTA_IO, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_sweep_result_csv(const struct aorta_sweep_result *result, const char *folder);
/* Writes sweep.json, and of a best point that wins best.yaml (train) and best.env (variables). */
AORTA_MUST_USE aorta_status aorta_sweep_result_write(const struct aorta_sweep_job *job,
                                                     const struct aorta_sweep_result *result);

#endif
