#include "ops/cpu/block.h"

static aorta_status check_ids(const struct aorta_embedding_args *a, int64_t row) {
    const int64_t features = a->shape.features;
    for (int64_t i = row * features; i < (row + 1) * features; i++)
        if (a->ids[i] < 0 || a->ids[i] >= a->shape.vocab)
            return AORTA_ERROR(AORTA_DEVICE, "embedding: id %lld of row %lld, feature %lld is outside [0, %lld)",
                               (long long)a->ids[i], (long long)row, (long long)(i - row * features),
                               (long long)a->shape.vocab);
    return NULL;
}

aorta_status AORTA_ISA_NAME(embedding_forward)(const void *args) {
    const struct aorta_embedding_args *a = args;
    const enum aorta_dtype dtype = a->shape.dtype;
    const int64_t features = a->shape.features, dim = a->shape.dim;
    const float scale = 1.0f / (float)features;
    float in[AORTA_BLOCK], total[AORTA_BLOCK];
    for (int64_t row = 0; row < a->shape.rows; row++) {
        AORTA_TRY(check_ids(a, row));
        for (int64_t d = 0; d < dim; d += AORTA_BLOCK) {
            int64_t n = block_length(d, dim);
            for (int64_t j = 0; j < n; j++) total[j] = 0.0f;
            for (int64_t f = 0; f < features; f++) {
                const float *from = block_read(a->table, dtype, a->ids[row * features + f] * dim + d, n, in);
#pragma omp simd
                for (int64_t j = 0; j < n; j++) total[j] += from[j];
            }
            float *y = block_target(a->y, dtype, row * dim + d, total);
#pragma omp simd
            for (int64_t j = 0; j < n; j++) y[j] = total[j] * scale;
            block_write(a->y, dtype, row * dim + d, n, y);
        }
    }
    return NULL;
}

/* One thread adds in the order of the rows, so that the same ids give the same bits. */
aorta_status AORTA_ISA_NAME(embedding_backward)(const void *args) {
    const struct aorta_embedding_args *a = args;
    const int64_t features = a->shape.features, dim = a->shape.dim;
    const float scale = 1.0f / (float)features;
    float in[AORTA_BLOCK], share[AORTA_BLOCK];
    for (int64_t row = 0; row < a->shape.rows; row++) {
        AORTA_TRY(check_ids(a, row));
        for (int64_t d = 0; d < dim; d += AORTA_BLOCK) {
            int64_t n = block_length(d, dim);
            const float *dy = block_read(a->dy, a->shape.dtype, row * dim + d, n, in);
#pragma omp simd
            for (int64_t j = 0; j < n; j++) share[j] = dy[j] * scale;
            for (int64_t f = 0; f < features; f++) {
                float *to = a->dtable + a->ids[row * features + f] * dim + d;
#pragma omp simd
                for (int64_t j = 0; j < n; j++) to[j] += share[j];
            }
        }
    }
    return NULL;
}
