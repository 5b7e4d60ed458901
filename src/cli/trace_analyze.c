/* aorta trace analyze: figures and verdict of recorded ranks. */
#include "analysis/breakdown.h"
#include "analysis/phases.h"
#include "base/files.h"
#include "cli/cli.h"
#include "replay/critical_path.h"
#include "report/page_recordings.h"
#include "report/trace_report.h"
#include "trace/infer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct analyze_arguments {
    bool json, quiet, markdown, recover, all, whole;
    const char *output, *html, *csv, *step_range, *phase, *within;
    struct aorta_string_list patterns, steps, by;
    int64_t top, gpus_per_node;
};

#define AT(field) offsetof(struct analyze_arguments, field)
static const struct aorta_option rows[] = {
    {"json", AORTA_OPTION_BOOL, AT(json), "false", .help = "print all figures and tables as JSON"},
    AORTA_CLI_QUIET_OPTION(AT(quiet)),
    {"markdown", AORTA_OPTION_BOOL, AT(markdown), "false",
     .help = "print the verdict as GitHub's Markdown, for pull requests"},
    {"output", AORTA_OPTION_STRING, AT(output), "null", .letter = 'o', .argument = "FILE", .path = AORTA_PATH_FILE,
     .help = "also write all figures and tables as JSON to this file"},
    {"html", AORTA_OPTION_STRING, AT(html), "null", .argument = "OUT", .path = AORTA_PATH_FILE,
     .help = "write a page for a browser to this file: timeline, tables and verdict; it needs no network"},
    AORTA_CLI_CSV_OPTION(AT(csv)),
    AORTA_CLI_ALL_OPTION(AT(all)),
    {"step", AORTA_OPTION_STRING_LIST, AT(steps), "null", .argument = "N|all",
     .help = "analyze only this step (ProfilerStep#N); repeat it for several; all: every step, warm-up "
             "included"},
    {"whole", AORTA_OPTION_BOOL, AT(whole), "false",
     .help = "analyze the whole recording, start and end included, instead of its steps"},
    {"step-range", AORTA_OPTION_STRING, AT(step_range), "null", .argument = "REGEX",
     .help =
         "a step begins with each range of the program (record_function, NVTX, roctx) whose name matches (POSIX "
         "extended); without it steps are ProfilerStep#N, else end with Optimizer.step, else begin with an engine's "
         "step[…] or execute_model"},
    {"by", AORTA_OPTION_STRING_LIST, AT(by), "null", .argument = "WHAT",
     .help = "print a table of work by op, shape, module, function, annotation, category, phase, "
             "kernel, sequence, time, stream, memory, path or arrival; repeat it for several; also adds "
             "it to --json, --csv and --html"},
    {"top", AORTA_OPTION_INT, AT(top), "20", .limits = AORTA_LIMITS(1, INFINITY), .argument = "N",
     .help = "number of lines of each table of --by"},
    {"phase", AORTA_OPTION_STRING, AT(phase), "null", .argument = "PHASE",
     .help = "restrict tables of --by to this phase: forward, backward, recomputation, optimizer, "
             "prefill, decode, or \"prefill and decode\""},
    {"within", AORTA_OPTION_STRING, AT(within), "null", .argument = "REGEX",
     .help = "restrict tables of --by to work launched within an operation (its shapes follow its name: "
             "\"aten::mm [[8, 4], …\"), module, function or range whose name matches (POSIX extended)"},
    {"gpus-per-node", AORTA_OPTION_INT, AT(gpus_per_node), "null", .limits = AORTA_LIMITS(1, INFINITY), .argument = "N",
     .help = "GPUs per node, if the files do not list them; it separates collectives inside and between "
             "nodes"},
    AORTA_CLI_RECOVER_OPTION(AT(recover)),
    AORTA_CLI_PATTERNS_OPTION(AT(patterns)),
};

static const struct aorta_cli_syntax syntax = {
    .styled = true,
    .usage =
        "aorta trace analyze FILE|DIR … [--json|-q|--markdown] [-o FILE] [--html OUT] [--csv DIR] [--step N|all …] "
        "[--step-range REGEX] [--whole] [--by WHAT …] [--top N] [--phase PHASE] [--within REGEX] "
        "[--gpus-per-node N] [--recover] "
        "[--comm-pattern REGEX …]",
    .about = "Says what the ranks of a recorded program do and what limits them. Reads traces of "
             "PyTorch (Kineto), JAX (XLA), rocprofv3 (JSON, CSV, rocpd, pftrace), nsys export and "
             "AORTA, plain, packed (gzip, zstd, xz, …) or in a zip or tar; - is standard input. Name "
             "one file per rank, a folder of them, or the directory of a run (training.output_dir).",
    AORTA_CLI_OPTIONS(rows),
    .operands = true,
    .reads_operands = true,
};

static aorta_status read_steps(const struct aorta_string_list *list, struct aorta_arena *arena,
                               struct aorta_trace_analysis_options *options) {
    int64_t *steps = aorta_arena_alloc(arena, list->count * sizeof *steps);
    for (size_t i = 0; steps && i < list->count; i++) {
        if (strcmp(list->items[i], "all") == 0) {
            options->all_steps = true;
            continue;
        }
        char *end;
        errno = 0;
        steps[options->step_count] = strtoll(list->items[i], &end, 10);
        if (errno || *end || end == list->items[i])
            return AORTA_ERROR(AORTA_USAGE, "--step: found \"%s\"; expected a step's number or all", list->items[i]);
        options->step_count++;
    }
    options->steps = steps;
    return aorta_arena_check(arena, "the steps");
}

static aorta_status unknown_by(const char *word) {
    const char *names[AORTA_BY_COUNT];
    for (int i = 0; i < AORTA_BY_COUNT; i++) names[i] = aorta_by_name((enum aorta_by)i);
    const char *nearest = aorta_nearest(word, names, AORTA_BY_COUNT);
    struct aorta_text text = {0};
    aorta_text_printf(&text, "--by: found \"%s\"; expected one of ", word);
    aorta_text_words(&text, names, AORTA_BY_COUNT);
    if (nearest) aorta_text_printf(&text, "; did you mean %s", nearest);
    return aorta_text_error(&text, AORTA_USAGE);
}

static aorta_status read_by(const struct aorta_string_list *list, unsigned *by) {
    *by = 0;
    for (size_t i = 0; i < list->count; i++) {
        int found = 0;
        while (found < AORTA_BY_COUNT && strcmp(list->items[i], aorta_by_name((enum aorta_by)found)) != 0) found++;
        if (found == AORTA_BY_COUNT) return unknown_by(list->items[i]);
        *by |= 1u << found;
    }
    return NULL;
}

/* --phase and --within select work, so they are errors for tables that always cover all work. */
static aorta_status check_work(const struct analyze_arguments *arguments, unsigned by) {
    const char *option = arguments->phase ? "--phase" : "--within";
    if (!arguments->phase && !arguments->within) return NULL;
    if (!by) return AORTA_ERROR(AORTA_USAGE, "%s needs --by, for instance --by op", option);
    for (int i = AORTA_BY_BREAKDOWN_COUNT; i < AORTA_BY_COUNT; i++)
        if (by & 1u << i)
            return AORTA_ERROR(AORTA_USAGE, "--by %s is of all work: give it without %s",
                               aorta_by_name((enum aorta_by)i), option);
    if (arguments->phase && !aorta_phase_exists(arguments->phase))
        return AORTA_ERROR(AORTA_USAGE,
                           "--phase: found \"%s\"; expected one of forward, backward, recomputation, optimizer, "
                           "prefill, decode, \"prefill and decode\"",
                           arguments->phase);
    return aorta_annotate(aorta_within_check(arguments->within), "--within");
}

static void show(const struct aorta_trace_report *report, const struct analyze_arguments *arguments,
                 const struct aorta_verdict_style *style, struct aorta_text *out) {
    if (report->by && !arguments->quiet)
        aorta_trace_report_by(report, style, out);
    else if (arguments->markdown)
        aorta_verdict_markdown(report->verdict, out);
    else if (arguments->quiet)
        aorta_trace_report_verdict(report, style, out);
    else
        aorta_trace_report_text(report, style, out);
}

/* Writes the page of one recording, named by its folder if it is a run. */
static aorta_status write_page(const struct aorta_trace_report *report, const struct aorta_recorded *recorded,
                               const char *path) {
    struct aorta_page_recording item =
        aorta_page_recording_of(recorded->is_run ? recorded->run.directory : "recording", recorded);
    item.report = *report;
    const struct aorta_page_recordings whole = {.title = "AORTA: recording", .items = &item, .count = 1};
    return aorta_page_recordings_write(&whole, path);
}

/* Files first: the terminal may fail. */
static aorta_status print(const struct aorta_trace_report *report, const struct aorta_recorded *recorded,
                          const struct analyze_arguments *arguments, const struct aorta_verdict_style *style) {
    struct aorta_text text = {0}, json = {0};
    const char *file = arguments->output ? arguments->output : arguments->html;
    if (arguments->json || arguments->output) aorta_trace_report_json(report, 2, &json);
    if (!arguments->json) show(report, arguments, style, &text);
    aorta_status status = aorta_status_join(aorta_text_check(&text), aorta_text_check(&json));
    if (!status && arguments->output) status = aorta_file_put(arguments->output, &json);
    if (!status && arguments->html) status = write_page(report, recorded, arguments->html);
    if (!status && arguments->csv) status = aorta_trace_report_csv(report, arguments->csv);
    if (!status) status = aorta_cli_print(arguments->json ? &json : &text, file, style->color);
    aorta_text_free(&text);
    aorta_text_free(&json);
    return status;
}

static aorta_status analyze(struct aorta_cli_line *line, const struct analyze_arguments *arguments) {
    struct aorta_trace_analysis_options options = {0};
    struct aorta_trace_options reading = {.recover = arguments->recover,
                                          .guarded = true,
                                          .patterns = line->patterns,
                                          .step_range = arguments->step_range};
    struct aorta_trace_report report = {.top = (size_t)arguments->top, .of = {arguments->phase, arguments->within}};
    const struct aorta_log log = {.level = AORTA_LOG_INFO, .rank = -1};
    struct aorta_recorded recorded;
    AORTA_TRY(read_steps(&arguments->steps, &line->arena, &options));
    AORTA_TRY(read_by(&arguments->by, &report.by));
    AORTA_TRY(check_work(arguments, report.by));
    const unsigned by = !report.by && arguments->html ? aorta_page_by : report.by;
    reading.functions = by & (1u << AORTA_BY_MODULE | 1u << AORTA_BY_FUNCTION | 1u << AORTA_BY_MEMORY);
    reading.functions |= arguments->within != NULL;
    options.whole = arguments->whole;
    options.gpus_per_node = (int32_t)arguments->gpus_per_node;
    options.warmup_given = arguments->steps.count > 0; /* explicitly chosen steps are not warm-up */
    AORTA_TRY(aorta_trace_check_step_range(arguments->step_range));
    AORTA_TRY(aorta_cli_csv_prepare(arguments->csv));
    AORTA_TRY(aorta_file_prepare(arguments->output, "--output"));
    AORTA_TRY(aorta_cli_page_prepare(arguments->html));
    aorta_status status = aorta_recorded_open((const char *const *)line->operands, (size_t)line->operand_count,
                                              &reading, &options, &log, &recorded);
    status = aorta_cli_name_recover(status, arguments->recover);
    const bool evaluated = !report.by || arguments->json || arguments->output || arguments->html || arguments->csv;
    if (!status && evaluated) status = aorta_recorded_evaluate(&recorded);
    report.analysis = &recorded.analysis;
    report.verdict = evaluated ? &recorded.verdict : NULL;
    struct aorta_critical_path path = {0};
    if (!status && by & 1u << AORTA_BY_PATH) status = aorta_critical_path_make(&recorded.analysis, &path);
    report.path = &path;
    report.machine = &recorded.machine;
    struct aorta_verdict_style style = aorta_cli_style(line, stdout);
    style.view.all = arguments->all;
    style.answer = arguments->quiet;
    style.color = style.color && !arguments->json && !arguments->markdown;
    if (!status) status = print(&report, &recorded, arguments, &style);
    if (path.pieces) aorta_critical_path_free(&path);
    aorta_recorded_free(&recorded);
    return status;
}

static aorta_status run(struct aorta_cli_line *line, void *values) {
    const struct analyze_arguments *arguments = values;
    if (!line->operand_count) return AORTA_ERROR(AORTA_USAGE, "name a trace; usage: %s", syntax.usage);
    if (arguments->markdown && (arguments->json || arguments->quiet || arguments->by.count))
        return AORTA_ERROR(AORTA_USAGE, "--markdown is a form of the verdict: give it without %s",
                           arguments->json    ? "--json"
                           : arguments->quiet ? "--quiet"
                                              : "--by");
    if (arguments->whole && (arguments->steps.count || arguments->step_range))
        return AORTA_ERROR(AORTA_USAGE, "--whole ignores steps: give it without %s",
                           arguments->step_range ? "--step-range" : "--step");
    const bool files = arguments->output || arguments->csv || arguments->html;
    if (arguments->by.count && arguments->quiet && !files)
        return AORTA_ERROR(AORTA_USAGE, "--by prints tables and --quiet the verdict alone: give one of them, or a file "
                                        "for the tables (-o, --csv, --html)");
    AORTA_TRY(aorta_cli_comm_patterns(line, &arguments->patterns));
    return analyze(line, arguments);
}

const struct aorta_cli_entry aorta_cli_trace_analyze = {&syntax, run, .size = sizeof(struct analyze_arguments),
                                                        .reads_recordings = true};
