#include "verdict/facts.h"

#include <string.h>

const struct aorta_fact_row aorta_fact_rows[AORTA_FACT_COUNT] = {
#define FACT(name, key, unit, help, words) [AORTA_FACT_##name] = {key, help, words, AORTA_UNIT_##unit},
#include "verdict/facts.def"
#undef FACT
};

static struct aorta_fact *find(const struct aorta_facts *facts, enum aorta_fact_key key) {
    for (size_t i = 0; i < facts->count; i++)
        if (facts->items[i].key == key) return &facts->items[i];
    return NULL;
}

struct aorta_fact *aorta_facts_set(struct aorta_facts *facts, enum aorta_fact_key key, double value) {
    const struct aorta_fact new = {key, value, NULL, {.rank = -1, .step = INT64_MIN, .stream = INT64_MIN}};
    struct aorta_fact *fact = find(facts, key);
    if (!fact)
        fact = aorta_arena_append(facts->arena, &facts->items, &facts->capacity, &facts->count, &new, sizeof new);
    if (!fact) fact = &facts->lost;
    *fact = new;
    return fact;
}

struct aorta_fact *aorta_facts_set_named(struct aorta_facts *facts, enum aorta_fact_key key, double value,
                                         const char *name) {
    struct aorta_fact *fact = aorta_facts_set(facts, key, value);
    fact->place.name = aorta_facts_text(facts, name);
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

enum aorta_fact_key aorta_fact_named(const char *name, size_t length) {
    for (int key = 1; key < AORTA_FACT_COUNT; key++)
        if (strlen(aorta_fact_rows[key].key) == length && strncmp(aorta_fact_rows[key].key, name, length) == 0)
            return (enum aorta_fact_key)key;
    return AORTA_FACT_NONE;
}

const char *aorta_unit_name(enum aorta_unit unit) {
    static const char *const names[] = {
        [AORTA_UNIT_FLAG] = "",   [AORTA_UNIT_COUNT] = "",      [AORTA_UNIT_MS] = "ms",     [AORTA_UNIT_US] = "us",
        [AORTA_UNIT_GAIN] = "ms", [AORTA_UNIT_SHARE] = "share", [AORTA_UNIT_GBPS] = "GB/s", [AORTA_UNIT_GIB] = "GiB"};
    return names[unit];
}
