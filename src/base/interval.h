/* Sets of half-open time intervals [start, end) in ns, sorted and disjoint. All overlap figures are computed with them
 * (definitions: docs/metrics.md; U(x) is the length of a union, x ∩ y the length of an intersection). */
#ifndef AORTA_BASE_INTERVAL_H
#define AORTA_BASE_INTERVAL_H

#include "base/arena.h"

#include <stdint.h>

struct aorta_interval {
    int64_t start_ns, end_ns;
};

/* Zero-initialise. `items` is owned and ends with aorta_intervals_free. A failed allocation sets `failed`, and so does
 * an operand that has failed: callers check once, at the end. */
struct aorta_intervals {
    struct aorta_interval *items;
    size_t count, capacity;
    bool normal; /* items are sorted and disjoint */
    bool failed;
};

/* Adds an interval in any order; empty or reversed ones are ignored. */
void aorta_intervals_add(struct aorta_intervals *set, int64_t start_ns, int64_t end_ns);
void aorta_intervals_normalise(struct aorta_intervals *set); /* sorts and merges; O(n log n) */
int64_t aorta_intervals_length(struct aorta_intervals *set); /* ns; normalises first */

/* out = a ∪ b, a ∩ b, a − b. `out` must be distinct from both and is overwritten. Normalise a and b. */
void aorta_intervals_union(struct aorta_intervals *a, struct aorta_intervals *b, struct aorta_intervals *out);
void aorta_intervals_intersect(struct aorta_intervals *a, struct aorta_intervals *b, struct aorta_intervals *out);
void aorta_intervals_subtract(struct aorta_intervals *a, struct aorta_intervals *b, struct aorta_intervals *out);
AORTA_MUST_USE aorta_status aorta_intervals_check(const struct aorta_intervals *set); /* AORTA_MEMORY if it failed */
/* The first item that ends after `time_ns`, or `count`; O(log n). The set must be normal. */
size_t aorta_intervals_first_after(const struct aorta_intervals *set, int64_t time_ns);
/* Length of the set within [start, end), ns; O(log n + items touched). The set must be normal. */
int64_t aorta_intervals_within(const struct aorta_intervals *set, int64_t start_ns, int64_t end_ns);
void aorta_intervals_clear(struct aorta_intervals *set);
void aorta_intervals_free(struct aorta_intervals *set);
void aorta_intervals_end(struct aorta_intervals *set, struct aorta_arena *whole); /* as aorta_arena_end */

#endif
