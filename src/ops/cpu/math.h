/* Elementary functions for loops that the compiler turns into vector code: no branches, no tables, no calls. */
#ifndef AORTA_OPS_CPU_MATH_H
#define AORTA_OPS_CPU_MATH_H

#include "base/half.h"
#include "ops/normal.h"

/* e^x for x ≤ 0, within 2 ulp; below −87 it stays at the smallest normal number. NaN stays NaN.
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

#endif
