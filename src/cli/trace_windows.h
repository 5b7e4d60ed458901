/* Analysing a recording window by window while it is made: `aorta trace run --every` and `aorta trace watch`. */
#ifndef AORTA_CLI_TRACE_WINDOWS_H
#define AORTA_CLI_TRACE_WINDOWS_H

#include "cli/cli.h"
#include "trace/open.h"

struct aorta_trace_windows_options {
    const char *command;     /* begins each line: "aorta trace run" */
    const char *directory;   /* of the windows */
    const char *json_lines;  /* file that grows by a line for each; NULL: none */
    const char *tensorboard; /* folder of TensorBoard's event files; NULL: none */
    const char *prometheus;  /* file that is replaced after each; NULL: none */
    const char *step_range;  /* as of trace run */
    const struct aorta_trace_options *reading;
    bool whole;         /* windows are evaluated as they are, not their steps */
    int64_t analyse_mb; /* of a larger window the first part is evaluated */
    int64_t keep;       /* so many of the newest windows stay, older ones are removed when evaluated */
    int64_t grace_ms;   /* so long after its end a window waits for processes that have not closed it */
};

/* The options that both commands have. */
#define AORTA_CLI_JSON_LINES_OPTION(place)                                                                             \
    {                                                                                                                  \
        .key = "json-lines", .type = AORTA_OPTION_STRING, .offset = (place), .fallback = "null", .nullable = true,     \
        .argument = "FILE", .path = AORTA_PATH_FILE,                                                                   \
        .help = "append each window's figures and verdict to this file as a line of JSON"                              \
    }
#define AORTA_CLI_PROMETHEUS_OPTION(place)                                                                             \
    {                                                                                                                  \
        .key = "prometheus", .type = AORTA_OPTION_STRING, .offset = (place), .fallback = "null", .nullable = true,     \
        .argument = "FILE", .path = AORTA_PATH_FILE,                                                                   \
        .help = "write the last window's figures to this file as gauges, for node_exporter's textfile collector"       \
    }

#define AORTA_CLI_TENSORBOARD_OPTION(place)                                                                            \
    {                                                                                                                  \
        .key = "tensorboard", .type = AORTA_OPTION_STRING, .offset = (place), .fallback = "null", .nullable = true,    \
        .argument = "DIR", .path = AORTA_PATH_FOLDER, .files = aorta_trace_windows_events,                             \
        .help = "write each window's figures as scalars for TensorBoard to this folder"                                \
    }
extern const char *const aorta_trace_windows_events[];

/* Reading takes some ten times as much memory. */
#define AORTA_CLI_ANALYSE_MB_OPTION(place)                                                                             \
    {                                                                                                                  \
        .key = "analyse-mb", .type = AORTA_OPTION_INT, .offset = (place), .fallback = "256",                           \
        .limits = &aorta_trace_windows_mb, .argument = "MB",                                                           \
        .help = "evaluate only the first part of windows with more records than this (all ranks together); analysis "  \
                "takes about ten times as much memory"                                                                 \
    }
extern const struct aorta_range_limits aorta_trace_windows_mb;

struct aorta_trace_windows;
/* Opens the files. AORTA_CONFIG, AORTA_IO, AORTA_MEMORY. The options are borrowed. */
AORTA_MUST_USE aorta_status aorta_trace_windows_open(const struct aorta_trace_windows_options *options,
                                                     struct aorta_trace_windows **windows);
void aorta_trace_windows_close(struct aorta_trace_windows *windows); /* NULL is fine */

/* Evaluates the newest window that is ready, prints, and lets go of those before it. `final`: nothing is written any
 * more, so every window is ready. *evaluated: there was one. */
AORTA_MUST_USE aorta_status aorta_trace_windows_look(struct aorta_trace_windows *windows, bool final, bool *evaluated);
/* Whether processes of the last window may write more. */
bool aorta_trace_windows_run(const struct aorta_trace_windows *windows);
/* No window will come any more: names the processes that went without an end. */
AORTA_MUST_USE aorta_status aorta_trace_windows_end(struct aorta_trace_windows *windows);

/* Why a file did not take the first window that it did not take; NULL: all files have all windows. */
AORTA_MUST_USE aorta_status aorta_trace_windows_unwritten(struct aorta_trace_windows *windows);

/* The same on a thread of low priority, until aorta_trace_windows_join, which evaluates what is left and closes. *any:
 * some window had work. */
AORTA_MUST_USE aorta_status aorta_trace_windows_start(struct aorta_trace_windows *windows);
AORTA_MUST_USE aorta_status aorta_trace_windows_join(struct aorta_trace_windows *windows, bool *any);

#endif
