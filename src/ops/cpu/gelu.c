#include "ops/cpu/block.h"
#include "ops/cpu/math.h"

aorta_status AORTA_ISA_NAME(gelu_forward)(const void *args) {
    const struct aorta_gelu_args *a = args;
    const struct aorta_dropout dropout = aorta_dropout_begin(a->shape.dropout, &a->shape.rng);
    const int32_t threshold = dropout.threshold;
    const float scale = dropout.scale;
    float in[AORTA_BLOCK], out[AORTA_BLOCK];
    uint16_t buffer[AORTA_BITS_BUFFER];
    for (int64_t i = 0; i < a->shape.count; i += AORTA_BLOCK) {
        int64_t n = block_length(i, a->shape.count);
        const float *x = block_read(a->x, a->shape.dtype, i, n, in);
        float *y = block_target(a->out, a->shape.dtype, i, out);
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            float cdf, density;
            normal_distribution(x[j], &cdf, &density);
            y[j] = x[j] * cdf;
        }
        if (threshold) {
            const uint16_t *bits = AORTA_ISA_NAME(dropout_bits)(&dropout, i, n, buffer);
#pragma omp simd
            for (int64_t j = 0; j < n; j++) y[j] *= dropout_factor(bits[j], threshold, scale);
        }
        block_write(a->out, a->shape.dtype, i, n, y);
    }
    return NULL;
}

/* Elements [first, first + n) of dx, into `dx_block` or the caller's memory. */
static const float *backward_block(const struct aorta_gelu_args *a, const struct aorta_dropout *dropout, int64_t first,
                                   int64_t n, float *dx_block) {
    const int32_t threshold = dropout->threshold;
    const float scale = dropout->scale;
    float x_block[AORTA_BLOCK], dy_block[AORTA_BLOCK];
    uint16_t buffer[AORTA_BITS_BUFFER];
    const float *x = block_read(a->x, a->shape.dtype, first, n, x_block);
    const float *dy = block_read(a->dy, a->shape.dtype, first, n, dy_block);
    float *dx = block_target(a->out, a->shape.dtype, first, dx_block);
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        float cdf, density;
        normal_distribution(x[j], &cdf, &density);
        dx[j] = dy[j] * (cdf + x[j] * density);
    }
    if (threshold) {
        const uint16_t *bits = AORTA_ISA_NAME(dropout_bits)(dropout, first, n, buffer);
#pragma omp simd
        for (int64_t j = 0; j < n; j++) dx[j] *= dropout_factor(bits[j], threshold, scale);
    }
    block_write(a->out, a->shape.dtype, first, n, dx);
    return dx;
}

aorta_status AORTA_ISA_NAME(gelu_backward)(const void *args) {
    const struct aorta_gelu_args *a = args;
    const struct aorta_dropout dropout = aorta_dropout_begin(a->shape.dropout, &a->shape.rng);
    const int64_t count = a->shape.count, width = a->dbias ? a->shape.width : count;
    float dx_block[AORTA_BLOCK];
    for (int64_t j = 0; j < width && a->dbias && !a->accumulate; j++) a->dbias[j] = 0.0f;
    for (int64_t row = 0; row < count; row += width) {
        for (int64_t column = 0; column < width; column += AORTA_BLOCK) {
            const int64_t n = block_length(column, width);
            const float *dx = backward_block(a, &dropout, row + column, n, dx_block);
            if (!a->dbias) continue;
#pragma omp simd
            for (int64_t j = 0; j < n; j++) a->dbias[column + j] += dx[j];
        }
    }
    return NULL;
}
