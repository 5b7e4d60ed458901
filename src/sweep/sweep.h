/* A sweep: what its knobs may be, which trials it has run, and what these measured. docs/sweep.md has the files.
 *
 * A point is one value for each knob, a trial one run of a point. A point is named by its cell: the number whose digits
 * are the indices of the values, the last knob's first. The baseline is what runs when no knob is set
 * that has several values. */
#ifndef AORTA_SWEEP_SWEEP_H
#define AORTA_SWEEP_SWEEP_H

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AORTA_SWEEP_SCHEMA = 1, AORTA_SWEEP_MOST_KNOBS = 16, AORTA_SWEEP_MOST_VALUES = 64, AORTA_SWEEP_BASELINE = -1 };

/* ---- knobs ---- */

struct aorta_sweep_knob {
    const char *name;
    bool environment;          /* a variable; else a key of the configuration, an option or a place in the command */
    const char *const *values; /* as written; "unset" leaves a variable out */
    int count;
    bool ordered; /* all are numbers, ascending or descending: neighbours are alike */
};

struct aorta_sweep_space { /* zero-initialise; strings lie in the arena given to aorta_sweep_space_add */
    struct aorta_sweep_knob knobs[AORTA_SWEEP_MOST_KNOBS];
    int count;
};

/* "NAME=a,b,c"; commas within brackets or quotes belong to a value. AORTA_USAGE: no values, one twice, the knob twice,
 * too many knobs or points. */
AORTA_MUST_USE aorta_status aorta_sweep_space_add(struct aorta_sweep_space *space, const char *text, bool environment,
                                                  struct aorta_arena *arena);
/* Its index; -1: there is none. */
int aorta_sweep_knob_named(const struct aorta_sweep_space *space, const char *name, size_t length);
int64_t aorta_sweep_cells(const struct aorta_sweep_space *space);
/* The index of the knob's value at a point, which is not the baseline. */
int aorta_sweep_level(const struct aorta_sweep_space *space, int64_t cell, int knob);
/* NULL: the baseline does not set it, as it has several values. */
const char *aorta_sweep_value(const struct aorta_sweep_space *space, int64_t cell, int knob);
/* Whether a knob changes what there is to do in a step (batch size, streams, the model), so that times of steps do not
 * compare; NULL: none. */
const char *aorta_sweep_changes_work(const struct aorta_sweep_space *space);
/* "fsdp.forward_prefetch=true NCCL_PROTO=LL", "baseline" */
void aorta_sweep_point_text(const struct aorta_sweep_space *space, int64_t cell, struct aorta_text *text);

/* ---- objectives ---- */

enum aorta_sweep_objective {
    AORTA_SWEEP_STEP_MS,
    AORTA_SWEEP_OVERLAP_RATIO,
    AORTA_SWEEP_EXPOSED_COMM_MS,
    AORTA_SWEEP_THROUGHPUT,
    AORTA_SWEEP_OBJECTIVE_COUNT
};
struct aorta_sweep_objective_row {
    const char *key, *unit;
    bool higher_is_better;
    double min, max; /* values outside were not measured */
    bool above_min;  /* min itself is outside */
};
extern const struct aorta_sweep_objective_row aorta_sweep_objectives[AORTA_SWEEP_OBJECTIVE_COUNT];

/* Whether a figure can be one; NaN, which is not measured, can. */
bool aorta_sweep_figure_fits(enum aorta_sweep_objective objective, double figure);

/* ---- trials ---- */

enum aorta_trial_state {
    AORTA_TRIAL_DONE,
    AORTA_TRIAL_FAILED,    /* ended with an exit code that is not 0 */
    AORTA_TRIAL_CRASHED,   /* a signal ended it */
    AORTA_TRIAL_HUNG,      /* took longer than allowed and was ended */
    AORTA_TRIAL_NO_FIGURE, /* ended well without the figure that is wanted */
    AORTA_TRIAL_DISK_FULL, /* ended for a reason outside it: no space left. --resume runs it again */
    AORTA_TRIAL_STATE_COUNT,
    AORTA_TRIAL_PENDING = AORTA_TRIAL_STATE_COUNT /* has not ended, and stands in no file */
};
const char *aorta_trial_state_name(enum aorta_trial_state state);
/* Adds the bit of a state that is named, but for done and disk_full, or those of all of these. AORTA_USAGE names
 * --retry. */
AORTA_MUST_USE aorta_status aorta_sweep_states_read(const char *name, unsigned *states);

struct aorta_trial {
    int64_t number; /* from 0, in the order of their ends */
    int64_t again;  /* number of the trial that ran again in this one; -1: none */
    int64_t cell;   /* or AORTA_SWEEP_BASELINE */
    int repeat;     /* 0: the first run of its point with these steps */
    int64_t steps;  /* that it was to make; 0: as configured */
    enum aorta_trial_state state;
    int exit_code, signal;
    double seconds;
    double figures[AORTA_SWEEP_OBJECTIVE_COUNT]; /* NaN: not measured */
    double pressure;                             /* of the machine meanwhile (base/compare.h); 0: not known */
    char device[16];                             /* that it ran on, "cpu"; "": its files do not say */
    char unit[16];                               /* of its throughput, "GFLOPS"; "": its files do not say */
    char reason[160];                            /* of a trial that is not done, never empty; else "" */
};

/* Whether it has the figure; failures have not. */
bool aorta_trial_has(const struct aorta_trial *trial, enum aorta_sweep_objective objective);

struct aorta_trials { /* zero-initialise */
    struct aorta_trial *items;
    size_t count, capacity;
};
AORTA_MUST_USE aorta_status aorta_trials_add(struct aorta_trials *trials, const struct aorta_trial *trial);
/* Moves those of the states (a bit for each) to the end of `taken`, in their order. */
AORTA_MUST_USE aorta_status aorta_trials_take(struct aorta_trials *trials, unsigned states, struct aorta_trials *taken);
void aorta_trials_free(struct aorta_trials *trials);
/* The row's unit; of throughput the one that the trials name. */
const char *aorta_sweep_unit(const struct aorta_trials *trials, enum aorta_sweep_objective objective);
/* Whether one says that it ran on a GPU. */
bool aorta_trials_on_gpu(const struct aorta_trials *trials);

/* ---- the plan ---- */

enum aorta_sweep_method { AORTA_SWEEP_GRID, AORTA_SWEEP_RANDOM, AORTA_SWEEP_HALVING, AORTA_SWEEP_TPE };
extern const char *const aorta_sweep_methods[]; /* by method */

struct aorta_sweep_plan {
    const char *target; /* what runs, whatever its knobs: "train config/base.yaml -n 2"; "": not known */
    struct aorta_sweep_space space;
    enum aorta_sweep_method method;
    enum aorta_sweep_objective objective;
    int64_t points; /* how many different points are tried; 0: all of a grid, 20 of another search */
    int repeats;    /* runs of a point, at least 1 */
    bool baseline;  /* runs as often, first in each round */
    int64_t equal;  /* 1 + the cell whose values the baseline has; 0: none, or not known */
    int64_t steps;  /* of a whole trial; 0: as configured. Halving needs it */
    uint64_t seed;
};

/* The point that a trial ran: of the baseline the one with the same values, where there is one. */
int64_t aorta_sweep_cell_of(const struct aorta_sweep_plan *plan, const struct aorta_trial *trial);

/* Lower is better, whatever the objective; infinite for a trial without the figure. */
double aorta_sweep_cost(const struct aorta_sweep_plan *plan, const struct aorta_trial *trial);

struct aorta_sweep_next {
    int64_t cell, steps;
    int repeat;
    bool waits; /* which trial it is, a pending one decides */
};

/* The trial after these; false: there is none. Nothing but the plan and the trials decides, so a sweep that was stopped
 * goes on as if it had not been, and one with pending trials has the same ones in the same order. AORTA_MEMORY.
 * (search.c) */
AORTA_MUST_USE aorta_status aorta_sweep_choose(const struct aorta_sweep_plan *plan, const struct aorta_trials *trials,
                                               struct aorta_sweep_next *next, bool *more);
/* How many trials it will be, when none fails. */
int64_t aorta_sweep_planned(const struct aorta_sweep_plan *plan);

/* ---- trials.jsonl ---- */

/* The first line: what is swept. Two sweeps with the same line have the same trials. */
void aorta_sweep_header(const struct aorta_sweep_plan *plan, struct aorta_text *line);
void aorta_sweep_trial_line(const struct aorta_sweep_plan *plan, const struct aorta_trial *trial,
                            struct aorta_text *line);
/* What trials.jsonl and sweep.json have in common: "{" and what is swept; a trial; values and figures of a point. */
void aorta_sweep_json_begin(const struct aorta_sweep_plan *plan, struct aorta_text *text, int indent,
                            struct aorta_json *json);
void aorta_sweep_trial_json(const struct aorta_sweep_plan *plan, const struct aorta_trial *trial,
                            struct aorta_json *json);
void aorta_sweep_point_json(const struct aorta_sweep_space *space, int64_t cell, struct aorta_json *json);
void aorta_sweep_figures_json(const double figures[AORTA_SWEEP_OBJECTIVE_COUNT], struct aorta_json *json);

/* Reads plan (strings in the arena) and trials of a file, without those that ran again. A last line that a kill
 * cut is left out; `valid` (NULL: not wanted) is how many bytes are whole lines. AORTA_IO, AORTA_FORMAT with the line.
 */
AORTA_MUST_USE aorta_status aorta_sweep_read(const char *path, struct aorta_arena *arena, struct aorta_sweep_plan *plan,
                                             struct aorta_trials *trials, int64_t *valid);

/* ---- knobs for the causes that a first run's verdict names ---- */

/* Adds the knobs (knobs.def) of the causes in summary.json or analysis.json of `directory`, those that cost most first,
 * at most `most`; knobs that the space has already stay as they are. `program`: ours, sparse or any, as in knobs.def.
 * `text` receives a line for each with its cause. AORTA_USAGE: no such file, or no knob for its causes. */
AORTA_MUST_USE aorta_status aorta_sweep_suggest(const char *directory, const char *program, int most,
                                                struct aorta_arena *arena, struct aorta_sweep_space *space,
                                                struct aorta_text *text);

#endif
