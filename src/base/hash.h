/* Hashes of 64 bits, for tables and to find out whether things agree. Not meant against an adversary, nor for files
 * that another machine reads: the bytes' order is this one's. */
#ifndef AORTA_BASE_HASH_H
#define AORTA_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* One more value. The two words are multiplied to 128 bits, whose halves are joined (the step of wyhash, Wang Yi). */
static inline uint64_t aorta_hash_add(uint64_t hash, uint64_t value) {
    const __uint128_t product = (__uint128_t)(hash ^ 0x9E3779B97F4A7C15u) * (value ^ 0xD1B54A32D192ED03u);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t aorta_hash_bytes(const void *bytes, size_t length);

#endif
