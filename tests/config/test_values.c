#include "check.h"
#include "table.h"

#include <jansson.h>
#include <stdlib.h>

static void check_defaults(const struct sample *sample) {
    assert_int_equal(sample->count, 8);
    assert_int_equal(sample->limit, 0);
    assert_int_equal(sample->index, -1);
    assert_true(sample->rate == 2e-4);
    assert_true(sample->pair[0] == 0.9 && sample->pair[1] == 0.98);
    assert_true(sample->on);
    assert_true(sample->maybe);
    assert_string_equal(sample->name, "artifacts");
    assert_null(sample->path);
    assert_string_equal(sample->link, "none");
    assert_int_equal(sample->shape, ROUND);
    assert_null(sample->steps.items);
    assert_int_equal(sample->words.count, 2);
    assert_string_equal(sample->words.items[1], "b");
}

static void test_defaults(void **state) {
    (void)state;
    static const char *const empty[] = {"", "# only a comment\n", "---\n", "main:\ntext: ~\n", "{}"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        struct sample sample;
        struct aorta_config config;
        check_ok(sample_load(empty[i], &sample, &config));
        check_defaults(&sample);
        assert_int_equal(aorta_config_origin(&config, "main.count")->kind, AORTA_FROM_DEFAULT);
        aorta_config_free(&config);
    }
}

static void test_file(void **state) {
    (void)state;
    struct sample sample;
    struct aorta_config config;
    check_ok(sample_load("main:\n  count: 0x10\n  limit: 4\n  index: 2\n  rate: 3e-4\n  ratio: 0\n  pair: [0, 0.5]\n"
                         "  on: off\n  maybe: no\n"
                         "text:\n  name: 2026\n  path: \"null\"\n  link: NO\n"
                         "  inner: {shape: Circle, steps: [3, 5], words: \"yes\"}\n"
                         "more:\n  options: {}\n",
                         &sample, &config));
    assert_int_equal(sample.count, 16);
    assert_int_equal(sample.limit, 4);
    assert_int_equal(sample.index, 2);
    assert_true(sample.rate == 3e-4);
    assert_true(sample.ratio == 0 && sample.pair[0] == 0 && sample.pair[1] == 0.5);
    assert_false(sample.on);
    assert_false(sample.maybe);
    assert_string_equal(sample.name, "2026");
    assert_string_equal(sample.path, "null");
    assert_string_equal(sample.link, "none");
    assert_int_equal(sample.shape, ROUND);
    assert_int_equal(sample.steps.count, 2);
    assert_int_equal(sample.steps.items[1], 5);
    assert_int_equal(sample.words.count, 1);
    assert_string_equal(sample.words.items[0], "yes");
    assert_int_equal(aorta_config_origin(&config, "main.rate")->line, 5);
    aorta_config_free(&config);
}

static void test_anchors_and_dotted_keys(void **state) {
    (void)state;
    struct sample sample;
    struct aorta_config config;
    check_ok(sample_load("main.count: &n 3\nmain: {index: *n}\ntext.inner.shape: square\n", &sample, &config));
    assert_int_equal(sample.count, 3);
    assert_int_equal(sample.index, 3);
    assert_int_equal(sample.shape, SQUARE);
    aorta_config_free(&config);
}

static void test_overrides(void **state) {
    (void)state;
    const char *const overrides[] = {"main.count=3",         "main.count=5",     "main.pair=[0.1, 0.2]",
                                     "text.path=a=b",        "main.limit=",      "text.inner.steps=7",
                                     "text.inner.words=[x]", "text.name=\"no\"", "main={ratio: 0.5, on: no}"};
    struct sample sample;
    struct aorta_config config;
    const char *path = sample_file("a.yaml", "main:\n  count: 2\n  limit: 4\n");
    check_ok(aorta_config_load(&sample_table, path, overrides, sizeof overrides / sizeof *overrides, &sample, &config));
    assert_int_equal(sample.count, 5);
    assert_int_equal(sample.limit, 0);
    assert_true(sample.pair[1] == 0.2);
    assert_string_equal(sample.path, "a=b");
    assert_string_equal(sample.name, "no");
    assert_int_equal(sample.steps.count, 1);
    assert_int_equal(sample.steps.items[0], 7);
    assert_string_equal(sample.words.items[0], "x");
    assert_true(sample.ratio == 0.5 && !sample.on);
    assert_int_equal(aorta_config_origin(&config, "main.count")->kind, AORTA_FROM_OVERRIDE);
    check_fails(aorta_config_error(&config, "main.count", "%d is odd", 5), AORTA_CONFIG,
                "--override main.count=5: main.count: 5 is odd");
    check_fails(aorta_config_error(&config, "main.rate", "too slow"), AORTA_CONFIG, "main.rate (by default): too slow");
    aorta_config_free(&config);
}

/* An empty list is not null. */
static void test_empty_list(void **state) {
    (void)state;
    struct sample sample;
    struct aorta_config config;
    check_ok(sample_override("text.inner.steps=[]", &sample, &config));
    assert_non_null(sample.steps.items);
    assert_int_equal(sample.steps.count, 0);
    aorta_config_free(&config);
}

static char *dump(const struct aorta_config *config) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 2);
    aorta_config_write_json(config, &json);
    check_ok(aorta_text_check(&text));
    return text.data;
}

static void test_written_values_load_again(void **state) {
    (void)state;
    static const char *const contents[] = {
        "{}",
        "{\"main\": {\"count\": 3, \"rate\": 1e-8, \"limit\": 2, \"on\": false, \"maybe\": false}, \"text\": "
        "{\"path\": "
        "\"a \\\"b\\\" \\u00e4\", \"inner\": {\"shape\": \"square\", \"steps\": [1, 2], \"words\": []}}}",
    };
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        struct sample sample;
        struct aorta_config config;
        const char *path = sample_file("a.json", contents[i]);
        check_ok(aorta_config_load(&sample_table, path, NULL, 0, &sample, &config));
        char *first = dump(&config);
        aorta_config_free(&config);
        json_t *read = json_loads(first, 0, NULL);
        assert_non_null(read);
        assert_int_equal(json_integer_value(json_object_get(json_object_get(read, "main"), "count")), i ? 3 : 8);
        json_decref(read);
        check_ok(aorta_config_load(&sample_table, sample_file("b.json", first), NULL, 0, &sample, &config));
        char *second = dump(&config);
        assert_string_equal(first, second);
        aorta_config_free(&config);
        free(first);
        free(second);
    }
}

static void test_help(void **state) {
    (void)state;
    struct aorta_text text = {0};
    assert_true(aorta_options_help(&sample_table, NULL, &text));
    assert_non_null(strstr(text.data, "  main.count (default: 8): an integer of at least 1\n      how many\n"));
    assert_non_null(strstr(text.data, "main.limit (default: null): an integer from 1 to 4, or null\n"));
    assert_non_null(strstr(text.data, "main.ratio (default: 0.1): a number in [0, 1)\n"));
    assert_non_null(strstr(text.data, "main.rate (default: 2e-4): a number above 0\n"));
    aorta_text_clear(&text);
    assert_true(aorta_options_help(&sample_table, "text.inner", &text)); /* a section in a section, a key, neither */
    assert_ptr_equal(strstr(text.data, "  text.inner.shape "), text.data);
    assert_null(strstr(text.data, "text.name"));
    aorta_text_clear(&text);
    assert_true(aorta_options_help(&sample_table, "main.rate", &text));
    assert_ptr_equal(strstr(text.data, "  main.rate "), text.data);
    assert_null(strstr(text.data, "main.ratio"));
    assert_false(aorta_options_help(&sample_table, "main.rat", &text));
    aorta_text_clear(&text);
    aorta_options_markdown(&sample_table, &text);
    assert_non_null(strstr(text.data,
                           "\n## text.inner\n\n| key | default | value | what it does |\n| --- | --- | --- | "
                           "--- |\n| `shape` | `round` | `round` (also `circle`), `square` | which form |\n"));
    assert_non_null(strstr(text.data, "| whether \\| or not |\n"));
    aorta_text_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_anchors_and_dotted_keys),
        cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_empty_list),
        cmocka_unit_test(test_written_values_load_again),
        cmocka_unit_test(test_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
