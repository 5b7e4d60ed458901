/* Runs the trials of a plan, one after the other, and records each in OUTPUT/trials.jsonl. */
#ifndef AORTA_SWEEP_RUN_H
#define AORTA_SWEEP_RUN_H

#include "sweep/submit.h"
#include "sweep/sweep.h"

#include <stdio.h>

enum aorta_sweep_target {
    AORTA_SWEEP_TRAIN,  /* knobs are configuration keys */
    AORTA_SWEEP_HWQ,    /* … options of aorta hwq run */
    AORTA_SWEEP_COMMAND /* … stand in braces in the words of a command */
};

struct aorta_sweep_job {
    struct aorta_sweep_plan plan;
    enum aorta_sweep_target target;
    const char *config;           /* train; may be NULL */
    const char *const *overrides; /* train */
    size_t override_count;
    const char *workload;                      /* hwq */
    char *const *command;                      /* NULL-terminated */
    bool trace;                                /* command: under aorta trace run */
    int ranks;                                 /* started with aorta launch where there are several */
    double timeout_s;                          /* of a trial; 0: none */
    const struct aorta_sweep_template *submit; /* jobs of a scheduler run the trials; NULL: processes of this machine */
    int64_t jobs;                              /* so many at a time; 1 without `submit` */
    const char *output, *self;                 /* directory; absolute path of this program */
    bool resume;
    unsigned retry; /* a bit for each aorta_trial_state: with `resume` those run again */
    FILE *progress; /* a line for each trial */
};

/* The same text for the same sweep, whatever its knobs: "train config/base.yaml -n 2". */
void aorta_sweep_target_text(const struct aorta_sweep_job *job, struct aorta_text *text);

/* Whether something runs when no knob is set: a command has places for the values of its own knobs. */
bool aorta_sweep_has_baseline(const struct aorta_sweep_job *job);

/* What would fail in every trial: keys and values that no configuration takes, placeholders that nothing fills,
 * halving without steps. AORTA_USAGE, AORTA_CONFIG. */
AORTA_MUST_USE aorta_status aorta_sweep_check(const struct aorta_sweep_job *job);

/* For aorta train: sets plan.equal by the configuration that each value gives. AORTA_CONFIG, AORTA_MEMORY. (command.c)
 */
AORTA_MUST_USE aorta_status aorta_sweep_find_equal(const struct aorta_sweep_job *job, int64_t *equal);

/* The words that a trial runs; all lie in the arena. `directory`: the trial's. (command.c) */
AORTA_MUST_USE aorta_status aorta_sweep_command(const struct aorta_sweep_job *job, const struct aorta_sweep_next *next,
                                                const char *directory, struct aorta_arena *arena, char ***words);

/* Runs what is left of the plan. `trials` receives all, those of before too; *interrupted: a signal ended it, and
 * every trial that ended before is recorded. AORTA_USAGE: the directory has a sweep and --resume was not given, or
 * another sweep than this. A trial's failure is recorded and no error. */
AORTA_MUST_USE aorta_status aorta_sweep_run(const struct aorta_sweep_job *job, struct aorta_trials *trials,
                                            int *interrupted);

#endif
