/* Figures of a trial, from the file that its program wrote. */
#ifndef AORTA_SWEEP_OBJECTIVE_H
#define AORTA_SWEEP_OBJECTIVE_H

#include "sweep/sweep.h"

/* What a file is. */
enum aorta_sweep_source {
    AORTA_SWEEP_FROM_SUMMARY,  /* summary.json of a run */
    AORTA_SWEEP_FROM_ANALYSIS, /* analysis.json of aorta trace run */
    AORTA_SWEEP_FROM_HWQ,      /* aorta hwq run --output */
    AORTA_SWEEP_FROM_RESULT    /* what a program wrote itself: {"step_ms": 12.5, …} */
};

struct aorta_sweep_measured {
    double figures[AORTA_SWEEP_OBJECTIVE_COUNT], pressure; /* as in aorta_trial */
    char device[sizeof((struct aorta_trial *)0)->device];
};

/* Sets the figures that the file has; other figures stay unchanged. AORTA_IO, AORTA_FORMAT. */
AORTA_MUST_USE aorta_status aorta_sweep_figures_read(const char *path, enum aorta_sweep_source source,
                                                     struct aorta_sweep_measured *out);

#endif
