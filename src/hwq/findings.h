/* What the commands of `aorta hwq` and `aorta sdma` found: facts, and the rows of findings.def, from which text and
 * JSON are made. */
#ifndef AORTA_HWQ_FINDINGS_H
#define AORTA_HWQ_FINDINGS_H

#include "base/arena.h"
#include "base/json.h"
#include "base/rows.h"
#include "base/text.h"

#include <math.h>

enum aorta_hwq_finding {
#define FINDING(name, kind, key, advice, template) AORTA_HWQ_##name,
#include "hwq/findings.def"
#undef FINDING
    AORTA_HWQ_FINDINGS
};

enum aorta_hwq_finding_kind {
    AORTA_HWQ_LIMIT,  /* of an iteration */
    AORTA_HWQ_ANSWER, /* to the question of the command or workload: line 1 */
    AORTA_HWQ_NOTE,
    AORTA_HWQ_ROW, /* a fact whose label is the key */
    AORTA_HWQ_WARNING
};

extern const struct aorta_hwq_finding_row {
    enum aorta_hwq_finding_kind kind;
    const char *key;    /* "launches"; NULL for an unknown limit */
    const char *advice; /* NULL: none */
    const char *template;
} aorta_hwq_finding_rows[AORTA_HWQ_FINDINGS];

struct aorta_hwq_fact {
    const char *key;
    double value;      /* NaN: not known */
    const char *unit;  /* "ms", "share", "change" (share with its sign); NULL: a count */
    const char *text;  /* what the value is if it is no number */
    const char *place; /* where it was measured; NULL: nowhere in particular */
};
static inline struct aorta_hwq_fact hwq_value(const char *key, double value, const char *unit) {
    return (struct aorta_hwq_fact){key, value, unit, NULL, NULL};
}
static inline struct aorta_hwq_fact hwq_count(const char *key, double value) {
    return hwq_value(key, value, NULL);
}
static inline struct aorta_hwq_fact hwq_text(const char *key, const char *text) {
    return (struct aorta_hwq_fact){key, NAN, NULL, text, NULL};
}
/* "0.411 us", "97%" */
void aorta_hwq_value_text(double value, const char *unit, struct aorta_text *out);
/* The fact for a word of a template: "{hidden%}" is a share, "{streams:stream}" a count with its noun. False: it is not
 * known, and nothing is written. */
bool aorta_hwq_fact_text(const struct aorta_hwq_fact *fact, const char *word, size_t length, struct aorta_text *out);
/* Whether the word of a template names that key. */
bool aorta_hwq_word_is(const char *word, size_t length, const char *key);
/* An object. */
void aorta_hwq_fact_json(enum aorta_hwq_finding finding, const struct aorta_hwq_fact *fact, struct aorta_json *json);
void aorta_hwq_facts_schema(struct aorta_json *json); /* the key "facts" */

/* ---- findings with their own facts ---- */

struct aorta_hwq_findings { /* zero-initialise */
    struct aorta_arena arena;
    struct aorta_hwq_found {
        enum aorta_hwq_finding finding;
        const struct aorta_hwq_fact *facts; /* ends with a NULL key */
    } * items;
    size_t count, capacity;
};

/* Copies the facts, up to a NULL key; NULL: none. A warning is added once. Out of memory: the arena
 * has failed. */
void aorta_hwq_add(struct aorta_hwq_findings *findings, enum aorta_hwq_finding finding,
                   const struct aorta_hwq_fact *facts);
#define HWQ_FIND(findings, finding, ...)                                                                               \
    aorta_hwq_add(findings, finding, (const struct aorta_hwq_fact[]){__VA_ARGS__, {0}})
void aorta_hwq_findings_free(struct aorta_hwq_findings *findings);

/* The sentence without a full stop. */
void aorta_hwq_found_text(const struct aorta_hwq_found *found, struct aorta_text *out);
/* Line 1: the first finding of the kind ANSWER. */
void aorta_hwq_answer_text(const struct aorta_hwq_findings *findings, struct aorta_text *out);
/* Line 1, an empty line, the rows and the warnings. */
void aorta_hwq_findings_text(const struct aorta_hwq_findings *findings, struct aorta_text *out);
/* Keys with the answer's sentence, the sentences of all findings or of warnings, and all facts. */
void aorta_hwq_answer_json(const char *key, const struct aorta_hwq_findings *findings, struct aorta_json *json);
void aorta_hwq_sentences_json(const char *key, const struct aorta_hwq_findings *findings, bool warnings,
                              struct aorta_json *json);
void aorta_hwq_facts_json(const struct aorta_hwq_findings *findings, struct aorta_json *json);

#endif
