/* One program, or a piece of our own work, in a process group of its own, with nothing left of it afterwards. */
#ifndef AORTA_SWEEP_PROCESS_H
#define AORTA_SWEEP_PROCESS_H

#include "base/status.h"

#include <stdbool.h>

struct aorta_sweep_variable {
    const char *name, *value; /* value NULL: the variable is removed */
};

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
struct aorta_sweep_signals;
AORTA_MUST_USE aorta_status aorta_sweep_signals_begin(struct aorta_sweep_signals **signals);
void aorta_sweep_signals_end(struct aorta_sweep_signals *signals); /* NULL is fine */
/* Waits for a signal, a tenth of a second at most. Returns a signal that ends the sweep, else 0. */
int aorta_sweep_signals_wait(const struct aorta_sweep_signals *signals);

/* Runs it to its end, or ends it: after the timeout or one of those signals it gets SIGTERM, after the next signal or
 * some seconds SIGTERM again, and then SIGKILL. All its descendants are gone when this returns. AORTA_IO when it cannot
 * be started. */
AORTA_MUST_USE aorta_status aorta_sweep_process_run(const struct aorta_sweep_signals *signals,
                                                    const struct aorta_sweep_process *process,
                                                    struct aorta_sweep_end *end);

#endif
