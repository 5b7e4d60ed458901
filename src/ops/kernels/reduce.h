/* Sums, maxima and the place of the largest over the threads of a block, always in the same order. All threads of the
 * block call them, and all get the result. blockDim.x is a multiple of 32, 1024 at most; the block is flat. */
#ifndef AORTA_KERNELS_REDUCE_H
#define AORTA_KERNELS_REDUCE_H

#include "ops/kernels/element.h"
#include "ops/kernels/sum.h"

#define AORTA_LOWEST (-3.0e38f) /* in place of minus infinity, so that differences are defined */

DEVICE float greater(float a, float b) {
    return a > b ? a : b;
}

DEVICE float block_reduce(float value, bool maximum) {
    __shared__ float parts[32];
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
        const float other = shuffle_xor(value, mask);
        value = maximum ? greater(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    float total = parts[0];
    for (int i = 1; i < (int)blockDim.x / 32; i++) total = maximum ? greater(total, parts[i]) : total + parts[i];
    __syncthreads();
    return total;
}
DEVICE float block_total(float value) {
    return block_reduce(value, false);
}
DEVICE float block_greatest(float value) {
    return block_reduce(value, true);
}

/* A value and its place; of equal ones the first. */
struct placed {
    float value;
    uint32_t place;
};
DEVICE placed better(const placed &a, const placed &b) {
    return b.value > a.value || (b.value == a.value && b.place < a.place) ? b : a;
}
DEVICE placed block_best(placed best) {
    __shared__ placed parts[32];
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
        best = better(best, placed{shuffle_xor(best.value, mask), shuffle_xor(best.place, mask)});
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = best;
    __syncthreads();
    best = parts[0];
    for (int i = 1; i < (int)blockDim.x / 32; i++) best = better(best, parts[i]);
    __syncthreads();
    return best;
}

DEVICE float natural_exp(float x) {
    return fast_exp2(1.44269504088896341f * x);
}
DEVICE float natural_log(float x) {
    return 0.693147180559945309f * fast_log2(x);
}

#endif
