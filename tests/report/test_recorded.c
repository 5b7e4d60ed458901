/* A run's directory and traces are analysed by one path: what `aorta report` says of a run, `aorta trace analyze` says.
 *
 *     rank 0   compute|all_gather|    compute    |
 *     rank 1   compute|all_gather|    compute       |      12 steps, of which 3 are warm-up */
#include "check.h"
#include "report/merge.h"
#include "report/report.h"
#include "report/summary.h"
#include "report/trace_report.h"
#include "workspace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    assert_int_equal(recorded.analysis.rank_count, 2);
    assert_int_equal(recorded.analysis.warmup, 3);
    assert_int_equal(recorded.analysis.ranks[1].window_count, 9);
    assert_int_equal(recorded.analysis.alignment.clocks[1].shift_ns, 0); /* one host, one clock */
    assert_true(recorded.analysis.alignment.shared_count >= 9);
    aorta_trace_report_text(&(struct aorta_trace_report){.analysis = &recorded.analysis, .verdict = &recorded.verdict},
                            0, &text);
    check_ok(aorta_text_check(&text));
    char *report = reported(&run);
    if (!strstr(text.data, report)) fail_msg("\"%s\"\nis not in\n\"%s\"", report, text.data);
    free(report);
    aorta_text_free(&text);
    aorta_recorded_free(&recorded);
    workspace_remove(&run);
}

/* What a host did during the run is a row of the verdict, and in the summary. With two hosts it names
 * the disturbed one. */
static void a_disturbed_machine(void **state) {
    (void)state;
    static const char *const lines[] = {
        "{\"schema_version\": 1, \"host\": \"quiet\", \"processors\": 2, \"at_ns\": 1, \"processor_s\": 0, \"idle_s\": "
        "0, "
        "\"stolen_s\": 0, \"own_s\": 0}\n{\"schema_version\": 1, \"at_ns\": 5000000001, \"processor_s\": 10, "
        "\"idle_s\": 5, \"stolen_s\": 0, \"own_s\": 5}\n",
        "{\"schema_version\": 1, \"host\": \"busy\", \"processors\": 2, \"at_ns\": 1, \"processor_s\": 0, \"idle_s\": "
        "0, "
        "\"stolen_s\": 0, \"own_s\": 0}\n{\"schema_version\": 1, \"at_ns\": 5000000001, \"processor_s\": 10, "
        "\"idle_s\": 0, \"stolen_s\": 0.3, \"own_s\": 6}\n"};
    struct workspace run = two_ranks();
    char *before = reported(&run);
    assert_null(strstr(before, "disturbed"));
    for (int i = 0; i < 2; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/machine_%02d.jsonl", run.path, i);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(lines[i], file);
        fclose(file);
    }
    char *after = reported(&run);
    /* One row more, and nothing else. */
    static const char said[] =
        "  machine    disturbed: 3.0% of processor time stolen; other programs used 0.7 of 2 processors, none\n"
        "             was free (busy, 5 s); results may be off; rerun on an idle machine\n";
    char *row = strstr(after, said);
    if (!row) fail_msg("%s", after);
    memmove(row, row + strlen(said), strlen(row + strlen(said)) + 1);
    assert_string_equal(after, before);
    free(before);
    free(after);
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
    assert_int_equal(recorded.analysis.ranks[0].window_count, 1);
    assert_int_equal(recorded.analysis.ranks[0].windows[0].number, 1);
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
    assert_int_equal(recorded.analysis.ranks[0].work_count, 1);
    aorta_recorded_free(&recorded);
    workspace_remove(&run);
}

static struct aorta_trace_list opened(const char *const *paths, size_t count) {
    const struct aorta_trace_options reading = {0};
    struct aorta_trace_list list = {0};
    check_ok(aorta_trace_open_inputs(paths, count, &reading, &list));
    return list;
}

/* The files of both ranks, named one by one, are the directory; a last line that a kill cut is left out and counted. */
static void files_of_ranks_are_traces(void **state) {
    (void)state;
    struct workspace run = two_ranks();
    const char *const path = run.path;
    char names[2][96];
    for (int i = 0; i < 2; i++) snprintf(names[i], sizeof names[i], "%s/rank_%02d_metrics.jsonl", run.path, i);
    const struct aorta_trace_options reading = {0};
    struct aorta_recorded whole, parts;
    check_ok(aorta_recorded_open(&path, 1, &reading, NULL, &quiet, &whole));
    check_ok(aorta_recorded_open((const char *const[]){names[0], names[1]}, 2, &reading, NULL, &quiet, &parts));
    assert_false(parts.is_run);
    assert_int_equal(parts.analysis.rank_count, 2);
    for (size_t r = 0; r < 2; r++) {
        const struct aorta_trace_rank *a = &whole.analysis.ranks[r], *b = &parts.analysis.ranks[r];
        assert_int_equal(a->window_count, b->window_count);
        for (size_t i = 0; i < a->window_count; i++) {
            assert_int_equal(a->windows[i].profile.overlap.exposed_comm_ns,
                             b->windows[i].profile.overlap.exposed_comm_ns);
            assert_int_equal(a->windows[i].profile.overlap.lead_ns, b->windows[i].profile.overlap.lead_ns);
        }
    }
    aorta_recorded_free(&whole);
    aorta_recorded_free(&parts);
    char *lines = workspace_read(&run, "rank_01_metrics.jsonl");
    lines[strlen(lines) - 20] = '\0';
    workspace_write(&run, "cut.jsonl", lines);
    free(lines);
    snprintf(names[0], sizeof names[0], "%s/cut.jsonl", run.path);
    struct aorta_trace_list list = opened((const char *const[]){names[0]}, 1);
    assert_int_equal(list.items[0]->rank, 1);
    assert_int_equal(list.items[0]->step_count, 11);
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_TRUNCATED].count, 1);
    aorta_trace_list_free(&list);
    workspace_remove(&run);
}

/* The step that a run measured, 61 ms, is the step of every command, though its ranges say 40.5 ms from start to start.
 */
static void the_step_is_one(void **state) {
    (void)state;
    struct workspace run = two_ranks();
    for (int rank = 0; rank < 2; rank++) {
        char name[64];
        struct aorta_text changed = {0};
        snprintf(name, sizeof name, "rank_%02d_metrics.jsonl", rank);
        char *lines = workspace_read(&run, name);
        for (char *at = lines, *found;; at = found + strlen("\"step_ms\": null")) {
            found = strstr(at, "\"step_ms\": null");
            aorta_text_append(&changed, at, found ? (size_t)(found - at) : strlen(at));
            if (!found) break;
            aorta_text_puts(&changed, "\"step_ms\": 61");
        }
        workspace_write(&run, name, changed.data);
        aorta_text_free(&changed);
        free(lines);
    }
    const char *const path = run.path;
    const struct aorta_trace_options reading = {0};
    struct aorta_recorded recorded;
    struct aorta_trace_comparison comparison;
    check_ok(aorta_recorded_open(&path, 1, &reading, NULL, &quiet, &recorded));
    const struct aorta_trace_compare_input inputs[] = {{"a", "a", &recorded.analysis, false, NAN},
                                                       {"b", "b", &recorded.analysis, false, NAN}};
    check_ok(aorta_trace_compare(inputs, 2, &comparison));
    assert_string_equal(comparison.rows[0].name, "step");
    assert_true(comparison.rows[0].values[0].ms == 61 && comparison.rows[0].values[1].ms == 61);
    aorta_trace_comparison_free(&comparison);
    aorta_recorded_free(&recorded);
    workspace_remove(&run);
}

/* The directory of a run becomes one trace, in which collectives still are collectives. Beside traces of a profiler the
 * lines say less and are left out. */
static void a_run_is_merged(void **state) {
    (void)state;
    struct workspace run = two_ranks(), out = workspace_make();
    const char *const path = run.path;
    char merged[96];
    snprintf(merged, sizeof merged, "%s/merged.json", out.path);
    const struct aorta_trace_options reading = {0};
    struct aorta_text report = {0};
    check_ok(aorta_trace_merge(&path, 1, merged, &reading, NULL, false, &report));
    assert_non_null(strstr(report.data, "2 ranks on one clock"));
    aorta_text_free(&report);
    struct aorta_trace_list list = opened((const char *const[]){merged}, 1);
    size_t collectives = 0;
    for (size_t i = 0; i < list.count; i++)
        for (size_t j = 0; j < list.items[i]->work_count; j++) {
            const struct aorta_trace_work *work = &list.items[i]->work[j];
            if (!aorta_trace_is_collective(work)) continue;
            collectives++;
            assert_int_equal(list.items[i]->collectives[work->collective].kind, AORTA_ALL_GATHER);
        }
    assert_int_equal(collectives, 24);
    aorta_trace_list_free(&list);
    char *trace = workspace_read(&out, "merged.json");
    workspace_write(&run, "other.json", trace);
    free(trace);
    list = opened(&path, 1);
    for (size_t i = 0; i < list.count; i++) assert_non_null(strstr(list.items[i]->path, "other.json"));
    aorta_trace_list_free(&list);
    workspace_remove(&run);
    workspace_remove(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_disturbed_machine),
        cmocka_unit_test(both_say_the_same),
        cmocka_unit_test(options_of_traces_are_refused),
        cmocka_unit_test(single_steps),
        cmocka_unit_test(a_run_without_ranges),
        cmocka_unit_test(files_of_ranks_are_traces),
        cmocka_unit_test(the_step_is_one),
        cmocka_unit_test(a_run_is_merged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
