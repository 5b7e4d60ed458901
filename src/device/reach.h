/* Which nodes of a captured graph come before some point: for each branch a count of its nodes, a vector clock (Fidge
 * 1988, Mattern 1989). Branches hand it on with their events, and waits take the maximum; that says whether every
 * branch was joined in the end. */
#ifndef AORTA_DEVICE_REACH_H
#define AORTA_DEVICE_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reach { /* zero-initialise; free `counts` */
    uint32_t *counts;
    size_t count;
};

bool aorta_reach_extend(struct reach *reach, size_t count); /* false when memory is exhausted */
bool aorta_reach_merge(struct reach *into, const struct reach *from);
uint32_t aorta_reach_of(const struct reach *reach, size_t branch);

#endif
