/* Softmax and cross-entropy; a block works on a row. Threads touch their own elements only, so that rows may be replaced
 * in place. */
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
