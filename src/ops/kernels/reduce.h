/* Sums over the threads of a block, always in the same order. */
#ifndef AORTA_OPS_KERNELS_REDUCE_H
#define AORTA_OPS_KERNELS_REDUCE_H

#include "ops/kernels/arguments.h"
#include "ops/kernels/element.h"
#include "ops/kernels/portable.h"

/* Over the 32 threads of a group; all of them get it. */
DEVICE float group_sum(float value) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
    return value;
}

/* Over a block of AORTA_SUM_THREADS; thread 0 gets it. */
DEVICE double block_sum(double value) {
    __shared__ double sums[AORTA_SUM_THREADS];
    const int t = (int)threadIdx.x;
    sums[t] = value;
    __syncthreads();
    for (int half = AORTA_SUM_THREADS / 2; half > 0; half /= 2) {
        if (t < half) sums[t] += sums[t + half];
        __syncthreads();
    }
    return sums[0];
}

/* The sum of `value` over the threads before this one among its `width`, and of all those, in a block of `threads`. */
template <typename T, int threads, int width> DEVICE T sum_before(T value, T *all) {
    __shared__ T sums[threads];
    const int t = (int)threadIdx.x, lane = t % width;
    sums[t] = value;
    __syncthreads();
    for (int step = 1; step < width; step *= 2) {
        const T before = lane >= step ? sums[t - step] : 0;
        __syncthreads();
        sums[t] += before;
        __syncthreads();
    }
    const T up_to = sums[t];
    *all = sums[t - lane + width - 1];
    __syncthreads();
    return up_to - value;
}

/* ---- maxima, and the place of the largest ----
 * Sums, maxima and the place of the largest over the threads of a block, always in the same order. All threads of the
 * block call them, and all get the result. blockDim.x is a multiple of 32, 1024 at most; the block is flat. */

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

/* ---- sums over rows, first stage ----
 * Blocks of AORTA_COLUMN_LANES × AORTA_COLUMN_ROWS threads, each with eight columns. */

/* The block's sums, in the order of its rows of threads, into row blockIdx.y of partial [splits, columns]. */
DEVICE void column_partial(float (*sums)[AORTA_COLUMN_LANES * 8], float sum[8], int64_t columns, float *partial) {
    const int lane = (int)threadIdx.x;
    const int64_t column = ((int64_t)blockIdx.x * AORTA_COLUMN_LANES + lane) * 8;
    for (int i = 0; i < 8; i++) sums[threadIdx.y][lane * 8 + i] = sum[i];
    __syncthreads();
    if (threadIdx.y > 0) return;
    for (int y = 1; y < AORTA_COLUMN_ROWS; y++)
        for (int i = 0; i < 8; i++) sum[i] += sums[y][lane * 8 + i];
    store8(partial + (int64_t)blockIdx.y * columns + column, within(column, columns, 8), sum);
}

#endif
