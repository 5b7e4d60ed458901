/* Conversions between fp32 and the 16-bit types, by integer operations without branches, so that loops vectorize.
 * Formats: IEEE 754-2008 binary16; bfloat16 is the upper half of a binary32. Rounding is to the nearest, ties to even;
 * NaNs become quiet NaNs. */
#ifndef AORTA_BASE_HALF_H
#define AORTA_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float aorta_float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t aorta_bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float aorta_float_of_bf16(uint16_t half) {
    return aorta_float_of_bits((uint32_t)half << 16);
}

/* Adds half of the last remaining place, less one if that place is even. NaNs are handled separately, as the carry
 * could make them infinity or zero. */
static inline uint16_t aorta_bf16_of_float(float value) {
    uint32_t bits = aorta_bits_of_float(value);
    uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
}

/* Normal numbers: the exponent moves by the difference of the biases (127 − 15). Subnormals: a float subtraction
 * normalises the fraction. */
static inline float aorta_float_of_f16(uint16_t half) {
    uint32_t magnitude = (uint32_t)(half & 0x7FFFu) << 13;
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    float subnormal = aorta_float_of_bits(magnitude + (113u << 23)) - aorta_float_of_bits(113u << 23);
    uint32_t normal = magnitude + (112u << 23);
    uint32_t special = magnitude | 0x7F800000u | (magnitude > 0x0F800000u ? 0x400000u : 0u); /* infinity, quiet NaN */
    uint32_t bits = magnitude < 0x00800000u ? aorta_bits_of_float(subnormal) : normal;
    return aorta_float_of_bits((magnitude >= 0x0F800000u ? special : bits) | sign);
}

static inline uint16_t aorta_f16_of_float(float value) {
    uint32_t bits = aorta_bits_of_float(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7FFFFFFFu;
    /* Below 2^-14 the half is subnormal: adding 1/2 leaves its fraction, rounded by the addition, in the low bits. */
    uint32_t subnormal = aorta_bits_of_float(aorta_float_of_bits(magnitude) + 0.5f) - 0x3F000000u;
    uint32_t normal = (magnitude - (112u << 23) + 0xFFFu + (magnitude >> 13 & 1u)) >> 13;
    uint32_t half = magnitude < (113u << 23) ? subnormal : normal;
    half = magnitude >= 0x47800000u ? 0x7C00u : half; /* from 65536 on; 65520 and above got there by rounding */
    half = magnitude > 0x7F800000u ? 0x7E00u | (magnitude >> 13 & 0x1FFu) : half;
    return (uint16_t)(half | sign);
}

#endif
