/* Graphs: captured in one file, launched in another. In us:
 *
 *   capture_8_FULL  [0                          50]     capture_16_FULL: the same from 100 on
 *   Net_0             [4                     44]
 *   capture            [5]                [45]          its begin and end
 *   aten::mm             [10 20]                        [8,4] x [4,4], in the other graph [16,4] x [4,4]
 *   aten::relu                    [25 35]
 *   launches              >12       >30   >40           sgemm, relu_kernel, a copy
 *
 *   execute_8_context_0(…)_generation_8(…)  [1000   1100]
 *   cudaGraphLaunch                            >1010     sgemm 5, relu_kernel 2, copy 1 */
#include "analysis/breakdown.h"
#include "base/files.h"
#include "check.h"
#include "folder.h"
#include "trace/open.h"

#include <stdlib.h>
#include <string.h>

enum { GRAPH = 77 };

static void event(struct aorta_text *out, const char *category, const char *name, double ts, double dur,
                  const char *args) {
    aorta_text_printf(out, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":1,\"tid\":1,\"ts\":%g,\"dur\":%g,",
                      category, name, ts, dur);
    aorta_text_printf(out, "\"args\":{%s}},\n", args);
}

static void captured(struct aorta_text *out, const char *call, double ts, int correlation, const char *kernel) {
    char args[96];
    snprintf(args, sizeof args, "\"correlation\":%d,\"External id\":%d%s%s%s", correlation, correlation,
             kernel ? ",\"kernel\":\"" : "", kernel ? kernel : "", kernel ? "\"" : "");
    event(out, "cuda_runtime", call, ts, 1, args);
}

/* `names`: as ROCm writes them. */
static void capture(struct aorta_text *out, int rows, double ts, bool names) {
    char text[160];
    const int correlation = 10 * rows;
    snprintf(text, sizeof text, "capture_%d_FULL", rows);
    event(out, "user_annotation", text, ts, 50, "");
    event(out, "python_function", "nn.Module: Net_0", ts + 4, 40, "");
    event(out, "cuda_runtime", "hipStreamBeginCapture", ts + 5, 1, "\"correlation\":1");
    snprintf(text, sizeof text, "\"External id\":%d,\"Input Dims\":[[%d,4],[4,4]],\"Input type\":[\"float\",\"float\"]",
             correlation, rows);
    event(out, "cpu_op", "aten::mm", ts + 10, 10, text);
    captured(out, "hipLaunchKernel", ts + 12, correlation, names ? "sgemm" : NULL);
    snprintf(text, sizeof text, "\"External id\":%d,\"Input Dims\":[[%d,4]],\"Input type\":[\"float\"]",
             correlation + 1, rows);
    event(out, "cpu_op", "aten::relu", ts + 25, 10, text);
    captured(out, "hipLaunchKernel", ts + 30, correlation + 1, names ? "relu_kernel" : NULL);
    captured(out, "hipMemcpyAsync", ts + 40, correlation + 2, NULL);
    event(out, "cuda_runtime", "hipStreamEndCapture", ts + 45, 1, "\"correlation\":2");
}

static void work(struct aorta_text *out, const char *category, const char *name, double ts, double dur, int stream) {
    char args[96];
    snprintf(args, sizeof args, "\"device\":0,\"stream\":%d,\"correlation\":%d", stream, GRAPH);
    event(out, category, name, ts, dur, args);
}

/* `kernels`: the first and the second of the graph; `stream` of the second. */
static void execution(struct aorta_text *out, const char *range, const char *const kernels[2], int stream) {
    char args[32];
    snprintf(args, sizeof args, "\"correlation\":%d", GRAPH);
    event(out, "user_annotation", range, 1000, 100, "");
    event(out, "cpu_op", "aten::empty", 1001, 1, "");
    event(out, "cuda_runtime", "hipGraphLaunch", 1010, 20, args);
    work(out, "kernel", kernels[0], 1040, 5, 7);
    work(out, "kernel", kernels[1], 1045, 2, stream);
    work(out, "gpu_memcpy", "Memcpy DtoD", 1050, 1, 7);
}

static void write_file(const char *folder, const char *name, const struct aorta_text *events) {
    char path[96];
    struct aorta_text out = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    aorta_text_printf(&out, "{\"distributedInfo\":{\"rank\":0},\"traceEvents\":[\n%.*s\n]}\n", (int)events->length - 2,
                      events->data);
    check_ok(aorta_file_replace(path, out.data, out.length));
    aorta_text_free(&out);
}

/* What a folder holds, and what is made of it. */
struct scene {
    struct aorta_text capture, execution;
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
};

static void read_as(struct scene *scene, bool to_align) {
    const struct aorta_trace_options options = {.functions = true, .to_align = to_align};
    char folder[FOLDER_PATH];
    folder_make(folder, "captures");
    if (scene->capture.length) write_file(folder, "capture.json", &scene->capture);
    write_file(folder, "execution.json", &scene->execution);
    const char *paths[] = {folder};
    check_ok(aorta_trace_open_inputs(paths, 1, &options, &scene->list));
    assert_int_equal(folder_remove(folder), 0);
    assert_int_equal(scene->list.count, 1);
}

static void read_scene(struct scene *scene) {
    read_as(scene, false);
    check_ok(aorta_trace_analyze(&scene->list, NULL, &scene->analysis));
}

static void free_scene(struct scene *scene) {
    aorta_trace_analysis_free(&scene->analysis);
    aorta_trace_list_free(&scene->list);
    aorta_text_free(&scene->capture);
    aorta_text_free(&scene->execution);
}

static const char *const kernels[2] = {"sgemm", "relu_kernel"};
static const char decode[] = "execute_8_context_0(sq0)_generation_8(sq8)";

/* ns of the work that a row of the breakdown launched itself. */
static int64_t ns_of(const struct scene *scene, enum aorta_by by, const char *name, size_t runs) {
    struct aorta_arena arena = {0};
    struct aorta_breakdown breakdown;
    int64_t ns = -1;
    check_ok(aorta_breakdown_make(&scene->analysis.ranks[0], by, (struct aorta_breakdown_of){0}, &arena, &breakdown));
    for (size_t i = 0; i < breakdown.count; i++)
        if (breakdown.rows[i].name ? !strcmp(breakdown.rows[i].name, name) : !*name) {
            assert_int_equal(breakdown.rows[i].runs, runs);
            ns = breakdown.rows[i].ns;
        }
    check_ok(aorta_arena_check(&arena, "a test"));
    aorta_arena_free(&arena);
    return ns;
}

static const char *dims_of_first(const struct scene *scene) {
    const struct aorta_trace *trace = scene->list.items[0];
    return trace->work[0].shape == AORTA_TRACE_NONE ? ""
                                                    : aorta_trace_text(trace, trace->shapes[trace->work[0].shape].dims);
}

static void check_reason(const struct scene *scene, enum aorta_trace_reason reason) {
    static const enum aorta_trace_reason reasons[] = {AORTA_REASON_CAPTURED, AORTA_REASON_NO_CAPTURE,
                                                      AORTA_REASON_SEVERAL_CAPTURES};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        assert_int_equal(scene->list.items[0]->warnings[reasons[i]].count, reasons[i] == reason);
}

/* Operations, shapes, modules and the phase, by the graph that was captured for eight rows. */
static void launches_have_what_the_capture_says(void **state) {
    (void)state;
    struct scene scene = {0};
    capture(&scene.capture, 8, 0, true);
    capture(&scene.capture, 16, 100, true);
    execution(&scene.execution, decode, kernels, 7);
    read_scene(&scene);
    check_reason(&scene, AORTA_REASON_CAPTURED);
    assert_string_equal(dims_of_first(&scene), "[[8,4],[4,4]]");
    assert_int_equal(ns_of(&scene, AORTA_BY_OPERATION, "aten::mm", 1), 5000);
    assert_int_equal(ns_of(&scene, AORTA_BY_OPERATION, "aten::relu", 1), 2000);
    assert_int_equal(ns_of(&scene, AORTA_BY_OPERATION, "", 0), 1000); /* the copy */
    assert_int_equal(ns_of(&scene, AORTA_BY_MODULE, "Net_0", 1), 8000);
    assert_int_equal(ns_of(&scene, AORTA_BY_PHASE, "decode", 0), 8000);
    free_scene(&scene);
}

/* Two launches are two runs of each operation; kernels may run in another order than they were captured in. */
static void each_launch_is_a_run(void **state) {
    (void)state;
    static const char *const turned[2] = {"relu_kernel", "sgemm"};
    struct scene scene = {0};
    capture(&scene.capture, 8, 0, true);
    execution(&scene.execution, decode, turned, 8);
    event(&scene.execution, "cuda_runtime", "hipGraphLaunch", 1060, 20, "\"correlation\":78");
    event(&scene.execution, "kernel", "sgemm", 1070, 5, "\"device\":0,\"stream\":7,\"correlation\":78");
    event(&scene.execution, "kernel", "relu_kernel", 1075, 2, "\"device\":0,\"stream\":7,\"correlation\":78");
    event(&scene.execution, "gpu_memcpy", "Memcpy DtoD", 1080, 1, "\"device\":0,\"stream\":7,\"correlation\":78");
    read_scene(&scene);
    assert_int_equal(scene.list.items[0]->warnings[AORTA_REASON_CAPTURED].count, 2);
    assert_int_equal(ns_of(&scene, AORTA_BY_OPERATION, "aten::mm", 2), 7000);
    assert_int_equal(ns_of(&scene, AORTA_BY_OPERATION, "aten::relu", 2), 7000);
    free_scene(&scene);
}

static void what_is_not_known_is_said(void **state) {
    (void)state;
    static const char *const others[2] = {"sgemm", "gelu_kernel"};
    struct scene scene = {0};
    capture(&scene.capture, 8, 0, true);
    capture(&scene.capture, 16, 100, true);
    execution(&scene.execution, "execute_12_context_0(sq0)_generation_12(sq12)", kernels, 7);
    read_scene(&scene);
    check_reason(&scene, AORTA_REASON_SEVERAL_CAPTURES);
    assert_string_equal(dims_of_first(&scene), "");
    free_scene(&scene);
    scene = (struct scene){0};
    capture(&scene.capture, 8, 0, true);
    execution(&scene.execution, decode, others, 7);
    read_scene(&scene);
    check_reason(&scene, AORTA_REASON_NO_CAPTURE);
    free_scene(&scene);
}

/* CUDA's launches do not name their kernels: order and classes decide, on one stream. */
static void names_can_be_missing(void **state) {
    (void)state;
    static const char *const turned[2] = {"relu_kernel", "sgemm"};
    const struct {
        const char *const *kernels;
        int stream;
        enum aorta_trace_reason reason;
    } rows[] = {{kernels, 7, AORTA_REASON_CAPTURED},
                {kernels, 8, AORTA_REASON_NO_CAPTURE},
                {turned, 7, AORTA_REASON_NO_CAPTURE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scene scene = {0};
        capture(&scene.capture, 8, 0, false);
        execution(&scene.execution, decode, rows[i].kernels, rows[i].stream);
        read_scene(&scene);
        check_reason(&scene, rows[i].reason);
        assert_string_equal(dims_of_first(&scene), i ? "" : "[[8,4],[4,4]]");
        free_scene(&scene);
    }
}

/* A program that captures while it is recorded. */
static void one_file_can_have_both(void **state) {
    (void)state;
    struct scene scene = {0};
    capture(&scene.execution, 8, 0, true);
    execution(&scene.execution, decode, kernels, 7);
    read_scene(&scene);
    check_reason(&scene, AORTA_REASON_CAPTURED);
    assert_int_equal(ns_of(&scene, AORTA_BY_OPERATION, "aten::mm", 1), 5000);
    assert_int_equal(ns_of(&scene, AORTA_BY_MODULE, "Net_0", 1), 8000);
    free_scene(&scene);
}

/* What aligns clocks, for merging, has the launches alone. */
static void captures_are_not_merged(void **state) {
    (void)state;
    struct scene scene = {0};
    capture(&scene.capture, 8, 0, true);
    execution(&scene.execution, decode, kernels, 7);
    read_as(&scene, true);
    assert_int_equal(scene.list.items[0]->work_count, 3);
    free_scene(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_have_what_the_capture_says),
        cmocka_unit_test(each_launch_is_a_run),
        cmocka_unit_test(what_is_not_known_is_said),
        cmocka_unit_test(names_can_be_missing),
        cmocka_unit_test(one_file_can_have_both),
        cmocka_unit_test(captures_are_not_merged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
