/* fp32 from and to the 16-bit types, and the operations made of nothing else: cast, fill, add. */
#include "base/half.h"
#include "ops/cpu/block.h"
#include "ops/cpu/math.h"

#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

static void from_bf16(float *restrict to, const uint16_t *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = aorta_float_of_bf16(from[i]);
}

static void to_bf16(uint16_t *restrict to, const float *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = aorta_bf16_of_float(from[i]);
}

static void from_f16(float *restrict to, const uint16_t *restrict from, int64_t count) {
    int64_t i = 0;
#ifdef __F16C__
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
#endif
    for (; i < count; i++) to[i] = aorta_float_of_f16(from[i]);
}

static void to_f16(uint16_t *restrict to, const float *restrict from, int64_t count) {
    int64_t i = 0;
#ifdef __F16C__
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < count; i++) to[i] = aorta_f16_of_float(from[i]);
}

void AORTA_ISA_NAME(to_float)(float *to, const void *from, enum aorta_dtype dtype, int64_t count) {
    if (dtype == AORTA_BF16) return from_bf16(to, from, count);
    if (dtype == AORTA_F16) return from_f16(to, from, count);
    memcpy(to, from, (size_t)count * sizeof *to);
}

void AORTA_ISA_NAME(from_float)(void *to, const float *from, enum aorta_dtype dtype, int64_t count) {
    if (dtype == AORTA_BF16) return to_bf16(to, from, count);
    if (dtype == AORTA_F16) return to_f16(to, from, count);
    memcpy(to, from, (size_t)count * sizeof *from);
}

aorta_status AORTA_ISA_NAME(cast)(const void *args) {
    const struct aorta_cast_args *a = args;
    const float scale = a->scale;
    if (a->to_dtype == a->from_dtype && scale == 1.0f) {
        if (a->count > 0) memcpy(a->to, a->from, (size_t)a->count * aorta_dtype_size(a->to_dtype));
        return NULL;
    }
    float in[AORTA_BLOCK], out[AORTA_BLOCK];
    for (int64_t i = 0; i < a->count; i += AORTA_BLOCK) {
        int64_t n = block_length(i, a->count);
        const float *from = block_read(a->from, a->from_dtype, i, n, in);
        float *to = block_target(a->to, a->to_dtype, i, out);
#pragma omp simd
        for (int64_t j = 0; j < n; j++) to[j] = scale * from[j];
        block_write(a->to, a->to_dtype, i, n, to);
    }
    return NULL;
}

aorta_status AORTA_ISA_NAME(fill)(const void *args) {
    const struct aorta_fill_args *a = args;
    const float value = a->value;
    if (aorta_bits_of_float(value) == 0) { /* the C library clears large memory without reading it first */
        if (a->count > 0) memset(a->to, 0, (size_t)a->count * aorta_dtype_size(a->dtype));
        return NULL;
    }
    float block[AORTA_BLOCK];
    for (int64_t j = 0; j < AORTA_BLOCK; j++) block[j] = value;
    for (int64_t i = 0; i < a->count; i += AORTA_BLOCK) {
        char *to = (char *)a->to + (size_t)i * aorta_dtype_size(a->dtype);
        AORTA_ISA_NAME(from_float)(to, block, a->dtype, block_length(i, a->count));
    }
    return NULL;
}

aorta_status AORTA_ISA_NAME(add)(const void *args) {
    const struct aorta_cast_args *a = args;
    const float scale = a->scale;
    float in[AORTA_BLOCK], sum[AORTA_BLOCK];
    for (int64_t i = 0; i < a->count; i += AORTA_BLOCK) {
        int64_t n = block_length(i, a->count);
        const float *from = block_read(a->from, a->to_dtype, i, n, in);
        float *to = (float *)block_read(a->to, a->to_dtype, i, n, sum);
#pragma omp simd
        for (int64_t j = 0; j < n; j++) to[j] += scale * from[j];
        block_write(a->to, a->to_dtype, i, n, to);
    }
    return NULL;
}
