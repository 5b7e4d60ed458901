/* Trials as jobs of a scheduler, which distributes them: submit, look, cancel. Slurm is supported.
 *
 * Input and output of a job are in the trial's directory, which its nodes share with the sweep:
 *
 *     command.sh   variables and words of the trial
 *     job.sh       the template with its places filled
 *     aorta-sweep  what sbatch gets: the template's directives; runs job.sh
 *     id           the job's number, once the sweep knows it; a job of another number does nothing
 *     exit         "CODE BEGIN END", when it has ended
 */
#ifndef AORTA_SWEEP_SUBMIT_H
#define AORTA_SWEEP_SUBMIT_H

#include "base/arena.h"
#include "sweep/process.h"

#include <stddef.h>
#include <stdint.h>

struct aorta_sweep_template {
    const char *text;
};

/* Reads the script of a job, with {command} where the trial's command goes. AORTA_USAGE: it is for another scheduler or
 * has no place for the command. */
AORTA_MUST_USE aorta_status aorta_sweep_template_read(const char *path, struct aorta_arena *arena,
                                                      struct aorta_sweep_template *template);

struct aorta_sweep_submission { /* zero-initialise */
    const char *directory;      /* absolute */
    char id[32];
    char state[32];              /* in the scheduler's words; "": not in its queue */
    int64_t running_ns, gone_ns; /* when it was first seen so; 0: not yet */
    bool asked, forgotten;       /* what the scheduler remembers of it, since it is gone: */
    struct aorta_sweep_end remembered;
};

/* Submits what `process` would run, or takes over the job that a sweep of before has submitted for the very same.
 * AORTA_IO with the scheduler's words. */
AORTA_MUST_USE aorta_status aorta_sweep_submit(const struct aorta_sweep_template *template,
                                               const struct aorta_sweep_process *process,
                                               const struct aorta_sweep_signals *signals,
                                               struct aorta_sweep_submission *job);

/* Asks the scheduler for the states of all. Where it does not answer, they stay as they are. */
void aorta_sweep_submissions_look(struct aorta_sweep_submission *const *jobs, size_t count);

/* Whether it has ended, and how. One that runs for longer than `timeout_s` (0: none) is cancelled. */
AORTA_MUST_USE aorta_status aorta_sweep_submission_ended(struct aorta_sweep_submission *job, double timeout_s,
                                                         const struct aorta_sweep_signals *signals, bool *ended,
                                                         struct aorta_sweep_end *end);

/* Cancels jobs and waits until the queue has none of them, or until a signal. They are not taken over any more.
 * AORTA_IO names those that are left. */
AORTA_MUST_USE aorta_status aorta_sweep_submissions_cancel(struct aorta_sweep_submission *const *jobs, size_t count,
                                                           const struct aorta_sweep_signals *signals);

#endif
