/* An execution trace beside a trace without shapes:
 *
 *   trace.json   aten::mm, record function 5, launches sgemm; aten::relu, 6, launches relu_kernel; process 42
 *   et.json      of process 42: node of 5 with [[8, 4], [4, 2]], of 6 with [[8, 2]] but another name */
#include "base/files.h"
#include "check.h"
#include "folder.h"
#include "report/merge.h"
#include "trace/open.h"

static const char trace[] =
    "{\"traceEvents\":["
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":42,\"tid\":1,\"ts\":10,\"dur\":9,\"args\":{"
    "\"External id\":1,"
    "\"Record function id\":5}},"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::relu\",\"pid\":42,\"tid\":1,\"ts\":20,\"dur\":9,\"args\":{"
    "\"External id\":2,"
    "\"Record function id\":6}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":42,\"tid\":1,\"ts\":12,\"dur\":1,"
    "\"args\":{\"correlation\":1,\"External id\":1}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":42,\"tid\":1,\"ts\":22,\"dur\":1,"
    "\"args\":{\"correlation\":2,\"External id\":2}},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"sgemm\",\"pid\":0,\"tid\":7,\"ts\":30,\"dur\":5,"
    "\"args\":{\"device\":0,\"stream\":7,\"correlation\":1,\"External id\":1}},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"relu_kernel\",\"pid\":0,\"tid\":7,\"ts\":40,\"dur\":5,"
    "\"args\":{\"device\":0,\"stream\":7,\"correlation\":2,\"External id\":2}}]}";

/* Schema 1.1.1, as PyTorch 2.3 and later write it; and 1.0.1. */
#define HEAD "{\"schema\": \"%s\", \"pid\": %d, \"time\": \"2026-01-01 00:00:00\", \"start_ts\": 1,\n  \"nodes\": [\n"
static const char now[] = HEAD
    "{\"id\": 3, \"name\": \"aten::mm\", \"ctrl_deps\": 2, \"inputs\": {\"values\": [[1,2,0,32,4,\"cuda:0\"],"
    "[4,5,0,8,4,\"cuda:0\"]], \"shapes\": [[8, 4],[4, 2]], \"types\": [\"Tensor(float)\",\"Tensor(float)\"], "
    "\"strides\": [[4, 1],[2, 1]]}, \"attrs\": [{\"name\": \"rf_id\", \"type\": \"uint64\", \"value\": 5}]},\n"
    "{\"id\": 4, \"name\": \"aten::gelu\", \"inputs\": {\"values\": [[1,2,0,16,4,\"cuda:0\"]], \"shapes\": [[8, 2]], "
    "\"types\": [\"Tensor(float)\"]}, \"attrs\": [{\"name\": \"rf_id\", \"type\": \"uint64\", \"value\": 6}]}],\n"
    "\"finish_ts\": 9}";
static const char before[] =
    HEAD "{\"name\": \"aten::mm\", \"id\": 3, \"rf_id\": 5, \"parent\": 2, \"inputs\": [[1,2,0,32,4,\"cuda:0\"],"
         "[4,5,0,8,4,\"cuda:0\"]], \"input_shapes\": [[8, 4],[4, 2]], \"input_types\": "
         "[\"Tensor(float)\",\"Tensor(float)\"]}]}";

struct both {
    char folder[FOLDER_PATH], trace[64], executed[64];
};

static void write_both(struct both *both, const char *format, const char *schema, int process) {
    struct aorta_text text = {0};
    folder_make(both->folder, "executed");
    snprintf(both->trace, sizeof both->trace, "%s/trace.json", both->folder);
    snprintf(both->executed, sizeof both->executed, "%s/et.json", both->folder);
    check_ok(aorta_file_replace(both->trace, trace, sizeof trace - 1));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    aorta_text_printf(&text, format, schema, process);
#pragma GCC diagnostic pop
    check_ok(aorta_file_replace(both->executed, text.data, text.length));
    aorta_text_free(&text);
}

/* But for spaces. */
static void check_text(const char *text, const char *expected) {
    while (*text || *expected) {
        while (*text == ' ') text++;
        while (*expected == ' ') expected++;
        if (*text != *expected) fail_msg("%s, not %s", text, expected);
        text += *text != 0;
        expected += *expected != 0;
    }
}

static void check_shapes(const struct aorta_trace_list *list) {
    assert_int_equal(list->count, 1);
    const struct aorta_trace *read = list->items[0];
    assert_int_not_equal(read->work[0].shape, AORTA_TRACE_NONE);
    const struct aorta_trace_shape *shape = &read->shapes[read->work[0].shape];
    check_text(aorta_trace_text(read, shape->dims), "[[8, 4],[4, 2]]");
    check_text(aorta_trace_text(read, shape->types), "[\"float\", \"float\"]");
    assert_int_equal(shape->product.m, 8);
    assert_int_equal(shape->product.n, 2);
    assert_int_equal(shape->product.k, 4);
    assert_int_equal(read->work[1].shape, AORTA_TRACE_NONE); /* another operation has that number */
}

/* Both files named, or their folder. */
static void shapes_come_from_it(void **state) {
    (void)state;
    const char *const formats[][2] = {{now, "1.1.1-chakra.0.0.4"}, {before, "1.0.1"}};
    for (size_t i = 0; i < 2; i++) {
        struct both both;
        write_both(&both, formats[i][0], formats[i][1], 42);
        const char *const files[] = {both.executed, both.trace}, *const folder[] = {both.folder};
        struct aorta_trace_list list = {0};
        check_ok(aorta_trace_open_inputs(files, 2, NULL, &list));
        check_shapes(&list);
        aorta_trace_list_free(&list);
        check_ok(aorta_trace_open_inputs(folder, 1, NULL, &list));
        check_shapes(&list);
        aorta_trace_list_free(&list);
        assert_int_equal(folder_remove(both.folder), 0);
    }
}

static void merging_keeps_shapes(void **state) {
    (void)state;
    const char *const formats[][2] = {{now, "1.1.1-chakra.0.0.4"}, {before, "1.0.1"}};
    for (size_t i = 0; i < 2; i++) {
        struct both both;
        char merged[FOLDER_PATH + 16];
        struct aorta_text report = {0};
        struct aorta_trace_list list = {0};
        write_both(&both, formats[i][0], formats[i][1], 42);
        snprintf(merged, sizeof merged, "%s.json", both.folder);
        check_ok(aorta_trace_merge(&(const char *){both.folder}, 1, merged, NULL, NULL, false, &report));
        aorta_text_free(&report);
        check_ok(aorta_trace_open_inputs(&(const char *){merged}, 1, NULL, &list));
        check_shapes(&list);
        aorta_trace_list_free(&list);
        assert_int_equal(remove(merged), 0);
        assert_int_equal(folder_remove(both.folder), 0);
    }
}

/* Kineto before "Record function id": an operation's External id is one more than the number. */
static void old_files_have_it_by_external_id(void **state) {
    (void)state;
    static const char old[] =
        HEAD "{\"name\": \"aten::mm\", \"id\": 3, \"rf_id\": 0, \"parent\": 2, \"inputs\": [[1,2,0,32,4,\"cuda:0\"],"
             "[4,5,0,8,4,\"cuda:0\"]], \"input_shapes\": [[8, 4],[4, 2]], \"input_types\": "
             "[\"Tensor(float)\",\"Tensor(float)\"]}]}";
    struct both both;
    struct aorta_trace_list list = {0};
    struct aorta_text text = {0};
    write_both(&both, old, "1.0.1", 42);
    for (const char *at = trace, *id; *at; at = id) { /* without the numbers of record functions */
        static const char name[] = ",\"Record function id\":5";
        id = strstr(at, ",\"Record function id\"");
        aorta_text_append(&text, at, id ? (size_t)(id - at) : strlen(at));
        if (!id) break;
        id += sizeof name - 1;
    }
    check_ok(aorta_file_replace(both.trace, text.data, text.length));
    check_ok(aorta_trace_open_inputs(&(const char *){both.folder}, 1, NULL, &list));
    check_shapes(&list);
    aorta_trace_list_free(&list);
    aorta_text_free(&text);
    assert_int_equal(folder_remove(both.folder), 0);
}

static void what_does_not_belong_is_left_out(void **state) {
    (void)state;
    struct both both;
    struct aorta_trace_list list = {0};
    write_both(&both, now, "1.1.1-chakra.0.0.4", 43);
    const char *const files[] = {both.trace, both.executed};
    check_ok(aorta_trace_open_inputs(files, 2, NULL, &list));
    assert_int_equal(list.count, 1);
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_NO_PARTNER].count, 1);
    assert_string_equal(list.items[0]->warnings[AORTA_REASON_NO_PARTNER].about, both.executed);
    aorta_trace_list_free(&list);
    check_fails(aorta_trace_open_inputs(files + 1, 1, NULL, &list), AORTA_USAGE, "operations without times");
    aorta_trace_list_free(&list);
    assert_int_equal(folder_remove(both.folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_come_from_it),
        cmocka_unit_test(merging_keeps_shapes),
        cmocka_unit_test(old_files_have_it_by_external_id),
        cmocka_unit_test(what_does_not_belong_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
