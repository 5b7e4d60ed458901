#include "report/report.h"
#include "base/files.h"
#include "base/lines.h"
#include "report/page.h"
#include "report/page_recordings.h"
#include "report/summary.h"

#include <math.h>
#include <string.h>

/* ---- what was asked for ---- */

struct labels {
    struct aorta_recorded *runs; /* ordered by label; one for each input */
    struct aorta_label *items;   /* in order of their first appearance */
    size_t count;
    const struct aorta_label *reference, *candidate; /* NULL: not asked for */
    struct aorta_arena arena;
};

static aorta_status check_input(const struct aorta_report_options *options, size_t index) {
    const struct aorta_report_input *input = &options->inputs[index];
    if (!*input->label) return AORTA_ERROR(AORTA_USAGE, "the label of %s is empty", input->directory);
    AORTA_EACH (const struct aorta_report_input, other, options->inputs, index) {
        if (strcmp(input->label, other->label) != 0) continue;
        if (!options->repeats)
            return AORTA_ERROR(
                AORTA_USAGE,
                "two run directories have the label \"%s\"; name each with --label, the same for repeats "
                "of one run",
                input->label);
        if (strcmp(input->directory, other->directory) == 0)
            return AORTA_ERROR(AORTA_USAGE, "the label \"%s\" has %s twice", input->label, input->directory);
    }
    return NULL;
}

static aorta_status check_options(const struct aorta_report_options *options) {
    if (options->input_count == 0) return AORTA_ERROR(AORTA_USAGE, "no run directory was given (--log-dir)");
    for (size_t i = 0; i < options->input_count; i++) AORTA_TRY(check_input(options, i));
    if (!options->reference != !options->candidate)
        return AORTA_ERROR(AORTA_USAGE, "--reference and --candidate belong together; %s is missing",
                           options->reference ? "--candidate" : "--reference");
    if (options->reference && strcmp(options->reference, options->candidate) == 0)
        return AORTA_ERROR(AORTA_USAGE, "--reference and --candidate both name \"%s\"", options->reference);
    return NULL;
}

/* The first run of a label has its name. */
static aorta_status find_label(const struct labels *labels, const char *name, const char *option,
                               const struct aorta_label **found) {
    struct aorta_text text = {0};
    for (size_t i = 0; name && i < labels->count; i++)
        if (strcmp(labels->items[i].runs->run.label, name) == 0) *found = &labels->items[i];
    if (!name || *found) return NULL;
    aorta_text_printf(&text, "%s names \"%s\", which is no label; there are: ", option, name);
    for (size_t i = 0; i < labels->count; i++)
        aorta_text_printf(&text, "%s%s", i ? ", " : "", labels->items[i].runs->run.label);
    return aorta_text_error(&text, AORTA_USAGE);
}

/* ---- what is printed ---- */

/* Prints a sentence below the verdict, and frees it. */
static void print_sentence(struct aorta_text *sentence, int width, struct aorta_text *text) {
    const struct aorta_lines lines = {.width = width, .taken = 2, .indent = 4};
    if (sentence->length) {
        aorta_text_puts(text, "  ");
        aorta_text_lines(text, sentence->data, &lines);
    }
    aorta_text_end(sentence, text);
}

static void print_verdict(const struct aorta_recorded *labelled, const struct aorta_verdict_style *style,
                          struct aorta_text *text) {
    struct aorta_text lost = {0}, recording = {0};
    aorta_verdict_text(&labelled->verdict, style, text);
    if (style->answer) return;
    if (labelled->records.dropped)
        aorta_text_printf(&lost, "%lld kernel records were lost: the figures of kernels are too low",
                          (long long)labelled->records.dropped);
    print_sentence(&lost, style->width, text);
    aorta_recording_text(labelled, &recording);
    print_sentence(&recording, style->width, text);
}

/* A label with several runs shows the verdict of the first run. */
static void print_label(const struct aorta_label *label, bool several, const struct aorta_verdict_style *style,
                        struct aorta_text *text) {
    const struct aorta_recorded *labelled = label->runs;
    if (several) aorta_text_printf(text, "%s (%s", labelled->run.label, labelled->run.directory);
    if (several && label->count > 1) aorta_text_printf(text, ", the first of %zu runs", label->count);
    if (several) aorta_text_puts(text, ")\n");
    if (labelled->has_verdict)
        print_verdict(labelled, style, text);
    else
        aorta_text_printf(text, "no verdict: %s holds no ranges (recording was off)\n", labelled->run.directory);
    if (several && !style->answer) aorta_text_puts(text, "\n");
}

/* ---- the report ---- */

static aorta_status write_summary(const char *directory, const struct aorta_text *json, struct aorta_text *files) {
    const struct aorta_file_path path = aorta_path_in(directory, "summary.json");
    AORTA_TRY(aorta_file_put(path.text, json));
    aorta_text_printf(files, "  %s\n", path.text);
    return NULL;
}

/* Each label against the reference, or the first. */
static void compare_labels(const struct labels *labels, struct aorta_text *out) {
    const struct aorta_label *reference = labels->reference ? labels->reference : labels->items;
    struct aorta_json json;
    aorta_json_begin(&json, out, 0);
    aorta_json_array(&json);
    for (size_t i = 0; i < labels->count; i++)
        if (&labels->items[i] != reference) aorta_label_comparison_json(reference, &labels->items[i], &json);
    aorta_json_array_end(&json);
}

static aorta_status make_page(struct labels *labels, size_t count, const char *path) {
    struct aorta_page_recording *items = aorta_arena_alloc(&labels->arena, count * sizeof *items);
    struct aorta_text title = {0}, comparisons = {0};
    for (size_t i = 0; items && i < count; i++)
        items[i] = aorta_page_recording_of(labels->runs[i].run.label, &labels->runs[i]);
    aorta_text_puts(&title, "AORTA:");
    for (size_t i = 0; i < labels->count; i++)
        aorta_text_printf(&title, "%s %s", i ? "," : "", labels->items[i].runs->run.label);
    compare_labels(labels, &comparisons);
    labels->arena.failed |= title.failed != 0;
    const struct aorta_page_recordings whole = {
        .title = title.data, .items = items, .count = count, .comparisons = &comparisons};
    aorta_status status = aorta_arena_check(&labels->arena, "the page");
    if (!status) status = aorta_page_recordings_write(&whole, path);
    aorta_text_free(&title);
    aorta_text_free(&comparisons);
    return status;
}

/* Without an explicit path the page is written only if this build has pages. */
static aorta_status write_page(const struct aorta_report_options *options, struct labels *labels,
                               const struct aorta_log *log, struct aorta_text *files) {
    if (!options->page && !aorta_page_available()) {
        aorta_log(log, AORTA_LOG_INFO, "no index.html: %s", aorta_page_missing());
        return NULL;
    }
    const struct aorta_file_path own = aorta_path_in(options->output, "index.html");
    const char *path = options->page ? options->page : own.text;
    AORTA_TRY(make_page(labels, options->input_count, path));
    aorta_text_printf(files, "  %s\n", path);
    return NULL;
}

static aorta_status draw_pictures(const struct aorta_recorded *runs, size_t count, const char *directory,
                                  const struct aorta_log *log, struct aorta_text *files) {
    aorta_status status = aorta_plots_draw(runs, count, directory, files);
    if (aorta_status_code(status) != AORTA_UNSUPPORTED) return status;
    aorta_log(log, AORTA_LOG_WARNING, "%s", aorta_status_message(status));
    aorta_status_free(status);
    return NULL;
}

static void print(const struct aorta_report_options *options, const struct labels *labels, struct aorta_text *text) {
    const bool several = options->input_count > 1;
    for (size_t i = 0; i < labels->count; i++) print_label(&labels->items[i], several, &options->style, text);
    if (labels->reference)
        aorta_label_comparison_text(labels->reference, labels->candidate, options->style.answer, text);
}

static aorta_status write_report(const struct aorta_report_options *options, struct labels *labels,
                                 const struct aorta_log *log, struct aorta_text *text, struct aorta_text *json) {
    const size_t count = options->input_count;
    struct aorta_text files = {0};
    aorta_status drawn = NULL;
    aorta_status status = aorta_summary_write(labels->runs, count, labels->reference, labels->candidate, json);
    if (!status) status = aorta_directory_make(options->output);
    if (!status) status = write_summary(options->output, json, &files);
    if (!status) status = write_page(options, labels, log, &files);
    if (!status && options->csv) status = aorta_summary_csv(labels->runs, count, options->csv);
    if (!status && options->pictures) drawn = draw_pictures(labels->runs, count, options->output, log, &files);
    if (!status) print(options, labels, text);
    if (!status && !options->quiet) aorta_text_printf(text, "Written:\n%s", files.data ? files.data : "");
    aorta_text_free(&files);
    if (status) aorta_text_clear(text);
    if (status) aorta_text_clear(json);
    return aorta_status_join(status, drawn); /* a missing picture does not discard the figures */
}

/* Reads the runs that have the label of inputs[first], and stores them after the `*read` runs read before. Repeats have
 * numbers: "mine", "mine (2)". */
static aorta_status read_label(const struct aorta_report_options *options, size_t first, const struct aorta_log *log,
                               struct labels *labels, size_t *read) {
    const bool given = options->warmup >= 0;
    const struct aorta_trace_analysis_options analysis = {.warmup_given = given,
                                                          .warmup = given ? (size_t)options->warmup : 0};
    struct aorta_label *label = &labels->items[labels->count];
    *label = (struct aorta_label){&labels->runs[*read], 0};
    for (size_t i = first; i < options->input_count; i++) {
        const char *name = options->inputs[i].label;
        if (strcmp(name, options->inputs[first].label) != 0) continue;
        if (label->count) name = aorta_arena_printf(&labels->arena, "%s (%zu)", name, label->count + 1);
        AORTA_TRY(aorta_arena_check(&labels->arena, "a label"));
        AORTA_TRY(aorta_recorded_run(options->inputs[i].directory, name, options->read_every, &analysis, log,
                                     &labels->runs[*read]));
        label->count++;
        ++*read;
    }
    labels->count++;
    return NULL;
}

static bool named_before(const struct aorta_report_options *options, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (strcmp(options->inputs[i].label, options->inputs[index].label) == 0) return true;
    return false;
}

static aorta_status read_and_analyze(const struct aorta_report_options *options, const struct aorta_log *log,
                                     struct labels *labels) {
    size_t read = 0;
    for (size_t i = 0; i < options->input_count; i++)
        if (!named_before(options, i)) AORTA_TRY(read_label(options, i, log, labels, &read));
    AORTA_TRY(find_label(labels, options->reference, "--reference", &labels->reference));
    AORTA_TRY(find_label(labels, options->candidate, "--candidate", &labels->candidate));
    if (labels->reference || labels->count != 2) return NULL; /* exactly two labels are compared, as on the page */
    labels->reference = &labels->items[0];
    labels->candidate = &labels->items[1];
    return NULL;
}

aorta_status aorta_report_make(const struct aorta_report_options *options, const struct aorta_log *log,
                               struct aorta_text *text, struct aorta_text *json) {
    AORTA_TRY(check_options(options));
    struct labels labels = {0};
    struct aorta_text own_text = {0}, own_json = {0};
    labels.runs = aorta_arena_alloc(&labels.arena, options->input_count * sizeof *labels.runs);
    labels.items = aorta_arena_alloc(&labels.arena, options->input_count * sizeof *labels.items);
    AORTA_TRY(aorta_arena_check(&labels.arena, "the runs"));
    aorta_status status = read_and_analyze(options, log, &labels);
    if (!status) status = write_report(options, &labels, log, text ? text : &own_text, json ? json : &own_json);
    if (!status && text) status = aorta_text_check(text);
    for (size_t i = 0; i < options->input_count; i++) aorta_recorded_free(&labels.runs[i]);
    aorta_arena_free(&labels.arena);
    aorta_text_free(&own_text);
    aorta_text_free(&own_json);
    return status;
}

const char *aorta_report_label(const char *directory, struct aorta_arena *arena) {
    size_t end = strlen(directory);
    while (end > 1 && directory[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && directory[start - 1] != '/') start--;
    bool nameless = end == start || strncmp(directory + start, ".", end - start) == 0 ||
                    strncmp(directory + start, "..", end - start) == 0;
    return nameless ? "run" : aorta_arena_printf(arena, "%.*s", (int)(end - start), directory + start);
}

aorta_status aorta_report_after_run(const char *directory, const char *label, const struct aorta_verdict_style *style,
                                    const struct aorta_log *log, struct aorta_text *text) {
    struct aorta_arena arena = {0};
    const struct aorta_report_input input = {directory, label ? label : aorta_report_label(directory, &arena)};
    struct aorta_report_options options = {.inputs = &input,
                                           .input_count = 1,
                                           .output = directory,
                                           .pictures = true,
                                           .quiet = log->level > AORTA_LOG_INFO,
                                           .warmup = -1,
                                           .style = style ? *style : (struct aorta_verdict_style){0}};
    aorta_status status = aorta_arena_check(&arena, "a label");
    if (!status) status = aorta_report_make(&options, log, text, NULL);
    aorta_arena_free(&arena);
    return status;
}
