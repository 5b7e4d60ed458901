/* aorta trace watch: windows that recorders of several nodes write into a shared folder, evaluated together. */
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/signals.h"
#include "cli/trace_run.h"
#include "cli/trace_windows.h"
#include "trace/infer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct watch_arguments {
    const char *json_lines, *prometheus, *tensorboard, *step_range;
    struct aorta_string_list patterns;
    double grace_s, patience_s;
    int64_t keep, analyse_mb;
    bool whole, once;
};

#define AT(field) offsetof(struct watch_arguments, field)
static const struct aorta_range_limits not_negative = {.min = 0, .max = 1e6};
static const struct aorta_option rows[] = {
    AORTA_CLI_JSON_LINES_OPTION(AT(json_lines)),
    AORTA_CLI_PROMETHEUS_OPTION(AT(prometheus)),
    AORTA_CLI_TENSORBOARD_OPTION(AT(tensorboard)),
    AORTA_CLI_ANALYSE_MB_OPTION(AT(analyse_mb)),
    {"keep", AORTA_OPTION_INT, AT(keep), "1", .limits = &not_negative, .argument = "N",
     .help = "number of newest windows that stay in the folder; older ones are removed after their "
             "evaluation"},
    {"grace", AORTA_OPTION_DOUBLE, AT(grace_s), "10", .limits = &not_negative, .argument = "SECONDS",
     .help = "how long a window waits for processes that have not closed theirs; then it is evaluated "
             "without them"},
    {"patience", AORTA_OPTION_DOUBLE, AT(patience_s), "120", .limits = &not_negative, .argument = "SECONDS",
     .help = "end when no window has arrived for this time after the first one"},
    {"once", AORTA_OPTION_BOOL, AT(once), "false", .help = "evaluate the existing windows, and end"},
    {"whole", AORTA_OPTION_BOOL, AT(whole), "false", .help = "evaluate whole windows instead of their steps"},
    {"step-range", AORTA_OPTION_STRING, AT(step_range), "null", .nullable = true, .argument = "REGEX",
     .help = "a step begins with each range of the program whose name matches (POSIX extended; recorded with --nvtx)"},
    AORTA_CLI_PATTERNS_OPTION(AT(patterns)),
};
#undef AT

static const struct aorta_cli_syntax syntax = {
    .usage = "aorta trace watch DIR [--json-lines FILE] [--prometheus FILE] [OPTIONS]",
    .about = "Evaluates the windows that `aorta trace run --every SECONDS --into DIR` writes on one "
             "node or many: all ranks together, on one clock, while the program runs. Prints a line for "
             "each window, the verdict when it changes, and processes that stop writing.",
    .options = rows,
    .option_count = sizeof rows / sizeof rows[0],
    .operands = true,
    .reads_operands = true,
    .footer = "It ends when all processes have ended, when no window arrives (--patience), or with "
              "Ctrl-C.",
};

static bool no_words(void *user, int signal) {
    (void)user, (void)signal;
    return false;
}

static aorta_status watch(struct aorta_trace_windows *windows, const struct watch_arguments *arguments,
                          const struct aorta_signals *signals) {
    static const struct timespec pause = {.tv_nsec = 200000000};
    const int64_t patience_ns = (int64_t)(arguments->patience_s * 1e9);
    int64_t came_ns = 0; /* 0: none yet */
    bool evaluated = true;
    while (evaluated || !arguments->once) {
        AORTA_TRY(aorta_trace_windows_look(windows, arguments->once, &evaluated));
        if (evaluated) came_ns = aorta_clock_ns();
        if (!evaluated) nanosleep(&pause, NULL);
        if (aorta_signals_get(signals)) return NULL;
        const bool over = came_ns && !evaluated && !aorta_trace_windows_run(windows);
        if (over || (came_ns && aorta_clock_ns() - came_ns > patience_ns)) break;
    }
    return arguments->once ? NULL : aorta_trace_windows_end(windows); /* of a part nobody knows who went on */
}

/* A failed write makes the watch a failure, at its end. */
static aorta_status written(struct aorta_trace_windows *windows) {
    AORTA_TRY(aorta_trace_windows_unwritten(windows));
    if (fflush(stderr) == 0 && !ferror(stderr)) return NULL;
    return AORTA_ERROR(AORTA_IO, "the standard error cannot be written");
}

static aorta_status watch_with(const struct watch_arguments *arguments, const char *directory,
                               const struct aorta_trace_options *reading) {
    const struct aorta_trace_windows_options options = {
        .command = "aorta trace watch",
        .directory = directory,
        .json_lines = arguments->json_lines,
        .prometheus = arguments->prometheus,
        .tensorboard = arguments->tensorboard,
        .step_range = arguments->step_range,
        .reading = reading,
        .whole = arguments->whole,
        .analyse_mb = arguments->analyse_mb,
        .keep = arguments->keep,
        .grace_ms = (int64_t)(arguments->grace_s * 1e3),
    };
    struct aorta_trace_windows *windows;
    struct aorta_signals *signals;
    const struct aorta_log log = {.level = AORTA_LOG_INFO, .rank = -1};
    const bool missing = access(directory, F_OK) != 0;
    if (missing && arguments->once)
        return AORTA_ERROR(AORTA_USAGE, "%s: no such folder; name the one of aorta trace run --into", directory);
    AORTA_TRY(aorta_directory_make(directory));
    if (missing)
        aorta_log(&log, AORTA_LOG_INFO, "%s is new: waiting for what aorta trace run --every SECONDS --into %s writes",
                  directory, directory);
    AORTA_TRY(aorta_signals_begin(no_words, NULL, &signals));
    aorta_status status = aorta_trace_windows_open(&options, &windows);
    if (!status) {
        status = watch(windows, arguments, signals);
        if (!status) status = written(windows);
        aorta_trace_windows_close(windows);
    }
    aorta_signals_end(signals);
    return status;
}

static aorta_status run(const struct aorta_cli_line *line, void *values) {
    const struct watch_arguments *arguments = values;
    if (line->operand_count != 1) return AORTA_ERROR(AORTA_USAGE, "one folder is to be named; usage: %s", syntax.usage);
    AORTA_TRY(aorta_trace_check_step_range(arguments->step_range));
    struct aorta_kernel_patterns *patterns = NULL;
    aorta_status status = aorta_cli_comm_patterns(&arguments->patterns, &patterns);
    const struct aorta_trace_options reading = {
        .recover = true, .patterns = patterns, .step_range = arguments->step_range};
    if (!status) status = watch_with(arguments, line->operands[0], &reading);
    aorta_kernel_patterns_free(patterns);
    return status;
}

aorta_status aorta_cli_trace_watch(int argc, char **argv) {
    struct watch_arguments arguments = {0};
    return aorta_cli_command(&syntax, argc, argv, &arguments, run);
}
