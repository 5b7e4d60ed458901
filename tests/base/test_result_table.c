#include "base/files.h"
#include "base/result_table.h"
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A table of three kernels, of which the second is omitted, and the third was not measured:
 *
 *     kernels               count  total ms   share    p50 us
 *       gemm<float>             2     3.000   75.0%   1500.00
 *       copy, "quick"           1         -       -         - */
struct line {
    const char *name;
    int64_t count, total_ns;
    double share, p50_ns;
    int64_t parts[2];
};

static const char *part_name(int part) {
    return part ? "later" : "first";
}

#define AT(member) offsetof(struct line, member)
static const struct aorta_row rows[] = {
    {"name", AORTA_ROW_KERNEL, AT(name), .heading = "kernel", .help = "its name"},
    {"count", AORTA_ROW_INT, AT(count), .heading = "count", .help = "how often"},
    {"total_ms", AORTA_ROW_NS, AT(total_ns), .heading = "total ms", .help = "in all"},
    {"share", AORTA_ROW_NUMBER, AT(share), "share", 6, "share", .help = "of all"},
    {"p50_per_run", AORTA_ROW_MEAN_NS, AT(p50_ns), NULL, 6, .help = "median"},
    {"parts_ms", AORTA_ROW_NS, AT(parts), .help = "of it", .name = part_name, .names = 2},
    {"seen", AORTA_ROW_NUMBER, AT(share), .shown_only = true, .help = "only in the text"},
    {0}};
static const struct line lines[] = {{"gemm<float>", 2, 3000000, 0.75, 1.5e6, {1, 2}},
                                    {NULL, 0, 0, 0, 0, {0}},
                                    {"copy, \"quick\"", 1, AORTA_ROW_UNKNOWN, NAN, NAN, {3, AORTA_ROW_UNKNOWN}}};

static enum aorta_line fill(const void *of, size_t index, void *values) {
    if (index >= *(const size_t *)of) return AORTA_LINE_END;
    *(struct line *)values = lines[index];
    return lines[index].name ? AORTA_LINE : AORTA_LINE_SKIP;
}

static enum aorta_line fill_long(const void *of, size_t index, void *values) {
    if (index >= *(const size_t *)of) return AORTA_LINE_END;
    *(struct line *)values = (struct line){"gemm", 1, 1, NAN, index ? 2e6 : 183899690, {0}};
    return AORTA_LINE;
}

static const struct aorta_column columns[] = {{"count", "count", .width = 7},
                                              {"total_ms", "total ms", 9, .decimals = 3},
                                              {"share", "share", 7, .decimals = 1},
                                              {"p50_per_run", "p50 us", 9, 2, true},
                                              {0}};
static const struct aorta_result_table table = {"kernels",           "kernels", "what ran", "work", rows,
                                                sizeof(struct line), fill,      columns,    true};

static const char *shorten(const char *kernel, char *name, size_t size) {
    snprintf(name, size, "%.4s", kernel);
    return name;
}

static void as_text(void **state) {
    (void)state;
    const size_t all = 3, none = 0;
    struct aorta_text text = {0};
    aorta_table_text(&table, &all, &(struct aorta_table_view){.most = 9}, &text);
    assert_string_equal(text.data, "  count  total ms   share    p50 us  kernels\n"
                                   "      2     3.000   75.0%   1500.00  gemm<float>\n"
                                   "      1         -       -         -  copy, \"quick\"\n");
    aorta_text_clear(&text); /* a title above, a heading of the names, short names */
    const struct aorta_table_view view = {.title = "Per step, ms",
                                          .name = "what ran",
                                          .most = 1,
                                          .shorten = shorten,
                                          .whole = true,
                                          .width = 42,
                                          .more = "--all"};
    aorta_table_text(&table, &all, &view, &text);
    assert_string_equal(text.data, "Per step, ms\n"
                                   "  count  total ms   share    p50 us  what ran\n"
                                   "      2     3.000   75.0%   1500.00  gemm\n"
                                   "  … and 1 more (--all)\n");
    aorta_text_clear(&text); /* a name is cut where the line ends */
    aorta_table_text(&table, &all, &(struct aorta_table_view){.most = 1, .width = 42}, &text);
    assert_non_null(strstr(text.data, "1500.00  gemm…\n"));
    aorta_text_clear(&text);
    aorta_table_text(&table, &all, &(struct aorta_table_view){.most = 1, .whole = true}, &text);
    assert_non_null(strstr(text.data, "p50 us  kernels, whole recording\n"));
    aorta_text_clear(&text);
    struct aorta_result_table nameless = table; /* its title is above */
    nameless.rows = rows + 1;
    aorta_table_text(&nameless, &all, &(struct aorta_table_view){.most = 1}, &text);
    assert_int_equal(strncmp(text.data, "kernels\n  count", 15), 0);
    aorta_text_clear(&text);
    struct aorta_result_table long_times = table; /* microseconds without digits that nobody reads */
    long_times.fill = fill_long;
    aorta_table_text(&long_times, &(const size_t){2}, &(struct aorta_table_view){.most = 2}, &text);
    assert_non_null(strstr(text.data, " 183900     gemm\n"));
    assert_non_null(strstr(text.data, " 2000.00  gemm\n"));
    aorta_text_clear(&text);
    aorta_table_text(&table, &none, &(struct aorta_table_view){.most = 9}, &text);
    assert_int_equal(text.length, 0);
    aorta_text_free(&text);
}

static void as_json(void **state) {
    (void)state;
    const size_t all = 3;
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    aorta_json_object(&json);
    aorta_table_json(&table, &all, &json);
    aorta_json_key(&json, "page");
    aorta_table_page_json(&table, false, &json);
    aorta_json_object_end(&json);
    assert_string_equal(
        text.data,
        "{\"kernels\": [{\"name\": \"gemm<float>\", \"count\": 2, \"total_ms\": 3.0, \"share\": 0.75, "
        "\"p50_per_run\": 1.5, \"parts_ms\": {\"first\": 0.000001, \"later\": 0.000002}}, {\"name\": \"copy, "
        "\\\"quick\\\"\", \"count\": 1, \"total_ms\": null, \"share\": null, \"p50_per_run\": null, \"parts_ms\": "
        "{\"first\": 0.000003, \"later\": null}}], \"page\": {\"key\": \"kernels\", \"title\": \"kernels\", "
        "\"section\": \"work\", \"columns\": [{\"key\": \"name\", \"heading\": \"kernel\", \"kind\": \"kernel\"}, "
        "{\"key\": \"count\", \"heading\": \"count\", \"kind\": \"number\"}, {\"key\": \"total_ms\", \"heading\": "
        "\"total ms\", \"kind\": \"number\"}, {\"key\": \"share\", \"heading\": \"share\", \"kind\": \"share\"}]}}");
    aorta_text_free(&text);
}

/* Three lines, at most two wanted: every second. */
static void some_as_json(void **state) {
    (void)state;
    const size_t all = 3;
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    aorta_json_object(&json);
    aorta_table_json_some(&table, &all, 2, &json);
    aorta_json_object_end(&json);
    assert_non_null(strstr(text.data, "gemm<float>"));
    assert_null(strstr(text.data, "quick"));
    assert_non_null(strstr(text.data, "\"kernels_every\": 2"));
    aorta_text_clear(&text);
    aorta_json_begin(&json, &text, 0);
    aorta_json_object(&json);
    aorta_table_json_some(&table, &all, 3, &json);
    aorta_json_object_end(&json);
    assert_non_null(strstr(text.data, "quick"));
    assert_null(strstr(text.data, "_every"));
    aorta_text_free(&text);
}

static void as_csv(void **state) {
    (void)state;
    static const char whole[] = "name,count,total_ms,share,p50_per_run [ms],parts_ms.first,parts_ms.later\r\n"
                                "gemm<float>,2,3.0,0.75,1.5,0.000001,0.000002\r\n"
                                "\"copy, \"\"quick\"\"\",1,,,,0.000003,\r\n";
    const size_t all = 3;
    char folder[] = "/tmp/aorta_table_XXXXXX", path[64];
    char *bytes;
    size_t length;
    struct aorta_text text = {0};
    assert_non_null(mkdtemp(folder));
    check_ok(aorta_table_csv(&table, &all, folder));
    snprintf(path, sizeof path, "%s/kernels.csv", folder);
    check_ok(aorta_file_read(path, &bytes, &length));
    assert_string_equal(bytes, whole);
    aorta_table_csv_header(&table, "rank", &text);
    aorta_table_csv_lines(&table, &all, "a\nb", &text);
    assert_memory_equal(text.data, "rank,name,", 10);
    assert_non_null(strstr(text.data, "\"a\nb\",gemm<float>,2,"));
    check_fails(aorta_table_csv(&table, &all, "/proc/none"), AORTA_IO, "/proc/none");
    aorta_text_free(&text);
    free(bytes);
    unlink(path);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_text),
        cmocka_unit_test(as_json),
        cmocka_unit_test(some_as_json),
        cmocka_unit_test(as_csv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
