/* Two ranks whose gathers start together. The last one takes 8 ms, the other ones 40 us, and no sizes are recorded:
 *
 *     GPU  |k|g|k|g|k|g|k|g|k|g|k|g|k|################ g ################|k|
 *
 * Nothing can hide it. Its cost stays, and the worst place names the call. */
#include "check.h"
#include "said.h"
#include "samples/kineto.h"
#include "trace/open.h"
#include "verdict/verdict.h"

#include <math.h>

enum { RANKS = 2, GATHERS = 7, KERNELS = 7, COMPUTE = 7, COMM = 17 };
static const double KERNEL_US = 60, GATHER_US = 40, LAST_US = 8000;

static void add(struct sample_kineto *sample, const char *kernel, int stream, double us, double *at) {
    sample_kineto_event(sample, "cpu_op", "aten::mul", 1, *at - 20, 12, "");
    sample_kineto_kernel(sample, kernel, stream, *at - 15, *at, us, "");
    *at += us;
}

static void a_call_that_takes_far_longer_is_the_worst(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    for (int rank = 0; rank < RANKS; rank++) {
        struct sample_kineto sample;
        double at = 10000;
        sample_kineto_begin(&sample, rank, RANKS);
        for (int i = 0; i < GATHERS; i++) {
            add(&sample, "elementwise_mul", COMPUTE, KERNEL_US, &at);
            add(&sample, "ncclDevKernel_AllGather_RING_LL", COMM, i + 1 < GATHERS ? GATHER_US : LAST_US, &at);
        }
        add(&sample, "elementwise_mul", COMPUTE, KERNEL_US, &at);
        sample_kineto_open(&sample, &list);
    }
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, &verdict));
    const struct aorta_finding *found = aorta_verdict_find(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE);
    assert_non_null(found);
    const struct aorta_fact *worst = aorta_facts_find(&found->facts, AORTA_FACT_EXPOSED_WORST);
    assert_true(fabs(worst->value - LAST_US / 1e3) < 1e-6);
    said_expect(said_text(&verdict), "exposed all_gather (exposed_collective)");
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_call_that_takes_far_longer_is_the_worst)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
