/* aorta trace merge: many ranks' traces as one, on one clock. */
#include "base/files.h"
#include "cli/cli.h"
#include "cli/perfetto.h"
#include "replay/critical_path.h"
#include "report/merge.h"
#include "report/recorded.h"
#include "trace/open.h"

#include <stdio.h>
#include <stdlib.h>

struct merge_arguments {
    const char *output;
    struct aorta_string_list patterns;
    bool recover, tracks, perfetto, quiet;
};

#define AT(field) offsetof(struct merge_arguments, field)
static const struct aorta_option rows[] = {
    {"output", AORTA_OPTION_STRING, AT(output), "null", .nullable = true, .letter = 'o', .argument = "FILE",
     .required = true, .path = AORTA_PATH_FILE, .help = "the file to write; packed with gzip if its name ends in .gz"},
    {"tracks", AORTA_OPTION_BOOL, AT(tracks), "false",
     .help = "add each rank's part of the critical path, and counters of overlap, queue length, "
             "bandwidth and memory"},
    {"perfetto", AORTA_OPTION_BOOL, AT(perfetto), "false",
     .help = "print a link that opens the file in Perfetto, and wait until a browser on this machine "
             "follows it; the file goes only to that browser"},
    AORTA_CLI_QUIET_OPTION(AT(quiet), "print errors only"),
    AORTA_CLI_RECOVER_OPTION(AT(recover)),
    AORTA_CLI_PATTERNS_OPTION(AT(patterns)),
};
#undef AT

static const struct aorta_cli_syntax syntax = {
    .usage =
        "aorta trace merge RANK_FILE|DIR … -o FILE [--tracks] [--perfetto] [-q] [--recover] [--comm-pattern REGEX …]",
    .about = "Makes one trace of several ranks, with a process for each, for Perfetto and "
             "chrome://tracing. The ranks' clocks are aligned on the ends of shared collectives. Prints "
             "each rank's shift, what remains, and which rank was late.",
    .options = rows,
    .option_count = sizeof rows / sizeof rows[0],
    .operands = true,
    .reads_operands = true,
};

/* Counters of each rank, and the path; freed by the caller also after a failure. */
static aorta_status make_tracks(const struct aorta_trace_analysis *analysis, struct aorta_critical_path *path,
                                struct aorta_counters **counters, size_t *made) {
    *counters = calloc(analysis->rank_count + 1, sizeof **counters);
    if (!*counters) return AORTA_ERROR(AORTA_MEMORY, "no memory for the counters of %zu ranks", analysis->rank_count);
    for (*made = 0; *made < analysis->rank_count; ++*made)
        AORTA_TRY(aorta_counters_make(&analysis->ranks[*made], &(*counters)[*made]));
    return aorta_critical_path_make(analysis, path);
}

/* With the tracks of an analysis of the same files. */
static aorta_status merge_with_tracks(const struct aorta_cli_line *line, const char *output,
                                      const struct aorta_trace_options *options, struct aorta_text *report) {
    const char *const *paths = (const char *const *)line->operands;
    const struct aorta_trace_analysis_options whole = {0};
    const struct aorta_log log = {.level = AORTA_LOG_INFO, .rank = -1};
    struct aorta_recorded recorded;
    struct aorta_critical_path path = {0};
    struct aorta_counters *counters = NULL;
    size_t count = 0;
    aorta_status status = aorta_recorded_open(paths, (size_t)line->operand_count, options, &whole, &log, &recorded);
    if (!status && recorded.is_run)
        status = AORTA_ERROR(AORTA_USAGE, "--tracks is for traces; %s is a run: name its traces (DIR/torch_profiler)",
                             paths[0]);
    if (!status) status = make_tracks(recorded.analysis, &path, &counters, &count);
    const struct aorta_merge_tracks tracks = {&recorded.traces, &path, counters, count};
    if (!status) status = aorta_trace_merge(paths, (size_t)line->operand_count, output, options, &tracks, report);
    if (!status && path.reason) aorta_text_printf(report, "no critical path: %s\n", path.reason);
    for (size_t i = 0; i < count; i++) aorta_counters_free(&counters[i]);
    free(counters);
    aorta_critical_path_free(&path);
    aorta_recorded_free(&recorded);
    return status;
}

static aorta_status merge(const struct aorta_cli_line *line, void *values) {
    const struct merge_arguments *arguments = values;
    if (line->operand_count == 0) return AORTA_ERROR(AORTA_USAGE, "no files to merge; give the trace of each rank");
    if (arguments->perfetto && aorta_file_is_direct(arguments->output))
        return AORTA_ERROR(AORTA_USAGE, "--perfetto needs a file: --output %s is none", arguments->output);
    struct aorta_kernel_patterns *patterns = NULL;
    aorta_status status = aorta_file_prepare(arguments->output, "--output");
    if (!status) status = aorta_cli_comm_patterns(&arguments->patterns, &patterns);
    const struct aorta_trace_options options = {.recover = arguments->recover, .guarded = true, .patterns = patterns};
    struct aorta_text report = {0};
    if (!status && arguments->tracks)
        status = merge_with_tracks(line, arguments->output, &options, &report);
    else if (!status)
        status = aorta_trace_merge((const char *const *)line->operands, (size_t)line->operand_count, arguments->output,
                                   &options, NULL, &report);
    if (!status && !arguments->quiet) status = aorta_cli_print_beside(arguments->output, report.data);
    if (!status && arguments->perfetto) status = aorta_perfetto_show(arguments->output);
    aorta_text_free(&report);
    aorta_kernel_patterns_free(patterns);
    return status;
}

aorta_status aorta_cli_trace_merge(int argc, char **argv) {
    struct merge_arguments arguments;
    return aorta_cli_command(&syntax, argc, argv, &arguments, merge);
}
