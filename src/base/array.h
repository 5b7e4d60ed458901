/* Arrays that grow: a pointer, its capacity in items, and the owner's count of those in use. */
#ifndef AORTA_BASE_ARRAY_H
#define AORTA_BASE_ARRAY_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Loops over `count` items. The loop may change items but not add any. */
#define AORTA_EACH(type, item, items, count)                                                                           \
    for (type *item = (items), *item##_end = (count) ? item + (count) : item; item < item##_end; item++)

/* For aorta_array_fit. */
AORTA_MUST_USE bool aorta_array_grow(void *array, size_t *capacity, size_t count, size_t size);

/* Makes capacity for `count` items of `size` bytes; capacity grows by half at least. `array` is the address of the
 * typed pointer, which is from malloc or NULL: aorta_array_fit(&list->items, &list->capacity, list->count + 1,
 * sizeof *list->items). False when memory is exhausted: pointer, capacity and items are then as before. */
AORTA_MUST_USE static inline bool aorta_array_fit(void *array, size_t *capacity, size_t count, size_t size) {
    return count <= *capacity || aorta_array_grow(array, capacity, count, size);
}

/* Appends a copy of the item. False when memory is exhausted: the array is then as before. */
AORTA_MUST_USE bool aorta_array_append(void *array, size_t *capacity, size_t *count, const void *item, size_t size);

/* Extends an array whose items are all in use to at least `wanted` items. New items are zero. */
AORTA_MUST_USE bool aorta_array_extend(void *array, size_t *count, size_t wanted, size_t size);

/* Returns a copy, also for a `count` of 0, which the caller frees. NULL if memory is exhausted. */
void *aorta_array_copy(const void *items, size_t count, size_t size);

/* Frees the memory after `count` items. With a count of 0 the pointer becomes NULL. */
void aorta_array_trim(void *array, size_t count, size_t size);

/* aorta_array_fit with AORTA_MEMORY: "no memory for 4096 kernels". */
AORTA_MUST_USE aorta_status aorta_array_reserve(void *array, size_t *capacity, size_t count, size_t size,
                                                const char *items);

#endif
