#include "hwq/findings.h"
#include "base/lines.h"

#include <string.h>

#define LIMIT AORTA_HWQ_LIMIT
#define ANSWER AORTA_HWQ_ANSWER
#define NOTE AORTA_HWQ_NOTE
#define ROW AORTA_HWQ_ROW
#define WARNING AORTA_HWQ_WARNING
#define DRIFT "iterations become "
#define QUARTERS ": {first_quarter} in the first quarter, {last_quarter} in the last ({drift})"
#define TOGETHER "product {product_change}, copy {copy_change} when together"
#define PART "{streams:stream} of {priority} priority: {queues:queue}[, up to {most_streams} streams on one]"
#define LARGEST "{workload} on {streams:stream} {before} -> {after} ({change})"
const struct aorta_hwq_finding_row aorta_hwq_finding_rows[] = {
#define FINDING(name, kind, key, advice, template) [AORTA_HWQ_##name] = {kind, key, advice, template},
#include "hwq/findings.def"
#undef FINDING
};

/* ---- a fact ---- */

static void put_percent(double value, struct aorta_text *out) {
    aorta_text_printf(out, fabs(value) < 0.0995 ? "%.2g%%" : "%.0f%%", 100 * value);
}

void aorta_hwq_value_text(double value, const char *unit, struct aorta_text *out) {
    if (strcmp(unit, "share") == 0)
        put_percent(value, out);
    else if (strcmp(unit, "change") == 0)
        aorta_text_printf(out, "%+.*f%%", fabs(value) < 0.0995, 100 * value);
    else if (strncmp(unit, "of ", 3) == 0) {
        put_percent(value, out);
        aorta_text_printf(out, " %s", unit);
    } else if (strcmp(unit, "ms") == 0 && fabs(value) < 0.1)
        aorta_text_printf(out, "%s us", aorta_brief(1e3 * value).text);
    else
        aorta_text_printf(out, "%s%s%s", aorta_brief(value).text, *unit && strcmp(unit, "x") != 0 ? " " : "", unit);
}

/* Bytes of a word's key: what follows says how it is written. */
static size_t key_length(const char *word, size_t length) {
    const char *colon = memchr(word, ':', length);
    if (colon) return (size_t)(colon - word);
    return length - (length && word[length - 1] == '%');
}

bool aorta_hwq_word_is(const char *word, size_t length, const char *key) {
    const size_t bytes = key_length(word, length);
    return strlen(key) == bytes && strncmp(key, word, bytes) == 0;
}

bool aorta_hwq_fact_text(const struct aorta_hwq_fact *fact, const char *word, size_t length, struct aorta_text *out) {
    const size_t key = key_length(word, length);
    char noun[32];
    if (fact->text) {
        aorta_text_puts(out, fact->text);
        return true;
    }
    if (!isfinite(fact->value)) return false;
    if (key + 1 < length && word[key] == ':') {
        snprintf(noun, sizeof noun, "%.*s", (int)(length - key - 1), word + key + 1);
        aorta_text_puts(out, aorta_counted((long long)fact->value, noun).text);
        return true;
    }
    aorta_hwq_value_text(fact->value, key < length ? "share" : fact->unit ? fact->unit : "", out);
    return true;
}

/* ---- JSON ---- */

struct fact_values {
    const char *finding;
    struct aorta_hwq_fact fact;
};

#define AT(member) offsetof(struct fact_values, member)
static const struct aorta_row fact_rows[] = {
    {"finding", AORTA_ROW_TEXT, AT(finding), .help = "key of the finding that has the fact"},
    {"key", AORTA_ROW_TEXT, AT(fact.key), .help = "its name"},
    {"value", AORTA_ROW_NUMBER, AT(fact.value), .help = "in the unit; null: see text"},
    {"unit", AORTA_ROW_TEXT, AT(fact.unit), .help = "ms, share (0 to 1), change (share of the first value)"},
    {"text", AORTA_ROW_TEXT, AT(fact.text), .help = "what the value is if it is no number"},
    {"place", AORTA_ROW_TEXT, AT(fact.place), .help = "where it was measured"},
    {0}};
#undef AT

void aorta_hwq_fact_json(enum aorta_hwq_finding finding, const struct aorta_hwq_fact *fact, struct aorta_json *json) {
    struct fact_values values = {aorta_hwq_finding_rows[finding].key, *fact};
    if (!fact->unit) values.fact.unit = "";
    aorta_json_object(json);
    aorta_rows_json(fact_rows, &values, 0, json);
    aorta_json_object_end(json);
}

void aorta_hwq_facts_schema(struct aorta_json *json) {
    aorta_rows_schema_array("facts", fact_rows, json);
}

/* ---- findings with their own facts ---- */

static bool is_same(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool has_facts(const struct aorta_hwq_found *found, const struct aorta_hwq_fact *facts) {
    const struct aorta_hwq_fact *own = found->facts;
    for (; own->key && facts->key; own++, facts++)
        if (!is_same(own->text, facts->text) || (!facts->text && own->value != facts->value)) return false;
    return !own->key && !facts->key;
}

static bool is_known(const struct aorta_hwq_findings *findings, enum aorta_hwq_finding finding,
                     const struct aorta_hwq_fact *facts) {
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].finding == finding && has_facts(&findings->items[i], facts)) return true;
    return false;
}

void aorta_hwq_add(struct aorta_hwq_findings *findings, enum aorta_hwq_finding finding,
                   const struct aorta_hwq_fact *facts) {
    static const struct aorta_hwq_fact none[] = {{0}};
    struct aorta_arena *arena = &findings->arena;
    size_t count = 0;
    if (!facts) facts = none;
    if (aorta_hwq_finding_rows[finding].kind == WARNING && is_known(findings, finding, facts)) return;
    while (facts[count].key) count++;
    struct aorta_hwq_fact *own = aorta_arena_alloc(arena, (count + 1) * sizeof *own);
    struct aorta_hwq_found *items =
        aorta_arena_grow(arena, findings->items, findings->count, &findings->capacity, sizeof *items);
    if (!own || !items) return;
    for (size_t i = 0; i < count; i++) {
        own[i] = facts[i];
        if (facts[i].text) own[i].text = aorta_arena_strdup(arena, facts[i].text);
    }
    findings->items = items;
    items[findings->count++] = (struct aorta_hwq_found){finding, own};
}

void aorta_hwq_findings_free(struct aorta_hwq_findings *findings) {
    aorta_arena_free(&findings->arena);
    *findings = (struct aorta_hwq_findings){0};
}

static bool put_word(const void *user, const char *word, size_t length, struct aorta_text *out) {
    for (const struct aorta_hwq_fact *fact = user; fact->key; fact++)
        if (aorta_hwq_word_is(word, length, fact->key)) return aorta_hwq_fact_text(fact, word, length, out);
    return false;
}

void aorta_hwq_found_text(const struct aorta_hwq_found *found, struct aorta_text *out) {
    (void)aorta_text_template(out, aorta_hwq_finding_rows[found->finding].template, put_word, found->facts);
}

static void put_answer(const struct aorta_hwq_findings *findings, struct aorta_text *out) {
    for (size_t i = 0; i < findings->count && !out->length; i++)
        if (aorta_hwq_finding_rows[findings->items[i].finding].kind == ANSWER)
            aorta_hwq_found_text(&findings->items[i], out);
}

void aorta_hwq_answer_text(const struct aorta_hwq_findings *findings, struct aorta_text *out) {
    struct aorta_text text = {0};
    put_answer(findings, &text);
    if (text.data) aorta_text_lines(out, text.data, &(struct aorta_lines){.indent = 2});
    out->failed |= text.failed;
    aorta_text_free(&text);
}

void aorta_hwq_findings_text(const struct aorta_hwq_findings *findings, struct aorta_text *out) {
    struct aorta_text text = {0};
    const char *before = "";
    aorta_hwq_answer_text(findings, out);
    aorta_text_puts(out, "\n");
    for (size_t i = 0; i < findings->count; i++) {
        const struct aorta_hwq_found *found = &findings->items[i];
        const char *key = aorta_hwq_finding_rows[found->finding].kind == WARNING
                              ? "warning"
                              : aorta_hwq_finding_rows[found->finding].key;
        char label[32];
        if (aorta_hwq_finding_rows[found->finding].kind == ANSWER) continue;
        snprintf(label, sizeof label, "%s", strcmp(key, before) == 0 ? "" : key);
        for (char *at = label; *at; at++)
            if (*at == '_') *at = ' ';
        aorta_hwq_found_text(found, &text);
        aorta_text_fact(out, label, &text);
        before = key;
    }
    aorta_text_free(&text);
}

void aorta_hwq_answer_json(const char *key, const struct aorta_hwq_findings *findings, struct aorta_json *json) {
    struct aorta_text text = {0};
    put_answer(findings, &text);
    aorta_json_key_string(json, key, text.data);
    json->out->failed |= text.failed;
    aorta_text_free(&text);
}

void aorta_hwq_sentences_json(const char *key, const struct aorta_hwq_findings *findings, bool warnings,
                              struct aorta_json *json) {
    struct aorta_text text = {0};
    aorta_json_key_array(json, key);
    for (size_t i = 0; i < findings->count; i++) {
        if (warnings && aorta_hwq_finding_rows[findings->items[i].finding].kind != WARNING) continue;
        aorta_text_clear(&text);
        aorta_hwq_found_text(&findings->items[i], &text);
        aorta_json_string(json, text.data);
    }
    aorta_json_array_end(json);
    json->out->failed |= text.failed;
    aorta_text_free(&text);
}

void aorta_hwq_facts_json(const struct aorta_hwq_findings *findings, struct aorta_json *json) {
    aorta_json_key_array(json, "facts");
    for (size_t i = 0; i < findings->count; i++)
        for (const struct aorta_hwq_fact *fact = findings->items[i].facts; fact->key; fact++)
            aorta_hwq_fact_json(findings->items[i].finding, fact, json);
    aorta_json_array_end(json);
}
