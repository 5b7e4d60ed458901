#include "comm/backend.h"

#include "base/half.h"

#include <string.h>

#define CHUNK 1024 /* elements accumulated at a time: stays in the first-level cache */

static void load_f32(float *to, const void *from, size_t count) {
    memcpy(to, from, count * sizeof *to);
}

static void load_bf16(float *restrict to, const void *from, size_t count) {
    const uint16_t *restrict half = from;
    for (size_t i = 0; i < count; i++) to[i] = aorta_float_of_bf16(half[i]);
}

static void load_f16(float *restrict to, const void *from, size_t count) {
    const uint16_t *restrict half = from;
    for (size_t i = 0; i < count; i++) to[i] = aorta_float_of_f16(half[i]);
}

static void store_f32(void *to, const float *from, size_t count) {
    memcpy(to, from, count * sizeof *from);
}

static void store_bf16(void *to, const float *restrict from, size_t count) {
    uint16_t *restrict half = to;
    for (size_t i = 0; i < count; i++) half[i] = aorta_bf16_of_float(from[i]);
}

static void store_f16(void *to, const float *restrict from, size_t count) {
    uint16_t *restrict half = to;
    for (size_t i = 0; i < count; i++) half[i] = aorta_f16_of_float(from[i]);
}

struct float_format {
    void (*load)(float *to, const void *from, size_t count);
    void (*store)(void *to, const float *from, size_t count);
};

static const struct float_format float_formats[AORTA_DTYPE_COUNT] = {
    [AORTA_F32] = {load_f32, store_f32},
    [AORTA_F16] = {load_f16, store_f16},
    [AORTA_BF16] = {load_bf16, store_bf16},
};

static void accumulate_float(float *restrict into, const float *restrict from, size_t count,
                             enum aorta_reduction reduction) {
    if (reduction == AORTA_SUM) {
        for (size_t i = 0; i < count; i++) into[i] += from[i];
        return;
    }
    /* The sum of two numbers of which one is NaN is a NaN, which no comparison would give. */
    for (size_t i = 0; i < count; i++) {
        float larger = into[i] > from[i] ? into[i] : from[i];
        into[i] = into[i] == into[i] && from[i] == from[i] ? larger : into[i] + from[i];
    }
}

static void reduce_float(char *out, const void *const *blocks, int ranks, size_t offset, size_t count,
                         enum aorta_dtype dtype, enum aorta_reduction reduction) {
    const struct float_format *format = &float_formats[dtype];
    const size_t at = offset * aorta_dtype_size(dtype);
    float sum[CHUNK], next[CHUNK];
    format->load(sum, (const char *)blocks[0] + at, count);
    for (int rank = 1; rank < ranks; rank++) {
        format->load(next, (const char *)blocks[rank] + at, count);
        accumulate_float(sum, next, count, reduction);
    }
    format->store(out + at, sum, count);
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
        if (float_formats[dtype].load)
            reduce_float(out, blocks, ranks, offset, part, dtype, reduction);
        else
            reduce_integer(out, blocks, ranks, offset, part, dtype, reduction);
    }
}
