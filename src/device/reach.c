#include "device/reach.h"

#include <stdlib.h>
#include <string.h>

bool aorta_reach_extend(struct reach *reach, size_t count) {
    if (count <= reach->count) return true;
    uint32_t *counts = realloc(reach->counts, count * sizeof *counts);
    if (!counts) return false;
    memset(counts + reach->count, 0, (count - reach->count) * sizeof *counts);
    *reach = (struct reach){counts, count};
    return true;
}

bool aorta_reach_merge(struct reach *into, const struct reach *from) {
    if (!aorta_reach_extend(into, from->count)) return false;
    for (size_t i = 0; i < from->count; i++) {
        if (from->counts[i] > into->counts[i]) into->counts[i] = from->counts[i];
    }
    return true;
}

uint32_t aorta_reach_of(const struct reach *reach, size_t branch) {
    return branch < reach->count ? reach->counts[branch] : 0;
}
