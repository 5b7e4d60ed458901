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

/* Runs one program or a function in its own process group, and ends all its descendants afterwards. */

struct aorta_sweep_variable {
    const char *name, *value; /* value NULL: the variable is removed */
};
/* As a line for a shell. */
void aorta_sweep_export(const struct aorta_sweep_variable *variable, struct aorta_text *text);

struct aorta_sweep_process {
    char *const *command; /* NULL-terminated; command[0] is looked for in PATH */
    /* A function that runs in the process instead of a command, with its results in shared memory. In its own process
     * it can be interrupted or time out whatever it reads, and may crash. */
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
    int interrupted; /* the signal that ended the sweep; 0: none */
    double seconds;
    char by[96]; /* who else ended it: "Slurm ended its job 7: NODE_FAIL"; "": nobody */
};

/* Blocks the signals that end a sweep, so that none is lost between two trials. The second call restores the former
 * mask. Programs start with the former mask. */
struct aorta_sweep_signals {
    sigset_t watched, former;
};
void aorta_sweep_signals_begin(struct aorta_sweep_signals *signals);
void aorta_sweep_signals_end(const struct aorta_sweep_signals *signals);
/* Waits for a signal, a tenth of a second at most. Returns a signal that ends the sweep, else 0. */
int aorta_sweep_signals_wait(const struct aorta_sweep_signals *signals);

/* Runs the process to its end. After the timeout or one of those signals it gets SIGTERM, after the next signal or
 * some seconds SIGTERM again, and then SIGKILL. All its descendants have ended on return. AORTA_IO if it cannot be
 * started. */
AORTA_MUST_USE aorta_status aorta_sweep_process_run(const struct aorta_sweep_signals *signals,
                                                    const struct aorta_sweep_process *process,
                                                    struct aorta_sweep_end *end);

/* Trials as jobs of a scheduler, which distributes them: submit, look, cancel. Slurm is supported.
 *
 * Files of a job are in the trial's directory, which its nodes share with the sweep:
 *
 *     command.sh   variables and words of the trial
 *     job.sh       the template with its places filled
 *     aorta-sweep  the script for sbatch: the template's directives; runs job.sh
 *     id           the job's number, once the sweep knows it; a job with another number does nothing
 *     exit         "CODE BEGIN END", when it has ended
 */

/* Reads the template: a job's script with {command} in place of the trial's command. AORTA_USAGE if it is for another
 * scheduler or has no {command}. */
AORTA_MUST_USE aorta_status aorta_sweep_template_read(const char *path, struct aorta_arena *arena,
                                                      const char **template);

struct aorta_sweep_submission { /* zero-initialise */
    const char *directory;      /* absolute */
    char id[32];
    char state[32];              /* in the scheduler's words; "": not in its queue */
    int64_t running_ns, gone_ns; /* when the job was first seen running, and gone from the queue; 0: not yet */
    bool asked, forgotten;       /* the scheduler was asked for the end; it has forgotten the job */
    struct aorta_sweep_end remembered;
};

/* Submits the command of `process`, or takes over an earlier sweep's job with the same files. AORTA_IO with the
 * scheduler's message. */
AORTA_MUST_USE aorta_status aorta_sweep_submit(const char *template, const struct aorta_sweep_process *process,
                                               const struct aorta_sweep_signals *signals,
                                               struct aorta_sweep_submission *job);

/* Asks the scheduler for the states of all jobs. They stay unchanged if it does not answer. */
void aorta_sweep_submissions_look(struct aorta_sweep_submission *const *jobs, size_t count);

/* Whether the job has ended, and how. Cancels a job that runs for longer than `timeout_s` (0: no limit). */
AORTA_MUST_USE aorta_status aorta_sweep_submission_ended(struct aorta_sweep_submission *job, double timeout_s,
                                                         const struct aorta_sweep_signals *signals, bool *ended,
                                                         struct aorta_sweep_end *end);

/* Cancels jobs and waits until the queue has none of them, or until a signal. Cancelled jobs cannot be taken over.
 * AORTA_IO names the remaining jobs. */
AORTA_MUST_USE aorta_status aorta_sweep_submissions_cancel(struct aorta_sweep_submission *const *jobs, size_t count,
                                                           const struct aorta_sweep_signals *signals);

enum aorta_sweep_target {
    AORTA_SWEEP_TRAIN,  /* knobs are configuration keys */
    AORTA_SWEEP_HWQ,    /* … options of aorta hwq run */
    AORTA_SWEEP_COMMAND /* … are in braces in the words of a command */
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

/* Whether the job can run without any knob set. A command cannot if a placeholder has several values. */
bool aorta_sweep_has_baseline(const struct aorta_sweep_job *job);

/* Checks for errors that would occur in every trial: invalid keys and values, placeholders without a value, halving
 * without steps. AORTA_USAGE, AORTA_CONFIG. */
AORTA_MUST_USE aorta_status aorta_sweep_check(const struct aorta_sweep_job *job);

/* For aorta train: finds plan.equal by comparing the configurations that the values give. AORTA_CONFIG, AORTA_MEMORY.
 * (command.c)
 */
AORTA_MUST_USE aorta_status aorta_sweep_find_equal(const struct aorta_sweep_job *job, int64_t *equal);

/* The words that a trial runs; all are in the arena. `directory`: the trial's. (command.c) */
AORTA_MUST_USE aorta_status aorta_sweep_command(const struct aorta_sweep_job *job, const struct aorta_sweep_next *next,
                                                const char *directory, struct aorta_arena *arena, char ***words);

/* Runs the remaining trials of the plan. `trials` receives all trials, including earlier ones. *interrupted: the
 * signal that ended the sweep; trials that ended before are recorded. AORTA_USAGE if the directory has another sweep,
 * or this sweep without --resume. A trial's failure is recorded and no error. */
AORTA_MUST_USE aorta_status aorta_sweep_run(const struct aorta_sweep_job *job, struct aorta_trials *trials,
                                            int *interrupted);

/* ---- figures of an ended trial, or why it has none ---- */

struct aorta_sweep_ended {
    const struct aorta_sweep_job *job;
    const struct aorta_sweep_signals *signals;
    const char *directory; /* the trial's, with its log and its files */
    struct aorta_sweep_end end;
};

/* Fills state, figures and reason of a trial. *interrupted: the signal that ended the sweep; the trial then has none
 * of them. AORTA_IO if the disk is full, so nothing more can be recorded. */
AORTA_MUST_USE aorta_status aorta_sweep_conclude(const struct aorta_sweep_ended *ended, struct aorta_trial *trial,
                                                 int *interrupted);

#endif
