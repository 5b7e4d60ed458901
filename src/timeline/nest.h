/* Nested ranges of a thread: finds the innermost one around a moment. */
#ifndef AORTA_TIMELINE_NEST_H
#define AORTA_TIMELINE_NEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct aorta_nest_range {
    int64_t start_ns, end_ns;
    uint32_t thread;
    uint32_t number; /* the caller's */
    uint32_t parent; /* index + 1 of the range around this one; 0: none (made by aorta_nest_make) */
};

/* Sorts the ranges in place and finds their parents. */
void aorta_nest_make(struct aorta_nest_range *ranges, size_t count);
/* The innermost range on the thread with start <= time <= end; NULL: none. */
const struct aorta_nest_range *aorta_nest_find(const struct aorta_nest_range *ranges, size_t count, uint32_t thread,
                                               int64_t time_ns);

#endif
