/* Findings of a command: facts, and a table row with the template of a sentence. They make text and JSON. */
#ifndef AORTA_BASE_FOUND_H
#define AORTA_BASE_FOUND_H

#include "base/json.h"

enum aorta_found_kind {
    AORTA_FOUND_LIMIT,  /* of an iteration */
    AORTA_FOUND_ANSWER, /* to the question of the command: line 1 */
    AORTA_FOUND_NOTE,
    AORTA_FOUND_ROW, /* a fact whose label is the key */
    AORTA_FOUND_WARNING,
    AORTA_FOUND_KINDS
};

/* A template names facts in braces, "{share%}" as a percentage, "{time#}" without its unit, "{count:noun}" with its
 * noun; with an unknown fact in brackets only these are omitted. */
struct aorta_found_row {
    enum aorta_found_kind kind;
    const char *key;    /* "launches"; NULL for an unknown limit */
    const char *advice; /* NULL: none */
    const char *template;
};

struct aorta_found_fact {
    const char *key;
    double value;      /* NaN: not known */
    const char *unit;  /* "ms", "share", "change" (share with its sign); NULL: a count */
    const char *text;  /* what the value is if it is no number */
    const char *place; /* where it was measured; NULL: nowhere in particular */
};
/* "0.411 us", "97%" */
void aorta_found_value_text(double value, const char *unit, struct aorta_text *out);
/* Whether the word of a template names that key. */
bool aorta_found_word_is(const char *word, size_t length, const char *key);

struct aorta_found_list { /* zero-initialise */
    struct aorta_arena arena;
    struct aorta_found {
        unsigned finding; /* place in the table */
        const struct aorta_found_row *row;
        const struct aorta_found_fact *facts; /* ends with a NULL key */
        const char *place;                    /* of facts without one: "8 streams"; NULL: none */
    } * items;
    size_t count, capacity;
    const char *place; /* of findings added from now on; must live as long as the list */
};

/* Adds a finding of the table. Copies the facts, up to a NULL key; NULL: none. A repeated warning is not added. If
 * memory is exhausted the arena has failed. */
void aorta_found_add(struct aorta_found_list *list, const struct aorta_found_row *table, unsigned finding,
                     const struct aorta_found_fact *facts);
void aorta_found_free(struct aorta_found_list *list);

/* Writes the place and the sentence, without a full stop. */
void aorta_found_sentence(const struct aorta_found *found, struct aorta_text *out);
/* Line 1: the first finding of the kind ANSWER. */
void aorta_found_answer_text(const struct aorta_found_list *list, struct aorta_text *out);
/* Line 1, an empty line, the rows and the warnings. */
void aorta_found_text(const struct aorta_found_list *list, struct aorta_text *out);
void aorta_found_notes_text(const struct aorta_found_list *list, struct aorta_text *out);
/* Keys with the answer's sentence, the sentences of a kind (KINDS: all), and all facts. */
void aorta_found_answer_json(const char *key, const struct aorta_found_list *list, struct aorta_json *json);
void aorta_found_sentences_json(const char *key, const struct aorta_found_list *list, enum aorta_found_kind kind,
                                struct aorta_json *json);
void aorta_found_facts_json(const struct aorta_found_list *list, struct aorta_json *json);
void aorta_found_schema(struct aorta_json *json); /* the key "facts" */

#endif
