#include "device/reach.h"

#include "base/array.h"

bool aorta_reach_extend(struct reach *reach, size_t count) {
    return aorta_array_extend(&reach->counts, &reach->count, count, sizeof *reach->counts);
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
