#include "base/random.h"
#include "check.h"

#include <math.h>
#include <stdlib.h>

/* The block that Random123's known-answer file gives for counter and key zero. */
static void test_known_answer(void **state) {
    (void)state;
    struct aorta_random random = {.seed = 0, .stream = 0, .domain = (enum aorta_random_domain)0};
    uint32_t words[4];
    aorta_random_words(&random, 0, 4, words);
    const uint32_t expected[4] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
    assert_memory_equal(words, expected, sizeof words);
}

static void test_pieces_equal_the_whole(void **state) {
    (void)state;
    struct aorta_random random = {.seed = 77, .stream = 5, .domain = AORTA_RANDOM_DATA};
    uint32_t whole[1000], piece[1000];
    aorta_random_words(&random, 0, 1000, whole);
    for (size_t first = 0; first < 1000; first += 37) {
        size_t count = first + 300 < 1000 ? 300 : 1000 - first;
        aorta_random_words(&random, first, count, piece);
        assert_memory_equal(piece, whole + first, count * sizeof *piece);
    }
    random.stream = 6;
    aorta_random_words(&random, 0, 1000, piece);
    assert_memory_not_equal(piece, whole, sizeof whole);
}

static void test_normal_pieces_equal_the_whole(void **state) {
    (void)state;
    struct aorta_normal_table *table = malloc(sizeof *table);
    assert_non_null(table);
    aorta_normal_table_fill(table);
    struct aorta_random random = {.seed = 9, .stream = 2, .domain = AORTA_RANDOM_DATA};
    float whole[777], piece[778];
    aorta_random_normal(&random, table, 0, 777, whole);
    for (size_t first = 0; first < 777; first += 13) {
        for (size_t count = 0; first + count <= 777; count += 51) {
            piece[count] = -99;
            aorta_random_normal(&random, table, first, count, piece);
            assert_memory_equal(piece, whole + first, count * sizeof *piece);
            assert_true(piece[count] == -99);
        }
    }
    free(table);
}

static void test_moments(void **state) {
    (void)state;
    enum { COUNT = 200000 };
    struct aorta_normal_table *table = malloc(sizeof *table);
    float *values = malloc(COUNT * sizeof *values);
    int64_t *ids = malloc(COUNT * sizeof *ids);
    assert_true(table && values && ids);
    aorta_normal_table_fill(table);
    assert_float_equal(table->quantile[(int)(0.975 * AORTA_NORMAL_LEVELS)], 1.95996, 2e-3);
    struct aorta_random random = {.seed = 3, .stream = 1, .domain = AORTA_RANDOM_DATA};
    double sum = 0, squares = 0;
    aorta_random_normal(&random, table, 0, COUNT, values);
    for (int i = 0; i < COUNT; i++) sum += values[i], squares += (double)values[i] * values[i];
    assert_true(fabs(sum / COUNT) < 0.01);
    assert_true(fabs(squares / COUNT - 1) < 0.02);
    aorta_random_uniform(&random, 0, COUNT, -2, 3, values);
    sum = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_true(values[i] >= -2 && values[i] < 3);
        sum += values[i];
    }
    assert_true(fabs(sum / COUNT - 0.5) < 0.02);
    int seen[7] = {0};
    aorta_random_below(&random, 0, COUNT, 7, ids);
    for (int i = 0; i < COUNT; i++) seen[ids[i]]++; /* an id out of range is caught by the address sanitizer */
    for (int i = 0; i < 7; i++) assert_true(abs(seen[i] - COUNT / 7) < COUNT / 70);
    free(table), free(values), free(ids);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answer),
        cmocka_unit_test(test_pieces_equal_the_whole),
        cmocka_unit_test(test_normal_pieces_equal_the_whole),
        cmocka_unit_test(test_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
