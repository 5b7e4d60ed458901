/* Copies from pageable memory: the host makes them in its call, in which it can launch nothing.
 *
 *   host   | cudaMemcpyAsync, 15 ms          | launches, 0.3 ms each |  …
 *   GPU                         | copy, 2 ms | gemm | gemm | gemm |     …
 */
#include "said.h"
#include "samples/kineto.h"
#include "trace/open.h"
#include "verdict/advice.h"
#include "verdict/facts.h"
#include "verdict/verdict.h"

#include <math.h>
#include <string.h>

enum { STEPS = 5, GEMMS = 4 };
static const double COPY_US = 15000, GEMM_US = 300;

/* `dma_us`: of the call, what the device copies. */
static double add_copy(struct sample_kineto *sample, double at, int number, double dma_us) {
    char launch[64], copy[128];
    snprintf(launch, sizeof launch, "\"correlation\": %d", 900000 + number);
    snprintf(copy, sizeof copy, "\"device\": 0, \"stream\": 7, \"correlation\": %d, \"bytes\": 50000000",
             900000 + number);
    sample_kineto_event(sample, "cuda_runtime", "cudaMemcpyAsync", 1, at, COPY_US, launch);
    sample_kineto_event(sample, "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 7, at + COPY_US - dma_us, dma_us,
                        copy);
    return at + COPY_US + 10;
}

/* The call that the host waits in is named, not what it copies. */
static void check_copies(double dma_us, bool dwarf) {
    struct sample_kineto sample;
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    sample_kineto_begin(&sample, 0, 1);
    double at = 1000;
    for (int i = 0; i < STEPS; i++) {
        char name[32];
        const double begin = at;
        at = add_copy(&sample, at, i, dma_us);
        for (int j = 0; j < GEMMS; j++, at += GEMM_US + 10)
            sample_kineto_kernel(&sample, "sm90_xmma_gemm", 7, at, at + 8, GEMM_US, "");
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        sample_kineto_event(&sample, "user_annotation", name, 1, begin - 2, at - begin, "");
        at += 5;
    }
    sample_kineto_open(&sample, &list);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, &verdict));
    const struct aorta_finding *first = &verdict.findings[0];
    assert_int_equal(first->cause, AORTA_CAUSE_COPY);
    assert_true(fabs(first->gain_ms - COPY_US / 1e3) < 0.05 * COPY_US / 1e3);
    const struct aorta_fact *limit = aorta_facts_find(&first->facts, AORTA_FACT_OVERLAP_LIMIT);
    assert_int_equal(limit != NULL, dwarf);
    if (dwarf) assert_true(fabs(limit->value - GEMMS * GEMM_US / 1e3) < 0.01);
    if (dwarf)
        assert_non_null(
            strstr(first->fixes[0].row->text, "keep the data on the GPU between kernels")); /* it uses no framework */
    if (!dwarf) said_expect(said_text(&verdict), " ms in cudaMemcpyAsync\n");
    if (!dwarf) said_expect(said_text(&verdict), "on a separate stream, one step ahead\n");
    for (size_t i = 1; i < verdict.finding_count; i++)
        if (verdict.findings[i].cause == AORTA_CAUSE_HOST_LAUNCH)
            assert_true(aorta_finding_shown_ms(&verdict.findings[i]) < 0.1 * COPY_US / 1e3);
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

static void pageable_copies_are_copies_not_late_launches(void **state) {
    (void)state;
    check_copies(2000, false);
}

/* One copy of 15 ms before all kernels: there is no step to be ahead of. */
static void an_upload_before_the_work_is_split(void **state) {
    enum { MANY = 40 };
    (void)state;
    struct sample_kineto sample;
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    char name[32];
    sample_kineto_begin(&sample, 0, 1);
    double at = add_copy(&sample, 1000, 0, 2000);
    for (int i = 0; i < MANY; i++, at += GEMM_US + 10) {
        snprintf(name, sizeof name, "kernel_%c%c", 'a' + i / 20, 'a' + i % 20); /* nothing repeats */
        sample_kineto_kernel(&sample, name, 7, at, at + 8, GEMM_US, "");
    }
    sample_kineto_open(&sample, &list);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, &verdict));
    assert_true(verdict.whole);
    const struct aorta_finding *copies = aorta_verdict_find(&verdict, AORTA_CAUSE_COPY);
    assert_non_null(copies);
    said_expect(said_advice(copies), "in parts: kernels start on the first part");
    assert_null(strstr(said_text(&verdict), "step ahead"));
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

static void copies_that_dwarf_kernels_cannot_be_hidden(void **state) {
    (void)state;
    check_copies(14000, true);
}

static double add_link(struct sample_kineto *sample, const char *name, double at, double length_us, double bytes) {
    char args[128];
    snprintf(args, sizeof args, "\"correlation\": %u", ++sample->correlation);
    sample_kineto_event(sample, "cuda_runtime", "cudaMemcpy", 1, at, length_us + 4, args);
    snprintf(args, sizeof args, "\"device\": 0, \"stream\": 7, \"bytes\": %.0f, \"correlation\": %u", bytes,
             sample->correlation);
    sample_kineto_event(sample, "gpu_memcpy", name, 7, at + 2, length_us, args);
    return at + length_us + 6;
}

/* 60 MB come at 4 GB/s, a kernel uses them, and 60 MB go back. At 12 to 25 GB/s a copy takes 5 to 2.4 ms. With `again`
 * the data then comes once more for a second kernel: it could have stayed.
 *
 *   GPU   | HtoD, 15 ms | kernel, 0.3 ms | DtoH, 15 ms |           | HtoD, 15 ms | kernel | */
static void data_that_crosses_once_can_only_be_faster(void **state) {
    (void)state;
    static const struct {
        const char *memory, *advice;
        bool again;
        double least_ms, most_ms;
    } rows[] = {{"Pageable", "cudaHostAlloc", false, 2 * (15 - 5), 2 * (15 - 2.4) + 0.3},
                {"Pinned", "cudaHostAlloc", false, 0, 0.3}, /* the kernel runs during parts of them */
                {"Pageable", "keep the data on the GPU", true, 45 - 15, 45 - 2.4}}; /* the first copy stays */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sample_kineto sample;
        struct aorta_trace_list list = {0};
        struct aorta_trace_analysis analysis;
        struct aorta_verdict verdict;
        char up[64], down[64];
        double range_ms[2];
        snprintf(up, sizeof up, "Memcpy HtoD (%s -> Device)", rows[i].memory);
        snprintf(down, sizeof down, "Memcpy DtoH (Device -> %s)", rows[i].memory);
        sample_kineto_begin(&sample, 0, 1);
        double at = 1000;
        for (int j = 0; j <= rows[i].again; j++) {
            at = add_link(&sample, up, at, 15000, 60e6);
            sample_kineto_kernel(&sample, j ? "second" : "first", 7, at, at + 6, GEMM_US, "");
            at += 10 + GEMM_US;
            if (!j) at = add_link(&sample, down, at, 15000, 60e6);
        }
        sample_kineto_open(&sample, &list);
        check_ok(aorta_trace_analyze(&list, NULL, &analysis));
        said_make(&analysis, &verdict);
        const struct aorta_finding *copies = said_finding(&verdict, AORTA_CAUSE_COPY);
        aorta_finding_shown_range(copies, range_ms);
        said_near(range_ms[0], rows[i].least_ms, 0.1);
        said_near(range_ms[1], rows[i].most_ms, 0.1);
        said_expect(said_advice(copies), rows[i].advice);
        if (!i) said_expect(said_words(&verdict), " in all if faster (-");
        if (rows[i].again) said_expect(said_text(&verdict), "input and results take 15.0 ms\n");
        aorta_verdict_free(&verdict);
        aorta_trace_analysis_free(&analysis);
        aorta_trace_list_free(&list);
    }
}

static void check_advice(const char *copied, enum aorta_fact_key fact, bool at_best, const char *words) {
    struct sample_kineto sample;
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < STEPS; i++) {
        char name[32], launch[64], copy[128];
        const double at = 10000 + 1000 * i;
        snprintf(launch, sizeof launch, "\"correlation\": %d", 900000 + i);
        snprintf(copy, sizeof copy, "\"device\": 0, \"stream\": 7, \"correlation\": %d, \"bytes\": 50000000",
                 900000 + i);
        sample_kineto_event(&sample, "cuda_runtime", "cudaMemcpyAsync", 1, 1000 + 100 * i, 5, launch);
        sample_kineto_event(&sample, copied[3] == 's' ? "gpu_memset" : "gpu_memcpy", copied, 7, at, 400, copy);
        sample_kineto_kernel(&sample, "at::native::reduce_kernel", 7, 1010 + 100 * i, at + 402, 590, "");
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        sample_kineto_event(&sample, "user_annotation", name, 1, 995 + 100 * i, 90, "");
    }
    sample_kineto_open(&sample, &list);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, &verdict));
    const struct aorta_finding *copies = NULL;
    for (size_t i = 0; i < verdict.finding_count; i++)
        if (verdict.findings[i].cause == AORTA_CAUSE_COPY) copies = &verdict.findings[i];
    assert_non_null(copies);
    assert_true(aorta_facts_has(&copies->facts, fact));
    assert_int_equal(copies->at_best_ms > 0, at_best);
    said_expect(copies->fixes[0].row->text, words);
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

/* Another GPU needs what is copied: no more of it can be hidden than kernels run.
 *
 *   GPU   | PtoP, 15 ms | kernel, 0.3 ms | PtoP, 15 ms | */
static void copies_between_gpus_hide_behind_kernels_alone(void **state) {
    (void)state;
    struct sample_kineto sample;
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    sample_kineto_begin(&sample, 0, 1);
    const double at = add_link(&sample, "Memcpy PtoP (Device -> Device)", 1000, 15000, 60e6);
    sample_kineto_kernel(&sample, "first", 7, at, at + 6, GEMM_US, "");
    (void)add_link(&sample, "Memcpy PtoP (Device -> Device)", at + 10 + GEMM_US, 15000, 60e6);
    sample_kineto_open(&sample, &list);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    said_make(&analysis, &verdict);
    const struct aorta_finding *copies = said_finding(&verdict, AORTA_CAUSE_COPY);
    said_near(aorta_finding_most_ms(copies), GEMM_US / 1e3, 0.01);
    assert_true(verdict.replay.floor_ms > 29);
    said_expect(said_advice(copies), "fewer, larger copies");
    said_expect(said_words(&verdict), "Verdict: gains unknown: 99% of the time is exposed copies, 1% compute ");
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

/* Copies between GPUs and pages of unified memory need no pinned memory, results need no input ahead of time. */
static void copies_have_advice_by_their_kind(void **state) {
    (void)state;
    check_advice("Memcpy PtoP (Device -> Device)", AORTA_FACT_PEER_COPIES, true, "between GPUs");
    check_advice("Memcpy HtoD (Unified memory)", AORTA_FACT_MIGRATIONS, false, "cudaMemPrefetchAsync");
    check_advice("Memcpy DtoH (Device -> Pageable)", AORTA_FACT_COPIES_OUT, false, "copy results into pinned memory");
    check_advice("Memcpy HtoD (Pageable -> Device)", AORTA_FACT_PAGEABLE, false, "pin_memory=True");
    check_advice("Memset (Device)", AORTA_FACT_FILLS, false, "fill only what is read");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pageable_copies_are_copies_not_late_launches),
                                       cmocka_unit_test(an_upload_before_the_work_is_split),
                                       cmocka_unit_test(copies_that_dwarf_kernels_cannot_be_hidden),
                                       cmocka_unit_test(data_that_crosses_once_can_only_be_faster),
                                       cmocka_unit_test(copies_between_gpus_hide_behind_kernels_alone),
                                       cmocka_unit_test(copies_have_advice_by_their_kind)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
