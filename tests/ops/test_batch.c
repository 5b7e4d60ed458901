/* Samples of the synthetic data set: those that a slot of a step gets, to the bit of base/random.h. */
#include "rig.h"

#include "base/random.h"

#include <stdlib.h>

#include "ops/shared.h"

struct shape {
    int64_t samples, positions, dense, sparse;
};

/* Ends of normals within a block of eight and within a word; a sample of several shares; ids and uniforms alone in a
 * block. */
static const struct shape shapes[] = {{3, 1, 1, 1},      {2, 3, 8, 2},     {4, 5, 7, 3},
                                      {2, 32, 1024, 16}, {4, 32, 3000, 5}, {1, 2, 16391, 1}};
#define SHAPES (sizeof shapes / sizeof *shapes)

enum { COUNT = 103, VOCABULARY = 50000, SEED = 13, EPOCH = 2 };

/* The tensors of a batch in one piece, dense first. */
struct tensors {
    size_t dense, categorical, target, importance, bytes;
};

static struct tensors layout_of(const struct shape *s) {
    const size_t rows = (size_t)(s->samples * s->positions);
    struct tensors t = {.categorical = (rows * (size_t)s->dense * sizeof(float) + 15) / 16 * 16};
    t.target = t.categorical + rows * (size_t)s->sparse * sizeof(int64_t);
    t.importance = t.target + rows * sizeof(float);
    t.bytes = t.importance + rows * sizeof(float);
    return t;
}

static struct aorta_batch_draw draw_of(const struct shape *s, const float *quantiles, char *memory) {
    const struct tensors t = layout_of(s);
    return (struct aorta_batch_draw){
        .seed = SEED,
        .domain = AORTA_RANDOM_DATA,
        .vocab = VOCABULARY,
        .order = aorta_shuffle_of(SEED, EPOCH, COUNT),
        .first = 5,
        .stride = 4,
        .samples = s->samples,
        .positions = s->positions,
        .dense_columns = s->dense,
        .sparse_columns = s->sparse,
        .quantiles = quantiles,
        .dense = (float *)(memory + t.dense),
        .categorical = (int64_t *)(memory + t.categorical),
        .target = (float *)(memory + t.target),
        .importance = (float *)(memory + t.importance),
    };
}

static void fill_expected(const struct shape *s, const struct aorta_normal_table *table, char *memory) {
    const struct aorta_batch_draw d = draw_of(s, table->quantile, memory);
    const size_t dense = (size_t)(s->positions * s->dense), ids = (size_t)(s->positions * s->sparse),
                 positions = (size_t)s->positions;
    for (int64_t slot = 0; slot < s->samples; slot++) {
        const struct aorta_random random = {.seed = SEED,
                                            .stream = (uint64_t)aorta_shuffle_at(&d.order, d.first + slot * d.stride),
                                            .domain = AORTA_RANDOM_DATA};
        aorta_random_normal(&random, table, 0, dense, d.dense + slot * (int64_t)dense);
        aorta_random_below(&random, dense, ids, VOCABULARY, d.categorical + slot * (int64_t)ids);
        aorta_random_uniform(&random, dense + ids, positions, 0, 1, d.target + slot * s->positions);
        aorta_random_uniform(&random, dense + ids + positions, positions, 0, 1, d.importance + slot * s->positions);
    }
}

static void test_bits_of_samples(void **state) {
    struct aorta_normal_table *table = malloc(sizeof *table);
    assert_non_null(table);
    aorta_normal_table_fill(table);
    for (size_t i = 0; i < SHAPES; i++) {
        struct rig *rig = *state;
        const size_t bytes = layout_of(&shapes[i]).bytes;
        char *expected = malloc(bytes), *got = malloc(bytes);
        assert_non_null(expected);
        assert_non_null(got);
        memset(expected, 0xFF, bytes); /* as the rig fills memory: bytes between tensors stay */
        fill_expected(&shapes[i], table, expected);
        char *device = rig_alloc(rig, bytes);
        const struct aorta_batch_draw draw =
            draw_of(&shapes[i], rig_put_bytes(rig, table->quantile, sizeof table->quantile), device);
        check_ok(aorta_draw_batch(rig->stream, &draw));
        rig_get_bytes(rig, got, device, bytes);
        assert_memory_equal(got, expected, bytes);
        free(got);
        free(expected);
        rig_reset(state);
    }
    free(table);
}

/* Every number once, for sizes around the powers of 4 that the network works on. */
static void test_orders_are_permutations(void **state) {
    (void)state;
    enum { MOST = 300 };
    for (int64_t count = 1; count <= MOST; count++) {
        const struct aorta_shuffle order = aorta_shuffle_of(SEED, EPOCH, count);
        bool seen[MOST] = {false};
        for (int64_t at = 0; at < count; at++) {
            const int64_t number = aorta_shuffle_at(&order, at);
            assert_in_range(number, 0, count - 1);
            assert_false(seen[number]);
            seen[number] = true;
        }
    }
}

static void test_mistakes(void **state) {
    struct rig *rig = *state;
    const struct shape s = shapes[0];
    char *memory = rig_alloc(rig, layout_of(&s).bytes);
    struct aorta_batch_draw draw = draw_of(&s, (const float *)(void *)memory, memory);
    draw.samples = 0;
    check_fails(aorta_draw_batch(rig->stream, &draw), AORTA_INTERNAL, "samples");
    draw.samples = 1;
    draw.quantiles = NULL;
    check_fails(aorta_draw_batch(rig->stream, &draw), AORTA_INTERNAL, "quantiles");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        rig_test(test_bits_of_samples),
        rig_test(test_mistakes),
        cmocka_unit_test(test_orders_are_permutations),
    };
    return rig_run_tests("batch", tests);
}
