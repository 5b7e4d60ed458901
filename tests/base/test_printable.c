#include "base/printable.h"
#include "check.h"

/* Text, with lines, and the expected output. */
static const struct {
    const char *text;
    bool lines;
    const char *shown;
} rows[] = {
    {"void gemm<float, 3>(int*)", false, "void gemm<float, 3>(int*)"},
    {"größer, 大, 🙂", false, "größer, 大, 🙂"},
    {"\x1b[31mred", false, "?[31mred"},
    {"a\nVerdict: all is well", false, "a?Verdict: all is well"},
    {"a\n\tb\r", true, "a\n\tb?"},
    {"\xc2\x9b"
     "2J",
     false, "??2J"},                 /* CSI as one character */
    {"\xc2\xa0", false, "\xc2\xa0"}, /* a space */
    {"\xe2\x80\xae"
     "abc",
     false, "???abc"},                       /* from right to left */
    {"\xe2\x80\xa6", false, "\xe2\x80\xa6"}, /* … */
    {"\xff\xc3", false, "??"},
    {"\xe2\x82", false, "??"}, /* breaks off */
    {"", false, ""},
};

static void test_printable(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", rows[i].text);
        size_t length = strlen(text);
        assert_int_equal(aorta_is_printable(text, length, rows[i].lines), strcmp(rows[i].text, rows[i].shown) == 0);
        aorta_make_printable(text, length, rows[i].lines);
        assert_string_equal(text, rows[i].shown);
        assert_true(aorta_is_printable(text, length, rows[i].lines));
    }
}

static void a_path_is_shown_on_one_line(void **state) {
    (void)state;
    assert_string_equal(aorta_shown("/tmp/a\naorta: b\x1b[2J").text, "/tmp/a?aorta: b?[2J");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printable),
        cmocka_unit_test(a_path_is_shown_on_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
