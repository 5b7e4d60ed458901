#include "sparse/batch.h"

#include "base/place.h"

#include <math.h>
#include <stdlib.h>

void aorta_sparse_maker_begin(struct aorta_sparse_maker *maker, const struct aorta_sparse_options *options,
                              const struct aorta_sparse_tables *tables, int world_size) {
    maker->options = options, maker->tables = tables, maker->world_size = world_size;
    aorta_normal_table_fill(&maker->normal);
}

enum kind { KIND_LENGTHS, KIND_IDS, KIND_WEIGHTS, KIND_DENSE, KIND_LABELS, KIND_COUNT };

static struct aorta_random random_of(const struct aorta_sparse_maker *m, int64_t number, int rank, int feature,
                                     enum kind kind) {
    const uint64_t features =
        (uint64_t)m->tables->groups[0].feature_count + (uint64_t)m->tables->groups[1].feature_count;
    const uint64_t batch = (uint64_t)number * (uint64_t)m->world_size + (uint64_t)rank;
    return (struct aorta_random){.seed = (uint64_t)m->options->train.training.seed,
                                 .domain = AORTA_RANDOM_DATA,
                                 .stream = (batch * features + (uint64_t)feature) * KIND_COUNT + kind};
}

/* Returns how many ids there are in all. */
static int64_t fill_lengths(const struct aorta_sparse_maker *m, int64_t number, int rank, int feature, int64_t samples,
                            float *values, int32_t *lengths) {
    const struct aorta_random random = random_of(m, number, rank, feature, KIND_LENGTHS);
    const float average = (float)m->options->model.feature_pooling_avg;
    int64_t sum = 0;
    aorta_random_normal(&random, &m->normal, 0, (size_t)samples, values);
    for (int64_t i = 0; i < samples; i++) {
        const int32_t length = (int32_t)fabsf(values[i] + average);
        if (lengths) lengths[i] = length;
        sum += length;
    }
    return sum;
}

static size_t put(size_t *at, size_t bytes) {
    const size_t place = *at;
    *at += aorta_place_round(bytes);
    return place;
}

aorta_status aorta_sparse_batch_layout(const struct aorta_sparse_maker *m, int64_t number, int rank,
                                       struct aorta_sparse_layout *layout) {
    const int64_t samples = aorta_sparse_batch_size(m->options, number);
    float *values = malloc((size_t)samples * sizeof *values);
    *layout = (struct aorta_sparse_layout){.samples = samples};
    if (!values) return AORTA_ERROR(AORTA_MEMORY, "a batch of %lld samples did not fit in memory", (long long)samples);
    const size_t rows = (size_t)samples;
    aorta_status status = NULL;
    layout->dense = put(&layout->bytes, rows * (size_t)m->options->model.num_float_features * sizeof(float));
    layout->labels = put(&layout->bytes, rows * sizeof(float));
    for (int g = 0; g < AORTA_SPARSE_GROUPS; g++) {
        const struct aorta_sparse_group *group = &m->tables->groups[g];
        struct aorta_sparse_lists *lists = &layout->groups[g];
        for (int f = 0; f < group->feature_count && !status; f++) {
            lists->ids += fill_lengths(m, number, rank, group->features[f].number, samples, values, NULL);
            status = aorta_signals_check(m->signals);
        }
        lists->lengths_at = put(&layout->bytes, (size_t)group->feature_count * rows * sizeof(int32_t));
        lists->ids_at = put(&layout->bytes, (size_t)lists->ids * sizeof(int64_t));
        lists->weights_at = put(&layout->bytes, group->weighted ? (size_t)lists->ids * sizeof(float) : 0);
    }
    free(values);
    return status;
}

/* In pieces of some milliseconds, between which a signal ends them. */
static size_t next_piece(size_t done, size_t count) {
    enum { PIECE = 1 << 22 };
    return count - done < PIECE ? count - done : PIECE;
}

static aorta_status fill_ids(const struct aorta_sparse_maker *m, const struct aorta_random *random, size_t count,
                             uint32_t rows, int64_t *ids) {
    for (size_t at = 0, piece; at < count; at += piece) {
        piece = next_piece(at, count);
        aorta_random_below(random, at, piece, rows, ids + at);
        AORTA_TRY(aorta_signals_check(m->signals));
    }
    return NULL;
}

static aorta_status fill_uniform(const struct aorta_sparse_maker *m, const struct aorta_random *random, size_t count,
                                 float *values) {
    for (size_t at = 0, piece; at < count; at += piece) {
        piece = next_piece(at, count);
        aorta_random_uniform(random, at, piece, 0, 1, values + at);
        AORTA_TRY(aorta_signals_check(m->signals));
    }
    return NULL;
}

static aorta_status fill_normal(const struct aorta_sparse_maker *m, const struct aorta_random *random, size_t count,
                                float *values) {
    for (size_t at = 0, piece; at < count; at += piece) {
        piece = next_piece(at, count);
        aorta_random_normal(random, &m->normal, at, piece, values + at);
        AORTA_TRY(aorta_signals_check(m->signals));
    }
    return NULL;
}

static aorta_status fill_group(const struct aorta_sparse_maker *m, int64_t number, int rank, int g,
                               const struct aorta_sparse_layout *layout, char *memory) {
    const struct aorta_sparse_group *group = &m->tables->groups[g];
    const struct aorta_sparse_lists *lists = &layout->groups[g];
    int32_t *lengths = (int32_t *)(memory + lists->lengths_at);
    int64_t *ids = (int64_t *)(memory + lists->ids_at), at = 0;
    float *weights = (float *)(memory + lists->weights_at);
    for (int f = 0; f < group->feature_count; f++) {
        const struct aorta_sparse_feature *feature = &group->features[f];
        /* The values lie where the dense features will. */
        const int64_t count = fill_lengths(m, number, rank, feature->number, layout->samples,
                                           (float *)(memory + layout->dense), lengths + f * layout->samples);
        struct aorta_random random = random_of(m, number, rank, feature->number, KIND_IDS);
        AORTA_TRY(fill_ids(m, &random, (size_t)count, (uint32_t)group->tables[feature->table].rows, ids + at));
        random = random_of(m, number, rank, feature->number, KIND_WEIGHTS);
        if (group->weighted) AORTA_TRY(fill_uniform(m, &random, (size_t)count, weights + at));
        at += count;
    }
    return NULL;
}

aorta_status aorta_sparse_batch_fill(const struct aorta_sparse_maker *m, int64_t number, int rank,
                                     const struct aorta_sparse_layout *layout, void *memory) {
    char *bytes = memory;
    for (int g = 0; g < AORTA_SPARSE_GROUPS; g++) AORTA_TRY(fill_group(m, number, rank, g, layout, bytes));
    const struct aorta_random dense = random_of(m, number, rank, 0, KIND_DENSE);
    const struct aorta_random labels = random_of(m, number, rank, 0, KIND_LABELS);
    AORTA_TRY(fill_normal(m, &dense, (size_t)(layout->samples * m->options->model.num_float_features),
                          (float *)(bytes + layout->dense)));
    return fill_uniform(m, &labels, (size_t)layout->samples, (float *)(bytes + layout->labels));
}
