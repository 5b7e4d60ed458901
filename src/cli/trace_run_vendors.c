/* `aorta trace run` by vendor. CUDA: our library in every process that initializes the driver of CUDA. */
#include "cli/trace_run.h"
#include "job/launch.h"
#include "record/inject/settings.h"
#include "record/run.h"
#include "trace/open.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libaorta_inject.so"

/* Where the library is as seen from the program: where it is built, unpacked, installed. */
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
                       "%s is neither next to the program (%s) nor in ../lib or ../lib/aorta/record; install it again",
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

/* Rounds up, as 0 means "at once" or "to the end". */
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

/* Prints the command for a shell, with mkdir, as our library does not make the directory. */
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
        if (outcome->traces.count) status = aorta_trace_finish(&outcome->traces, options);
    }
    aorta_trace_run_record_free(&record);
    return status;
}

/* Runs the program; `run` may have a callback for its start. */
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

/* Explains why nothing was recorded, from the last window. */
static void explain_nothing(const char *directory, struct aorta_trace_run_outcome *outcome) {
    struct aorta_window_list list;
    struct aorta_trace_run_record record = {0};
    aorta_status status = aorta_windows_list(directory, -1, &list);
    if (!status && list.count) status = aorta_trace_run_read(list.items[list.count - 1].path, NULL, &record);
    if (!status && !record.traces.count) aorta_trace_run_explain_nothing(&record, &outcome->result, &outcome->words);
    aorta_status_free(status);
    aorta_trace_run_record_free(&record);
    aorta_arena_free(&list.arena);
}

aorta_status aorta_trace_run_cuda_windows(const struct aorta_trace_run_arguments *arguments, const char *directory,
                                          const struct aorta_trace_options *options,
                                          struct aorta_trace_run_outcome *outcome, bool *ran) {
    struct aorta_trace_windows_options analyzing = arguments->windows;
    analyzing.command = "aorta trace run";
    analyzing.directory = directory;
    analyzing.reading = options;
    analyzing.keep = 1; /* the last window shows why nothing was recorded; a temporary directory is removed anyway */
    analyzing.grace_ms = GRACE_MS;
    struct aorta_trace_windows windows;
    if (arguments->into || arguments->dry_run)
        return run_with(arguments, directory, (struct aorta_trace_run_options){0}, outcome, ran);
    AORTA_TRY(aorta_trace_windows_open(&analyzing, &windows));
    const struct aorta_trace_run_options run = {.started = start_analysing, .user = &windows};
    aorta_status status = run_with(arguments, directory, run, outcome, ran);
    bool any;
    aorta_status evaluated = aorta_trace_windows_join(&windows, &any);
    if (*ran && !status && !evaluated && !any) explain_nothing(directory, outcome);
    return aorta_status_join(status, evaluated);
}

/* ---- `aorta trace run` with ROCm: rocprofv3 around the program, its files read when it ends ---- */

/* Documented options, the same since ROCm 6.2 (rocprofv3 --help). */
static const char *const traces[] = {"--kernel-trace",      "--memory-copy-trace", "--rccl-trace",
                                     "--hip-runtime-trace", "--marker-trace",      NULL};

static aorta_status find_tool(char path[PATH_MAX]) {
    static const char usual[] = "/opt/rocm/bin/rocprofv3";
    if (aorta_program_find("rocprofv3", path)) return NULL;
    if (access(usual, X_OK) == 0) {
        memcpy(path, usual, sizeof usual);
        return NULL;
    }
    return AORTA_ERROR(AORTA_UNSUPPORTED, "rocprofv3 is neither in PATH nor in /opt/rocm/bin; it is part of ROCm 6.2 "
                                          "and later (package rocprofiler-sdk)");
}

/* Whether the tool can write rocpd (since ROCm 7), by its --help. */
static bool writes_rocpd(const char *tool) {
    char command[PATH_MAX + 32], line[512];
    bool found = false;
    if (strchr(tool, '\'')) return false;
    snprintf(command, sizeof command, "'%s' --help 2>/dev/null", tool);
    FILE *help = popen(command, "re");
    while (help && fgets(line, sizeof line, help)) found |= strstr(line, "rocpd") != NULL;
    if (help) pclose(help);
    return found;
}

static const char *format_name(const struct aorta_trace_run_arguments *arguments, const char *tool) {
    if (arguments->format != AORTA_TRACE_RUN_FORMAT_AUTO) return aorta_trace_run_formats[arguments->format].name;
    return writes_rocpd(tool) ? "rocpd" : "json";
}

static aorta_status rocm_check_options(const struct aorta_trace_run_arguments *arguments) {
    const char *unfit = arguments->delay_s > 0                            ? "--delay"
                        : arguments->duration_s > 0                       ? "--duration"
                        : arguments->cupti                                ? "--cupti"
                        : arguments->nvtx                                 ? "--nvtx"
                        : arguments->record != AORTA_INJECT_ALL           ? "--record"
                        : arguments->limit_mb != AORTA_TRACE_RUN_LIMIT_MB ? "--limit-mb"
                                                                          : NULL;
    if (!unfit) return NULL;
    return AORTA_ERROR(AORTA_USAGE,
                       "%s is for CUDA; on ROCm rocprofv3 records from the start to the end, roctx ranges "
                       "included",
                       unfit);
}

/* `rocprofv3 WHAT… --output-format F -d DIR -- COMMAND…` */
static char **make_command(const struct aorta_trace_run_arguments *arguments, const char *tool, const char *directory,
                           struct aorta_arena *memory) {
    struct aorta_words command = {.arena = memory};
    aorta_words_add(&command, tool);
    aorta_words_add_all(&command, traces);
    aorta_words_add_all(
        &command, (const char *const[]){"--output-format", format_name(arguments, tool), "-d", directory, "--", NULL});
    aorta_words_add_all(&command, (const char *const *)arguments->command);
    return command.items;
}

/* ---- what it wrote ---- */

/* Files without a rank are numbered after files with a rank, in order of their names. */
static void number_ranks(struct aorta_trace_list *list) {
    int32_t next = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i]->rank >= next) next = list->items[i]->rank + 1;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i]->rank < 0) list->items[i]->rank = next++;
}

/* By default rocprofv3 makes HOST/PID_results.EXT for each process. */
static aorta_status read_files(const char *directory, const struct aorta_trace_options *options,
                               struct aorta_trace_run_outcome *outcome) {
    aorta_status status = aorta_trace_open_inputs(&directory, 1, options, &outcome->traces);
    bool nothing = status && aorta_status_code(status) == AORTA_USAGE;
    if (nothing) {
        aorta_status_free(status);
        status = NULL;
        aorta_text_printf(&outcome->words,
                          "no GPU activity was recorded: rocprofv3 wrote no trace below %s. Its own messages are "
                          "above; it records processes that use HIP or HSA through ROCm's shared libraries",
                          directory);
        aorta_text_append(&outcome->words, "", 1);
    }
    for (size_t i = 0; i < outcome->traces.count; i++) {
        aorta_text_printf(&outcome->words, "read %s", outcome->traces.items[i]->path);
        aorta_text_append(&outcome->words, "", 1);
    }
    number_ranks(&outcome->traces);
    return status;
}

aorta_status aorta_trace_run_rocm(const struct aorta_trace_run_arguments *arguments, const char *directory,
                                  const struct aorta_trace_options *options, struct aorta_trace_run_outcome *outcome,
                                  bool *ran) {
    char tool[PATH_MAX];
    *ran = false;
    AORTA_TRY(rocm_check_options(arguments));
    AORTA_TRY(find_tool(tool));
    struct aorta_arena memory = {0};
    char **command = make_command(arguments, tool, directory, &memory);
    aorta_status status = aorta_arena_check(&memory, "the command line");
    if (!status && arguments->dry_run) {
        struct aorta_text text = {0};
        aorta_trace_run_quote(&text, command);
        if (text.data) puts(text.data);
        aorta_text_free(&text);
    } else if (!status) {
        const struct aorta_trace_run_options run = {.command = command,
                                                    .output_to_error = arguments->json,
                                                    .machine = *outcome->machine ? outcome->machine : NULL};
        status = aorta_trace_run_program(&run, &outcome->result);
        *ran = status == NULL;
    }
    aorta_arena_free(&memory);
    return status || !*ran ? status : read_files(directory, options, outcome);
}
