/* Memory divided into pieces: aligned, one after the other, and none beyond its end. */
#include "base/place.h"
#include "check.h"

static void test_pieces(void **state) {
    (void)state;
    _Alignas(256) static char memory[1024];
    struct aorta_place place = {memory, sizeof memory};
    assert_ptr_equal(aorta_place_take(&place, 100), memory);
    assert_ptr_equal(aorta_place_take(&place, 256), memory + 256);
    assert_ptr_equal(aorta_place_take(&place, 0), memory + 512);
    assert_null(aorta_place_take(&place, 513)); /* and nothing is lost */
    assert_ptr_equal(aorta_place_take(&place, 512), memory + 512);
    assert_int_equal(place.bytes, 0);
    assert_null(aorta_place_take(&place, 1));
}

static void test_from_anywhere(void **state) {
    (void)state;
    _Alignas(256) static char memory[512];
    struct aorta_place place = {memory + 1, sizeof memory - 1};
    assert_null(aorta_place_take(&place, 257));
    assert_ptr_equal(aorta_place_take(&place, 256), memory + 256);
    place = (struct aorta_place){memory + 1, 100}; /* ends before the next piece could begin */
    assert_null(aorta_place_take(&place, 0));
    assert_int_equal(place.bytes, 100);
}

static void test_sizes(void **state) {
    (void)state;
    assert_int_equal(aorta_place_round(0), 0);
    assert_int_equal(aorta_place_round(1), 256);
    assert_int_equal(aorta_place_round(256), 256);
}

static void test_nowhere(void **state) {
    (void)state;
    struct aorta_place place = {0};
    assert_null(aorta_place_take(&place, 0));
    assert_null(aorta_place_take(&place, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_from_anywhere),
        cmocka_unit_test(test_nowhere),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
