/* Sums over the rows of a matrix in two stages, without atomics: the same bits every time. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/element.h"

template <typename T> DEVICE void column_sums(const aorta_gpu_column_args &a) {
    __shared__ float sums[AORTA_COLUMN_ROWS][AORTA_COLUMN_LANES * 8];
    const int lane = (int)threadIdx.x;
    const int64_t column = ((int64_t)blockIdx.x * AORTA_COLUMN_LANES + lane) * 8;
    const int count = within(column, a.columns, 8);
    const int64_t begin = (int64_t)blockIdx.y * a.rows_per_split;
    const int64_t end = least(begin + a.rows_per_split, a.rows);
    float sum[8] = {};
    for (int64_t row = begin + threadIdx.y; row < end; row += AORTA_COLUMN_ROWS) {
        float value[8];
        load8((const T *)a.x + row * a.columns + column, count, value);
        for (int i = 0; i < 8; i++) sum[i] += value[i];
    }
    for (int i = 0; i < 8; i++) sums[threadIdx.y][lane * 8 + i] = sum[i];
    __syncthreads();
    if (threadIdx.y > 0) return;
    for (int y = 1; y < AORTA_COLUMN_ROWS; y++)
        for (int i = 0; i < 8; i++) sum[i] += sums[y][lane * 8 + i];
    store8(a.partial + (int64_t)blockIdx.y * a.columns + column, count, sum);
}
TYPED_KERNELS(AORTA_COLUMN_LANES *AORTA_COLUMN_ROWS, column_sums, aorta_gpu_column_args)

KERNEL(AORTA_COLUMN_LANES *AORTA_FINISH_ROWS, column_finish, aorta_gpu_column_finish_args) {
    __shared__ float sums[AORTA_FINISH_ROWS][AORTA_COLUMN_LANES];
    const int64_t column = (int64_t)blockIdx.x * AORTA_COLUMN_LANES + threadIdx.x;
    const int64_t end = column < a.columns ? a.rows : 0;
    const int y = (int)threadIdx.y;
    float sum = 0.0f;
#pragma unroll 8
    for (int64_t row = y; row < end; row += AORTA_FINISH_ROWS) sum += a.partial[row * a.columns + column];
    sums[y][threadIdx.x] = sum;
    for (int half = AORTA_FINISH_ROWS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (y < half) sums[y][threadIdx.x] += sums[y + half][threadIdx.x];
    }
    if (y > 0 || column >= a.columns) return;
    sum = sums[0][threadIdx.x];
    float *to = column < a.split ? a.first + column : a.second + (column - a.split);
    *to = a.accumulate ? *to + sum : sum;
}
