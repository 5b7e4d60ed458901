/* aorta hwq compare: two results, sweeps or groups side by side. */
#include "cli/hwq.h"
#include "hwq/compare.h"
#include "report/page.h"

#include <math.h>

struct compare_arguments {
    struct aorta_cli_outputs to;
    const char *baseline, *test;
    double threshold, between_runs;
    bool quiet;
};

#define AT(field) offsetof(struct compare_arguments, field)
static const struct aorta_option rows[] = {
    {"baseline", AORTA_OPTION_STRING, AT(baseline), "null", .letter = 'b', .argument = "FILE", .required = true,
     .path = AORTA_PATH_READ,
     .help = "the reference: a file of aorta hwq run, sweep or run-priority, of the original Python toolkit, or a "
             "directory of such files"},
    {"test", AORTA_OPTION_STRING, AT(test), "null", .letter = 't', .argument = "FILE", .required = true,
     .path = AORTA_PATH_READ, .help = "the results to compare with the reference"},
    {"threshold", AORTA_OPTION_DOUBLE, AT(threshold), "0.05", .limits = AORTA_LIMITS(0, 10),
     .help = "smallest change of the median iteration time that matters, as a fraction"},
    {"between-runs", AORTA_OPTION_DOUBLE, AT(between_runs), "null", .when_null = -1, .limits = AORTA_LIMITS(0, 10),
     .argument = "X",
     .help = "relative standard deviation between equal runs, if none was repeated; default: by device "
             "and variation of the iterations"},
    AORTA_CLI_QUIET_OPTION(AT(quiet)),
    AORTA_CLI_CSV_OPTION(AT(to.csv)),
    {"html", AORTA_OPTION_STRING, AT(to.html), "null", .argument = "OUT", .path = AORTA_PATH_FILE,
     .help = "write a page for a browser to this file"},
    {"json", AORTA_OPTION_BOOL, AT(to.json), "false", .help = "print one JSON object instead of the table"},
};

static const struct aorta_cli_syntax syntax = {
    .usage = "aorta hwq compare --baseline FILE --test FILE [--threshold X] [-q] [--html OUT] [--csv DIR]",
    .about = "Pairs results by workload and number of streams and compares the raw times of their iterations. A change "
             "counts only if its whole interval is beyond the threshold.",
    AORTA_CLI_OPTIONS(rows),
    .footer = "Exit codes: 0 no regression, 1 a regression, 2 wrong arguments or files.",
};

static aorta_status show(const struct aorta_hwq_comparison *comparison, const struct compare_arguments *arguments) {
    struct aorta_text text = {0}, object = {0}, parts[2] = {0};
    aorta_hwq_comparison_json(comparison, &object);
    if (arguments->quiet)
        aorta_found_answer_text(&comparison->found, &text);
    else
        aorta_hwq_comparison_text(comparison, &text);
    aorta_hwq_measurements_json(comparison->baseline, &parts[0]);
    aorta_hwq_measurements_json(comparison->test, &parts[1]);
    const struct aorta_page_results page = {
        .kind = "hwq_comparison", .title = "AORTA: hwq compare", .parts = parts, .part_count = 2};
    aorta_status status =
        aorta_cli_show(&arguments->to, NULL, page, &text, &object,
                       arguments->to.csv ? aorta_hwq_comparison_csv(comparison, arguments->to.csv) : NULL);
    for (int i = 0; i < 2; i++) aorta_text_free(&parts[i]);
    return status;
}

static aorta_status check_regressions(const struct aorta_hwq_comparison *comparison) {
    size_t regressions = comparison->changes[AORTA_HWQ_REGRESSION];
    if (!regressions) return NULL;
    return AORTA_ERROR(AORTA_REGRESSION, "%zu of %zu slower by more than %g%%", regressions, comparison->pair_count,
                       100 * comparison->options.threshold);
}

static aorta_status compare(struct aorta_cli_line *line, void *values) {
    (void)line;
    const struct compare_arguments *arguments = values;
    const double between = arguments->between_runs;
    const struct aorta_hwq_comparison_options options = {.threshold = arguments->threshold,
                                                         .between_runs = between < 0 ? NAN : between};
    struct aorta_hwq_measurements baseline, test;
    struct aorta_hwq_comparison comparison;
    AORTA_TRY(aorta_cli_outputs_prepare(&arguments->to));
    AORTA_TRY(aorta_annotate(aorta_hwq_measurements_open(arguments->baseline, &baseline), "--baseline"));
    aorta_status status = aorta_annotate(aorta_hwq_measurements_open(arguments->test, &test), "--test");
    if (!status) {
        status = aorta_hwq_comparison_make(&baseline, &test, &options, &comparison);
        if (!status) {
            status = show(&comparison, arguments);
            if (!status) status = check_regressions(&comparison);
            aorta_hwq_comparison_free(&comparison);
        }
        aorta_hwq_measurements_close(&test);
    }
    aorta_hwq_measurements_close(&baseline);
    return status;
}

const struct aorta_cli_entry aorta_cli_hwq_compare = {&syntax, compare, .size = sizeof(struct compare_arguments)};
