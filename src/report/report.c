#include "report/report.h"
#include "base/files.h"
#include "base/lines.h"
#include "report/page.h"
#include "report/page_run.h"
#include "report/plots.h"
#include "report/recording.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what was asked for ---- */

static aorta_status find_label(const struct aorta_report_options *options, const char *label, const char *option,
                               int *index) {
    *index = -1;
    if (!label) return NULL;
    struct aorta_text known = {0};
    for (size_t i = 0; i < options->input_count; i++) {
        if (strcmp(options->inputs[i].label, label) == 0) *index = (int)i;
        aorta_text_printf(&known, "%s%s", i ? ", " : "", options->inputs[i].label);
    }
    aorta_status status = NULL;
    if (*index < 0)
        status = AORTA_ERROR(AORTA_USAGE, "%s names \"%s\", which is no label; there are: %s", option, label,
                             known.data ? known.data : "none");
    aorta_text_free(&known);
    return status;
}

static aorta_status check_options(const struct aorta_report_options *options, int *reference, int *candidate) {
    if (options->input_count == 0) return AORTA_ERROR(AORTA_USAGE, "no run directory was given (--log-dir)");
    for (size_t i = 0; i < options->input_count; i++) {
        const char *label = options->inputs[i].label;
        if (!*label) return AORTA_ERROR(AORTA_USAGE, "the label of %s is empty", options->inputs[i].directory);
        for (size_t j = 0; j < i; j++)
            if (strcmp(label, options->inputs[j].label) == 0)
                return AORTA_ERROR(AORTA_USAGE, "two run directories have the label \"%s\"; name each with --label",
                                   label);
    }
    if (!options->reference != !options->candidate)
        return AORTA_ERROR(AORTA_USAGE, "--reference and --candidate belong together; %s is missing",
                           options->reference ? "--candidate" : "--reference");
    AORTA_TRY(find_label(options, options->reference, "--reference", reference));
    AORTA_TRY(find_label(options, options->candidate, "--candidate", candidate));
    if (*reference >= 0 && *reference == *candidate)
        return AORTA_ERROR(AORTA_USAGE, "--reference and --candidate both name \"%s\"", options->reference);
    return NULL;
}

/* ---- what is printed ---- */

/* Below the verdict; frees the sentence. */
static void print_sentence(struct aorta_text *sentence, int width, struct aorta_text *text) {
    const struct aorta_lines lines = {.width = width, .taken = 2, .indent = 4};
    if (sentence->length) {
        aorta_text_puts(text, "  ");
        aorta_text_lines(text, sentence->data, &lines);
    }
    text->failed |= sentence->failed;
    aorta_text_free(sentence);
}

static aorta_status print_verdict(const struct aorta_labelled *labelled, int width, struct aorta_text *text) {
    struct aorta_text lost = {0}, recording = {0};
    aorta_verdict_text(&labelled->verdict, width, text);
    if (labelled->records.dropped)
        aorta_text_printf(&lost, "%lld kernel records were lost: the figures of kernels are too low",
                          (long long)labelled->records.dropped);
    print_sentence(&lost, width, text);
    aorta_status status = aorta_recording_text(labelled, &recording);
    print_sentence(&recording, width, text);
    return status;
}

static aorta_status print_run(const struct aorta_labelled *labelled, bool several, int width, struct aorta_text *text) {
    if (several) aorta_text_printf(text, "%s (%s)\n", labelled->run.label, labelled->run.directory);
    if (labelled->has_verdict)
        AORTA_TRY(print_verdict(labelled, width, text));
    else
        aorta_text_printf(text, "no verdict: %s holds no ranges (recording was off)\n", labelled->run.directory);
    if (several) aorta_text_puts(text, "\n");
    return NULL;
}

static aorta_status print_comparison(const struct aorta_labelled *reference, const struct aorta_labelled *candidate,
                                     struct aorta_text *text) {
    struct aorta_comparison compared;
    AORTA_TRY(aorta_metric_compare(reference, &aorta_metrics[0], candidate, &aorta_metrics[0], &compared));
    aorta_text_printf(text, "%s against %s: step %.3f ms against %.3f ms (%+.1f%%, ", candidate->run.label,
                      reference->run.label, compared.candidate.mean, compared.reference.mean,
                      100 * compared.delta / compared.reference.mean);
    aorta_metric_chance(&compared, text);
    aorta_text_puts(text, ")\n");
    AORTA_TRY(aorta_metric_largest_change(reference, candidate, text));
    aorta_text_puts(text, "\n");
    return NULL;
}

/* ---- the report ---- */

static aorta_status write_summary(const char *directory, const struct aorta_text *json, struct aorta_text *files) {
    char *path = aorta_path_join(directory, "summary.json");
    if (!path) return AORTA_ERROR(AORTA_MEMORY, "no memory for a path");
    aorta_status status = aorta_file_replace(path, json->data, json->length);
    if (!status) aorta_text_printf(files, "%s\n", path);
    free(path);
    return status;
}

/* A page that was not asked for is written where this build has pages. */
static aorta_status write_page(const struct aorta_report_options *options, const struct aorta_labelled *runs,
                               const struct aorta_text *json, const struct aorta_log *log, struct aorta_text *files) {
    if (!options->page && !aorta_page_available()) {
        aorta_log(log, AORTA_LOG_INFO, "no index.html: %s", aorta_page_missing());
        return NULL;
    }
    struct aorta_text page = {0};
    char *path = options->page ? strdup(options->page) : aorta_path_join(options->output, "index.html");
    aorta_status status = path ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for a path");
    if (!status) status = aorta_page_of_runs(runs, options->input_count, json, &page);
    if (!status) status = aorta_file_replace(path, page.data, page.length);
    if (!status) aorta_text_printf(files, "%s\n", path);
    free(path);
    aorta_text_free(&page);
    return status;
}

static aorta_status draw_pictures(const struct aorta_labelled *runs, size_t count, const char *directory,
                                  const struct aorta_log *log, struct aorta_text *files) {
    aorta_status status = aorta_plots_draw(runs, count, directory, files);
    if (aorta_status_code(status) != AORTA_UNSUPPORTED) return status;
    aorta_log(log, AORTA_LOG_WARNING, "%s", aorta_status_message(status));
    aorta_status_free(status);
    return NULL;
}

static void print_files(const struct aorta_text *files, struct aorta_text *text) {
    aorta_text_puts(text, "Written:\n");
    for (const char *line = files->data; line && *line;) {
        size_t length = strcspn(line, "\n");
        aorta_text_printf(text, "  %.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

static aorta_status write_report(const struct aorta_report_options *options, const struct aorta_labelled *runs,
                                 const int pair[2], const struct aorta_log *log, struct aorta_text *text,
                                 struct aorta_text *json) {
    size_t count = options->input_count;
    struct aorta_text files = {0};
    aorta_status drawn = NULL;
    aorta_status status = aorta_summary_write(runs, count, pair[0], pair[1], json);
    if (!status) status = aorta_directory_make(options->output);
    if (!status) status = write_summary(options->output, json, &files);
    if (!status) status = write_page(options, runs, json, log, &files);
    if (!status && options->csv) status = aorta_summary_csv(runs, count, options->csv);
    if (!status && options->pictures) drawn = draw_pictures(runs, count, options->output, log, &files);
    for (size_t i = 0; !status && i < count; i++) status = print_run(&runs[i], count > 1, options->width, text);
    if (!status && pair[0] >= 0) status = print_comparison(&runs[pair[0]], &runs[pair[1]], text);
    if (!status) print_files(&files, text);
    aorta_text_free(&files);
    if (status) aorta_text_clear(text);
    if (status) aorta_text_clear(json);
    return aorta_status_join(status, drawn); /* a picture less is no reason to lose the figures */
}

static aorta_status read_and_analyse(const struct aorta_report_options *options, const struct aorta_log *log,
                                     struct aorta_labelled *runs) {
    const bool given = options->warmup >= 0;
    const struct aorta_trace_analysis_options analysis = {.warmup_given = given,
                                                          .warmup = given ? (size_t)options->warmup : 0};
    for (size_t i = 0; i < options->input_count; i++) {
        struct aorta_run run;
        AORTA_TRY(
            aorta_run_read(options->inputs[i].directory, options->inputs[i].label, options->read_every, log, &run));
        aorta_status status = aorta_labelled_make(&run, &analysis, &runs[i]);
        if (status) {
            aorta_run_free(&run);
            return status;
        }
    }
    return NULL;
}

aorta_status aorta_report_make(const struct aorta_report_options *options, const struct aorta_log *log,
                               struct aorta_text *text, struct aorta_text *json) {
    int pair[2] = {-1, -1};
    AORTA_TRY(check_options(options, &pair[0], &pair[1]));
    struct aorta_labelled *runs = calloc(options->input_count, sizeof *runs);
    if (!runs) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu runs", options->input_count);
    struct aorta_text own_text = {0}, own_json = {0};
    aorta_status status = read_and_analyse(options, log, runs);
    if (!status) status = write_report(options, runs, pair, log, text ? text : &own_text, json ? json : &own_json);
    if (!status && text) status = aorta_text_check(text);
    for (size_t i = 0; i < options->input_count; i++) aorta_labelled_free(&runs[i]);
    free(runs);
    aorta_text_free(&own_text);
    aorta_text_free(&own_json);
    return status;
}

char *aorta_report_label(const char *directory) {
    size_t end = strlen(directory);
    while (end > 1 && directory[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && directory[start - 1] != '/') start--;
    bool nameless = end == start || strncmp(directory + start, ".", end - start) == 0 ||
                    strncmp(directory + start, "..", end - start) == 0;
    return nameless ? strdup("run") : strndup(directory + start, end - start);
}

aorta_status aorta_report_after_run(const char *directory, const char *label, int width, const struct aorta_log *log,
                                    struct aorta_text *text) {
    char *name = label ? strdup(label) : aorta_report_label(directory);
    if (!name) return AORTA_ERROR(AORTA_MEMORY, "no memory for a label");
    struct aorta_report_input input = {.directory = directory, .label = name};
    struct aorta_report_options options = {
        .inputs = &input, .input_count = 1, .output = directory, .pictures = true, .warmup = -1, .width = width};
    aorta_status status = aorta_report_make(&options, log, text, NULL);
    free(name);
    return status;
}
