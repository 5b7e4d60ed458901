/* The table of causes is whole: names, explanations, templates of facts that exist, and advice for every program. */
#include "check.h"
#include "verdict/advice.h"
#include "verdict/causes.h"
#include "verdict/remedies.h"

#include <string.h>

static void expect_sentence(const char *text, const char *member, enum aorta_cause cause) {
    if (!text || strlen(text) < 2 || text[strlen(text) - 1] != '.')
        fail_msg("%s of %s is no sentence: %s", member, aorta_cause_name(cause), text ? text : "missing");
}

static void every_cause_is_explained(void **state) {
    (void)state;
    for (int i = 0; i < AORTA_CAUSE_COUNT; i++) {
        const enum aorta_cause cause = (enum aorta_cause)i;
        const struct aorta_cause_row *row = aorta_cause_row(cause);
        assert_int_equal(aorta_cause_named(row->key), cause);
        assert_true(row->name && *row->name);
        assert_non_null(row->measured[0] ? row->measured[0] : row->worst[0]);
        expect_sentence(row->means, "means", cause);
        expect_sentence(row->how, "how", cause);
        expect_sentence(row->gain, "gain", cause);
        if (cause != AORTA_CAUSE_COMPUTE) expect_sentence(row->unless, "unless", cause); /* it is no loss */
        assert_non_null(row->unless);
        for (int j = 0; j < i; j++) assert_string_not_equal(row->name, aorta_cause_row((enum aorta_cause)j)->name);
    }
    assert_int_equal(aorta_cause_named("no cause"), AORTA_CAUSE_COUNT);
}

static void every_fact_is_explained(void **state) {
    (void)state;
    for (int i = 1; i < AORTA_FACT_COUNT; i++) {
        const enum aorta_fact_key key = (enum aorta_fact_key)i;
        const char *name = aorta_fact_rows[key].key;
        assert_int_equal(aorta_fact_named(name, strlen(name)), key);
        assert_true(*aorta_fact_rows[key].help != 0);
        assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789"), strlen(name));
    }
    assert_int_equal(aorta_fact_named("idle", 4), AORTA_FACT_NONE); /* the beginning of several */
}

/* As `aorta help CAUSE` says when an advice holds. */
static void every_condition_of_advice_has_words(void **state) {
    (void)state;
    size_t count;
    const struct aorta_advice_row *rows = aorta_advice_rows(&count);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < sizeof rows[i].when / sizeof *rows[i].when; j++) {
            const struct aorta_fact_row *fact = &aorta_fact_rows[rows[i].when[j]];
            if (rows[i].when[j] && fact->unit != AORTA_UNIT_FLAG && !fact->words)
                fail_msg("%s is a condition of \"%s\" without words", fact->key, rows[i].text);
        }
    }
}

/* One placeholder, as report/phrases.c reads it. */
static void expect_placeholder(const char *inside, const char *template, bool by_kind) {
    static const char *const parts[] = {"name", "after", "shape", "host", "count", "where", "text"};
    const size_t length = strcspn(inside, ".#*");
    const char mark = inside[length], *rest = mark ? inside + length + 1 : "";
    static const char *const words[] = {"per", "in_steps", "rank", "device"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(inside, words[i]) == 0) return;
    if (strcmp(inside, "kind") == 0 || strcmp(inside, "runs") == 0) {
        if (!by_kind) fail_msg("{%s} of a cause without kinds: %s", inside, template);
        return;
    }
    const enum aorta_fact_key key = aorta_fact_named(inside, length);
    if (!key) fail_msg("{%s} names no fact: %s", inside, template);
    const enum aorta_unit unit = aorta_fact_rows[key].unit;
    bool found = mark != '.';
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) found |= strcmp(rest, parts[i]) == 0;
    if (!found) fail_msg("{%s} has no such part: %s", inside, template);
    if (mark == '*' && (unit != AORTA_UNIT_COUNT || !strchr(rest, '|')))
        fail_msg("{%s} is no count with two nouns: %s", inside, template);
    if (mark == '#' && (unit == AORTA_UNIT_FLAG || *rest)) fail_msg("{%s} is no number: %s", inside, template);
    if (!mark && unit == AORTA_UNIT_FLAG && !aorta_fact_rows[key].words)
        fail_msg("{%s} is a flag without words: %s", inside, template);
}

/* Brackets do not nest, and placeholders end. */
static void expect_template(const char *template, bool by_kind) {
    bool bracket = false;
    for (const char *at = template; *at; at++) {
        if (*at == '[' || *at == ']') {
            if (bracket == (*at == '[')) fail_msg("a bracket too many: %s", template);
            bracket = *at == '[';
        }
        if (*at == '}') fail_msg("a brace too many: %s", template);
        if (*at != '{') continue;
        char inside[96];
        const char *end = strchr(at, '}');
        if (!end) fail_msg("a brace that is not closed: %s", template);
        assert_true(end - at < (ptrdiff_t)sizeof inside);
        snprintf(inside, sizeof inside, "%.*s", (int)(end - at - 1), at + 1);
        expect_placeholder(inside, template, by_kind);
        at = end;
    }
    if (bracket) fail_msg("a bracket that is not closed: %s", template);
}

static void templates_name_facts_that_exist(void **state) {
    (void)state;
    for (int i = 0; i < AORTA_CAUSE_COUNT; i++) {
        const struct aorta_cause_row *row = aorta_cause_row((enum aorta_cause)i);
        expect_template(row->name, row->by_kind);
        if (row->suffix) expect_template(row->suffix, row->by_kind);
        for (int j = 0; j < AORTA_TEMPLATES; j++) {
            if (row->measured[j]) expect_template(row->measured[j], row->by_kind);
            if (row->worst[j]) expect_template(row->worst[j], row->by_kind);
        }
    }
}

static void expect_advice(enum aorta_cause cause, int kind, unsigned program, const char *remedy) {
    struct aorta_arena arena = {0};
    struct aorta_finding finding = {.cause = cause,
                                    .collective = (enum aorta_collective)kind,
                                    .rank = -1,
                                    .remedy = remedy,
                                    .facts = {.arena = &arena}};
    struct aorta_verdict verdict = {.findings = &finding, .finding_count = 1, .recorded = true, .program = program};
    check_ok(aorta_advise(&verdict, NULL));
    if (!finding.fix_count || !*finding.fixes[0].row->text)
        fail_msg("nothing to do about %s %s in program %u", aorta_cause_name(cause), remedy ? remedy : "", program);
    assert_true(finding.fixes[0].row->programs & program);
}

/* Advice does not depend on facts. A remedy that is an upper bound has no finding. */
static void every_finding_has_advice_for_every_program(void **state) {
    (void)state;
    for (unsigned program = AORTA_PROGRAM_TORCH; program <= AORTA_PROGRAM_SPARSE; program *= 2) {
        for (int i = 0; i < AORTA_CAUSE_COUNT; i++) {
            const enum aorta_cause cause = (enum aorta_cause)i;
            bool remedy = false;
            for (int j = 0; j < AORTA_REMEDY_COUNT; j++) {
                const enum aorta_remedy one = (enum aorta_remedy)j;
                if (strcmp(aorta_remedy_rules[one].cause, aorta_cause_name(cause)) != 0) continue;
                remedy = true;
                if (!aorta_remedy_rules[one].upper) expect_advice(cause, 0, program, aorta_remedy_rules[one].key);
            }
            for (int kind = 0; !remedy && kind < AORTA_COLLECTIVE_COUNT; kind++)
                expect_advice(cause, kind, program, NULL);
        }
    }
}

/* A remedy that a row names exists, and its cause is the row's. */
static void rows_of_advice_name_remedies_that_exist(void **state) {
    (void)state;
    size_t count, found = 0;
    const struct aorta_advice_row *rows = aorta_advice_rows(&count);
    for (size_t i = 0; i < count; i++) {
        assert_true(rows[i].programs != 0);
        assert_true(rows[i].text && *rows[i].text);
        if (rows[i].collective) assert_true(aorta_cause_has_kind(rows[i].cause));
        if (rows[i].unless) assert_non_null(rows[i].key);
        if (!rows[i].remedy) continue;
        bool known = false;
        for (int j = 0; j < AORTA_REMEDY_COUNT; j++)
            known |= strcmp(rows[i].remedy, aorta_remedy_rules[j].key) == 0 &&
                     strcmp(aorta_cause_name(rows[i].cause), aorta_remedy_rules[j].cause) == 0;
        if (!known) fail_msg("no remedy %s of %s", rows[i].remedy, aorta_cause_name(rows[i].cause));
        found++;
    }
    assert_true(found > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cause_is_explained),
        cmocka_unit_test(every_fact_is_explained),
        cmocka_unit_test(every_condition_of_advice_has_words),
        cmocka_unit_test(templates_name_facts_that_exist),
        cmocka_unit_test(every_finding_has_advice_for_every_program),
        cmocka_unit_test(rows_of_advice_name_remedies_that_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
