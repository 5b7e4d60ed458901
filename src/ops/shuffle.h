/* A permutation of [0, count) without a table, the same on every device: a four-round Feistel network on the next even
 * number of bits, walked until it lands inside (Black & Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002).
 * The including file defines AORTA_SHUFFLE_FUNCTION. */
#ifndef AORTA_OPS_SHUFFLE_H
#define AORTA_OPS_SHUFFLE_H

#include "ops/types.h"

AORTA_SHUFFLE_FUNCTION int64_t aorta_shuffle_at(const struct aorta_shuffle *shuffle, int64_t position) {
    const uint64_t half = (uint64_t)shuffle->half_bits, mask = ((uint64_t)1 << half) - 1;
    uint64_t value = (uint64_t)position;
    do {
        uint64_t left = value >> half, right = value & mask;
        for (int round = 0; round < 4; round++) {
            const uint64_t mixed = (right ^ shuffle->keys[round]) * 0x9E3779B97F4A7C15u,
                           next = left ^ ((mixed >> 40) & mask);
            left = right;
            right = next;
        }
        value = left << half | right;
    } while (value >= (uint64_t)shuffle->count);
    return (int64_t)value;
}

#endif
