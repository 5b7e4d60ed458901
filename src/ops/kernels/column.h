/* Sums over rows, first stage: blocks of AORTA_COLUMN_LANES × AORTA_COLUMN_ROWS threads, each with eight columns. */
#ifndef AORTA_KERNELS_COLUMN_H
#define AORTA_KERNELS_COLUMN_H

#include "ops/kernels/arguments.h"
#include "ops/kernels/element.h"

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
