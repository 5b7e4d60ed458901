/* Dropout masks from counter-based random numbers.
 *
 * Element i of a tensor takes 16-bit sample i mod 8 of block i / 8 (each of a block's four words gives two samples, the
 * low half first) and is dropped when the sample is below round(p·65536). Kept elements are scaled by the exact
 * 65536 / (65536 − threshold), so that the expectation is unchanged. A block is Philox4x32-10 of the counter
 * (block, step), both 64 bits, low word first, under a key that is itself the first two words of Philox4x32-10 of the
 * counter (site, rank, micro, 0) under the run's seed. */
#ifndef AORTA_OPS_RANDOM_H
#define AORTA_OPS_RANDOM_H

#include "ops/ops.h"

#define AORTA_PHILOX_SAMPLES 8                                         /* of one block */
#define AORTA_PHILOX_LANES 16                                          /* blocks made side by side */
#define AORTA_PHILOX_GROUP (AORTA_PHILOX_SAMPLES * AORTA_PHILOX_LANES) /* samples made at a time */

struct aorta_philox {
    uint32_t word[4];
};

/* One round function used by every version; see Salmon et al., section 3.3, for the constants. */
static inline struct aorta_philox aorta_philox_round(struct aorta_philox c, uint32_t key0, uint32_t key1) {
    uint64_t product0 = (uint64_t)c.word[0] * 0xD2511F53u;
    uint64_t product1 = (uint64_t)c.word[2] * 0xCD9E8D57u;
    return (struct aorta_philox){{(uint32_t)(product1 >> 32) ^ c.word[1] ^ key0, (uint32_t)product1,
                                  (uint32_t)(product0 >> 32) ^ c.word[3] ^ key1, (uint32_t)product0}};
}

static inline struct aorta_philox aorta_philox4x32_10(struct aorta_philox c, uint32_t key0, uint32_t key1) {
    const uint32_t weyl0 = 0x9E3779B9u, weyl1 = 0xBB67AE85u;
    c = aorta_philox_round(c, key0, key1); /* written out: a loop would keep the caller's loop from vectorising */
    c = aorta_philox_round(c, key0 + weyl0, key1 + weyl1);
    c = aorta_philox_round(c, key0 + 2 * weyl0, key1 + 2 * weyl1);
    c = aorta_philox_round(c, key0 + 3 * weyl0, key1 + 3 * weyl1);
    c = aorta_philox_round(c, key0 + 4 * weyl0, key1 + 4 * weyl1);
    c = aorta_philox_round(c, key0 + 5 * weyl0, key1 + 5 * weyl1);
    c = aorta_philox_round(c, key0 + 6 * weyl0, key1 + 6 * weyl1);
    c = aorta_philox_round(c, key0 + 7 * weyl0, key1 + 7 * weyl1);
    c = aorta_philox_round(c, key0 + 8 * weyl0, key1 + 8 * weyl1);
    return aorta_philox_round(c, key0 + 9 * weyl0, key1 + 9 * weyl1);
}

/* A dropout ready to use: everything but the element's index. */
struct aorta_dropout {
    uint32_t key[2];
    uint64_t step;
    int32_t threshold; /* samples below it are dropped; 0: no dropout */
    float scale;       /* of kept elements; 0 when all are dropped */
};

/* Runs on the device: reads rng->state. */
struct aorta_dropout aorta_dropout_begin(float probability, const struct aorta_rng *rng);

#endif
