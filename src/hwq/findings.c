#include "hwq/findings.h"
#include "base/rows.h"
#include "hwq/limit.h"

#include <math.h>
#include <string.h>

enum kind { LIMIT, ANSWER, NOTE };

#define DRIFT "iterations become "
#define QUARTERS ": {first_quarter} in the first quarter, {last_quarter} in the last ({drift})"
static const struct {
    enum kind kind;
    const char *key, *advice, *template;
} table[AORTA_HWQ_FINDINGS] = {
#define FINDING(name, kind, key, advice, template) [AORTA_HWQ_##name] = {kind, key, advice, template},
#include "hwq/findings.def"
#undef FINDING
};

const char *aorta_hwq_finding_key(enum aorta_hwq_finding finding) {
    return table[finding].key;
}

const char *aorta_hwq_finding_advice(enum aorta_hwq_finding finding) {
    return table[finding].advice;
}

/* ---- facts ---- */

/* Facts that are no figures, in addition to those of the limit. */
#define AT(member) offsetof(struct aorta_hwq_result, member)
static const struct aorta_row rows[] = {
    {"iteration", AORTA_ROW_NUMBER, AT(latency_ms.p50), .unit = "ms"},
    {"intra_stream_gap", AORTA_ROW_NUMBER, AT(switch_latency.intra_gap_ms), .unit = "ms"},
    {"first_quarter", AORTA_ROW_NUMBER, AT(first_quarter_ms), .unit = "ms"},
    {"last_quarter", AORTA_ROW_NUMBER, AT(last_quarter_ms), .unit = "ms"},
    {"clock_first", AORTA_ROW_NUMBER, AT(clocks.first_mhz), .unit = "MHz"},
    {"clock_last", AORTA_ROW_NUMBER, AT(clocks.last_mhz), .unit = "MHz"},
    {"clock_lowest", AORTA_ROW_NUMBER, AT(clocks.mhz.min), .unit = "MHz"},
    {0}};
#undef AT

static bool is_word(const char *key, const char *word, size_t length) {
    return strlen(key) == length && strncmp(key, word, length) == 0;
}

static bool find_row(const struct aorta_row *row, const void *values, const char *word, size_t length,
                     struct aorta_hwq_figure *fact) {
    while (row->key && !is_word(row->key, word, length)) row++;
    if (!row->key) return false;
    *fact = (struct aorta_hwq_figure){row->key, row->unit ? row->unit : "", .value = NAN};
    memcpy(&fact->value, (const char *)values + row->offset, sizeof fact->value);
    return true;
}

static bool find_fact(const struct aorta_hwq_result *result, const char *word, size_t length,
                      struct aorta_hwq_figure *fact) {
    if (is_word("streams", word, length))
        *fact =
            (struct aorta_hwq_figure){"streams", "", .value = result->stream_count > 1 ? result->stream_count : NAN};
    else if (is_word("drift", word, length))
        *fact = (struct aorta_hwq_figure){"drift", "change",
                                          .value = result->last_quarter_ms / result->first_quarter_ms - 1.0};
    else if (!find_row(aorta_hwq_limit_rows, &result->limit, word, length, fact) &&
             !find_row(rows, result, word, length, fact)) {
        for (size_t i = 0; i < result->figure_count; i++)
            if (is_word(result->figures[i].name, word, length)) *fact = result->figures[i];
    }
    return isfinite(fact->value);
}

/* ---- sentences ---- */

static void put_percent(double value, struct aorta_text *out) {
    aorta_text_printf(out, fabs(value) < 0.0995 && value != 0.0 ? "%.1f%%" : "%.0f%%", 100 * value);
}

void aorta_hwq_value_text(double value, const char *unit, struct aorta_text *out) {
    if (strcmp(unit, "share") == 0)
        put_percent(value, out);
    else if (strcmp(unit, "change") == 0)
        aorta_text_printf(out, "%+.0f%%", 100 * value);
    else if (strncmp(unit, "of ", 3) == 0) {
        put_percent(value, out);
        aorta_text_printf(out, " %s", unit);
    } else if (strcmp(unit, "ms") == 0 && fabs(value) < 0.1)
        aorta_text_printf(out, "%s us", aorta_brief(1e3 * value).text);
    else
        aorta_text_printf(out, "%s%s%s", aorta_brief(value).text, *unit && strcmp(unit, "x") != 0 ? " " : "", unit);
}

static bool put_word(const void *user, const char *word, size_t length, struct aorta_text *out) {
    const struct aorta_hwq_result *result = user;
    const bool percent = word[length - 1] == '%';
    struct aorta_hwq_figure fact = {.value = NAN};
    if (is_word("clock_limits", word, length)) return aorta_clocks_why(&result->clocks, out);
    if (is_word("clocks", word, length)) {
        aorta_clocks_sentence(&result->clocks, out);
        return true;
    }
    if (is_word("wrong_value", word, length)) {
        if (!result->worst_at) return false;
        aorta_text_printf(out, "%s is %.9g, expected %.9g", result->worst_at, result->worst_got,
                          result->worst_expected);
        return true;
    }
    if (!find_fact(result, word, length - percent, &fact)) return false;
    aorta_hwq_value_text(fact.value, percent ? "share" : fact.unit, out);
    return true;
}

bool aorta_hwq_finding_text(const struct aorta_hwq_result *result, enum aorta_hwq_finding finding,
                            struct aorta_text *out) {
    return aorta_text_template(out, table[finding].template, put_word, result);
}

/* The first answer in the order of the table. */
enum aorta_hwq_finding aorta_hwq_answer(const struct aorta_hwq_result *result) {
    enum aorta_hwq_finding answer = AORTA_HWQ_FINDINGS;
    for (size_t i = 0; i < result->finding_count; i++)
        if (table[result->findings[i]].kind == ANSWER && result->findings[i] < answer) answer = result->findings[i];
    return answer < AORTA_HWQ_FINDINGS ? answer : result->limit.by;
}

void aorta_hwq_headline(const struct aorta_hwq_result *result, struct aorta_text *out) {
    const enum aorta_hwq_finding answer = aorta_hwq_answer(result);
    aorta_text_printf(out, "%s: ", result->workload_name);
    if (table[answer].kind == LIMIT) aorta_text_puts(out, table[answer].key ? "limited by " : "limit ");
    (void)aorta_hwq_finding_text(result, answer, out);
}

/* ---- JSON ---- */

struct writer {
    const struct aorta_hwq_result *result;
    const char *finding;
    struct aorta_json *json;
};

static bool write_fact(const void *user, const char *word, size_t length, struct aorta_text *out) {
    const struct writer *writer = user;
    struct aorta_json *json = writer->json;
    struct aorta_hwq_figure fact = {.value = NAN};
    (void)out;
    if (!find_fact(writer->result, word, length - (word[length - 1] == '%'), &fact)) return true;
    aorta_json_object(json);
    aorta_json_key_string(json, "finding", writer->finding);
    aorta_json_key_string(json, "key", fact.name);
    aorta_json_key_double(json, "value", fact.value);
    aorta_json_key_string(json, "unit", fact.unit);
    aorta_json_key_string(json, "place", fact.group);
    aorta_json_object_end(json);
    return true;
}

void aorta_hwq_findings_json(const struct aorta_hwq_result *result, struct aorta_json *json) {
    struct aorta_text text = {0};
    aorta_hwq_headline(result, &text);
    aorta_json_key_string(json, "headline", text.data);
    aorta_json_key_array(json, "findings");
    for (size_t i = 0; i < result->finding_count; i++) {
        aorta_text_clear(&text);
        if (aorta_hwq_finding_text(result, result->findings[i], &text)) aorta_json_string(json, text.data);
    }
    aorta_json_array_end(json);
    aorta_json_key_array(json, "facts");
    for (size_t i = 0; i < result->finding_count; i++) {
        const struct writer writer = {result, table[result->findings[i]].key, json};
        aorta_text_clear(&text);
        (void)aorta_text_template(&text, table[result->findings[i]].template, write_fact, &writer);
    }
    aorta_json_array_end(json);
    aorta_text_free(&text);
}
