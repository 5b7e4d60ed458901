/* Two sweeps of the same knobs, under two driver versions for example. */
#ifndef AORTA_SWEEP_COMPARE_H
#define AORTA_SWEEP_COMPARE_H

#include "sweep/result.h"

struct aorta_sweep_side {
    const char *directory;
    const char *target;
    struct aorta_sweep_plan plan;
    struct aorta_trials trials;
    struct aorta_sweep_result result;
    struct aorta_arena arena;
};

/* Reads DIRECTORY/trials.jsonl. Ends with aorta_sweep_side_close, also on failure. */
AORTA_MUST_USE aorta_status aorta_sweep_side_open(const char *directory, struct aorta_sweep_side *side);
void aorta_sweep_side_close(struct aorta_sweep_side *side);

/* Points that both have measured, whole trials only. */
struct aorta_sweep_common {
    const struct aorta_sweep_point *points[2];
    double change; /* second / first - 1 of the objective; NaN where the first is 0 */
};

struct aorta_sweep_comparison {
    struct aorta_sweep_common *common; /* by the size of the change, the largest first */
    size_t count;
    double mean[2]; /* of the objective over these points */
    double p; /* that chance alone makes the mean difference so large (paired t test); NaN: fewer than two points */
};

/* AORTA_USAGE: other objectives, or other knobs. The caller frees `common`. */
AORTA_MUST_USE aorta_status aorta_sweep_compare(const struct aorta_sweep_side sides[2],
                                                struct aorta_sweep_comparison *comparison);
void aorta_sweep_compare_text(const struct aorta_sweep_side sides[2], const struct aorta_sweep_comparison *comparison,
                              struct aorta_text *text);
void aorta_sweep_compare_json(const struct aorta_sweep_side sides[2], const struct aorta_sweep_comparison *comparison,
                              struct aorta_text *text);

#endif
