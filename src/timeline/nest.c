#include "timeline/nest.h"

#include "base/sort.h"

static int outer_first(const void *left, const void *right) {
    const struct aorta_nest_range *a = left, *b = right;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    if (a->end_ns != b->end_ns) return a->end_ns > b->end_ns ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* Ranges that overlap without enclosing do not occur in one thread's calls; should they, the parent is the nearest
 * earlier range that lasts beyond this one's start. */
void aorta_nest_make(struct aorta_nest_range *ranges, size_t count) {
    aorta_sort_rows(ranges, count, sizeof *ranges, outer_first);
    for (size_t i = 0; i < count; i++) {
        size_t parent = i; /* index + 1 of the range before */
        while (parent &&
               (ranges[parent - 1].thread != ranges[i].thread || ranges[parent - 1].end_ns < ranges[i].start_ns))
            parent = ranges[parent - 1].thread == ranges[i].thread ? ranges[parent - 1].parent : 0;
        ranges[i].parent = (uint32_t)parent;
    }
}

const struct aorta_nest_range *aorta_nest_find(const struct aorta_nest_range *ranges, size_t count, uint32_t thread,
                                               int64_t time_ns) {
    size_t low = 0, high = count; /* ranges before `low` begin no later than the moment */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct aorta_nest_range *r = &ranges[middle];
        if (r->thread < thread || (r->thread == thread && r->start_ns <= time_ns)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (size_t index = low; index && ranges[index - 1].thread == thread; index = ranges[index - 1].parent)
        if (ranges[index - 1].end_ns >= time_ns) return &ranges[index - 1];
    return NULL;
}
