/* `aorta trace run` with CUDA: our library in every process that initialises CUDA's driver. */
#include "cli/trace_run.h"
#include "cli/trace_windows.h"
#include "record/inject/settings.h"
#include "record/windows.h"
#include "trace/open.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libaorta_inject.so"

/* Where the library lies as seen from the program: where it is built, unpacked, installed. */
static const char *const folders[] = {"", "../lib/", "../lib/aorta/record/"};

static aorta_status find_library(char path[PATH_MAX]) {
    char self[PATH_MAX], candidate[2 * PATH_MAX];
    AORTA_TRY(aorta_cli_self(self));
    char *slash = strrchr(self, '/');
    if (slash) slash[1] = '\0';
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(candidate, sizeof candidate, "%s%s" LIBRARY, self, folders[i]);
        if (access(candidate, R_OK) == 0 && realpath(candidate, path)) return NULL;
    }
    return AORTA_ERROR(AORTA_UNSUPPORTED,
                       "%s is neither beside the program (%s) nor in ../lib or ../lib/aorta/record; install it again",
                       LIBRARY, self);
}

static aorta_status check_options(const struct aorta_trace_run_arguments *arguments) {
    if (arguments->format == AORTA_TRACE_RUN_FORMAT_AUTO) return NULL;
    return AORTA_ERROR(AORTA_USAGE,
                       "--format is for ROCm; on CUDA each process writes a .spool (aorta trace merge makes "
                       "JSON of them)");
}

/* Two tools cannot be injected into one program. */
static aorta_status check_environment(void) {
    const char *other = getenv("CUDA_INJECTION64_PATH");
    if (!other || !*other || strcmp(other, "none") == 0) return NULL;
    return AORTA_ERROR(AORTA_USAGE,
                       "CUDA_INJECTION64_PATH is %s: another tool records this program already; unset it, or run that "
                       "tool inside",
                       other);
}

/* ---- the environment ---- */

enum { VARIABLES_MAX = 11, NUMBER_LENGTH = 24 };

struct environment {
    struct aorta_trace_run_variable variables[VARIABLES_MAX];
    size_t count;
    char numbers[VARIABLES_MAX][NUMBER_LENGTH];
};

static void set(struct environment *environment, const char *name, const char *value) {
    environment->variables[environment->count++] = (struct aorta_trace_run_variable){name, value};
}

static void set_number(struct environment *environment, const char *name, int64_t value) {
    char *text = environment->numbers[environment->count];
    snprintf(text, NUMBER_LENGTH, "%lld", (long long)value);
    set(environment, name, text);
}

/* Rounded up: 0 is no time of its own but "at once" and "to the end". */
static void set_milliseconds(struct environment *environment, const char *name, double seconds) {
    if (seconds > 0) set_number(environment, name, (int64_t)ceil(seconds * 1e3));
}

static void fill(struct environment *environment, const struct aorta_trace_run_arguments *arguments,
                 const char *library, const char *directory) {
    set(environment, "CUDA_INJECTION64_PATH", library);
    set(environment, AORTA_INJECT_DIRECTORY, directory);
    set_number(environment, AORTA_INJECT_LIMIT, arguments->limit_mb);
    set(environment, AORTA_INJECT_RECORD, aorta_inject_levels[arguments->record].name);
    if (arguments->cupti) set(environment, AORTA_INJECT_CUPTI, arguments->cupti);
    set_milliseconds(environment, AORTA_INJECT_DELAY, arguments->delay_s);
    set_milliseconds(environment, AORTA_INJECT_DURATION, arguments->duration_s);
    set_milliseconds(environment, AORTA_INJECT_WINDOW, arguments->every_s);
    if (!arguments->nvtx) return;
    set(environment, AORTA_INJECT_NVTX, "1");
    set(environment, "NVTX_INJECTION64_PATH", library);
}

/* As a shell takes it: our library makes no directory. */
static void print_command(const struct environment *environment, const char *directory, char *const *command) {
    struct aorta_text text = {0};
    aorta_text_puts(&text, "mkdir -p ");
    aorta_trace_run_quote(&text, (char *[]){(char *)directory, NULL});
    aorta_text_puts(&text, " && env ");
    for (size_t i = 0; i < environment->count; i++) {
        aorta_text_printf(&text, "%s=", environment->variables[i].name);
        aorta_trace_run_quote(&text, (char *[]){(char *)environment->variables[i].value, NULL});
        aorta_text_puts(&text, " ");
    }
    aorta_trace_run_quote(&text, command);
    if (text.data) puts(text.data);
    aorta_text_free(&text);
}

/* ---- before and after ---- */

static aorta_status read_record(const char *directory, const struct aorta_trace_options *options,
                                struct aorta_trace_run_outcome *outcome) {
    struct aorta_trace_run_record record;
    aorta_status status = aorta_trace_run_read(directory, options, &record);
    if (!status && record.traces.count)
        aorta_trace_run_describe(&record, &outcome->words);
    else if (!status)
        aorta_trace_run_explain_nothing(&record, &outcome->result, &outcome->words);
    if (!status) {
        outcome->traces = record.traces;
        record.traces = (struct aorta_trace_list){0};
    }
    aorta_trace_run_record_free(&record);
    return status;
}

/* Runs the program; `run` says who watches it. */
static aorta_status run_with(const struct aorta_trace_run_arguments *arguments, const char *directory,
                             struct aorta_trace_run_options run, struct aorta_trace_run_outcome *outcome, bool *ran) {
    char library[PATH_MAX], *cupti = arguments->cupti ? realpath(arguments->cupti, NULL) : NULL;
    struct environment environment = {0};
    *ran = false;
    if (arguments->cupti && !cupti)
        return AORTA_ERROR(AORTA_USAGE, "--cupti %s: %s", arguments->cupti, strerror(errno));
    struct aorta_trace_run_arguments absolute = *arguments;
    absolute.cupti = cupti;
    aorta_status status = check_options(arguments);
    if (!status) status = find_library(library);
    if (!status) status = check_environment();
    if (!status) fill(&environment, &absolute, library, directory);
    if (!status && arguments->dry_run) {
        print_command(&environment, directory, arguments->command);
    } else if (!status) {
        run.command = arguments->command;
        run.variables = environment.variables;
        run.variable_count = environment.count;
        run.output_to_error = arguments->json;
        run.spools = directory;
        const bool watched = *outcome->machine && !(arguments->every_s > 0); /* windows: its file grows with the run */
        run.machine = watched ? outcome->machine : NULL;
        status = aorta_trace_run_program(&run, &outcome->result);
        *ran = status == NULL;
    }
    free(cupti);
    return status;
}

aorta_status aorta_trace_run_cuda(const struct aorta_trace_run_arguments *arguments, const char *directory,
                                  const struct aorta_trace_options *options, struct aorta_trace_run_outcome *outcome,
                                  bool *ran) {
    AORTA_TRY(run_with(arguments, directory, (struct aorta_trace_run_options){0}, outcome, ran));
    return *ran ? read_record(directory, options, outcome) : NULL;
}

/* ---- windows ---- */

enum { GRACE_MS = 5000 };

static aorta_status start_analysing(void *windows) {
    return aorta_trace_windows_start(windows);
}

/* Nothing was evaluated because there was nothing: why. */
static void explain_nothing(const char *directory, struct aorta_trace_run_outcome *outcome) {
    struct aorta_window_list list;
    struct aorta_trace_run_record record = {0};
    aorta_status status = aorta_windows_list(directory, -1, &list);
    if (!status && list.count) status = aorta_trace_run_read(list.items[list.count - 1].path, NULL, &record);
    if (!status && !record.traces.count) aorta_trace_run_explain_nothing(&record, &outcome->result, &outcome->words);
    aorta_status_free(status);
    aorta_trace_run_record_free(&record);
    aorta_windows_free(&list);
}

aorta_status aorta_trace_run_cuda_windows(const struct aorta_trace_run_arguments *arguments, const char *directory,
                                          const struct aorta_trace_options *options,
                                          struct aorta_trace_run_outcome *outcome, bool *ran) {
    const struct aorta_trace_windows_options analysing = {
        .command = "aorta trace run",
        .directory = directory,
        .json_lines = arguments->json_lines,
        .prometheus = arguments->prometheus,
        .tensorboard = arguments->tensorboard,
        .step_range = arguments->step_range,
        .reading = options,
        .whole = arguments->whole,
        .analyse_mb = arguments->analyse_mb,
        .keep = 1, /* says why, where nothing was recorded; goes with a directory that is nobody's */
        .grace_ms = GRACE_MS,
    };
    struct aorta_trace_windows *windows = NULL;
    if (arguments->into || arguments->dry_run)
        return run_with(arguments, directory, (struct aorta_trace_run_options){0}, outcome, ran);
    AORTA_TRY(aorta_trace_windows_open(&analysing, &windows));
    const struct aorta_trace_run_options run = {.started = start_analysing, .user = windows};
    aorta_status status = run_with(arguments, directory, run, outcome, ran);
    bool any;
    aorta_status evaluated = aorta_trace_windows_join(windows, &any);
    if (*ran && !status && !evaluated && !any) explain_nothing(directory, outcome);
    if (status)
        aorta_status_free(evaluated);
    else
        status = evaluated;
    return status;
}
