/* Memory of another owner, divided into pieces from its beginning. */
#ifndef AORTA_BASE_PLACE_H
#define AORTA_BASE_PLACE_H

#include <stddef.h>

struct aorta_place {
    void *memory; /* NULL: nothing */
    size_t bytes; /* left */
};

size_t aorta_place_round(size_t bytes); /* up to a multiple of 256, as device memory is aligned */

/* Takes the next `bytes`, aligned. NULL if fewer are left. */
void *aorta_place_take(struct aorta_place *place, size_t bytes);

#endif
