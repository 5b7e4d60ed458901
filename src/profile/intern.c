#include "profile/intern.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* FNV-1a (Fowler, Noll, Vo), 64 bits. */
static uint64_t hash_of(const char *string) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *string; string++) hash = (hash ^ (unsigned char)*string) * 0x100000001b3u;
    return hash;
}

/* The slot that holds the string, or the empty one where it belongs. */
static size_t find_slot(const char *const *slots, size_t capacity, const char *string) {
    size_t at = (size_t)hash_of(string) & (capacity - 1);
    while (slots[at] && strcmp(slots[at], string) != 0) at = (at + 1) & (capacity - 1);
    return at;
}

static int grow(struct aorta_intern *set) {
    size_t capacity = set->capacity ? 2 * set->capacity : 256;
    const char **slots = calloc(capacity, sizeof *slots);
    if (!slots) return 0;
    for (size_t i = 0; i < set->capacity; i++)
        if (set->slots[i]) slots[find_slot(slots, capacity, set->slots[i])] = set->slots[i];
    free(set->slots);
    set->slots = slots;
    set->capacity = capacity;
    return 1;
}

const char *aorta_intern(struct aorta_intern *set, const char *string) {
    if (2 * (set->count + 1) > set->capacity && !grow(set)) return NULL;
    size_t at = find_slot(set->slots, set->capacity, string);
    if (set->slots[at]) return set->slots[at];
    set->slots[at] = aorta_arena_strdup(&set->arena, string);
    if (set->slots[at]) set->count++;
    return set->slots[at];
}

void aorta_intern_free(struct aorta_intern *set) {
    aorta_arena_free(&set->arena);
    free(set->slots);
    memset(set, 0, sizeof *set);
}
