/* Arrays, tables, orders and hashes, each against the plainest way to do the same. */
#include "base/array.h"
#include "base/sort.h"
#include "base/table.h"
#include "check.h"

#include <stdlib.h>

/* Items 0, 1, 2, … 9999 one by one: all stay, and the capacity grows by half (16, 24, 36, … 10390). */
static void test_array_grows(void **state) {
    (void)state;
    int64_t *items = NULL;
    size_t capacity = 0, growths = 0;
    for (size_t count = 0; count < 10000;) {
        const size_t before = capacity;
        const int64_t item = (int64_t)count;
        assert_true(aorta_array_append(&items, &capacity, &count, &item, sizeof item));
        assert_int_equal(count, item + 1);
        assert_true(capacity >= count);
        growths += capacity != before;
    }
    for (size_t i = 0; i < 10000; i++) assert_int_equal(items[i], i);
    assert_int_equal(growths, 17);
    check_ok(aorta_array_reserve(&items, &capacity, 50000, sizeof *items, "items")); /* more than by half */
    assert_int_equal(capacity, 50000);
    free(items);
}

static void test_array_without_memory(void **state) {
    (void)state;
    char *items = NULL;
    size_t capacity = 0;
    assert_true(aorta_array_fit(&items, &capacity, 1, sizeof *items));
    items[0] = 'x';
    char *const before = items;
    check_fails(aorta_array_reserve(&items, &capacity, SIZE_MAX / 2, 8, "letters"), AORTA_MEMORY,
                "no memory for 9223372036854775807 letters");
    assert_false(aorta_array_fit(&items, &capacity, SIZE_MAX - 16, sizeof *items));
    size_t count = SIZE_MAX - 17;
    assert_false(aorta_array_append(&items, &capacity, &count, "y", 1));
    assert_int_equal(count, SIZE_MAX - 17);
    assert_ptr_equal(items, before);
    assert_int_equal(items[0], 'x');
    assert_int_equal(capacity, 16);
    free(items);
}

/* Indexed by numbers: 2 of [0 0 7], then 40 is requested: elements in between are zero, old ones stay. */
static void test_array_by_number(void **state) {
    (void)state;
    uint32_t *items = NULL;
    size_t count = 0;
    assert_true(aorta_array_extend(&items, &count, 3, sizeof *items));
    items[2] = 7;
    assert_true(aorta_array_extend(&items, &count, 41, sizeof *items));
    assert_true(count >= 41);
    for (size_t i = 0; i < count; i++) assert_int_equal(items[i], i == 2 ? 7 : 0);
    assert_false(aorta_array_extend(&items, &count, SIZE_MAX / 2, sizeof *items));
    assert_int_equal(items[2], 7);
    free(items);
}

/* Keys of which many share a slot: key % 4 is the hash. */
static uint64_t crowded_hash(const void *of, uint32_t number) {
    const int64_t *keys = of;
    return (uint64_t)keys[number] % 4;
}

static bool same_key(const void *of, uint32_t number, const void *key) {
    const int64_t *keys = of, *wanted = key;
    return keys[number] == *wanted;
}

static void test_table_finds_what_was_added(void **state) {
    (void)state;
    enum { KEYS = 300 };
    int64_t keys[KEYS];
    struct aorta_table table = {0};
    for (uint32_t count = 0; count < KEYS; count++) {
        keys[count] = (int64_t)count * 7;
        assert_true(aorta_table_reserve(&table, count + 1, crowded_hash, keys));
        assert_true(table.slot_count >= 2 * ((size_t)count + 1));
        uint32_t *slot = aorta_table_slot(&table, crowded_hash(keys, count), same_key, keys, &keys[count]);
        assert_int_equal(*slot, 0);
        *slot = count + 1;
        for (uint32_t i = 0; i <= count; i++)
            assert_int_equal(*aorta_table_slot(&table, crowded_hash(keys, i), same_key, keys, &keys[i]), i + 1);
        const int64_t missing = 1 + (int64_t)count * 7;
        assert_int_equal(*aorta_table_slot(&table, (uint64_t)missing % 4, same_key, keys, &missing), 0);
    }
    aorta_table_free(&table);
    assert_null(table.slots);
}

static void test_orders(void **state) {
    (void)state;
    int32_t small[] = {3, INT32_MIN, INT32_MAX, -1};
    int64_t large[] = {3, INT64_MIN, INT64_MAX, -1};
    double real[] = {0.5, -1e300, 1e300, -0.5};
    aorta_sort_rows(small, 4, sizeof *small, aorta_by_int32);
    aorta_sort_int64(large, 4);
    aorta_sort_double(real, 4);
    for (int i = 1; i < 4; i++) {
        assert_true(small[i - 1] < small[i]);
        assert_true(large[i - 1] < large[i]);
        assert_true(real[i - 1] < real[i]);
    }
    aorta_sort_int64(NULL, 0);
    const uint64_t unsigned_ones[] = {UINT64_MAX, 1, 1, 2};
    assert_true(aorta_by_uint64(&unsigned_ones[0], &unsigned_ones[1]) > 0); /* as signed numbers it would be less */
    assert_int_equal(aorta_count_equal(unsigned_ones, 4, sizeof *unsigned_ones, aorta_by_uint64), 1);
    assert_int_equal(aorta_count_equal(&unsigned_ones[1], 3, sizeof *unsigned_ones, aorta_by_uint64), 2);
    assert_int_equal(aorta_count_equal(&unsigned_ones[1], 2, sizeof *unsigned_ones, aorta_by_uint64), 2);
}

/* Items by time 10, 20, 20, 20, 30:     before  20: 1, until 20: 4 */
static void test_count_before(void **state) {
    (void)state;
    const struct {
        char name;
        int64_t time;
    } items[] = {{'a', 10}, {'b', 20}, {'c', 20}, {'d', 20}, {'e', 30}};
    const size_t size = sizeof *items, offset = (size_t)((const char *)&items[0].time - (const char *)items);
    assert_int_equal(aorta_count_before(items, 5, size, offset, 20), 1);
    assert_int_equal(aorta_count_until(items, 5, size, offset, 20), 4);
    for (int64_t time = 0; time < 40; time++) {
        size_t before = 0, until = 0;
        for (int i = 0; i < 5; i++) before += items[i].time < time, until += items[i].time <= time;
        assert_int_equal(aorta_count_before(items, 5, size, offset, time), before);
        assert_int_equal(aorta_count_until(items, 5, size, offset, time), until);
    }
    assert_int_equal(aorta_count_until(items, 5, size, offset, INT64_MAX), 5);
    assert_int_equal(aorta_count_before(NULL, 0, size, offset, 20), 0);
}

/* Texts that differ in one byte, in length, or by trailing zeros have different hashes. */
static void test_hash(void **state) {
    (void)state;
    char text[64] = {0};
    uint64_t hashes[64 * 3];
    size_t count = 0;
    for (size_t length = 0; length < 64; length++) {
        hashes[count++] = aorta_hash_bytes(text, length);
        if (!length) continue;
        text[length - 1] = 'a';
        hashes[count++] = aorta_hash_bytes(text, length);
        text[length - 1] = 0;
    }
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++) assert_true(hashes[i] != hashes[j]);
    assert_true(aorta_hash_add(aorta_hash_add(0, 1), 2) != aorta_hash_add(aorta_hash_add(0, 2), 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_array_grows),
        cmocka_unit_test(test_array_without_memory),
        cmocka_unit_test(test_array_by_number),
        cmocka_unit_test(test_table_finds_what_was_added),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_count_before),
        cmocka_unit_test(test_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
