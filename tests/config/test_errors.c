#include "check.h"
#include "table.h"

#include <stdlib.h>

/* Each wrong file with the whole message. */
#define TEN "[[[[[[[[[["

static const struct {
    const char *content, *message;
} wrong_files[] = {
    /* unknown keys */
    {"main:\n  cuont: 3\n", "a.yaml:2: main.cuont: unknown key; did you mean main.count?"},
    {"main:\n  shape: square\n", "a.yaml:2: main.shape: unknown key; did you mean text.inner.shape?"},
    {"mian:\n  count: 3\n", "a.yaml:1: mian: unknown key; did you mean main?"},
    {"main:\n  something_else: 3\n", "a.yaml:2: main.something_else: unknown key; the keys of main are count, limit, "
                                     "index, rate, ratio, pair, on, maybe"},
    {"training:\n  x: 3\n", "a.yaml:1: training: unknown key; the sections are main, text, more"},
    {"later:\n  x: 3\n", "a.yaml:1: later: comes later"},
    {"later.x: 3\n", "a.yaml:1: later.x: comes later"},
    {"<<: {}\n", "a.yaml:1: <<: unknown key; the sections are main, text, more"},
    /* wrong types */
    {"main:\n  count: eight\n", "a.yaml:2: main.count: found eight; expected an integer of at least 1 (default: 8)"},
    {"main:\n  count: \"8\"\n",
     "a.yaml:2: main.count: found the text \"8\"; expected an integer of at least 1 (default: 8)"},
    {"main:\n  count: 8.0\n", "a.yaml:2: main.count: found 8.0; expected an integer of at least 1 (default: 8)"},
    {"main:\n  count:\n", "a.yaml:2: main.count: found nothing (null); expected an integer of at least 1 (default: 8)"},
    {"main:\n  count: [1]\n", "a.yaml:2: main.count: found [1]; expected an integer of at least 1 (default: 8)"},
    {"main:\n  count: {a: 1}\n",
     "a.yaml:2: main.count: found a section; expected an integer of at least 1 (default: 8)"},
    {"main:\n  count: !!int 8\n",
     "a.yaml:2: main.count: found the tag tag:yaml.org,2002:int; expected an integer of at "
     "least 1 (default: 8)"},
    {"main:\n  on: 1\n", "a.yaml:2: main.on: found 1; expected true or false (default: true)"},
    {"main:\n  rate: fast\n", "a.yaml:2: main.rate: found fast; expected a number above 0 (default: 2e-4)"},
    {"text:\n  name: yes\n", "a.yaml:2: text.name: found yes; expected text (default: artifacts)"},
    {"text:\n  name: \"a\\0b\"\n",
     "a.yaml:2: text.name: found text that holds a NUL character; expected text (default: artifacts)"},
    {"main:\n  pair: 0.5\n", "a.yaml:2: main.pair: found 0.5; expected a list of two numbers in [0, 1), as in [0.9, "
                             "0.98] (default: [0.9, 0.98])"},
    {"main:\n  pair: [1, 2, 3, 4, 5]\n", "a.yaml:2: main.pair: found [1, 2, 3, 4, …]; expected a list of two numbers "
                                         "in [0, 1), as in [0.9, 0.98] (default: "
                                         "[0.9, 0.98])"},
    {"text:\n  inner:\n    steps: [1, [2]]\n", "a.yaml:3: text.inner.steps: found [1, […]]; expected an integer of at "
                                               "least 1 or a list of integers, or "
                                               "null (default: null)"},
    {"main: 5\n",
     "a.yaml:1: main: found 5; expected a section with the keys count, limit, index, rate, ratio, pair, on, "
     "maybe"},
    {"- main\n", "a.yaml:1: found [main]; expected the sections main, text, more"},
    {"text:\n  inner: [shape]\n",
     "a.yaml:2: text.inner: found [shape]; expected a section with the keys shape, steps, words"},
    {"{main: {? [a] : 1}}\n", "a.yaml:1: main: a key must be a name, found [a]"},
    {"more:\n  options: 5\n", "a.yaml:2: more.options: found 5; expected a map, or null (default: {})"},
    {"more:\n  options: [x]\n", "a.yaml:2: more.options: found [x]; expected a map, or null (default: {})"},
    /* ranges and choices */
    {"main:\n  count: 0\n", "a.yaml:2: main.count: found 0; expected an integer of at least 1 (default: 8)"},
    {"main:\n  limit: 5\n", "a.yaml:2: main.limit: found 5; expected an integer from 1 to 4, or null (default: null)"},
    {"main:\n  rate: 0\n", "a.yaml:2: main.rate: found 0; expected a number above 0 (default: 2e-4)"},
    {"main:\n  ratio: 1.0\n", "a.yaml:2: main.ratio: found 1.0; expected a number in [0, 1) (default: 0.1)"},
    {"main:\n  rate: .nan\n", "a.yaml:2: main.rate: found .nan; expected a number above 0 (default: 2e-4)"},
    {"text: {inner: {shape: sqare}}\n",
     "a.yaml:1: text.inner.shape: found sqare; expected one of round (or circle), square; did you mean square?"},
    {"text: {link: radio-waves}\n",
     "a.yaml:1: text.link: found radio-waves; expected one of none (or no), wire (default: none)"},
    /* given twice */
    {"main:\n  count: 1\n  count: 2\n", "a.yaml:3: main.count: given twice, first on line 2; remove one of them"},
    {"main: {count: 1}\nmain: {limit: 2}\n", "a.yaml:2: main: given twice, first on line 1; remove one of them"},
    {"main: {count: 1}\nmain.count: 2\n", "a.yaml:2: main.count: given twice, first on line 1; remove one of them"},
    /* broken YAML */
    {"main:\n\tcount: 1\n", "a.yaml:2:1: not valid YAML: found character that cannot start any token (while scanning "
                            "for the next token that began on line 2); indent with spaces, not with tabs"},
    {"main: [1, 2\n",
     "a.yaml:2:1: not valid YAML: did not find expected ',' or ']' (while parsing a flow sequence that "
     "began on line 1)"},
    {"main:\n  count: 1\n limit: 2\n", "a.yaml:3:2: not valid YAML: did not find expected key (while parsing a block "
                                       "mapping that began on line 1)"},
    {"a: *b\n", "a.yaml:1:4: not valid YAML: found undefined alias"},
    {"main: {}\n---\ntext: {}\n",
     "a.yaml:2:1: a second document begins here; a configuration is one document, without further \"---\""},
    {"main: " TEN TEN TEN TEN TEN TEN TEN, "a.yaml:1:70: brackets and sections are more than 64 deep"},
    {"main: \xff\n", "a.yaml: byte 6: not valid YAML: invalid leading UTF-8 octet; save the file as UTF-8"},
    /* several at once */
    {"main:\n  count: 0\n  on: 3\n",
     "2 errors:\na.yaml:2: main.count: found 0; expected an integer of at least 1 "
     "(default: 8)\na.yaml:3: main.on: found 3; expected true or false (default: true)"},
};

static void check_message(aorta_status status, const char *expected) {
    if (!status || strcmp(aorta_status_message(status), expected) != 0) {
        print_error("expected: %s\nfound:    %s\n", expected, aorta_status_message(status));
        aorta_status_free(status);
        fail();
    }
    assert_int_equal(aorta_status_code(status), AORTA_CONFIG);
    aorta_status_free(status);
}

static void test_wrong_files(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong_files / sizeof *wrong_files; i++) {
        struct sample sample;
        struct aorta_config config;
        check_message(sample_load(wrong_files[i].content, &sample, &config), wrong_files[i].message);
    }
}

static const struct {
    const char *override, *message;
} wrong_overrides[] = {
    {"main.count=0", "--override main.count=0: main.count: found 0; expected an integer of at least 1 (default: 8)"},
    {"main.cuont=3", "--override main.cuont=3: main.cuont: unknown key; did you mean main.count?"},
    {"main=3", "--override main=3: main: found 3; expected a section with the keys count, limit, index, rate, ratio, "
               "pair, on, maybe"},
    {"main.count", "--override main.count: expected KEY=VALUE, for instance main.count=8"},
    {"=3", "--override =3: expected KEY=VALUE, for instance main.count=8"},
    {"main.pair=[1", "--override main.pair=[1: not valid YAML: did not find expected ',' or ']' (while parsing a flow "
                     "sequence)"},
    {"text.name=#3", "--override text.name=#3: there is no value after \"=\"; put it in quotes"},
    {"main={count: 1, count: 2}", "--override main={count: 1, count: 2}: main.count: given twice; remove one of them"},
};

static void test_wrong_overrides(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong_overrides / sizeof *wrong_overrides; i++) {
        struct sample sample;
        struct aorta_config config;
        check_message(sample_override(wrong_overrides[i].override, &sample, &config), wrong_overrides[i].message);
    }
}

static void test_wrong_json(void **state) {
    (void)state;
    static const struct {
        const char *content, *message;
    } wrong[] = {
        {"{\"main\": {\"count\": 1,}}", "a.json:1:22: not valid JSON: string or '}' expected near '}'"},
        {"{\"main\":\n {\"count\": 0}}",
         "a.json:2: main.count: found 0; expected an integer of at least 1 (default: 8)"},
        {"\xef\xbb\xbf{\"main\":\n {\"count\": 0}}",
         "a.json:2: main.count: found 0; expected an integer of at least 1 (default: 8)"},
        {"{'main': 1}", "a.json:1:2: not valid JSON: string or '}' expected near '''"},
        {"[]", "a.json:1: found []; expected the sections main, text, more"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct sample sample;
        struct aorta_config config;
        const char *path = sample_file("a.json", wrong[i].content);
        check_message(aorta_config_load(&sample_table, path, NULL, 0, &sample, &config), wrong[i].message);
    }
}

static void test_no_file(void **state) {
    (void)state;
    struct sample sample;
    struct aorta_config config;
    check_message(aorta_config_load(&sample_table, "/nowhere/x.yaml", NULL, 0, &sample, &config),
                  "cannot read /nowhere/x.yaml: No such file or directory; give the path of a configuration in YAML or "
                  "JSON");
    check_message(aorta_config_load(&sample_table, "/tmp", NULL, 0, &sample, &config),
                  "cannot read /tmp: Is a directory; give the path of a configuration in YAML or JSON");
}

static void test_too_large(void **state) {
    (void)state;
    size_t length = 2 << 20;
    char *content = malloc(length + 1);
    assert_non_null(content);
    memset(content, '\n', length);
    content[length] = '\0';
    struct sample sample;
    struct aorta_config config;
    check_message(sample_load(content, &sample, &config),
                  "cannot read a.yaml: it is larger than 1 MiB; give the path of a configuration in YAML or JSON");
    free(content);
}

static void test_anchors(void **state) {
    (void)state;
    char content[4096] = "";
    for (int i = 0; i < 101; i++) sprintf(content + strlen(content), "&a%d k%d: 1\n", i, i);
    struct sample sample;
    struct aorta_config config;
    check_message(sample_load(content, &sample, &config), "a.yaml:101:1: there are more than 100 anchors (&name)");
}

static void test_ten_at_most(void **state) {
    (void)state;
    char content[1024] = "";
    for (int i = 0; i < 30; i++) sprintf(content + strlen(content), "unknown_key_%d: 1\n", i);
    struct sample sample;
    struct aorta_config config;
    aorta_status status = sample_load(content, &sample, &config);
    assert_non_null(status);
    const char *message = aorta_status_message(status);
    assert_non_null(strstr(message, "more than 10 errors; the first are:\na.yaml:1: "));
    assert_non_null(strstr(message, "a.yaml:10: "));
    assert_null(strstr(message, "a.yaml:11: "));
    aorta_status_free(status);
}

/* Values are shown cut and without control characters; a section that contains itself ends. */
static void test_strange_values(void **state) {
    (void)state;
    struct sample sample;
    struct aorta_config config;
    check_fails(
        sample_load("main: {count: \"\\e[31mxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}",
                    &sample, &config),
        AORTA_CONFIG, "found the text \"?[31mxxx");
    check_fails(sample_load("main: &m\n  count: *m\n", &sample, &config), AORTA_CONFIG, "found a section");
    check_fails(sample_load("text: &m\n  inner: *m\n", &sample, &config), AORTA_CONFIG, "text.inner.inner");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_files), cmocka_unit_test(test_wrong_overrides), cmocka_unit_test(test_wrong_json),
        cmocka_unit_test(test_no_file),     cmocka_unit_test(test_too_large),       cmocka_unit_test(test_ten_at_most),
        cmocka_unit_test(test_anchors),     cmocka_unit_test(test_strange_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
