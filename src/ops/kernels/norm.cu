/* Dropout, residual and LayerNorm. A row is held in the registers of blockDim.x threads (a multiple of 32), up to 16
 * elements in each; blockDim.y rows share a block. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/dropout.h"
#include "ops/kernels/element.h"
#include "ops/kernels/sum.h"

/* Over the threads of a row; all of them get it, and all threads of the block take part. */
DEVICE float row_sum(float value) {
    __shared__ float sums[AORTA_NORM_THREADS / 32];
    value = group_sum(value);
    if (blockDim.x == 32) return value;
    const int groups = (int)blockDim.x / 32, first = (int)threadIdx.y * groups;
    if (threadIdx.x % 32 == 0) sums[thread_index() / 32] = value;
    __syncthreads();
    float total = 0.0f;
    for (int i = 0; i < groups; i++) total += sums[first + i];
    __syncthreads();
    return total;
}

DEVICE int64_t chunk_column(int chunk) {
    return (int64_t)(chunk * (int)blockDim.x + (int)threadIdx.x) * 8;
}

/* Whether all rows begin at multiples of 16 bytes: then they are loaded without a question, all of a row at once, and
 * columns behind the end stand for column 0. */
DEVICE bool all_aligned(int64_t width, const void *a, const void *b, const void *c, const void *d) {
    return width % 8 == 0 && aligned16(a) && aligned16(b) && aligned16(c) && aligned16(d);
}

/* The chunks of a row that a thread holds, from memory. */
template <typename T, bool WHOLE> struct norm_row {
    chunk<T> raw[AORTA_NORM_CHUNKS]; /* WHOLE */
    const T *from;
    int64_t end;

    /* `end` is the number of columns, or 0 for a row behind the last, which `from` then does not point to. */
    MEMBER void begin(const T *base, int64_t start, int64_t columns) {
        from = base + (columns > 0 ? start : 0);
        end = columns;
        if constexpr (WHOLE) {
#pragma unroll
            for (int c = 0; c < AORTA_NORM_CHUNKS; c++)
                raw[c] = load_chunk(from + (chunk_column(c) < end ? chunk_column(c) : 0));
        }
    }
    /* Zeros behind the end. */
    MEMBER void get(int c, float value[8]) const {
        const int count = within(chunk_column(c), end, 8);
        if constexpr (WHOLE) {
            open_chunk(raw[c], value);
#pragma unroll
            for (int i = 0; i < 8; i++) value[i] = count > 0 ? value[i] : 0.0f;
        } else {
            load8(from + chunk_column(c), count, value);
        }
    }
};

template <bool WHOLE, typename T> DEVICE void norm_store(T *to, int count, const float value[8]) {
    if (!WHOLE) return store8(to, count, value);
    if (count > 0) store_aligned(to, value);
}

/* Blocks of random numbers of a row's chunks; made before what was loaded is looked at. */
template <bool WHOLE> DEVICE void norm_samples(const dropout &drop, int64_t start, philox samples[AORTA_NORM_CHUNKS]) {
    if constexpr (WHOLE) {
        if (drop.threshold == 0) return;
#pragma unroll
        for (int c = 0; c < AORTA_NORM_CHUNKS; c++)
            samples[c] = dropout_block(drop, (uint64_t)(start + chunk_column(c)) / 8);
    }
}
template <bool WHOLE>
DEVICE void norm_dropout(const dropout &drop, const philox &samples, int64_t first, float value[8]) {
    if (!WHOLE) return dropout_apply(drop, first, value);
    if (drop.threshold) dropout_apply_block(drop, samples, value);
}

template <typename T, bool WHOLE> DEVICE void norm_forward_rows(const aorta_norm_args &a) {
    const int64_t width = a.shape.width, row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    const int64_t end = row < a.shape.rows ? width : 0, start = row * width; /* rows beyond the last hold nothing */
    const dropout drop = dropout_begin(a.shape.dropout, a.shape.rng);
    const bool add = a.sum && a.residual;
    norm_row<T, WHOLE> x, residual, gammas, betas;
    philox samples[AORTA_NORM_CHUNKS];
    x.begin((const T *)a.x, start, end);
    residual.begin((const T *)(add ? a.residual : a.x), start, end);
    gammas.begin((const T *)a.gamma, 0, end);
    betas.begin((const T *)a.beta, 0, end);
    if (a.sum) norm_samples<WHOLE>(drop, start, samples);
    float value[AORTA_NORM_CHUNKS][8], total = 0.0f;
#pragma unroll
    for (int c = 0; c < AORTA_NORM_CHUNKS; c++) {
        const int64_t column = chunk_column(c);
        const int count = within(column, end, 8);
        x.get(c, value[c]);
        if (a.sum) {
            if (count > 0) norm_dropout<WHOLE>(drop, samples[c], start + column, value[c]);
            float other[8];
            residual.get(c, other);
            for (int i = 0; i < 8; i++) value[c][i] += add ? other[i] : 0.0f;
            norm_store<WHOLE>((T *)a.sum + start + column, count, value[c]);
            for (int i = 0; i < 8; i++) value[c][i] = rounded<T>(value[c][i]); /* what backward will see */
        }
        for (int i = 0; i < 8; i++) total += i < count ? value[c][i] : 0.0f;
    }
    const float mean = row_sum(total) / (float)width;
    float square = 0.0f;
#pragma unroll
    for (int c = 0; c < AORTA_NORM_CHUNKS; c++) {
        const int count = within(chunk_column(c), end, 8);
        for (int i = 0; i < 8; i++) square += i < count ? (value[c][i] - mean) * (value[c][i] - mean) : 0.0f;
    }
    const float rstd = 1.0f / sqrtf(row_sum(square) / (float)width + a.shape.eps);
#pragma unroll
    for (int c = 0; c < AORTA_NORM_CHUNKS; c++) {
        const int64_t column = chunk_column(c);
        float gamma[8], beta[8];
        gammas.get(c, gamma);
        betas.get(c, beta);
        for (int i = 0; i < 8; i++) value[c][i] = (value[c][i] - mean) * rstd * gamma[i] + beta[i];
        norm_store<WHOLE>((T *)a.y + start + column, within(column, end, 8), value[c]);
    }
    if (end > 0 && threadIdx.x == 0) {
        a.mean[row] = mean;
        a.rstd[row] = rstd;
    }
}

template <typename T> DEVICE void norm_forward(const aorta_norm_args &a) {
    if (all_aligned(a.shape.width, a.x, a.residual, a.gamma, a.beta) && aligned16(a.sum) && aligned16(a.y))
        return norm_forward_rows<T, true>(a);
    norm_forward_rows<T, false>(a);
}
TYPED_KERNELS(AORTA_NORM_THREADS, norm_forward, aorta_norm_args)

/* With n = (sum − mean)·rstd and g = dy·gamma: dsum = rstd·(g − mean(g) − n·mean(g·n)). Rows are dealt out to the
 * blocks; each row of threads leaves its sums of dgamma, dbeta and, with BIAS, of dx in `partial`. */
template <typename T, bool WHOLE, bool BIAS> DEVICE void norm_backward_rows(const aorta_gpu_norm_backward_args &args) {
    const aorta_norm_backward_args &a = args.op;
    const int64_t width = a.shape.width;
    const dropout drop = dropout_begin(a.shape.dropout, a.shape.rng);
    float dgamma[AORTA_NORM_CHUNKS][8] = {}, dbeta[AORTA_NORM_CHUNKS][8] = {};
    float dbias[BIAS ? AORTA_NORM_CHUNKS : 1][8] = {};
    norm_row<T, WHOLE> gammas;
    gammas.begin((const T *)a.gamma, 0, width);
    const int64_t stride = (int64_t)gridDim.x * blockDim.y;
    for (int64_t base = (int64_t)blockIdx.x * blockDim.y; base < a.shape.rows; base += stride) {
        const int64_t row = base + threadIdx.y, end = row < a.shape.rows ? width : 0, start = row * width;
        norm_row<T, WHOLE> slopes, more, sums;
        philox samples[AORTA_NORM_CHUNKS];
        slopes.begin((const T *)a.dy, start, end);
        more.begin((const T *)(a.dy_extra ? a.dy_extra : a.dy), start, end);
        sums.begin((const T *)a.sum, start, end);
        const float mean = end > 0 ? a.mean[row] : 0.0f, rstd = end > 0 ? a.rstd[row] : 0.0f;
        if (a.dx) norm_samples<WHOLE>(drop, start, samples);
        float dy[AORTA_NORM_CHUNKS][8], normal[AORTA_NORM_CHUNKS][8], total = 0.0f, along = 0.0f;
#pragma unroll
        for (int c = 0; c < AORTA_NORM_CHUNKS; c++) {
            float gamma[8], extra[8];
            slopes.get(c, dy[c]);
            more.get(c, extra);
            sums.get(c, normal[c]);
            gammas.get(c, gamma);
            for (int i = 0; i < 8; i++) {
                dy[c][i] += a.dy_extra ? extra[i] : 0.0f;
                normal[c][i] = (normal[c][i] - mean) * rstd;
                dgamma[c][i] += dy[c][i] * normal[c][i];
                dbeta[c][i] += dy[c][i];
                dy[c][i] *= gamma[i];
                total += dy[c][i];
                along += dy[c][i] * normal[c][i];
            }
        }
        total = row_sum(total) / (float)width;
        along = row_sum(along) / (float)width;
#pragma unroll
        for (int c = 0; c < AORTA_NORM_CHUNKS; c++) {
            const int64_t column = chunk_column(c);
            const int count = within(column, end, 8);
            for (int i = 0; i < 8; i++) dy[c][i] = rstd * (dy[c][i] - total - normal[c][i] * along);
            norm_store<WHOLE>((T *)a.dsum + start + column, count, dy[c]);
            if (a.dx && count > 0) {
                norm_dropout<WHOLE>(drop, samples[c], start + column, dy[c]);
                norm_store<WHOLE>((T *)a.dx + start + column, count, dy[c]);
            }
            if constexpr (BIAS) {
                for (int i = 0; i < 8; i++) dbias[c][i] += i < count ? dy[c][i] : 0.0f;
            }
        }
    }
    float *partial = args.partial + ((int64_t)blockIdx.x * blockDim.y + threadIdx.y) * (BIAS ? 3 : 2) * width;
#pragma unroll
    for (int c = 0; c < AORTA_NORM_CHUNKS; c++) {
        const int64_t column = chunk_column(c);
        const int count = within(column, width, 8);
        store8(partial + column, count, dgamma[c]);
        store8(partial + width + column, count, dbeta[c]);
        if constexpr (BIAS) store8(partial + 2 * width + column, count, dbias[c]);
    }
}

template <typename T, bool BIAS> DEVICE void norm_backward_any(const aorta_gpu_norm_backward_args &a) {
    if (all_aligned(a.op.shape.width, a.op.dy, a.op.dy_extra, a.op.sum, a.op.gamma) && aligned16(a.op.dsum) &&
        aligned16(a.op.dx))
        return norm_backward_rows<T, true, BIAS>(a);
    norm_backward_rows<T, false, BIAS>(a);
}

template <typename T> DEVICE void norm_backward(const aorta_gpu_norm_backward_args &a) {
    norm_backward_any<T, false>(a);
}
TYPED_KERNELS(AORTA_NORM_THREADS, norm_backward, aorta_gpu_norm_backward_args)

template <typename T> DEVICE void norm_backward_bias(const aorta_gpu_norm_backward_args &a) {
    norm_backward_any<T, true>(a);
}
TYPED_KERNELS(AORTA_NORM_THREADS, norm_backward_bias, aorta_gpu_norm_backward_args)
