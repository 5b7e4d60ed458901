/* summary.json says how near a run's operations come to its device's peaks. */
#include "check.h"
#include "report/report.h"
#include "workspace.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#define PRODUCT(start, end)                                                                                            \
    "{\"stream\": \"compute\", \"tag\": \"linear1\", \"start_ms\": " start ", \"end_ms\": " end                        \
    ", \"metadata\": {\"function\": \"linear_forward\", \"kind\": \"compute\", \"flops\": 1e9, \"dtype\": \"bf16\", "  \
    "\"bytes\": 3000000}}"

/* Products of 1e9 flops, one in 2 ms and one in 1 ms; between two steps lie no gaps. */
static void write_run(const struct workspace *workspace, const char *device) {
    struct aorta_text lines = {0};
    for (int i = 0; i < 4; i++)
        aorta_text_printf(&lines,
                          "{\"schema_version\": 1, \"rank\": 0, \"world_size\": 1, \"epoch\": 0, \"step\": %d, "
                          "\"global_step\": %d, \"device\": \"cpu\"%s, \"profile\": {\"origin_ns\": %d, \"ranges\": "
                          "[" PRODUCT("0", "2") ", " PRODUCT("2", "3") "]}}\n",
                          i, i, i ? "" : device, 3000000 * i);
    workspace_write(workspace, "rank_00_metrics.jsonl", lines.data);
    aorta_text_free(&lines);
}

static json_t *report(const struct workspace *run) {
    const struct aorta_report_input input = {run->path, "run"};
    const struct aorta_report_options options = {.inputs = &input, .input_count = 1, .output = run->path, .warmup = 0};
    const struct aorta_log log = {.level = AORTA_LOG_ERROR, .rank = -1};
    struct aorta_text text = {0};
    check_ok(aorta_report_make(&options, &log, &text, NULL));
    aorta_text_free(&text);
    char *summary = workspace_read(run, "summary.json");
    json_error_t error;
    json_t *root = json_loads(summary, 0, &error);
    free(summary);
    assert_non_null(root);
    return root;
}

static const json_t *roofline_of(const json_t *root) {
    const json_t *label = json_object_get(json_object_get(root, "labels"), "run");
    const json_t *roofline = json_object_get(json_array_get(json_object_get(label, "ranks"), 0), "roofline");
    assert_true(json_is_object(roofline));
    return roofline;
}

static void near(const json_t *object, const char *key, double expected) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value) || !(fabs(json_number_value(value) - expected) <= 1e-6 * fabs(expected)))
        fail_msg("%s: %g, expected %g", key, json_number_value(value), expected);
}

static void check(const char *device, double peak_tflops, const char *reason) {
    struct workspace run = workspace_make();
    write_run(&run, device);
    json_t *root = report(&run);
    const json_t *roofline = roofline_of(root), *peaks = json_object_get(roofline, "peaks");
    const json_t *gemm = json_object_get(json_object_get(roofline, "classes"), "gemm");
    near(gemm, "kernels", 2);
    near(gemm, "ms", 3);
    near(gemm, "tflops", 2e9 / 3e6 / 1e3);
    if (reason) {
        assert_true(json_is_null(peaks) && json_is_null(json_object_get(gemm, "share_of_peak")));
        assert_non_null(strstr(json_string_value(json_object_get(roofline, "peaks_reason")), reason));
    } else {
        near(json_object_get(peaks, "tflops"), "bf16", peak_tflops);
        near(gemm, "share_of_peak", 2e9 / 3e6 / 1e3 / peak_tflops);
        near(roofline, "mfu", 2e9 / 3e6 / 1e3 / peak_tflops);
        assert_string_equal(json_string_value(json_object_get(gemm, "bound")), "arithmetic");
    }
    json_decref(root);
    workspace_remove(&run);
}

/* The CPU's peaks were measured; where the run was faster (1e9 flops in 1 ms are 1 TFLOP/s), that is the peak. */
static void measured_peaks(void **state) {
    (void)state;
    check(
        ", \"device_info\": {\"name\": \"box\", \"measured_peaks\": {\"tflops\": {\"bf16\": 4}, \"gbytes_per_s\": 200, "
        "\"cost_ms\": 60}}",
        4, NULL);
    check(", \"device_info\": {\"name\": \"box\", \"measured_peaks\": {\"tflops\": {\"bf16\": 0.25}, \"gbytes_per_s\": "
          "200, \"cost_ms\": 60}}",
          1, NULL);
}

static void peaks_of_the_table(void **state) {
    (void)state;
    check(", \"device_info\": {\"name\": \"NVIDIA H100 80GB HBM3\", \"isa\": \"sm_90\", \"multiprocessors\": 132, "
          "\"memory_bytes\": 85018279936}",
          989.4, NULL);
    check(", \"device_info\": {\"name\": \"AMD Radeon Graphics\", \"isa\": \"gfx942\", \"multiprocessors\": 304, "
          "\"memory_bytes\": 206141652992}",
          1307.4, NULL);
}

static void no_peaks(void **state) {
    (void)state;
    check(", \"device_info\": {\"name\": \"box\"}", NAN, "not in the table");
    check("", NAN, "does not name");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_peaks),
        cmocka_unit_test(peaks_of_the_table),
        cmocka_unit_test(no_peaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
