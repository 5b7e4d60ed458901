/* Orders for qsort and bsearch. */
#ifndef AORTA_BASE_SORT_H
#define AORTA_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

/* Orders structs by their members, the first member first. NaN compares equal to all numbers:
 *
 *     static AORTA_ORDER(by_time, struct call, AORTA_UP(start_ns) AORTA_DOWN(end_ns) AORTA_TEXT(name));
 */
#define AORTA_ORDER(order, type, keys)                                                                                 \
    int order(const void *left, const void *right) {                                                                   \
        const type *a = left, *b = right;                                                                              \
        keys return 0;                                                                                                 \
    }
/* … of pointers to such structs. */
#define AORTA_POINTER_ORDER(order, type, keys)                                                                         \
    int order(const void *left, const void *right) {                                                                   \
        const type *a = *(const type *const *)left, *b = *(const type *const *)right;                                  \
        keys return 0;                                                                                                 \
    }
#define AORTA_UP(member)                                                                                               \
    if (a->member < b->member) return -1;                                                                              \
    if (a->member > b->member) return 1;
#define AORTA_DOWN(member)                                                                                             \
    if (a->member > b->member) return -1;                                                                              \
    if (a->member < b->member) return 1;
#define AORTA_TEXT(member) AORTA_BY(strcmp(a->member, b->member))
#define AORTA_THEN(order) AORTA_BY(order(a, b)) /* another order */
#define AORTA_BY(expression)                                                                                           \
    {                                                                                                                  \
        const int by = (expression);                                                                                   \
        if (by) return by;                                                                                             \
    }

static inline int aorta_order_int64(int64_t left, int64_t right) {
    return (left > right) - (left < right);
}

/* For pointers to such values, and for structs that begin with one. */
int aorta_by_int32(const void *left, const void *right);
int aorta_by_int64(const void *left, const void *right);
int aorta_by_uint32(const void *left, const void *right);
int aorta_by_uint64(const void *left, const void *right);
int aorta_by_double(const void *left, const void *right);
int aorta_by_text(const void *left, const void *right);       /* as strcmp */
int aorta_by_int64_pair(const void *left, const void *right); /* by the first, then by the second */
int aorta_by_uint32_pair(const void *left, const void *right);

/* For items of `size` bytes, ascending by the int64 at `offset` in each: the number of items with less than the value,
 * and with at most the value. NULL for no items is fine. */
static inline size_t aorta_count_before(const void *items, size_t count, size_t size, size_t offset, int64_t value) {
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const void *at = (const char *)items + middle * size + offset;
        if (*(const int64_t *)at < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static inline size_t aorta_count_until(const void *items, size_t count, size_t size, size_t offset, int64_t value) {
    return value == INT64_MAX ? count : aorta_count_before(items, count, size, offset, value + 1);
}

/* How many of the items, which are in this order, come before the key. NULL for no items is fine. */
size_t aorta_count_below(const void *items, size_t count, size_t size, const void *key,
                         int (*order)(const void *, const void *));

/* How many of the items from the first on equal it, at least 1: of sorted items one of their groups. */
static inline size_t aorta_count_equal(const void *items, size_t count, size_t size,
                                       int (*order)(const void *, const void *)) {
    size_t equal = 1;
    while (equal < count && !order(items, (const char *)items + equal * size)) equal++;
    return equal;
}

/* Ascending; NULL for no values is fine. */
void aorta_sort_int64(int64_t *values, size_t count);
void aorta_sort_double(double *values, size_t count); /* none is NaN */

/* The value at `place` of the sorted values. Changes their order. */
double aorta_nth_double(double *values, size_t count, size_t place);

/* Like qsort, but fast for items that are mostly in order already or consist of a few ascending runs. Equal items keep
 * their order. */
void aorta_sort_rows(void *items, size_t count, size_t size, int (*order)(const void *, const void *));

/* The same, and removes all but the first of equal items. Returns how many are left. NULL for no items is fine. */
size_t aorta_sort_unique(void *items, size_t count, size_t size, int (*order)(const void *, const void *));

#endif
