/* Two ranks whose hosts launch late in turn. A rank that launches in time waits for the other one in the collective:
 *
 *   rank 0   |k . k . k . k . all_reduce|k k k k all_reduce . . .  |
 *   rank 1   |k k k k all_reduce . . .  |k . k . k . k . all_reduce|
 *
 * Without late launches nobody waits, so that the finding names the waiting, too. */
#include "check.h"
#include "samples/kineto.h"
#include "trace/open.h"
#include "verdict/facts.h"
#include "verdict/verdict.h"

#include <math.h>

enum { STEPS = 8, KERNELS = 20, STREAM = 7 };
static const double KERNEL_US = 20, LATE_US = 60, FAST_US = 22, COMM_US = 50;

static double data_us; /* that rank 1 waits for its batch, with launches a little late */

static void add_step(struct sample_kineto *sample, int step, int rank) {
    const double start = 10000 + step * (KERNELS * LATE_US + 200 + data_us);
    const double begin = start + (rank ? data_us : 0);
    const double pace = data_us > 0 ? FAST_US + 3 * rank : step % 2 == rank ? LATE_US : FAST_US;
    const double end = start + data_us + KERNELS * LATE_US + 5 + COMM_US;
    char facts[256], name[32];
    double at = begin;
    if (begin > start)
        sample_kineto_event(sample, "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1,
                            start, data_us - 10, "");
    for (int i = 0; i < KERNELS; i++, at += pace)
        sample_kineto_kernel(sample, "sm90_xmma_gemm", STREAM, at, at + 5, KERNEL_US, "");
    snprintf(facts, sizeof facts,
             "\"Collective name\": \"allreduce\", \"In msg nelems\": 1000, \"Out msg nelems\": 1000, \"dtype\": "
             "\"Float\", \"Group size\": 2, \"Process Group Name\": \"0\", \"Seq\": %d",
             step + 1);
    sample_kineto_kernel(sample, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", STREAM, at, at + 5, end - at - 5, facts);
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    sample_kineto_event(sample, "user_annotation", name, 1, start - 5, data_us + KERNELS * LATE_US + 180, "");
}

static void make(struct aorta_verdict *verdict) {
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    for (int rank = 0; rank < 2; rank++) {
        struct sample_kineto sample;
        sample_kineto_begin(&sample, rank, 2);
        for (int step = 0; step < STEPS; step++) add_step(&sample, step, rank);
        sample_kineto_open(&sample, &list);
    }
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, verdict));
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

static void late_launches_make_ranks_wait(void **state) {
    (void)state;
    struct aorta_verdict verdict;
    data_us = 0;
    make(&verdict);
    const struct aorta_finding *found = &verdict.findings[0];
    assert_int_equal(found->cause, AORTA_CAUSE_HOST_LAUNCH);
    const struct aorta_fact *waited = aorta_facts_find(&found->facts, AORTA_FACT_WAITED);
    assert_non_null(waited);
    const double each_ms = KERNELS * (LATE_US - FAST_US) / 2 / 1e3; /* the mean of both ranks */
    if (fabs(waited->value - each_ms) > 0.1 * each_ms) fail_msg("%f ms, not %f", waited->value, each_ms);
    assert_true(found->gain_ms > found->cost_ms + 0.5 * each_ms);
    aorta_verdict_free(&verdict);
}

/* Rank 0 waits 5 ms for the batch of rank 1: as much of it as launches gain is theirs. */
static void waiting_for_a_loader_is_not_that_of_launches(void **state) {
    (void)state;
    struct aorta_verdict verdict;
    data_us = 5000;
    make(&verdict);
    const struct aorta_finding *late = aorta_verdict_find(&verdict, AORTA_CAUSE_STRAGGLER),
                               *launches = aorta_verdict_find(&verdict, AORTA_CAUSE_HOST_LAUNCH);
    assert_int_equal(verdict.findings[0].cause, AORTA_CAUSE_DATA_WAIT);
    assert_true(late->cost_ms > 2);
    assert_non_null(launches);
    const struct aorta_fact *waited = aorta_facts_find(&launches->facts, AORTA_FACT_WAITED);
    assert_non_null(waited);
    const double most_ms = aorta_finding_shown_ms(launches) - launches->cost_ms;
    if (waited->value > most_ms + 1e-9) fail_msg("%f ms, of %f", waited->value, most_ms);
    aorta_verdict_free(&verdict);
}

/* ---- one rank, in an export of nsys ---- */

static struct aorta_trace_builder *begin_nsys(void) {
    struct aorta_trace_builder *builder;
    check_ok(aorta_trace_builder_create(AORTA_TRACE_NSYS, "test", NULL, &builder));
    return builder;
}

static uint64_t correlation;

static void add_call(struct aorta_trace_builder *builder, const char *name, int64_t at_us, int64_t lasts_us) {
    struct aorta_trace_call call = {.start_ns = 1000 * at_us,
                                    .end_ns = 1000 * (at_us + lasts_us),
                                    .correlation = ++correlation,
                                    .name = aorta_trace_builder_text(builder, name, strlen(name)),
                                    .thread = aorta_trace_builder_thread(builder, 1, 1)};
    enum aorta_trace_call_kind kind;
    assert_true(aorta_trace_call_classify(name, &kind));
    call.kind = (uint8_t)kind;
    aorta_trace_builder_call(builder, &call);
}

/* The kernel begins so long after its launch. */
static void add_kernel(struct aorta_trace_builder *builder, const char *name, int64_t at_us, int64_t lasts_us,
                       int64_t later_us, int64_t kernel_us) {
    add_call(builder, name, at_us, lasts_us);
    const struct aorta_trace_work work = {.start_ns = 1000 * (at_us + later_us),
                                          .end_ns = 1000 * (at_us + later_us + kernel_us),
                                          .bytes = -1,
                                          .correlation = correlation,
                                          .name = aorta_trace_builder_text(builder, "add", 3),
                                          .stream = aorta_trace_builder_stream(builder, 0, 1, 7),
                                          .queue = AORTA_TRACE_NONE};
    aorta_trace_builder_work(builder, &work, -1, NULL, -1);
}

static void verdict_of(struct aorta_trace_builder *builder, struct aorta_verdict *verdict) {
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    check_ok(aorta_trace_builder_finish_into(builder, &list));
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, verdict));
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

/* The cost of recording is known of PyTorch's profiler and ours. Another file has events of the host all the same. */
static void the_cost_of_other_profilers_is_not_known(void **state) {
    (void)state;
    struct aorta_verdict verdict;
    struct aorta_trace_builder *builder = begin_nsys();
    for (int i = 0; i < 40; i++) add_kernel(builder, "cudaLaunchKernel", 100 * i, 2, 5, 5);
    verdict_of(builder, &verdict);
    assert_non_null(verdict.replay.unrecorded_reason);
    assert_string_equal(verdict.replay.unrecorded_reason,
                        "the cost of this profiler is not known; record with aorta trace run");
    aorta_verdict_free(&verdict);
}

/* In us:
 *
 *     host     [ launch 20 ][ launch 20 ][ …        a launch begins a kernel 8 us later: launched ahead, it would
 * follow device           [2]          [2]   …         the kernel before it, without the 11 us before its launch and
 * these 8
 */
static void launches_ahead_hide_the_start_of_kernels(void **state) {
    (void)state;
    struct aorta_verdict verdict;
    struct aorta_trace_builder *builder = begin_nsys();
    for (int i = 0; i < 40; i++) add_kernel(builder, "cudaLaunchKernel", 21 * i, 20, 8, 2);
    verdict_of(builder, &verdict);
    const struct aorta_finding *launches = aorta_verdict_find(&verdict, AORTA_CAUSE_HOST_LAUNCH);
    assert_non_null(launches);
    const struct aorta_fact *starts = aorta_facts_find(&launches->facts, AORTA_FACT_STARTED_TOO);
    assert_non_null(starts);
    if (starts->value < 0.2 || starts->value > 39 * 8e-3) fail_msg("%f ms", starts->value);
    aorta_verdict_free(&verdict);
}

/* In us:
 *
 *     host     [L][ sync        ][L]..[L]..[L]..       the launches after a wait are 10 us apart: without the wait they
 *     device   [ long 200      ]    [1]  [1]  [1]      would be made while the long kernel runs */
static void waits_say_how_late_they_make_launches(void **state) {
    (void)state;
    enum { TURNS = 6, SHORT = 15 };
    struct aorta_verdict verdict;
    struct aorta_trace_builder *builder = begin_nsys();
    for (int i = 0; i < TURNS; i++) {
        const int64_t at_us = 400 * i;
        add_kernel(builder, "cudaLaunchKernel", at_us, 2, 5, 200);
        add_call(builder, "cudaDeviceSynchronize", at_us + 3, 205);
        for (int j = 0; j < SHORT; j++) add_kernel(builder, "cudaLaunchKernel", at_us + 212 + 10 * j, 2, 4, 1);
    }
    verdict_of(builder, &verdict);
    const struct aorta_finding *waits = aorta_verdict_find(&verdict, AORTA_CAUSE_HOST_SYNC);
    assert_non_null(waits);
    const struct aorta_fact *late = aorta_facts_find(&waits->facts, AORTA_FACT_LATE_AFTER);
    assert_non_null(late);
    assert_true(waits->cost_ms < 0.1 && late->value > 0.4);
    if (fabs(late->value + waits->cost_ms - aorta_finding_shown_ms(waits)) > 1e-9) fail_msg("%f ms", late->value);
    aorta_verdict_free(&verdict);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(late_launches_make_ranks_wait),
                                       cmocka_unit_test(waiting_for_a_loader_is_not_that_of_launches),
                                       cmocka_unit_test(launches_ahead_hide_the_start_of_kernels),
                                       cmocka_unit_test(waits_say_how_late_they_make_launches),
                                       cmocka_unit_test(the_cost_of_other_profilers_is_not_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
