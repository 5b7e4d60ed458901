/* Fused and unfused work side by side: paired at the lowest operation or module that both have. Times in us.
 *
 *   base: RMSNorm_0 { aten::pow 4, aten::mul 6 }    aten::linear { aten::addmm 10 }                 aten::relu 2
 *   test: RMSNorm_1 { fused::rms_norm 5 }           aten::linear { aten::mm 7, aten::add 2 }        aten::gelu 3
 *
 * Linear, addmm and mm are one name (mm), below which the test has add. Relu and gelu have nothing in common. Kernels
 * follow each other without gaps. */
#include "check.h"
#include "report/trace_report.h"
#include "samples/dump.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct recording {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
};

static void frame(struct aorta_text *out, const char *category, const char *name, int start, int length) {
    aorta_text_printf(out, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":1,\"tid\":1,", category, name);
    aorta_text_printf(out, "\"ts\":%d,\"dur\":%d,\"args\":{}},\n", start, length);
}

static void operation(struct aorta_text *out, const char *name, int number, int start, int kernel, int *at) {
    frame(out, "cpu_op", name, start, 3);
    aorta_text_printf(out,
                      "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,"
                      "\"ts\":%d,\"dur\":1,\"args\":{\"correlation\":%d}},\n",
                      start + 1, number);
    aorta_text_printf(out,
                      "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"kernel_of_%s\",\"pid\":0,\"tid\":7,\"ts\":%d,"
                      "\"dur\":%d,\"args\":{\"device\":0,\"stream\":7,\"correlation\":%d}},\n",
                      name, *at, kernel, number);
    *at += kernel;
}

static void record(bool fused, bool modules, struct recording *recording) {
    static const struct aorta_trace_options options = {.functions = true};
    struct aorta_text text = {0};
    int at = 1000;
    *recording = (struct recording){0};
    aorta_text_puts(&text, "{\"traceEvents\":[\n");
    if (modules) frame(&text, "python_function", fused ? "nn.Module: RMSNorm_1" : "nn.Module: RMSNorm_0", 0, 20);
    if (fused) {
        operation(&text, "fused::rms_norm", 1, 2, 5, &at);
    } else {
        operation(&text, "aten::pow", 1, 2, 4, &at);
        operation(&text, "aten::mul", 2, 8, 6, &at);
    }
    frame(&text, "cpu_op", "aten::linear", 30, 20);
    operation(&text, fused ? "aten::mm" : "aten::addmm", 3, 32, fused ? 7 : 10, &at);
    if (fused) operation(&text, "aten::add", 4, 40, 2, &at);
    operation(&text, fused ? "aten::gelu" : "aten::relu", 5, 60, fused ? 3 : 2, &at);
    text.length -= 2; /* the last comma */
    aorta_text_puts(&text, "\n]}\n");
    check_ok(aorta_text_check(&text));
    check_ok(read_with(text.data, text.length, 0, &options, &recording->list));
    check_ok(aorta_trace_analyze(&recording->list, NULL, &recording->analysis));
    aorta_text_free(&text);
}

struct compared {
    struct recording recordings[2];
    struct aorta_trace_compare_input inputs[2];
    struct aorta_trace_comparison comparison;
};

static void compare(bool modules, struct compared *c) {
    for (int i = 0; i < 2; i++) {
        static const char *const names[] = {"eager", "fused"};
        record(i == 1, modules, &c->recordings[i]);
        c->inputs[i] = (struct aorta_trace_compare_input){names[i], names[i], &c->recordings[i].analysis, false, NAN};
    }
    check_ok(aorta_trace_compare(c->inputs, 2, &c->comparison));
}

static void end(struct compared *c) {
    aorta_trace_comparison_free(&c->comparison);
    for (int i = 0; i < 2; i++) {
        aorta_trace_analysis_free(&c->recordings[i].analysis);
        aorta_trace_list_free(&c->recordings[i].list);
    }
}

/* us in base and test; what did the work, or NULL where both do it by the same. */
static const struct expected {
    const char *name;
    int base_us, test_us;
    const char *base, *test;
} with_modules[] = {{"RMSNorm (module)", 10, 5, "aten::mul, aten::pow", "fused::rms_norm"},
                    {"mm", 10, 9, "mm", "mm, aten::add"},
                    {"aten::relu", 2, 0, NULL, NULL},
                    {"aten::gelu", 0, 3, NULL, NULL}},
  without[] = {{"aten::pow", 4, 0, NULL, NULL},
               {"aten::mul", 6, 0, NULL, NULL},
               {"fused::rms_norm", 0, 5, NULL, NULL},
               {"mm", 10, 9, "mm", "mm, aten::add"},
               {"aten::relu", 2, 0, NULL, NULL}};

static const struct aorta_trace_compare_row *row_of(const struct compared *c, const char *name) {
    for (size_t i = 0; i < c->comparison.row_count; i++)
        if (c->comparison.rows[i].section == AORTA_SECTION_SUBTREE && !strcmp(c->comparison.rows[i].name, name))
            return &c->comparison.rows[i];
    fail_msg("no row %s", name);
    return NULL;
}

static void check_names(const struct aorta_trace_below *below, const char *names) {
    char joined[256] = "";
    for (size_t i = 0; i < below->count; i++) {
        if (i) strcat(joined, ", ");
        strcat(joined, below->names[i]);
    }
    assert_string_equal(joined, names);
}

static void check(const struct compared *c, const struct expected *rows, size_t count) {
    double sum[2] = {0};
    for (size_t i = 0; i < count; i++) {
        const struct aorta_trace_compare_row *row = row_of(c, rows[i].name);
        assert_float_equal(row->values[0].ms, rows[i].base_us / 1e3, 1e-9);
        assert_float_equal(row->values[1].ms, rows[i].test_us / 1e3, 1e-9);
        assert_int_equal(row->below != NULL, rows[i].base || rows[i].test);
        if (rows[i].base) check_names(&row->below[0], rows[i].base);
        if (rows[i].test) check_names(&row->below[1], rows[i].test);
    }
    for (size_t i = 0; i < c->comparison.row_count; i++)
        for (int side = 0; side < 2 && c->comparison.rows[i].section == AORTA_SECTION_SUBTREE; side++)
            sum[side] += c->comparison.rows[i].values[side].ms;
    assert_float_equal(sum[0], 0.022, 1e-9); /* rows add up to all work */
    assert_float_equal(sum[1], 0.017, 1e-9);
}

static void modules_pair_what_no_operation_does(void **state) {
    (void)state;
    struct compared c;
    compare(true, &c);
    check(&c, with_modules, sizeof with_modules / sizeof *with_modules);
    end(&c);
}

static void without_modules_operations_stand_alone(void **state) {
    (void)state;
    struct compared c;
    compare(false, &c);
    check(&c, without, sizeof without / sizeof *without);
    end(&c);
}

static void the_first_line_names_what_changed_most(void **state) {
    (void)state;
    struct compared c;
    struct aorta_differences none[2];
    struct aorta_text text = {0}, json = {0};
    memset(none, 0, sizeof none);
    compare(true, &c);
    assert_string_equal(c.comparison.sides[1].shorter->name, "RMSNorm (module)");
    aorta_trace_comparison_text(&c.comparison, none, NAN, false, &(struct aorta_verdict_style){0}, &text);
    assert_non_null(strstr(text.data, " ms (-23%), mostly RMSNorm (module) 0.0100 -> 0.0050 ms (-50%)\n"));
    assert_non_null(strstr(text.data, "        eager: aten::mul, aten::pow\n        fused: fused::rms_norm\n"));
    aorta_trace_comparison_json(&c.comparison, none, NAN, &json);
    json_t *root = json_loads(json.data, 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_array_size(json_object_get(root, "subtrees")), 4);
    json_decref(root);
    aorta_text_free(&json);
    aorta_text_free(&text);
    end(&c);
}

/* Nothing replaces these operations: each is a change of its own. */
static void what_nothing_replaces_stands_for_itself(void **state) {
    (void)state;
    struct compared c;
    compare(false, &c);
    assert_string_equal(c.comparison.sides[1].shorter->name, "aten::mul");
    end(&c);
}

static void labels_are_short_and_stay_apart(void **state) {
    (void)state;
    struct aorta_arena arena = {0};
    const char *const files[] = {"runs/a/h100.pt.trace.json.gz", "runs/b/mi300.json.zst"};
    const char *const alike[] = {"x/rank0.json", "x/rank0.json.gz"};
    const char **labels = aorta_trace_compare_labels(files, 2, &arena);
    assert_string_equal(labels[0], "a/h100");
    assert_string_equal(labels[1], "b/mi300");
    labels = aorta_trace_compare_labels(alike, 2, &arena);
    assert_string_equal(labels[0], "x/rank0.json");
    assert_string_equal(labels[1], "x/rank0.json.gz");
    aorta_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_pair_what_no_operation_does),
        cmocka_unit_test(without_modules_operations_stand_alone),
        cmocka_unit_test(the_first_line_names_what_changed_most),
        cmocka_unit_test(what_nothing_replaces_stands_for_itself),
        cmocka_unit_test(labels_are_short_and_stay_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
