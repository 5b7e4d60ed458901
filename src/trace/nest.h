/* Nested ranges of a thread: finds the innermost one around a moment. */
#ifndef AORTA_TRACE_NEST_H
#define AORTA_TRACE_NEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct aorta_nest_range {
    int64_t start_ns, end_ns;
    uint32_t thread;
    uint32_t number; /* the caller's */
    uint32_t parent; /* index of the range around this one; NONE (made by aorta_nest_parents) */
};
enum { AORTA_NEST_NONE = UINT32_MAX };

struct aorta_trace_annotation;
struct aorta_arena;

/* Sorts the ranges in place, by thread, then start, longer first, and finds their parents. */
void aorta_nest_make(struct aorta_nest_range *ranges, size_t count);
/* Nests annotations; the number of each range is that of the annotation's name. */
struct aorta_nest_range *aorta_nest_of(const struct aorta_trace_annotation *frames, size_t count,
                                       struct aorta_arena *memory);
/* The parents of items in this order. They have `size` bytes and begin with the members of struct aorta_nest_range. */
void aorta_nest_parents(void *items, size_t count, size_t size);
/* Finds the innermost of such items on the thread with start <= time <= end; NONE. */
uint32_t aorta_nest_find(const void *items, size_t count, size_t size, uint32_t thread, int64_t time_ns);

#endif
