/* Shared by the loops of one instruction set: conversion block by block, so that every loop is written once, in fp32,
 * and converted values are still in the nearest cache; and the random bits of dropout. */
#ifndef AORTA_OPS_CPU_BLOCK_H
#define AORTA_OPS_CPU_BLOCK_H

#include "ops/cpu/entries.h"
#include "ops/random.h"

#define AORTA_BLOCK 1024 /* elements in work at a time */
#define AORTA_BITS_BUFFER (AORTA_BLOCK + 2 * AORTA_PHILOX_GROUP)

/* The random 16-bit samples of elements first … first + count − 1, count ≤ AORTA_BLOCK; the result points into
 * `buffer` of AORTA_BITS_BUFFER samples. */
const uint16_t *AORTA_ISA_NAME(dropout_bits)(const struct aorta_dropout *dropout, int64_t first, int64_t count,
                                             uint16_t *buffer);

static inline int64_t block_length(int64_t done, int64_t count) {
    return count - done < AORTA_BLOCK ? count - done : AORTA_BLOCK;
}

static inline const void *element_at(const void *base, enum aorta_dtype dtype, int64_t index) {
    return (const char *)base + (size_t)index * aorta_dtype_size(dtype);
}

/* `count` elements from `first` on as fp32: the memory itself where it is fp32, else converted into `buffer`. */
static inline const float *block_read(const void *base, enum aorta_dtype dtype, int64_t first, int64_t count,
                                      float *buffer) {
    if (dtype == AORTA_F32) return (const float *)base + first;
    AORTA_ISA_NAME(to_float)(buffer, element_at(base, dtype, first), dtype, count);
    return buffer;
}

/* Where to write fp32 results that belong at `first`; block_write brings them there. */
static inline float *block_target(void *base, enum aorta_dtype dtype, int64_t first, float *buffer) {
    return dtype == AORTA_F32 ? (float *)base + first : buffer;
}

static inline void block_write(void *base, enum aorta_dtype dtype, int64_t first, int64_t count, const float *buffer) {
    if (dtype == AORTA_F32) return;
    AORTA_ISA_NAME(from_float)((char *)base + (size_t)first * aorta_dtype_size(dtype), buffer, dtype, count);
}

/* The factor of an element: 0 when dropped. */
static inline float dropout_factor(uint16_t sample, int32_t threshold, float scale) {
    return (int32_t)sample >= threshold ? scale : 0.0f;
}

#endif
