#include "comm/backend.h"

#include "base/half.h"

#include <string.h>

#define CHUNK 1024 /* elements accumulated at a time: stays in the first-level cache */

static void load_float(float *restrict to, const void *from, size_t count, enum aorta_dtype dtype) {
    const uint16_t *restrict half = from;
    if (dtype == AORTA_F32)
        memcpy(to, from, count * sizeof *to);
    else if (dtype == AORTA_BF16)
        for (size_t i = 0; i < count; i++) to[i] = aorta_float_of_bf16(half[i]);
    else
        for (size_t i = 0; i < count; i++) to[i] = aorta_float_of_f16(half[i]);
}

static void store_float(void *to, const float *restrict from, size_t count, enum aorta_dtype dtype) {
    uint16_t *restrict half = to;
    if (dtype == AORTA_F32)
        memcpy(to, from, count * sizeof *from);
    else if (dtype == AORTA_BF16)
        for (size_t i = 0; i < count; i++) half[i] = aorta_bf16_of_float(from[i]);
    else
        for (size_t i = 0; i < count; i++) half[i] = aorta_f16_of_float(from[i]);
}

static void accumulate_float(float *restrict into, const float *restrict from, size_t count,
                             enum aorta_reduction reduction) {
    if (reduction == AORTA_SUM) {
        for (size_t i = 0; i < count; i++) into[i] += from[i];
        return;
    }
    /* With a NaN operand the sum is NaN, while a comparison could drop it. */
    for (size_t i = 0; i < count; i++) {
        float larger = into[i] > from[i] ? into[i] : from[i];
        into[i] = into[i] == into[i] && from[i] == from[i] ? larger : into[i] + from[i];
    }
}

static void reduce_float(char *out, const void *const *blocks, int ranks, size_t offset, size_t count,
                         enum aorta_dtype dtype, enum aorta_reduction reduction) {
    const size_t at = offset * aorta_dtype_size(dtype);
    float sum[CHUNK], next[CHUNK];
    load_float(sum, (const char *)blocks[0] + at, count, dtype);
    for (int rank = 1; rank < ranks; rank++) {
        load_float(next, (const char *)blocks[rank] + at, count, dtype);
        accumulate_float(sum, next, count, reduction);
    }
    store_float(out + at, sum, count, dtype);
}

/* Integers are read as 64 bits; the low bits of a sum do not depend on the high ones, so int32 wraps as it should. */
static void load_integer(int64_t *to, const void *from, size_t offset, size_t count, enum aorta_dtype dtype) {
    for (size_t i = 0; i < count; i++)
        to[i] = dtype == AORTA_I64 ? ((const int64_t *)from)[offset + i] : ((const int32_t *)from)[offset + i];
}

static void accumulate_integer(int64_t *restrict into, const int64_t *restrict from, size_t count,
                               enum aorta_reduction reduction) {
    for (size_t i = 0; i < count; i++)
        if (reduction == AORTA_SUM)
            into[i] = (int64_t)((uint64_t)into[i] + (uint64_t)from[i]);
        else if (from[i] > into[i])
            into[i] = from[i];
}

static void reduce_integer(void *out, const void *const *blocks, int ranks, size_t offset, size_t count,
                           enum aorta_dtype dtype, enum aorta_reduction reduction) {
    int64_t sum[CHUNK], next[CHUNK];
    load_integer(sum, blocks[0], offset, count, dtype);
    for (int rank = 1; rank < ranks; rank++) {
        load_integer(next, blocks[rank], offset, count, dtype);
        accumulate_integer(sum, next, count, reduction);
    }
    for (size_t i = 0; i < count; i++)
        if (dtype == AORTA_I64)
            ((int64_t *)out)[offset + i] = sum[i];
        else
            ((int32_t *)out)[offset + i] = (int32_t)sum[i];
}

void aorta_reduce_blocks(void *out, const void *const *blocks, int ranks, size_t count, enum aorta_dtype dtype,
                         enum aorta_reduction reduction) {
    for (size_t offset = 0; offset < count; offset += CHUNK) {
        size_t part = count - offset < CHUNK ? count - offset : CHUNK;
        if (dtype == AORTA_F32 || dtype == AORTA_F16 || dtype == AORTA_BF16)
            reduce_float(out, blocks, ranks, offset, part, dtype, reduction);
        else
            reduce_integer(out, blocks, ranks, offset, part, dtype, reduction);
    }
}
