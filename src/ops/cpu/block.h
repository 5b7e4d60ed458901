/* The exports of this folder's files. They are compiled once for each instruction set; AORTA_ISA is its short name, and
 * exported names end with it: AORTA_ISA_NAME(cast) is aorta_cast_generic, aorta_cast_v3 or aorta_cast_v4. */
#ifndef AORTA_OPS_CPU_BLOCK_H
#define AORTA_OPS_CPU_BLOCK_H

#include "base/half.h"
#include "ops/cpu/cpu.h"
#include "ops/shared.h"

#ifndef AORTA_ISA
#define AORTA_ISA generic
#endif
#define AORTA_ISA_PASTE(name, isa) aorta_##name##_##isa
#define AORTA_ISA_EXPAND(name, isa) AORTA_ISA_PASTE(name, isa)
#define AORTA_ISA_NAME(name) AORTA_ISA_EXPAND(name, AORTA_ISA)

extern const struct aorta_cpu_ops AORTA_ISA_NAME(cpu_ops);

#define LOOP(name) aorta_status AORTA_ISA_NAME(name)(const void *args);
#include "ops/kernels.def"

/* As the members of struct aorta_cpu_ops. */
void AORTA_ISA_NAME(column_sums)(const struct aorta_linear *shape, const void *dy, float *dbias, bool accumulate);
void AORTA_ISA_NAME(relu)(void *y, enum aorta_dtype dtype, int64_t count);
void AORTA_ISA_NAME(to_float)(float *to, const void *from, enum aorta_dtype dtype, int64_t count);
void AORTA_ISA_NAME(from_float)(void *to, const float *from, enum aorta_dtype dtype, int64_t count);
void AORTA_ISA_NAME(philox)(const uint32_t key[2], uint64_t step, uint64_t first, int64_t count, uint32_t *words);

/* Elementary functions for loops that the compiler vectorizes, so without branches, tables or calls. */

/* e^x for x ≤ 0, within 2 ulp; x below −87 counts as −87, so that the result stays a normal number. NaN stays NaN.
 * x = n·ln 2 + r; e^r by the polynomial of Cephes' expf (S. Moshier), 2^n by its exponent bits. */
static inline float exp_of_negative(float x) {
    const float round_magic = 12582912.0f; /* 1.5·2^23: adding it rounds to an integer in the low bits */
    x = x < -87.0f ? -87.0f : x;
    float shifted = x * 1.44269504088896341f + round_magic;
    float n = shifted - round_magic;
    float r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    uint32_t exponent = (aorta_bits_of_float(shifted) - aorta_bits_of_float(round_magic) + 127u) << 23;
    return p * aorta_float_of_bits(exponent);
}

/* The normal distribution: *cdf = Φ(x) and *density = φ(x), from one exponential; about 3e-7 as evaluated in fp32. */
static inline void normal_distribution(float x, float *cdf, float *density) {
    float t = x < 0.0f ? -x : x;
    float e = exp_of_negative(-0.5f * t * t);
    float tail = aorta_normal_tail(1.0f / (1.0f + 0.21f * t)) * e;
    *cdf = x < 0.0f ? tail : 1.0f - tail;
    *density = 0.398942280401432678f * e;
}

/* ---- blocks of elements ---- */

#define AORTA_BLOCK 1024 /* elements that are processed at a time */
#define AORTA_BITS_BUFFER (AORTA_BLOCK + 2 * AORTA_PHILOX_GROUP)

/* y = dropout(x) of `count` elements from `first` on; y may be x. */
void AORTA_ISA_NAME(drop)(const struct aorta_dropout *dropout, int64_t first, int64_t count, const float *x, float *y);
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

/* Where to write fp32 results for element `first` on: the memory itself or `buffer`, for block_write to convert. */
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
