/* Recordings in windows: folders of spools, one for each stretch of the clock's time (spool_format.h), as processes on
 * one machine or on several write them while they run. */
#ifndef AORTA_RECORD_WINDOWS_H
#define AORTA_RECORD_WINDOWS_H

#include "record/run.h"

struct aorta_window {
    char *path;                  /* owned */
    int64_t start_ms, length_ms; /* CLOCK_REALTIME; their sum in ns is an int64 */
};

struct aorta_window_list {
    struct aorta_window *items; /* ascending start */
    size_t count;
};

/* The windows of a folder that begin after `after_ms`. AORTA_IO: it cannot be listed. */
AORTA_MUST_USE aorta_status aorta_windows_list(const char *directory, int64_t after_ms, struct aorta_window_list *list);
void aorta_windows_free(struct aorta_window_list *list);
/* Whether every process has gone on to the next window, or has ended. */
bool aorta_window_is_ready(const struct aorta_window *window);
/* Bytes of its spools. */
int64_t aorta_window_bytes(const struct aorta_window *window);
/* Removes a window's files and its folder; other files stay. */
void aorta_window_remove(const struct aorta_window *window);

/* Steps in which launches or kernels are not all there, at both ends of a window, are taken out of the traces, and
 * those that not all ranks have. */
void aorta_window_trim_steps(struct aorta_trace_list *list);

/* ---- processes, from window to window ---- */

struct aorta_window_process {
    char *host;
    int32_t pid, rank;
    uint32_t state;   /* enum aorta_spool_state, in the last window it was in */
    int64_t last_ns;  /* when records last arrived */
    int64_t start_ms; /* of the last window it was in */
};

struct aorta_window_processes { /* zero-initialise */
    struct aorta_window_process *items;
    size_t count, capacity;
};
/* Takes the processes of a window, and says a line of each that should be in it and is not: it was killed, or its node
 * died, or another profiler took over. `record` NULL: no window came any more. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_window_processes_take(struct aorta_window_processes *processes, int64_t start_ms,
                                                        const struct aorta_trace_run_record *record,
                                                        struct aorta_text *lines);
/* Whether one of them may write more. */
bool aorta_window_processes_run(const struct aorta_window_processes *processes);
void aorta_window_processes_free(struct aorta_window_processes *processes);

#endif
