/* Runs an unmodified program with the recording library in it: the work of `aorta trace run`. */
#ifndef AORTA_RECORD_RUN_H
#define AORTA_RECORD_RUN_H

#include "base/arena.h"
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
    aorta_status (*started)(void *user); /* called once the program runs, may start threads; may be NULL */
    void *user;
};

/* Whether the program uses CUDA, as seen from outside, to explain why nothing was recorded. */
struct aorta_cuda_search { /* zero-initialise */
    pid_t driver_pid;      /* a process that had the driver's library loaded; 0: none was seen */
    bool dropped;          /* its environment lacked the variable looked for */
};

struct aorta_trace_run_result {
    int exit_code; /* the program's; 128 + signal when a signal ended it */
    int signal;    /* that ended it; 0: none */
    struct aorta_cuda_search search;
};

/* Runs the program to its end, in the foreground, with our standard streams. Signals are passed on: SIGTERM, SIGHUP,
 * SIGUSR1 and SIGUSR2 always, SIGINT and SIGQUIT only if sent with kill, as the terminal sends them to the program as
 * well. AORTA_IO when it cannot be started. The process must have no other threads. */
AORTA_MUST_USE aorta_status aorta_trace_run_program(const struct aorta_trace_run_options *options,
                                                    struct aorta_trace_run_result *result);

/* ---- the recording ---- */

struct aorta_trace_run_process {
    const struct aorta_trace *trace; /* one of the record's; NULL: nothing ran there */
    struct aorta_spool_facts facts;
    int32_t rank; /* as analyzed; -1: nothing ran there */
};

struct aorta_trace_run_record {
    struct aorta_trace_run_process *processes; /* in order of rank, then of their start */
    size_t process_count;
    struct aorta_trace_list traces; /* of processes in which something ran, by rank; ranks are all different */
};

/* Reads all spools of a directory. A damaged one is read up to the damage. Ranks are from the environment of the
 * processes. If it has none, or a rank twice, ranks are numbered by device and start. `options` may be NULL. */
AORTA_MUST_USE aorta_status aorta_trace_run_read(const char *directory, const struct aorta_trace_options *options,
                                                 struct aorta_trace_run_record *record);
void aorta_trace_run_record_free(struct aorta_trace_run_record *record);

/* Lists (aorta_text_next) messages for the user: processes and their ranks, losses, other profilers. */
void aorta_trace_run_describe(const struct aorta_trace_run_record *record, struct aorta_text *out);
/* Why nothing was recorded, and what to do about it. */
void aorta_trace_run_explain_nothing(const struct aorta_trace_run_record *record,
                                     const struct aorta_trace_run_result *result, struct aorta_text *out);

/* Recordings in windows: a folder of spools for each period of time (spool_format.h), written by processes on one or
 * more machines while they run. */

struct aorta_window {
    int64_t start_ms, length_ms; /* CLOCK_REALTIME; their sum in ns is an int64 */
    const char *path;
};

struct aorta_window_list {
    struct aorta_arena arena;   /* of all of it: free it in the end */
    struct aorta_window *items; /* ascending start */
    size_t count;
};

/* The windows of a folder that begin after `after_ms`. AORTA_IO: it cannot be listed. */
AORTA_MUST_USE aorta_status aorta_windows_list(const char *directory, int64_t after_ms, struct aorta_window_list *list);
/* Whether every process has gone on to the next window, or has ended. */
bool aorta_window_is_ready(const struct aorta_window *window);
/* Bytes of its spools. */
int64_t aorta_window_bytes(const struct aorta_window *window);
/* Removes a window's files and its folder; other files stay. */
void aorta_window_remove(const struct aorta_window *window);

/* Removes steps at both ends of a window whose launches or kernels are incomplete, and steps that not all ranks have.
 */
void aorta_window_trim_steps(struct aorta_trace_list *list);

/* ---- processes, from window to window ---- */

struct aorta_window_process {
    const char *host;
    int32_t pid, rank;
    uint32_t state;   /* enum aorta_spool_state, in the last window it was in */
    int64_t last_ns;  /* when records last arrived */
    int64_t start_ms; /* of the last window it was in */
};

struct aorta_window_processes { /* zero-initialise */
    struct aorta_arena arena;   /* of all of it: free it in the end */
    struct aorta_window_process *items;
    size_t count, capacity;
};
/* Adds the processes of a window. Lists (aorta_text_next) a line for each missing process: it was killed, its node
 * died, or another profiler took over. `record` NULL: no further window appeared. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_window_processes_take(struct aorta_window_processes *processes, int64_t start_ms,
                                                        const struct aorta_trace_run_record *record,
                                                        struct aorta_text *lines);
/* Whether one of them may write more. */
bool aorta_window_processes_run(const struct aorta_window_processes *processes);

#endif
