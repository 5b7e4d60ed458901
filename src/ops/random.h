/* Dropout masks from counter-based random numbers.
 *
 * Element i of a tensor uses 16-bit sample i mod 8 of block i / 8 (each of a block's four words gives two samples, the
 * low half first) and is dropped when the sample is below round(p·65536). Remaining elements are scaled by the exact
 * 65536 / (65536 − threshold), so that the expectation is unchanged. A block is Philox4x32-10 of the counter (block,
 * step), both 64 bits, low word first. Its key is the first two words of Philox4x32-10 of the counter (site, rank,
 * micro, 0) under the run's seed. */
#ifndef AORTA_OPS_RANDOM_H
#define AORTA_OPS_RANDOM_H

#include "base/philox.h"
#include "ops/types.h"

#define AORTA_PHILOX_SAMPLES 8                                         /* of one block */
#define AORTA_PHILOX_LANES 16                                          /* blocks made side by side */
#define AORTA_PHILOX_GROUP (AORTA_PHILOX_SAMPLES * AORTA_PHILOX_LANES) /* samples made at a time */

/* A dropout ready to use: everything but the element's index. */
struct aorta_dropout {
    uint32_t key[2];
    uint64_t step;
    int32_t threshold; /* samples below it are dropped; 0: no dropout */
    float scale;       /* of remaining elements; 0 when all are dropped */
};

/* Runs on the device: reads rng->state. */
struct aorta_dropout aorta_dropout_begin(float probability, const struct aorta_rng *rng);

#endif
