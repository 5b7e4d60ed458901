/* aorta report: figures, pictures and verdict of finished runs. */
#include "report/report.h"
#include "base/files.h"
#include "cli/cli.h"
#include "report/page.h"

#include <sys/stat.h>

struct report_arguments {
    struct aorta_string_list directories, labels;
    struct aorta_report_options options;
    bool json, no_pictures, all;
};

#define AT(field) offsetof(struct report_arguments, field)
static const char *const files[] = {"summary.json", "*.png", NULL};
static const struct aorta_option rows[] = {
    {"log-dir", AORTA_OPTION_STRING_LIST, AT(directories), "null", .argument = "DIR", .path = AORTA_PATH_READ,
     .help = "directory of a run, with its rank_RR_metrics.jsonl, the same as an argument; repeat it for several runs"},
    {"label", AORTA_OPTION_STRING_LIST, AT(labels), "null", .argument = "NAME",
     .help = "name of a run, one for each --log-dir in order; one name for several makes them repeats; "
             "default: the directories' names"},
    {"output", AORTA_OPTION_STRING, AT(options.output), "artifacts/report", .letter = 'o', .argument = "DIR",
     .path = AORTA_PATH_FOLDER, .files = files,
     .help = "directory for summary.json, index.html and the pictures, created if needed"},
    AORTA_CLI_CSV_OPTION(AT(options.csv)),
    {"html", AORTA_OPTION_STRING, AT(options.page), "null", .argument = "OUT", .path = AORTA_PATH_FILE,
     .help = "the page's file; default: index.html in the directory of --output"},
    {"reference", AORTA_OPTION_STRING, AT(options.reference), "null", .argument = "NAME",
     .help = "label of the reference; default: of two labels the first"},
    {"candidate", AORTA_OPTION_STRING, AT(options.candidate), "null", .argument = "NAME", .help = "label to compare"},
    {"warmup", AORTA_OPTION_INT, AT(options.warmup), "null", .when_null = -1, .limits = AORTA_LIMITS(0, 1e9),
     .argument = "N",
     .help = "iterations at the start of each rank that do not count; default: 3 (1 of fewer than 10, 0 "
             "of fewer than 4)"},
    {"read-every", AORTA_OPTION_INT, AT(options.read_every), "null", .limits = AORTA_LIMITS(1, 1e9), .argument = "N",
     .help = "read the ranges of every Nth recorded iteration; default: as many as fit 1 GiB of memory"},
    {"json", AORTA_OPTION_BOOL, AT(json), "false", .help = "print summary.json instead of the verdict"},
    AORTA_CLI_QUIET_OPTION(AT(options.quiet)),
    AORTA_CLI_ALL_OPTION(AT(all)),
    {"no-pictures", AORTA_OPTION_BOOL, AT(no_pictures), "false", .help = "draw no pictures"},
};

static const struct aorta_cli_syntax syntax = {
    .styled = true,
    .usage = "aorta report DIR … | --log-dir DIR [--label NAME] [--log-dir DIR --label NAME …] [--output DIR] "
             "[--html OUT] [--csv DIR] [--reference NAME --candidate NAME]",
    .about =
        "Reads the files that training runs wrote, says what limits each run and what to change, and writes "
        "summary.json, a page and pictures of compute, communication and their overlap. Files of the original Python "
        "toolkit are read too.",
    .operands = true,
    .reads_operands = true,
    AORTA_CLI_OPTIONS(rows),
};

static aorta_status make_inputs(const struct report_arguments *arguments, struct aorta_arena *arena,
                                struct aorta_report_options *options) {
    const size_t count = options->input_count = arguments->directories.count;
    struct aorta_report_input *inputs = aorta_arena_alloc(arena, count * sizeof *inputs);
    if (arguments->labels.count && arguments->labels.count != count)
        return AORTA_ERROR(AORTA_USAGE, "%zu --label for %zu --log-dir; give one for each, or none",
                           arguments->labels.count, count);
    for (size_t i = 0; inputs && i < count; i++) {
        const char *directory = arguments->directories.items[i];
        inputs[i].directory = directory;
        inputs[i].label = arguments->labels.count ? arguments->labels.items[i] : aorta_report_label(directory, arena);
    }
    options->inputs = inputs;
    return aorta_arena_check(arena, "the inputs");
}

static bool same_folder(const char *left, const char *right) {
    struct stat a, b;
    return stat(left, &a) == 0 && stat(right, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* The report of one run may go where the run's own is. */
static aorta_status check_output(const struct report_arguments *arguments) {
    const bool own =
        arguments->directories.count == 1 && same_folder(arguments->directories.items[0], arguments->options.output);
    const unsigned refused = AORTA_FOLDER_SWEEP | (own ? 0 : AORTA_FOLDER_RUN);
    AORTA_TRY(aorta_folder_check_free(arguments->options.output, "--output", refused));
    return aorta_directory_check_writable(arguments->options.output, "--output");
}

static aorta_status report(struct aorta_cli_line *line, const struct report_arguments *arguments) {
    struct aorta_report_options options = arguments->options;
    options.style = aorta_cli_style(line, stdout);
    options.style.view.all = arguments->all;
    options.style.answer = options.quiet;
    options.repeats = arguments->labels.count > 0;
    options.pictures = !arguments->no_pictures;
    const struct aorta_log log = {.level = options.quiet ? AORTA_LOG_ERROR : AORTA_LOG_INFO, .rank = -1};
    AORTA_TRY(aorta_cli_page_prepare(options.page));
    AORTA_TRY(aorta_cli_csv_prepare(options.csv));
    AORTA_TRY(make_inputs(arguments, &line->arena, &options));
    AORTA_TRY(check_output(arguments));
    struct aorta_text text = {0}, json = {0};
    aorta_status status = aorta_report_make(&options, &log, &text, &json);
    if (text.length)
        status = aorta_status_join(
            status, aorta_cli_print(arguments->json ? &json : &text, NULL, options.style.color && !arguments->json));
    aorta_text_free(&text);
    aorta_text_free(&json);
    return status;
}

static aorta_status run(struct aorta_cli_line *line, void *values) {
    struct report_arguments *arguments = values;
    if (line->operand_count && arguments->directories.count)
        return AORTA_ERROR(AORTA_USAGE, "%s and --log-dir both name runs: give one of them", line->operands[0]);
    if (line->operand_count)
        arguments->directories =
            (struct aorta_string_list){(const char *const *)line->operands, (size_t)line->operand_count};
    if (!arguments->directories.count)
        return AORTA_ERROR(AORTA_USAGE, "name the directory of a run; usage: %s", syntax.usage);
    return report(line, arguments);
}

const struct aorta_cli_entry aorta_cli_report = {&syntax, run, .size = sizeof(struct report_arguments),
                                                 .reads_recordings = true};
