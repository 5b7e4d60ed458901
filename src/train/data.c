#include "train/data.h"

#include "base/place.h"
#include "base/random.h"
#include "train/inject.h"

#include <stdlib.h>
#include <time.h>

struct aorta_batch_layout aorta_batch_layout(const struct aorta_train_options *options) {
    const struct aorta_dataset_options *d = &options->dataset;
    struct aorta_batch_layout layout = {
        .rows = options->training.batch_size * d->sequence_length,
        .micro_batches = options->training.gradient_accumulation,
        .dense_columns = d->num_dense_features * d->dense_dim,
        .sparse_columns = d->sparse_features,
    };
    size_t rows = (size_t)(layout.rows * layout.micro_batches);
    layout.categorical = aorta_place_round(rows * (size_t)layout.dense_columns * sizeof(float));
    layout.target = layout.categorical + aorta_place_round(rows * (size_t)layout.sparse_columns * sizeof(int64_t));
    layout.importance = layout.target + aorta_place_round(rows * sizeof(float));
    layout.bytes = layout.importance + aorta_place_round(rows * sizeof(float));
    return layout;
}

struct aorta_batch aorta_batch_at(const struct aorta_batch_layout *layout, const void *memory, int64_t micro_batch) {
    const char *base = memory;
    int64_t first = micro_batch * layout->rows;
    return (struct aorta_batch){
        .dense = (const float *)(base + layout->dense) + first * layout->dense_columns,
        .categorical = (const int64_t *)(base + layout->categorical) + first * layout->sparse_columns,
        .target = (const float *)(base + layout->target) + first,
        .importance = (const float *)(base + layout->importance) + first,
    };
}

struct aorta_dataset {
    struct aorta_dataset_options options;
    struct aorta_batch_layout layout;
    int64_t batch_size, global_batch; /* samples of a micro-batch on this rank; of a step on all ranks */
    int64_t steps_per_epoch;
    int rank, world_size;
    int64_t longer_ns; /* training.inject slow_loader: a batch takes so much longer */
    struct aorta_normal_table normal;
};

aorta_status aorta_dataset_create(const struct aorta_train_options *options, int rank, int world_size,
                                  struct aorta_dataset **out) {
    struct aorta_injected injected;
    AORTA_TRY(aorta_injections_read(options, rank, &injected));
    struct aorta_dataset *dataset = calloc(1, sizeof *dataset);
    if (!dataset) return AORTA_ERROR(AORTA_MEMORY, "the data set's tables did not fit in memory");
    dataset->options = options->dataset;
    dataset->layout = aorta_batch_layout(options);
    dataset->batch_size = options->training.batch_size;
    dataset->global_batch = dataset->batch_size * options->training.gradient_accumulation * world_size;
    dataset->steps_per_epoch = options->dataset.num_samples / dataset->global_batch;
    dataset->rank = rank, dataset->world_size = world_size;
    dataset->longer_ns = injected.loader_ns;
    aorta_normal_table_fill(&dataset->normal);
    *out = dataset;
    return NULL;
}

void aorta_dataset_destroy(struct aorta_dataset *dataset) {
    free(dataset);
}

int64_t aorta_dataset_steps_per_epoch(const struct aorta_dataset *dataset) {
    return dataset->steps_per_epoch;
}

/* A permutation of [0, n) without a table: a four-round Feistel network on the next even number of bits, walked until
 * it lands inside (Black & Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002). */
static int64_t shuffled(const struct aorta_dataset *dataset, int64_t epoch, int64_t position) {
    int bits = 2;
    while ((int64_t)1 << bits < dataset->options.num_samples) bits += 2;
    uint64_t half = (uint64_t)bits / 2, mask = ((uint64_t)1 << half) - 1, value = (uint64_t)position;
    struct aorta_random random = {.seed = (uint64_t)dataset->options.seed, .domain = AORTA_RANDOM_SHUFFLE};
    uint32_t keys[4];
    random.stream = (uint64_t)epoch;
    aorta_random_words(&random, 0, 4, keys);
    do {
        uint64_t left = value >> half, right = value & mask;
        for (int round = 0; round < 4; round++) {
            uint64_t mixed = (right ^ keys[round]) * 0x9E3779B97F4A7C15u;
            uint64_t next = left ^ ((mixed >> 40) & mask);
            left = right, right = next;
        }
        value = left << half | right;
    } while (value >= (uint64_t)dataset->options.num_samples);
    return (int64_t)value;
}

/* One sample into row block `slot` (counted in samples over all micro-batches). */
static void fill_sample(const struct aorta_dataset *dataset, int64_t index, int64_t slot, char *memory) {
    const struct aorta_batch_layout *layout = &dataset->layout;
    int64_t positions = dataset->options.sequence_length, row = slot * positions;
    size_t dense = (size_t)(positions * layout->dense_columns), ids = (size_t)(positions * layout->sparse_columns);
    struct aorta_random random = {
        .seed = (uint64_t)dataset->options.seed, .stream = (uint64_t)index, .domain = AORTA_RANDOM_DATA};
    aorta_random_normal(&random, &dataset->normal, 0, dense,
                        (float *)(memory + layout->dense) + row * layout->dense_columns);
    aorta_random_below(&random, dense, ids, (uint32_t)dataset->options.vocab_size,
                       (int64_t *)(memory + layout->categorical) + row * layout->sparse_columns);
    aorta_random_uniform(&random, dense + ids, (size_t)positions, 0, 1, (float *)(memory + layout->target) + row);
    aorta_random_uniform(&random, dense + ids + (size_t)positions, (size_t)positions, 0, 1,
                         (float *)(memory + layout->importance) + row);
}

void aorta_dataset_fill(const struct aorta_dataset *dataset, int64_t global_step, void *memory) {
    int64_t epoch = global_step / dataset->steps_per_epoch, step = global_step % dataset->steps_per_epoch;
    int64_t samples = dataset->batch_size * dataset->layout.micro_batches;
    for (int64_t slot = 0; slot < samples; slot++) {
        /* Dealt in turn: the ranks together use one run of the shuffled order. */
        int64_t position = step * dataset->global_batch + slot * dataset->world_size + dataset->rank;
        fill_sample(dataset, shuffled(dataset, epoch, position), slot, memory);
    }
    if (!dataset->longer_ns) return;
    const struct timespec longer = {.tv_sec = dataset->longer_ns / 1000000000,
                                    .tv_nsec = dataset->longer_ns % 1000000000};
    nanosleep(&longer, NULL);
}
