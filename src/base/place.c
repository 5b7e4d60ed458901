#include "base/place.h"

#include <stdint.h>

void *aorta_place_take(struct aorta_place *place, size_t bytes) {
    const size_t skip = -(uintptr_t)place->memory % AORTA_PLACE_ALIGNMENT;
    if (!place->memory || place->bytes < skip || place->bytes - skip < bytes) return NULL;
    char *memory = (char *)place->memory + skip;
    *place = (struct aorta_place){memory + bytes, place->bytes - skip - bytes};
    return memory;
}
