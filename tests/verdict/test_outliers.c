/* Two ranks whose gathers start together. The last one takes 8 ms, the other ones 40 us, and no sizes are recorded:
 *
 *     GPU  |k|g|k|g|k|g|k|g|k|g|k|g|k|################ g ################|k|
 *
 * Nothing can hide it. Its cost stays, and the call is named. */
#include "check.h"
#include "said.h"
#include "samples/kineto.h"
#include "trace/open.h"
#include "verdict/verdict.h"

#include <math.h>

enum { RANKS = 2, GATHERS = 7, KERNELS = 7, COMPUTE = 7, COMM = 17 };
static const double KERNEL_US = 60, GATHER_US = 40;

static void add(struct sample_kineto *sample, const char *kernel, int stream, double us, double *at) {
    sample_kineto_event(sample, "cpu_op", "aten::mul", 1, *at - 20, 12, "");
    sample_kineto_kernel(sample, kernel, stream, *at - 15, *at, us, "");
    *at += us;
}

static void expect(double last_us, bool named) {
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    for (int rank = 0; rank < RANKS; rank++) {
        struct sample_kineto sample;
        double at = 10000;
        sample_kineto_begin(&sample, rank, RANKS);
        for (int i = 0; i < GATHERS; i++) {
            add(&sample, "elementwise_mul", COMPUTE, KERNEL_US, &at);
            add(&sample, "ncclDevKernel_AllGather_RING_LL", COMM, i + 1 < GATHERS ? GATHER_US : last_us, &at);
        }
        add(&sample, "elementwise_mul", COMPUTE, KERNEL_US, &at);
        sample_kineto_open(&sample, &list);
    }
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, &verdict));
    const struct aorta_finding *found = aorta_verdict_find(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE);
    assert_non_null(found);
    const struct aorta_fact *outlier = aorta_facts_find(&found->facts, AORTA_FACT_OUTLIER);
    const char *text = said_text(&verdict);
    assert_int_equal(outlier != NULL, named);
    if (named) {
        assert_true(fabs(outlier->value - last_us / 1e3) < 1e-6);
        assert_true(fabs(aorta_facts_find(&found->facts, AORTA_FACT_OUTLIER_TIMES)->value - last_us / GATHER_US) <
                    1e-6);
        said_expect(text, "exposed all_gather (exposed_collective)");
        said_expect(text, "; one call takes 8.00 ms, 200 times the median\n");
    }
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

static void a_call_that_takes_far_longer_is_named(void **state) {
    (void)state;
    expect(200 * GATHER_US, true);
    expect(99 * GATHER_US, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_call_that_takes_far_longer_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
