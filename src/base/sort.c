#include "base/sort.h"
#include "base/interval.h"
#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

AORTA_ORDER(aorta_by_int32, int32_t, AORTA_BY(aorta_order_int64(*a, *b)));
AORTA_ORDER(aorta_by_int64, int64_t, AORTA_BY(aorta_order_int64(*a, *b)));
AORTA_ORDER(aorta_by_uint32, uint32_t, AORTA_BY(aorta_order_int64(*a, *b)));
AORTA_ORDER(aorta_by_uint64, uint64_t, AORTA_BY((*a > *b) - (*a < *b)));
AORTA_ORDER(aorta_by_double, double, AORTA_BY((*a > *b) - (*a < *b)));
AORTA_POINTER_ORDER(aorta_by_text, char, AORTA_BY(strcmp(a, b)));
AORTA_ORDER(aorta_by_int64_pair, int64_t,
            AORTA_BY(aorta_order_int64(a[0], b[0])) AORTA_BY(aorta_order_int64(a[1], b[1])));
AORTA_ORDER(aorta_by_uint32_pair, uint32_t,
            AORTA_BY(aorta_order_int64(a[0], b[0])) AORTA_BY(aorta_order_int64(a[1], b[1])));

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

/* ---- percentiles ---- */

/* A percentile's position between two samples: `fraction` of the way from `at` to `next`. */
struct place {
    size_t at, next;
    double fraction;
};

static struct place place_of(size_t count, double percent) {
    if (percent <= 0) return (struct place){0};
    const double position = percent / 100 * (double)(count - 1);
    const size_t at = (size_t)position;
    if (percent >= 100 || at + 1 >= count) return (struct place){count - 1, count - 1, 0};
    return (struct place){at, at + 1, position - (double)at};
}

static double between(double low, double high, double fraction) {
    if (low == high) return low; /* also keeps two infinities from making a NaN */
    /* from the nearer side, so that the result never leaves [low, high] */
    return fraction < 0.5 ? low + (high - low) * fraction : high - (high - low) * (1 - fraction);
}

double aorta_percentile_sorted(const double *sorted, size_t count, double percent) {
    if (count == 0 || isnan(percent)) return NAN;
    const struct place place = place_of(count, percent);
    return between(sorted[place.at], sorted[place.next], place.fraction);
}

double aorta_percentile_int64(const int64_t *sorted, size_t count, double percent) {
    if (count == 0 || isnan(percent)) return NAN;
    const struct place place = place_of(count, percent);
    return between((double)sorted[place.at], (double)sorted[place.next], place.fraction);
}

int64_t aorta_median_int64(int64_t *values, size_t count) {
    if (count == 0) return 0;
    aorta_sort_int64(values, count);
    const int64_t low = values[(count - 1) / 2], high = values[count / 2];
    return low + (high - low) / 2;
}

double aorta_lower_median_without(const double *sorted, size_t count, double value) {
    const size_t middle = (count - 2) / 2;
    return sorted[value <= sorted[middle] ? middle + 1 : middle];
}

/* ---- ascending rows ---- */

struct rows {
    char *items;
    size_t size;
    int (*order)(const void *, const void *);
};

/* How many of the items from here on are an ascending row. */
static size_t row_length(const char *items, size_t count, size_t size, int (*order)(const void *, const void *)) {
    size_t length = 1;
    while (length < count && order(items + (length - 1) * size, items + length * size) <= 0) length++;
    return length;
}

/* Merges two adjacent runs from the end. Only elements that move are written, as touching more memory costs more than
 * comparing. */
static bool merge_two(const struct rows *rows, size_t first, size_t middle, size_t end) {
    const size_t size = rows->size;
    char *left = rows->items + middle * size, *to = rows->items + end * size;
    const char *const begin = rows->items + first * size;
    while (to > left && rows->order(left - size, to - size) <= 0) to -= size;
    const size_t bytes = (size_t)(to - left);
    char *scratch = bytes ? malloc(bytes) : NULL;
    if (!bytes || !scratch) return !bytes;
    memcpy(scratch, left, bytes);
    for (const char *right = scratch + bytes; right > scratch;) {
        const bool from_left = left > begin && rows->order(left - size, right - size) > 0;
        const char *from = from_left ? (left -= size) : (right -= size);
        memcpy(to -= size, from, size);
    }
    free(scratch);
    return true;
}

/* ends[i] is the end of run i. Each round merges neighbours. False if memory is exhausted. */
static bool merge_rows(const struct rows *rows, size_t *ends, size_t row_count) {
    while (row_count > 1) {
        size_t first = 0, merged = 0;
        for (size_t i = 0; i < row_count; i += 2) {
            const bool pair = i + 1 < row_count;
            if (pair && !merge_two(rows, first, ends[i], ends[i + 1])) return false;
            ends[merged++] = first = pair ? ends[i + 1] : ends[i];
        }
        row_count = merged;
    }
    return true;
}

void aorta_sort_rows(void *items, size_t count, size_t size, int (*order)(const void *, const void *)) {
    enum { MOST = 1024 };
    size_t ends[MOST], row_count = 0, at = 0;
    while (at < count && row_count < MOST) {
        at += row_length((const char *)items + at * size, count - at, size, order);
        ends[row_count++] = at;
    }
    const struct rows rows = {items, size, order};
    if (at < count || !merge_rows(&rows, ends, row_count)) qsort(items, count, size, order);
}

size_t aorta_sort_unique(void *items, size_t count, size_t size, int (*order)(const void *, const void *)) {
    char *to = items;
    if (!count) return 0;
    aorta_sort_rows(items, count, size, order);
    for (const char *from = to + size; from < (char *)items + count * size; from += size)
        if (order(to, from) != 0) memmove(to += size, from, size);
    return (size_t)(to - (char *)items) / size + 1;
}

size_t aorta_count_below(const void *items, size_t count, size_t size, const void *key,
                         int (*order)(const void *, const void *)) {
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (order((const char *)items + middle * size, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- sets of intervals ---- */

void aorta_intervals_add(struct aorta_intervals *set, int64_t start_ns, int64_t end_ns) {
    if (start_ns >= end_ns || set->failed) return;
    if (set->count == 0) set->normal = true;
    struct aorta_interval *last = set->count ? &set->items[set->count - 1] : NULL;
    if (last && set->normal && start_ns >= last->start_ns && start_ns <= last->end_ns) { /* extends the last one */
        if (end_ns > last->end_ns) last->end_ns = end_ns;
        return;
    }
    if (last && start_ns <= last->end_ns) set->normal = false;
    set->failed = !aorta_array_fit(&set->items, &set->capacity, set->count + 1, sizeof *set->items);
    if (!set->failed) set->items[set->count++] = (struct aorta_interval){start_ns, end_ns};
}

void aorta_intervals_normalise(struct aorta_intervals *set) {
    if (set->normal || set->count == 0) return;
    qsort(set->items, set->count, sizeof *set->items, aorta_by_int64);
    size_t last = 0;
    for (size_t i = 1; i < set->count; i++) {
        struct aorta_interval next = set->items[i];
        if (next.start_ns > set->items[last].end_ns)
            set->items[++last] = next;
        else if (next.end_ns > set->items[last].end_ns)
            set->items[last].end_ns = next.end_ns;
    }
    set->count = last + 1;
    set->normal = true;
}

int64_t aorta_intervals_length(struct aorta_intervals *set) {
    aorta_intervals_normalise(set);
    int64_t length = 0;
    for (size_t i = 0; i < set->count; i++) length += set->items[i].end_ns - set->items[i].start_ns;
    return length;
}

/* Both inputs sorted and disjoint, the result empty. */
static void prepare(struct aorta_intervals *a, struct aorta_intervals *b, struct aorta_intervals *out) {
    aorta_intervals_normalise(a);
    aorta_intervals_normalise(b);
    aorta_intervals_clear(out);
    out->failed |= a->failed || b->failed;
}

void aorta_intervals_union(struct aorta_intervals *a, struct aorta_intervals *b, struct aorta_intervals *out) {
    prepare(a, b, out);
    size_t i = 0, j = 0;
    while (i < a->count || j < b->count) {
        int from_a = j == b->count || (i < a->count && a->items[i].start_ns <= b->items[j].start_ns);
        struct aorta_interval next = from_a ? a->items[i++] : b->items[j++];
        aorta_intervals_add(out, next.start_ns, next.end_ns); /* merges, since starts ascend */
    }
}

void aorta_intervals_intersect(struct aorta_intervals *a, struct aorta_intervals *b, struct aorta_intervals *out) {
    prepare(a, b, out);
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        struct aorta_interval x = a->items[i], y = b->items[j];
        aorta_intervals_add(out, x.start_ns > y.start_ns ? x.start_ns : y.start_ns,
                            x.end_ns < y.end_ns ? x.end_ns : y.end_ns);
        if (x.end_ns < y.end_ns)
            i++;
        else
            j++;
    }
}

void aorta_intervals_subtract(struct aorta_intervals *a, struct aorta_intervals *b, struct aorta_intervals *out) {
    prepare(a, b, out);
    size_t j = 0;
    for (size_t i = 0; i < a->count; i++) {
        struct aorta_interval rest = a->items[i];
        while (j < b->count && b->items[j].end_ns <= rest.start_ns) j++;
        for (size_t k = j; k < b->count && b->items[k].start_ns < rest.end_ns; k++) {
            aorta_intervals_add(out, rest.start_ns, b->items[k].start_ns);
            rest.start_ns = b->items[k].end_ns;
        }
        aorta_intervals_add(out, rest.start_ns, rest.end_ns);
    }
}

aorta_status aorta_intervals_check(const struct aorta_intervals *set) {
    return set->failed ? AORTA_ERROR(AORTA_MEMORY, "no memory for intervals") : NULL;
}

size_t aorta_intervals_first_after(const struct aorta_intervals *set, int64_t time_ns) {
    return aorta_count_until(set->items, set->count, sizeof *set->items, offsetof(struct aorta_interval, end_ns),
                             time_ns);
}

int64_t aorta_intervals_within(const struct aorta_intervals *set, int64_t start_ns, int64_t end_ns) {
    int64_t length = 0;
    for (size_t i = aorta_intervals_first_after(set, start_ns); i < set->count; i++) {
        if (set->items[i].start_ns >= end_ns) break;
        int64_t from = set->items[i].start_ns > start_ns ? set->items[i].start_ns : start_ns;
        int64_t to = set->items[i].end_ns < end_ns ? set->items[i].end_ns : end_ns;
        length += to - from;
    }
    return length;
}

void aorta_intervals_clear(struct aorta_intervals *set) {
    set->count = 0;
    set->normal = true;
}

void aorta_intervals_free(struct aorta_intervals *set) {
    free(set->items);
    *set = (struct aorta_intervals){0};
}

void aorta_intervals_end(struct aorta_intervals *set, struct aorta_arena *whole) {
    whole->failed |= set->failed;
    aorta_intervals_free(set);
}
