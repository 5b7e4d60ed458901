/* Inside ops: rows of tables on the CPU device, and the cache of those in host memory. */
#ifndef AORTA_OPS_ROW_CACHE_H
#define AORTA_OPS_ROW_CACHE_H

#include "ops/types.h"

#include <stdint.h>

/* A batch's ids, sorted, as its kernels get them. */
struct aorta_pool_sorted {
    struct aorta_pool_args pool;
    struct aorta_pool_order order;
    int64_t count;
    const uint32_t *before; /* [before_count]: rows of the batch before, sorted */
    int64_t before_count;
    uint32_t batch;
};

/* Brings the rows of the batch into the cache: see aorta_pool_cache. */
void aorta_row_cache_fill(const struct aorta_pool_sorted *sorted);

/* Where row `number` of the slot's table is newest. */
unsigned char *aorta_row_at(const struct aorta_row_cache *cache, const struct aorta_pool_slot *slot, int64_t number);
/* The values of a row: in place, or decoded into `values` [columns]. */
const float *aorta_row_values(const struct aorta_pool_slot *slot, const unsigned char *row, float *values);

#endif
