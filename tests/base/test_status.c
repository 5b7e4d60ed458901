#include "base/status.h"
#include "check.h"

static aorta_status fail_below(int depth) {
    if (depth == 0) return AORTA_ERROR(AORTA_IO, "no such file %s", "a.txt");
    AORTA_TRY(aorta_annotate(fail_below(depth - 1), "level %d", depth));
    return NULL;
}

static void test_context_is_put_in_front(void **state) {
    (void)state;
    aorta_status status = fail_below(2);
    assert_non_null(status);
    assert_int_equal(aorta_status_code(status), AORTA_IO);
    assert_string_equal(aorta_status_message(status), "level 2: level 1: no such file a.txt");
    assert_int_equal(aorta_code_exit(aorta_status_code(status)), 1);
    aorta_status_free(status);
}

static void test_join_keeps_the_first(void **state) {
    (void)state;
    aorta_status joined = aorta_status_join(AORTA_ERROR(AORTA_CONFIG, "one"), AORTA_ERROR(AORTA_IO, "two"));
    assert_string_equal(aorta_status_message(joined), "one");
    assert_int_equal(aorta_code_exit(aorta_status_code(joined)), 2);
    aorta_status_free(joined);
    assert_null(aorta_status_join(NULL, NULL));
}

static void test_a_copy_says_the_same(void **state) {
    (void)state;
    aorta_status status = fail_below(1), copy = aorta_status_copy(status);
    assert_ptr_not_equal(copy, status);
    assert_int_equal(aorta_status_code(copy), AORTA_IO);
    assert_string_equal(aorta_status_message(copy), aorta_status_message(status));
    aorta_status_free(status);
    aorta_status_free(copy);
    assert_null(aorta_status_copy(NULL));
}

static void test_a_detail_is_not_in_the_message(void **state) {
    (void)state;
    aorta_status status = aorta_with_detail(AORTA_ERROR(AORTA_IO, "no file"), "a; b");
    status = aorta_with_detail(aorta_annotate(status, "reading"), "c");
    aorta_status copy = aorta_status_copy(status);
    aorta_status_free(status);
    assert_string_equal(aorta_status_message(copy), "reading: no file");
    assert_string_equal(aorta_status_detail(copy), "a; b");
    assert_string_equal(aorta_status_detail(NULL), "");
    aorta_status_free(copy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_context_is_put_in_front),
        cmocka_unit_test(test_join_keeps_the_first),
        cmocka_unit_test(test_a_copy_says_the_same),
        cmocka_unit_test(test_a_detail_is_not_in_the_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
