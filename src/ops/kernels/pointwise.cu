/* Operations on elements of their own: cast, fill, add, GELU. A thread takes eight elements. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/dropout.h"
#include "ops/kernels/element.h"
#include "ops/kernels/gelu.h"
#include "ops/kernels/reduce.h"

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

template <typename T> DEVICE void gelu_forward(const aorta_gelu_args &a) {
    gelu<T, false>(a);
}
TYPED_KERNELS(AORTA_POINTWISE_THREADS, gelu_forward, aorta_gelu_args)

template <typename T> DEVICE void gelu_backward(const aorta_gelu_args &a) {
    gelu<T, true>(a);
}
TYPED_KERNELS(AORTA_POINTWISE_THREADS, gelu_backward, aorta_gelu_args)

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
KERNEL_RESIDENT(AORTA_COLUMN_LANES *AORTA_COLUMN_ROWS, AORTA_COLUMN_RESIDENT, gelu_backward_columns_fp32,
                aorta_gpu_gelu_columns_args) {
    gelu_backward_columns<float>(a);
}
KERNEL_RESIDENT(AORTA_COLUMN_LANES *AORTA_COLUMN_ROWS, AORTA_COLUMN_RESIDENT, gelu_backward_columns_fp16,
                aorta_gpu_gelu_columns_args) {
    gelu_backward_columns<fp16>(a);
}
KERNEL_RESIDENT(AORTA_COLUMN_LANES *AORTA_COLUMN_ROWS, AORTA_COLUMN_RESIDENT, gelu_backward_columns_bf16,
                aorta_gpu_gelu_columns_args) {
    gelu_backward_columns<bf16>(a);
}

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
