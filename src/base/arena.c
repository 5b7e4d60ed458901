#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
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
    zeroed |= capacity > bytes; /* something else follows */
    struct aorta_arena_block *block = zeroed ? calloc(1, sizeof *block + capacity) : malloc(sizeof *block + capacity);
    if (!block) return NULL;
    *block = (struct aorta_arena_block){.next = arena->blocks, .capacity = capacity};
    arena->blocks = block;
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
