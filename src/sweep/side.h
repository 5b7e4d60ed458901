/* A side of a comparison of sweeps: a sweep, one half of it, or a folder of runs (of the original toolkit, say), with
 * what its trials recorded. */
#ifndef AORTA_SWEEP_SIDE_H
#define AORTA_SWEEP_SIDE_H

#include "report/figures.h"
#include "sweep/result.h"

struct aorta_sweep_side {
    const char *label;     /* "NAME=VALUE" of a half */
    const char *directory; /* of the sweep, or the folder */
    const char *target;    /* what ran; "": not known */
    struct aorta_sweep_plan plan;
    struct aorta_trials trials;
    struct aorta_sweep_result result;
    struct aorta_arena arena;
    bool half;                         /* of a sweep */
    struct aorta_settings environment; /* of the sweep; the trials' figures have their own */
    struct aorta_sweep_recording {     /* of each trial, by its place */
        const char *folder, *page;     /* NULL: it left none */
        const char *reason;            /* why it could not be read; NULL: it could */
        const struct aorta_figures *figures;
    } * recordings;
    struct aorta_figures *figures; /* those that it owns, of each trial */
};

/* Reads DIRECTORY/trials.jsonl, or the runs below a folder, whose names give the knobs: "256thread/nccl_28channels",
 * "bucket=8/rep2". The side ends with aorta_sweep_side_close, also on failure. AORTA_USAGE. (side.c, folder.c) */
AORTA_MUST_USE aorta_status aorta_sweep_side_open(const char *directory, const char *label,
                                                  struct aorta_sweep_side *side);
/* Reads what the trials recorded. A recording that cannot be read is counted, and its trial goes without. */
AORTA_MUST_USE aorta_status aorta_sweep_side_read(struct aorta_sweep_side *side);
/* The trials of `whole` with one of two values of a knob, as a sweep without this knob. `by`: "NAME" of a knob with two
 * values, or "NAME=A,B". `whole` is borrowed; both end with aorta_sweep_side_close, also on failure. AORTA_USAGE. */
AORTA_MUST_USE aorta_status aorta_sweep_side_halves(const struct aorta_sweep_side *whole, const char *by,
                                                    struct aorta_sweep_side halves[2]);
void aorta_sweep_side_close(struct aorta_sweep_side *side);

/* aorta train or hwq, not somebody's command. */
bool aorta_sweep_is_ours(const char *target);

/* Plan, trials and their folders from the runs below a folder; without their figures. (folder.c) */
AORTA_MUST_USE aorta_status aorta_sweep_folder_open(const char *directory, struct aorta_sweep_side *side);

#endif
