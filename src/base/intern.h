/* Texts of any bytes, and keys of three numbers. Each is stored once and has a number. */
#ifndef AORTA_BASE_INTERN_H
#define AORTA_BASE_INTERN_H

#include "base/arena.h"
#include "base/table.h"

struct aorta_text_entry {
    const char *text; /* in the arena, printable */
    const char *raw;  /* as in the file; the same pointer if printable */
    uint32_t length, hash;
};

struct aorta_texts { /* zero-initialise */
    struct aorta_arena arena;
    struct aorta_text_entry *entries;
    size_t count, capacity;
    struct aorta_table table;
};

/* The text's number; UINT32_MAX when memory is exhausted. */
uint32_t aorta_texts_add(struct aorta_texts *texts, const char *text, size_t length);
/* The interned text: equal texts have the same address. NULL if memory is exhausted. */
const char *aorta_intern(struct aorta_texts *texts, const char *string);
const char *aorta_intern_slice(struct aorta_texts *texts, const char *text, size_t length);
void aorta_texts_free(struct aorta_texts *texts);

struct aorta_keys { /* zero-initialise */
    int64_t (*items)[3];
    size_t count, capacity;
    struct aorta_table table;
};

/* The key's number; UINT32_MAX, and `memory` has failed, when memory is exhausted. */
uint32_t aorta_keys_add(struct aorta_keys *keys, int64_t a, int64_t b, int64_t c, struct aorta_arena *memory);
void aorta_keys_free(struct aorta_keys *keys);

#endif
