/* The page's data: spans as they are packed and thinned, texts that cannot end the page, the figure that differs most.
 */
#include "check.h"
#include "report/page.h"
#include "report/page_recordings.h"
#include "report/report.h"
#include "report/summary.h"
#include "workspace.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- lanes ---- */

static json_t *written(struct aorta_page_lanes *lanes, size_t most) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    aorta_page_lanes_write(lanes, most, &json);
    json_t *root = json_loads(text.data, 0, NULL);
    assert_non_null(root);
    aorta_text_free(&text);
    return root;
}

static size_t from_base64(const char *text, unsigned char *bytes) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t length = 0;
    unsigned bits = 0, pending = 0;
    for (; *text && *text != '='; text++) {
        bits = bits << 6 | (unsigned)(strchr(letters, *text) - letters);
        pending += 6;
        if (pending >= 8) bytes[length++] = (unsigned char)(bits >> (pending -= 8));
    }
    return length;
}

static uint64_t next_number(const unsigned char **at) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        const unsigned char byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return value;
    }
}

static void spans_are_packed(void **state) {
    (void)state;
    struct aorta_page_lanes lanes = {0};
    size_t lane;
    uint32_t first, second, again;
    static const char kernel[] = "kernel <script>", forward[] = "forward";
    first = aorta_page_name(&lanes, kernel, NULL);
    second = aorta_page_name(&lanes, kernel, forward);
    again = aorta_page_name(&lanes, kernel, NULL);
    assert_int_equal(first, again);
    assert_int_not_equal(first, second);
    lane = aorta_page_lane_add(&lanes, 3, "stream 7", false);
    /* Out of order; the second is longer than 32 bits of nanoseconds. */
    aorta_page_span_add(&lanes, lane, (struct aorta_page_span){5000, 5000 + 9000000000, second, AORTA_PAGE_COPY});
    aorta_page_span_add(&lanes, lane, (struct aorta_page_span){1000, 1300, first, AORTA_PAGE_COMPUTE});
    json_t *root = written(&lanes, 10);
    json_t *row = json_array_get(json_object_get(root, "lanes"), 0);
    assert_int_equal(json_integer_value(json_object_get(root, "length_ns")), 4000 + 9000000000);
    assert_int_equal(json_integer_value(json_object_get(root, "thinned_ns")), 0);
    assert_int_equal(json_integer_value(json_object_get(row, "rank")), 3);
    assert_int_equal(json_integer_value(json_object_get(row, "count")), 2);
    unsigned char bytes[64] = {0};
    const unsigned char *at = bytes;
    const size_t length = from_base64(json_string_value(json_object_get(row, "spans")), bytes);
    const uint64_t expected[] = {0,    300,        (uint64_t)first << 4,
                                 4000, 9000000000, (uint64_t)second << 4 | AORTA_PAGE_COPY};
    for (size_t i = 0; i < 6; i++) assert_int_equal(next_number(&at), expected[i]);
    assert_int_equal(at - bytes, length);
    const json_t *names = json_object_get(root, "names");
    assert_string_equal(json_string_value(json_array_get(names, first - 1)), "kernel <script>");
    assert_string_equal(json_string_value(json_array_get(names, second - 1)), "kernel <script> forward");
    json_decref(root);
    aorta_page_lanes_free(&lanes);
}

/* A thousand spans of 1 us, 1 us apart, become few; a span far away stays alone and keeps its name. */
static void many_spans_are_thinned(void **state) {
    (void)state;
    struct aorta_page_lanes lanes = {0};
    size_t lane;
    uint32_t name;
    name = aorta_page_name(&lanes, "a", NULL);
    lane = aorta_page_lane_add(&lanes, 0, "stream", false);
    for (int64_t i = 0; i < 1000; i++)
        aorta_page_span_add(&lanes, lane, (struct aorta_page_span){2000 * i, 2000 * i + 1000, name, 0});
    aorta_page_span_add(&lanes, lane, (struct aorta_page_span){90000000, 90001000, name, 0});
    json_t *root = written(&lanes, 100);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(json_object_get(root, "lanes"), 0), "count")),
                     2);
    assert_int_equal(json_integer_value(json_object_get(root, "thinned_ns")), 2000);
    assert_int_equal(lanes.items[0].spans[0].end_ns, 1999000);
    assert_int_equal(lanes.items[0].spans[0].name, 0);
    assert_int_equal(lanes.items[0].spans[1].name, name);
    json_decref(root);
    aorta_page_lanes_free(&lanes);
}

/* ---- the page ---- */

static struct aorta_log silent(void) {
    return (struct aorta_log){.level = AORTA_LOG_ERROR, .rank = -1};
}

/* A label that would end the script element is text. The page is written next to summary.json. */
static void labels_are_text(void **state) {
    (void)state;
    struct workspace run = workspace_make(), out = workspace_make();
    for (int rank = 0; rank < 2; rank++) workspace_run(&run, rank, 2, 8, 10000000);
    const struct aorta_report_input input = {run.path, "</script><script>alert(1)</script>"};
    const struct aorta_report_options options = {.inputs = &input, .input_count = 1, .output = out.path, .warmup = -1};
    struct aorta_log log = silent();
    check_ok(aorta_report_make(&options, &log, NULL, NULL));
    assert_int_equal(workspace_has(&out, "index.html"), aorta_page_available());
    if (aorta_page_available()) {
        char *page = workspace_read(&out, "index.html");
        assert_null(strstr(page, "<script>alert"));
        assert_non_null(strstr(page, "&lt;/script>"));
        char *data = strstr(page, "id=\"data\">");
        assert_non_null(data);
        data = strchr(data, '>') + 1;
        *strstr(data, "</script>") = '\0';
        json_t *root = json_loads(data, 0, NULL);
        assert_non_null(root);
        json_t *shown = json_array_get(json_object_get(root, "recordings"), 0);
        assert_string_equal(json_string_value(json_object_get(shown, "label")), input.label);
        assert_int_equal(json_array_size(json_object_get(json_object_get(shown, "iterations"), "ranks")), 2);
        assert_int_equal(json_array_size(json_object_get(json_object_get(shown, "results"), "ranks")), 2);
        assert_int_equal(json_array_size(json_object_get(json_object_get(shown, "summary"), "ranks")), 2);
        assert_true(json_array_size(json_object_get(json_object_get(shown, "timeline"), "lanes")) >= 2);
        json_decref(root);
        free(page);
    }
    workspace_remove(&run);
    workspace_remove(&out);
}

/* ---- two runs ---- */

/* A run of 40 steps. */
struct side {
    int64_t step_ns;
    const char *config, *environment; /* NULL: there is no such file */
};

/* Returns the text that compares "b" with "a". `json`: NULL, or receives the summary. */
static struct aorta_text compared(const struct side sides[2], json_t **json) {
    struct workspace runs[2], out = workspace_make();
    for (int i = 0; i < 2; i++) {
        runs[i] = workspace_make();
        workspace_run(&runs[i], 0, 1, 40, sides[i].step_ns);
        if (sides[i].config) workspace_write(&runs[i], "config.json", sides[i].config);
        if (sides[i].environment) workspace_write(&runs[i], "environment.json", sides[i].environment);
    }
    const struct aorta_report_input inputs[] = {{runs[0].path, "a"}, {runs[1].path, "b"}};
    const struct aorta_report_options options = {
        .inputs = inputs, .input_count = 2, .output = out.path, .reference = "a", .candidate = "b", .warmup = -1};
    struct aorta_log log = silent();
    struct aorta_text text = {0}, summary = {0};
    check_ok(aorta_report_make(&options, &log, &text, json ? &summary : NULL));
    if (json) *json = json_loads(summary.data, 0, NULL);
    aorta_text_free(&summary);
    for (int i = 0; i < 2; i++) workspace_remove(&runs[i]);
    workspace_remove(&out);
    return text;
}

/* The page's data of these inputs; `text` NULL: or what the terminal says. */
static json_t *page_of(const struct aorta_report_options *options, const struct workspace *out,
                       struct aorta_text *text) {
    struct aorta_log log = silent();
    check_ok(aorta_report_make(options, &log, text, NULL));
    char *page = workspace_read(out, "index.html");
    char *data = strchr(strstr(page, "id=\"data\">"), '>') + 1;
    *strstr(data, "</script>") = '\0';
    json_t *root = json_loads(data, 0, NULL);
    assert_non_null(root);
    free(page);
    return root;
}

/* Listed first is the slow one, the reference second: terminal, summary and page say the same of the same two.
 *
 *      slow  |==========70==========|     slow against base: +40%, worse
 *      base  |=======50======|            (the page said -29%, better)
 */
static void the_page_has_the_reference(void **state) {
    (void)state;
    struct workspace slow = workspace_make(), base = workspace_make(), out = workspace_make();
    if (!aorta_page_available()) skip();
    workspace_run(&slow, 0, 1, 40, 30000000);
    workspace_run(&base, 0, 1, 40, 10000000);
    const struct aorta_report_input inputs[] = {{slow.path, "slow"}, {base.path, "base"}};
    const struct aorta_report_options options = {
        .inputs = inputs, .input_count = 2, .output = out.path, .reference = "base", .candidate = "slow", .warmup = -1};
    struct aorta_text said = {0};
    json_t *root = page_of(&options, &out, &said);
    json_t *pair = json_array_get(json_object_get(root, "comparisons"), 0);
    assert_int_equal(json_array_size(json_object_get(root, "comparisons")), 1);
    assert_string_equal(json_string_value(json_object_get(pair, "reference")), "base");
    assert_string_equal(json_string_value(json_object_get(pair, "candidate")), "slow");
    json_t *step = json_object_get(json_object_get(pair, "metrics"), "step_ms");
    assert_true(json_number_value(json_object_get(step, "delta_percent")) > 35);
    assert_string_equal(json_string_value(json_object_get(step, "change")), "worse");
    const char *sentence = json_string_value(json_object_get(pair, "step_change"));
    assert_int_equal(strncmp(sentence, "slow is slower than base: ", 26), 0);
    assert_non_null(strstr(said.data, sentence));
    assert_int_equal(strncmp(json_string_value(json_object_get(pair, "largest_change")), "step 50.0 -> 70.0 ms", 20),
                     0);
    aorta_text_free(&said);
    char *written = workspace_read(&out, "summary.json");
    json_t *summary = json_loads(written, 0, NULL);
    free(written);
    assert_true(json_equal(pair, json_object_get(summary, "comparison")));
    json_decref(summary);
    json_decref(root);
    workspace_remove(&slow);
    workspace_remove(&base);
    workspace_remove(&out);
}

/* The page of a run shows the same as that of a file: lanes named by role, exposed communication of steps, tables.
 *
 *      rank 0   host thread 0       |sync ...
 *               stream 0 (compute)  |======|
 *               ...                 ^ exposed where only a collective runs
 */
static void a_run_is_a_recording(void **state) {
    (void)state;
    struct workspace run = workspace_make(), out = workspace_make();
    if (!aorta_page_available()) skip();
    for (int rank = 0; rank < 2; rank++) workspace_run(&run, rank, 2, 8, 10000000);
    const struct aorta_report_input input = {run.path, "mine"};
    const struct aorta_report_options options = {.inputs = &input, .input_count = 1, .output = out.path, .warmup = -1};
    json_t *root = page_of(&options, &out, NULL);
    const json_t *one = json_array_get(json_object_get(root, "recordings"), 0);
    const json_t *lanes = json_object_get(json_object_get(one, "timeline"), "lanes");
    bool compute = false, exposed = false;
    for (size_t i = 0; i < json_array_size(lanes); i++) {
        const char *label = json_string_value(json_object_get(json_array_get(lanes, i), "label"));
        compute |= strncmp(label, "stream ", 7) == 0 && strstr(label, " (compute)");
        exposed |= strcmp(label, "exposed communication") == 0;
    }
    assert_true(compute);
    assert_true(exposed);
    assert_true(json_array_size(json_object_get(root, "tables")) > 10);
    const json_t *first = json_array_get(json_object_get(json_object_get(one, "results"), "ranks"), 0);
    assert_true(json_array_size(json_object_get(first, "collective_sizes")) > 0);
    json_decref(root);
    workspace_remove(&run);
    workspace_remove(&out);
}

/* Three runs have one label, two the other; they come in turns. */
static void repeats_have_one_label(void **state) {
    (void)state;
    struct workspace runs[5], out = workspace_make();
    struct aorta_report_input inputs[5];
    for (int i = 0; i < 5; i++) {
        runs[i] = workspace_make();
        workspace_run(&runs[i], 0, 1, 40, (i % 2 ? 30000000 : 10000000) + 10000 * i);
        inputs[i] = (struct aorta_report_input){runs[i].path, i % 2 ? "new" : "old"};
    }
    struct aorta_report_options options = {.inputs = inputs,
                                           .input_count = 5,
                                           .output = out.path,
                                           .reference = "old",
                                           .candidate = "new",
                                           .repeats = true,
                                           .warmup = -1};
    struct aorta_log log = silent();
    struct aorta_text text = {0}, json = {0};
    check_ok(aorta_report_make(&options, &log, &text, &json));
    assert_non_null(strstr(text.data, "mostly "));
    assert_non_null(strstr(text.data, "(3 repeats)"));
    assert_non_null(strstr(text.data, ", the first of 3 runs)"));
    json_t *root = json_loads(json.data, 0, NULL);
    assert_int_equal(json_object_size(json_object_get(root, "labels")), 5);
    assert_non_null(json_object_get(json_object_get(root, "labels"), "old (3)"));
    const json_t *pair = json_object_get(root, "comparison");
    assert_int_equal(json_integer_value(json_object_get(pair, "reference_runs")), 3);
    assert_int_equal(json_integer_value(json_object_get(pair, "candidate_runs")), 2);
    json_decref(root);
    options.repeats = false;
    check_fails(aorta_report_make(&options, &log, NULL, NULL), AORTA_USAGE, "name each with --label");
    options.repeats = true;
    inputs[2] = inputs[0];
    check_fails(aorta_report_make(&options, &log, NULL, NULL), AORTA_USAGE, "twice");
    for (int i = 0; i < 5; i++) workspace_remove(&runs[i]);
    workspace_remove(&out);
    aorta_text_free(&text);
    aorta_text_free(&json);
}

/* Settings that differ follow the headline; places of output and what only one side knows are no differences. */
static void what_differs_comes_first(void **state) {
    (void)state;
    static const struct side sides[] = {
        {10000000, "{\"fsdp\": {\"forward_prefetch\": true}, \"training\": {\"output_dir\": \"a\", \"batch_size\": 8}}",
         "{\"schema_version\": 1, \"host\": {\"name\": \"x\"}, \"software\": {\"driver\": \"12.6\"}}"},
        {10000000,
         "{\"fsdp\": {\"forward_prefetch\": false}, \"training\": {\"output_dir\": \"b\", \"batch_size\": 8}}",
         "{\"schema_version\": 1, \"host\": {\"name\": \"x\"}, \"software\": {\"driver\": \"13.0\"}, "
         "\"environment\": {\"NCCL_PROTO\": \"LL\", \"NCCL_TOPO_FILE\": "
         "\"/opt/topology/of/a/node/with/a/path/beyond/sixty/characters.xml\"}}"}};
    json_t *root;
    struct aorta_text text = compared(sides, &root);
    const char *found =
        strstr(text.data, "  different   fsdp.forward_prefetch is false, was true; software.driver is 13.0, was 12.6;\n"
                          "              NCCL_PROTO is LL, was not set; NCCL_TOPO_FILE is\n"
                          "              /opt/topology/of/a/node/with/a/path/beyond/sixty/characters…, was not set\n");
    assert_non_null(found);
    const json_t *pair = json_object_get(root, "comparison");
    assert_int_equal(json_array_size(json_object_get(pair, "differences")), 4);
    assert_string_equal(json_string_value(json_object_get(
                            json_object_get(json_object_get(json_object_get(root, "labels"), "b"), "environment"),
                            "environment.NCCL_PROTO")),
                        "LL");
    json_decref(root);
    aorta_text_free(&text);
}

static void the_largest_difference_is_named(void **state) {
    (void)state;
    static const struct side longer[] = {{.step_ns = 10000000}, {.step_ns = 30000000}};
    static const struct side equal[] = {{.step_ns = 10000000}, {.step_ns = 10000000}};
    struct aorta_text slower = compared(longer, NULL), same = compared(equal, NULL);
    assert_non_null(
        strstr(slower.data, "b is slower than a: step 50.0 -> 70.0 ms (+40%), mostly gemm 10.0 -> 30.0 ms "));
    assert_null(strstr(slower.data, "  largest "));
    assert_non_null(strstr(slower.data, "No run was repeated: equal runs are assumed to differ by "));
    assert_non_null(strstr(same.data, "  largest     no figure differs beyond the noise\n"));
    aorta_text_free(&slower);
    aorta_text_free(&same);
}

/* A step of twice the batch takes longer, which is neither worse nor better: samples a second compare. */
static void steps_of_other_work_are_not_worse(void **state) {
    (void)state;
    static const struct side sides[] = {{.step_ns = 10000000, .config = "{\"training\": {\"batch_size\": 8}}"},
                                        {.step_ns = 30000000, .config = "{\"training\": {\"batch_size\": 16}}"}};
    json_t *root;
    struct aorta_text text = compared(sides, &root);
    assert_non_null(strstr(text.data, "b is within the noise of a: throughput 100 -> 100 "));
    assert_non_null(strstr(text.data, "  work        another training.batch_size makes other work: step 50.0 -> 7"));
    const json_t *figures = json_object_get(json_object_get(root, "comparison"), "metrics");
    assert_string_equal(json_string_value(json_object_get(json_object_get(figures, "step_ms"), "change")), "longer");
    json_decref(root);
    aorta_text_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_packed),
        cmocka_unit_test(many_spans_are_thinned),
        cmocka_unit_test(labels_are_text),
        cmocka_unit_test(the_largest_difference_is_named),
        cmocka_unit_test(the_page_has_the_reference),
        cmocka_unit_test(a_run_is_a_recording),
        cmocka_unit_test(repeats_have_one_label),
        cmocka_unit_test(what_differs_comes_first),
        cmocka_unit_test(steps_of_other_work_are_not_worse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
