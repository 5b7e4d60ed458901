/* A free waits for the kernel before it, and then takes long to give the memory back, with an idle GPU:
 *
 *   host   |launch| cudaFree, 5 ms         |launch| cudaFree, 5 ms         | …
 *   GPU           | gemm |                        | gemm |                 …
 *
 * A kernel may also begin 2 ms late, which nothing explains.
 */
#include "check.h"
#include "said.h"
#include "samples/kineto.h"
#include "trace/open.h"
#include "verdict/verdict.h"

#include <math.h>

enum { STEPS = 5, GEMMS = 4 };
static const double FREE_US = 5000, GEMM_US = 300;

static void add_step(struct sample_kineto *sample, int step, double late_us, double *at) {
    char name[32];
    const double begin = *at;
    if (late_us > 0) {
        sample_kineto_kernel(sample, "late", 7, *at, *at + late_us, GEMM_US, "");
        *at += late_us + 2 * GEMM_US;
    }
    for (int i = 0; i < GEMMS; i++, *at += FREE_US + 20) {
        sample_kineto_kernel(sample, "sm90_xmma_gemm", 7, *at, *at + 8, GEMM_US, "");
        sample_kineto_event(sample, "cuda_runtime", "cudaFree", 1, *at + 10, FREE_US, "");
    }
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    sample_kineto_event(sample, "user_annotation", name, 1, begin - 2, *at - begin, "");
    *at += 5;
}

static void verdict_of(struct sample_kineto *sample, struct aorta_verdict *verdict) {
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    sample_kineto_open(sample, &list);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, verdict));
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
    assert_true(verdict->replay.known);
}

static void make(double late_us, struct aorta_verdict *verdict) {
    struct sample_kineto sample;
    double at = 1000;
    sample_kineto_begin(&sample, 0, 1);
    for (int step = 0; step < STEPS; step++) add_step(&sample, step, late_us, &at);
    verdict_of(&sample, verdict);
    assert_int_equal(verdict->findings[0].cause, AORTA_CAUSE_ALLOCATION);
}

static void what_a_free_lasts_after_its_wait_is_its_own(void **state) {
    (void)state;
    struct aorta_verdict verdict;
    make(0, &verdict);
    const double freed_ms = GEMMS * (FREE_US - GEMM_US) / 1e3;
    if (fabs(verdict.findings[0].gain_ms - freed_ms) > 0.05 * freed_ms)
        fail_msg("%f ms, not %f", verdict.findings[0].gain_ms, freed_ms);
    aorta_verdict_free(&verdict);
}

static void no_more_is_gained_than_calls_last(void **state) {
    (void)state;
    struct aorta_verdict verdict;
    double range_ms[2];
    make(2000, &verdict);
    const struct aorta_finding *found = &verdict.findings[0];
    aorta_finding_shown_range(found, range_ms);
    assert_true(range_ms[0] < 0.95 * found->gain_ms);
    const double calls_ms = aorta_facts_find(&found->facts, AORTA_FACT_ALLOCATING)->value;
    if (range_ms[1] > 1.01 * calls_ms) fail_msg("up to %f ms of calls that last %f", range_ms[1], calls_ms);
    aorta_verdict_free(&verdict);
}

/* A caching allocator finds no memory while a kernel of 3 ms runs. It waits for that, without a call that shows it, and
 * frees what it keeps. In us:
 *
 *   host   |launch|cudaMalloc 10|    waits     |cudaFree 200|cudaFree 200|cudaFree 200|cudaMalloc 10|launch| …
 *   GPU           |        gemm 3000          |                                              | gemm …
 *
 * Two frees are no cache that is emptied. */
static void a_full_allocator_waits_and_empties_its_cache(void **state) {
    (void)state;
    for (int frees = 2; frees <= 3; frees++) {
        struct sample_kineto sample;
        struct aorta_verdict verdict;
        double at = 1000;
        sample_kineto_begin(&sample, 0, 1);
        for (int step = 0; step < STEPS; step++) {
            char name[32];
            const double begin = at;
            sample_kineto_event(&sample, "cpu_op", "aten::mm", 1, at - 1, 10, "");
            sample_kineto_kernel(&sample, "sm90_xmma_gemm", 7, at, at + 8, 3000, "");
            sample_kineto_event(&sample, "cuda_runtime", "cudaMalloc", 1, at + 10, 10, "");
            at += 3012;
            for (int i = 0; i < frees; i++, at += 201)
                sample_kineto_event(&sample, "cuda_runtime", "cudaFree", 1, at, 200, "");
            sample_kineto_event(&sample, "cuda_runtime", "cudaMalloc", 1, at, 10, "");
            at += 15;
            snprintf(name, sizeof name, "ProfilerStep#%d", step);
            sample_kineto_event(&sample, "user_annotation", name, 1, begin - 2, at - begin, "");
        }
        verdict_of(&sample, &verdict);
        const struct aorta_finding *allocation = said_finding(&verdict, AORTA_CAUSE_ALLOCATION);
        assert_int_equal(said_has(allocation, AORTA_FACT_CACHE_EMPTIED), frees == 3);
        assert_int_equal(strstr(said_advice(allocation), "less memory") != NULL, frees == 3);
        said_near(allocation->gain_ms, 0.2 * frees, 0.05);
        aorta_verdict_free(&verdict);
    }
}

/* A free of 1 s between a copy and the first kernel, as in cublasCreate, or between two kernels. */
static void a_long_free_before_the_first_kernel_starts_a_library(void **state) {
    (void)state;
    for (int kernels = 0; kernels < 2; kernels++) {
        struct sample_kineto sample;
        struct aorta_verdict verdict;
        sample_kineto_begin(&sample, 0, 1);
        sample_kineto_event(&sample, "cuda_runtime", "cudaMemcpyAsync", 1, 0, 5, "\"correlation\":900");
        sample_kineto_event(&sample, "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 7, 6, 5,
                            "\"device\":0,\"stream\":7,\"correlation\":900");
        if (kernels) sample_kineto_kernel(&sample, "first", 7, 20, 30, 10, "");
        sample_kineto_event(&sample, "cuda_runtime", "cudaFree", 1, 60, 1e6, "");
        sample_kineto_kernel(&sample, "second", 7, 1000070, 1000080, 10, "");
        verdict_of(&sample, &verdict);
        const struct aorta_finding *allocation = said_finding(&verdict, AORTA_CAUSE_ALLOCATION);
        assert_int_equal(said_has(allocation, AORTA_FACT_LIBRARY_STARTS), !kernels);
        assert_int_equal(strstr(said_advice(allocation), "cublasCreate") != NULL, !kernels);
        aorta_verdict_free(&verdict);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_a_free_lasts_after_its_wait_is_its_own),
                                       cmocka_unit_test(no_more_is_gained_than_calls_last),
                                       cmocka_unit_test(a_full_allocator_waits_and_empties_its_cache),
                                       cmocka_unit_test(a_long_free_before_the_first_kernel_starts_a_library)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
