/* Two sweeps of the same knobs, under two driver versions for example; or the two halves of one sweep, one for each of
 * two values of a knob. */
#ifndef AORTA_SWEEP_COMPARE_H
#define AORTA_SWEEP_COMPARE_H

#include "report/settings.h"
#include "sweep/result.h"

struct aorta_sweep_side {
    const char *directory; /* "NAME=VALUE" of a half */
    const char *target;
    struct aorta_sweep_plan plan;
    struct aorta_trials trials;
    struct aorta_sweep_result result;
    struct aorta_arena arena;
    bool half; /* of a sweep */
    struct aorta_settings environment;
};

/* Reads DIRECTORY/trials.jsonl. Ends with aorta_sweep_side_close, also on failure. */
AORTA_MUST_USE aorta_status aorta_sweep_side_open(const char *directory, struct aorta_sweep_side *side);
/* The trials of `whole` with one of two values of a knob, as a sweep without this knob. `by`: "NAME" of a knob with two
 * values, or "NAME=A,B". `whole` is borrowed; both end with aorta_sweep_side_close, also on failure. AORTA_USAGE. */
AORTA_MUST_USE aorta_status aorta_sweep_side_halves(const struct aorta_sweep_side *whole, const char *by,
                                                    struct aorta_sweep_side halves[2]);
void aorta_sweep_side_close(struct aorta_sweep_side *side);

/* Points that both have measured, whole trials only. */
struct aorta_sweep_common {
    const struct aorta_sweep_point *points[2];
    double change; /* second / first - 1 of the objective; NaN where the first is 0 */
    double p;      /* that the noise alone makes the difference; NaN: the noise is not known */
    bool counts;   /* p is below aorta_significance, divided by the number of points (Bonferroni) */
};

/* A figure over the points of which both have it. */
struct aorta_sweep_difference {
    double mean[2]; /* NaN: none */
    size_t points;
    double p; /* that chance alone makes the mean difference so large: paired t test, with what equal sweeps differ by
               * (base/compare.h); NaN: fewer than two points */
    double between; /* that share: the standard deviation of an equal sweep's mean; 0: halves of one sweep */
};

struct aorta_sweep_comparison {
    struct aorta_sweep_common *common; /* by the size of the change, the largest first */
    size_t count;
    int knobs[AORTA_SWEEP_MOST_KNOBS]; /* of the second sweep, for each of the first */
    struct aorta_sweep_difference figures[AORTA_SWEEP_OBJECTIVE_COUNT];
    struct aorta_differences differences; /* of what was swept, and of the environment */
};

/* AORTA_USAGE: other objectives, or other knobs. Ends with aorta_sweep_comparison_free, also on failure. */
AORTA_MUST_USE aorta_status aorta_sweep_compare(const struct aorta_sweep_side sides[2],
                                                struct aorta_sweep_comparison *comparison);
void aorta_sweep_comparison_free(struct aorta_sweep_comparison *comparison);
void aorta_sweep_compare_text(const struct aorta_sweep_side sides[2], const struct aorta_sweep_comparison *comparison,
                              struct aorta_text *text);
void aorta_sweep_compare_json(const struct aorta_sweep_side sides[2], const struct aorta_sweep_comparison *comparison,
                              struct aorta_text *text);

/* points.csv in the folder. AORTA_IO, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_sweep_compare_csv(const struct aorta_sweep_side sides[2],
                                                    const struct aorta_sweep_comparison *comparison,
                                                    const char *folder);

#endif
