#include "base/sort.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

static inline void exchange(double *left, double *right) {
    const double before = *left;
    *left = *right;
    *right = before;
}

/* Hoare, "Algorithm 65: find", CACM 4 (1961), with the median of three. */
double aorta_nth_double(double *values, size_t count, size_t place) {
    size_t low = 0, high = count - 1;
    while (low < high) {
        double *first = &values[low], *middle = &values[low + (high - low) / 2], *last = &values[high];
        if (*middle < *first) exchange(middle, first);
        if (*last < *first) exchange(last, first);
        if (*last < *middle) exchange(last, middle);
        const double pivot = *middle;
        size_t up = low, down = high;
        for (;;) {
            while (values[up] < pivot) up++;
            while (pivot < values[down]) down--;
            if (up >= down) break;
            exchange(&values[up++], &values[down--]);
        }
        if (place <= down)
            high = down;
        else
            low = down + 1;
    }
    return values[place];
}

/* ---- ascending rows ---- */

struct rows {
    char *items, *other; /* where they are; scratch of the same size */
    size_t size;
    int (*order)(const void *, const void *);
};

/* How many of the items from here on are an ascending row. */
static size_t row_length(const char *items, size_t count, size_t size, int (*order)(const void *, const void *)) {
    size_t length = 1;
    while (length < count && order(items + (length - 1) * size, items + length * size) <= 0) length++;
    return length;
}

/* How many of the items come before `item`; of equal ones all where `equal`. Most often few do. */
static size_t count_before(const struct rows *rows, const char *items, size_t count, const char *item, bool equal) {
    size_t step = 1, low = 0, high; /* those below `low` do */
    while (low + step <= count && rows->order(items + (low + step - 1) * rows->size, item) < (equal ? 1 : 0)) {
        low += step;
        step *= 2;
    }
    for (high = low + step - 1 < count ? low + step - 1 : count; low < high;) {
        const size_t middle = low + (high - low) / 2;
        if (rows->order(items + middle * rows->size, item) < (equal ? 1 : 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Two rows that lie one after the other become one in `other`. */
static void merge_two(const struct rows *rows, size_t first, size_t middle, size_t end) {
    const size_t size = rows->size;
    const char *left = rows->items + first * size, *right = rows->items + middle * size;
    const char *left_end = right, *right_end = rows->items + end * size;
    char *into = rows->other + first * size;
    while (left < left_end && right < right_end) {
        size_t bytes = count_before(rows, left, (size_t)(left_end - left) / size, right, true) * size;
        memcpy(into, left, bytes);
        into += bytes;
        left += bytes;
        if (left == left_end) break;
        bytes = count_before(rows, right, (size_t)(right_end - right) / size, left, false) * size;
        memcpy(into, right, bytes);
        into += bytes;
        right += bytes;
    }
    memcpy(into, left, (size_t)(left_end - left));
    into += left_end - left;
    memcpy(into, right, (size_t)(right_end - right));
}

/* ends[i]: where row i ends. Each round merges neighbours. */
static void merge_rows(struct rows *rows, size_t *ends, size_t row_count) {
    while (row_count > 1) {
        size_t first = 0, merged = 0;
        for (size_t i = 0; i < row_count; i += 2) {
            const bool pair = i + 1 < row_count;
            const size_t end = pair ? ends[i + 1] : ends[i];
            if (pair)
                merge_two(rows, first, ends[i], end);
            else
                memcpy(rows->other + first * rows->size, rows->items + first * rows->size, (end - first) * rows->size);
            ends[merged++] = first = end;
        }
        char *const before = rows->items;
        rows->items = rows->other;
        rows->other = before;
        row_count = merged;
    }
}

void aorta_sort_rows(void *items, size_t count, size_t size, int (*order)(const void *, const void *)) {
    enum { MOST = 1024 };
    size_t ends[MOST], row_count = 0, at = 0;
    while (at < count && row_count < MOST) {
        at += row_length((const char *)items + at * size, count - at, size, order);
        ends[row_count++] = at;
    }
    if (row_count < 2) return;
    char *scratch = at == count ? malloc(count * size) : NULL;
    if (!scratch) {
        qsort(items, count, size, order);
        return;
    }
    struct rows rows = {items, scratch, size, order};
    merge_rows(&rows, ends, row_count);
    if (rows.items != items) memcpy(items, rows.items, count * size);
    free(scratch);
}
