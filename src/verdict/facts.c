#include "verdict/facts.h"

#include <string.h>

static const struct {
    const char *key, *help, *words;
    enum aorta_unit unit;
} rows[AORTA_FACT_COUNT] = {
#define FACT(name, key, unit, help, words) [AORTA_FACT_##name] = {key, help, words, AORTA_UNIT_##unit},
#include "verdict/facts.def"
#undef FACT
};

static struct aorta_fact *find(const struct aorta_facts *facts, enum aorta_fact_key key) {
    for (size_t i = 0; i < facts->count; i++)
        if (facts->items[i].key == key) return &facts->items[i];
    return NULL;
}

static struct aorta_fact *add(struct aorta_facts *facts) {
    void *items = aorta_arena_grow(facts->arena, facts->items, facts->count, &facts->capacity, sizeof *facts->items);
    if (!items) return &facts->lost;
    facts->items = items;
    return &facts->items[facts->count++];
}

struct aorta_fact *aorta_facts_set(struct aorta_facts *facts, enum aorta_fact_key key, double value) {
    struct aorta_fact *fact = find(facts, key);
    if (!fact) fact = add(facts);
    *fact = (struct aorta_fact){key, value, NULL, {.rank = -1, .step = INT64_MIN, .stream = INT64_MIN}};
    return fact;
}

void aorta_facts_flag(struct aorta_facts *facts, enum aorta_fact_key key) {
    (void)aorta_facts_set(facts, key, 1);
}

const char *aorta_facts_text(struct aorta_facts *facts, const char *text) {
    return text ? aorta_arena_strdup(facts->arena, text) : NULL;
}

const struct aorta_fact *aorta_facts_find(const struct aorta_facts *facts, enum aorta_fact_key key) {
    return find(facts, key);
}

bool aorta_facts_has(const struct aorta_facts *facts, enum aorta_fact_key key) {
    return find(facts, key) != NULL;
}

void aorta_facts_remove(struct aorta_facts *facts, enum aorta_fact_key key) {
    struct aorta_fact *fact = find(facts, key);
    if (!fact) return;
    const size_t after = facts->count - (size_t)(fact - facts->items) - 1;
    memmove(fact, fact + 1, after * sizeof *fact);
    facts->count--;
}

const char *aorta_fact_name(enum aorta_fact_key key) {
    return rows[key].key;
}

enum aorta_unit aorta_fact_unit(enum aorta_fact_key key) {
    return rows[key].unit;
}

const char *aorta_fact_words(enum aorta_fact_key key) {
    return rows[key].words;
}

const char *aorta_fact_help(enum aorta_fact_key key) {
    return rows[key].help;
}

enum aorta_fact_key aorta_fact_named(const char *name, size_t length) {
    for (int key = 1; key < AORTA_FACT_COUNT; key++)
        if (strlen(rows[key].key) == length && strncmp(rows[key].key, name, length) == 0)
            return (enum aorta_fact_key)key;
    return AORTA_FACT_NONE;
}

const char *aorta_unit_name(enum aorta_unit unit) {
    static const char *const names[] = {
        [AORTA_UNIT_FLAG] = "",   [AORTA_UNIT_COUNT] = "",      [AORTA_UNIT_MS] = "ms",     [AORTA_UNIT_US] = "us",
        [AORTA_UNIT_GAIN] = "ms", [AORTA_UNIT_SHARE] = "share", [AORTA_UNIT_GBPS] = "GB/s", [AORTA_UNIT_GIB] = "GiB"};
    return names[unit];
}
