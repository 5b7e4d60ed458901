#include "report/page.h"
#include "base/files.h"
#include "report/page_recordings.h"
#include "report/phrases.h"
#include "report/trace_tables.h"
#include "verdict/causes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const char aorta_page_template[]; /* made from web/ by cmake/page.cmake; empty: no page */

bool aorta_page_available(void) {
    return aorta_page_template[0] != '\0';
}

const char *aorta_page_missing(void) {
    return "this build writes no pages, as Node.js or its packages were missing: run scripts/bootstrap build page, "
           "then make";
}

aorta_status aorta_folder_check_free(const char *path, const char *key, unsigned kinds) {
    static const struct {
        enum aorta_folder_kind kind;
        const char *file, *what;
    } rows[] = {{AORTA_FOLDER_SWEEP, "trials.jsonl", "a sweep"},
                {AORTA_FOLDER_RUN, "rank_00_metrics.jsonl", "a training run"},
                {AORTA_FOLDER_REPORT, "summary.json", "a report"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!(kinds & rows[i].kind)) continue;
        if (access(aorta_path_in(path, "%s", rows[i].file).text, F_OK) == 0)
            return AORTA_ERROR(AORTA_USAGE,
                               "%s: %s holds %s (%s), whose page would be replaced; name another directory", key, path,
                               rows[i].what, rows[i].file);
    }
    return NULL;
}

/* A "<" within JSON can only be in a string: escaped, no text of a file can end the script element. */
static void put_json(struct aorta_text *out, const char *json) {
    const char *at = json;
    for (const char *next; (next = strchr(at, '<')); at = next + 1) {
        aorta_text_append(out, at, (size_t)(next - at));
        aorta_text_puts(out, "\\u003c");
    }
    aorta_text_puts(out, at);
}

static void put_escaped(struct aorta_text *out, const char *text) {
    for (; *text; text++)
        if (*text == '<')
            aorta_text_puts(out, "&lt;");
        else if (*text == '&')
            aorta_text_puts(out, "&amp;");
        else
            aorta_text_append(out, text, 1);
}

static void put_short_names(const struct aorta_texts *names, struct aorta_json *json) {
    aorta_json_key_object(json, "short_names");
    for (size_t i = 0; i < names->count; i++) {
        char name[512];
        const char *found = aorta_name_for_line(names->entries[i].raw, name, sizeof name);
        if (strcmp(found, names->entries[i].raw) != 0) aorta_json_key_string(json, names->entries[i].raw, found);
    }
    aorta_json_object_end(json);
}

static aorta_status fill_template(const char *title, const struct aorta_text *data, struct aorta_text *out) {
    static const char title_mark[] = "@TITLE@", data_mark[] = "@DATA@";
    const char *first = strstr(aorta_page_template, title_mark), *second = strstr(aorta_page_template, data_mark);
    if (!first || !second || second < first) return AORTA_ERROR(AORTA_INTERNAL, "the page has no place for its data");
    aorta_text_append(out, aorta_page_template, (size_t)(first - aorta_page_template));
    put_escaped(out, title);
    first += strlen(title_mark);
    aorta_text_append(out, first, (size_t)(second - first));
    put_json(out, data->data);
    aorta_text_puts(out, second + strlen(data_mark));
    return NULL;
}

/* Frees the data. */
static aorta_status write_page(const char *title, struct aorta_text *data, const char *path) {
    struct aorta_text out = {0};
    aorta_status status = aorta_text_check(data);
    if (!status && !aorta_page_available())
        status = AORTA_ERROR(AORTA_UNSUPPORTED, "--html %s: %s", title, aorta_page_missing());
    if (!status) status = fill_template(title, data, &out);
    if (!status) status = aorta_file_put(path, &out);
    aorta_text_free(data);
    aorta_text_free(&out);
    return status;
}

static void put_text(const struct aorta_text *text, struct aorta_json *json) {
    aorta_json_text(json, text && text->data ? text->data : "null");
    if (text) json->out->failed |= text->failed;
}

static void write_text(const char *key, const struct aorta_text *text, struct aorta_json *json) {
    aorta_json_key(json, key);
    put_text(text, json);
}

static void write_columns(const struct aorta_result_table *const *tables, bool whole, struct aorta_json *json) {
    for (; *tables; tables++) aorta_table_page_json(*tables, whole, json);
}

aorta_status aorta_page_write(const struct aorta_page_results *page, const char *path) {
    struct aorta_text data = {0};
    struct aorta_json json;
    aorta_json_output(&json, &data, 0, 1);
    aorta_json_key_string(&json, "kind", page->kind);
    write_text("results", page->results, &json);
    aorta_json_key_array(&json, "parts");
    for (size_t i = 0; i < page->part_count; i++) put_text(&page->parts[i], &json);
    aorta_json_array_end(&json);
    aorta_json_key_array(&json, "tables");
    if (page->tables) write_columns(page->tables, false, &json);
    aorta_json_array_end(&json);
    aorta_json_object_end(&json);
    return write_page(page->title, &data, path);
}

enum { PAGE_SCHEMA = 3, MOST_LINES = 4000 /* of a table with a line for each step or collective */ };

const unsigned aorta_page_by = 1u << AORTA_BY_OPERATION | 1u << AORTA_BY_ANNOTATION | 1u << AORTA_BY_CATEGORY |
                               1u << AORTA_BY_PHASE | 1u << AORTA_BY_SEQUENCE | 1u << AORTA_BY_TIME |
                               1u << AORTA_BY_STREAM | 1u << AORTA_BY_MEMORY | 1u << AORTA_BY_PATH;

struct aorta_page_recording aorta_page_recording_of(const char *label, const struct aorta_recorded *recorded) {
    struct aorta_page_recording recording = {.label = label, .run = recorded->is_run ? recorded : NULL};
    if (recorded->has_verdict)
        recording.report = (struct aorta_trace_report){
            .analysis = &recorded->analysis, .verdict = &recorded->verdict, .machine = &recorded->machine};
    return recording;
}

/* ---- what each iteration took ---- */

enum { MOST_POINTS = 16000 };

static double get_number(const struct aorta_step_metrics *step, size_t offset) {
    (void)offset;
    return (double)step->global_step;
}

static double clocked_at(const struct aorta_step_metrics *step, size_t offset) {
    return step->readings ? *(const double *)((const char *)step->readings + offset) : NAN;
}

#define AT(member) offsetof(struct aorta_step_metrics, member)
#define CLOCKS(member) offsetof(struct aorta_step_readings, clocks.values.member)
static const struct aorta_metric others[] = {
    {"step", "", false, get_number, 0, NULL},
    {"loss", "", false, aorta_metric_number, AT(loss), NULL},
    {"sm_clock_mhz", "MHz", true, clocked_at, CLOCKS(sm_clock_mhz), NULL},
    {"power_w", "W", false, clocked_at, CLOCKS(power_w), NULL},
    {"temperature_c", "C", false, clocked_at, CLOCKS(temperature_c), NULL},
    {0},
};
#undef CLOCKS
#undef AT

/* Each point is the mean of `stride` iterations. Figures that no iteration has are left out. */
static void write_series(const struct aorta_step_metrics *steps, size_t count, size_t stride,
                         const struct aorta_metric *metric, struct aorta_json *json) {
    bool any = false;
    for (size_t i = 0; !any && i < count; i++) any = !isnan(aorta_metric_of(metric, &steps[i]));
    if (!any) return;
    aorta_json_key_array(json, metric->key);
    for (size_t i = 0; i < count; i += stride) {
        double sum = 0, number = 0;
        for (size_t j = i; j < i + stride && j < count; j++) {
            const double value = aorta_metric_of(metric, &steps[j]);
            if (isnan(value)) continue;
            sum += value;
            number++;
        }
        aorta_json_fixed(json, number > 0 ? sum / number : NAN, 6);
    }
    aorta_json_array_end(json);
}

static void write_iterations(const struct aorta_recorded *labelled, struct aorta_json *json) {
    const struct aorta_run *run = &labelled->run;
    const size_t stride = run->step_count / MOST_POINTS + 1;
    aorta_json_key_object(json, "iterations");
    aorta_json_key_int(json, "per_point", (int64_t)stride);
    aorta_json_key_array(json, "ranks");
    for (size_t i = 0; i < run->rank_count; i++) {
        const struct aorta_measured *measured = &labelled->measured[i];
        aorta_json_object(json);
        aorta_json_key_int(json, "rank", run->ranks[i]);
        for (const struct aorta_metric *metric = others; metric->key; metric++)
            write_series(measured->steps, measured->count, stride, metric, json);
        for (const struct aorta_metric *metric = aorta_metrics; metric->key; metric++)
            write_series(measured->steps, measured->count, stride, metric, json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
    aorta_json_object_end(json);
}

/* ---- names and columns ---- */

static void add_names(const struct aorta_trace_analysis *analysis, struct aorta_texts *names, struct aorta_json *json) {
    AORTA_EACH (const struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count)
        for (size_t j = 0; j < rank->kernel_count; j++)
            json->out->failed |= !aorta_intern(names, aorta_trace_text(rank->trace, rank->kernels[j].name));
}

/* Headings and kinds of columns of the tables in "results". */
static void write_tables(unsigned by, bool whole, struct aorta_json *json) {
    aorta_json_key_array(json, "tables");
    write_columns(aorta_rank_tables, whole, json);
    write_columns(aorta_rank_tables_after, whole, json);
    write_columns(aorta_roofline_tables, whole, json);
    for (int i = 0; i < AORTA_BY_COUNT; i++)
        if (by & 1u << i) aorta_table_page_json(aorta_by_tables[i], whole, json);
    write_columns(aorta_world_tables, whole, json);
    aorta_json_array_end(json);
}

/* The meaning of each key in the findings' facts. */
static void write_facts(const struct aorta_page_recordings *page, struct aorta_json *json) {
    bool used[AORTA_FACT_COUNT] = {false};
    for (size_t i = 0; i < page->count; i++) {
        const struct aorta_verdict *verdict = page->items[i].report.verdict;
        for (size_t j = 0; verdict && j < verdict->finding_count; j++)
            for (size_t k = 0; k < verdict->findings[j].facts.count; k++)
                used[verdict->findings[j].facts.items[k].key] = true;
    }
    aorta_json_key_object(json, "facts");
    for (int i = 0; i < AORTA_FACT_COUNT; i++) {
        if (!used[i]) continue;
        aorta_json_key_object(json, aorta_fact_rows[i].key);
        aorta_json_key_string(json, "help", aorta_fact_rows[i].help);
        aorta_json_key_bool(json, "flag", aorta_fact_rows[i].unit == AORTA_UNIT_FLAG);
        aorta_json_object_end(json);
    }
    aorta_json_object_end(json);
}

static bool put_kind(const void *user, const char *inside, size_t length, struct aorta_text *out) {
    (void)user;
    const bool kind = strncmp(inside, "kind", length) == 0;
    if (kind) aorta_text_puts(out, "collectives");
    return kind;
}

/* Display names of causes, for any rank and collective. */
static void write_causes(struct aorta_json *json) {
    aorta_json_key_object(json, "causes");
    for (int i = 0; i < AORTA_CAUSE_COUNT; i++) {
        const struct aorta_cause_row *row = aorta_cause_row((enum aorta_cause)i);
        struct aorta_text name = {0};
        (void)aorta_text_template(&name, row->name, put_kind, NULL);
        aorta_json_key_sentence(json, row->key, &name);
    }
    const struct aorta_idle_words *unknown = &aorta_idle_words[AORTA_IDLE_UNKNOWN];
    aorta_json_key_string(json, unknown->key, unknown->name);
    aorta_json_object_end(json);
}

/* ---- one recording ---- */

/* The configuration that the run wrote; null if there is none. */
static void write_configuration(const struct aorta_run *run, struct aorta_json *json) {
    enum { MOST_BYTES = 1 << 20 };
    const struct aorta_file_path path = aorta_path_in(run->directory, "config.json");
    char *text = NULL;
    size_t length;
    aorta_status_free(aorta_file_read_regular(path.text, MOST_BYTES, &text, &length));
    aorta_json_key_string(json, "configuration", text);
    free(text);
}

static void write_results(struct aorta_trace_report report, struct aorta_json *json) {
    struct aorta_text results = {0};
    report.most_lines = MOST_LINES;
    aorta_trace_report_json(&report, 0, &results);
    write_text("results", &results, json);
    aorta_text_free(&results);
}

static void write_recording(const struct aorta_page_recording *recording, unsigned by, size_t spans,
                            struct aorta_json *json) {
    struct aorta_trace_report report = recording->report;
    report.by = by;
    aorta_json_object(json);
    aorta_json_key_string(json, "label", recording->label);
    if (report.analysis) write_results(report, json);
    if (report.analysis && by) aorta_page_flame(report.analysis, json);
    if (recording->run) {
        aorta_json_key(json, "summary");
        aorta_summary_of(recording->run, json);
        write_configuration(&recording->run->run, json);
        write_iterations(recording->run, json);
    }
    aorta_json_key(json, "timeline");
    aorta_page_timeline(&report, spans, json);
    aorta_json_object_end(json);
}

/* ---- the page ---- */

/* One recording: the tables that were asked for, else the default ones. Several recordings: none. */
static unsigned by_of(const struct aorta_page_recordings *page) {
    const struct aorta_trace_report *report = &page->items[0].report;
    if (page->count > 1) return 0;
    if (report->by) return report->by;
    return report->path ? aorta_page_by : aorta_page_by & ~(1u << AORTA_BY_PATH);
}

void aorta_page_recordings_json(const struct aorta_page_recordings *page, struct aorta_json *json) {
    const unsigned by = by_of(page);
    struct aorta_texts names = {0};
    bool beyond = false;
    for (size_t i = 0; i < page->count; i++) {
        const struct aorta_trace_analysis *analysis = page->items[i].report.analysis;
        beyond |= analysis && aorta_trace_beyond_steps(analysis);
        if (analysis) add_names(analysis, &names, json);
    }
    aorta_json_object(json);
    aorta_json_key_int(json, "schema_version", PAGE_SCHEMA);
    aorta_json_key_string(json, "kind", "recordings");
    put_short_names(&names, json);
    aorta_texts_free(&names);
    write_tables(by, beyond, json);
    write_facts(page, json);
    write_causes(json);
    write_text("comparisons", page->comparisons, json);
    write_text("comparison", page->comparison, json);
    aorta_json_key_array(json, "recordings");
    for (size_t i = 0; i < page->count; i++) write_recording(&page->items[i], by, AORTA_PAGE_SPANS / page->count, json);
    aorta_json_array_end(json);
    aorta_json_object_end(json);
}

aorta_status aorta_page_recordings_write(const struct aorta_page_recordings *page, const char *path) {
    struct aorta_text data = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &data, 0);
    aorta_page_recordings_json(page, &json);
    return write_page(page->title, &data, path);
}
