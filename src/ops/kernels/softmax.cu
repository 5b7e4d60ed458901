/* Softmax and cross-entropy; a block works on a row, or, where rows are short, 32 threads do. Threads touch their own
 * elements only, so that rows may be replaced in place. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/reduce.h"

DEVICE int64_t counting(const aorta_softmax &shape, int64_t row) {
    return shape.causal ? row % shape.width + 1 : shape.width;
}

KERNEL(AORTA_ROW_THREADS, softmax_forward, aorta_softmax_args) {
    const int64_t row = blockIdx.x, width = a.shape.width, end = counting(a.shape, row);
    const float *x = a.x + row * width;
    float *p = a.out + row * width, most = AORTA_LOWEST, sum = 0.0f;
    for (int64_t i = threadIdx.x; i < end; i += AORTA_ROW_THREADS) most = greater(most, x[i]);
    most = block_greatest(most);
    for (int64_t i = threadIdx.x; i < end; i += AORTA_ROW_THREADS) {
        const float e = natural_exp(a.shape.scale * (x[i] - most));
        p[i] = e;
        sum += e;
    }
    const float inverse = 1.0f / block_total(sum);
    for (int64_t i = threadIdx.x; i < width; i += AORTA_ROW_THREADS) p[i] = i < end ? p[i] * inverse : 0.0f;
}

KERNEL(AORTA_ROW_THREADS, softmax_backward, aorta_softmax_args) {
    const int64_t row = blockIdx.x, width = a.shape.width, end = counting(a.shape, row);
    const float *p = a.x + row * width, *dp = a.dp + row * width;
    float *dx = a.out + row * width, along = 0.0f;
    for (int64_t i = threadIdx.x; i < end; i += AORTA_ROW_THREADS) along += p[i] * dp[i];
    along = block_total(along);
    for (int64_t i = threadIdx.x; i < width; i += AORTA_ROW_THREADS)
        dx[i] = i < end ? a.shape.scale * p[i] * (dp[i] - along) : 0.0f;
}

/* ---- short rows: read once, four neighbours at a time, into registers of 32 threads ---- */

enum { FOURS = AORTA_SHORT_ROW / 128 };

struct short_row {
    float value[FOURS][4];
};

DEVICE int first_column(int four) {
    return (four * 32 + (int)threadIdx.x % 32) * 4;
}

/* Elements from `end` on are `fallback`. */
DEVICE short_row load_row(const float *from, int width, int end, float fallback) {
    short_row row;
#pragma unroll
    for (int i = 0; i < FOURS; i++) {
        const int column = first_column(i);
        if (column < width) {
            const bytes16 four = *reinterpret_cast<const bytes16 *>(from + column);
            copy_bytes(row.value[i], &four, sizeof four);
        }
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (column + j >= end) row.value[i][j] = fallback;
    }
    return row;
}

DEVICE void store_row(float *to, int width, const short_row &row) {
#pragma unroll
    for (int i = 0; i < FOURS; i++) {
        bytes16 four;
        copy_bytes(&four, row.value[i], sizeof four);
        if (first_column(i) < width) *reinterpret_cast<bytes16 *>(to + first_column(i)) = four;
    }
}

DEVICE float total_of_32(float value) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
    return value;
}

DEVICE int64_t short_row_index() {
    return (int64_t)blockIdx.x * (AORTA_ROW_THREADS / 32) + threadIdx.x / 32;
}

KERNEL(AORTA_ROW_THREADS, softmax_forward_short, aorta_softmax_args) {
    const int64_t index = short_row_index();
    if (index >= a.shape.rows) return;
    const int width = (int)a.shape.width, end = (int)counting(a.shape, index);
    short_row row = load_row(a.x + index * width, width, end, AORTA_LOWEST);
    float most = AORTA_LOWEST, sum = 0.0f;
#pragma unroll
    for (int i = 0; i < FOURS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) most = greater(most, row.value[i][j]);
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) most = greater(most, shuffle_xor(most, mask));
#pragma unroll
    for (int i = 0; i < FOURS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const bool counts = first_column(i) + j < end;
            row.value[i][j] = counts ? natural_exp(a.shape.scale * (row.value[i][j] - most)) : 0.0f;
            sum += row.value[i][j];
        }
    const float inverse = 1.0f / total_of_32(sum);
#pragma unroll
    for (int i = 0; i < FOURS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) row.value[i][j] *= inverse;
    store_row(a.out + index * width, width, row);
}

KERNEL(AORTA_ROW_THREADS, softmax_backward_short, aorta_softmax_args) {
    const int64_t index = short_row_index();
    if (index >= a.shape.rows) return;
    const int width = (int)a.shape.width, end = (int)counting(a.shape, index);
    const short_row p = load_row(a.x + index * width, width, end, 0.0f);
    short_row dx = load_row(a.dp + index * width, width, end, 0.0f);
    float along = 0.0f;
#pragma unroll
    for (int i = 0; i < FOURS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) along += p.value[i][j] * dx.value[i][j];
    along = total_of_32(along);
#pragma unroll
    for (int i = 0; i < FOURS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) dx.value[i][j] = a.shape.scale * p.value[i][j] * (dx.value[i][j] - along);
    store_row(a.out + index * width, width, dx);
}

KERNEL(AORTA_ROW_THREADS, cross_entropy, aorta_cross_entropy_args) {
    const int64_t row = blockIdx.x, label = a.labels[row];
    const bool known = label >= 0 && label < a.classes;
    const float *x = a.x + row * a.classes;
    float *dx = a.dx + row * a.classes, most = AORTA_LOWEST, sum = 0.0f;
    const float nan = float_of_bits(0x7FC00000u);
    for (int64_t i = threadIdx.x; i < a.classes; i += AORTA_ROW_THREADS) most = greater(most, x[i]);
    most = block_greatest(most);
    for (int64_t i = threadIdx.x; i < a.classes; i += AORTA_ROW_THREADS) sum += natural_exp(x[i] - most);
    sum = block_total(sum);
    if (threadIdx.x == 0) a.losses[row] = known ? natural_log(sum) + most - x[label] : nan;
    __syncthreads(); /* dx may be x */
    for (int64_t i = threadIdx.x; i < a.classes; i += AORTA_ROW_THREADS) {
        const float p = natural_exp(x[i] - most) / sum - (i == label ? 1.0f : 0.0f);
        dx[i] = known ? a.weight * p : nan;
    }
}
