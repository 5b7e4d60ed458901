#include "base/found.h"
#include "base/lines.h"
#include "base/rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- a fact ---- */

static void put_percent(double value, struct aorta_text *out) {
    aorta_text_printf(out, fabs(value) < 0.0995 ? "%.2g%%" : "%.0f%%", fabs(value) < 5e-6 ? 0 : 100 * value);
}

void aorta_found_value_text(double value, const char *unit, struct aorta_text *out) {
    if (strcmp(unit, "share") == 0)
        put_percent(value, out);
    else if (strcmp(unit, "change") == 0 && fabs(value) < 0.0005)
        aorta_text_puts(out, "0%");
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

/* Length of the key in a template's word, without the format after it. */
static size_t key_length(const char *word, size_t length) {
    const char *colon = memchr(word, ':', length);
    if (colon) return (size_t)(colon - word);
    return length - (length && strchr("%#", word[length - 1]));
}

bool aorta_found_word_is(const char *word, size_t length, const char *key) {
    const size_t bytes = key_length(word, length);
    return strlen(key) == bytes && strncmp(key, word, bytes) == 0;
}

static bool put_fact(const struct aorta_found_fact *fact, const char *word, size_t length, struct aorta_text *out) {
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
    const char *unit = key < length ? word[key] == '%' ? "share" : "" : fact->unit;
    aorta_found_value_text(fact->value, unit ? unit : "", out);
    return true;
}

/* ---- JSON ---- */

struct fact_values {
    const char *finding;
    struct aorta_found_fact fact;
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

static void write_fact(const struct aorta_found *found, const struct aorta_found_fact *fact, struct aorta_json *json) {
    struct fact_values values = {found->row->key, *fact};
    if (!fact->unit) values.fact.unit = "";
    if (!fact->place) values.fact.place = found->place;
    aorta_json_object(json);
    aorta_rows_json(fact_rows, &values, 0, json);
    aorta_json_object_end(json);
}

void aorta_found_schema(struct aorta_json *json) {
    aorta_rows_schema_array("facts", fact_rows, json);
}

/* ---- findings with their own facts ---- */

static bool is_same(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool has_facts(const struct aorta_found *found, const struct aorta_found_fact *facts) {
    const struct aorta_found_fact *own = found->facts;
    for (; own->key && facts->key; own++, facts++)
        if (!is_same(own->text, facts->text) || (!facts->text && own->value != facts->value)) return false;
    return !own->key && !facts->key;
}

static bool is_known(const struct aorta_found_list *list, const struct aorta_found_row *row,
                     const struct aorta_found_fact *facts) {
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].row == row && has_facts(&list->items[i], facts)) return true;
    return false;
}

void aorta_found_add(struct aorta_found_list *list, const struct aorta_found_row *table, unsigned finding,
                     const struct aorta_found_fact *facts) {
    static const struct aorta_found_fact none[] = {{0}};
    size_t count = 0;
    if (!facts) facts = none;
    if (table[finding].kind == AORTA_FOUND_WARNING && is_known(list, &table[finding], facts)) return;
    while (facts[count].key) count++;
    struct aorta_found_fact *own = aorta_arena_alloc(&list->arena, (count + 1) * sizeof *own);
    for (size_t i = 0; own && i < count; i++) {
        own[i] = facts[i];
        if (facts[i].text) own[i].text = aorta_arena_strdup(&list->arena, facts[i].text);
    }
    const struct aorta_found found = {finding, &table[finding], own, list->place};
    if (own) aorta_arena_append(&list->arena, &list->items, &list->capacity, &list->count, &found, sizeof found);
}

void aorta_found_free(struct aorta_found_list *list) {
    aorta_arena_free(&list->arena);
    *list = (struct aorta_found_list){0};
}

static bool is_time(const struct aorta_found_fact *fact) {
    return !fact->text && fact->unit && strcmp(fact->unit, "ms") == 0 && isfinite(fact->value);
}

/* Writes the times of a sentence with one unit and three significant digits, as readers compare them. False if the
 * sentence has only one time. */
static bool put_time(const struct aorta_found_fact *facts, const struct aorta_found_fact *fact,
                     struct aorta_text *out) {
    double longest = 0;
    int times = 0;
    for (; facts->key; facts++) {
        if (!is_time(facts)) continue;
        longest = fmax(longest, fabs(facts->value));
        times++;
    }
    if (times < 2 || !is_time(fact)) return false;
    const bool short_times = longest < 0.1;
    const double shown = fact->value * (short_times ? 1e3 : 1);
    const int decimals = shown != 0 ? 2 - (int)floor(log10(fabs(shown))) : 0;
    aorta_text_printf(out, "%.*f %s", decimals > 0 ? decimals : 0, shown, short_times ? "us" : "ms");
    return true;
}

static bool put_word(const void *user, const char *word, size_t length, struct aorta_text *out) {
    const struct aorta_found_fact *fact = user;
    while (fact->key && !aorta_found_word_is(word, length, fact->key)) fact++;
    if (!fact->key) return false;
    return (key_length(word, length) == length && put_time(user, fact, out)) || put_fact(fact, word, length, out);
}

void aorta_found_sentence(const struct aorta_found *found, struct aorta_text *out) {
    if (found->place) aorta_text_printf(out, "%s: ", found->place);
    (void)aorta_text_template(out, found->row->template, put_word, found->facts);
}

static void put_answer(const struct aorta_found_list *list, struct aorta_text *out) {
    for (size_t i = 0; i < list->count && !out->length; i++)
        if (list->items[i].row->kind == AORTA_FOUND_ANSWER) aorta_found_sentence(&list->items[i], out);
}

void aorta_found_answer_text(const struct aorta_found_list *list, struct aorta_text *out) {
    struct aorta_text text = {0};
    put_answer(list, &text);
    if (text.data) aorta_text_lines(out, text.data, &(struct aorta_lines){.indent = 2});
    aorta_text_end(&text, out);
}

static void put_rows(const struct aorta_found_list *list, bool notes, struct aorta_text *out) {
    static const char *const labels[AORTA_FOUND_KINDS] = {
        [AORTA_FOUND_LIMIT] = "limit", [AORTA_FOUND_WARNING] = "warning"};
    struct aorta_text text = {0};
    const char *before = "";
    for (size_t i = 0; i < list->count; i++) {
        const struct aorta_found_row *row = list->items[i].row;
        const char *key = labels[row->kind] ? labels[row->kind] : row->key;
        char label[32];
        if (row->kind == AORTA_FOUND_ANSWER || (row->kind == AORTA_FOUND_NOTE) != notes) continue;
        snprintf(label, sizeof label, "%s", strcmp(key, before) == 0 ? "" : key);
        for (char *at = label; *at; at++)
            if (*at == '_') *at = ' ';
        aorta_found_sentence(&list->items[i], &text);
        aorta_text_fact(out, label, &text);
        before = key;
    }
    aorta_text_free(&text);
}

void aorta_found_text(const struct aorta_found_list *list, struct aorta_text *out) {
    aorta_found_answer_text(list, out);
    aorta_text_puts(out, "\n");
    put_rows(list, false, out);
}

void aorta_found_notes_text(const struct aorta_found_list *list, struct aorta_text *out) {
    put_rows(list, true, out);
}

void aorta_found_answer_json(const char *key, const struct aorta_found_list *list, struct aorta_json *json) {
    struct aorta_text text = {0};
    put_answer(list, &text);
    aorta_json_key_sentence(json, key, &text);
}

void aorta_found_sentences_json(const char *key, const struct aorta_found_list *list, enum aorta_found_kind kind,
                                struct aorta_json *json) {
    struct aorta_text text = {0};
    aorta_json_key_array(json, key);
    for (size_t i = 0; i < list->count; i++) {
        if (kind != AORTA_FOUND_KINDS && list->items[i].row->kind != kind) continue;
        aorta_text_clear(&text);
        aorta_found_sentence(&list->items[i], &text);
        aorta_json_string(json, text.data);
    }
    aorta_json_array_end(json);
    aorta_text_end(&text, json->out);
}

void aorta_found_facts_json(const struct aorta_found_list *list, struct aorta_json *json) {
    aorta_json_key_array(json, "facts");
    for (size_t i = 0; i < list->count; i++)
        for (const struct aorta_found_fact *fact = list->items[i].facts; fact->key; fact++)
            write_fact(&list->items[i], fact, json);
    aorta_json_array_end(json);
}
