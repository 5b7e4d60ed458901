/* A merged file has the verdict of what was merged: of one file of any format, of a run of several profiler cycles, and
 * of ranks whose events another tool joined. */
#include "base/files.h"
#include "base/json_value.h"
#include "check.h"
#include "folder.h"
#include "report/merge.h"
#include "trace/nsys_database.h"
#include "trace/open.h"
#include "trace/ranks.h"
#include "verdict/verdict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[FOLDER_PATH];

static int make_folder(void **state) {
    (void)state;
    folder_make(folder, "merged");
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    return folder_remove(folder);
}

static void make_verdict(const char *path, struct aorta_verdict *verdict) {
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    check_ok(aorta_trace_open_inputs(&path, 1, NULL, &list));
    (void)aorta_trace_take_last_cycle(&list);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, verdict));
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

static void check_same(const struct aorta_verdict *merged, const struct aorta_verdict *own) {
    assert_int_equal(merged->finding_count, own->finding_count);
    assert_int_equal(merged->replay.known, own->replay.known);
    assert_true(fabs(merged->replay.unrecorded_ms - own->replay.unrecorded_ms) < 1e-6);
    for (size_t i = 0; i < own->finding_count; i++) {
        const struct aorta_finding *a = &merged->findings[i], *b = &own->findings[i];
        assert_int_equal(a->cause, b->cause);
        assert_int_equal(a->collective, b->collective);
        assert_true(fabs(a->cost_ms - b->cost_ms) < 1e-6);
        if (own->replay.known) assert_true(fabs(a->gain_ms - b->gain_ms) < 1e-6);
        assert_int_equal(a->rank, b->rank);
    }
}

static void check_merged(const char *path) {
    char output[FOLDER_PATH + 16];
    struct aorta_text report = {0};
    struct aorta_verdict own, merged;
    snprintf(output, sizeof output, "%s/merged.json", folder);
    check_ok(aorta_trace_merge(&path, 1, output, NULL, NULL, false, &report));
    aorta_text_free(&report);
    make_verdict(path, &own);
    make_verdict(output, &merged);
    check_same(&merged, &own);
    aorta_verdict_free(&own);
    aorta_verdict_free(&merged);
    unlink(output);
}

static void one_file_has_its_own_verdict(void **state) {
    (void)state;
    static const char *const files[] = {"mi250_minitoy.json",      "mi300_resnet.json",    "jax.trace.json",
                                        "jax.xplane.pb",           "rocprof_results.json", "rocprof_4.db",
                                        "rocprof_kernel_trace.csv"};
    char path[512];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, RECORDED "/%s", files[i]);
        check_merged(path);
    }
    snprintf(path, sizeof path, "%s/a.sqlite", folder);
    make_nsys_database(path); /* its device, waits and a graph's kernels, too */
    run_statements(path, "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE globalPid >> 24 = 4712;"
                         "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) SELECT 990, 1050, 59, "
                         "'aten::mm, seq = 5, op_id = 7, sizes = [[64, 32], [32, 16]]', globalTid FROM NVTX_EVENTS "
                         "WHERE text = 'forward' LIMIT 1;");
    check_merged(path);
}

/* ---- cycles ---- */

/* Steps of 100 us, half of each idle in the first cycle, none in the second. */
static void write_cycle(const char *name, int first_step, int kernel_us) {
    char path[FOLDER_PATH + 32];
    struct aorta_text text = {0};
    aorta_text_puts(&text, "{\"distributedInfo\": {\"rank\": 0, \"world_size\": 1}, \"traceEvents\": [{}");
    for (int i = 0; i < 4; i++) {
        const int at = 1000 * first_step + 100 * i;
        aorta_text_printf(&text,
                          ",\n{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#%d\", \"pid\": 5, "
                          "\"tid\": 5, \"ts\": %d, \"dur\": 99}",
                          first_step + i, at);
        aorta_text_printf(&text,
                          ",\n{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 5, "
                          "\"tid\": 5, \"ts\": %d, \"dur\": 2, \"args\": {\"correlation\": %d}}",
                          at + 1, at);
        aorta_text_printf(&text,
                          ",\n{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm\", \"pid\": 0, \"tid\": 7, \"ts\": "
                          "%d, \"dur\": %d, \"args\": {\"device\": 0, \"stream\": 7, \"correlation\": %d}}",
                          at + 5, kernel_us, at);
    }
    aorta_text_puts(&text, "]}\n");
    snprintf(path, sizeof path, "%s/%s", folder, name);
    check_ok(aorta_file_replace(path, text.data, text.length));
    aorta_text_free(&text);
}

static void the_last_cycle_is_merged(void **state) {
    (void)state;
    char output[FOLDER_PATH + 16];
    struct aorta_text report = {0};
    struct aorta_verdict own, merged;
    write_cycle("trace_step2.json", 2, 50);
    write_cycle("trace_step20.json", 20, 90);
    make_verdict(folder, &own);
    snprintf(output, sizeof output, "%s.json", folder);
    check_ok(aorta_trace_merge(&(const char *){folder}, 1, output, NULL, NULL, false, &report));
    assert_non_null(strstr(report.data, "the last of 2 profiler cycles"));
    aorta_text_free(&report);
    make_verdict(output, &merged);
    check_same(&merged, &own);
    assert_true(fabs(merged.compute_ms - 0.09) < 1e-9);
    aorta_verdict_free(&own);
    aorta_verdict_free(&merged);
    unlink(output);
}

/* ---- joined by other tools ---- */

/* The bytes with `to` in place of `from`, which has its length. */
static void replace_all(char *bytes, size_t length, const char *from, const char *to) {
    for (char *at = bytes; (at = memmem(at, length - (size_t)(at - bytes), from, strlen(from))); at++)
        memcpy(at, to, strlen(to));
}

/* Copies a rank's file into the folder, and its events into the text, as if it was of process 593 or of device 0. */
static void take_rank(int rank, bool same_process, bool same_device, struct aorta_text *events) {
    char path[512], *bytes;
    size_t length;
    snprintf(path, sizeof path, RECORDED "/fsdp2_rank%d.json", rank);
    check_ok(aorta_file_read(path, &bytes, &length));
    snprintf(path, sizeof path, "%s/rank%d.json", folder, rank);
    check_ok(aorta_file_replace(path, bytes, length));
    if (same_process) replace_all(bytes, length, "\"pid\": 594", "\"pid\": 593");
    if (same_device) replace_all(bytes, length, "\"device\": 1", "\"device\": 0");
    const size_t begin = strspn(bytes, " \n");
    const struct aorta_json_value list =
        aorta_json_find((struct aorta_json_value){bytes + begin, length - begin}, "traceEvents");
    assert_true(list.length > 2);
    aorta_text_printf(events, "%s%.*s,\n{\"ph\": \"i\", \"name\": \"Record Window End\", \"pid\": \"\"}",
                      rank ? ",\n" : "", (int)list.length - 2, list.text + 1);
    free(bytes);
}

static void joined_ranks_have_the_verdict_of_their_files(void **state) {
    (void)state;
    char output[FOLDER_PATH + 16];
    snprintf(output, sizeof output, "%s.json", folder);
    for (int way = 0; way < 4; way++) {
        struct aorta_text text = {0};
        struct aorta_verdict own, joined;
        aorta_text_puts(
            &text, "{\"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA H200\", \"numSms\": 132, \"computeMajor\": "
                   "9, \"computeMinor\": 0, \"totalGlobalMem\": 150109880320}, {\"id\": 1, \"name\": \"NVIDIA H200\", "
                   "\"numSms\": 132, \"computeMajor\": 9, \"computeMinor\": 0, \"totalGlobalMem\": 150109880320}],\n"
                   "\"baseTimeNanoseconds\": 1790857026000000000, \"traceEvents\": [");
        for (int rank = 0; rank < 2; rank++) take_rank(rank, way & 1, way & 2, &text);
        aorta_text_puts(&text, "]}\n");
        check_ok(aorta_file_replace(output, text.data, text.length));
        aorta_text_free(&text);
        make_verdict(folder, &own);
        make_verdict(output, &joined);
        assert_int_equal(joined.rank_count, 2);
        assert_true(joined.finding_count > 1);
        check_same(&joined, &own);
        aorta_verdict_free(&own);
        aorta_verdict_free(&joined);
        unlink(output);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_file_has_its_own_verdict, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(the_last_cycle_is_merged, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(joined_ranks_have_the_verdict_of_their_files, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
