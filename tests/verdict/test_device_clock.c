/* Two ranks. The host of rank 1 stands still for 20 ms in each step, while rank 0 waits for it in a collective. The
 * device clock of rank 1 is 60 us ahead, so that all its work starts before its launch:
 *
 *   rank 0   |k k k k k k k k all_reduce ..............................|
 *   rank 1   |k k k k _____________ host stands still _________ k k k k all_reduce|
 *
 * A lead of microseconds hides no stall of milliseconds. */
#include "report/trace_report.h"
#include "said.h"
#include "samples/kineto.h"
#include "trace/open.h"

enum { STEPS = 8, KERNELS = 40, STREAM = 7 };
static const double PACE_US = 50, STALL_US = 20000, AHEAD_US = 60, COMM_US = 50;

static void add_step(struct sample_kineto *sample, int step, int rank) {
    const double length_us = KERNELS * PACE_US + STALL_US + 200, begin = 10000 + step * length_us;
    const double ahead_us = rank ? AHEAD_US : 0;
    char facts[256], name[32];
    double at = begin;
    for (int i = 0; i < KERNELS; i++, at += PACE_US) {
        if (rank && i == KERNELS / 2) at += STALL_US;
        sample_kineto_kernel(sample, "sm90_xmma_gemm", STREAM, at, at + 5 - ahead_us, 20, "");
    }
    const double end = begin + KERNELS * PACE_US + STALL_US + 5 + COMM_US - ahead_us;
    snprintf(facts, sizeof facts,
             "\"Collective name\": \"allreduce\", \"In msg nelems\": 1000, \"Out msg nelems\": 1000, \"dtype\": "
             "\"Float\", \"Group size\": 2, \"Process Group Name\": \"0\", \"Seq\": %d",
             step + 1);
    sample_kineto_kernel(sample, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", STREAM, at, at + 5 - ahead_us,
                         end - at - 5 + ahead_us, facts);
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    sample_kineto_event(sample, "user_annotation", name, 1, begin - 5, length_us - 20, "");
}

static void a_device_clock_ahead_hides_no_stall(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    struct aorta_text text = {0};
    for (int rank = 0; rank < 2; rank++) {
        struct sample_kineto sample;
        sample_kineto_begin(&sample, rank, 2);
        for (int step = 0; step < STEPS; step++) add_step(&sample, step, rank);
        sample_kineto_open(&sample, &list);
    }
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    said_make(&analysis, &verdict);
    aorta_trace_report_text(&(struct aorta_trace_report){.analysis = &analysis, .verdict = &verdict}, NULL, &text);
    check_ok(aorta_text_check(&text));
    said_expect(said_unwrapped(text.data), "corrected: the device clock of rank 1 was 55.0 us ahead of its host");
    assert_null(strstr(text.data, "clocks differ"));
    said_near(verdict.findings[0].gain_ms, STALL_US / 1e3, 1);
    assert_int_equal(verdict.findings[0].cause, AORTA_CAUSE_HOST_PAUSE);
    /* The ranks' hosts have one clock, and their devices now, too. */
    said_near((double)analysis.alignment.clocks[1].shift_ns, 0, 6000);
    aorta_text_free(&text);
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_device_clock_ahead_hides_no_stall)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
