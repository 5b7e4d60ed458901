/* Samples of the synthetic data set. */
#include "base/random.h"
#include "ops/gpu/gpu.h"

#include <math.h>
#include <string.h>

#include "ops/shared.h"

enum {
    TURNS = 4, /* iterations of a thread per share, if a sample is long */
    LARGE = 4, /* shares per multiprocessor from which a copy of the table in shared memory pays off */
};

struct aorta_shuffle aorta_shuffle_of(uint64_t seed, uint64_t epoch, int64_t count) {
    const struct aorta_random random = {.seed = seed, .stream = epoch, .domain = AORTA_RANDOM_SHUFFLE};
    struct aorta_shuffle shuffle = {.half_bits = 1, .count = count};
    while ((int64_t)1 << 2 * shuffle.half_bits < count) shuffle.half_bits++;
    aorta_random_words(&random, 0, 4, shuffle.keys);
    return shuffle;
}

static void draw_sample(const struct aorta_batch_draw *a, int64_t slot) {
    const struct aorta_normal_table *table = (const struct aorta_normal_table *)(const void *)a->quantiles;
    const int64_t row = slot * a->positions;
    const size_t positions = (size_t)a->positions, dense = positions * (size_t)a->dense_columns,
                 ids = positions * (size_t)a->sparse_columns;
    const struct aorta_random random = {.seed = a->seed,
                                        .stream = (uint64_t)aorta_shuffle_at(&a->order, a->first + slot * a->stride),
                                        .domain = (enum aorta_random_domain)a->domain};
    aorta_random_normal(&random, table, 0, dense, a->dense + row * a->dense_columns);
    aorta_random_below(&random, dense, ids, a->vocab, a->categorical + row * a->sparse_columns);
    aorta_random_uniform(&random, dense + ids, positions, 0, 1, a->target + row);
    aorta_random_uniform(&random, dense + ids + positions, positions, 0, 1, a->importance + row);
}

void aorta_batch_draw_here(const struct aorta_batch_draw *draw) {
    for (int64_t slot = 0; slot < draw->samples; slot++) draw_sample(draw, slot);
}

static aorta_status draw_batch(const void *args) {
    aorta_batch_draw_here(args);
    return NULL;
}

/* Shares per sample, so that a thread has about TURNS iterations in each. */
static int64_t shares_of(const struct aorta_batch_draw *a, int64_t threads) {
    const int64_t values = a->positions * (a->dense_columns / 2 + a->sparse_columns + 2); /* one word each */
    return values / (4 * threads * TURNS) + 1;
}

static aorta_status draw_batch_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_gpu_properties *gpu = aorta_gpu_get_properties(aorta_stream_device(stream));
    struct aorta_batch_draw a = *(const struct aorta_batch_draw *)args;
    a.shares = shares_of(&a, AORTA_BATCH_LARGE_THREADS);
    const bool large = a.samples * a.shares >= LARGE * (int64_t)gpu->multiprocessors &&
                       gpu->shared_bytes_per_block >= AORTA_BATCH_LEVELS * sizeof(float);
    if (large) {
        struct aorta_gpu_grid grid = aorta_ops_grid(gpu->multiprocessors, AORTA_BATCH_LARGE_THREADS);
        grid.shared_bytes = AORTA_BATCH_LEVELS * sizeof(float);
        return aorta_ops_gpu_run(stream, AORTA_ENTRY_draw_large_batch, grid, &a, sizeof a);
    }
    a.shares = shares_of(&a, AORTA_BATCH_THREADS);
    const int64_t blocks = a.samples * a.shares;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_draw_batch,
                             aorta_ops_grid(blocks < INT32_MAX ? blocks : INT32_MAX, AORTA_BATCH_THREADS), &a,
                             sizeof a);
}

static const struct aorta_kernel draw_kernel = {"draw_batch", draw_batch, draw_batch_gpu};

aorta_status aorta_draw_batch(struct aorta_stream *stream, const struct aorta_batch_draw *draw) {
    AORTA_TRY(aorta_check_sizes(
        draw_kernel.name, AORTA_SIZES({"samples", draw->samples, 1}, {"positions", draw->positions, 1},
                                      {"dense_columns", draw->dense_columns, 1},
                                      {"sparse_columns", draw->sparse_columns, 1}, {"count", draw->order.count, 1})));
    return aorta_ops_launch(
        stream, &draw_kernel, draw->samples, draw, sizeof *draw,
        AORTA_POINTERS(draw->quantiles, draw->dense, draw->categorical, draw->target, draw->importance));
}

/* ---- images ---- */

enum { MOST_COLOURS = 4 };

static aorta_status prepare(const void *args) {
    const struct aorta_image_args *a = args;
    const int64_t height = a->shape.height, width = a->shape.width, channels = a->shape.channels;
    for (int64_t n = 0; n < a->shape.images; n++)
        for (int64_t h = 0; h < height; h++)
            for (int64_t w = 0; w < width; w++)
                for (int64_t c = 0; c < channels; c++) {
                    const int64_t column = a->flips[n] ? width - 1 - w : w;
                    const float x = a->x[((n * channels + c) * height + h) * width + column];
                    a->y[((n * height + h) * width + w) * channels + c] = (x - a->mean[c]) / a->deviation[c];
                }
    return NULL;
}

static aorta_status columns(const void *args) {
    const struct aorta_image_args *a = args;
    const int64_t height = a->shape.height, width = a->shape.width, channels = a->shape.channels;
    const size_t bytes = (size_t)channels * sizeof(float);
    float *to = a->y;
    for (int64_t pixel = 0; pixel < a->shape.images * height * width; pixel++)
        for (int64_t i = 0; i < 9; i++, to += channels) {
            const int64_t h = pixel / width % height + i / 3 - 1, w = pixel % width + i % 3 - 1;
            const bool inside = h >= 0 && h < height && w >= 0 && w < width;
            if (inside)
                memcpy(to, a->x + ((pixel / (height * width) * height + h) * width + w) * channels, bytes);
            else
                memset(to, 0, bytes);
        }
    return NULL;
}

static aorta_status pool(const void *args) {
    const struct aorta_image_args *a = args;
    const int64_t height = a->shape.height / 2, width = a->shape.width / 2, channels = a->shape.channels;
    for (int64_t pixel = 0; pixel < a->shape.images * height * width; pixel++) {
        const int64_t row = pixel / width * 2, w = pixel % width * 2; /* rows of all images follow each other */
        const float *x = a->x + (row * a->shape.width + w) * channels, *below = x + a->shape.width * channels;
        for (int64_t c = 0; c < channels; c++)
            a->y[pixel * channels + c] = fmaxf(fmaxf(x[c], x[channels + c]), fmaxf(below[c], below[channels + c]));
    }
    return NULL;
}

static aorta_status mean(const void *args) {
    const struct aorta_image_args *a = args;
    const int64_t pixels = a->shape.height * a->shape.width, channels = a->shape.channels;
    for (int64_t n = 0; n < a->shape.images; n++)
        for (int64_t c = 0; c < channels; c++) {
            float sum = 0.0f;
            for (int64_t p = 0; p < pixels; p++) sum += a->x[(n * pixels + p) * channels + c];
            a->y[n * channels + c] = sum / (float)pixels;
        }
    return NULL;
}

static int64_t pixels(const struct aorta_image *shape) {
    return shape->images * shape->height * shape->width;
}

/* A thread for each of `count` elements. */
static struct aorta_gpu_grid grid_of(int64_t count) {
    return aorta_ops_grid(aorta_ops_blocks(count, AORTA_IMAGE_THREADS), AORTA_IMAGE_THREADS);
}

/* A thread copies four channels if number and alignment allow it. */
static struct aorta_gpu_grid columns_grid(const struct aorta_image_args *a) {
    const bool fours = a->shape.channels % 4 == 0 && ((uintptr_t)a->x | (uintptr_t)a->y) % 16 == 0;
    return grid_of(pixels(&a->shape) * 9 * a->shape.channels / (fours ? 4 : 1));
}

static struct aorta_gpu_grid mean_grid(const struct aorta_image *shape) {
    return (struct aorta_gpu_grid){.blocks = {aorta_ops_blocks(shape->channels, 32), (uint32_t)shape->images},
                                   .threads = {AORTA_IMAGE_THREADS}};
}

AORTA_PLAIN_KERNEL(image_prepare, prepare, aorta_image_args, grid_of(pixels(&a->shape)));
AORTA_PLAIN_KERNEL(image_columns, columns, aorta_image_args, columns_grid(a));
AORTA_PLAIN_KERNEL(image_pool, pool, aorta_image_args, grid_of(pixels(&a->shape) / 4 * a->shape.channels));
AORTA_PLAIN_KERNEL(image_mean, mean, aorta_image_args, mean_grid(&a->shape));

static aorta_status check_image(const char *operation, const struct aorta_image *shape) {
    return aorta_check_sizes(operation, AORTA_SIZES({"images", shape->images, 0}, {"height", shape->height, 1},
                                                    {"width", shape->width, 1}, {"channels", shape->channels, 1}));
}

static aorta_status run(struct aorta_stream *stream, const struct aorta_kernel *kernel,
                        const struct aorta_image_args *a) {
    AORTA_TRY(check_image(kernel->name, &a->shape));
    return aorta_ops_launch(stream, kernel, a->shape.images, a, sizeof *a, AORTA_POINTERS(a->x, a->y));
}

aorta_status aorta_image_prepare(struct aorta_stream *stream, const struct aorta_image_args *a) {
    if (a->shape.channels > MOST_COLOURS)
        return AORTA_ERROR(AORTA_INTERNAL, "image_prepare: channels is %lld, at most %d", (long long)a->shape.channels,
                           MOST_COLOURS);
    if (a->shape.images > 0) AORTA_TRY(aorta_check_pointers(image_prepare_kernel.name, AORTA_POINTERS(a->flips)));
    return run(stream, &image_prepare_kernel, a);
}

aorta_status aorta_image_columns(struct aorta_stream *stream, const struct aorta_image_args *a) {
    return run(stream, &image_columns_kernel, a);
}

aorta_status aorta_image_pool(struct aorta_stream *stream, const struct aorta_image_args *a) {
    if (a->shape.height % 2 == 0 && a->shape.width % 2 == 0) return run(stream, &image_pool_kernel, a);
    return AORTA_ERROR(AORTA_INTERNAL, "image_pool: %lld x %lld pixels; both must be even", (long long)a->shape.height,
                       (long long)a->shape.width);
}

aorta_status aorta_image_mean(struct aorta_stream *stream, const struct aorta_image_args *a) {
    return run(stream, &image_mean_kernel, a);
}
