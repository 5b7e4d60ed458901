#include "base/arena.h"
#include "base/lines.h"
#include "base/text.h"
#include "check.h"

#include <pty.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void test_text_grows(void **state) {
    (void)state;
    struct aorta_text text = {0};
    for (int i = 0; i < 1000; i++) aorta_text_printf(&text, "%d,", i);
    aorta_text_append(&text, "end!", 3);
    check_ok(aorta_text_check(&text));
    assert_int_equal(text.length, 10 * 2 + 90 * 3 + 900 * 4 + 3);
    assert_string_equal(text.data + text.length - 7, "999,end");
    aorta_text_clear(&text);
    assert_string_equal(text.data, "");
    aorta_text_puts(&text, "again");
    assert_string_equal(text.data, "again");
    aorta_text_free(&text);
    assert_null(text.data);
}

static bool put_known(const void *user, const char *word, size_t length, struct aorta_text *out) {
    if (strncmp(word, user, length) != 0) return false;
    aorta_text_append(out, word, length);
    return true;
}

/* Unknown words omit their bracket, or the whole template; text before it stays. */
static void test_templates(void **state) {
    static const struct {
        const char *template, *text;
        bool known;
    } rows[] = {{"plain", ">plain", true},         {"a {word}.", ">a word.", true},      {"a {other}.", ">", false},
                {"a[ {other} b] c", ">a c", true}, {"a[ {word}][{x}]", ">a word", true}, {"[{x}]", ">", true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_text text = {0};
        aorta_text_puts(&text, ">");
        assert_int_equal(aorta_text_template(&text, rows[i].template, put_known, "word"), rows[i].known);
        assert_string_equal(text.data, rows[i].text);
        aorta_text_free(&text);
    }
}

static void test_failure_is_remembered(void **state) {
    (void)state;
    struct aorta_text text = {0};
    aorta_text_puts(&text, "first");
    aorta_text_append(&text, "x", SIZE_MAX / 2); /* more than there can be: nothing is read */
    aorta_text_puts(&text, "dropped");
    check_fails(aorta_text_check(&text), AORTA_MEMORY, "5 bytes");
    assert_string_equal(text.data, "first");
    aorta_text_free(&text);
}

static void test_edit_distance(void **state) {
    (void)state;
    static const struct {
        const char *a, *b;
        size_t distance;
    } pairs[] = {
        {"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"batchsize", "batch_size", 1}, {"ab", "ba", 2}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        assert_int_equal(aorta_edit_distance(pairs[i].a, pairs[i].b), pairs[i].distance);
        assert_int_equal(aorta_edit_distance(pairs[i].b, pairs[i].a), pairs[i].distance);
    }
}

static void test_nearest(void **state) {
    (void)state;
    static const char *const names[] = {"train", "launch", "report", "info"};
    assert_string_equal(aorta_nearest("trian", names, 4), "train");
    assert_string_equal(aorta_nearest("reports", names, 4), "report");
    assert_null(aorta_nearest("sdma", names, 4));
    const char *const keys[] = {"training.seed", "training.precision", "training.num_batches"};
    assert_string_equal(aorta_nearest("training.batches", keys, 3), "training.num_batches");
    assert_null(aorta_nearest("training.foo", keys, 3)); /* the section is no part of a slip */
    assert_string_equal(aorta_nearest("training.sed", keys, 3), "training.seed");
    assert_string_equal(aorta_nearest("trainig.seed", keys, 3), "training.seed");
    assert_null(aorta_nearest("x", names, 0));
    static const char *const directions[] = {"d2h", "h2d", "d2d", "p2p", "x"};
    assert_null(aorta_nearest("up", directions, 5)); /* two of three characters */
    assert_null(aorta_nearest("y", directions, 5));
    assert_string_equal(aorta_nearest("pp", directions, 5), "p2p");
    assert_string_equal(aorta_nearest("dh2", directions, 5), "d2h"); /* neighbours in each other's place */
    assert_null(aorta_nearest("", directions, 5));
}

/* A candidate that the word begins with is not read past its end: the sanitizer sees it in memory of its own. */
static void test_nearest_stays_within(void **state) {
    (void)state;
    char *candidate = strdup("train");
    assert_non_null(candidate);
    assert_null(aorta_nearest("trainxxxx", (const char *const *)&candidate, 1));
    free(candidate);
}

static void test_arena(void **state) {
    (void)state;
    struct aorta_arena arena = {0};
    unsigned char *blocks[200];
    for (size_t i = 0; i < 200; i++) {
        size_t bytes = i * 37 + 1;
        blocks[i] = aorta_arena_alloc(&arena, bytes);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        for (size_t j = 0; j < bytes; j++) assert_int_equal(blocks[i][j], 0);
        memset(blocks[i], (int)i, bytes);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t j = 0; j < i * 37 + 1; j++) assert_int_equal(blocks[i][j], i);
    assert_string_equal(aorta_arena_strdup(&arena, "copy"), "copy");
    assert_string_equal(aorta_arena_printf(&arena, "%d of %s", 3, "four"), "3 of four");
    int *numbers = NULL;
    size_t capacity = 0;
    for (int i = 0; i < 100; i++) {
        numbers = aorta_arena_grow(&arena, numbers, (size_t)i, &capacity, sizeof *numbers);
        assert_non_null(numbers);
        numbers[i] = i;
    }
    assert_true(capacity >= 100);
    for (int i = 0; i < 100; i++) assert_int_equal(numbers[i], i);
    check_ok(aorta_arena_check(&arena, "the numbers"));
    aorta_arena_free(&arena);
    assert_null(arena.blocks);
}

static void test_arena_remembers(void **state) {
    (void)state;
    struct aorta_arena arena = {0};
    assert_null(aorta_arena_alloc(&arena, SIZE_MAX));
    assert_null(aorta_arena_alloc(&arena, 1));
    assert_null(aorta_arena_strdup(&arena, ""));
    check_fails(aorta_arena_check(&arena, "the numbers"), AORTA_MEMORY, "no memory for the numbers");
    aorta_arena_free(&arena);
    check_ok(aorta_arena_check(&arena, "the numbers"));
    assert_non_null(aorta_arena_alloc(&arena, 1));
    aorta_arena_free(&arena);
}

static void test_counted(void **state) {
    (void)state;
    assert_string_equal(aorta_counted(0, "stream").text, "0 streams");
    assert_string_equal(aorta_counted(1, "stream").text, "1 stream");
    assert_string_equal(aorta_counted(12, "block resample").text, "12 block resamples");
}

static void test_text_moves_into_an_arena(void **state) {
    (void)state;
    struct aorta_arena arena = {0};
    struct aorta_text text = {0}, empty = {0}, broken = {.failed = 1};
    aorta_text_puts(&text, "a name");
    assert_string_equal(aorta_text_move(&text, &arena), "a name");
    assert_null(text.data);
    assert_string_equal(aorta_text_move(&empty, &arena), "");
    check_ok(aorta_arena_check(&arena, "texts"));
    assert_null(aorta_text_move(&broken, &arena));
    assert_true(arena.failed);
    aorta_text_arena_end(&text, &arena);
    check_fails(aorta_text_check(&text), AORTA_MEMORY, "out of memory");
}

static void test_words(void **state) {
    (void)state;
    enum { MANY = 100 };
    struct aorta_arena arena = {0};
    struct aorta_words words = {.arena = &arena};
    aorta_words_add_all(&words, (const char *const[]){"aorta", "launch", NULL});
    for (int i = 0; i < MANY; i++) {
        aorta_words_add(&words, "-n");
        assert_null(words.items[words.count]);
    }
    check_ok(aorta_arena_check(&arena, "words"));
    assert_int_equal(words.count, 2 + MANY);
    assert_string_equal(words.items[1], "launch");
    assert_string_equal(words.items[1 + MANY], "-n");
    assert_true(aorta_is_one_of("launch", (const char *const *)words.items, words.count));
    assert_false(aorta_is_one_of("launch", (const char *const *)words.items, 1));
    aorta_arena_free(&arena);
}

static void test_brief(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0"},       {0.01234, "0.0123"}, {0.945, "0.945"},    {4.567, "4.57"}, {4, "4"},          {27.04, "27"},
        {165.4, "165"}, {10888.9, "10889"},  {-3.14159, "-3.14"}, {1e-12, "0"},    {1e308, "1e+308"}, {-1e20, "-1e+20"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(aorta_brief(cases[i].value).text, cases[i].text);
}

/* A pseudo-terminal without a size is Open MPI's; aorta launch says how wide its own terminal is. */
static void test_terminals_have_a_size(void **state) {
    (void)state;
    int outer, inner;
    assert_int_equal(openpty(&outer, &inner, NULL, NULL, NULL), 0);
    FILE *stream = fdopen(inner, "w");
    setenv("TERM", "xterm", 1);
    assert_int_equal(aorta_terminal_width(stream), 0);
    assert_false(aorta_terminal_takes_escapes(stream));
    setenv(AORTA_COLUMNS, "120", 1);
    assert_int_equal(aorta_terminal_width(stream), 120);
    unsetenv(AORTA_COLUMNS);
    assert_int_equal(ioctl(outer, TIOCSWINSZ, &(struct winsize){.ws_row = 40, .ws_col = 90}), 0);
    assert_int_equal(aorta_terminal_width(stream), 90);
    assert_true(aorta_terminal_takes_escapes(stream));
    setenv("TERM", "dumb", 1);
    assert_false(aorta_terminal_takes_escapes(stream));
    fclose(stream);
    close(outer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_grows),
        cmocka_unit_test(test_failure_is_remembered),
        cmocka_unit_test(test_edit_distance),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_nearest_stays_within),
        cmocka_unit_test(test_arena),
        cmocka_unit_test(test_templates),
        cmocka_unit_test(test_arena_remembers),
        cmocka_unit_test(test_text_moves_into_an_arena),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_brief),
        cmocka_unit_test(test_counted),
        cmocka_unit_test(test_terminals_have_a_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
