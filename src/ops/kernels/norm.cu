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

template <typename T> DEVICE void norm_forward(const aorta_norm_args &a) {
    const int64_t width = a.shape.width, row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    const int64_t end = row < a.shape.rows ? width : 0, start = row * width; /* rows beyond the last hold nothing */
    const dropout drop = dropout_begin(a.shape.dropout, a.shape.rng);
    float value[AORTA_NORM_CHUNKS][8], total = 0.0f;
#pragma unroll
    for (int c = 0; c < AORTA_NORM_CHUNKS; c++) {
        const int64_t column = chunk_column(c);
        load8((const T *)a.x + start + column, within(column, end, 8), value[c]);
    }
#pragma unroll
    for (int c = 0; c < AORTA_NORM_CHUNKS; c++) {
        const int64_t column = chunk_column(c);
        const int count = within(column, end, 8);
        if (a.sum && count > 0) {
            dropout_apply(drop, start + column, value[c]);
            if (a.residual) {
                float residual[8];
                load8((const T *)a.residual + start + column, count, residual);
                for (int i = 0; i < 8; i++) value[c][i] += residual[i];
            }
            store8((T *)a.sum + start + column, count, value[c]);
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
        const int count = within(column, end, 8);
        float gamma[8], beta[8];
        load8((const T *)a.gamma + column, count, gamma);
        load8((const T *)a.beta + column, count, beta);
        for (int i = 0; i < 8; i++) value[c][i] = (value[c][i] - mean) * rstd * gamma[i] + beta[i];
        store8((T *)a.y + start + column, count, value[c]);
    }
    if (end > 0 && threadIdx.x == 0) {
        a.mean[row] = mean;
        a.rstd[row] = rstd;
    }
}
TYPED_KERNELS(AORTA_NORM_THREADS, norm_forward, aorta_norm_args)

/* With n = (sum − mean)·rstd and g = dy·gamma: dsum = rstd·(g − mean(g) − n·mean(g·n)). Rows are dealt out to the
 * blocks; each row of threads leaves its sums of dgamma and dbeta in `partial`. */
template <typename T> DEVICE void norm_backward(const aorta_gpu_norm_backward_args &args) {
    const aorta_norm_backward_args &a = args.op;
    const int64_t width = a.shape.width;
    const dropout drop = dropout_begin(a.shape.dropout, a.shape.rng);
    float dgamma[AORTA_NORM_CHUNKS][8] = {}, dbeta[AORTA_NORM_CHUNKS][8] = {};
    const int64_t stride = (int64_t)gridDim.x * blockDim.y;
    for (int64_t base = (int64_t)blockIdx.x * blockDim.y; base < a.shape.rows; base += stride) {
        const int64_t row = base + threadIdx.y, end = row < a.shape.rows ? width : 0, start = row * width;
        const float mean = end > 0 ? a.mean[row] : 0.0f, rstd = end > 0 ? a.rstd[row] : 0.0f;
        float dy[AORTA_NORM_CHUNKS][8], normal[AORTA_NORM_CHUNKS][8], total = 0.0f, along = 0.0f;
#pragma unroll
        for (int c = 0; c < AORTA_NORM_CHUNKS; c++) {
            const int64_t column = chunk_column(c);
            const int count = within(column, end, 8);
            load8((const T *)a.dy + start + column, count, dy[c]);
            load8((const T *)a.sum + start + column, count, normal[c]);
            if (a.dy_extra) {
                float extra[8];
                load8((const T *)a.dy_extra + start + column, count, extra);
                for (int i = 0; i < 8; i++) dy[c][i] += extra[i];
            }
        }
#pragma unroll
        for (int c = 0; c < AORTA_NORM_CHUNKS; c++) {
            const int64_t column = chunk_column(c);
            float gamma[8];
            load8((const T *)a.gamma + column, within(column, end, 8), gamma);
            for (int i = 0; i < 8; i++) {
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
            store8((T *)a.dsum + start + column, count, dy[c]);
            if (!a.dx || count == 0) continue;
            dropout_apply(drop, start + column, dy[c]);
            store8((T *)a.dx + start + column, count, dy[c]);
        }
    }
    float *partial = args.partial + ((int64_t)blockIdx.x * blockDim.y + threadIdx.y) * 2 * width;
#pragma unroll
    for (int c = 0; c < AORTA_NORM_CHUNKS; c++) {
        const int64_t column = chunk_column(c);
        const int count = within(column, width, 8);
        store8(partial + column, count, dgamma[c]);
        store8(partial + width + column, count, dbeta[c]);
    }
}
TYPED_KERNELS(AORTA_NORM_THREADS, norm_backward, aorta_gpu_norm_backward_args)
