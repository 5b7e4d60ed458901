/* Columns and wrapped lines, counted in characters. */
#include "base/lines.h"
#include "check.h"

#include <string.h>

static const char sentence[] = "idle 277 ms because nothing had been launched, idle 13.9 ms between launch and start; "
                               "longest 165 ms, before multi_tensor_apply_kernel<CopyFunctor> on stream 15";

static void expect_lines(const char *text, const struct aorta_lines *lines, const char *expected) {
    struct aorta_text out = {0};
    aorta_text_lines(&out, text, lines);
    check_ok(aorta_text_check(&out));
    assert_string_equal(out.data, expected);
    aorta_text_free(&out);
}

static void sentences_wrap(void **state) {
    (void)state;
    static const struct aorta_lines lines = {.width = 60, .taken = 10, .indent = 4};
    expect_lines(sentence, &lines,
                 "idle 277 ms because nothing had been launched,\n"
                 "    idle 13.9 ms between launch and start; longest 165 ms,\n"
                 "    before multi_tensor_apply_kernel<CopyFunctor> on stream\n"
                 "    15\n");
    expect_lines("", &lines, "\n");
    expect_lines("short", &lines, "short\n");
}

/* Without a terminal: 100 columns, and names stay whole. */
static void no_word_is_broken_in_a_file(void **state) {
    (void)state;
    static const struct aorta_lines lines = {.indent = 2};
    enum { LONG = 150 };
    char text[2 * LONG] = "longest before ", expected[2 * LONG] = "longest before\n  ", name[LONG + 1];
    memset(name, 'k', LONG);
    name[LONG] = '\0';
    strcat(strcat(text, name), " on stream 15");
    strcat(strcat(expected, name), "\n  on stream 15\n");
    expect_lines(text, &lines, expected);
    expect_lines(sentence, &lines,
                 "idle 277 ms because nothing had been launched, idle 13.9 ms between launch and start; longest 165\n"
                 "  ms, before multi_tensor_apply_kernel<CopyFunctor> on stream 15\n");
}

/* Every width: nothing is wider than it may be, and all of the text is there, once and in order. */
static void no_line_is_too_wide(void **state) {
    (void)state;
    static const char *const texts[] = {sentence, "einGrößeresWortOhneJedesLeerzeichenDasNirgendsHineinpasstÜberhaupt",
                                        "a b c d e f g", "ä ö ü ß × µ … € ä ö ü ß × µ … €"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (int width = 20; width < 120; width++) {
            struct aorta_lines lines = {.width = width, .taken = 6, .indent = 3};
            struct aorta_text out = {0};
            aorta_text_puts(&out, "begin:");
            aorta_text_lines(&out, texts[i], &lines);
            check_ok(aorta_text_check(&out));
            const char *left = texts[i];
            for (char *at = out.data + strlen("begin:"); *at; at++) {
                if (*at == ' ' || *at == '\n') continue;
                while (*left == ' ') left++;
                assert_int_equal(*at, *left++);
            }
            assert_int_equal(*left, '\0');
            for (char *line = strtok(out.data, "\n"); line; line = strtok(NULL, "\n"))
                assert_in_range(aorta_columns(line), 1, width);
            aorta_text_free(&out);
        }
    }
}

static void columns_are_characters(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int width;
        const char *expected;
    } rows[] = {{"abc", 5, "abc  "},    {"größe", 6, "größe "}, {"größe", 5, "größe"},
                {"größer", 5, "größ…"}, {"", 2, "  "},          {"abc", 1, "…"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct aorta_text out = {0};
        aorta_text_column(&out, rows[i].text, rows[i].width);
        check_ok(aorta_text_check(&out));
        assert_string_equal(out.data, rows[i].expected);
        assert_int_equal(aorta_columns(out.data), rows[i].width);
        aorta_text_free(&out);
    }
}

static void files_have_no_width(void **state) {
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(aorta_terminal_width(file), 0);
    fclose(file);
}

static void markdown_shows_what_was_written(void **state) {
    (void)state;
    struct aorta_text out = {0};
    aorta_text_markdown(&out, "a<b, c*>::d_e|f[0] `x` @me #1\nnext ~~ \\");
    check_ok(aorta_text_check(&out));
    assert_string_equal(out.data, "a&lt;b, c\\*&gt;::d\\_e\\|f\\[0\\] \\`x\\` &#64;me \\#1 next \\~\\~ \\\\");
    aorta_text_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentences_wrap),      cmocka_unit_test(no_word_is_broken_in_a_file),
        cmocka_unit_test(no_line_is_too_wide), cmocka_unit_test(columns_are_characters),
        cmocka_unit_test(files_have_no_width), cmocka_unit_test(markdown_shows_what_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
