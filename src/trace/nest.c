#include "trace/nest.h"

#include "base/sort.h"
#include "trace/trace.h"

#include <stdlib.h>

static int outer_first(const void *left, const void *right) {
    const struct aorta_nest_range *a = left, *b = right;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    if (a->end_ns != b->end_ns) return a->end_ns > b->end_ns ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static inline const char *item(const void *items, size_t index, size_t size) {
    return (const char *)items + index * size;
}

static inline int64_t start_of(const char *item) {
    return *(const int64_t *)(const void *)(item + offsetof(struct aorta_nest_range, start_ns));
}

static inline int64_t end_of(const char *item) {
    return *(const int64_t *)(const void *)(item + offsetof(struct aorta_nest_range, end_ns));
}

static inline uint32_t thread_of(const char *item) {
    return *(const uint32_t *)(const void *)(item + offsetof(struct aorta_nest_range, thread));
}

static inline uint32_t parent_of(const char *item) {
    return *(const uint32_t *)(const void *)(item + offsetof(struct aorta_nest_range, parent));
}

/* Ranges that overlap without enclosing do not occur in one thread's calls; should they, the parent is the nearest
 * earlier range that lasts beyond this one's start. */
void aorta_nest_parents(void *items, size_t count, size_t size) {
    for (size_t i = 0; i < count; i++) {
        char *own = (char *)items + i * size;
        uint32_t parent = i && thread_of(own - size) == thread_of(own) ? (uint32_t)i - 1 : AORTA_NEST_NONE;
        while (parent != AORTA_NEST_NONE && end_of(item(items, parent, size)) < start_of(own))
            parent = parent_of(item(items, parent, size));
        *(uint32_t *)(void *)(own + offsetof(struct aorta_nest_range, parent)) = parent;
    }
}

void aorta_nest_make(struct aorta_nest_range *ranges, size_t count) {
    aorta_sort_rows(ranges, count, sizeof *ranges, outer_first);
    aorta_nest_parents(ranges, count, sizeof *ranges);
}

uint32_t aorta_nest_find(const void *items, size_t count, size_t size, uint32_t thread, int64_t time_ns) {
    size_t low = 0, high = count; /* ranges before `low` begin no later than the moment */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const char *range = item(items, middle, size);
        if (thread_of(range) < thread || (thread_of(range) == thread && start_of(range) <= time_ns))
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || thread_of(item(items, low - 1, size)) != thread) return AORTA_NEST_NONE;
    uint32_t found = (uint32_t)low - 1;
    while (found != AORTA_NEST_NONE && end_of(item(items, found, size)) < time_ns)
        found = parent_of(item(items, found, size));
    return found;
}

struct aorta_nest_range *aorta_nest_of(const struct aorta_trace_annotation *frames, size_t count) {
    struct aorta_nest_range *nest = malloc((count + 1) * sizeof *nest);
    for (size_t i = 0; nest && i < count; i++)
        nest[i] = (struct aorta_nest_range){frames[i].start_ns, frames[i].end_ns, frames[i].thread, frames[i].name, 0};
    if (nest) aorta_nest_make(nest, count);
    return nest;
}
