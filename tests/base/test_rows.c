#include "base/rows.h"
#include "check.h"

#include <math.h>
#include <string.h>

/* A struct with a value of every type, and its rows. */
enum colour { RED, GREEN, COLOURS };
struct part {
    int64_t ns[COLOURS];
};
struct sample {
    const char *text, *why;
    bool flag;
    int64_t whole, ns, time_ns;
    int small;
    double mean_ns, number;
    int colour;
    struct part part;
};

static const char *colour_name(int colour) {
    return colour == RED ? "red" : "green";
}

#define AT(member) offsetof(struct sample, member)
static const struct aorta_row part_rows[] = {
    {"by_colour_ms", AORTA_ROW_NS, offsetof(struct part, ns), .help = "of each", .name = colour_name, .names = COLOURS},
    {0}};
static const struct aorta_row rows[] = {
    {"text", AORTA_ROW_TEXT, AT(text), .help = "a text", .reason = "nobody wrote one"},
    {"flag", AORTA_ROW_BOOL, AT(flag), .help = "yes or no", .omit = true},
    {"whole", AORTA_ROW_INT, AT(whole), "bytes", .help = "a whole number", .low = -5, .high = 100},
    {"small", AORTA_ROW_INT32, AT(small), .help = "a small one", .required = true},
    {"took_ms", AORTA_ROW_NS, AT(ns), .help = "a duration"},
    {"at_ms", AORTA_ROW_TIME, AT(time_ns), .help = "a moment"},
    {"mean_ms", AORTA_ROW_MEAN_NS, AT(mean_ns), NULL, 3, .help = "a mean"},
    {"share", AORTA_ROW_NUMBER, AT(number), "share", 6, .heading = "of all", .help = "a part", .reason_at = AT(why)},
    {"colour", AORTA_ROW_CHOICE, AT(colour), .help = "one of", .name = colour_name, .names = COLOURS},
    {NULL, AORTA_ROW_PART, AT(part), .part = part_rows, .help = ""},
    {"inner", AORTA_ROW_PART, AT(part), .part = part_rows, .help = ""},
    {0}};

static struct sample example(void) {
    return (struct sample){.text = "a \"b\"",
                           .flag = true,
                           .whole = -3,
                           .ns = 1500000,
                           .time_ns = 7000001,
                           .small = 4,
                           .mean_ns = 1234567.8,
                           .number = 0.25,
                           .colour = GREEN,
                           .part = {{1000000, 2}}};
}

static struct aorta_text written(const struct sample *values) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    aorta_json_object(&json);
    aorta_rows_json(rows, values, 7000000, &json);
    aorta_json_object_end(&json);
    return text;
}

static aorta_status read_back(const char *line, struct sample *values, struct aorta_texts *strings) {
    struct aorta_rows_reader reader = {.line = line, .strings = strings, .origin_ns = 7000000};
    struct aorta_json_value value;
    struct aorta_fields object;
    check_ok(aorta_line_value(line, strlen(line), &value));
    check_ok(aorta_fields_read(line, value, &object));
    aorta_status status = aorta_rows_read(&reader, &object, "x.", rows, values);
    aorta_text_free(&reader.scratch);
    return status;
}

static void both_ways(void **state) {
    (void)state;
    const struct sample values = example();
    struct sample again = {0};
    struct aorta_texts strings = {0};
    struct aorta_text text = written(&values);
    assert_string_equal(text.data,
                        "{\"text\": \"a \\\"b\\\"\", \"flag\": true, \"whole\": -3, \"small\": 4, \"took_ms\": 1.5, "
                        "\"at_ms\": 0.000001, \"mean_ms\": 1.235, \"share\": 0.25, \"colour\": \"green\", "
                        "\"by_colour_ms\": {\"red\": 1.0, \"green\": 0.000002}, "
                        "\"inner\": {\"by_colour_ms\": {\"red\": 1.0, \"green\": 0.000002}}}");
    check_ok(read_back(text.data, &again, &strings));
    assert_string_equal(again.text, "a \"b\"");
    assert_true(again.flag && again.whole == -3 && again.small == 4 && again.ns == 1500000);
    assert_true(again.time_ns == 7000001 && again.number == 0.25 && again.colour == GREEN);
    assert_true(fabs(again.mean_ns - 1235000) < 1e-6);
    assert_true(again.part.ns[RED] == 1000000 && again.part.ns[GREEN] == 2);
    aorta_texts_free(&strings);
    aorta_text_free(&text);
}

/* An unknown value is null with its reason, or absent; read back it changes nothing. */
static void unknown(void **state) {
    (void)state;
    struct sample values = example(), again = {.number = 7, .whole = 8};
    struct aorta_texts strings = {0};
    values.text = NULL;
    values.flag = false;
    values.whole = values.ns = values.part.ns[RED] = AORTA_ROW_UNKNOWN;
    values.number = values.mean_ns = NAN;
    values.why = "nothing ran";
    struct aorta_text text = written(&values);
    assert_string_equal(text.data, "{\"text\": null, \"whole\": null, \"small\": 4, \"took_ms\": null, "
                                   "\"at_ms\": 0.000001, \"mean_ms\": null, \"share\": null, \"colour\": \"green\", "
                                   "\"by_colour_ms\": {\"red\": null, \"green\": 0.000002}, "
                                   "\"inner\": {\"by_colour_ms\": {\"red\": null, \"green\": 0.000002}}, "
                                   "\"null_reasons\": {\"text\": \"nobody wrote one\", \"share\": \"nothing ran\"}}");
    check_ok(read_back(text.data, &again, &strings));
    assert_true(again.number == 7 && again.whole == 8 && !again.text);
    aorta_texts_free(&strings);
    aorta_text_free(&text);
}

static void malformed(void **state) {
    (void)state;
    static const struct {
        const char *line, *message;
    } bad[] = {
        {"{}", "x.small is missing"},
        {"{\"small\": 1.5}", "x.small is not an integer"},
        {"{\"small\": 3000000000}", "x.small is 3000000000, which cannot be"},
        {"{\"small\": 1, \"whole\": -6}", "x.whole is -6; expected -5 to 100"},
        {"{\"small\": 1, \"took_ms\": \"1\"}", "x.took_ms is not a number"},
        {"{\"small\": 1, \"took_ms\": 1e300}", "x.took_ms is not a time: 1e+300"},
        {"{\"small\": 1, \"share\": []}", "x.share is not a number"},
        {"{\"small\": 1, \"colour\": \"blue\"}", "x.colour is \"blue\"; known are red and green"},
        {"{\"small\": 1, \"text\": \"\xff\"}", "text holds bytes that are no text in UTF-8"},
        {"{\"small\": 1, \"inner\": 3}", "inner: byte 22: not an object"},
        {"{\"small\": 1, \"by_colour_ms\": {\"red\": true}}", "x.by_colour_ms.red is not a number"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sample values = {0};
        struct aorta_texts strings = {0};
        check_fails(read_back(bad[i].line, &values, &strings), AORTA_FORMAT, bad[i].message);
        aorta_texts_free(&strings);
    }
}

static void documented(void **state) {
    (void)state;
    struct aorta_text text = {0};
    aorta_rows_markdown(rows, &text);
    assert_string_equal(text.data, "| key | unit | content |\n| --- | --- | --- |\n"
                                   "| `text` |  | a text |\n| `flag` |  | yes or no |\n"
                                   "| `whole` | bytes | a whole number |\n| `small` |  | a small one |\n"
                                   "| `took_ms` | ms | a duration |\n| `at_ms` | ms | a moment |\n"
                                   "| `mean_ms` | ms | a mean |\n| `share` | share | a part |\n"
                                   "| `colour` |  | one of: `red`, `green` |\n"
                                   "| `by_colour_ms.NAME` | ms | of each: `red`, `green` |\n"
                                   "| `inner.by_colour_ms.NAME` | ms | of each: `red`, `green` |\n");
    aorta_text_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways),
        cmocka_unit_test(unknown),
        cmocka_unit_test(malformed),
        cmocka_unit_test(documented),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
