/* A host that stalls for 60 ms. In the second case a kernel on another stream takes 50 ms of it:
 *
 *     host  |launches|           stall 60 ms           |launches|
 *     GPU   |kernels |                                 |kernels |     60 ms are gained
 *     GPU   |kernels |######### 50 ms #########|       |kernels |     10 ms are gained */
#include "check.h"
#include "said.h"
#include "samples/kineto.h"
#include "trace/open.h"
#include "verdict/verdict.h"

#include <math.h>

enum { KERNELS = 40, STREAM = 7, OTHER = 8 };
static const double STALL_US = 60000, LONG_US = 50000, KERNEL_US = 30, EVERY_US = 40;

static void make(bool busy, struct aorta_trace_list *list) {
    struct sample_kineto sample;
    double at = 10000;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < KERNELS; i++) {
        if (i == KERNELS / 2 && busy) sample_kineto_kernel(&sample, "gemm", OTHER, at - 20, at - 14, LONG_US, "");
        if (i == KERNELS / 2) at += STALL_US;
        sample_kineto_kernel(&sample, i == KERNELS / 2 ? "softmax" : "add", STREAM, at, at + 6, KERNEL_US, "");
        at += EVERY_US;
    }
    sample_kineto_open(&sample, list);
}

static void the_worst_place_is_part_of_the_gain(void **state) {
    (void)state;
    for (int busy = 0; busy < 2; busy++) {
        struct aorta_trace_list list = {0};
        struct aorta_trace_analysis analysis;
        struct aorta_verdict verdict;
        make(busy, &list);
        check_ok(aorta_trace_analyze(&list, NULL, &analysis));
        check_ok(aorta_verdict_make(&analysis, &verdict));
        const struct aorta_finding *stall = aorta_verdict_find(&verdict, AORTA_CAUSE_HOST_PAUSE);
        assert_non_null(stall);
        assert_true(fabs(stall->alone_ms - (busy ? 10 : 60)) < 2);
        assert_int_equal(aorta_facts_has(&stall->facts, AORTA_FACT_PAUSE), !busy);
        const char *text = said_text(&verdict);
        if (!busy) said_expect(text, "      worst  60.0 ms before softmax, after add\n");
        if (busy)
            said_expect(text, "      a stall of 60.0 ms before softmax, after gemm; other work limits the gain\n");
        aorta_verdict_free(&verdict);
        aorta_trace_analysis_free(&analysis);
        aorta_trace_list_free(&list);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_worst_place_is_part_of_the_gain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
