#include "check.h"
#include "cli/cli.h"

#include <math.h>

struct values {
    const char *config;
    struct aorta_string_list overrides;
    struct aorta_int_list streams;
    int64_t ranks;
    double threshold;
    bool json;
    int paint;
};

static const struct aorta_range_limits at_least_1 = {.min = 1, .max = INFINITY};
static const struct aorta_choice colors[] = {{"red", 1}, {"green", 2}, {0}};

#define AT(member) offsetof(struct values, member)
static const struct aorta_option options[] = {
    {"config", AORTA_OPTION_STRING, AT(config), "null", .nullable = true, .letter = 'c', .argument = "FILE",
     .required = true, .help = "configuration file"},
    {"override", AORTA_OPTION_STRING_LIST, AT(overrides), "[]", .argument = "KEY=VALUE", .several = true,
     .help = "changes keys"},
    {"streams", AORTA_OPTION_INT_LIST, AT(streams), "[1, 2]", .limits = &at_least_1, .help = "how many"},
    {"ranks", AORTA_OPTION_INT, AT(ranks), "1", .limits = &at_least_1, .letter = 'n', .help = "ranks"},
    {"threshold", AORTA_OPTION_DOUBLE, AT(threshold), "0.05", .help = "limit"},
    {"json", AORTA_OPTION_BOOL, AT(json), "false", .letter = 'j', .help = "as JSON"},
    {"paint", AORTA_OPTION_CHOICE, AT(paint), "red", .choices = colors, .help = "of it"},
};
#undef AT

static const struct aorta_cli_syntax plain = {
    .styled = true, .usage = "aorta test --config FILE", .about = "Tests.", .options = options, .option_count = 7};
static const struct aorta_cli_syntax with_operands = {
    .usage = "aorta test FILE", .about = "Tests.", .options = options, .option_count = 7, .operands = true};
static const struct aorta_cli_syntax with_command = {
    .usage = "aorta test -- CMD", .about = "Tests.", .options = options + 1, .option_count = 6, .command = true};

enum { MOST_WORDS = 16 };

static int split(const char *line, char *copy, char **words) {
    int count = 0;
    strcpy(copy, line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) words[count++] = word;
    words[count] = NULL;
    return count;
}

static void test_all_forms(void **state) {
    (void)state;
    static const char *const lines[] = {
        "test -c a.yaml --override x=1 y=-2 --ranks 4 --override=z=3 --json --threshold=-0.5 --streams 4,8 --paint "
        "Green",
        "test --paint=GREEN --config=a.yaml -n4 -j --threshold -0.5 --override x=1 --override y=-2 z=3 --streams=4,8",
        "test --ranks 9 --config b.yaml --config a.yaml --ranks=4 --override x=1 y=-2 z=3 --json=true --threshold -.5 "
        "--streams 4,8 --paint green",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char copy[256], *words[MOST_WORDS + 8];
        struct values values;
        struct aorta_cli_line line;
        int count = split(lines[i], copy, words);
        check_ok(aorta_cli_parse(&plain, count, words, &values, &line));
        assert_false(line.help);
        assert_string_equal(values.config, "a.yaml");
        assert_int_equal(values.overrides.count, 3);
        assert_string_equal(values.overrides.items[0], "x=1");
        assert_string_equal(values.overrides.items[1], "y=-2");
        assert_string_equal(values.overrides.items[2], "z=3");
        assert_int_equal(values.ranks, 4);
        assert_true(values.json);
        assert_true(values.threshold == -0.5);
        assert_int_equal(values.streams.count, 2);
        assert_int_equal(values.streams.items[1], 8);
        assert_int_equal(values.paint, 2);
        aorta_cli_free(&line);
    }
}

static void test_defaults(void **state) {
    (void)state;
    char *words[] = {"test", "--config", "no"}; /* a text, whatever YAML would think of it */
    struct values values;
    struct aorta_cli_line line;
    check_ok(aorta_cli_parse(&plain, 3, words, &values, &line));
    assert_string_equal(values.config, "no");
    assert_int_equal(values.overrides.count, 0);
    assert_int_equal(values.streams.count, 2);
    assert_int_equal(values.ranks, 1);
    assert_false(values.json);
    assert_int_equal(values.paint, 1);
    aorta_cli_free(&line);
}

static void test_operands(void **state) {
    (void)state;
    char *words[] = {"test", "a", "--config", "c", "b", "-", "--", "--json", "d"};
    struct values values;
    struct aorta_cli_line line;
    check_ok(aorta_cli_parse(&with_operands, 9, words, &values, &line));
    assert_int_equal(line.operand_count, 5);
    assert_string_equal(line.operands[0], "a");
    assert_string_equal(line.operands[2], "-");
    assert_string_equal(line.operands[3], "--json");
    assert_null(line.operands[5]);
    assert_false(values.json);
    aorta_cli_free(&line);
}

static void test_command(void **state) {
    (void)state;
    static const char *const lines[] = {"test -n 2 -- prog --json -n 3", "test -n 2 prog --json -n 3",
                                        "test -n2 prog --json -n 3"};
    for (size_t i = 0; i < 3; i++) {
        char copy[256], *words[MOST_WORDS];
        struct values values;
        struct aorta_cli_line line;
        int count = split(lines[i], copy, words);
        check_ok(aorta_cli_parse(&with_command, count, words, &values, &line));
        assert_int_equal(values.ranks, 2);
        assert_false(values.json);
        assert_int_equal(line.operand_count, 4);
        assert_string_equal(line.operands[0], "prog");
        assert_string_equal(line.operands[3], "3");
        aorta_cli_free(&line);
    }
}

static void test_wrong_lines(void **state) {
    (void)state;
    static const struct {
        const char *line, *message;
    } wrong[] = {
        {"test", "--config FILE is missing; usage: aorta test --config FILE"},
        {"test --confg a", "unknown option --confg; did you mean --config?"},
        {"test --hepl", "unknown option --hepl; did you mean --help?"},
        {"test --zzzzzz=3", "unknown option --zzzzzz; --help lists the options"},
        {"test -x", "unknown option -x; --help lists the options"},
        {"test -jn", "unknown option -jn; --help lists the options"},
        {"test --config", "--config needs a value: --config FILE"},
        {"test --config --json", "--config needs a value: --config FILE"},
        {"test --override -c a", "--override needs a value: --override KEY=VALUE"},
        {"test --ranks two", "--ranks: found \"two\"; expected an integer of at least 1"},
        {"test -n 0", "--ranks: found \"0\"; expected an integer of at least 1"},
        {"test --streams 1,,2",
         "--streams: found \"1,,2\"; expected an integer of at least 1 or a list of integers such as 2,4,8"},
        {"test --threshold x", "--threshold: found \"x\"; expected a number"},
        {"test --json=maybe", "--json: found \"maybe\"; expected true or false"},
        {"test --paint gren", "--paint: found \"gren\"; expected one of red, green; did you mean green"},
        {"test a", "unexpected argument \"a\"; usage: aorta test --config FILE"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char copy[256], *words[MOST_WORDS];
        struct values values;
        struct aorta_cli_line line;
        int count = split(wrong[i].line, copy, words);
        check_fails(aorta_cli_parse(&plain, count, words, &values, &line), AORTA_USAGE, wrong[i].message);
    }
}

static void test_help_text(void **state) {
    (void)state;
    struct aorta_text text = {0};
    aorta_cli_help_text(&plain, &text);
    check_ok(aorta_text_check(&text));
    assert_string_equal(text.data,
                        "Usage: aorta test --config FILE\n\nTests.\n\nOptions:\n"
                        "  -c, --config FILE           configuration file (required)\n"
                        "      --override KEY=VALUE …  changes keys (default: [])\n"
                        "      --streams N,…           how many (default: [1, 2])\n"
                        "  -n, --ranks N               ranks (default: 1)\n"
                        "      --threshold X           limit (default: 0.05)\n"
                        "  -j, --json                  as JSON\n"
                        "      --paint NAME            of it: one of red, green (default: red)\n"
                        "      --color auto|always|never\n"
                        "                              colors; auto: on a terminal, unless NO_COLOR is set (default: "
                        "auto)\n"
                        "      --full-names            print whole names of kernels and operations\n"
                        "  -h, --help                  print this text\n");
    aorta_text_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_forms), cmocka_unit_test(test_defaults),    cmocka_unit_test(test_operands),
        cmocka_unit_test(test_command),   cmocka_unit_test(test_wrong_lines), cmocka_unit_test(test_help_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
