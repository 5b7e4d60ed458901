/* Element types, and eight elements at a time: 16 bytes of the 16-bit types, and one block of random numbers. */
#ifndef AORTA_KERNELS_ELEMENT_H
#define AORTA_KERNELS_ELEMENT_H

#include "base/dtype.h"
#include "ops/kernels/portable.h"

struct fp16 {
    uint16_t bits;
};
struct bf16 {
    uint16_t bits;
};

DEVICE float float_of_bits(uint32_t bits) {
    float value;
    copy_bytes(&value, &bits, sizeof value);
    return value;
}
DEVICE uint32_t bits_of_float(float value) {
    uint32_t bits;
    copy_bytes(&bits, &value, sizeof bits);
    return bits;
}

DEVICE float natural_exp(float x) {
    return fast_exp2(1.44269504088896341f * x);
}
DEVICE float natural_log(float x) {
    return 0.693147180559945309f * fast_log2(x);
}

DEVICE float to_float(float value) {
    return value;
}
DEVICE float to_float(bf16 value) {
    return float_of_bits((uint32_t)value.bits << 16);
}

/* Rounding to nearest even, as the processor does it or as src/ops/cpu/pointwise.c. */
DEVICE void narrow(float value, float *to) {
    *to = value;
}

#if defined(AORTA_EMULATOR)
DEVICE float to_float(fp16 value) {
    return emulated_from_half(value.bits);
}
DEVICE void narrow(float value, fp16 *to) {
    to->bits = emulated_to_half(value);
}
#elif defined(AORTA_CUDA)
DEVICE float to_float(fp16 value) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
    return wide;
}
DEVICE void narrow(float value, fp16 *to) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to->bits) : "f"(value));
}
#else
DEVICE float to_float(fp16 value) {
    return (float)__builtin_bit_cast(_Float16, value.bits);
}
DEVICE void narrow(float value, fp16 *to) {
    to->bits = __builtin_bit_cast(uint16_t, (_Float16)value);
}
#endif

#if defined(AORTA_CUDA)
DEVICE void narrow(float value, bf16 *to) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to->bits) : "f"(value));
}
#else
DEVICE void narrow(float value, bf16 *to) {
    const uint32_t bits = bits_of_float(value);
    const uint32_t nearest = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    const uint32_t quiet = bits >> 16 | 0x40u;
    to->bits = (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : nearest);
}
#endif

template <typename T> DEVICE T from_float(float value) {
    T element;
    narrow(value, &element);
    return element;
}

template <typename T> DEVICE float rounded(float value) {
    return to_float(from_float<T>(value));
}

struct alignas(16) bytes16 {
    uint32_t word[4];
};

DEVICE bool aligned16(const void *pointer) {
    return ((size_t)pointer & 15u) == 0;
}

/* Two elements in the halves of a word. */
#if defined(AORTA_CUDA)
DEVICE uint32_t pack(float low, float high, bf16) {
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
DEVICE uint32_t pack(float low, float high, fp16) {
    uint32_t word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
#else
template <typename T> DEVICE uint32_t pack(float low, float high, T) {
    return from_float<T>(low).bits | (uint32_t)from_float<T>(high).bits << 16;
}
#endif
DEVICE void unpack(uint32_t word, float *low, float *high, bf16) {
    *low = float_of_bits(word << 16);
    *high = float_of_bits(word & 0xFFFF0000u);
}
DEVICE void unpack(uint32_t word, float *low, float *high, fp16) {
    *low = to_float(fp16{(uint16_t)word});
    *high = to_float(fp16{(uint16_t)(word >> 16)});
}

/* Four floats from memory that is aligned to 16 bytes. */
DEVICE void load4(const float *from, float to[4]) {
    const bytes16 four = *reinterpret_cast<const bytes16 *>(from);
    copy_bytes(to, &four, sizeof four);
}
DEVICE void store4(float *to, const float from[4]) {
    bytes16 four;
    copy_bytes(&four, from, sizeof four);
    *reinterpret_cast<bytes16 *>(to) = four;
}

/* Eight elements from such memory. */
template <typename T> DEVICE void open_words(const bytes16 *part, float value[8], T type) {
#pragma unroll
    for (int i = 0; i < 4; i++) unpack(part->word[i], &value[2 * i], &value[2 * i + 1], type);
}
DEVICE void open_words(const bytes16 *part, float value[8], float) {
    copy_bytes(value, part, 32);
}
template <typename T> DEVICE void load_aligned(const T *from, float value[8]) {
    bytes16 part[sizeof(T) / 2];
    for (size_t i = 0; i < sizeof(T) / 2; i++) part[i] = reinterpret_cast<const bytes16 *>(from)[i];
    open_words(part, value, T());
}
template <typename T> DEVICE bytes16 pack_words(const float value[8], T type) {
    bytes16 part;
#pragma unroll
    for (int i = 0; i < 4; i++) part.word[i] = pack(value[2 * i], value[2 * i + 1], type);
    return part;
}
template <typename T> DEVICE void store_aligned(T *to, const float value[8]) {
    *reinterpret_cast<bytes16 *>(to) = pack_words(value, T());
}
DEVICE void store_aligned(float *to, const float value[8]) {
    for (int i = 0; i < 2; i++) {
        bytes16 part;
        copy_bytes(&part, value + 4 * i, 16);
        reinterpret_cast<bytes16 *>(to)[i] = part;
    }
}

/* Eight elements in their memory format, so that many can be in flight before the first is used. */
template <typename T> struct chunk { bytes16 part[sizeof(T) / 2]; };

template <typename T> DEVICE chunk<T> load_chunk(const T *from) {
    chunk<T> c;
#pragma unroll
    for (size_t i = 0; i < sizeof(T) / 2; i++) c.part[i] = reinterpret_cast<const bytes16 *>(from)[i];
    return c;
}
template <typename T> DEVICE void open_chunk(const chunk<T> &c, float value[8]) {
    open_words(c.part, value, T());
}

/* The first `count` of eight elements, from memory of any alignment; elements after them read as 0 and are not written.
 */
template <typename T> DEVICE void load8(const T *from, int count, float value[8]) {
    if (count == 8 && aligned16(from)) return load_aligned(from, value);
#pragma unroll
    for (int i = 0; i < 8; i++) value[i] = i < count ? to_float(from[i]) : 0.0f;
}
template <typename T> DEVICE void store8(T *to, int count, const float value[8]) {
    if (count == 8 && aligned16(to)) return store_aligned(to, value);
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (i < count) to[i] = from_float<T>(value[i]);
}

/* load8 with the type as data. */
DEVICE void load8_any(const void *base, aorta_dtype dtype, int64_t first, int count, float value[8]) {
    if (dtype == AORTA_F32) return load8((const float *)base + first, count, value);
    if (dtype == AORTA_BF16) return load8((const bf16 *)base + first, count, value);
    load8((const fp16 *)base + first, count, value);
}
DEVICE void store8_any(void *base, aorta_dtype dtype, int64_t first, int count, const float value[8]) {
    if (dtype == AORTA_F32) return store8((float *)base + first, count, value);
    if (dtype == AORTA_BF16) return store8((bf16 *)base + first, count, value);
    store8((fp16 *)base + first, count, value);
}

#endif
