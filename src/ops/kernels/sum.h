/* Sums over the threads of a block, always in the same order. */
#ifndef AORTA_KERNELS_SUM_H
#define AORTA_KERNELS_SUM_H

#include "ops/kernels/arguments.h"
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

#endif
