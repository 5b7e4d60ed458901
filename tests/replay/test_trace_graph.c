/* Graphs of real recordings. Their truth is not known: but the recording must come out to the nanosecond, hardly
 * anything may be without an explanation, and gains must lie within the step. */
#include "check.h"
#include "replay/trace_graph.h"
#include "replaying.h"
#include "samples/dump.h"
#include "trace/open.h"

#include <limits.h>
#include <stdlib.h>

static const double UNEXPLAINED = 0.03;

struct run {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
    struct aorta_trace_graph built;
    struct aorta_gains gains;
};

static void open_run(const char *const *names, size_t count, struct run *run) {
    char path[PATH_MAX];
    *run = (struct run){0};
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s.json.gz", TEST_TRACES, names[i]);
        check_ok(aorta_trace_open(path, &(struct aorta_trace_options){0}, &run->list));
    }
    check_ok(aorta_trace_analyze(&run->list, NULL, &run->analysis));
    check_ok(aorta_trace_graph_make(&run->analysis, &run->built));
    measure_gains(&run->built.graph, &run->gains);
}

static void close_run(struct run *run) {
    aorta_trace_graph_free(&run->built);
    aorta_trace_analysis_free(&run->analysis);
    aorta_trace_list_free(&run->list);
}

static void check_run(const struct run *run) {
    const struct aorta_graph *graph = &run->built.graph;
    struct aorta_replay replay = {0};
    aorta_replay_run(graph, 0, &replay);
    for (uint32_t i = 0; i < graph->point_count; i++) assert_true(replay.point_ns[i] == graph->time_ns[i]);
    aorta_replay_free(&replay);
    assert_int_equal(graph->dropped, 0);
    assert_true(run->gains.measured_ns > 0 && run->gains.path.length_ns > 0);
    assert_true(run->gains.replayed_ns == run->gains.measured_ns);
    if (run->gains.unexplained_share > UNEXPLAINED)
        fail_msg("%.1f%% of the path without an explanation", 100 * run->gains.unexplained_share);
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++)
        assert_true(run->gains.gain_ns[i] >= 0 && run->gains.gain_ns[i] <= run->gains.measured_ns);
    assert_true(run->gains.floor_ns >= 0 && run->gains.floor_ns <= run->gains.measured_ns);
}

/* One rank each, of PyTorch on CUDA and on ROCm, and of rocprofv3, with launches and without. */
static void single_ranks(void **unused) {
    (void)unused;
    static const char *const names[] = {"h100_qwen", "mi250_minitoy", "mi300_resnet"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct run run;
        open_run(&names[i], 1, &run);
        check_run(&run);
        assert_true(run.gains.gain_ns[AORTA_WITHOUT_STRAGGLER] == 0); /* nobody to compare with */
        close_run(&run);
    }
}

/* FSDP2 at a batch of 8: the device waits for its host nearly all the time. */
static void two_ranks_that_wait_for_their_hosts(void **unused) {
    (void)unused;
    static const char *const names[] = {"fsdp2_rank0", "fsdp2_rank1"};
    struct run run;
    open_run(names, 2, &run);
    check_run(&run);
    assert_int_equal(run.built.graph.rank_count, 2);
    const double *gain = run.gains.gain_ns;
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++)
        assert_true(gain[i] <= gain[AORTA_WITHOUT_HOST_LAUNCH] || i == AORTA_WITHOUT_HOST_PAUSE);
    assert_true(gain[AORTA_WITHOUT_HOST_LAUNCH] + gain[AORTA_WITHOUT_HOST_PAUSE] > 0.8 * run.gains.measured_ns);
    close_run(&run);
}

/* A file of dispatches alone knows neither launches nor dependencies: what lies between is not explained, and says so.
 */
static void dispatches_without_a_host(void **unused) {
    (void)unused;
    static const char *const names[] = {"rocprofv3_908"};
    struct run run;
    open_run(names, 1, &run);
    assert_true(run.gains.replayed_ns == run.gains.measured_ns);
    assert_true(run.gains.unexplained_share > AORTA_UNEXPLAINED_LIMIT);
    close_run(&run);
}

/* FSDP2: two more launches before each tenth kernel. Without the recording's cost or with, the host makes them, so that
 * the step is longer, by at most all of their time; kernels are as long as before. */
static void added_launches_take_the_hosts_time(void **unused) {
    (void)unused;
    static const char *const names[] = {"fsdp2_rank0"};
    enum { TIMES = 2 };
    struct run run;
    open_run(names, 1, &run);
    const size_t count = run.list.items[0]->work_count;
    struct aorta_work_scale *scales = calloc(count, sizeof *scales);
    int64_t added_ns = 0, most_ns = 0;
    int calls = 0;
    for (size_t i = 0; i < count; i++) scales[i] = (struct aorta_work_scale){.left = 1, .added = i % 10 ? 0 : TIMES};
    const struct aorta_work_scale *ranks[] = {scales};
    struct aorta_graph scaled = {0};
    aorta_graph_scale(&run.built, ranks, &scaled);
    const struct aorta_graph *graph = &run.built.graph;
    for (uint32_t i = 0; i < graph->edge_count; i++) {
        const int64_t more_ns = scaled.lag_ns[i] - graph->lag_ns[i];
        assert_true(more_ns >= 0);
        if (more_ns) assert_true(graph->kind[i] == AORTA_EDGE_GAP || graph->kind[i] == AORTA_EDGE_CALL);
        added_ns += more_ns;
        calls += more_ns > 0;
        if (more_ns > most_ns) most_ns = more_ns;
    }
    assert_true(calls > 10);
    assert_true(added_ns == calls * most_ns); /* each as much */
    assert_true(most_ns > TIMES * 1000 && most_ns < TIMES * 1000000);
    struct aorta_replay before = {0}, after = {0};
    aorta_replay_run(graph, 0, &before);
    aorta_replay_run(&scaled, 0, &after);
    assert_true(after.step_ns > before.step_ns && after.step_ns <= before.step_ns + (double)added_ns);
    aorta_replay_free(&before);
    aorta_replay_free(&after);
    aorta_graph_scaled_free(&scaled);
    free(scales);
    close_run(&run);
}

/* Kernels of a graph begin a little before their predecessors end. In half the time, all of them end in half of it:
 *
 *     host    L
 *     stream   [kernel     ]
 *                        [kernel     ]
 *                                  [kernel     ] */
static void kernels_that_overlap_shorten_each_other(void **unused) {
    (void)unused;
    enum { STEPS = 3, KERNELS = 8, US = 1000, OVERLAP = 10 };
    struct aorta_text text = {0};
    aorta_text_puts(&text, "{\"traceEvents\": [\n");
    for (int step = 0; step < STEPS; step++) {
        const int start = step * KERNELS * US;
        aorta_text_printf(&text,
                          "{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#%d\", \"pid\": 1, "
                          "\"tid\": 1, \"ts\": %d, \"dur\": %d},\n"
                          "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaGraphLaunch\", \"pid\": 1, "
                          "\"tid\": 1, \"ts\": %d, \"dur\": 4, \"args\": {\"correlation\": %d}},\n",
                          step, start, KERNELS * US - 1, start + 1, step + 1);
        for (int i = 0; i < KERNELS; i++)
            aorta_text_printf(
                &text,
                "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm\", \"pid\": 0, \"tid\": 7, \"ts\": "
                "%d, \"dur\": %d, \"args\": {\"device\": 0, \"stream\": 7, \"correlation\": %d}},\n",
                start + 10 + i * (US - OVERLAP), US, step + 1);
    }
    aorta_text_puts(&text, "{\"ph\": \"M\", \"name\": \"x\"}]}");
    struct run run = {0};
    check_ok(aorta_trace_list_add(&run.list, read_text(text.data)));
    aorta_text_free(&text);
    check_ok(aorta_trace_analyze(&run.list, NULL, &run.analysis));
    check_ok(aorta_trace_graph_make(&run.analysis, &run.built));
    struct aorta_work_scale scales[STEPS * KERNELS];
    for (int i = 0; i < STEPS * KERNELS; i++) scales[i] = (struct aorta_work_scale){.left = 0.5F};
    const struct aorta_work_scale *ranks[] = {scales};
    struct aorta_graph scaled = {0};
    struct aorta_replay before = {0}, after = {0};
    int within = 0;
    aorta_graph_scale(&run.built, ranks, &scaled);
    aorta_replay_run(&run.built.graph, 0, &before);
    aorta_replay_run(&scaled, 0, &after);
    for (uint32_t i = 0; i < scaled.edge_count; i++) within += aorta_graph_begins_within(&scaled, i);
    assert_true(within >= STEPS * (KERNELS - 1));
    /* The host launches each step when it did; the last kernel of the first step ends so much sooner. */
    const int64_t first_ns = before.point_ns[0] + (int64_t)(KERNELS * US - US / 2) * 1000;
    int64_t ends_ns[2] = {0};
    for (uint32_t i = 0; i < scaled.point_count; i++) {
        if (before.point_ns[i] > first_ns || aorta_subject_kind(scaled.subject[i]) != AORTA_SUBJECT_SPAN) continue;
        if (before.point_ns[i] <= ends_ns[0]) continue;
        ends_ns[0] = before.point_ns[i];
        ends_ns[1] = after.point_ns[i];
    }
    assert_true(ends_ns[1] - before.point_ns[0] < (ends_ns[0] - before.point_ns[0]) * 6 / 10);
    aorta_replay_free(&before);
    aorta_replay_free(&after);
    aorta_graph_scaled_free(&scaled);
    close_run(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_ranks),
        cmocka_unit_test(added_launches_take_the_hosts_time),
        cmocka_unit_test(kernels_that_overlap_shorten_each_other),
        cmocka_unit_test(two_ranks_that_wait_for_their_hosts),
        cmocka_unit_test(dispatches_without_a_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
