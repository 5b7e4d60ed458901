/* The synthetic data set and its loader: the samples of a step, which depend on nothing else. */
#include "check.h"

#include "train/data.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>

enum { POSITIONS = 3, FEATURES = 2, WIDTH = 4, SPARSE = 2, VOCABULARY = 11 };

static struct aorta_train_options make_options(int64_t samples, int64_t batch, int64_t micro_batches) {
    return (struct aorta_train_options){
        .training = {.batch_size = batch, .gradient_accumulation = micro_batches},
        .dataset = {.num_samples = samples,
                    .sequence_length = POSITIONS,
                    .dense_dim = WIDTH,
                    .sparse_features = SPARSE,
                    .vocab_size = VOCABULARY,
                    .num_dense_features = FEATURES,
                    .seed = 13},
        .dataloader = {.num_workers = 2, .pin_memory = true, .prefetch_factor = 2},
    };
}

/* FNV-1a: samples that differ have different sums. */
static uint64_t hash(uint64_t start, const void *bytes, size_t count) {
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < count; i++) start = (start ^ byte[i]) * 1099511628211u;
    return start;
}

static uint64_t sample_of(const struct aorta_batch_layout *layout, const void *memory, int64_t slot) {
    struct aorta_batch all = aorta_batch_at(layout, memory, 0);
    int64_t row = slot * POSITIONS;
    uint64_t value =
        hash(14695981039346656037u, all.dense + row * FEATURES * WIDTH, POSITIONS * FEATURES * WIDTH * sizeof(float));
    value = hash(value, all.categorical + row * SPARSE, POSITIONS * SPARSE * sizeof(int64_t));
    value = hash(value, all.target + row, POSITIONS * sizeof(float));
    return hash(value, all.importance + row, POSITIONS * sizeof(float));
}

static void *make_batch(const struct aorta_train_options *options) {
    void *memory = calloc(1, aorta_batch_layout(options).bytes);
    assert_non_null(memory);
    return memory;
}

/* The samples of one step on all ranks; returns their number. */
static int64_t samples_of_step(const struct aorta_train_options *options, int world, int64_t step, uint64_t *samples) {
    struct aorta_batch_layout layout = aorta_batch_layout(options);
    int64_t each = options->training.batch_size * options->training.gradient_accumulation, count = 0;
    void *memory = make_batch(options);
    for (int rank = 0; rank < world; rank++) {
        struct aorta_dataset *dataset;
        check_ok(aorta_dataset_create(options, rank, world, &dataset));
        aorta_dataset_fill(dataset, step, memory);
        for (int64_t slot = 0; slot < each; slot++) samples[count++] = sample_of(&layout, memory, slot);
        aorta_dataset_destroy(dataset);
    }
    free(memory);
    return count;
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void sort(uint64_t *samples, int64_t count) {
    qsort(samples, (size_t)count, sizeof *samples, compare);
}

/* One global batch of 8, cut in five ways. */
static void test_union_over_ranks(void **state) {
    (void)state;
    static const struct {
        int world;
        int64_t batch, micro_batches;
    } ways[] = {{1, 8, 1}, {1, 4, 2}, {2, 4, 1}, {2, 2, 2}, {4, 2, 1}};
    for (int64_t step = 0; step < 20; step++) { /* 12 steps make an epoch */
        uint64_t expected[8], samples[8];
        for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
            struct aorta_train_options options = make_options(100, ways[way].batch, ways[way].micro_batches);
            assert_int_equal(samples_of_step(&options, ways[way].world, step, samples), 8);
            sort(samples, 8);
            if (way == 0) memcpy(expected, samples, sizeof expected);
            assert_memory_equal(samples, expected, sizeof expected);
        }
    }
}

enum { EPOCH_SAMPLES = 103, EPOCH_STEPS = EPOCH_SAMPLES / 8, USED = EPOCH_STEPS * 8 };

static void samples_of_epoch(const struct aorta_train_options *options, int64_t epoch, uint64_t samples[USED]) {
    for (int64_t step = 0; step < EPOCH_STEPS; step++)
        assert_int_equal(samples_of_step(options, 2, epoch * EPOCH_STEPS + step, samples + step * 8), 8);
}

/* No sample twice in an epoch, the seven that fill no step dropped, another order in the next one. */
static void test_epochs(void **state) {
    (void)state;
    struct aorta_train_options options = make_options(EPOCH_SAMPLES, 4, 1);
    struct aorta_dataset *dataset;
    check_ok(aorta_dataset_create(&options, 0, 2, &dataset));
    assert_int_equal(aorta_dataset_steps_per_epoch(dataset), EPOCH_STEPS);
    aorta_dataset_destroy(dataset);

    uint64_t first[USED], second[USED];
    samples_of_epoch(&options, 0, first);
    samples_of_epoch(&options, 1, second);
    assert_memory_not_equal(first, second, sizeof first);
    sort(first, USED);
    sort(second, USED);
    for (int i = 1; i < USED; i++) {
        assert_true(first[i] != first[i - 1]);
        assert_true(second[i] != second[i - 1]);
    }
    int shared = 0;
    for (int i = 0; i < USED; i++) shared += bsearch(&first[i], second, USED, sizeof *second, compare) != NULL;
    assert_in_range(shared, USED - (EPOCH_SAMPLES - USED), USED); /* the same data set: at most 7 dropped each time */
}

/* All sizes of data sets around the powers of two of the shuffle: still a permutation. */
static void test_every_size_is_permuted(void **state) {
    (void)state;
    for (int64_t size = 1; size <= 70; size++) {
        struct aorta_train_options options = make_options(size, 1, 1);
        struct aorta_dataset *dataset;
        check_ok(aorta_dataset_create(&options, 0, 1, &dataset));
        assert_int_equal(aorta_dataset_steps_per_epoch(dataset), size);
        struct aorta_batch_layout layout = aorta_batch_layout(&options);
        void *memory = make_batch(&options);
        uint64_t samples[70];
        for (int64_t step = 0; step < size; step++) {
            aorta_dataset_fill(dataset, step, memory);
            samples[step] = sample_of(&layout, memory, 0);
        }
        sort(samples, size);
        for (int64_t i = 1; i < size; i++) assert_true(samples[i] != samples[i - 1]);
        free(memory);
        aorta_dataset_destroy(dataset);
    }
}

static void test_seed_decides(void **state) {
    (void)state;
    struct aorta_train_options options = make_options(100, 8, 1), other = options;
    other.dataset.seed = 14;
    uint64_t samples[8], again[8], others[8];
    samples_of_step(&options, 1, 3, samples);
    samples_of_step(&options, 1, 3, again);
    samples_of_step(&other, 1, 3, others);
    assert_memory_equal(samples, again, sizeof samples);
    sort(samples, 8);
    for (int i = 0; i < 8; i++) assert_null(bsearch(&others[i], samples, 8, sizeof *samples, compare));
}

/* Dense N(0, 1), ids uniform in [0, vocabulary), target and importance uniform in [0, 1). */
static void test_distributions(void **state) {
    (void)state;
    struct aorta_train_options options = make_options(4000, 4000, 1);
    struct aorta_batch_layout layout = aorta_batch_layout(&options);
    struct aorta_dataset *dataset;
    check_ok(aorta_dataset_create(&options, 0, 1, &dataset));
    void *memory = make_batch(&options);
    aorta_dataset_fill(dataset, 0, memory);
    struct aorta_batch batch = aorta_batch_at(&layout, memory, 0);
    int64_t rows = layout.rows, dense = rows * layout.dense_columns, ids = rows * layout.sparse_columns;

    double sum = 0, squares = 0, target = 0, importance = 0;
    for (int64_t i = 0; i < dense; i++) sum += (double)batch.dense[i], squares += pow((double)batch.dense[i], 2);
    assert_true(fabs(sum / (double)dense) < 5 / sqrt((double)dense));
    assert_true(fabs(squares / (double)dense - 1) < 5 * sqrt(2 / (double)dense));
    int64_t count[VOCABULARY] = {0};
    for (int64_t i = 0; i < ids; i++) {
        assert_in_range(batch.categorical[i], 0, VOCABULARY - 1);
        count[batch.categorical[i]]++;
    }
    double share = (double)ids / VOCABULARY;
    for (int i = 0; i < VOCABULARY; i++) assert_true(fabs((double)count[i] - share) < 5 * sqrt(share));
    for (int64_t i = 0; i < rows; i++) {
        assert_true(batch.target[i] >= 0 && batch.target[i] < 1);
        assert_true(batch.importance[i] >= 0 && batch.importance[i] < 1);
        target += (double)batch.target[i], importance += (double)batch.importance[i];
    }
    double tolerance = 5 * sqrt(1 / (12 * (double)rows));
    assert_true(fabs(target / (double)rows - 0.5) < tolerance);
    assert_true(fabs(importance / (double)rows - 0.5) < tolerance);
    assert_true(target != importance);
    free(memory);
    aorta_dataset_destroy(dataset);
}

/* Micro-batches follow each other, each as large as the batch. */
static void test_micro_batches(void **state) {
    (void)state;
    struct aorta_train_options options = make_options(100, 2, 3);
    struct aorta_batch_layout layout = aorta_batch_layout(&options);
    char *memory = make_batch(&options);
    assert_int_equal(layout.rows, 2 * POSITIONS);
    for (int64_t micro = 0; micro < 3; micro++) {
        struct aorta_batch batch = aorta_batch_at(&layout, memory, micro), first = aorta_batch_at(&layout, memory, 0);
        assert_int_equal(batch.dense - first.dense, micro * layout.rows * FEATURES * WIDTH);
        assert_int_equal(batch.categorical - first.categorical, micro * layout.rows * SPARSE);
        assert_int_equal(batch.target - first.target, micro * layout.rows);
        assert_int_equal(batch.importance - first.importance, micro * layout.rows);
        assert_true((const char *)(batch.importance + layout.rows) <= memory + layout.bytes);
    }
    free(memory);
}

/* ---- loader ---- */

struct rig {
    struct aorta_train_options options;
    struct aorta_device *device;
    struct aorta_dataset *dataset;
    struct aorta_loader *loader;
};

static void open_loader(struct rig *rig, int64_t workers, bool pinned, int64_t steps) {
    rig->options = make_options(100, 4, 1);
    rig->options.dataloader.num_workers = workers;
    rig->options.dataloader.pin_memory = pinned;
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &rig->device));
    check_ok(aorta_dataset_create(&rig->options, 0, 1, &rig->dataset));
    check_ok(aorta_loader_create(rig->device, &rig->options, rig->dataset, steps, &rig->loader));
}

static void close_loader(struct rig *rig) {
    aorta_loader_destroy(rig->loader);
    assert_int_equal(aorta_device_memory(rig->device).pinned, 0);
    aorta_dataset_destroy(rig->dataset);
    aorta_device_close(rig->device);
}

static void check_order(int64_t workers, bool pinned) {
    enum { STEPS = 60 };
    struct rig rig;
    open_loader(&rig, workers, pinned, STEPS);
    size_t bytes = aorta_batch_layout(&rig.options).bytes;
    char *expected = make_batch(&rig.options);
    const void *taken[2];
    for (int64_t step = 0; step < STEPS; step++) { /* two batches are in use, as in training */
        check_ok(aorta_loader_next(rig.loader, &taken[step % 2]));
        if (step == 0) continue;
        memset(expected, 0, bytes);
        aorta_dataset_fill(rig.dataset, step - 1, expected);
        struct aorta_batch_layout layout = aorta_batch_layout(&rig.options);
        for (int64_t slot = 0; slot < 4; slot++)
            assert_true(sample_of(&layout, taken[(step - 1) % 2], slot) == sample_of(&layout, expected, slot));
        aorta_loader_release(rig.loader);
    }
    const void *beyond;
    check_fails(aorta_loader_next(rig.loader, &beyond), AORTA_INTERNAL, "batch 60");
    free(expected);
    close_loader(&rig);
}

static void test_order_for_every_number_of_workers(void **state) {
    (void)state;
    for (int64_t workers = 0; workers <= 4; workers++) check_order(workers, workers % 2);
}

/* pin_memory selects page-locked memory for the ring, prefetch_factor its size. */
static void test_ring_memory(void **state) {
    (void)state;
    struct rig rig;
    open_loader(&rig, 2, true, 5);
    uint64_t two_ahead = aorta_device_memory(rig.device).pinned;
    close_loader(&rig);
    assert_true(two_ahead >= (2 * 2 + 3) * aorta_batch_layout(&rig.options).bytes);
    open_loader(&rig, 2, false, 5);
    assert_int_equal(aorta_device_memory(rig.device).pinned, 0);
    close_loader(&rig);
}

/* Ended while its threads fill, wait for a free batch, or have not begun. */
static void test_ended_early(void **state) {
    (void)state;
    for (int taken = 0; taken < 12; taken++) {
        struct rig rig;
        open_loader(&rig, 1 + taken % 4, true, 50);
        for (int i = 0; i < taken; i++) {
            const void *batch;
            check_ok(aorta_loader_next(rig.loader, &batch));
            if (i > 0) aorta_loader_release(rig.loader);
        }
        close_loader(&rig);
    }
}

/* Without workers nothing is made ahead; with them the next batch becomes ready in the background. */
static void test_ready(void **state) {
    (void)state;
    struct rig rig;
    open_loader(&rig, 0, true, 2);
    assert_false(aorta_loader_ready(rig.loader));
    close_loader(&rig);
    open_loader(&rig, 1, true, 2);
    while (!aorta_loader_ready(rig.loader)) sched_yield();
    const void *batch;
    check_ok(aorta_loader_next(rig.loader, &batch));
    check_ok(aorta_loader_next(rig.loader, &batch));
    assert_false(aorta_loader_ready(rig.loader)); /* none is left */
    close_loader(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_union_over_ranks),
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_every_size_is_permuted),
        cmocka_unit_test(test_seed_decides),
        cmocka_unit_test(test_distributions),
        cmocka_unit_test(test_micro_batches),
        cmocka_unit_test(test_order_for_every_number_of_workers),
        cmocka_unit_test(test_ring_memory),
        cmocka_unit_test(test_ended_early),
        cmocka_unit_test(test_ready),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
