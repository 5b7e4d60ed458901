/* A free waits for the kernel before it, and then takes long to give the memory back, with an idle GPU:
 *
 *   host   |launch| cudaFree, 5 ms         |launch| cudaFree, 5 ms         | …
 *   GPU           | gemm |                        | gemm |                 …
 */
#include "check.h"
#include "samples/kineto.h"
#include "trace/open.h"
#include "verdict/verdict.h"

#include <math.h>

enum { STEPS = 5, GEMMS = 4 };
static const double FREE_US = 5000, GEMM_US = 300;

static void add_step(struct sample_kineto *sample, int step, double *at) {
    char name[32];
    const double begin = *at;
    for (int i = 0; i < GEMMS; i++, *at += FREE_US + 20) {
        sample_kineto_kernel(sample, "sm90_xmma_gemm", 7, *at, *at + 8, GEMM_US, "");
        sample_kineto_event(sample, "cuda_runtime", "cudaFree", 1, *at + 10, FREE_US, "");
    }
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    sample_kineto_event(sample, "user_annotation", name, 1, begin - 2, *at - begin, "");
    *at += 5;
}

static void what_a_free_lasts_after_its_wait_is_its_own(void **state) {
    (void)state;
    struct sample_kineto sample;
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    double at = 1000;
    sample_kineto_begin(&sample, 0, 1);
    for (int step = 0; step < STEPS; step++) add_step(&sample, step, &at);
    sample_kineto_open(&sample, &list);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, &verdict));
    assert_true(verdict.replay.known);
    assert_int_equal(verdict.findings[0].cause, AORTA_CAUSE_ALLOCATION);
    const double freed_ms = GEMMS * (FREE_US - GEMM_US) / 1e3;
    if (fabs(verdict.findings[0].gain_ms - freed_ms) > 0.05 * freed_ms)
        fail_msg("%f ms, not %f", verdict.findings[0].gain_ms, freed_ms);
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_a_free_lasts_after_its_wait_is_its_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
