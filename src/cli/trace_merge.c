/* aorta trace merge: many ranks' traces as one, on one clock. */
#include "base/files.h"
#include "cli/cli.h"
#include "formats/merge.h"
#include "formats/open.h"

#include <stdio.h>

struct merge_arguments {
    const char *output;
    struct aorta_string_list patterns;
    bool recover;
};

#define AT(field) offsetof(struct merge_arguments, field)
static const struct aorta_option rows[] = {
    {"output", AORTA_OPTION_STRING, AT(output), "null", .nullable = true, .letter = 'o', .argument = "FILE",
     .required = true, .path = AORTA_PATH_FILE, .help = "the file to write; packed with gzip if its name ends in .gz"},
    AORTA_CLI_RECOVER_OPTION(AT(recover)),
    AORTA_CLI_PATTERNS_OPTION(AT(patterns)),
};
#undef AT

static const struct aorta_cli_syntax syntax = {
    .usage = "aorta trace merge RANK_FILE|DIR … -o FILE [--recover] [--comm-pattern REGEX …]",
    .about = "Makes one trace of the traces of several ranks, a process for each, which Perfetto and chrome://tracing "
             "open. The ranks' clocks are aligned on the ends of the collectives they share; prints how far each was "
             "off, what is left over, and which rank was late.",
    .options = rows,
    .option_count = sizeof rows / sizeof rows[0],
    .operands = true,
    .reads_operands = true,
};

static aorta_status merge(const struct aorta_cli_line *line, void *values) {
    const struct merge_arguments *arguments = values;
    if (line->operand_count == 0) return AORTA_ERROR(AORTA_USAGE, "no files to merge; give the trace of each rank");
    struct aorta_kernel_patterns *patterns = NULL;
    aorta_status status = aorta_file_prepare(arguments->output, "--output");
    if (!status) status = aorta_cli_comm_patterns(&arguments->patterns, &patterns);
    const struct aorta_trace_options options = {.recover = arguments->recover, .patterns = patterns};
    struct aorta_text report = {0};
    if (!status)
        status = aorta_trace_merge((const char *const *)line->operands, (size_t)line->operand_count, arguments->output,
                                   &options, &report);
    if (!status) status = aorta_cli_print_beside(arguments->output, report.data);
    aorta_text_free(&report);
    aorta_kernel_patterns_free(patterns);
    return status;
}

aorta_status aorta_cli_trace_merge(int argc, char **argv) {
    struct merge_arguments arguments;
    return aorta_cli_command(&syntax, argc, argv, &arguments, merge);
}
