/* Runs an unmodified program with the recording library in it: the work of `aorta trace run`. */
#ifndef AORTA_RECORD_RUN_H
#define AORTA_RECORD_RUN_H

#include "trace/open.h"
#include "trace/spool.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One variable for the program's environment. */
struct aorta_trace_run_variable {
    const char *name, *value;
};

struct aorta_trace_run_options {
    char *const *command;                             /* NULL-terminated; command[0] is looked for in PATH */
    const struct aorta_trace_run_variable *variables; /* set in the program's environment */
    size_t variable_count;
    bool output_to_error; /* the program's standard output goes to standard error */
    const char *machine;  /* file of the machine's readings (measure/machine.h); NULL: it is not watched */
    const char *spools;   /* directory in which files appear once CUDA is in use; NULL: nobody watches */
    aorta_status (*started)(void *user); /* called once it runs, may start threads; NULL: nothing is */
    void *user;
};

/* From outside: whether the program uses CUDA at all, to explain why nothing was recorded. */
struct aorta_cuda_search { /* zero-initialise */
    pid_t driver_pid;      /* a process that had the driver's library loaded; 0: none was seen */
    bool dropped;          /* its environment lacked the variable looked for */
    int looks;
};

struct aorta_trace_run_result {
    int exit_code; /* the program's; 128 + signal when a signal ended it */
    int signal;    /* that ended it; 0: none */
    double seconds;
    struct aorta_cuda_search search;
};

/* Runs the program to its end, in the foreground, with our standard streams. Signals are passed on: SIGTERM, SIGHUP,
 * SIGUSR1 and SIGUSR2 always, SIGINT and SIGQUIT where somebody sends them with kill, for the terminal sends its own to
 * the program as well. AORTA_IO when it cannot be started. The process must have no other threads. */
AORTA_MUST_USE aorta_status aorta_trace_run_program(const struct aorta_trace_run_options *options,
                                                    struct aorta_trace_run_result *result);

/* ---- the recording ---- */

struct aorta_trace_run_process {
    char *path; /* of the spool */
    struct aorta_spool_facts facts;
    int32_t rank; /* as analysed; -1: nothing ran there */
};

struct aorta_trace_run_record {
    struct aorta_trace_run_process *processes; /* in order of rank, then of their start */
    size_t process_count;
    struct aorta_trace_list traces; /* of processes in which something ran, by rank; ranks are all different */
};

/* Reads all spools of a directory. A damaged one is read up to the damage. Ranks are those that the environment of the
 * processes named; where it named none, or one twice, they are numbered by device and start. `options` may be NULL. */
AORTA_MUST_USE aorta_status aorta_trace_run_read(const char *directory, const struct aorta_trace_options *options,
                                                 struct aorta_trace_run_record *record);
void aorta_trace_run_record_free(struct aorta_trace_run_record *record);

/* Messages for the user, line by line: processes and their ranks, losses, other profilers. */
void aorta_trace_run_describe(const struct aorta_trace_run_record *record, struct aorta_text *out);
/* Why nothing was recorded, and what to do about it. */
void aorta_trace_run_explain_nothing(const struct aorta_trace_run_record *record,
                                     const struct aorta_trace_run_result *result, struct aorta_text *out);

#endif
