/* aorta trace compare: recordings side by side. */
#include "cli/cli.h"
#include "report/page_recordings.h"
#include "report/summary.h"
#include "report/trace_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct compare_arguments {
    double threshold;
    struct aorta_cli_outputs to;
    struct aorta_string_list labels, patterns;
    bool recover, markdown, quiet;
};

#define AT(field) offsetof(struct compare_arguments, field)
static const struct aorta_option rows[] = {
    {"label", AORTA_OPTION_STRING_LIST, AT(labels), "null", .argument = "NAME",
     .help = "name of a recording, one for each in order; one name for several makes them repeats; "
             "default: the files' names"},
    {"threshold", AORTA_OPTION_DOUBLE, AT(threshold), "null", .when_null = -1, .limits = AORTA_LIMITS(0, 1000),
     .argument = "X",
     .help = "exit 1 if a test's step takes more than this share longer than the base's (0.05: 5%) and, where steps "
             "are known, p < 0.05"},
    AORTA_CLI_CSV_OPTION(AT(to.csv)),
    {"html", AORTA_OPTION_STRING, AT(to.html), "null", .argument = "OUT", .path = AORTA_PATH_FILE,
     .help = "write a page for a browser to this file"},
    {"json", AORTA_OPTION_BOOL, AT(to.json), "false", .help = "print all rows as JSON"},
    {"markdown", AORTA_OPTION_BOOL, AT(markdown), "false", .help = "print GitHub's Markdown, for pull requests"},
    AORTA_CLI_QUIET_OPTION(AT(quiet)),
    AORTA_CLI_RECOVER_OPTION(AT(recover)),
    AORTA_CLI_PATTERNS_OPTION(AT(patterns)),
};

static const struct aorta_cli_syntax syntax = {
    .styled = true,
    .usage = "aorta trace compare BASE TEST [TEST …] [--label NAME …] [--threshold X] [--html OUT] [--csv DIR] "
             "[--json|--markdown|-q] [--recover]",
    .about = "Compares recordings: what changed in the timeline, kernels, matrix products and "
             "collectives, in ms per step and rank, the largest change first, and whether it is "
             "significant. Each recording is a trace, a folder with the traces of all ranks, or the "
             "directory of a run of aorta train. Several recordings of one label are compared as equal "
             "runs.",
    AORTA_CLI_OPTIONS(rows),
    .operands = true,
    .reads_operands = true,
};

/* The recordings of the command line, read and analyzed, grouped by label. */
struct recordings {
    struct aorta_recorded *items;
    struct aorta_trace_compare_input *inputs;
    struct aorta_differences *differences; /* of the first of each side from the first of all */
    size_t count, sides;                   /* of those that are analyzed */
    struct aorta_arena *arena;             /* the command line's */
};

static aorta_status read_one(struct recordings *r, const struct aorta_trace_compare_input *input,
                             const struct aorta_trace_options *options) {
    struct aorta_recorded *item = &r->items[r->count];
    const struct aorta_log log = {.level = AORTA_LOG_INFO, .rank = -1};
    aorta_status status = aorta_recorded_open(&input->path, 1, options, NULL, &log, item);
    if (!strstr(aorta_status_message(status), input->path)) status = aorta_annotate(status, "%s", input->path);
    AORTA_TRY(status);
    r->inputs[r->count] = *input;
    r->inputs[r->count].pressure = item->machine.known ? aorta_machine_pressure(&item->machine.summary) : NAN;
    r->inputs[r->count++].analysis = &item->analysis;
    if (input->repeats || !r->sides++) return NULL;
    struct aorta_differences *differences = &r->differences[r->sides - 1];
    aorta_recorded_differences(r->items, item, differences);
    return aorta_arena_check(&differences->arena, "what differs between two recordings");
}

/* Without labels each recording is a side, also where two are the same file. */
static aorta_status read_all(struct recordings *r, const char *const *paths, size_t count,
                             const struct aorta_string_list *labels, const struct aorta_trace_options *options) {
    const char *const *names = labels->count ? (const char *const *)labels->items
                                             : (const char *const *)aorta_trace_compare_labels(paths, count, r->arena);
    if (!names) return AORTA_ERROR(AORTA_MEMORY, "no memory for labels");
    for (size_t i = 0; i < count; i++) {
        struct aorta_trace_compare_input input = {.path = paths[i], .label = names[i]};
        if (labels->count && aorta_is_one_of(names[i], names, i)) continue; /* it has been read */
        AORTA_TRY(read_one(r, &input, options));
        for (size_t j = i + 1; labels->count && j < count; j++) {
            if (strcmp(names[j], names[i]) != 0) continue;
            input = (struct aorta_trace_compare_input){.path = paths[j], .label = names[j], .repeats = true};
            AORTA_TRY(read_one(r, &input, options));
        }
    }
    return NULL;
}

static aorta_status check_labels(const struct aorta_string_list *labels, const char *const *paths, size_t count) {
    bool differ = false;
    if (!labels->count) return NULL;
    if (labels->count != count)
        return AORTA_ERROR(AORTA_USAGE, "%zu --label for %zu recordings; give one for each, or none", labels->count,
                           count);
    for (size_t i = 0; i < count; i++) {
        if (!*labels->items[i]) return AORTA_ERROR(AORTA_USAGE, "the label of %s is empty", paths[i]);
        differ |= strcmp(labels->items[i], labels->items[0]) != 0;
        for (size_t j = 0; j < i; j++)
            if (strcmp(labels->items[i], labels->items[j]) == 0 && strcmp(paths[i], paths[j]) == 0)
                return AORTA_ERROR(AORTA_USAGE, "the label \"%s\" has %s twice", labels->items[i], paths[i]);
    }
    if (differ) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "all recordings have the label \"%s\": give the test another one",
                       labels->items[0]);
}

/* Writes the page with each recording's verdict. Repeats of a label are numbered: "mine", "mine (2)". */
static aorta_status write_page(struct recordings *r, const struct aorta_text *comparison, const char *path) {
    size_t repeat = 0;
    struct aorta_page_recording *items = aorta_arena_alloc(r->arena, r->count * sizeof *items);
    aorta_status status = aorta_arena_check(r->arena, "a page of recordings");
    for (size_t i = 0; i < r->count && !status; i++) {
        repeat = r->inputs[i].repeats ? repeat + 1 : 1;
        const char *label = r->inputs[i].label;
        if (repeat > 1) label = aorta_arena_printf(r->arena, "%s (%zu)", label, repeat);
        status = aorta_arena_check(r->arena, "a label");
        if (!status) status = aorta_recorded_evaluate(&r->items[i]);
        items[i] = aorta_page_recording_of(label, &r->items[i]);
    }
    const struct aorta_page_recordings whole = {
        .title = "AORTA: recordings side by side", .items = items, .count = r->count, .comparison = comparison};
    return status ? status : aorta_page_recordings_write(&whole, path);
}

static aorta_status show(const struct compare_arguments *arguments, struct recordings *r,
                         const struct aorta_verdict_style *style) {
    double threshold = arguments->threshold < 0 ? NAN : arguments->threshold;
    struct aorta_trace_comparison comparison;
    struct aorta_text text = {0}, json = {0};
    AORTA_TRY(aorta_trace_compare(r->inputs, r->count, &comparison));
    if (arguments->to.json || arguments->to.html)
        aorta_trace_comparison_json(&comparison, r->differences, threshold, &json);
    if (arguments->markdown)
        aorta_trace_comparison_markdown(&comparison, r->differences, threshold, &text);
    else if (!arguments->to.json)
        aorta_trace_comparison_text(&comparison, r->differences, threshold, arguments->quiet, style, &text);
    aorta_status status = aorta_status_join(aorta_text_check(&text), aorta_text_check(&json));
    if (!status && arguments->to.html) status = write_page(r, &json, arguments->to.html);
    if (!status && arguments->to.csv) status = aorta_trace_comparison_csv(&comparison, arguments->to.csv);
    if (!status) status = aorta_cli_print(arguments->to.json ? &json : &text, arguments->to.html, style->color);
    for (size_t i = 1; i < comparison.side_count && !status && !isnan(threshold); i++)
        if (aorta_trace_regressed(&comparison, i, threshold))
            status = AORTA_ERROR(AORTA_REGRESSION, "%s takes %.1f%% longer than %s (allowed: %.3g%%)",
                                 comparison.sides[i].inputs->label, comparison.rows[0].values[i].percent,
                                 comparison.sides->inputs->label, threshold * 100);
    aorta_text_free(&text);
    aorta_text_free(&json);
    aorta_trace_comparison_free(&comparison);
    return status;
}

static aorta_status compare(struct aorta_cli_line *line, void *values) {
    const struct compare_arguments *arguments = values;
    size_t count = (size_t)line->operand_count;
    if (count < 2) return AORTA_ERROR(AORTA_USAGE, "give a base and at least one test to compare with it");
    if (arguments->to.json && arguments->markdown)
        return AORTA_ERROR(AORTA_USAGE, "--json and --markdown are two forms of the same: give one of them");
    if (arguments->quiet && arguments->markdown)
        return AORTA_ERROR(AORTA_USAGE, "--quiet prints the answer alone: give it without --markdown");
    const char *const *paths = (const char *const *)line->operands;
    AORTA_TRY(check_labels(&arguments->labels, paths, count));
    AORTA_TRY(aorta_cli_outputs_prepare(&arguments->to));
    AORTA_TRY(aorta_cli_comm_patterns(line, &arguments->patterns));
    struct recordings r = {.items = aorta_arena_alloc(&line->arena, count * sizeof *r.items),
                           .inputs = aorta_arena_alloc(&line->arena, count * sizeof *r.inputs),
                           .differences = aorta_arena_alloc(&line->arena, count * sizeof *r.differences),
                           .arena = &line->arena};
    AORTA_TRY(aorta_arena_check(&line->arena, "the recordings"));
    const struct aorta_trace_options options = {
        .recover = arguments->recover, .guarded = true, .patterns = line->patterns, .functions = true};
    const struct aorta_verdict_style style = aorta_cli_style(line, stdout);
    aorta_status status = read_all(&r, paths, count, &arguments->labels, &options);
    status = aorta_cli_name_recover(status, arguments->recover);
    if (!status) status = show(arguments, &r, &style);
    for (size_t i = 0; i < count; i++) aorta_recorded_free(&r.items[i]);
    for (size_t i = 0; i < count; i++) aorta_differences_free(&r.differences[i]);
    return status;
}

const struct aorta_cli_entry aorta_cli_trace_compare = {&syntax, compare, .size = sizeof(struct compare_arguments),
                                                        .reads_recordings = true};
