/* A small summary of a run or recording: named figures, the cost of each cause, and the details that a page shows. */
#ifndef AORTA_REPORT_FIGURES_H
#define AORTA_REPORT_FIGURES_H

#include "base/compare.h"
#include "report/summary.h"

struct aorta_figure {
    const char *name, *unit; /* "gemm", "TFLOP/s"; "all_gather of 16.8 MB, bus bandwidth", "GB/s" */
    enum aorta_good good;
    double value;         /* mean of all ranks */
    const char *explains; /* `about` of the cause that this rate explains; NULL: of none */
};

struct aorta_figure_cause {
    const char *name;  /* "slow all_gather" */
    const char *about; /* kind of collective, "compute"; NULL: something else */
    double ms;         /* per step */
};

struct aorta_figures { /* zero-initialise */
    struct aorta_arena arena;
    struct aorta_figure *items;
    size_t count, capacity;
    struct aorta_figure_cause *causes;
    size_t cause_count;
    struct aorta_settings settings, environment;
    const char *device;       /* "gpu" if the files do not say it, as programs other than ours record GPUs */
    struct aorta_text detail; /* one JSON object: the timeline of the median step of the first rank, of each step its
                               * time and overlap, collectives by size, parts of a step */
};

/* Reads the directory of a run, or of recordings; of a run of the original toolkit also the recordings in its
 * torch_profiler/, which know kernels. The caller ends *figures, also after a failure; as aorta_recorded_open. */
AORTA_MUST_USE aorta_status aorta_figures_read(const char *directory, struct aorta_figures *figures);
/* Whether it is the directory of a run, or of one of the original toolkit that left recordings alone. */
bool aorta_figures_can_read(const char *directory);
/* NULL if there is no figure of this name. */
const struct aorta_figure *aorta_figures_find(const struct aorta_figures *figures, const char *name);
void aorta_figures_free(struct aorta_figures *figures);

#endif
