#include "base/interval.h"

#include "base/array.h"
#include "base/sort.h"

#include <stdlib.h>

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

static int by_start(const void *a, const void *b) {
    const struct aorta_interval *left = a, *right = b;
    return (left->start_ns > right->start_ns) - (left->start_ns < right->start_ns);
}

void aorta_intervals_normalise(struct aorta_intervals *set) {
    if (set->normal || set->count == 0) return;
    qsort(set->items, set->count, sizeof *set->items, by_start);
    size_t last = 0;
    for (size_t i = 1; i < set->count; i++) {
        struct aorta_interval next = set->items[i];
        if (next.start_ns > set->items[last].end_ns) {
            set->items[++last] = next;
        } else if (next.end_ns > set->items[last].end_ns) {
            set->items[last].end_ns = next.end_ns;
        }
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
        if (x.end_ns < y.end_ns) {
            i++;
        } else {
            j++;
        }
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
