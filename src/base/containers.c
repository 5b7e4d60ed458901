#include "base/intern.h"
#include "base/place.h"
#include "base/printable.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 16, BLOCK_BYTES = 4096, LARGEST_BLOCK = 65536 };

struct aorta_arena_block {
    struct aorta_arena_block *next;
    size_t used, capacity;
    _Alignas(ALIGNMENT) unsigned char bytes[];
};

static struct aorta_arena_block *add_block(struct aorta_arena *arena, size_t bytes, bool zeroed) {
    size_t capacity = arena->blocks ? 2 * arena->blocks->capacity : BLOCK_BYTES;
    if (capacity > LARGEST_BLOCK) capacity = LARGEST_BLOCK;
    if (capacity < bytes) capacity = bytes;
    zeroed |= capacity > bytes; /* later allocations from the block need zeroes */
    struct aorta_arena_block *block = zeroed ? calloc(1, sizeof *block + capacity) : malloc(sizeof *block + capacity);
    if (!block) return NULL;
    const bool full = arena->blocks && capacity == bytes; /* the one before still has space */
    struct aorta_arena_block **place = full ? &arena->blocks->next : &arena->blocks;
    *block = (struct aorta_arena_block){.next = *place, .capacity = capacity};
    *place = block;
    return block;
}

static void *take(struct aorta_arena *arena, size_t bytes, bool zeroed) {
    struct aorta_arena_block *block = arena->blocks;
    arena->failed |= bytes > PTRDIFF_MAX - BLOCK_BYTES; /* no object is larger, and sanitizers end programs that ask */
    if (arena->failed) return NULL;
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!block || block->capacity - block->used < bytes) block = add_block(arena, bytes, zeroed);
    arena->failed = !block;
    if (!block) return NULL;
    void *memory = block->bytes + block->used;
    block->used += bytes;
    return memory;
}

void *aorta_arena_alloc(struct aorta_arena *arena, size_t bytes) {
    return take(arena, bytes, true);
}

void *aorta_arena_raw(struct aorta_arena *arena, size_t bytes) {
    return take(arena, bytes, false);
}

char *aorta_arena_strdup(struct aorta_arena *arena, const char *string) {
    size_t bytes = strlen(string) + 1;
    char *copy = aorta_arena_alloc(arena, bytes);
    if (copy) memcpy(copy, string, bytes);
    return copy;
}

char *aorta_arena_printf(struct aorta_arena *arena, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : aorta_arena_alloc(arena, (size_t)length + 1);
    if (!text) return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}

void *aorta_arena_grow(struct aorta_arena *arena, void *items, size_t count, size_t *capacity, size_t bytes) {
    if (count < *capacity) return items;
    const size_t larger = *capacity ? 2 * *capacity : 16;
    void *grown = aorta_arena_alloc(arena, larger < PTRDIFF_MAX / bytes ? larger * bytes : SIZE_MAX);
    if (!grown) return NULL;
    if (count) memcpy(grown, items, count * bytes);
    *capacity = larger;
    return grown;
}

void *aorta_arena_append(struct aorta_arena *arena, void *array, size_t *capacity, size_t *count, const void *item,
                         size_t bytes) {
    void *items;
    memcpy(&items, array, sizeof items); /* a pointer of another type may not be read as void * */
    items = aorta_arena_grow(arena, items, *count, capacity, bytes);
    if (!items) return NULL;
    memcpy(array, &items, sizeof items);
    return memcpy((char *)items + (*count)++ * bytes, item, bytes);
}

void aorta_words_add(struct aorta_words *words, const char *word) {
    const size_t used = words->items ? words->count + 1 : 0; /* with the NULL after the last one */
    char **items = aorta_arena_grow(words->arena, words->items, used, &words->capacity, sizeof *items);
    if (!items) return;
    words->items = items;
    words->items[words->count++] = (char *)word;
    words->items[words->count] = NULL;
}

void aorta_words_add_all(struct aorta_words *words, const char *const *all) {
    for (; *all; all++) aorta_words_add(words, *all);
}

void aorta_arena_free(struct aorta_arena *arena) {
    while (arena->blocks) {
        struct aorta_arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
    arena->failed = false;
}

void aorta_arena_end(struct aorta_arena *part, struct aorta_arena *whole) {
    whole->failed |= part->failed;
    aorta_arena_free(part);
}

aorta_status aorta_arena_check(const struct aorta_arena *arena, const char *what) {
    return arena->failed ? AORTA_ERROR(AORTA_MEMORY, "no memory for %s", what) : NULL;
}

/* ---- arrays ---- */

bool aorta_array_grow(void *array, size_t *capacity, size_t count, size_t size) {
    enum { FIRST = 16 };
    const size_t half = *capacity / 2, larger = *capacity > SIZE_MAX - half ? SIZE_MAX : *capacity + half;
    size_t wanted = larger > FIRST ? larger : FIRST;
    if (wanted < count) wanted = count;
    if (wanted > PTRDIFF_MAX / size) return false; /* no object is larger, and sanitizers end programs that ask */
    void *items;
    memcpy(&items, array, sizeof items); /* a pointer of another type may not be read as void * */
    items = realloc(items, wanted * size);
    if (!items) return false;
    memcpy(array, &items, sizeof items);
    *capacity = wanted;
    return true;
}

bool aorta_array_append(void *array, size_t *capacity, size_t *count, const void *item, size_t size) {
    if (!aorta_array_fit(array, capacity, *count + 1, size)) return false;
    char *items;
    memcpy(&items, array, sizeof items);
    memcpy(items + (*count)++ * size, item, size);
    return true;
}

bool aorta_array_extend(void *array, size_t *count, size_t wanted, size_t size) {
    const size_t before = *count;
    if (!aorta_array_fit(array, count, wanted, size)) return false;
    char *items;
    memcpy(&items, array, sizeof items);
    if (*count > before) memset(items + before * size, 0, (*count - before) * size);
    return true;
}

void *aorta_array_copy(const void *items, size_t count, size_t size) {
    void *copy = malloc(count ? count * size : 1);
    if (copy && count) memcpy(copy, items, count * size);
    return copy;
}

void aorta_array_trim(void *array, size_t count, size_t size) {
    void *items;
    memcpy(&items, array, sizeof items);
    void *smaller = count ? realloc(items, count * size) : NULL;
    if (!count) free(items);
    if (count && !smaller) return; /* it stays as it is */
    memcpy(array, &smaller, sizeof smaller);
}

aorta_status aorta_array_reserve(void *array, size_t *capacity, size_t count, size_t size, const char *items) {
    if (aorta_array_fit(array, capacity, count, size)) return NULL;
    return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu %s", count, items);
}

/* ---- numbered texts and keys ---- */

struct numbered {
    const char *text;
    size_t length;
    uint32_t hash;
};

static uint64_t hash_of_numbered(const void *of, uint32_t number) {
    const struct aorta_texts *texts = of;
    return texts->entries[number].hash;
}

static bool is_numbered(const void *of, uint32_t number, const void *key) {
    const struct aorta_texts *texts = of;
    const struct aorta_text_entry *entry = &texts->entries[number];
    const struct numbered *text = key;
    return entry->hash == text->hash && entry->length == text->length && !memcmp(entry->raw, text->text, text->length);
}

uint32_t aorta_texts_add(struct aorta_texts *texts, const char *text, size_t length) {
    if (!aorta_table_reserve(&texts->table, texts->count + 1, hash_of_numbered, texts)) return UINT32_MAX;
    const struct numbered key = {text, length, (uint32_t)aorta_hash_bytes(text, length)};
    uint32_t *slot = aorta_table_slot(&texts->table, key.hash, is_numbered, texts, &key);
    if (*slot) return *slot - 1;
    if (length > UINT32_MAX || texts->count >= UINT32_MAX - 1) return UINT32_MAX;
    if (!aorta_array_fit(&texts->entries, &texts->capacity, texts->count + 1, sizeof *texts->entries))
        return UINT32_MAX;
    char *raw = aorta_arena_alloc(&texts->arena, length + 1), *shown = raw;
    if (!raw) return UINT32_MAX;
    memcpy(raw, text, length);
    if (!aorta_is_printable(raw, length, false)) {
        shown = aorta_arena_alloc(&texts->arena, length + 1);
        if (!shown) return UINT32_MAX;
        memcpy(shown, raw, length);
        aorta_make_printable(shown, length, false);
    }
    texts->entries[texts->count] = (struct aorta_text_entry){shown, raw, (uint32_t)length, key.hash};
    *slot = (uint32_t)++texts->count;
    return *slot - 1;
}

const char *aorta_intern_slice(struct aorta_texts *texts, const char *text, size_t length) {
    const uint32_t number = aorta_texts_add(texts, text, length);
    return number == UINT32_MAX ? NULL : texts->entries[number].raw;
}

const char *aorta_intern(struct aorta_texts *texts, const char *string) {
    return aorta_intern_slice(texts, string, strlen(string));
}

void aorta_texts_free(struct aorta_texts *texts) {
    aorta_arena_free(&texts->arena);
    free(texts->entries);
    aorta_table_free(&texts->table);
    memset(texts, 0, sizeof *texts);
}

static uint64_t hash_of_key(const void *of, uint32_t number) {
    const struct aorta_keys *keys = of;
    return aorta_hash_bytes(keys->items[number], sizeof keys->items[0]);
}

static bool is_key(const void *of, uint32_t number, const void *key) {
    const struct aorta_keys *keys = of;
    return !memcmp(keys->items[number], key, sizeof keys->items[0]);
}

uint32_t aorta_keys_add(struct aorta_keys *keys, int64_t a, int64_t b, int64_t c, struct aorta_arena *memory) {
    const int64_t key[3] = {a, b, c};
    if (keys->count && is_key(keys, (uint32_t)keys->count - 1, key)) return (uint32_t)keys->count - 1;
    memory->failed = memory->failed ||
                     !aorta_array_fit(&keys->items, &keys->capacity, keys->count + 1, sizeof keys->items[0]) ||
                     !aorta_table_reserve(&keys->table, keys->count + 1, hash_of_key, keys);
    if (memory->failed) return UINT32_MAX;
    uint32_t *slot = aorta_table_slot(&keys->table, aorta_hash_bytes(key, sizeof key), is_key, keys, key);
    if (*slot) return *slot - 1;
    memcpy(keys->items[keys->count], key, sizeof key);
    *slot = (uint32_t)++keys->count;
    return *slot - 1;
}

void aorta_keys_free(struct aorta_keys *keys) {
    free(keys->items);
    aorta_table_free(&keys->table);
}

/* ---- places in memory ---- */

enum { PLACE_ALIGNMENT = 256 };

size_t aorta_place_round(size_t bytes) {
    return (bytes + PLACE_ALIGNMENT - 1) / PLACE_ALIGNMENT * PLACE_ALIGNMENT;
}

void *aorta_place_take(struct aorta_place *place, size_t bytes) {
    const size_t skip = -(uintptr_t)place->memory % PLACE_ALIGNMENT;
    if (!place->memory || place->bytes < skip || place->bytes - skip < bytes) return NULL;
    char *memory = (char *)place->memory + skip;
    *place = (struct aorta_place){memory + bytes, place->bytes - skip - bytes};
    return memory;
}

/* ---- tables by key ---- */

bool aorta_table_reserve(struct aorta_table *table, size_t count, uint64_t (*hash_of)(const void *of, uint32_t number),
                         const void *of) {
    enum { FIRST = 64 };
    size_t slot_count = table->slot_count ? table->slot_count : FIRST;
    while (slot_count / 2 < count) slot_count *= 2;
    if (slot_count == table->slot_count) return true;
    uint32_t *slots = calloc(slot_count, sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < table->slot_count; i++) {
        if (!table->slots[i]) continue;
        size_t at = (size_t)hash_of(of, table->slots[i] - 1) & (slot_count - 1);
        while (slots[at]) at = (at + 1) & (slot_count - 1);
        slots[at] = table->slots[i];
    }
    free(table->slots);
    table->slots = slots;
    table->slot_count = slot_count;
    return true;
}

void aorta_table_free(struct aorta_table *table) {
    free(table->slots);
    *table = (struct aorta_table){0};
}
