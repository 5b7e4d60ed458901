/* Samples of the synthetic data set; blocks of a column of the grid share one. src/ops/batch.c does the same on a CPU. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/dropout.h"
#include "ops/kernels/element.h"

#define AORTA_SHUFFLE_FUNCTION DEVICE
#include "ops/shuffle.h"

/* Words 4·block … 4·block + 3 of a sample's sequence, as base/random.h counts them. */
DEVICE philox words_of(const aorta_batch_draw &a, int64_t sample, int64_t block) {
    const philox counter = {{(uint32_t)block, (uint32_t)sample, (uint32_t)((uint64_t)sample >> 32), a.domain}};
    return philox4x32_10(counter, (uint32_t)a.seed, (uint32_t)(a.seed >> 32));
}

/* The normals of one block, those that exist of eight; two of each word, its low half first. */
DEVICE void draw_normals(const aorta_batch_draw &a, const philox &words, int64_t count, float *to) {
    float value[8];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        value[2 * i] = a.quantiles[words.word[i] & 0xffffu];
        value[2 * i + 1] = a.quantiles[words.word[i] >> 16];
    }
    store8(to, count < 8 ? (int)count : 8, value);
}

/* Value `at` of what follows the normals: ids, targets, importances. */
DEVICE void draw_other(const aorta_batch_draw &a, uint32_t word, int64_t at, int64_t row) {
    const int64_t ids = a.positions * a.sparse_columns;
    const float uniform = (float)(word >> 8) * 5.9604644775390625e-8f; /* 2^-24 */
    if (at < ids)
        a.categorical[row * a.sparse_columns + at] = (int64_t)((uint64_t)word * a.vocab >> 32);
    else if (at < ids + a.positions)
        a.target[row + at - ids] = uniform;
    else
        a.importance[row + at - ids - a.positions] = uniform;
}

/* Grid: samples × shares of one. */
KERNEL(AORTA_BATCH_THREADS, draw_batch, aorta_batch_draw) {
    __shared__ int64_t shared_sample;
    if (threadIdx.x == 0) shared_sample = aorta_shuffle_at(&a.order, a.first + (int64_t)blockIdx.x * a.stride);
    __syncthreads();
    const int64_t sample = shared_sample, row = (int64_t)blockIdx.x * a.positions;
    const int64_t normals = a.positions * a.dense_columns, end = normals + a.positions * (a.sparse_columns + 2);
    const int64_t thread = (int64_t)blockIdx.y * AORTA_BATCH_THREADS + threadIdx.x;
    const int64_t threads = (int64_t)gridDim.y * AORTA_BATCH_THREADS;
    for (int64_t block = thread; 8 * block < normals; block += threads)
        draw_normals(a, words_of(a, sample, block), normals - 8 * block, a.dense + row * a.dense_columns + 8 * block);
    for (int64_t block = normals / 4 + thread; 4 * block < end; block += threads) {
        const philox words = words_of(a, sample, block);
        for (int i = 0; i < 4; i++) {
            const int64_t at = 4 * block + i - normals;
            if (at >= 0 && at < end - normals) draw_other(a, words.word[i], at, row);
        }
    }
}
