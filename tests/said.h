/* What a verdict says, for tests: its facts, and its words where the words matter. Texts are valid until the next call
 * of the same function. */
#ifndef AORTA_TESTS_SAID_H
#define AORTA_TESTS_SAID_H

#include "check.h"
#include "report/phrases.h"
#include "report/verdict_text.h"

#include <math.h>

enum { SAID_SIZE = 16384 };

/* NULL: there is none. */
static inline const struct aorta_finding *said_finding(const struct aorta_verdict *verdict, enum aorta_cause cause) {
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (verdict->findings[i].cause == cause) return &verdict->findings[i];
    return NULL;
}

static inline bool said_has(const struct aorta_finding *finding, enum aorta_fact_key key) {
    return finding && aorta_facts_has(&finding->facts, key);
}

/* Fails the test where it is missing. */
static inline const struct aorta_fact *said_fact(const struct aorta_finding *finding, enum aorta_fact_key key) {
    const struct aorta_fact *fact = finding ? aorta_facts_find(&finding->facts, key) : NULL;
    if (!fact)
        fail_msg("%s has no fact %s", finding ? aorta_cause_name(finding->cause) : "no finding",
                 aorta_fact_rows[key].key);
    return fact;
}

static inline double said_value(const struct aorta_finding *finding, enum aorta_fact_key key) {
    return said_fact(finding, key)->value;
}

/* "": not known. */
static inline const char *said_place(const struct aorta_finding *finding, enum aorta_fact_key key) {
    const char *name = said_fact(finding, key)->place.name;
    return name ? name : "";
}

static inline void said_near(double value, double expected, double most) {
    if (!(fabs(value - expected) <= most)) fail_msg("%.9g is not %.9g", value, expected);
}

/* The verdict, which never contradicts itself: all fixes save no less than one of them, and no finding shares its gain
 * with itself. */
static inline void said_make(struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict) {
    check_ok(aorta_verdict_make(analysis, verdict));
    for (size_t i = 0; i < verdict->finding_count && verdict->replay.known; i++) {
        const struct aorta_finding *finding = &verdict->findings[i];
        const double after_ms = aorta_verdict_gained_ms(verdict) - aorta_finding_shown_ms(finding);
        if (aorta_finding_gains(finding) && verdict->replay.floor_ms > fmax(after_ms, 0) + 1e-6)
            fail_msg("all fixes leave %g ms, %s alone %g", verdict->replay.floor_ms, aorta_cause_name(finding->cause),
                     after_ms);
        for (int j = 0; j < finding->share_count && !finding->remedy; j++)
            assert_int_not_equal(finding->shares[j].cause, finding->cause);
    }
}

static inline const char *said_copy(struct aorta_text *text, char copy[SAID_SIZE]) {
    check_ok(aorta_text_check(text));
    assert_true(text->length < SAID_SIZE);
    snprintf(copy, SAID_SIZE, "%s", text->data ? text->data : "");
    aorta_text_free(text);
    return copy;
}

static inline const char *said_evidence(const struct aorta_verdict *verdict, const struct aorta_finding *finding) {
    static char copy[SAID_SIZE];
    struct aorta_text text = {0};
    aorta_finding_evidence(verdict, finding, &text);
    return said_copy(&text, copy);
}

static inline const char *said_advice(const struct aorta_finding *finding) {
    static char copy[SAID_SIZE];
    struct aorta_text text = {0};
    aorta_finding_advice(finding, &text);
    return said_copy(&text, copy);
}

/* The whole verdict as it is printed, without color and 100 columns wide. */
static inline const char *said_text(const struct aorta_verdict *verdict) {
    static char copy[SAID_SIZE];
    struct aorta_text text = {0};
    aorta_verdict_text(verdict, NULL, &text);
    return said_copy(&text, copy);
}

/* A text with one blank for each run of blanks and line ends, so that wrapped sentences read as they were written. */
static inline const char *said_unwrapped(const char *text) {
    static char copy[SAID_SIZE];
    char *end = copy;
    for (const char *at = text; *at; at++) {
        const bool blank = *at == ' ' || *at == '\n';
        assert_true(end < copy + SAID_SIZE - 1);
        if (!blank || (end > copy && end[-1] != ' ')) *end++ = blank ? ' ' : *at;
    }
    *end = '\0';
    return copy;
}

static inline const char *said_words(const struct aorta_verdict *verdict) {
    return said_unwrapped(said_text(verdict));
}

static inline void said_expect(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("\"%s\" is not in:\n%s", part, text);
}

static inline void said_expect_wide(const char *text, int least, int most) {
    const char *widest = text;
    int columns = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        assert_non_null(strchr(line, '\n'));
        if ((int)strcspn(line, "\n") <= columns) continue;
        widest = line;
        columns = (int)strcspn(line, "\n");
    }
    if (columns < least || columns > most) fail_msg("%d columns: %.*s", columns, columns, widest);
}

/* Everything that the view has is in the text, whole, within 100 columns. */
static inline void said_whole(const struct aorta_verdict *verdict) {
    struct aorta_verdict_view view;
    const char *words = said_words(verdict);
    said_expect_wide(said_text(verdict), 1, 100);
    aorta_verdict_view_make(verdict, NULL, &view);
    check_ok(aorta_arena_check(&view.arena, "a view"));
    said_expect(words, view.headline);
    for (int i = 0; i < view.row_count; i++) said_expect(words, view.rows[i].text);
    for (int i = 0; i < view.block_count; i++) {
        const struct aorta_view_block *block = &view.blocks[i];
        said_expect(words, block->name);
        said_expect(words, block->measured);
        said_expect(words, block->mark);
        said_expect(words, block->worst);
        for (int j = 0; j < block->fix_count; j++) said_expect(words, block->fix[j]);
    }
    said_expect(words, view.minor);
    aorta_arena_free(&view.arena);
}

#endif
