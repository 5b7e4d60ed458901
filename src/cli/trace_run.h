/* The parts of `aorta trace run` that differ between vendors. */
#ifndef AORTA_CLI_TRACE_RUN_H
#define AORTA_CLI_TRACE_RUN_H

#include "cli/cli.h"
#include "record/run.h"
#include "report/live.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

enum aorta_trace_run_tool { AORTA_TRACE_RUN_AUTO, AORTA_TRACE_RUN_CUDA, AORTA_TRACE_RUN_ROCM };
enum { AORTA_TRACE_RUN_FORMAT_AUTO };
extern const struct aorta_choice aorta_trace_run_formats[]; /* of rocprofv3's files, the automatic one first */

#define AORTA_TRACE_RUN_LIMIT_MB 2048

/* Analysing a recording window by window while it is made: `aorta trace run --every` and `aorta trace watch`. */

struct aorta_trace_windows_options {
    const char *command;     /* begins each line: "aorta trace run" */
    const char *directory;   /* of the windows */
    const char *json_lines;  /* file that gets a line per window; NULL: none */
    const char *tensorboard; /* folder of TensorBoard's event files; NULL: none */
    const char *prometheus;  /* file that is replaced after each; NULL: none */
    const char *step_range;  /* as of trace run */
    const struct aorta_trace_options *reading;
    bool whole;         /* windows are evaluated as they are, not their steps */
    int64_t analyze_mb; /* of a larger window the first part is evaluated */
    int64_t keep;       /* number of newest windows that stay; older windows are removed once evaluated */
    int64_t grace_ms;   /* time after a window's end to wait for processes that have not closed it */
    bool quiet;         /* only headlines: of the first window and after a change */
    struct aorta_verdict_style style;
};

struct aorta_trace_run_arguments {
    const char *output; /* NULL: a temporary directory */
    const char *csv;    /* directory of the tables; NULL: they are not written */
    struct aorta_string_list comm_patterns;
    int tool, format;
    int record; /* AORTA_INJECT_KERNELS, … */
    const char *cupti;
    double delay_s, duration_s;
    double every_s;   /* 0: the recording is one, and evaluated at the end */
    const char *into; /* folder of windows that `trace watch` evaluates; NULL: this command does */
    struct aorta_trace_windows_options windows; /* step_range and whole are also used without windows */
    int64_t limit_mb;
    bool nvtx, json, dry_run, all;
    char **command; /* NULL-terminated; borrowed from the command line */
};

/* The recording, ready to be analyzed. Zero-initialise; ends with aorta_trace_run_outcome_free. */
struct aorta_trace_run_outcome {
    struct aorta_trace_run_result result;
    struct aorta_trace_list traces;
    char machine[PATH_MAX + 32]; /* file of what the machine did meanwhile */
    struct aorta_text words;     /* list (aorta_text_next) of lines for people, about the recording */
};
void aorta_trace_run_outcome_free(struct aorta_trace_run_outcome *outcome);

/* Where a recording goes. */
struct aorta_trace_run_directory {
    char path[PATH_MAX];
    bool temporary;
    struct aorta_directory_lock *lock;
};
/* Opens `output`, which is made if missing and refused if it has another recording or another job writes into it.
 * NULL: a new temporary directory, which is removed at the end. `option` names it in messages: "-o". `dry_run`: only
 * checks and sets the path. */
AORTA_MUST_USE aorta_status aorta_trace_run_directory_open(const char *output, const char *option, bool dry_run,
                                                           struct aorta_trace_run_directory *directory);
/* Not after a failure of the opening. */
void aorta_trace_run_directory_close(struct aorta_trace_run_directory *directory);

/* Chooses CUDA or ROCm by the user's option (enum aorta_trace_run_tool), or by the GPUs of this machine. Starts
 * nothing. */
enum aorta_trace_run_tool aorta_trace_run_choose(int wish);

/* Runs the program, records into `directory` (which exists, except with --dry-run), and reads the recording. With
 * --dry-run it only prints the command, and *ran is false. */
aorta_status aorta_trace_run_cuda(const struct aorta_trace_run_arguments *arguments, const char *directory,
                                  const struct aorta_trace_options *options, struct aorta_trace_run_outcome *outcome,
                                  bool *ran);
/* The same in windows (arguments->every_s), which are evaluated while the program runs, or by `trace watch`. */
aorta_status aorta_trace_run_cuda_windows(const struct aorta_trace_run_arguments *arguments, const char *directory,
                                          const struct aorta_trace_options *options,
                                          struct aorta_trace_run_outcome *outcome, bool *ran);
aorta_status aorta_trace_run_rocm(const struct aorta_trace_run_arguments *arguments, const char *directory,
                                  const struct aorta_trace_options *options, struct aorta_trace_run_outcome *outcome,
                                  bool *ran);

/* Each item of the list after the command's name, on the standard error. */
void aorta_trace_run_put_lines(const char *command, const struct aorta_text *lines);

void aorta_trace_run_join(const struct aorta_text *lines, const char *between, struct aorta_text *out);

/* Words as a shell would take them. */
void aorta_trace_run_quote(struct aorta_text *out, char *const *words);

/* The options that both commands have. */
#define AORTA_CLI_JSON_LINES_OPTION(place)                                                                             \
    {                                                                                                                  \
        .key = "json-lines", .type = AORTA_OPTION_STRING, .offset = (place), .fallback = "null", .argument = "FILE",   \
        .path = AORTA_PATH_FILE, .help = "append each window's figures and verdict to this file as a line of JSON"     \
    }
#define AORTA_CLI_PROMETHEUS_OPTION(place)                                                                             \
    {                                                                                                                  \
        .key = "prometheus", .type = AORTA_OPTION_STRING, .offset = (place), .fallback = "null", .argument = "FILE",   \
        .path = AORTA_PATH_FILE,                                                                                       \
        .help = "write the last window's figures to this file as gauges, for node_exporter's textfile collector"       \
    }

#define AORTA_CLI_TENSORBOARD_OPTION(place)                                                                            \
    {                                                                                                                  \
        .key = "tensorboard", .type = AORTA_OPTION_STRING, .offset = (place), .fallback = "null", .argument = "DIR",   \
        .path = AORTA_PATH_FOLDER, .files = aorta_trace_windows_events,                                                \
        .help = "write each window's figures as scalars for TensorBoard to this folder"                                \
    }
extern const char *const aorta_trace_windows_events[];

#define AORTA_CLI_ANALYZE_MB_OPTION(place)                                                                             \
    {                                                                                                                  \
        .key = "analyze-mb", .type = AORTA_OPTION_INT, .offset = (place), .fallback = "256",                           \
        .limits = &aorta_trace_windows_mb, .argument = "MB",                                                           \
        .help = "evaluate only the first part of windows with more records than this (all ranks together); analysis "  \
                "takes about seven times as much memory"                                                               \
    }
extern const struct aorta_range_limits aorta_trace_windows_mb;

struct aorta_trace_windows {
    struct aorta_trace_windows_options options;
    struct aorta_window_processes processes;
    struct aorta_live live;
    FILE *json_lines;
    struct aorta_tensorboard board;
    int64_t day_ms;       /* time of day minus the monotonic clock, at the beginning */
    int64_t evaluated_ms; /* start of the last evaluated window; -1: none */
    bool described;       /* who the ranks are */
    bool threaded;
    pthread_t thread;
    _Atomic bool ending;
    aorta_status status;    /* of the thread */
    aorta_status unwritten; /* the first window that a file did not take */
};
/* Opens the files. AORTA_CONFIG, AORTA_IO, AORTA_MEMORY. The options are borrowed. */
AORTA_MUST_USE aorta_status aorta_trace_windows_open(const struct aorta_trace_windows_options *options,
                                                     struct aorta_trace_windows *windows);

/* Evaluates windows on a thread of low priority, until aorta_trace_windows_join, which evaluates the remaining windows
 * and closes. *any: a window had work. */
AORTA_MUST_USE aorta_status aorta_trace_windows_start(struct aorta_trace_windows *windows);
AORTA_MUST_USE aorta_status aorta_trace_windows_join(struct aorta_trace_windows *windows, bool *any);

#endif
