/* Strings stored once: equal strings have one address while the set lives. */
#ifndef AORTA_BASE_INTERN_H
#define AORTA_BASE_INTERN_H

#include "base/arena.h"
#include "base/table.h"

#include <stddef.h>

struct aorta_intern { /* zero-initialise */
    struct aorta_arena arena;
    struct aorta_table table;
    const char **strings;
    size_t count, capacity;
};

const char *aorta_intern(struct aorta_intern *set, const char *string); /* NULL when memory is exhausted */
/* aorta_intern for `length` bytes without NUL. */
const char *aorta_intern_slice(struct aorta_intern *set, const char *text, size_t length);
void aorta_intern_free(struct aorta_intern *set);

#endif
