#include "base/intern.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* FNV-1a (Fowler, Noll, Vo), 64 bits. */
static uint64_t hash_of(const char *text, size_t length) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}

static int is_slice(const char *string, const char *text, size_t length) {
    return strncmp(string, text, length) == 0 && !string[length];
}

/* The slot that holds the string, or the empty one where it belongs. */
static size_t find_slot(const char *const *slots, size_t capacity, const char *text, size_t length) {
    size_t at = (size_t)hash_of(text, length) & (capacity - 1);
    while (slots[at] && !is_slice(slots[at], text, length)) at = (at + 1) & (capacity - 1);
    return at;
}

static int grow(struct aorta_intern *set) {
    size_t capacity = set->capacity ? 2 * set->capacity : 256;
    const char **slots = calloc(capacity, sizeof *slots);
    if (!slots) return 0;
    for (size_t i = 0; i < set->capacity; i++)
        if (set->slots[i]) slots[find_slot(slots, capacity, set->slots[i], strlen(set->slots[i]))] = set->slots[i];
    free(set->slots);
    set->slots = slots;
    set->capacity = capacity;
    return 1;
}

const char *aorta_intern_slice(struct aorta_intern *set, const char *text, size_t length) {
    if (2 * (set->count + 1) > set->capacity && !grow(set)) return NULL;
    size_t at = find_slot(set->slots, set->capacity, text, length);
    if (set->slots[at]) return set->slots[at];
    char *stored = aorta_arena_alloc(&set->arena, length + 1);
    if (!stored) return NULL;
    memcpy(stored, text, length);
    stored[length] = '\0';
    set->count++;
    return set->slots[at] = stored;
}

const char *aorta_intern(struct aorta_intern *set, const char *string) {
    return aorta_intern_slice(set, string, strlen(string));
}

void aorta_intern_free(struct aorta_intern *set) {
    aorta_arena_free(&set->arena);
    free(set->slots);
    memset(set, 0, sizeof *set);
}
