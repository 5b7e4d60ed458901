/* GELU and its slope, of eight elements at a time. */
#ifndef AORTA_KERNELS_GELU_H
#define AORTA_KERNELS_GELU_H

#include "ops/kernels/element.h"

#define AORTA_NORMAL_FUNCTION DEVICE
#include "ops/normal.h"

/* Φ(−t) over e^(−t²/2), as exactly as type T can hold. */
DEVICE float normal_tail(float t, float) {
    return aorta_normal_tail(fast_reciprocal(1.0f + 0.21f * t));
}
template <typename T> DEVICE float normal_tail(float t, T) {
    return aorta_normal_tail_short(fast_reciprocal(1.0f + 0.255f * t));
}

/* GELU of x and its slope there. With t = |x| and the tail Φ(−t), GELU is max(x, 0) − t·Φ(−t), and its slope Φ(−t) −
 * t·φ(t), or 1 less that right of 0. */
template <typename T> DEVICE void gelu_at(float x, float *value, float *slope) {
    const float t = float_of_bits(bits_of_float(x) & 0x7FFFFFFFu), e = fast_exp2(-0.5f * 1.44269504088896341f * t * t);
    const float tail = normal_tail(t, T()), left = (tail - 0.398942280401432678f * t) * e;
    *value = (x > 0.0f ? x : 0.0f) - t * (tail * e);
    *slope = x < 0.0f ? left : 1.0f - left;
}

/* GELU of x, or with BACKWARD its slope there times dy, which `value` holds; both before dropout. */
template <typename T, bool BACKWARD> DEVICE void gelu_values(const float x[8], float value[8]) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float y, slope;
        gelu_at<T>(x[i], &y, &slope);
        value[i] = BACKWARD ? value[i] * slope : y;
    }
}

#endif
