/* The dialect of the kernels: the C++ that NVRTC and hipRTC have in common. Differences between the compilers are here
 * and in element.h and matrix.h, nowhere else. A host compiler can compile kernels, too: tests/ops/emulator defines
 * AORTA_EMULATOR and provides the part below "emulated". */
#ifndef AORTA_KERNELS_PORTABLE_H
#define AORTA_KERNELS_PORTABLE_H

#ifndef AORTA_EMULATOR

/* The runtime compilers have no headers, and differ in which of these names they predefine. */
typedef decltype(sizeof(0)) size_t;
typedef unsigned char aorta_uint8;
typedef unsigned short aorta_uint16;
typedef int aorta_int32;
typedef unsigned int aorta_uint32;
typedef long long aorta_int64;
typedef unsigned long long aorta_uint64;
#define uint8_t aorta_uint8
#define uint16_t aorta_uint16
#define int32_t aorta_int32
#define uint32_t aorta_uint32
#define int64_t aorta_int64
#define uint64_t aorta_uint64
#define UINT32_MAX 0xFFFFFFFFu

#define DEVICE __device__ __forceinline__
#define MEMBER DEVICE /* the same inside a struct */
/* KERNEL(threads, name, struct) { … } is an entry that takes the struct by value as `a` and is never launched with more
 * threads in a block. */
#define KERNEL(threads, name, type) KERNEL_BOUND(__launch_bounds__(threads), name, type)
#define KERNEL_BOUND(bounds, name, type) extern "C" __global__ void bounds name(type a)

/* Shared memory whose size the launch says. */
struct alignas(16) aorta_shared16 {
    uint32_t word[4];
};
DEVICE void *dynamic_shared() {
    extern __shared__ aorta_shared16 aorta_dynamic_shared[];
    return aorta_dynamic_shared;
}

#if defined(__CUDACC__) && !defined(__HIP__)
#define AORTA_CUDA
/* KERNEL that must leave registers for `blocks` blocks on a multiprocessor. */
#define KERNEL_RESIDENT(threads, blocks, name, type) KERNEL_BOUND(__launch_bounds__(threads, blocks), name, type)
#define copy_bytes memcpy
/* Among the 32 threads of consecutive index that this one belongs to: the value of the thread at index ^ mask. */
DEVICE float shuffle_xor(float value, int mask) {
    return __shfl_xor_sync(0xFFFFFFFFu, value, mask);
}
DEVICE uint32_t shuffle_xor(uint32_t value, int mask) {
    return __shfl_xor_sync(0xFFFFFFFFu, value, mask);
}
/* Makes writes of these 32 threads to shared memory visible to all of them. */
DEVICE void group_sync() {
    __syncwarp();
}
DEVICE void fail_kernel() {
    __trap();
}
DEVICE int64_t device_timer() {
    int64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}
DEVICE float fast_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
DEVICE float fast_log2(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
DEVICE float fast_reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#else /* HIP, where a wavefront may be 64 threads: 32 of them never straddle two */
/* HIP's second launch bound has another meaning. */
#define KERNEL_RESIDENT(threads, blocks, name, type) KERNEL(threads, name, type)
#define copy_bytes __builtin_memcpy
DEVICE uint32_t shuffle_xor(uint32_t value, int mask) {
    const int lane = (int)__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
    return (uint32_t)__builtin_amdgcn_ds_bpermute((lane ^ mask) << 2, (int)value);
}
DEVICE float shuffle_xor(float value, int mask) {
    return __builtin_bit_cast(float, shuffle_xor(__builtin_bit_cast(uint32_t, value), mask));
}
DEVICE void group_sync() {
    __syncthreads(); /* all groups of a block call it equally often */
}
DEVICE void fail_kernel() {
    __builtin_trap();
}
DEVICE int64_t device_timer() {
#if __has_builtin(__builtin_readsteadycounter)
    return (int64_t)__builtin_readsteadycounter();
#else /* before clang 18 */
    return (int64_t)__builtin_amdgcn_s_memrealtime();
#endif
}
DEVICE float fast_exp2(float x) {
    return __builtin_exp2f(x);
}
DEVICE float fast_log2(float x) {
    return __builtin_log2f(x);
}
DEVICE float fast_reciprocal(float x) {
    return __builtin_amdgcn_rcpf(x);
}
#endif

#endif /* emulated: the above, __shared__, threadIdx and its kin, __syncthreads, atomicAdd, atomicExch, copy_bytes,    \
          fail_kernel */

/* Kernels that take long to compile are compiled apart for each element type (src/ops/CMakeLists.txt), as a run has one
 * type; only the entries of that type exist then. */
#if defined(AORTA_ELEMENT_fp16) || defined(AORTA_ELEMENT_bf16)
#define ENTRY_FP32(...)
#else
#define ENTRY_FP32(...) __VA_ARGS__
#endif
#if defined(AORTA_ELEMENT_fp32) || defined(AORTA_ELEMENT_bf16)
#define ENTRY_FP16(...)
#else
#define ENTRY_FP16(...) __VA_ARGS__
#endif
#if defined(AORTA_ELEMENT_fp32) || defined(AORTA_ELEMENT_fp16)
#define ENTRY_BF16(...)
#else
#define ENTRY_BF16(...) __VA_ARGS__
#endif

/* One entry for each element type, name_fp32, name_fp16 and name_bf16: each calls the function template with the
 * type and the further arguments. RESIDENT: entries that leave registers for several blocks, in fp32 for `wide` of
 * them.
 */
#define TYPED_KERNELS(threads, name, type, function, ...)                                                              \
    ENTRY_FP32(KERNEL(threads, name##_fp32, type) { function<float, ##__VA_ARGS__>(a); })                              \
    ENTRY_FP16(KERNEL(threads, name##_fp16, type) { function<fp16, ##__VA_ARGS__>(a); })                               \
    ENTRY_BF16(KERNEL(threads, name##_bf16, type) { function<bf16, ##__VA_ARGS__>(a); })
#define TYPED_KERNELS_RESIDENT(threads, wide, blocks, name, type, function, ...)                                       \
    ENTRY_FP32(KERNEL_RESIDENT(threads, wide, name##_fp32, type) { function<float, ##__VA_ARGS__>(a); })               \
    ENTRY_FP16(KERNEL_RESIDENT(threads, blocks, name##_fp16, type) { function<fp16, ##__VA_ARGS__>(a); })              \
    ENTRY_BF16(KERNEL_RESIDENT(threads, blocks, name##_bf16, type) { function<bf16, ##__VA_ARGS__>(a); })

DEVICE int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
DEVICE int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
/* How many of `size` elements from `first` on are below `end`: 0 … size. */
DEVICE int within(int64_t first, int64_t end, int size) {
    return first >= end ? 0 : (int)least(end - first, size);
}
/* The thread's index in its block. */
DEVICE int thread_index() {
    return (int)(threadIdx.y * blockDim.x + threadIdx.x);
}

#endif
