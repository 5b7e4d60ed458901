/* Dropout, residual and LayerNorm, row by row: a row is read from memory once and stays in the nearest cache. */
#include "ops/cpu/block.h"

#include <math.h>
#include <stdlib.h>

/* Allocates `count` fp32 rows of scratch memory, which one free() releases. */
static aorta_status rows_create(int64_t count, int64_t width, float **rows) {
    *rows = malloc((size_t)(count * width) * sizeof **rows);
    if (*rows) return NULL;
    return AORTA_ERROR(AORTA_MEMORY, "norm: no memory for %lld rows of %lld values", (long long)count,
                       (long long)width);
}

static void row_statistics(const float *x, int64_t width, float eps, float *mean, float *rstd) {
    float sum = 0.0f, square = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < width; j++) sum += x[j];
    const float m = sum / (float)width;
#pragma omp simd reduction(+ : square)
    for (int64_t j = 0; j < width; j++) square += (x[j] - m) * (x[j] - m);
    *mean = m;
    *rstd = 1.0f / sqrtf(square / (float)width + eps);
}

/* Computes the row to normalise, residual + dropout(x), stores it in `sum` and returns it as rounded there. The result
 * is either memory of the caller or `work`. */
static const float *sum_row(const struct aorta_norm_args *a, const struct aorta_dropout *dropout, int64_t first,
                            float *x_work, float *residual_work, float *work) {
    const enum aorta_dtype dtype = a->shape.dtype;
    const int64_t width = a->shape.width;
    const float *x = block_read(a->x, dtype, first, width, x_work);
    if (!a->sum) return x;
    float *sum = block_target(a->sum, dtype, first, work);
    if (dropout->threshold) {
        AORTA_ISA_NAME(drop)(dropout, first, width, x, sum);
        x = sum;
    }
    if (a->residual) {
        const float *residual = block_read(a->residual, dtype, first, width, residual_work);
#pragma omp simd
        for (int64_t j = 0; j < width; j++) sum[j] = residual[j] + x[j];
    } else if (sum != x) {
#pragma omp simd
        for (int64_t j = 0; j < width; j++) sum[j] = x[j];
    }
    block_write(a->sum, dtype, first, width, sum);
    return block_read(a->sum, dtype, first, width, work); /* the rounded values, which backward reads */
}

aorta_status AORTA_ISA_NAME(norm_forward)(const void *args) {
    const struct aorta_norm_args *a = args;
    const enum aorta_dtype dtype = a->shape.dtype;
    const int64_t width = a->shape.width;
    const struct aorta_dropout dropout = aorta_dropout_begin(a->shape.dropout, &a->shape.rng);
    float *work;
    AORTA_TRY(rows_create(6, width, &work));
    const float *gamma = block_read(a->gamma, dtype, 0, width, work);
    const float *beta = block_read(a->beta, dtype, 0, width, work + width);
    for (int64_t row = 0; row < a->shape.rows; row++) {
        const int64_t first = row * width;
        const float *sum = sum_row(a, &dropout, first, work + 2 * width, work + 3 * width, work + 4 * width);
        float mean, rstd;
        row_statistics(sum, width, a->shape.eps, &mean, &rstd);
        float *y = block_target(a->y, dtype, first, work + 5 * width);
#pragma omp simd
        for (int64_t j = 0; j < width; j++) y[j] = (sum[j] - mean) * rstd * gamma[j] + beta[j];
        block_write(a->y, dtype, first, width, y);
        a->mean[row] = mean;
        a->rstd[row] = rstd;
    }
    free(work);
    return NULL;
}

struct backward_row {
    int64_t width;
    float mean, rstd;
    const float *dy, *sum, *gamma;
    float *dgamma, *dbeta, *dsum;
};

/* With n = (sum − mean)·rstd and g = dy·gamma: dsum = rstd·(g − mean(g) − n·mean(g·n)). */
static void norm_backward_row(const struct backward_row *row) {
    const int64_t width = row->width;
    const float mean = row->mean, rstd = row->rstd;
    const float *dy = row->dy, *sum = row->sum, *gamma = row->gamma;
    float *dgamma = row->dgamma, *dbeta = row->dbeta, *dsum = row->dsum;
    float total = 0.0f, along = 0.0f;
#pragma omp simd reduction(+ : total, along)
    for (int64_t j = 0; j < width; j++) {
        float normal = (sum[j] - mean) * rstd;
        float g = dy[j] * gamma[j];
        total += g;
        along += g * normal;
        dgamma[j] += dy[j] * normal;
        dbeta[j] += dy[j];
    }
    total /= (float)width;
    along /= (float)width;
#pragma omp simd
    for (int64_t j = 0; j < width; j++) {
        float normal = (sum[j] - mean) * rstd;
        dsum[j] = rstd * (dy[j] * gamma[j] - total - normal * along);
    }
}

/* `sums` may be NULL. */
static void add_row(float *sums, const float *row, int64_t width) {
#pragma omp simd
    for (int64_t j = 0; j < (sums ? width : 0); j++) sums[j] += row[j];
}

aorta_status AORTA_ISA_NAME(norm_backward)(const void *args) {
    const struct aorta_norm_backward_args *a = args;
    const enum aorta_dtype dtype = a->shape.dtype;
    const int64_t width = a->shape.width;
    const struct aorta_dropout dropout = aorta_dropout_begin(a->shape.dropout, &a->shape.rng);
    float *work;
    AORTA_TRY(rows_create(6, width, &work));
    float *dy_work = work + width, *extra_work = work + 2 * width, *sum_work = work + 3 * width;
    struct backward_row row = {.width = width, .dgamma = a->dgamma, .dbeta = a->dbeta};
    row.gamma = block_read(a->gamma, dtype, 0, width, work);
    for (int64_t j = 0; j < width && !a->accumulate; j++) a->dgamma[j] = a->dbeta[j] = 0.0f;
    for (int64_t j = 0; j < width && a->dbias && !a->accumulate; j++) a->dbias[j] = 0.0f;
    for (int64_t i = 0; i < a->shape.rows; i++) {
        const int64_t first = i * width;
        row.mean = a->mean[i];
        row.rstd = a->rstd[i];
        row.dy = block_read(a->dy, dtype, first, width, dy_work);
        row.sum = block_read(a->sum, dtype, first, width, sum_work);
        row.dsum = block_target(a->dsum, dtype, first, work + 4 * width);
        if (a->dy_extra) {
            const float *dy = row.dy, *extra = block_read(a->dy_extra, dtype, first, width, extra_work);
#pragma omp simd
            for (int64_t j = 0; j < width; j++) dy_work[j] = dy[j] + extra[j];
            row.dy = dy_work;
        }
        norm_backward_row(&row);
        block_write(a->dsum, dtype, first, width, row.dsum);
        if (!a->dx) {
            add_row(a->dbias, row.dsum, width);
            continue;
        }
        float *dx = block_target(a->dx, dtype, first, work + 5 * width);
        if (dropout.threshold)
            AORTA_ISA_NAME(drop)(&dropout, first, width, row.dsum, dx);
        else
            for (int64_t j = 0; j < width; j++) dx[j] = row.dsum[j];
        add_row(a->dbias, dx, width);
        block_write(a->dx, dtype, first, width, dx);
    }
    free(work);
    return NULL;
}
