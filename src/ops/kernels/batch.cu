/* Samples of the synthetic data set. src/ops/batch.c does the same on a CPU. */
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

/* The quantiles in global memory … */
struct whole_table {
    const float *quantile;
    MEMBER float at(uint32_t level) const {
        return quantile[level];
    }
};

/* … or their upper half in shared memory, as the lower one is its mirror image: look-ups all over 256 KiB go past most
 * of the cache. */
struct half_table {
    const float *upper;
    MEMBER float at(uint32_t level) const {
        const uint32_t mirrored = level >> 15 ? level - AORTA_BATCH_LEVELS : AORTA_BATCH_LEVELS - 1 - level;
        return level >> 15 ? upper[mirrored] : -upper[mirrored];
    }
};

/* The normals of one block, those that exist of eight; two of each word, its low half first. */
template <typename T> DEVICE void draw_normals(const T &table, const philox &words, int64_t count, float *to) {
    float value[8];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        value[2 * i] = table.at(words.word[i] & 0xffffu);
        value[2 * i + 1] = table.at(words.word[i] >> 16);
    }
    store8(to, count < 8 ? (int)count : 8, value);
}

/* Value `at` after the normals: ids, targets, importances. */
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

/* Share number `share` of a slot's sample. */
template <typename T> DEVICE void draw_share(const aorta_batch_draw &a, const T &table, int64_t slot, int64_t share) {
    const int64_t sample = aorta_shuffle_at(&a.order, a.first + slot * a.stride), row = slot * a.positions;
    const int64_t normals = a.positions * a.dense_columns, end = normals + a.positions * (a.sparse_columns + 2);
    const int64_t thread = share * blockDim.x + threadIdx.x, threads = a.shares * (int64_t)blockDim.x;
    for (int64_t block = thread; 8 * block < normals; block += threads)
        draw_normals(table, words_of(a, sample, block), normals - 8 * block,
                     a.dense + row * a.dense_columns + 8 * block);
    for (int64_t block = normals / 4 + thread; 4 * block < end; block += threads) {
        const philox words = words_of(a, sample, block);
        for (int i = 0; i < 4; i++) {
            const int64_t at = 4 * block + i - normals;
            if (at >= 0 && at < end - normals) draw_other(a, words.word[i], at, row);
        }
    }
}

template <typename T> DEVICE void draw_shares(const aorta_batch_draw &a, const T &table) {
    for (int64_t item = blockIdx.x; item < a.samples * a.shares; item += gridDim.x)
        draw_share(a, table, item / a.shares, item % a.shares);
}

KERNEL(AORTA_BATCH_THREADS, draw_batch, aorta_batch_draw) {
    draw_shares(a, whole_table{a.quantiles});
}

/* As many blocks as run at once. */
KERNEL(AORTA_BATCH_LARGE_THREADS, draw_large_batch, aorta_batch_draw) {
    float *upper = (float *)dynamic_shared();
    for (int i = threadIdx.x; i < AORTA_BATCH_LEVELS; i += AORTA_BATCH_LARGE_THREADS)
        upper[i] = a.quantiles[AORTA_BATCH_LEVELS + i];
    __syncthreads();
    draw_shares(a, half_table{upper});
}
