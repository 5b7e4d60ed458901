#include "base/sort.h"
#include "check.h"

#include <stdlib.h>
#include <string.h>

struct item {
    int key, place;
};

static int by_key(const void *left, const void *right) {
    const struct item *a = left, *b = right;
    return (a->key > b->key) - (a->key < b->key);
}

static int by_key_and_place(const void *left, const void *right) {
    const struct item *a = left, *b = right;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

/* keys in their order -> sorted, equal ones in their old order */
static void expect_sorted(const int *keys, size_t count) {
    struct item *items = malloc((count + 1) * sizeof *items), *expected = malloc((count + 1) * sizeof *items);
    assert_non_null(items);
    assert_non_null(expected);
    for (size_t i = 0; i < count; i++) items[i] = (struct item){keys[i], (int)i};
    memcpy(expected, items, count * sizeof *items);
    if (count) qsort(expected, count, sizeof *expected, by_key_and_place);
    aorta_sort_rows(items, count, sizeof *items, by_key);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(items[i].key, expected[i].key);
        assert_int_equal(items[i].place, expected[i].place);
    }
    free(items);
    free(expected);
}

/* 1 2 2 5 | 2 3 5 5 | 0: three rows; in order; backwards; none */
static void rows_become_one(void **state) {
    (void)state;
    static const int three[] = {1, 2, 2, 5, 2, 3, 5, 5, 0}, ascending[] = {1, 2, 2, 9}, falling[] = {4, 3, 2, 1};
    expect_sorted(three, 9);
    expect_sorted(ascending, 4);
    expect_sorted(falling, 4);
    expect_sorted(three, 1);
    aorta_sort_rows(NULL, 0, sizeof(struct item), by_key);
}

/* 1 to 400 rows of random length and keys: few are merged, many are left to qsort. */
static void random_rows_are_sorted(void **state) {
    (void)state;
    enum { MOST = 4000 };
    int keys[MOST];
    srand(7);
    for (int round = 0; round < 60; round++) {
        const int rows = 1 + rand() % (round % 2 ? 400 : 6), count = 1 + rand() % MOST;
        int key = 0;
        for (int i = 0; i < count; i++) {
            key = rand() % count < rows ? rand() % 50 : key + rand() % 3;
            keys[i] = key;
        }
        expect_sorted(keys, (size_t)count);
    }
}

/* 1 2 2 5 | 2 3 5 5 | 0: 0 1 2 3 5, the first of each */
static void the_first_of_equal_items_stays(void **state) {
    (void)state;
    struct item items[] = {{1, 0}, {2, 1}, {2, 2}, {5, 3}, {2, 4}, {3, 5}, {5, 6}, {5, 7}, {0, 8}};
    static const struct item expected[] = {{0, 8}, {1, 0}, {2, 1}, {3, 5}, {5, 3}};
    assert_int_equal(aorta_sort_unique(items, 9, sizeof *items, by_key), 5);
    assert_memory_equal(items, expected, sizeof expected);
    assert_int_equal(aorta_sort_unique(NULL, 0, sizeof *items, by_key), 0);
    const struct item absent = {.key = 4}, present = {.key = 2};
    assert_int_equal(aorta_count_below(items, 5, sizeof *items, &absent, by_key), 4);
    assert_int_equal(aorta_count_below(items, 5, sizeof *items, &present, by_key), 2);
    assert_int_equal(aorta_count_below(NULL, 0, sizeof *items, &absent, by_key), 0);
}

/* values: 3 1 4 1 5 -> 1 1 3 4 5: place 2 is 3 */
static void a_place_is_found_without_sorting(void **state) {
    (void)state;
    double some[] = {3, 1, 4, 1, 5}, one[] = {7}, values[257], sorted[257];
    assert_true(aorta_nth_double(some, 5, 2) == 3);
    assert_true(aorta_nth_double(one, 1, 0) == 7);
    srand(9);
    for (size_t count = 1; count < 257; count++) {
        for (size_t i = 0; i < count; i++) sorted[i] = values[i] = rand() % (count % 3 ? 1000 : 4);
        aorta_sort_double(sorted, count);
        const size_t place = (size_t)rand() % count;
        assert_true(aorta_nth_double(values, count, place) == sorted[place]);
        aorta_sort_double(values, count); /* none was lost */
        assert_memory_equal(values, sorted, count * sizeof *values);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_become_one),
        cmocka_unit_test(random_rows_are_sorted),
        cmocka_unit_test(the_first_of_equal_items_stays),
        cmocka_unit_test(a_place_is_found_without_sorting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
