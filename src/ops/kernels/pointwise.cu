/* Elementwise operations: cast, fill, add, GELU. A thread processes eight elements. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/dropout.h"
#include "ops/kernels/element.h"
#include "ops/kernels/reduce.h"

#define AORTA_SHARED DEVICE
#include "ops/shared.h"

/* ---- GELU and its slope, of eight elements at a time ---- */

/* Φ(−t) over e^(−t²/2), as exactly as type T can hold. */
DEVICE float normal_tail(float t, float) {
    return aorta_normal_tail(fast_reciprocal(1.0f + 0.21f * t));
}
template <typename T> DEVICE float normal_tail(float t, T) {
    return aorta_normal_tail_short(fast_reciprocal(1.0f + 0.255f * t));
}

/* GELU of x and its slope there. With t = |x| and the tail Φ(−t), GELU is max(x, 0) − t·Φ(−t), and its slope Φ(−t) −
 * t·φ(t), or 1 less that right of 0. */
template <typename T> DEVICE void gelu_at(float x, float *value, float *slope) {
    const float t = float_of_bits(bits_of_float(x) & 0x7FFFFFFFu), e = fast_exp2(-0.5f * 1.44269504088896341f * t * t);
    const float tail = normal_tail(t, T()), left = (tail - 0.398942280401432678f * t) * e;
    *value = (x > 0.0f ? x : 0.0f) - t * (tail * e);
    *slope = x < 0.0f ? left : 1.0f - left;
}

/* GELU of x, or with BACKWARD its slope there times dy, which `value` holds; both before dropout. */
template <typename T, bool BACKWARD> DEVICE void gelu_values(const float x[8], float value[8]) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float y, slope;
        gelu_at<T>(x[i], &y, &slope);
        value[i] = BACKWARD ? value[i] * slope : y;
    }
}

DEVICE int64_t first_element() {
    return ((int64_t)blockIdx.x * AORTA_POINTWISE_THREADS + threadIdx.x) * 8;
}

KERNEL(AORTA_POINTWISE_THREADS, cast, aorta_cast_args) {
    const int64_t first = first_element();
    const int count = within(first, a.count, 8);
    float value[8];
    load8_any(a.from, a.from_dtype, first, count, value);
    for (int i = 0; i < 8; i++) value[i] *= a.scale;
    store8_any(a.to, a.to_dtype, first, count, value);
}

KERNEL(AORTA_POINTWISE_THREADS, fill, aorta_fill_args) {
    const int64_t first = first_element();
    float value[8];
    for (int i = 0; i < 8; i++) value[i] = a.value;
    store8_any(a.to, a.dtype, first, within(first, a.count, 8), value);
}

KERNEL(AORTA_POINTWISE_THREADS, add, aorta_cast_args) {
    const int64_t first = first_element();
    const int count = within(first, a.count, 8);
    float from[8], to[8];
    load8_any(a.from, a.from_dtype, first, count, from);
    load8_any(a.to, a.to_dtype, first, count, to);
    for (int i = 0; i < 8; i++) to[i] += a.scale * from[i];
    store8_any(a.to, a.to_dtype, first, count, to);
}

template <typename T, bool BACKWARD>
DEVICE void gelu_part(const aorta_gelu_args &a, const dropout &drop, int64_t first) {
    const int count = within(first, a.shape.count, 8);
    float x[8], value[8];
    load8((const T *)a.x + first, count, x);
    if (BACKWARD) load8((const T *)a.dy + first, count, value);
    gelu_values<T, BACKWARD>(x, value);
    dropout_apply(drop, first, value);
    store8((T *)a.out + first, count, value);
}

/* All chunks of a thread are loaded first; their random numbers are made while the loads are in flight. */
template <typename T, bool BACKWARD>
DEVICE void gelu_whole(const aorta_gelu_args &a, const dropout &drop, int64_t first) {
    chunk<T> x[AORTA_GELU_CHUNKS], dy[AORTA_GELU_CHUNKS];
    philox samples[AORTA_GELU_CHUNKS];
#pragma unroll
    for (int c = 0; c < AORTA_GELU_CHUNKS; c++) {
        x[c] = load_chunk((const T *)a.x + first + c * AORTA_TILE);
        if (BACKWARD) dy[c] = load_chunk((const T *)a.dy + first + c * AORTA_TILE);
    }
    if (drop.threshold) {
#pragma unroll
        for (int c = 0; c < AORTA_GELU_CHUNKS; c++)
            samples[c] = dropout_block(drop, (uint64_t)(first + c * AORTA_TILE) / 8);
    }
#pragma unroll
    for (int c = 0; c < AORTA_GELU_CHUNKS; c++) {
        float at[8], value[8];
        open_chunk(x[c], at);
        if (BACKWARD) open_chunk(dy[c], value);
        gelu_values<T, BACKWARD>(at, value);
        if (drop.threshold) dropout_apply_block(drop, samples[c], value);
        store_aligned((T *)a.out + first + c * AORTA_TILE, value);
    }
}

template <typename T, bool BACKWARD> DEVICE void gelu(const aorta_gelu_args &a) {
    const int64_t begin = (int64_t)blockIdx.x * AORTA_GELU_TILE, first = begin + threadIdx.x * 8;
    const dropout drop = dropout_begin(a.shape.dropout, a.shape.rng);
    const bool aligned = aligned16(a.x) && aligned16(a.out) && (!BACKWARD || aligned16(a.dy));
    if (aligned && begin + AORTA_GELU_TILE <= a.shape.count) return gelu_whole<T, BACKWARD>(a, drop, first);
    for (int c = 0; c < AORTA_GELU_CHUNKS; c++) gelu_part<T, BACKWARD>(a, drop, first + c * AORTA_TILE);
}

TYPED_KERNELS(AORTA_POINTWISE_THREADS, gelu_forward, aorta_gelu_args, gelu, false)
TYPED_KERNELS(AORTA_POINTWISE_THREADS, gelu_backward, aorta_gelu_args, gelu, true)

/* The gradient for some rows of some columns, with the sums of dx over these rows. A thread's rows are
 * AORTA_COLUMN_ROWS apart; of aligned rows two are loaded before the first is used. */
template <typename T, bool WHOLE>
DEVICE void gelu_backward_rows(const aorta_gelu_args &a, const dropout &drop, int64_t row, int64_t end, float sum[8]) {
    const int64_t width = a.shape.width, column = ((int64_t)blockIdx.x * AORTA_COLUMN_LANES + threadIdx.x) * 8;
    const int count = within(column, width, 8);
    const T *x = (const T *)a.x + column, *dy = (const T *)a.dy + column;
    T *dx = (T *)a.out + column;
    if (count == 0) return;
    constexpr int AT_ONCE = WHOLE ? 2 : 1;
    for (; row < end; row += AT_ONCE * AORTA_COLUMN_ROWS) {
        chunk<T> raw_x[AT_ONCE], raw_dy[AT_ONCE];
        if constexpr (WHOLE) {
#pragma unroll
            for (int r = 0; r < AT_ONCE; r++) {
                const int64_t from = least(row + r * AORTA_COLUMN_ROWS, end - 1) * width;
                raw_x[r] = load_chunk(x + from);
                raw_dy[r] = load_chunk(dy + from);
            }
        }
#pragma unroll
        for (int r = 0; r < AT_ONCE; r++) {
            const int64_t at = (row + r * AORTA_COLUMN_ROWS) * width;
            float value[8], in[8];
            if (row + r * AORTA_COLUMN_ROWS < end) {
                if constexpr (WHOLE) {
                    open_chunk(raw_x[r], in);
                    open_chunk(raw_dy[r], value);
                } else {
                    load8(x + at, count, in);
                    load8(dy + at, count, value);
                }
                gelu_values<T, true>(in, value);
                if constexpr (WHOLE) {
                    if (drop.threshold)
                        dropout_apply_block(drop, dropout_block(drop, (uint64_t)(at + column) / 8), value);
                    store_aligned(dx + at, value);
                } else {
                    dropout_apply(drop, at + column, value);
                    store8(dx + at, count, value);
                }
#pragma unroll
                for (int i = 0; i < 8; i++) sum[i] += i < count ? value[i] : 0.0f;
            }
        }
    }
}

template <typename T> DEVICE void gelu_backward_columns(const aorta_gpu_gelu_columns_args &a) {
    __shared__ float sums[AORTA_COLUMN_ROWS][AORTA_COLUMN_LANES * 8];
    float sum[8] = {};
    const bool whole = a.op.shape.width % 8 == 0 && aligned16(a.op.x) && aligned16(a.op.dy) && aligned16(a.op.out);
    const dropout drop = dropout_begin(a.op.shape.dropout, a.op.shape.rng);
    const int64_t begin = (int64_t)blockIdx.y * a.rows_per_split, end = least(begin + a.rows_per_split, a.rows);
    if (whole)
        gelu_backward_rows<T, true>(a.op, drop, begin + threadIdx.y, end, sum);
    else
        gelu_backward_rows<T, false>(a.op, drop, begin + threadIdx.y, end, sum);
    column_partial(sums, sum, a.op.shape.width, a.partial);
}
TYPED_KERNELS_RESIDENT(AORTA_COLUMN_LANES *AORTA_COLUMN_ROWS, AORTA_COLUMN_RESIDENT, AORTA_COLUMN_RESIDENT,
                       gelu_backward_columns, aorta_gpu_gelu_columns_args, gelu_backward_columns)

KERNEL(AORTA_POINTWISE_THREADS, relu_backward, aorta_relu_args) {
    const int64_t first = first_element();
    const int count = within(first, a.count, 8);
    float y[8], slope[8];
    load8(a.y + first, count, y);
    load8(a.dy + first, count, slope);
    for (int i = 0; i < 8; i++) slope[i] = y[i] > 0.0f ? slope[i] : 0.0f;
    store8(a.dx + first, count, slope);
}

KERNEL(AORTA_POINTWISE_THREADS, sum_pieces, aorta_sum_pieces_args) {
    const int64_t first = first_element();
    const int count = within(first, a.count, 8);
    float sum[8] = {};
    for (int64_t p = 0; p < a.pieces; p++) {
        float value[8];
        load8(a.from + p * a.count + first, count, value);
        for (int i = 0; i < 8; i++) sum[i] += value[i];
    }
    for (int i = 0; i < 8; i++) sum[i] *= a.scale;
    store8(a.to + first, count, sum);
}

/* ---- sums over the rows of a matrix in two stages, without atomics: the same bits every time ---- */

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
TYPED_KERNELS(AORTA_COLUMN_LANES *AORTA_COLUMN_ROWS, column_sums, aorta_gpu_column_args, column_sums)

/* Each thread sums some rows of a column, 32 threads join theirs by exchange, and those of the block by way of shared
 * memory. */
KERNEL(AORTA_FINISH_LANES *AORTA_FINISH_ROWS, column_finish, aorta_gpu_column_sums) {
    enum { GROUPS = AORTA_FINISH_LANES * AORTA_FINISH_ROWS / 32 };
    __shared__ float sums[GROUPS][AORTA_FINISH_LANES];
    const int64_t column = (int64_t)blockIdx.x * AORTA_FINISH_LANES + threadIdx.x;
    const bool zero = column >= a.zero_from && column < a.zero_to;
    const int64_t end = column < a.columns && !zero ? a.rows : 0;
    const int t = thread_index();
    float sum = 0.0f;
#pragma unroll 8
    for (int64_t row = threadIdx.y; row < end; row += AORTA_FINISH_ROWS) sum += a.partial[row * a.columns + column];
    for (int mask = AORTA_FINISH_LANES; mask < 32; mask *= 2) sum += shuffle_xor(sum, mask);
    if (t % 32 < AORTA_FINISH_LANES) sums[t / 32][threadIdx.x] = sum;
    __syncthreads();
    if (t >= AORTA_FINISH_LANES || column >= a.columns) return;
    sum = 0.0f;
#pragma unroll
    for (int group = 0; group < GROUPS; group++) sum += sums[group][t];
    const int64_t part = column / a.split;
    float *to = (part == 0 ? a.sums[0] : part == 1 ? a.sums[1] : a.sums[2]) + (column - part * a.split);
    *to = a.accumulate ? *to + sum : sum;
}
