#include "report/schemas.h"
#include "base/lines.h"
#include "base/result_table.h"
#include "measure/clocks.h"
#include "measure/machine.h"
#include "measure/metrics.h"
#include "report/phrases.h"
#include "report/summary.h"
#include "report/trace_tables.h"
#include "report/whatif.h"
#include "verdict/advice.h"
#include "verdict/causes.h"
#include "verdict/roofline.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

extern const char aorta_text_formats[], aorta_text_verdict_schema[];

void aorta_schema_put(struct aorta_json *json, const char *key, const char *text) {
    aorta_json_key(json, key);
    aorta_json_text(json, text);
}

static void put_tables(struct aorta_json *json, const struct aorta_result_table *const *tables) {
    for (; *tables; tables++) aorta_rows_schema_array((*tables)->key, (*tables)->rows, json);
}

/* What no rows write is in verdict_schema.json. */
static void put_verdict(struct aorta_json *json) {
    aorta_rows_schema_object("gemm_slowdown", aorta_trace_slowdown_rows, json);
    json_t *members = json_loads(aorta_text_verdict_schema, 0, NULL), *value;
    const char *key;
    json_object_foreach(members, key, value) {
        char *text = json_dumps(value, 0);
        json->out->failed |= !text;
        aorta_schema_put(json, key, text ? text : "{}");
        free(text);
    }
    json_decref(members);
}

static void put_trace(struct aorta_json *json) {
    aorta_schema_list("ranks", json);
    aorta_rows_schema(aorta_trace_rank_rows, json);
    aorta_rows_schema_object("clock", aorta_trace_clock_rows, json);
    put_tables(json, aorta_rank_tables);
    put_tables(json, aorta_rank_tables_after);
    put_tables(json, aorta_by_tables);
    aorta_schema_list_end(json);
    put_tables(json, aorta_world_tables);
    put_verdict(json);
}

static void put_summary(struct aorta_json *json) {
    aorta_json_key_object(json, "labels");
    aorta_json_key_string(json, "type", "object");
    aorta_json_key_object(json, "additionalProperties");
    aorta_json_key_string(json, "type", "object");
    aorta_json_key_object(json, "properties");
    aorta_rows_schema(aorta_summary_rows, json);
    aorta_rows_schema_object("records", aorta_summary_records_rows, json);
    aorta_rows_schema_object("recording_cost", aorta_recording_rows, json);
    put_verdict(json);
    aorta_json_object_end(json);
    aorta_json_object_end(json);
    aorta_json_object_end(json);
}

const struct aorta_schema aorta_report_schemas[] = {
    {"trace_analyze", "aorta trace analyze --json", put_trace},
    {"summary", "summary.json of aorta train and aorta report", put_summary},
    {"whatif", "aorta whatif --json", aorta_whatif_schema},
    {"metrics", "a line of rank_RR_metrics.jsonl", aorta_metrics_schema},
    {0}};

void aorta_schema_write(const struct aorta_schema *schema, struct aorta_text *out) {
    struct aorta_json json;
    aorta_json_begin(&json, out, 1);
    aorta_json_object(&json);
    aorta_json_key_string(&json, "$schema", "https://json-schema.org/draft/2020-12/schema");
    aorta_json_key_string(&json, "title", schema->title);
    aorta_json_key_string(&json, "type", "object");
    aorta_json_key_array(&json, "required");
    aorta_json_string(&json, "schema_version");
    aorta_json_array_end(&json);
    aorta_json_key_object(&json, "properties");
    aorta_json_key_object(&json, "schema_version");
    aorta_json_key_string(&json, "type", "integer");
    aorta_json_object_end(&json);
    schema->put(&json);
    aorta_json_object_end(&json);
    aorta_json_object_end(&json);
    aorta_text_puts(out, "\n");
}

/* ---- docs/metrics-format.md: formats.md with the tables of the rows that write the files ---- */

static AORTA_TABLES(coverage, &aorta_summary_coverage);
static AORTA_TABLES(limits, &aorta_clocks_limits);

/* A line "{{NAME}}" of formats.md becomes these tables. */
static const struct part {
    const char *name;
    const struct aorta_row *rows;
    const struct aorta_result_table *const *tables;
    void (*put)(struct aorta_text *out);
} parts[] = {
    {"metrics", .put = aorta_metrics_markdown},
    {"machine", .put = aorta_machine_markdown},
    {"rows summary", .rows = aorta_summary_rows},
    {"rows figure", .rows = aorta_summary_statistics_rows},
    {"rows collective", .rows = aorta_summary_collective_rows},
    {"rows records", .rows = aorta_summary_records_rows},
    {"rows recording_cost", .rows = aorta_recording_rows},
    {"rows clocks", .rows = aorta_clocks_member_rows},
    {"rows gemm_slowdown", .rows = aorta_trace_slowdown_rows},
    {"rows rank", .rows = aorta_trace_rank_rows},
    {"rows clock", .rows = aorta_trace_clock_rows},
    {"rows memory_peak", .rows = trace_memory_peak_rows},
    {"rows roofline", .rows = aorta_roofline_head_rows},
    {"rows peaks", .rows = aorta_roofline_peak_rows},
    {"rows class", .rows = aorta_roofline_class_rows},
    {"tables coverage", .tables = coverage},
    {"tables limits", .tables = limits},
    {"tables rank", .tables = aorta_rank_tables},
    {"tables rank after", .tables = aorta_rank_tables_after},
    {"tables by", .tables = aorta_by_tables},
    {"tables world", .tables = aorta_world_tables},
    {"tables losses", .tables = aorta_roofline_tables + 1},
};

static void put_part(const char *name, size_t length, struct aorta_text *out) {
    const struct part *part = parts;
    while (strlen(part->name) != length || strncmp(part->name, name, length) != 0) part++;
    if (part->rows) aorta_rows_markdown(part->rows, out);
    if (part->put) part->put(out);
    for (const struct aorta_result_table *const *table = part->tables; table && *table; table++) {
        aorta_text_printf(out, "\n`%s[]`: %s.\n\n", (*table)->key, (*table)->help);
        aorta_rows_markdown((*table)->rows, out);
    }
}

void aorta_formats_page(struct aorta_text *out) {
    const char *at = aorta_text_formats;
    for (const char *mark; (mark = strstr(at, "{{")); at = strchr(mark, '\n') + 1) {
        aorta_text_append(out, at, (size_t)(mark - at));
        put_part(mark + 2, (size_t)(strstr(mark, "}}") - mark) - 2, out);
    }
    aorta_text_puts(out, at);
}

/* ---- what `aorta help CAUSE` prints ---- */

enum { LABEL = 14, KEY = 20 };

static const struct {
    unsigned program;
    const char *name;
} programs[] = {{AORTA_PROGRAM_TORCH, "PyTorch"},      {AORTA_PROGRAM_SERVING, "vLLM, SGLang"},
                {AORTA_PROGRAM_NATIVE, "C, MPI"},      {AORTA_PROGRAM_XLA, "JAX"},
                {AORTA_PROGRAM_CUPY, "CuPy"},          {AORTA_PROGRAM_TRITON, "Triton"},
                {AORTA_PROGRAM_DIRECTIVES, "OpenACC"}, {AORTA_PROGRAM_OURS, "aorta train"}};
enum { PROGRAMS = sizeof programs / sizeof *programs };

/* `bullet`: "- ", or "" before text of its own line. */
static void put(const char *label, const char *bullet, const char *text, struct aorta_text *out) {
    const int indent = 2 + LABEL + (int)strlen(bullet);
    aorta_text_printf(out, "  %-*s%s", LABEL, label, bullet);
    aorta_text_lines(out, text, &(struct aorta_lines){.width = 100, .taken = indent, .indent = indent});
}

static void put_row(const struct aorta_advice_row *row, struct aorta_text *out) {
    if (row->key && strchr(row->value, ' '))
        aorta_text_printf(out, "%s %s (", row->value, row->key);
    else if (row->key)
        aorta_text_printf(out, "%s=%s (", row->key, row->value);
    aorta_advice_put(-1, row->text, out);
    if (row->key) aorta_text_puts(out, ")");
    if (row->also) aorta_text_puts(out, "; ");
    if (row->also) aorta_advice_put(-1, row->also, out);
}

/* The condition of a row: "all_to_all, if the program sends and receives: ". */
static void put_condition(const struct aorta_advice_row *row, struct aorta_text *out) {
    if (row->collective) aorta_text_puts(out, aorta_collective_name((enum aorta_collective)(row->collective - 1)));
    if (row->remedy) aorta_text_printf(out, "remedy %s", row->remedy);
    const char *joined = out->length ? ", if " : "if ";
    for (int i = 0; i < 2; i++) {
        const struct aorta_fact_row *fact = &aorta_fact_rows[row->when[i]];
        const char *words = fact->unit == AORTA_UNIT_FLAG ? fact->help : fact->words;
        if (!row->when[i] || !words) continue;
        aorta_text_printf(out, "%s%s", joined, words);
        joined = " and ";
    }
    if (out->length) aorta_text_puts(out, ": ");
}

/* Whether an earlier row of the cause and program has the same text under another condition. */
static bool is_said(const struct aorta_advice_row *rows, size_t place) {
    const struct aorta_advice_row *row = &rows[place];
    for (size_t i = 0; i < place; i++)
        if (rows[i].cause == row->cause && rows[i].programs & row->programs && strcmp(rows[i].text, row->text) == 0 &&
            (!row->also || (rows[i].also && strcmp(rows[i].also, row->also) == 0)))
            return true;
    return false;
}

/* Whether the row is never reached for a program: an earlier row without a key has no further conditions. */
static bool is_hidden(const struct aorta_advice_row *rows, size_t place, unsigned program) {
    const struct aorta_advice_row *row = &rows[place];
    for (const struct aorta_advice_row *at = rows; at < row; at++) {
        bool wider = at->cause == row->cause && at->programs & program && !at->key &&
                     (!at->collective || at->collective == row->collective) &&
                     (!at->remedy || (row->remedy && strcmp(at->remedy, row->remedy) == 0));
        for (int i = 0; i < 2; i++) wider &= !at->when[i] || at->when[i] == row->when[0] || at->when[i] == row->when[1];
        if (wider) return true;
    }
    return false;
}

/* Whether the row, which is for runs with unknown settings, names a key that has its own row. */
static bool repeats_key(const struct aorta_advice_row *rows, size_t place) {
    const struct aorta_advice_row *row = &rows[place];
    for (const struct aorta_advice_row *at = rows; at < row && !row->key && !row->when[0]; at++)
        if (at->cause == row->cause && at->programs & row->programs && at->key && strstr(row->text, at->key))
            return true;
    return false;
}

static bool is_of(const struct aorta_advice_row *rows, size_t place, unsigned program) {
    return rows[place].programs & program && !is_hidden(rows, place, program);
}

/* Whether no earlier program has the row. */
static bool is_new(const struct aorta_advice_row *rows, size_t place, int program) {
    for (int i = 0; i < program; i++)
        if (is_of(rows, place, programs[i].program)) return false;
    return true;
}

static void put_fixes(enum aorta_cause cause, struct aorta_text *out) {
    size_t count;
    const struct aorta_advice_row *rows = aorta_advice_rows(&count);
    for (int i = 0; i < PROGRAMS; i++) {
        const char *label = programs[i].name;
        for (size_t j = 0; j < count; j++) {
            struct aorta_text line = {0};
            if (rows[j].cause != cause || !is_of(rows, j, programs[i].program) || !is_new(rows, j, i)) continue;
            if (is_said(rows, j) || repeats_key(rows, j)) continue;
            put_condition(&rows[j], &line);
            put_row(&rows[j], &line);
            put(label, "- ", line.data ? line.data : "", out);
            aorta_text_end(&line, out);
            label = "";
        }
    }
}

/* The template of the name without its options: "slow KIND". */
static void put_name(const struct aorta_cause_row *row, struct aorta_text *out) {
    for (const char *at = row->name; *at;) {
        const size_t plain = strcspn(at, "[{");
        aorta_text_append(out, at, plain);
        at += plain;
        if (*at == '{') aorta_text_puts(out, "KIND");
        at += strcspn(at, *at == '[' ? "]" : "}");
        if (*at) at++;
    }
}

void aorta_cause_help(enum aorta_cause cause, struct aorta_text *out) {
    const struct aorta_cause_row *row = aorta_cause_row(cause);
    put_name(row, out);
    aorta_text_printf(out, " (%s)\n\n", row->key);
    put("meaning", "", row->means, out);
    put("measured", "", row->how, out);
    put("gain", "", row->gain, out);
    put("not when", "", row->unless, out);
    aorta_text_puts(out, "\nFixes, each with the first kind of program that it fits:\n");
    put_fixes(cause, out);
}

void aorta_verdict_words(struct aorta_text *out) {
    static const char *const words[][2] = {
        {"gain alone", "how much shorter a step is if only this cause is fixed"},
        {"10 to 14 ms", "the gain is in this range"},
        {"up to 9 ms", "an upper bound (at best): nothing recorded says how much of it a fix reaches"},
        {"shares", "both fixes save this time, which can be saved once"},
        {"alone 2 ms", "the gain of this fix alone, where the figure is a gain beyond or with other fixes"},
        {"only with", "so much is gained only with the other fix, too"},
        {"cost", "time of the cause, where the gain of a fix is not known"},
        {"all fixes", "the step with all fixes together; it is not the step without the sum of all gains"},
        {"as recorded", "a time of the recording; without these words times are without the profiler's cost"},
    };
    aorta_text_puts(out, "Words of the verdict\n\n");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) put(words[i][0], "", words[i][1], out);
    aorta_text_puts(out, "\nCauses: aorta help KEY or aorta help \"NAME\" explains one\n\n");
    for (int i = 0; i < AORTA_CAUSE_COUNT; i++) {
        const struct aorta_cause_row *row = aorta_cause_row((enum aorta_cause)i);
        aorta_text_printf(out, "  %-*s", KEY, row->key);
        put_name(row, out);
        aorta_text_puts(out, "\n");
    }
}
