#include "base/json.h"
#include "check.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

static void write_everything(struct aorta_json *json) {
    aorta_json_object(json);
    aorta_json_key_string(json, "text", "a \"b\" \\ \n\t\r\x01/ ä €");
    aorta_json_key_string(json, "none", NULL);
    aorta_json_key_int(json, "least", INT64_MIN);
    aorta_json_key_int(json, "most", INT64_MAX);
    aorta_json_key_double(json, "nan", NAN);
    aorta_json_key_fixed(json, "infinite", INFINITY, 3);
    aorta_json_key_bool(json, "yes", true);
    aorta_json_key_null(json, "null");
    aorta_json_key_array(json, "list \"of\" lists");
    for (int i = 0; i < 3; i++) {
        aorta_json_array(json);
        for (int j = 0; j < i; j++) aorta_json_int(json, j);
        aorta_json_array_end(json);
    }
    aorta_json_array_end(json);
    aorta_json_key_object(json, "empty");
    aorta_json_object_end(json);
    aorta_json_object_end(json);
}

static void test_read_back(void **state) {
    (void)state;
    for (int indent = 0; indent <= 4; indent += 2) {
        struct aorta_text text = {0};
        struct aorta_json json;
        aorta_json_begin(&json, &text, indent);
        write_everything(&json);
        json_error_t error;
        json_t *root = json_loads(text.data, JSON_REJECT_DUPLICATES, &error);
        if (!root) fail_msg("%s in %s", error.text, text.data);
        assert_string_equal(json_string_value(json_object_get(root, "text")), "a \"b\" \\ \n\t\r\x01/ ä €");
        assert_true(json_is_null(json_object_get(root, "none")));
        assert_int_equal(json_integer_value(json_object_get(root, "least")), INT64_MIN);
        assert_int_equal(json_integer_value(json_object_get(root, "most")), INT64_MAX);
        assert_true(json_is_null(json_object_get(root, "nan")));
        assert_true(json_is_null(json_object_get(root, "infinite")));
        assert_true(json_is_true(json_object_get(root, "yes")));
        json_t *lists = json_object_get(root, "list \"of\" lists");
        assert_int_equal(json_array_size(lists), 3);
        assert_int_equal(json_array_size(json_array_get(lists, 2)), 2);
        assert_int_equal(json_object_size(json_object_get(root, "empty")), 0);
        assert_int_equal(strchr(text.data, '\n') != NULL, indent != 0);
        json_decref(root);
        aorta_text_free(&text);
    }
}

static void test_layout(void **state) {
    (void)state;
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 2);
    aorta_json_object(&json);
    aorta_json_key_int(&json, "a", 1);
    aorta_json_key_array(&json, "b");
    aorta_json_int(&json, 2);
    aorta_json_string(&json, "x");
    aorta_json_array_end(&json);
    aorta_json_object_end(&json);
    assert_string_equal(text.data, "{\n  \"a\": 1,\n  \"b\": [\n    2,\n    \"x\"\n  ]\n}");
    aorta_text_free(&text);
}

static double random_double(void) {
    double value;
    do {
        uint64_t bits = (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand();
        memcpy(&value, &bits, sizeof value);
    } while (!isfinite(value));
    return value;
}

static void check_double(double value) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    aorta_json_double(&json, value);
    json_t *root = json_loads(text.data, JSON_DECODE_ANY, NULL);
    if (!root || !json_is_real(root) || json_real_value(root) != value) fail_msg("%.17g became %s", value, text.data);
    json_decref(root);
    aorta_text_free(&text);
}

static void test_doubles_read_back_equal(void **state) {
    (void)state;
    static const double values[] = {0, 1, -1, 0.1, 1.0 / 3, 1e22, 1e-8, 123456789.125, DBL_MAX, DBL_MIN, 5e-324, 1e300};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) check_double(values[i]);
    srand(3);
    for (int i = 0; i < 20000; i++) check_double(random_double());
}

static void check_number(double value, int decimals, const char *expected) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    if (decimals >= 0)
        aorta_json_fixed(&json, value, decimals);
    else
        aorta_json_double(&json, value);
    assert_string_equal(text.data, expected);
    aorta_text_free(&text);
}

static void test_number_forms(void **state) {
    (void)state;
    check_number(0.1, -1, "0.1");
    check_number(3, -1, "3.0");
    check_number(1e100, -1, "1e+100");
    check_number(1.23456, 3, "1.235");
    check_number(1.5, 6, "1.5");
    check_number(2, 6, "2.0");
    check_number(-0.0000001, 3, "0.0");
    check_number(12, 0, "12");
    check_number(-0.2, 0, "0");
}

static void test_bytes_that_are_no_text(void **state) {
    (void)state;
    static const char *const broken[] = {"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80", "\xe2\x82"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct aorta_text text = {0};
        struct aorta_json json;
        aorta_json_begin(&json, &text, 0);
        aorta_json_string(&json, broken[i]);
        json_t *root = json_loads(text.data, JSON_DECODE_ANY, NULL);
        assert_non_null(root);
        assert_non_null(strstr(json_string_value(root), "\xEF\xBF\xBD"));
        json_decref(root);
        aorta_text_free(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_back),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_doubles_read_back_equal),
        cmocka_unit_test(test_number_forms),
        cmocka_unit_test(test_bytes_that_are_no_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
