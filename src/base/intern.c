#include "base/intern.h"

#include "base/array.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

struct slice {
    const char *text;
    size_t length;
};

static uint64_t hash_of(const void *of, uint32_t number) {
    const struct aorta_intern *set = of;
    return aorta_hash_bytes(set->strings[number], strlen(set->strings[number]));
}

static bool is_slice(const void *of, uint32_t number, const void *key) {
    const struct aorta_intern *set = of;
    const struct slice *slice = key;
    return strncmp(set->strings[number], slice->text, slice->length) == 0 && !set->strings[number][slice->length];
}

const char *aorta_intern_slice(struct aorta_intern *set, const char *text, size_t length) {
    if (!aorta_table_reserve(&set->table, set->count + 1, hash_of, set) ||
        !aorta_array_fit(&set->strings, &set->capacity, set->count + 1, sizeof *set->strings))
        return NULL;
    const struct slice slice = {text, length};
    uint32_t *slot = aorta_table_slot(&set->table, aorta_hash_bytes(text, length), is_slice, set, &slice);
    if (*slot) return set->strings[*slot - 1];
    char *stored = aorta_arena_alloc(&set->arena, length + 1);
    if (!stored) return NULL;
    memcpy(stored, text, length);
    stored[length] = '\0';
    set->strings[set->count++] = stored;
    *slot = (uint32_t)set->count;
    return stored;
}

const char *aorta_intern(struct aorta_intern *set, const char *string) {
    return aorta_intern_slice(set, string, strlen(string));
}

void aorta_intern_free(struct aorta_intern *set) {
    aorta_arena_free(&set->arena);
    aorta_table_free(&set->table);
    free(set->strings);
    memset(set, 0, sizeof *set);
}
