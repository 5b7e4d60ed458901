#include "base/place.h"

#include <stdint.h>

size_t aorta_place_round(size_t bytes) {
    return (bytes + AORTA_PLACE_ALIGNMENT - 1) / AORTA_PLACE_ALIGNMENT * AORTA_PLACE_ALIGNMENT;
}

void *aorta_place_take(struct aorta_place *place, size_t bytes) {
    const size_t skip = -(uintptr_t)place->memory % AORTA_PLACE_ALIGNMENT;
    if (!place->memory || place->bytes < skip || place->bytes - skip < bytes) return NULL;
    char *memory = (char *)place->memory + skip;
    *place = (struct aorta_place){memory + bytes, place->bytes - skip - bytes};
    return memory;
}
