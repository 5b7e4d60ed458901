/* Dropout, residual and LayerNorm. A row is in the registers of blockDim.x threads (a multiple of 32): eight
 * elements in each, in those of wide rows sixteen; blockDim.y rows share a block. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/dropout.h"
#include "ops/kernels/element.h"
#include "ops/kernels/reduce.h"

/* Two sums over the threads of a row, returned to all of them; all threads of the block take part. Calls alternate
 * `turn` between 0 and 1, so that a call may write before all threads have read the previous call's result. */
DEVICE void row_sums(int turn, float *first, float *second) {
    __shared__ float sums[2][2][AORTA_NORM_THREADS / 32];
    *first = group_sum(*first);
    *second = group_sum(*second);
    if (blockDim.x == 32) return;
    const int groups = (int)blockDim.x / 32, begin = (int)threadIdx.y * groups;
    if (threadIdx.x % 32 == 0) {
        sums[turn][0][thread_index() / 32] = *first;
        sums[turn][1][thread_index() / 32] = *second;
    }
    __syncthreads();
    *first = *second = 0.0f;
    for (int i = 0; i < groups; i++) {
        *first += sums[turn][0][begin + i];
        *second += sums[turn][1][begin + i];
    }
}

DEVICE int64_t chunk_column(int chunk) {
    return (int64_t)(chunk * (int)blockDim.x + (int)threadIdx.x) * 8;
}

/* Whether all rows begin at multiples of 16 bytes. Then all of a row is loaded at once without checks, and columns past
 * the end load column 0. */
DEVICE bool all_aligned(int64_t width, const void *a, const void *b, const void *c, const void *d) {
    return width % 8 == 0 && aligned16(a) && aligned16(b) && aligned16(c) && aligned16(d);
}

/* The chunks of a row that a thread holds, from memory. `end` is the number of columns, or 0 for a row beyond the last,
 * which then is not read; elements beyond the end are 0. */
template <typename T, bool WHOLE, int CHUNKS> struct norm_row {
    chunk<T> raw[CHUNKS];

    MEMBER void begin(const T *base, int64_t start, int64_t end) {
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            raw[c] = load_chunk(base + (chunk_column(c) < end ? start + chunk_column(c) : 0));
    }
    MEMBER void get(int c, int64_t end, float value[8]) const {
        open_chunk(raw[c], value);
#pragma unroll
        for (int i = 0; i < 8; i++) value[i] = chunk_column(c) < end ? value[i] : 0.0f;
    }
};
template <typename T, int CHUNKS> struct norm_row<T, false, CHUNKS> {
    const T *from;

    MEMBER void begin(const T *base, int64_t start, int64_t end) {
        from = base + (end > 0 ? start : 0);
    }
    MEMBER void get(int c, int64_t end, float value[8]) const {
        load8(from + chunk_column(c), within(chunk_column(c), end, 8), value);
    }
};

template <bool WHOLE, typename T> DEVICE void norm_store(T *to, int count, const float value[8]) {
    if (!WHOLE) return store8(to, count, value);
    if (count > 0) store_aligned(to, value);
}

/* Blocks of random numbers of a row's chunks, made while the loads are in flight. */
template <bool WHOLE, int CHUNKS> DEVICE void norm_samples(const dropout &drop, int64_t start, philox samples[CHUNKS]) {
    if constexpr (WHOLE) {
        if (drop.threshold == 0) return;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) samples[c] = dropout_block(drop, (uint64_t)(start + chunk_column(c)) / 8);
    }
}
template <bool WHOLE>
DEVICE void norm_dropout(const dropout &drop, const philox &samples, int64_t first, float value[8]) {
    if (!WHOLE) return dropout_apply(drop, first, value);
    if (drop.threshold) dropout_apply_block(drop, samples, value);
}

template <typename T, bool WHOLE, int CHUNKS> DEVICE void norm_forward_rows(const aorta_norm_args &a) {
    const int64_t width = a.shape.width, row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    const int64_t end = row < a.shape.rows ? width : 0, start = row * width; /* rows beyond the last hold nothing */
    const dropout drop = dropout_begin(a.shape.dropout, a.shape.rng);
    const bool add = a.sum && a.residual;
    norm_row<T, WHOLE, CHUNKS> x, residual, gammas, betas;
    philox samples[CHUNKS];
    x.begin((const T *)a.x, start, end);
    residual.begin((const T *)(add ? a.residual : a.x), start, end);
    gammas.begin((const T *)a.gamma, 0, end);
    betas.begin((const T *)a.beta, 0, end);
    if (a.sum) norm_samples<WHOLE, CHUNKS>(drop, start, samples);
    float value[CHUNKS][8], total = 0.0f, square = 0.0f, unused = 0.0f;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int64_t column = chunk_column(c);
        const int count = within(column, end, 8);
        x.get(c, end, value[c]);
        if (a.sum) {
            if (count > 0) norm_dropout<WHOLE>(drop, samples[c], start + column, value[c]);
            float other[8];
            residual.get(c, end, other);
            for (int i = 0; i < 8; i++) value[c][i] += add ? other[i] : 0.0f;
            norm_store<WHOLE>((T *)a.sum + start + column, count, value[c]);
            for (int i = 0; i < 8; i++) value[c][i] = rounded<T>(value[c][i]); /* what backward will see */
        }
        for (int i = 0; i < 8; i++) total += i < count ? value[c][i] : 0.0f;
    }
    row_sums(0, &total, &unused);
    const float mean = total / (float)width;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int count = within(chunk_column(c), end, 8);
        for (int i = 0; i < 8; i++) square += i < count ? (value[c][i] - mean) * (value[c][i] - mean) : 0.0f;
    }
    row_sums(1, &square, &unused);
    const float rstd = 1.0f / sqrtf(square / (float)width + a.shape.eps);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int64_t column = chunk_column(c);
        float gamma[8], beta[8];
        gammas.get(c, end, gamma);
        betas.get(c, end, beta);
        for (int i = 0; i < 8; i++) value[c][i] = (value[c][i] - mean) * rstd * gamma[i] + beta[i];
        norm_store<WHOLE>((T *)a.y + start + column, within(column, end, 8), value[c]);
    }
    if (end > 0 && threadIdx.x == 0) {
        a.mean[row] = mean;
        a.rstd[row] = rstd;
    }
}

template <typename T, int CHUNKS> DEVICE void norm_forward(const aorta_norm_args &a) {
    if (all_aligned(a.shape.width, a.x, a.residual, a.gamma, a.beta) && aligned16(a.sum) && aligned16(a.y))
        return norm_forward_rows<T, true, CHUNKS>(a);
    norm_forward_rows<T, false, CHUNKS>(a);
}

TYPED_KERNELS(AORTA_NORM_NARROW, norm_forward, aorta_norm_args, norm_forward, 1)
TYPED_KERNELS(AORTA_NORM_THREADS, norm_forward_wide, aorta_norm_args, norm_forward, AORTA_NORM_CHUNKS)

/* A row's inputs of the backward pass. */
template <typename T, bool WHOLE, int CHUNKS> struct norm_slopes {
    norm_row<T, WHOLE, CHUNKS> dy, extra, sum;
    float mean, rstd;
    int64_t start, end; /* end 0: a row beyond the last */

    MEMBER void begin(const aorta_norm_backward_args &a, int64_t row) {
        end = row < a.shape.rows ? a.shape.width : 0;
        start = row * a.shape.width;
        dy.begin((const T *)a.dy, start, end);
        if (a.dy_extra) extra.begin((const T *)a.dy_extra, start, end);
        sum.begin((const T *)a.sum, start, end);
        mean = end > 0 ? a.mean[row] : 0.0f;
        rstd = end > 0 ? a.rstd[row] : 0.0f;
    }
};

/* A thread's sums over its rows: dgamma, dbeta and, with BIAS, dx. */
template <bool BIAS, int CHUNKS> struct norm_totals {
    float gamma[CHUNKS][8], beta[CHUNKS][8], bias[BIAS ? CHUNKS : 1][8];
};

/* With n = (sum − mean)·rstd and g = dy·gamma: dsum = rstd·(g − mean(g) − n·mean(g·n)). */
template <typename T, bool WHOLE, bool BIAS, int CHUNKS>
DEVICE void norm_backward_row(const aorta_norm_backward_args &a, const dropout &drop, int turn,
                              const norm_row<T, WHOLE, CHUNKS> &gammas, const norm_slopes<T, WHOLE, CHUNKS> &row,
                              norm_totals<BIAS, CHUNKS> &totals) {
    const int64_t width = a.shape.width, start = row.start;
    float dy[CHUNKS][8], normal[CHUNKS][8], total = 0.0f, along = 0.0f;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        float gamma[8], extra[8];
        row.dy.get(c, row.end, dy[c]);
        row.sum.get(c, row.end, normal[c]);
        gammas.get(c, width, gamma);
        if (a.dy_extra) {
            row.extra.get(c, row.end, extra);
            for (int i = 0; i < 8; i++) dy[c][i] += extra[i];
        }
        for (int i = 0; i < 8; i++) {
            normal[c][i] = (normal[c][i] - row.mean) * row.rstd;
            totals.gamma[c][i] += dy[c][i] * normal[c][i];
            totals.beta[c][i] += dy[c][i];
            dy[c][i] *= gamma[i];
            total += dy[c][i];
            along += dy[c][i] * normal[c][i];
        }
    }
    row_sums(turn, &total, &along);
    philox samples[CHUNKS];
    if (a.dx) norm_samples<WHOLE, CHUNKS>(drop, start, samples);
    total /= (float)width;
    along /= (float)width;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int64_t column = chunk_column(c);
        const int count = within(column, row.end, 8);
        for (int i = 0; i < 8; i++) dy[c][i] = row.rstd * (dy[c][i] - total - normal[c][i] * along);
        norm_store<WHOLE>((T *)a.dsum + start + column, count, dy[c]);
        if (a.dx && count > 0) {
            norm_dropout<WHOLE>(drop, samples[c], start + column, dy[c]);
            norm_store<WHOLE>((T *)a.dx + start + column, count, dy[c]);
        }
        if constexpr (BIAS) {
            for (int i = 0; i < 8; i++) totals.bias[c][i] += i < count ? dy[c][i] : 0.0f;
        }
    }
}

/* Adds the sums of the block's other rows of threads to those of the first. */
template <bool BIAS, int CHUNKS> DEVICE void norm_join(norm_totals<BIAS, CHUNKS> &totals) {
    __shared__ float sums[3][AORTA_NORM_NARROW / 2 * 8]; /* a thread's eight columns; several rows are narrow ones */
    const int first = (int)threadIdx.x * 8;
    for (int row = 1; row < (int)blockDim.y; row++) {
        if ((int)threadIdx.y == row) {
            for (int i = 0; i < 8; i++) {
                sums[0][first + i] = totals.gamma[0][i];
                sums[1][first + i] = totals.beta[0][i];
                if constexpr (BIAS) sums[2][first + i] = totals.bias[0][i];
            }
        }
        __syncthreads();
        if (threadIdx.y == 0) {
            for (int i = 0; i < 8; i++) {
                totals.gamma[0][i] += sums[0][first + i];
                totals.beta[0][i] += sums[1][first + i];
                if constexpr (BIAS) totals.bias[0][i] += sums[2][first + i];
            }
        }
        __syncthreads();
    }
}

/* Rows are distributed over the blocks; if registers allow it, the next row is loaded while one is processed. A block
 * writes its sums to `partial`. */
template <typename T, bool WHOLE, bool BIAS, int CHUNKS>
DEVICE void norm_backward_rows(const aorta_gpu_norm_backward_args &args) {
    constexpr bool AHEAD = WHOLE && CHUNKS == 1;
    const aorta_norm_backward_args &a = args.op;
    const int64_t width = a.shape.width, stride = (int64_t)gridDim.x * blockDim.y;
    const dropout drop = dropout_begin(a.shape.dropout, a.shape.rng);
    norm_totals<BIAS, CHUNKS> totals = {};
    norm_row<T, WHOLE, CHUNKS> gammas;
    norm_slopes<T, WHOLE, CHUNKS> row, next;
    int64_t base = (int64_t)blockIdx.x * blockDim.y;
    gammas.begin((const T *)a.gamma, 0, width);
    if (AHEAD) next.begin(a, base + threadIdx.y);
    for (int turn = 0; base < a.shape.rows; base += stride, turn = 1 - turn) {
        if (AHEAD) {
            row = next;
            next.begin(a, base + stride + threadIdx.y);
        } else {
            row.begin(a, base + threadIdx.y);
        }
        norm_backward_row<T, WHOLE, BIAS, CHUNKS>(a, drop, turn, gammas, row, totals);
    }
    if constexpr (CHUNKS == 1) norm_join(totals);
    if (threadIdx.y > 0) return;
    float *partial = args.partial + (int64_t)blockIdx.x * (BIAS ? 3 : 2) * width;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int64_t column = chunk_column(c);
        const int count = within(column, width, 8);
        store8(partial + column, count, totals.gamma[c]);
        store8(partial + width + column, count, totals.beta[c]);
        if constexpr (BIAS) store8(partial + 2 * width + column, count, totals.bias[c]);
    }
}

template <typename T, bool BIAS, int CHUNKS> DEVICE void norm_backward(const aorta_gpu_norm_backward_args &a) {
    if (all_aligned(a.op.shape.width, a.op.dy, a.op.dy_extra, a.op.sum, a.op.gamma) && aligned16(a.op.dsum) &&
        aligned16(a.op.dx))
        return norm_backward_rows<T, true, BIAS, CHUNKS>(a);
    norm_backward_rows<T, false, BIAS, CHUNKS>(a);
}

TYPED_KERNELS_RESIDENT(AORTA_NORM_NARROW, AORTA_NORM_RESIDENT - 1, AORTA_NORM_RESIDENT, norm_backward,
                       aorta_gpu_norm_backward_args, norm_backward, false, 1)
TYPED_KERNELS_RESIDENT(AORTA_NORM_NARROW, AORTA_NORM_RESIDENT - 1, AORTA_NORM_RESIDENT, norm_backward_bias,
                       aorta_gpu_norm_backward_args, norm_backward, true, 1)
TYPED_KERNELS(AORTA_NORM_THREADS, norm_backward_wide, aorta_gpu_norm_backward_args,
              norm_backward, false, AORTA_NORM_CHUNKS)
TYPED_KERNELS(AORTA_NORM_THREADS, norm_backward_bias_wide, aorta_gpu_norm_backward_args,
              norm_backward, true, AORTA_NORM_CHUNKS)
