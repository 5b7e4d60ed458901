/* Two or more sweeps of the same knobs, under several driver versions for example, or the two halves of one sweep.
 * Each is compared with the first. */
#ifndef AORTA_SWEEP_COMPARE_H
#define AORTA_SWEEP_COMPARE_H

#include "base/compare.h"
#include "report/figures.h"
#include "report/schemas.h"
#include "sweep/result.h"

/* A side of a comparison: a sweep, half of a sweep, or a folder of runs (for example of the original toolkit), with
 * the recordings of its trials. */

struct aorta_sweep_side {
    const char *label;     /* "NAME=VALUE" of a half */
    const char *directory; /* of the sweep, or the folder */
    struct aorta_sweep_plan plan;
    struct aorta_trials trials;
    struct aorta_sweep_result result;
    struct aorta_arena arena;
    bool half;                         /* of a sweep */
    struct aorta_settings environment; /* of the sweep; the trials' figures have their own */
    struct aorta_sweep_recording {     /* per trial, same order */
        const char *folder, *page;     /* NULL: it left none */
        const char *reason;            /* why it could not be read; NULL: it could */
        const struct aorta_figures *figures;
    } * recordings;
    struct aorta_figures *figures; /* owned figures, per trial */
};

/* Reads DIRECTORY/trials.jsonl, or the runs below a folder, whose names give the knobs: "256thread/nccl_28channels",
 * "bucket=8/rep2". The side ends with aorta_sweep_side_close, also on failure. AORTA_USAGE. */
AORTA_MUST_USE aorta_status aorta_sweep_side_open(const char *directory, const char *label,
                                                  struct aorta_sweep_side *side);
/* Reads the trials' recordings. A recording that cannot be read is counted, and its trial has no recorded figures. */
AORTA_MUST_USE aorta_status aorta_sweep_side_read(struct aorta_sweep_side *side);
/* The trials of `whole` with one of two values of a knob, as a sweep without this knob. `by`: "NAME" of a knob with two
 * values, or "NAME=A,B". `whole` is borrowed; both end with aorta_sweep_side_close, also on failure. AORTA_USAGE. */
AORTA_MUST_USE aorta_status aorta_sweep_side_halves(const struct aorta_sweep_side *whole, const char *by,
                                                    struct aorta_sweep_side halves[2]);
void aorta_sweep_side_close(struct aorta_sweep_side *side);

/* aorta train or hwq, not somebody's command. */
bool aorta_sweep_is_ours(const char *target);

enum { AORTA_SWEEP_MOST_SIDES = 8 };

/* A point that all have measured, whole trials only. */
struct aorta_sweep_common {
    const struct aorta_sweep_point *points[AORTA_SWEEP_MOST_SIDES];
    const char *name; /* "threads=256 channels=28"; "all runs" where there are no knobs */
};

/* Comparison of one side with the first. */
struct aorta_sweep_against {
    struct aorta_compared *rows; /* figures over all points, then figures at each point; unknown if not measured */
    struct aorta_differences differences; /* of what was swept, of configurations and environments */
};

struct aorta_sweep_comparison {
    struct aorta_arena arena;
    const struct aorta_sweep_side *sides; /* borrowed */
    size_t side_count;
    struct aorta_figure *figures; /* names and units; the objectives first, by their number */
    size_t figure_count;
    struct aorta_sweep_common *points; /* in the order of the first side's values */
    size_t count;
    struct aorta_sweep_against against[AORTA_SWEEP_MOST_SIDES]; /* [0] is not used */
};

/* Figures that are positive and are no shares are compared by logarithms, so that each point has the same weight. A
 * change at a point has the noise of repeats in each sweep and the variance between equal sweeps; over all points the
 * spread of the points' changes replaces the noise. P values are corrected (base/compare.h) separately for the
 * objective at all points, the other figures at all points, and the other figures over all points. AORTA_USAGE if
 * objectives or knobs differ. Ends with aorta_sweep_comparison_free, also on failure. */
AORTA_MUST_USE aorta_status aorta_sweep_compare(const struct aorta_sweep_side *sides, size_t count,
                                                struct aorta_sweep_comparison *comparison);
void aorta_sweep_comparison_free(struct aorta_sweep_comparison *comparison);

/* The row of a figure at a point; point = count: over all points. */
const struct aorta_compared *aorta_sweep_row(const struct aorta_sweep_comparison *comparison, size_t side, size_t point,
                                             size_t figure);
/* Finds the next trial of a side's point that counts, from *place on. False if there is none. */
bool aorta_sweep_trial_of(const struct aorta_sweep_side *side, const struct aorta_sweep_point *point, size_t *place);

/* compare_text.c */
void aorta_sweep_compare_text(const struct aorta_sweep_comparison *comparison, bool answer, struct aorta_text *text);
void aorta_sweep_compare_json(const struct aorta_sweep_comparison *comparison, struct aorta_text *text);
extern const struct aorta_schema aorta_sweep_schema; /* of that JSON */

/* compare_page.c */

/* What else the page shows of one side, for each point: its median trial. Pages are linked as seen from the page
 * `html`. */
void aorta_sweep_compare_part(const struct aorta_sweep_comparison *comparison, size_t side, const char *html,
                              struct aorta_text *text);

/* points.csv in the folder. AORTA_IO, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_sweep_compare_csv(const struct aorta_sweep_comparison *comparison,
                                                    const char *folder);

#endif
