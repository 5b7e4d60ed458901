/* Sums over the rows of a matrix in two stages, without atomics: the same bits every time. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/element.h"
#include "ops/kernels/reduce.h"

template <typename T> DEVICE void column_sums(const aorta_gpu_column_args &a) {
    __shared__ float sums[AORTA_COLUMN_ROWS][AORTA_COLUMN_LANES * 8];
    const int64_t column = ((int64_t)blockIdx.x * AORTA_COLUMN_LANES + threadIdx.x) * 8;
    const int count = within(column, a.columns, 8);
    const int64_t begin = (int64_t)blockIdx.y * a.rows_per_split;
    const int64_t end = least(begin + a.rows_per_split, a.rows);
    float sum[8] = {};
    for (int64_t row = begin + threadIdx.y; row < end; row += AORTA_COLUMN_ROWS) {
        float value[8];
        load8((const T *)a.x + row * a.columns + column, count, value);
        for (int i = 0; i < 8; i++) sum[i] += value[i];
    }
    column_partial(sums, sum, a.columns, a.partial);
}
TYPED_KERNELS(AORTA_COLUMN_LANES *AORTA_COLUMN_ROWS, column_sums, aorta_gpu_column_args)

/* Each thread sums some rows of a column, 32 threads join theirs by exchange, and those of the block by way of shared
 * memory. */
KERNEL(AORTA_FINISH_LANES *AORTA_FINISH_ROWS, column_finish, aorta_gpu_column_finish_args) {
    enum { GROUPS = AORTA_FINISH_LANES * AORTA_FINISH_ROWS / 32 };
    __shared__ float sums[GROUPS][AORTA_FINISH_LANES];
    int which = 0;
    while (blockIdx.x >= a.ends[which]) which++;
    const aorta_gpu_column_sums &s = a.sums[which];
    const int64_t block = (int64_t)blockIdx.x - (which ? a.ends[which - 1] : 0);
    const int64_t column = block * AORTA_FINISH_LANES + threadIdx.x;
    const bool zero = column >= s.zero_from && column < s.zero_to;
    const int64_t end = column < s.columns && !zero ? s.rows : 0;
    const int t = thread_index();
    float sum = 0.0f;
#pragma unroll 8
    for (int64_t row = threadIdx.y; row < end; row += AORTA_FINISH_ROWS) sum += s.partial[row * s.columns + column];
    for (int mask = AORTA_FINISH_LANES; mask < 32; mask *= 2) sum += shuffle_xor(sum, mask);
    if (t % 32 < AORTA_FINISH_LANES) sums[t / 32][threadIdx.x] = sum;
    __syncthreads();
    if (t >= AORTA_FINISH_LANES || column >= s.columns) return;
    sum = 0.0f;
#pragma unroll
    for (int group = 0; group < GROUPS; group++) sum += sums[group][t];
    const int64_t part = column / s.split;
    float *to = (part == 0 ? s.sums[0] : part == 1 ? s.sums[1] : s.sums[2]) + (column - part * s.split);
    *to = s.accumulate ? *to + sum : sum;
}
