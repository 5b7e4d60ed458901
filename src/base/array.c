#include "base/array.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

bool aorta_array_extend(void *array, size_t *count, size_t wanted, size_t size) {
    const size_t before = *count;
    if (!aorta_array_fit(array, count, wanted, size)) return false;
    char *items;
    memcpy(&items, array, sizeof items);
    if (*count > before) memset(items + before * size, 0, (*count - before) * size);
    return true;
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
