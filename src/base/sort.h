/* Orders for qsort and bsearch. */
#ifndef AORTA_BASE_SORT_H
#define AORTA_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

/* Negative, 0, positive. */
static inline int aorta_order_int64(int64_t left, int64_t right) {
    return (left > right) - (left < right);
}

static inline int aorta_order_uint64(uint64_t left, uint64_t right) {
    return (left > right) - (left < right);
}

static inline int aorta_order_double(double left, double right) {
    return (left > right) - (left < right);
}

/* Of pointers to such values, and of structs that begin with one. */
int aorta_by_int32(const void *left, const void *right);
int aorta_by_int64(const void *left, const void *right);
int aorta_by_double(const void *left, const void *right);

/* Ascending; NULL for no values is fine. */
void aorta_sort_int32(int32_t *values, size_t count);
void aorta_sort_int64(int64_t *values, size_t count);
void aorta_sort_double(double *values, size_t count); /* none is NaN */

#endif
