/* The GPU's dialect for a host compiler: kernels of src/ops/kernels/ run block by block on the CPU. Every thread of a
 * block is a fiber, so that barriers and shuffles work as on a GPU. For tests: it is slow, and cannot show races
 * between blocks. */
#ifndef AORTA_TESTS_OPS_EMULATOR_H
#define AORTA_TESTS_OPS_EMULATOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define AORTA_EMULATOR

struct emulated_index {
    unsigned x, y, z;
};
extern struct emulated_index threadIdx, blockIdx, blockDim, gridDim;

extern "C" {
void emulated_block_barrier(void);
void emulated_group_barrier(void);
uint32_t emulated_shuffle(uint32_t value, int mask);
}

#define DEVICE static inline
#define MEMBER inline
#define __shared__ static
/* An entry takes the address of its arguments, and says with how many threads it may be launched. */
#define KERNEL(threads, name, type)                                                                                    \
    static void name##_body(type a);                                                                                   \
    extern "C" void name(const void *args);                                                                            \
    extern "C" const int name##_threads;                                                                               \
    const int name##_threads = threads;                                                                                \
    extern "C" void name(const void *args) {                                                                           \
        name##_body(*static_cast<const type *>(args));                                                                 \
    }                                                                                                                  \
    static void name##_body(type a)
#define KERNEL_RESIDENT(threads, blocks, name, type) KERNEL(threads, name, type)
static inline void *dynamic_shared() {
    alignas(16) static char memory[227 << 10]; /* as much as an H100 has; device.c holds launches to it */
    return memory;
}
static inline void copy_begin(void *to, const void *from, bool inside) {
    if (inside)
        memcpy(to, from, 16);
    else
        memset(to, 0, 16);
}
static inline void copies_wait() {}
#define copy_bytes memcpy
#define __syncthreads emulated_block_barrier
#define group_sync emulated_group_barrier

static inline uint32_t shuffle_xor(uint32_t value, int mask) {
    return emulated_shuffle(value, mask);
}
static inline float shuffle_xor(float value, int mask) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = emulated_shuffle(bits, mask);
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline float fast_exp2(float x) {
    return exp2f(x);
}
static inline float fast_log2(float x) {
    return log2f(x);
}
static inline float fast_reciprocal(float x) {
    return 1.0f / x;
}
static inline void fail_kernel(void) {
    abort();
}
template <typename T> static inline T atomicAdd(T *to, T value) {
    const T before = *to;
    *to += value;
    return before;
}
static inline void __threadfence_system() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline int32_t atomicExch(int32_t *to, int32_t value) {
    const int32_t before = *to;
    *to = value;
    return before;
}

/* ldmatrix and mma.m16n8k16 as the PTX ISA describes them (sections "ldmatrix" and "Matrix Fragments for
 * mma.m16n8k16"). */
extern "C" {
void emulated_load_pieces(uint32_t piece[4], const void *address, int transposed);
/* a and b of all 32 threads, for the caller to compute its part with: fragments[thread][0 … 7] is a, [8 … 11] is b. */
const float (*emulated_fragments(const float own[12]))[12];
}
static inline void load_pieces(uint32_t piece[4], const void *address) {
    emulated_load_pieces(piece, address, 0);
}
static inline void load_pieces_transposed(uint32_t piece[4], const void *address) {
    emulated_load_pieces(piece, address, 1);
}
template <typename T> static inline float emulated_half_of(uint32_t word, int upper) {
    T element;
    element.bits = (uint16_t)(upper ? word >> 16 : word);
    return to_float(element);
}
template <typename T> static inline void tensor_product(float c[4], const uint32_t a[4], const uint32_t b[2], T) {
    float own[12];
    for (int i = 0; i < 12; i++) own[i] = emulated_half_of<T>(i < 8 ? a[i / 2] : b[i / 2 - 4], i % 2);
    const float(*fragments)[12] = emulated_fragments(own);
    const int lane = (int)(threadIdx.x % 32);
    for (int i = 0; i < 4; i++) {
        const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        double sum = (double)c[i];
        for (int k = 0; k < 16; k++) {
            /* a: element (row, k) is with thread row % 8 · 4 + k % 8 / 2; b: (k, column) with column · 4 + k % 8 / 2 */
            const float left = fragments[row % 8 * 4 + k % 8 / 2][(row / 8 + k / 8 * 2) * 2 + k % 2];
            const float right = fragments[column * 4 + k % 8 / 2][8 + k / 8 * 2 + k % 2];
            sum += (double)left * (double)right;
        }
        c[i] = (float)sum;
    }
}

/* IEEE 754 binary16 by its definition. */
static inline float emulated_from_half(uint16_t half) {
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const double magnitude = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
                             : exponent == 0 ? ldexp(fraction, -24)
                                             : ldexp(1024 + fraction, exponent - 25);
    return (float)(half & 0x8000 ? -magnitude : magnitude);
}
static inline uint16_t emulated_to_half(float value) {
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const double magnitude = fabs((double)value);
    if (isnan(value)) return (uint16_t)(sign | 0x7E00);
    if (magnitude >= 65520.0) return (uint16_t)(sign | 0x7C00);
    int exponent = -14;
    if (magnitude >= 0x1p-14) exponent = ilogb(magnitude);
    const int steps = (int)nearbyint(ldexp(magnitude, 10 - exponent)); /* of the last place; may carry over */
    return (uint16_t)(sign | (uint16_t)(((exponent + 14) << 10) + steps));
}

#endif
