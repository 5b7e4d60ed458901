#include "base/sort.h"

#include <stdlib.h>

int aorta_by_int32(const void *left, const void *right) {
    return aorta_order_int64(*(const int32_t *)left, *(const int32_t *)right);
}

int aorta_by_int64(const void *left, const void *right) {
    return aorta_order_int64(*(const int64_t *)left, *(const int64_t *)right);
}

int aorta_by_double(const void *left, const void *right) {
    return aorta_order_double(*(const double *)left, *(const double *)right);
}

void aorta_sort_int32(int32_t *values, size_t count) {
    if (count) qsort(values, count, sizeof *values, aorta_by_int32);
}

void aorta_sort_int64(int64_t *values, size_t count) {
    if (count) qsort(values, count, sizeof *values, aorta_by_int64);
}

void aorta_sort_double(double *values, size_t count) {
    if (count) qsort(values, count, sizeof *values, aorta_by_double);
}
