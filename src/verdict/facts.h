/* The facts of a finding: values with a key, a unit and a place. No fact is a sentence: the renderers of src/report
 * write the sentences from tables. */
#ifndef AORTA_VERDICT_FACTS_H
#define AORTA_VERDICT_FACTS_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum aorta_fact_key {
    AORTA_FACT_NONE,
#define FACT(name, key, unit, help, words) AORTA_FACT_##name,
#include "verdict/facts.def"
#undef FACT
    AORTA_FACT_COUNT
};

enum aorta_unit {
    AORTA_UNIT_FLAG,  /* the fact is true; its value is 1 */
    AORTA_UNIT_COUNT, /* may be a fraction: calls per step */
    AORTA_UNIT_MS,
    AORTA_UNIT_GAIN, /* ms, estimated */
    AORTA_UNIT_US,
    AORTA_UNIT_SHARE, /* 0.25 is 25% */
    AORTA_UNIT_GBPS,  /* 10^9 bytes per second */
    AORTA_UNIT_GIB,
};

/* Place of a fact. Texts are in the arena or static; NULL: unknown. */
struct aorta_fact_place {
    const char *name;     /* full name of an operation, kernel, layer, call or variable */
    const char *after;    /* what the host did before */
    const char *shape;    /* "[[8, 1024, 3072], []]" */
    const char *host;     /* range or call that the host was in */
    double count;         /* runs per step; 0: unknown */
    int rank;             /* -1: unknown, or there is only one rank */
    int64_t step, stream; /* INT64_MIN: unknown */
};

struct aorta_fact {
    enum aorta_fact_key key;
    double value;
    const char *text; /* static explanation from a table; NULL: none */
    struct aorta_fact_place place;
};

/* Facts of a finding in the order in which they were added. Each key occurs once. */
struct aorta_facts {
    struct aorta_arena *arena; /* borrowed; callers check once, at the end, whether it failed */
    struct aorta_fact *items;
    size_t count, capacity;
    struct aorta_fact lost; /* returned after a failure, so that callers need no check */
};

/* Adds or replaces the fact with this key. Its place is empty. Never returns NULL. */
struct aorta_fact *aorta_facts_set(struct aorta_facts *facts, enum aorta_fact_key key, double value);
/* As aorta_facts_set, with a copy of the name. */
struct aorta_fact *aorta_facts_set_named(struct aorta_facts *facts, enum aorta_fact_key key, double value,
                                         const char *name);
void aorta_facts_flag(struct aorta_facts *facts, enum aorta_fact_key key);
/* A copy of the text in the facts' arena. NULL stays NULL. */
const char *aorta_facts_text(struct aorta_facts *facts, const char *text);
const struct aorta_fact *aorta_facts_find(const struct aorta_facts *facts, enum aorta_fact_key key); /* NULL: none */
bool aorta_facts_has(const struct aorta_facts *facts, enum aorta_fact_key key);
void aorta_facts_remove(struct aorta_facts *facts, enum aorta_fact_key key);

struct aorta_fact_row {
    const char *key, *help, *words; /* "idle_unqueued"; `words`: of a flag, or of a figure that advice depends on */
    enum aorta_unit unit;
};
extern const struct aorta_fact_row aorta_fact_rows[AORTA_FACT_COUNT];
/* AORTA_FACT_NONE: no such fact. */
enum aorta_fact_key aorta_fact_named(const char *name, size_t length);
const char *aorta_unit_name(enum aorta_unit unit); /* "ms", as in the JSON; "" for flags and counts */

#endif
