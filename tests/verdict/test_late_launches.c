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

static void add_step(struct sample_kineto *sample, int step, int rank) {
    const double begin = 10000 + step * (KERNELS * LATE_US + 200), pace = step % 2 == rank ? LATE_US : FAST_US;
    const double end = begin + KERNELS * LATE_US + 5 + COMM_US;
    char facts[256], name[32];
    double at = begin;
    for (int i = 0; i < KERNELS; i++, at += pace)
        sample_kineto_kernel(sample, "sm90_xmma_gemm", STREAM, at, at + 5, KERNEL_US, "");
    snprintf(facts, sizeof facts,
             "\"Collective name\": \"allreduce\", \"In msg nelems\": 1000, \"Out msg nelems\": 1000, \"dtype\": "
             "\"Float\", \"Group size\": 2, \"Process Group Name\": \"0\", \"Seq\": %d",
             step + 1);
    sample_kineto_kernel(sample, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", STREAM, at, at + 5, end - at - 5, facts);
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    sample_kineto_event(sample, "user_annotation", name, 1, begin - 5, KERNELS * LATE_US + 180, "");
}

static void late_launches_make_ranks_wait(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    for (int rank = 0; rank < 2; rank++) {
        struct sample_kineto sample;
        sample_kineto_begin(&sample, rank, 2);
        for (int step = 0; step < STEPS; step++) add_step(&sample, step, rank);
        sample_kineto_open(&sample, &list);
    }
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, &verdict));
    const struct aorta_finding *found = &verdict.findings[0];
    assert_int_equal(found->cause, AORTA_CAUSE_HOST_LAUNCH);
    const struct aorta_fact *waited = aorta_facts_find(&found->facts, AORTA_FACT_WAITED);
    assert_non_null(waited);
    const double each_ms = KERNELS * (LATE_US - FAST_US) / 2 / 1e3; /* the mean of both ranks */
    if (fabs(waited->value - each_ms) > 0.1 * each_ms) fail_msg("%f ms, not %f", waited->value, each_ms);
    assert_true(found->gain_ms > found->cost_ms + 0.5 * each_ms);
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

/* The cost of recording is known of PyTorch's profiler and ours. Another file has events of the host all the same. */
static void the_cost_of_other_profilers_is_not_known(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    struct aorta_trace_builder *builder;
    check_ok(aorta_trace_builder_create(AORTA_TRACE_NSYS, "test", NULL, &builder));
    for (int i = 0; i < 40; i++) {
        const uint32_t launch = aorta_trace_builder_text(builder, "cudaLaunchKernel", 16);
        const int64_t at_ns = INT64_C(100000) * i;
        const struct aorta_trace_call call = {
            at_ns, at_ns + 2000, (uint64_t)i + 1, launch, aorta_trace_builder_thread(builder, 1, 1), 0};
        const struct aorta_trace_work work = {.start_ns = at_ns + 5000,
                                              .end_ns = at_ns + 10000,
                                              .bytes = -1,
                                              .correlation = (uint64_t)i + 1,
                                              .name = aorta_trace_builder_text(builder, "add", 3),
                                              .stream = aorta_trace_builder_stream(builder, 0, 1, 7),
                                              .queue = AORTA_TRACE_NONE};
        aorta_trace_builder_call(builder, &call);
        aorta_trace_builder_work(builder, &work, -1, NULL, -1);
    }
    check_ok(aorta_trace_builder_finish_into(builder, &list));
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, &verdict));
    assert_non_null(verdict.replay.unrecorded_reason);
    assert_string_equal(verdict.replay.unrecorded_reason,
                        "the cost of this profiler is not known; record with aorta trace run");
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(late_launches_make_ranks_wait),
                                       cmocka_unit_test(the_cost_of_other_profilers_is_not_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
