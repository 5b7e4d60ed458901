/* Reducing blocks of several ranks in host memory; the rules stand in comm.h. */
#ifndef AORTA_COMM_REDUCE_H
#define AORTA_COMM_REDUCE_H

#include "base/dtype.h"
#include "comm/comm.h"

/* out[count] = reduction over blocks[0..ranks) of count elements each, in that order. `out` may be one of the blocks.
 * Any type but uint8. */
void aorta_reduce_blocks(void *out, const void *const *blocks, int ranks, size_t count, enum aorta_dtype dtype,
                         enum aorta_reduction reduction);

#endif
