/* A program without a device. One step, in us; operations of two threads:
 *
 *   ProfilerStep#3     [0                                         100]
 *   forward  thread 1    [10                     50]                      aten::linear 40, of it 25 within
 *                           [15        40]                                aten::addmm  25, of it 5 within
 *                                [20 25]                                  aten::empty   5
 *            range                                 load [60  90]
 *                                                        [70 80]          aten::copy_  10
 *   backward thread 2                                       [75 95]       AddmmBackward0, the gradient of addmm */
#include "analysis/breakdown.h"
#include "base/files.h"
#include "folder.h"
#include "report/trace_report.h"
#include "said.h"
#include "samples/kineto.h"
#include "trace/open.h"
#include "verdict/verdict.h"

static const struct event {
    const char *category, *name;
    int thread, start_us, length_us;
    const char *args;
} events[] = {
    {"user_annotation", "ProfilerStep#3", 1, 0, 100, ""},
    {"python_function", "nn.Module: Linear_0", 1, 5, 50, ""},
    {"cpu_op", "aten::linear", 1, 10, 40, "\"Sequence number\":7"},
    {"cpu_op", "aten::addmm", 1, 15, 25, "\"Sequence number\":7,\"Input Dims\":[[4,8]],\"Input type\":[\"float\"]"},
    {"cpu_op", "aten::empty", 1, 20, 5, ""},
    {"user_annotation", "load", 1, 60, 30, ""},
    {"cpu_op", "aten::copy_", 1, 70, 10, ""},
    {"cpu_op", "AddmmBackward0", 2, 75, 20, "\"Sequence number\":7,\"Fwd thread id\":1"},
};

static void write_trace(const char *path) {
    struct aorta_text text = {0};
    aorta_text_puts(&text, "{\"traceEvents\":[{}");
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        aorta_text_printf(&text,
                          ",{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":1,\"tid\":%d,\"ts\":%d,"
                          "\"dur\":%d,\"args\":{%s}}",
                          events[i].category, events[i].name, events[i].thread, events[i].start_us, events[i].length_us,
                          events[i].args);
    aorta_text_puts(&text, "]}");
    check_ok(aorta_file_put(path, &text));
    aorta_text_free(&text);
}

struct scene {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
};

static void read_scene(struct scene *scene) {
    const struct aorta_trace_options options = {.functions = true};
    char folder[FOLDER_PATH], path[64];
    folder_make(folder, "host");
    snprintf(path, sizeof path, "%s/host.json", folder);
    write_trace(path);
    const char *const paths[] = {path};
    *scene = (struct scene){0};
    check_ok(aorta_trace_open_inputs(paths, 1, &options, &scene->list));
    check_ok(aorta_trace_analyze(&scene->list, NULL, &scene->analysis));
    assert_int_equal(folder_remove(folder), 0);
}

static void free_scene(struct scene *scene) {
    aorta_trace_analysis_free(&scene->analysis);
    aorta_trace_list_free(&scene->list);
}

static void check_row(const struct scene *scene, enum aorta_by by, const char *name, int64_t own_us,
                      int64_t within_us) {
    struct aorta_arena arena = {0};
    struct aorta_breakdown breakdown;
    bool found = false;
    check_ok(aorta_breakdown_make(&scene->analysis.ranks[0], by, (struct aorta_breakdown_of){0}, &arena, &breakdown));
    for (size_t i = 0; i < breakdown.count; i++) {
        if (!breakdown.rows[i].name || strcmp(breakdown.rows[i].name, name) != 0) continue;
        assert_int_equal(breakdown.rows[i].ns, 1000 * own_us);
        assert_int_equal(breakdown.rows[i].ns_within, 1000 * within_us);
        found = true;
    }
    assert_true(found);
    check_ok(aorta_arena_check(&arena, "a test"));
    aorta_arena_free(&arena);
}

static void operations_have_their_own_time(void **state) {
    (void)state;
    struct scene scene;
    read_scene(&scene);
    check_row(&scene, AORTA_BY_OPERATION, "aten::linear", 15, 40);
    check_row(&scene, AORTA_BY_OPERATION, "aten::addmm", 20, 25);
    check_row(&scene, AORTA_BY_OPERATION, "aten::empty", 5, 5);
    check_row(&scene, AORTA_BY_ANNOTATION, "load", 10, 10);
    check_row(&scene, AORTA_BY_MODULE, "Linear_0", 60, 60); /* the gradient's 20 too */
    check_row(&scene, AORTA_BY_PHASE, "backward", 20, 20);
    check_row(&scene, AORTA_BY_PHASE, "forward", 50, 50);
    free_scene(&scene);
}

/* Threads are streams; time in which no operation ran is idle. */
static void figures_are_of_the_threads(void **state) {
    (void)state;
    struct scene scene;
    read_scene(&scene);
    const struct aorta_trace_rank *rank = &scene.analysis.ranks[0];
    assert_true(rank->trace->host_only);
    assert_int_equal(rank->stream_count, 2);
    assert_int_equal(rank->figures.busy_ns, 65000); /* 10 to 50, 70 to 95 */
    assert_int_equal(rank->figures.span_ns, 85000);
    assert_true(scene.analysis.stepped);
    free_scene(&scene);
}

static void the_text_says_so(void **state) {
    (void)state;
    struct scene scene;
    struct aorta_verdict verdict;
    struct aorta_text text = {0};
    read_scene(&scene);
    said_make(&scene.analysis, &verdict);
    aorta_trace_report_text(&(struct aorta_trace_report){.analysis = &scene.analysis, .verdict = &verdict}, NULL,
                            &text);
    said_expect(text.data, "device   no work of it is recorded: the tables show operations of the host");
    said_expect(text.data, "Verdict: no GPU in the recording: operations of the host take 76% of the step\n");
    said_near(verdict.idle_ms / verdict.step_ms_mean, 0.235, 0.01);
    assert_null(strstr(text.data, "  fix "));
    aorta_text_free(&text);
    aorta_verdict_free(&verdict);
    free_scene(&scene);
}

/* An H200 is listed, and products in fp32 of 12 ms run on the host. What an H200 would gain in 16 bits is no gain here.
 */
static void nothing_is_gained_without_a_device(void **state) {
    (void)state;
    enum { PRODUCTS = 20 };
    struct sample_kineto sample;
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < PRODUCTS; i++)
        sample_kineto_event(&sample, "cpu_op", i % 3 ? "aten::clamp_min" : "aten::mm", 1, 1000 + 12500 * i, 12000,
                            "\"Input Dims\": [[4096, 4096], [4096, 4096]], \"Input type\": [\"float\", \"float\"]");
    sample_kineto_open(&sample, &list);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    said_make(&analysis, &verdict);
    assert_true(verdict.host_only && !verdict.replay.known);
    for (size_t i = 0; i < verdict.finding_count; i++) assert_false(aorta_finding_gains(&verdict.findings[i]));
    const char *text = said_text(&verdict);
    said_expect(text, "no GPU in the recording: operations of the host take 96% of the time\n");
    assert_null(strstr(text, "all fixes"));
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_have_their_own_time),
        cmocka_unit_test(figures_are_of_the_threads),
        cmocka_unit_test(the_text_says_so),
        cmocka_unit_test(nothing_is_gained_without_a_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
