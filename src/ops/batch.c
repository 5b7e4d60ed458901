/* Samples of the synthetic data set. */
#include "base/random.h"
#include "ops/check.h"
#include "ops/gpu/gpu.h"

#define AORTA_SHUFFLE_FUNCTION static
#include "ops/shuffle.h"

enum {
    TURNS = 4, /* of a thread in a share, where a sample is long */
    LARGE = 4, /* shares for each multiprocessor pay for a copy of the table in its shared memory */
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

/* Shares of the large kernel are as long for its more threads. */
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

static const struct aorta_kernel kernel = {"draw_batch", draw_batch, draw_batch_gpu};

aorta_status aorta_draw_batch(struct aorta_stream *stream, const struct aorta_batch_draw *draw) {
    AORTA_TRY(aorta_check_size(kernel.name, "samples", draw->samples, 1));
    AORTA_TRY(aorta_check_size(kernel.name, "positions", draw->positions, 1));
    AORTA_TRY(aorta_check_size(kernel.name, "dense_columns", draw->dense_columns, 1));
    AORTA_TRY(aorta_check_size(kernel.name, "sparse_columns", draw->sparse_columns, 1));
    AORTA_TRY(aorta_check_size(kernel.name, "count", draw->order.count, 1));
    AORTA_TRY(
        aorta_check_pointers(kernel.name, AORTA_POINTERS({"quantiles", draw->quantiles}, {"dense", draw->dense},
                                                         {"categorical", draw->categorical}, {"target", draw->target},
                                                         {"importance", draw->importance})));
    return aorta_launch(stream, &kernel, draw, sizeof *draw);
}
