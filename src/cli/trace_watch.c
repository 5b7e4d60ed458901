/* aorta trace watch: windows that recorders of several nodes write into a shared folder, evaluated together. */
#include "base/files.h"
#include "cli/trace_run.h"
#include "cli/trace_windows.h"
#include "timeline/infer.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
     .help = "so many of the newest windows stay in the folder; the others are removed once they are evaluated"},
    {"grace", AORTA_OPTION_DOUBLE, AT(grace_s), "10", .limits = &not_negative, .argument = "SECONDS",
     .help = "how long after its end a window waits for processes that have not closed theirs; then it is evaluated "
             "without what they have not written"},
    {"patience", AORTA_OPTION_DOUBLE, AT(patience_s), "120", .limits = &not_negative, .argument = "SECONDS",
     .help = "the watch ends when no window has come for so long after the first one"},
    {"once", AORTA_OPTION_BOOL, AT(once), "false",
     .help = "evaluate the windows that are there, as if nothing wrote any more, and end"},
    {"whole", AORTA_OPTION_BOOL, AT(whole), "false", .help = "evaluate windows as they are instead of their steps"},
    {"step-range", AORTA_OPTION_STRING, AT(step_range), "null", .nullable = true, .argument = "REGEX",
     .help = "a step begins with each range of the program whose name matches (POSIX extended; recorded with --nvtx)"},
    AORTA_CLI_PATTERNS_OPTION(AT(patterns)),
};
#undef AT

static const struct aorta_cli_syntax syntax = {
    .usage = "aorta trace watch DIR [--json-lines FILE] [--prometheus FILE] [OPTIONS]",
    .about =
        "Evaluates the windows that `aorta trace run --every SECONDS --into DIR` writes on one node or on many: all "
        "ranks together, on one clock, while the program runs. Prints a line for each window, the ten lines when "
        "the verdict changes, and the processes that write no more.",
    .options = rows,
    .option_count = sizeof rows / sizeof rows[0],
    .operands = true,
    .footer = "It ends when all processes have ended, or no window comes any more (--patience), or with Ctrl-C.",
};

/* Until there is a signal that ends the watch, or the time is over. */
static bool interrupted(const sigset_t *signals, int64_t pause_ns) {
    const struct timespec pause = {.tv_nsec = pause_ns};
    return sigtimedwait(signals, NULL, &pause) > 0;
}

static aorta_status watch(struct aorta_trace_windows *windows, const struct watch_arguments *arguments) {
    sigset_t signals;
    time_t came = 0;
    bool evaluated = true;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    while (evaluated || !arguments->once) {
        AORTA_TRY(aorta_trace_windows_look(windows, arguments->once, &evaluated));
        if (evaluated) came = time(NULL);
        if (interrupted(&signals, evaluated ? 0 : 200000000)) return NULL;
        const bool over = came && !evaluated && !aorta_trace_windows_run(windows);
        if (over || (came && difftime(time(NULL), came) > arguments->patience_s)) break;
    }
    return arguments->once ? NULL : aorta_trace_windows_end(windows); /* of a part nobody knows who went on */
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
    AORTA_TRY(aorta_directory_make(directory));
    AORTA_TRY(aorta_trace_windows_open(&options, &windows));
    aorta_status status = watch(windows, arguments);
    aorta_trace_windows_close(windows);
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
