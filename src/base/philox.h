/* Philox4x32-10, the counter-based random generator of Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3",
 * SC'11: 128 random bits from a 128-bit counter and a 64-bit key. */
#ifndef AORTA_BASE_PHILOX_H
#define AORTA_BASE_PHILOX_H

#include <stdint.h>

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

/* Word `index` of the stream (row, site, step) of `seed`. */
static inline uint32_t aorta_philox_word(uint64_t seed, int64_t index, int64_t row, uint32_t site, int64_t step) {
    const struct aorta_philox counter = {{(uint32_t)(index / 4), (uint32_t)row, site, (uint32_t)step}};
    return aorta_philox4x32_10(counter, (uint32_t)seed, (uint32_t)(seed >> 32)).word[index % 4];
}

#endif
