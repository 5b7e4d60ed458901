/* Samples of the synthetic data set. src/ops/batch.c does the same on a CPU. */
#include "ops/kernels/portable.h"

#include "ops/kernels/arguments.h"
#include "ops/kernels/dropout.h"
#include "ops/kernels/element.h"

#define AORTA_SHARED DEVICE
#include "ops/shared.h"

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

/* … or their upper half in shared memory (the lower half is its mirror image), as random look-ups in 256 KiB mostly
 * miss the cache. */
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

/* ---- images, channels last ---- */

DEVICE int64_t thread_number() {
    return (int64_t)blockIdx.x * AORTA_IMAGE_THREADS + threadIdx.x;
}

/* A thread takes a pixel. */
KERNEL(AORTA_IMAGE_THREADS, image_prepare, aorta_image_args) {
    const int64_t pixel = thread_number(), area = a.shape.height * a.shape.width, n = pixel / area;
    if (n >= a.shape.images) return;
    const int64_t within_image = pixel % area, w = within_image % a.shape.width;
    const int64_t from = a.flips[n] ? within_image - w + a.shape.width - 1 - w : within_image;
    const int channels = (int)a.shape.channels;
    for (int c = 0; c < channels; c++)
        a.y[pixel * channels + c] = (a.x[(n * channels + c) * area + from] - a.mean[c]) / a.deviation[c];
}

/* 64-bit divisions would take longer than the memory accesses. So `I` is int where counts stay below 2^30. */
DEVICE bool int_counts(int64_t count) {
    return count < (int64_t)1 << 30;
}

/* One element T of one of the nine neighbours of a pixel. */
template <typename T, typename I> DEVICE void copy_neighbour(const aorta_image &s, const T *x, T *y) {
    const I index = (I)thread_number(), channels = (I)(s.channels * (int64_t)sizeof(float) / (int64_t)sizeof(T));
    const I height = (I)s.height, width = (I)s.width, pixel = index / (9 * channels);
    if (pixel >= (I)s.images * height * width) return;
    const int at = (int)(index - pixel * 9 * channels), neighbour = at / (int)channels, c = at % (int)channels;
    const I row = pixel / width; /* of all images */
    const I h = row % height + neighbour / 3 - 1, w = pixel - row * width + neighbour % 3 - 1;
    T value = {};
    if (h >= 0 && h < height && w >= 0 && w < width) value = x[((row + neighbour / 3 - 1) * width + w) * channels + c];
    y[index] = value;
}

template <typename T> DEVICE void copy_neighbours(const aorta_image &s, const T *x, T *y) {
    if (int_counts(9 * s.images * s.height * s.width * s.channels))
        copy_neighbour<T, int>(s, x, y);
    else
        copy_neighbour<T, int64_t>(s, x, y);
}

KERNEL(AORTA_IMAGE_THREADS, image_columns, aorta_image_args) {
    if (a.shape.channels % 4 == 0 && aligned16(a.x) && aligned16(a.y))
        copy_neighbours(a.shape, (const bytes16 *)a.x, (bytes16 *)a.y);
    else
        copy_neighbours(a.shape, a.x, a.y);
}

/* A thread takes one channel of a pixel of the result. */
template <typename I> DEVICE void pool(const aorta_image_args &a) {
    const I index = (I)thread_number(), channels = (I)a.shape.channels, width = (I)a.shape.width / 2;
    const I pixel = index / channels, c = index % channels;
    if (pixel >= (I)a.shape.images * ((I)a.shape.height / 2) * width) return;
    const float *x = a.x + (int64_t)(pixel / width * 2 * (I)a.shape.width + pixel % width * 2) * channels + c;
    const float *below = x + a.shape.width * a.shape.channels;
    const float upper = x[0] > x[channels] ? x[0] : x[channels];
    const float lower = below[0] > below[channels] ? below[0] : below[channels];
    a.y[index] = upper > lower ? upper : lower;
}

KERNEL(AORTA_IMAGE_THREADS, image_pool, aorta_image_args) {
    if (int_counts(a.shape.images * a.shape.height * a.shape.width * a.shape.channels))
        pool<int>(a);
    else
        pool<int64_t>(a);
}

/* Grid: channels, images; 32 channels side by side, AORTA_IMAGE_THREADS / 32 pixels at a time. */
KERNEL(AORTA_IMAGE_THREADS, image_mean, aorta_image_args) {
    enum { ROWS = AORTA_IMAGE_THREADS / 32 };
    __shared__ float sums[ROWS][32];
    const int lane = (int)(threadIdx.x % 32), row = (int)(threadIdx.x / 32);
    const int64_t channels = a.shape.channels, c = (int64_t)blockIdx.x * 32 + lane;
    const int64_t pixels = a.shape.height * a.shape.width;
    float sum = 0.0f;
    for (int64_t p = row; p < pixels && c < channels; p += ROWS) sum += a.x[(blockIdx.y * pixels + p) * channels + c];
    sums[row][lane] = sum;
    __syncthreads();
    if (row > 0 || c >= channels) return;
    for (int i = 1; i < ROWS; i++) sum += sums[i][lane];
    a.y[blockIdx.y * channels + c] = sum / (float)pixels;
}
