/* A run's directory and traces are analysed by one path: what `aorta report` says of a run, `aorta trace analyze` says.
 *
 *     rank 0   compute|all_gather|    compute    |
 *     rank 1   compute|all_gather|    compute       |      12 steps, of which 3 are warm-up */
#include "check.h"
#include "report/recorded.h"
#include "report/report.h"
#include "report/trace_report.h"
#include "workspace.h"

#include <stdlib.h>

static const struct aorta_log quiet = {.level = AORTA_LOG_ERROR, .rank = -1};

static struct workspace two_ranks(void) {
    struct workspace run = workspace_make();
    workspace_run(&run, 0, 2, 12, 500000);
    workspace_run(&run, 1, 2, 12, 700000);
    return run;
}

static char *reported(const struct workspace *run) {
    const struct aorta_report_input input = {run->path, "run"};
    const struct aorta_report_options options = {.inputs = &input, .input_count = 1, .output = run->path, .warmup = -1};
    struct aorta_text text = {0};
    check_ok(aorta_report_make(&options, &quiet, &text, NULL));
    char *written = strstr(text.data, "Written:");
    assert_non_null(written);
    *written = '\0';
    return text.data;
}

static void both_say_the_same(void **state) {
    (void)state;
    struct workspace run = two_ranks();
    const char *const path = run.path;
    const struct aorta_trace_options reading = {0};
    struct aorta_recorded recorded;
    struct aorta_text text = {0};
    check_ok(aorta_recorded_open(&path, 1, &reading, NULL, &quiet, &recorded));
    check_ok(aorta_recorded_evaluate(&recorded));
    assert_int_equal(recorded.analysis->rank_count, 2);
    assert_int_equal(recorded.analysis->warmup, 3);
    assert_int_equal(recorded.analysis->ranks[1].window_count, 9);
    assert_int_equal(recorded.analysis->alignment.clocks[1].shift_ns, 0); /* one host, one clock */
    assert_true(recorded.analysis->alignment.shared_count >= 9);
    aorta_trace_report_text(&(struct aorta_trace_report){.analysis = recorded.analysis, .verdict = recorded.verdict}, 0,
                            &text);
    check_ok(aorta_text_check(&text));
    char *report = reported(&run);
    if (!strstr(text.data, report)) fail_msg("\"%s\"\nis not in\n\"%s\"", report, text.data);
    free(report);
    aorta_text_free(&text);
    aorta_recorded_free(&recorded);
    workspace_remove(&run);
}

/* Nothing of a run is chosen by ranges or patterns of names. */
static void options_of_traces_are_refused(void **state) {
    (void)state;
    struct workspace run = two_ranks();
    const char *const path = run.path;
    const struct aorta_trace_options recover = {.recover = true}, range = {.step_range = "step"};
    struct aorta_recorded recorded;
    check_fails(aorta_recorded_open(&path, 1, &recover, NULL, &quiet, &recorded), AORTA_USAGE, "--recover");
    aorta_recorded_free(&recorded);
    check_fails(aorta_recorded_open(&path, 1, &range, NULL, &quiet, &recorded), AORTA_USAGE, "--step-range");
    aorta_recorded_free(&recorded);
    workspace_remove(&run);
}

/* A chosen step may be one of those that are warm-up else; one that was not recorded is named. */
static void single_steps(void **state) {
    (void)state;
    struct workspace run = two_ranks();
    const char *const path = run.path;
    const int64_t second = 1, none = 99;
    const struct aorta_trace_options reading = {0};
    const struct aorta_trace_analysis_options one = {.steps = &second, .step_count = 1, .warmup_given = true};
    const struct aorta_trace_analysis_options missing = {.steps = &none, .step_count = 1, .warmup_given = true};
    struct aorta_recorded recorded;
    check_ok(aorta_recorded_open(&path, 1, &reading, &one, &quiet, &recorded));
    assert_int_equal(recorded.analysis->ranks[0].window_count, 1);
    assert_int_equal(recorded.analysis->ranks[0].windows[0].number, 1);
    aorta_recorded_free(&recorded);
    check_fails(aorta_recorded_open(&path, 1, &reading, &missing, &quiet, &recorded), AORTA_USAGE, "99");
    aorta_recorded_free(&recorded);
    workspace_remove(&run);
}

/* Recording was off: there may be traces of a profiler. */
static void a_run_without_ranges(void **state) {
    (void)state;
    struct workspace run = workspace_make();
    const char *const path = run.path;
    const struct aorta_trace_options reading = {0};
    struct aorta_recorded recorded;
    workspace_write(&run, "rank_00_metrics.jsonl",
                    "{\"schema_version\": 1, \"rank\": 0, \"world_size\": 1, \"epoch\": 0, \"step\": 0, "
                    "\"global_step\": 0, \"device\": \"cpu\", \"profile\": null}\n");
    check_fails(aorta_recorded_open(&path, 1, &reading, NULL, &quiet, &recorded), AORTA_USAGE, "holds no ranges");
    aorta_recorded_free(&recorded);
    workspace_write(&run, "trace.json",
                    "{\"schemaVersion\": 1, \"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm\", "
                    "\"pid\": 0, \"tid\": 7, \"ts\": 10, \"dur\": 5, \"args\": {\"device\": 0, \"stream\": 7}}]}");
    check_ok(aorta_recorded_open(&path, 1, &reading, NULL, &quiet, &recorded));
    assert_false(recorded.is_run);
    assert_int_equal(recorded.analysis->ranks[0].work_count, 1);
    aorta_recorded_free(&recorded);
    workspace_remove(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_say_the_same),
        cmocka_unit_test(options_of_traces_are_refused),
        cmocka_unit_test(single_steps),
        cmocka_unit_test(a_run_without_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
