/* Runs the trials of a plan, one after the other, and records each in OUTPUT/trials.jsonl. */
#ifndef AORTA_SWEEP_RUN_H
#define AORTA_SWEEP_RUN_H

#include "base/arena.h"
#include "base/status.h"
#include "sweep/sweep.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* One program, or a piece of our own work, in a process group of its own, with nothing left of it afterwards. */

struct aorta_sweep_variable {
    const char *name, *value; /* value NULL: the variable is removed */
};
/* As a line for a shell. */
void aorta_sweep_export(const struct aorta_sweep_variable *variable, struct aorta_text *text);

struct aorta_sweep_process {
    char *const *command; /* NULL-terminated; command[0] is looked for in PATH */
    /* Instead of a command: what runs in the process, which ends with it. What it finds it leaves in memory that both
     * share. So whatever it reads, neither a signal nor the timeout waits for it, and its crash is only its own. */
    void (*work)(void *user);
    void *user;
    const struct aorta_sweep_variable *variables;
    int variable_count;
    const char *log;  /* receives both outputs of a command; its input is empty */
    double timeout_s; /* 0: none */
};

struct aorta_sweep_end {
    int exit_code, signal; /* one of them is 0 */
    bool timed_out;
    int interrupted; /* the signal that ended the sweep meanwhile; 0: none */
    double seconds;
    char by[96]; /* who else ended it, in words: "Slurm ended its job: NODE_FAIL"; "": nobody */
};

/* Signals that end a sweep are blocked from here on, so that none is lost between two trials; those of before are given
 * back by the second call. Programs start with those of before. */
struct aorta_sweep_signals {
    sigset_t watched, former;
};
void aorta_sweep_signals_begin(struct aorta_sweep_signals *signals);
void aorta_sweep_signals_end(const struct aorta_sweep_signals *signals);
/* Waits for a signal, a tenth of a second at most. Returns a signal that ends the sweep, else 0. */
int aorta_sweep_signals_wait(const struct aorta_sweep_signals *signals);

/* Runs it to its end, or ends it: after the timeout or one of those signals it gets SIGTERM, after the next signal or
 * some seconds SIGTERM again, and then SIGKILL. All its descendants are gone when this returns. AORTA_IO when it cannot
 * be started. */
AORTA_MUST_USE aorta_status aorta_sweep_process_run(const struct aorta_sweep_signals *signals,
                                                    const struct aorta_sweep_process *process,
                                                    struct aorta_sweep_end *end);

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

/* Reads the template, the script of a job with {command} where the trial's command goes. AORTA_USAGE: it is for another
 * scheduler or has no place for the command. */
AORTA_MUST_USE aorta_status aorta_sweep_template_read(const char *path, struct aorta_arena *arena,
                                                      const char **template);

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
AORTA_MUST_USE aorta_status aorta_sweep_submit(const char *template, const struct aorta_sweep_process *process,
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

enum aorta_sweep_target {
    AORTA_SWEEP_TRAIN,  /* knobs are configuration keys */
    AORTA_SWEEP_HWQ,    /* … options of aorta hwq run */
    AORTA_SWEEP_COMMAND /* … stand in braces in the words of a command */
};

struct aorta_sweep_job {
    struct aorta_sweep_plan plan;
    enum aorta_sweep_target target;
    const char *config;           /* train; may be NULL */
    const char *const *overrides; /* train */
    size_t override_count;
    const char *workload;      /* hwq */
    char *const *command;      /* NULL-terminated */
    bool trace;                /* command: under aorta trace run */
    int ranks;                 /* started with aorta launch where there are several */
    double timeout_s;          /* of a trial; 0: none */
    const char *submit;        /* template: jobs of a scheduler run the trials; NULL: processes of this machine */
    int64_t jobs;              /* so many at a time; 1 without `submit` */
    const char *output, *self; /* directory; absolute path of this program */
    bool resume;
    unsigned retry; /* a bit for each aorta_trial_state: with `resume` those run again */
    FILE *progress; /* a line for each trial */
};

/* Sets the target of its plan. */
AORTA_MUST_USE aorta_status aorta_sweep_name(struct aorta_sweep_job *job, struct aorta_arena *arena);

/* Whether something runs when no knob is set: a command has places for the values of its own knobs. */
bool aorta_sweep_has_baseline(const struct aorta_sweep_job *job);

/* What would fail in every trial: keys and values that no configuration takes, placeholders that nothing fills,
 * halving without steps. AORTA_USAGE, AORTA_CONFIG. */
AORTA_MUST_USE aorta_status aorta_sweep_check(const struct aorta_sweep_job *job);

/* For aorta train: sets plan.equal by the configuration that each value gives. AORTA_CONFIG, AORTA_MEMORY. (command.c)
 */
AORTA_MUST_USE aorta_status aorta_sweep_find_equal(const struct aorta_sweep_job *job, int64_t *equal);

/* The words that a trial runs; all lie in the arena. `directory`: the trial's. (command.c) */
AORTA_MUST_USE aorta_status aorta_sweep_command(const struct aorta_sweep_job *job, const struct aorta_sweep_next *next,
                                                const char *directory, struct aorta_arena *arena, char ***words);

/* Runs what is left of the plan. `trials` receives all, those of before too; *interrupted: a signal ended it, and
 * every trial that ended before is recorded. AORTA_USAGE: the directory has a sweep and --resume was not given, or
 * another sweep than this. A trial's failure is recorded and no error. */
AORTA_MUST_USE aorta_status aorta_sweep_run(const struct aorta_sweep_job *job, struct aorta_trials *trials,
                                            int *interrupted);

/* ---- what a trial that has ended measured, or why it did not ---- */

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
