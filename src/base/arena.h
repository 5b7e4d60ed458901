/* Memory that is freed all at once: for objects that live as long as their owner, or as long as a phase of the work.
 *
 * The first failed allocation sets `failed`, and later ones return NULL, too. Functions of a phase then return early
 * without an error. The phase checks once, at its end (aorta_arena_check). Failed allocations outside of the arena are
 * added to it: arena->failed |= set.failed. */
#ifndef AORTA_BASE_ARENA_H
#define AORTA_BASE_ARENA_H

#include "base/array.h"

struct aorta_arena_block;
struct aorta_arena { /* zero-initialise */
    struct aorta_arena_block *blocks;
    bool failed;
};

void *aorta_arena_alloc(struct aorta_arena *arena, size_t bytes); /* zeroed, aligned to 16; NULL when exhausted */
void *aorta_arena_raw(struct aorta_arena *arena, size_t bytes);   /* the same with any content, for large arrays */
char *aorta_arena_strdup(struct aorta_arena *arena, const char *string);
char *aorta_arena_printf(struct aorta_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Makes space for one more element of `bytes` in an array of the arena. Returns `items` or a copy twice as large. NULL
 * if memory is exhausted. Start with NULL and a capacity of 0. */
void *aorta_arena_grow(struct aorta_arena *arena, void *items, size_t count, size_t *capacity, size_t bytes);
/* Appends a copy of the item to such an array, whose address is `array`. Returns the copy, or NULL if memory is
 * exhausted. */
void *aorta_arena_append(struct aorta_arena *arena, void *array, size_t *capacity, size_t *count, const void *item,
                         size_t bytes);

/* Words of a command, in an arena. */
struct aorta_words {
    struct aorta_arena *arena;
    char **items; /* NULL ends them */
    size_t count, capacity;
};
void aorta_words_add(struct aorta_words *words, const char *word);           /* which lives as long */
void aorta_words_add_all(struct aorta_words *words, const char *const *all); /* NULL ends them */

void aorta_arena_free(struct aorta_arena *arena); /* the arena is empty then, and has not failed */
/* Frees the memory of a part of the phase, and passes its failure on to the whole. */
void aorta_arena_end(struct aorta_arena *part, struct aorta_arena *whole);
/* AORTA_MEMORY if an allocation failed: "no memory for the verdict". */
AORTA_MUST_USE aorta_status aorta_arena_check(const struct aorta_arena *arena, const char *what);

#endif
