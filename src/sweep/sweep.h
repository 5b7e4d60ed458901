/* A sweep: its knobs, its trials, and their figures. docs/sweep.md describes the files.
 *
 * A point is one value for each knob; a trial is one run of a point. A point's cell is the number whose digits are the
 * indices of its values; the last knob has the lowest digit. The baseline runs without the knobs that have several
 * values. */
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
    bool environment; /* an environment variable; else a configuration key, an option or a placeholder in the command */
    const char *const *values; /* as written; "unset" leaves a variable out */
    int count;
    bool ordered; /* values are ascending or descending numbers, so neighbours are similar */
};

struct aorta_sweep_space { /* zero-initialise; strings are in the arena given to aorta_sweep_space_add */
    struct aorta_sweep_knob knobs[AORTA_SWEEP_MOST_KNOBS];
    int count;
};

/* "NAME=a,b,c"; commas within brackets or quotes belong to a value. AORTA_USAGE: no values, one twice, the knob twice,
 * too many knobs or points. */
AORTA_MUST_USE aorta_status aorta_sweep_space_add(struct aorta_sweep_space *space, const char *text, bool environment,
                                                  struct aorta_arena *arena);
/* The knob's index, or -1. */
int aorta_sweep_knob_named(const struct aorta_sweep_space *space, const char *name, size_t length);
int64_t aorta_sweep_cells(const struct aorta_sweep_space *space);
/* The index of the knob's value at a point, which is not the baseline. */
int aorta_sweep_level(const struct aorta_sweep_space *space, int64_t cell, int knob);
/* The knob's value at a point. NULL for the baseline if the knob has several values. */
const char *aorta_sweep_value(const struct aorta_sweep_space *space, int64_t cell, int knob);
/* The name of a knob that changes the work of a step (batch size, streams, the model), so that step times are not
 * comparable. NULL if there is none. */
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

/* Whether the figure is valid for the objective; NaN (not measured) is. */
bool aorta_sweep_figure_fits(enum aorta_sweep_objective objective, double figure);

/* ---- trials ---- */

enum aorta_trial_state {
    AORTA_TRIAL_DONE,
    AORTA_TRIAL_FAILED,    /* ended with an exit code that is not 0 */
    AORTA_TRIAL_CRASHED,   /* a signal ended it */
    AORTA_TRIAL_HUNG,      /* took longer than allowed and was ended */
    AORTA_TRIAL_NO_FIGURE, /* ended well without the figure that is wanted */
    AORTA_TRIAL_DISK_FULL, /* no space left, which is no failure of the trial: --resume runs it again */
    AORTA_TRIAL_STATE_COUNT,
    AORTA_TRIAL_PENDING = AORTA_TRIAL_STATE_COUNT /* has not ended, and is in no file */
};
const char *aorta_trial_state_name(enum aorta_trial_state state);
/* Adds the bit of the named state (not done or disk_full), or with "all" of all such states. AORTA_USAGE names
 * --retry. */
AORTA_MUST_USE aorta_status aorta_sweep_states_read(const char *name, unsigned *states);

struct aorta_trial {
    int64_t number; /* from 0, in the order of their starts */
    int64_t again;  /* number of the earlier trial that this one repeats; -1: none */
    int64_t cell;   /* or AORTA_SWEEP_BASELINE */
    int repeat;     /* 0: the first run of its point with these steps */
    int64_t steps;  /* steps to run; 0: as configured */
    enum aorta_trial_state state;
    int exit_code, signal;
    double seconds;
    double figures[AORTA_SWEEP_OBJECTIVE_COUNT]; /* NaN: not measured */
    double pressure;                             /* of the machine during the trial (base/compare.h); 0: unknown */
    char device[16];                             /* kind of device, "cpu"; "": unknown */
    char unit[16];                               /* of its throughput, "GFLOPS"; "": unknown */
    char reason[160];                            /* why the trial is not done, never empty then; else "" */
};

/* Whether the trial has the figure. Failed trials have none. */
bool aorta_trial_has(const struct aorta_trial *trial, enum aorta_sweep_objective objective);

struct aorta_trials { /* zero-initialise */
    struct aorta_trial *items;
    size_t count, capacity;
};
AORTA_MUST_USE aorta_status aorta_trials_add(struct aorta_trials *trials, const struct aorta_trial *trial);
/* Moves those of the states (a bit for each) to the end of `taken`, in their order. */
AORTA_MUST_USE aorta_status aorta_trials_take(struct aorta_trials *trials, unsigned states, struct aorta_trials *taken);
void aorta_trials_free(struct aorta_trials *trials);
/* The objective's unit; for throughput the trials' unit. */
const char *aorta_sweep_unit(const struct aorta_trials *trials, enum aorta_sweep_objective objective);
/* Whether a trial ran on a GPU. */
bool aorta_trials_on_gpu(const struct aorta_trials *trials);

/* ---- the plan ---- */

enum aorta_sweep_method { AORTA_SWEEP_GRID, AORTA_SWEEP_RANDOM, AORTA_SWEEP_HALVING, AORTA_SWEEP_TPE };
extern const char *const aorta_sweep_methods[]; /* by method */

struct aorta_sweep_plan {
    const char *target; /* the command without knobs: "train config/base.yaml -n 2"; "": unknown */
    struct aorta_sweep_space space;
    enum aorta_sweep_method method;
    enum aorta_sweep_objective objective;
    int64_t points; /* number of different points to run; 0: all of a grid, 20 in other searches */
    int repeats;    /* runs of a point, at least 1 */
    bool baseline;  /* runs as often, first in each round */
    int64_t equal;  /* 1 + the cell that equals the baseline; 0: none, or unknown */
    int64_t steps;  /* of a trial of full length; 0: as configured. Required by halving */
    uint64_t seed;
};

/* The cell that a trial ran. For the baseline the equal cell, if there is one. */
int64_t aorta_sweep_cell_of(const struct aorta_sweep_plan *plan, const struct aorta_trial *trial);

/* Lower is better, whatever the objective; infinite for a trial without the figure. */
double aorta_sweep_cost(const struct aorta_sweep_plan *plan, const struct aorta_trial *trial);

struct aorta_sweep_next {
    int64_t cell, steps;
    int repeat;
    bool waits; /* the choice depends on a pending trial */
};

/* Chooses the next trial; *more is false if there is none. The choice depends only on the plan and the trials, so a
 * stopped sweep continues as if it had not been stopped, and pending trials do not change which trials run in which
 * order. AORTA_MEMORY.
 * (search.c) */
AORTA_MUST_USE aorta_status aorta_sweep_choose(const struct aorta_sweep_plan *plan, const struct aorta_trials *trials,
                                               struct aorta_sweep_next *next, bool *more);
/* Number of trials if none fails. */
int64_t aorta_sweep_planned(const struct aorta_sweep_plan *plan);

/* ---- trials.jsonl ---- */

/* The first line: what is swept. Two sweeps with the same line have the same trials. */
void aorta_sweep_header(const struct aorta_sweep_plan *plan, struct aorta_text *line);
void aorta_sweep_trial_line(const struct aorta_sweep_plan *plan, const struct aorta_trial *trial,
                            struct aorta_text *line);
/* Parts of both trials.jsonl and sweep.json: "{" and the definition of the sweep; a trial; values and figures of a
 * point. */
void aorta_sweep_json_begin(const struct aorta_sweep_plan *plan, struct aorta_text *text, int indent,
                            struct aorta_json *json);
void aorta_sweep_trial_json(const struct aorta_sweep_plan *plan, const struct aorta_trial *trial,
                            struct aorta_json *json);
void aorta_sweep_point_json(const struct aorta_sweep_space *space, int64_t cell, struct aorta_json *json);
void aorta_sweep_figures_json(const double figures[AORTA_SWEEP_OBJECTIVE_COUNT], struct aorta_json *json);

/* Reads the plan (strings in the arena) and the trials of a file, except trials that ran again later. Ignores an
 * incomplete last line, after a kill. *valid (may be NULL) is the number of bytes in complete lines. AORTA_IO,
 * AORTA_FORMAT with the line.
 */
AORTA_MUST_USE aorta_status aorta_sweep_read(const char *path, struct aorta_arena *arena, struct aorta_sweep_plan *plan,
                                             struct aorta_trials *trials, int64_t *valid);

/* ---- knobs for the causes that a first run's verdict names ---- */

/* Adds at most `most` knobs (knobs.def) for the causes in summary.json or analysis.json of `directory`, largest cost
 * first. Knobs that the space has already do not change. `program`: ours, sparse or any, as in knobs.def.
 * `text` receives a line per knob with its cause. AORTA_USAGE if there is no such file, or no knob for its causes. */
AORTA_MUST_USE aorta_status aorta_sweep_suggest(const char *directory, const char *program, int most,
                                                struct aorta_arena *arena, struct aorta_sweep_space *space,
                                                struct aorta_text *text);

#endif
