/* Loops of a linear layer around its matrix products. */
#include "ops/cpu/block.h"

#include <string.h>

void AORTA_ISA_NAME(bias_rows)(const struct aorta_linear *shape, const void *bias, void *y) {
    const size_t bytes = (size_t)shape->out * aorta_dtype_size(shape->dtype);
    for (int64_t row = 0; row < shape->rows; row++) memcpy((char *)y + (size_t)row * bytes, bias, bytes);
}

void AORTA_ISA_NAME(column_sums)(const struct aorta_linear *shape, const void *dy, float *dbias, bool accumulate) {
    float in[AORTA_BLOCK], total[AORTA_BLOCK];
    for (int64_t column = 0; column < shape->out; column += AORTA_BLOCK) {
        const int64_t n = block_length(column, shape->out);
        for (int64_t j = 0; j < n; j++) total[j] = accumulate ? dbias[column + j] : 0.0f;
        for (int64_t row = 0; row < shape->rows; row++) {
            const float *from = block_read(dy, shape->dtype, row * shape->out + column, n, in);
#pragma omp simd
            for (int64_t j = 0; j < n; j++) total[j] += from[j];
        }
        memcpy(dbias + column, total, (size_t)n * sizeof *total);
    }
}

void AORTA_ISA_NAME(relu)(void *y, enum aorta_dtype dtype, int64_t count) {
    float buffer[AORTA_BLOCK];
    for (int64_t i = 0; i < count; i += AORTA_BLOCK) {
        const int64_t n = block_length(i, count);
        const float *from = block_read(y, dtype, i, n, buffer);
        float *to = block_target(y, dtype, i, buffer);
#pragma omp simd
        for (int64_t j = 0; j < n; j++) to[j] = from[j] > 0.0f ? from[j] : 0.0f;
        block_write(y, dtype, i, n, to);
    }
}
