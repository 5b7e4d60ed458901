/* What a trial that has ended measured, or why it did not. */
#ifndef AORTA_SWEEP_TRIAL_END_H
#define AORTA_SWEEP_TRIAL_END_H

#include "sweep/process.h"
#include "sweep/run.h"

struct aorta_sweep_ended {
    const struct aorta_sweep_job *job;
    const struct aorta_sweep_signals *signals;
    const char *directory; /* the trial's, with its log and its files */
    struct aorta_sweep_end end;
};

/* Fills state, figures and reason of a trial. *interrupted: the signal that ended the sweep meanwhile, which leaves the
 * trial without them. AORTA_IO: the disk is full, and nothing more can be recorded. */
AORTA_MUST_USE aorta_status aorta_sweep_conclude(const struct aorta_sweep_ended *ended, struct aorta_trial *trial,
                                                 int *interrupted);

#endif
