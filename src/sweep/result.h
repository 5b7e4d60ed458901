/* What a sweep found: its best point, what each knob is worth, and the files that say so. */
#ifndef AORTA_SWEEP_RESULT_H
#define AORTA_SWEEP_RESULT_H

#include "sweep/importance.h"
#include "sweep/run.h"

/* The trials of a point with the same steps that have the figure. */
struct aorta_sweep_point {
    int64_t cell, steps;
    int runs;
    double figures[AORTA_SWEEP_OBJECTIVE_COUNT]; /* means */
    double cost;                                 /* of the objective's mean; lower is better */
};

struct aorta_sweep_result {
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

/* At most ten lines. */
void aorta_sweep_result_text(const struct aorta_sweep_plan *plan, const char *target,
                             const struct aorta_sweep_result *result, struct aorta_text *text);
/* sweep.json */
void aorta_sweep_result_json(const struct aorta_sweep_plan *plan, const char *target,
                             const struct aorta_sweep_result *result, const struct aorta_trials *trials,
                             struct aorta_text *text);
/* points.csv in the folder. AORTA_IO, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_sweep_result_csv(const struct aorta_sweep_plan *plan,
                                                   const struct aorta_sweep_result *result, const char *folder);
/* Writes sweep.json, and of a best point that wins best.yaml (train) and best.env (variables). */
AORTA_MUST_USE aorta_status aorta_sweep_result_write(const struct aorta_sweep_job *job,
                                                     const struct aorta_sweep_result *result,
                                                     const struct aorta_trials *trials);

#endif
