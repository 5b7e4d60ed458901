/* `aorta trace run` with ROCm: rocprofv3 around the program, its files read when it ends. */
#include "cli/trace_run.h"
#include "job/launch.h"
#include "record/inject/settings.h"
#include "trace/open.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Documented options, the same since ROCm 6.2 (rocprofv3 --help). */
static const char *const traces[] = {"--kernel-trace", "--memory-copy-trace", "--rccl-trace", "--hip-runtime-trace",
                                     "--marker-trace"};
enum { TRACE_COUNT = sizeof traces / sizeof traces[0] };

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

/* rocpd came with ROCm 7; what can write it says so. */
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
    switch (arguments->format) {
    case AORTA_TRACE_RUN_FORMAT_ROCPD:
        return "rocpd";
    case AORTA_TRACE_RUN_FORMAT_JSON:
        return "json";
    case AORTA_TRACE_RUN_FORMAT_CSV:
        return "csv";
    default:
        return writes_rocpd(tool) ? "rocpd" : "json";
    }
}

static aorta_status check_options(const struct aorta_trace_run_arguments *arguments) {
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

/* `rocprofv3 WHAT… --output-format F -d DIR -- COMMAND…`; the caller frees the array. */
static char **make_command(const struct aorta_trace_run_arguments *arguments, const char *tool, const char *directory) {
    size_t length = 0, at = 0;
    while (arguments->command[length]) length++;
    const char **command = calloc(length + TRACE_COUNT + 8, sizeof *command);
    if (!command) return NULL;
    command[at++] = tool;
    for (size_t i = 0; i < TRACE_COUNT; i++) command[at++] = traces[i];
    command[at++] = "--output-format";
    command[at++] = format_name(arguments, tool);
    command[at++] = "-d";
    command[at++] = directory;
    command[at++] = "--";
    memcpy(command + at, arguments->command, length * sizeof *command);
    return (char **)command;
}

/* ---- what it wrote ---- */

/* Files that do not say their rank are numbered after those that do, in order of their names. */
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
        aorta_text_printf(
            &outcome->words,
            "no activity of a GPU was recorded: rocprofv3 wrote no trace below %s. Its own messages stand "
            "above; it records processes that use HIP or HSA through ROCm's shared libraries\n",
            directory);
    }
    for (size_t i = 0; i < outcome->traces.count; i++)
        aorta_text_printf(&outcome->words, "read %s\n", outcome->traces.items[i]->path);
    number_ranks(&outcome->traces);
    return status;
}

aorta_status aorta_trace_run_rocm(const struct aorta_trace_run_arguments *arguments, const char *directory,
                                  const struct aorta_trace_options *options, struct aorta_trace_run_outcome *outcome,
                                  bool *ran) {
    char tool[PATH_MAX];
    *ran = false;
    AORTA_TRY(check_options(arguments));
    AORTA_TRY(find_tool(tool));
    char **command = make_command(arguments, tool, directory);
    if (!command) return AORTA_ERROR(AORTA_MEMORY, "no memory for the command line");
    aorta_status status = NULL;
    if (arguments->dry_run) {
        struct aorta_text text = {0};
        aorta_trace_run_quote(&text, command);
        if (text.data) puts(text.data);
        aorta_text_free(&text);
    } else {
        const struct aorta_trace_run_options run = {.command = command,
                                                    .output_to_error = arguments->json,
                                                    .machine = *outcome->machine ? outcome->machine : NULL};
        status = aorta_trace_run_program(&run, &outcome->result);
        *ran = status == NULL;
    }
    free(command);
    return status || !*ran ? status : read_files(directory, options, outcome);
}
