#include "check.h"
#include "config/option.h"

#include <math.h>

/* Expected values are PyYAML's (yaml.safe_load), but for numbers without a dot before the exponent. */
static void test_integers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        {"0", 0},
        {"8", 8},
        {"-3", -3},
        {"+7", 7},
        {"1_000", 1000},
        {"0x1F", 31},
        {"0b101", 5},
        {"010", 8},
        {"-0x10", -16},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t value = 99;
        assert_true(aorta_scalar_int(good[i].text, &value));
        assert_int_equal(value, good[i].value);
    }
    static const char *const bad[] = {
        "",     "-",   "8.0", "1e3", "eight", "08", "0x", "0b2", "--1", "+-1", "_1", "1 2", "9223372036854775808",
        "0x-5", "1:30"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t value;
        if (aorta_scalar_int(bad[i], &value)) fail_msg("%s was read as %lld", bad[i], (long long)value);
    }
}

static void test_doubles(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {
        {"0.1", 0.1}, {"3e-4", 3e-4}, {"1E5", 1e5},    {"2.5e+3", 2500}, {".5", 0.5},
        {"5.", 5},    {"-1.5", -1.5}, {"1_0.5", 10.5}, {"7", 7},         {"0x10", 16},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        double value = 99;
        assert_true(aorta_scalar_double(good[i].text, &value));
        assert_true(value == good[i].value);
    }
    static const char *const bad[] = {"",     ".",    "e5",  "-",   "1e",    "1.2.3", "0x1p3",
                                      ".inf", ".nan", "inf", "nan", "1e999", "1,5",   "ten"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double value;
        if (aorta_scalar_double(bad[i], &value)) fail_msg("%s was read as %g", bad[i], value);
    }
}

static void test_words(void **state) {
    (void)state;
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "on", "On"};
    static const char *const no[] = {"false", "False", "no", "NO", "off"};
    static const char *const neither[] = {"y", "n", "1", "tRue", "", "null"};
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    bool value;
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) assert_true(aorta_scalar_bool(yes[i], &value) && value);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) assert_true(aorta_scalar_bool(no[i], &value) && !value);
    for (size_t i = 0; i < sizeof neither / sizeof *neither; i++) assert_false(aorta_scalar_bool(neither[i], &value));
    for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++) assert_true(aorta_scalar_is_null(nulls[i]));
    assert_false(aorta_scalar_is_null("none"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
