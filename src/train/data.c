#include "train/data.h"

#include "base/place.h"
#include "base/random.h"
#include "ops/ops.h"
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
    enum aorta_batch_maker maker;
    struct aorta_normal_table normal;
};

aorta_status aorta_dataset_create(const struct aorta_train_options *options, int rank, int world_size,
                                  struct aorta_dataset **out) {
    struct aorta_injected injected, of_all;
    AORTA_TRY(aorta_injections_read(options, rank, &injected));
    AORTA_TRY(aorta_injections_read(options, -1, &of_all));
    struct aorta_dataset *dataset = calloc(1, sizeof *dataset);
    if (!dataset) return AORTA_ERROR(AORTA_MEMORY, "the data set's tables did not fit in memory");
    dataset->options = options->dataset;
    dataset->layout = aorta_batch_layout(options);
    dataset->batch_size = options->training.batch_size;
    dataset->global_batch = dataset->batch_size * options->training.gradient_accumulation * world_size;
    dataset->steps_per_epoch = options->dataset.num_samples / dataset->global_batch;
    dataset->rank = rank, dataset->world_size = world_size;
    dataset->longer_ns = injected.loader_ns;
    dataset->maker = of_all.loader_ns ? AORTA_BATCHES_HOST : options->dataloader.device;
    aorta_normal_table_fill(&dataset->normal);
    *out = dataset;
    return NULL;
}

void aorta_dataset_destroy(struct aorta_dataset *dataset) {
    free(dataset);
}

bool aorta_dataset_on_device(const struct aorta_dataset *dataset, enum aorta_device_kind kind) {
    if (dataset->maker == AORTA_BATCHES_AUTO) return kind != AORTA_DEVICE_CPU;
    return dataset->maker == AORTA_BATCHES_DEVICE;
}

int64_t aorta_dataset_steps_per_epoch(const struct aorta_dataset *dataset) {
    return dataset->steps_per_epoch;
}

/* This rank's input of a step into `memory`, from quantiles in the same memory. */
static struct aorta_batch_draw draw_of(const struct aorta_dataset *dataset, int64_t global_step, const float *quantiles,
                                       void *memory) {
    const struct aorta_batch_layout *layout = &dataset->layout;
    const int64_t epoch = global_step / dataset->steps_per_epoch, step = global_step % dataset->steps_per_epoch;
    char *base = memory;
    return (struct aorta_batch_draw){
        .seed = (uint64_t)dataset->options.seed,
        .domain = AORTA_RANDOM_DATA,
        .vocab = (uint32_t)dataset->options.vocab_size,
        .order = aorta_shuffle_of((uint64_t)dataset->options.seed, (uint64_t)epoch, dataset->options.num_samples),
        .first = step * dataset->global_batch + dataset->rank,
        .stride = dataset->world_size, /* dealt in turn: the ranks together use one run of the order */
        .samples = dataset->batch_size * layout->micro_batches,
        .positions = dataset->options.sequence_length,
        .dense_columns = layout->dense_columns,
        .sparse_columns = layout->sparse_columns,
        .quantiles = quantiles,
        .dense = (float *)(base + layout->dense),
        .categorical = (int64_t *)(base + layout->categorical),
        .target = (float *)(base + layout->target),
        .importance = (float *)(base + layout->importance),
    };
}

void aorta_dataset_fill(const struct aorta_dataset *dataset, int64_t global_step, void *memory) {
    const struct aorta_batch_draw draw = draw_of(dataset, global_step, dataset->normal.quantile, memory);
    aorta_batch_draw_here(&draw);
    if (!dataset->longer_ns) return;
    const struct timespec longer = {.tv_sec = dataset->longer_ns / 1000000000,
                                    .tv_nsec = dataset->longer_ns % 1000000000};
    nanosleep(&longer, NULL);
}

const struct aorta_normal_table *aorta_dataset_normals(const struct aorta_dataset *dataset) {
    return &dataset->normal;
}

aorta_status aorta_dataset_draw(const struct aorta_dataset *dataset, struct aorta_stream *stream, int64_t global_step,
                                const void *normals, void *memory) {
    const struct aorta_batch_draw draw = draw_of(dataset, global_step, normals, memory);
    return aorta_draw_batch(stream, &draw);
}
