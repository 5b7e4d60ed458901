/* Managed memory, whose pages move when they are touched. In us:
 *
 *     host     [launch][ synchronize ]   reads page after page, no call
 *     GPU         [ kernel 10000      ]  |10|  490  |10|  490  |10| …           pages to the host
 *
 *     GPU         [ kernel 10000                        ]                       its pages: a fault of 50 us at most
 *                 |  fault |page 20|  fault |page 20| …                         and the page, every 100 us */
#include "said.h"
#include "samples/kineto.h"
#include "trace/open.h"
#include "verdict/verdict.h"

enum { PAGES = 90, PAGE_BYTES = 65536 };
static const double KERNEL_US = 10000;

static struct aorta_trace_list list;
static struct aorta_trace_analysis analysis;
static struct aorta_verdict verdict;

static void add_pages(struct sample_kineto *sample, const char *name, double at, double every_us, double length_us) {
    char args[96];
    snprintf(args, sizeof args, "\"device\": 0, \"stream\": 0, \"bytes\": %d", PAGE_BYTES);
    for (int i = 0; i < PAGES; i++)
        sample_kineto_event(sample, "gpu_memcpy", name, 0, at + i * every_us, length_us, args);
}

static void begin(struct sample_kineto *sample, const char *grid) {
    sample_kineto_begin(sample, 0, 1);
    sample_kineto_kernel(sample, "add", 7, 1000, 1010, KERNEL_US, grid);
    sample_kineto_event(sample, "cuda_runtime", "cudaDeviceSynchronize", 1, 1004, KERNEL_US + 10, "");
}

static const struct aorta_finding *evaluate(struct sample_kineto *sample) {
    sample_kineto_open(sample, &list);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    said_make(&analysis, &verdict);
    assert_true(verdict.replay.known);
    return said_finding(&verdict, AORTA_CAUSE_COPY);
}

static void end(void) {
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
    list = (struct aorta_trace_list){0};
}

static void the_host_reads_page_by_page(void **state) {
    (void)state;
    struct sample_kineto sample;
    begin(&sample, "");
    add_pages(&sample, "Memcpy DtoH (Unified memory)", 1020 + KERNEL_US, 500, 10);
    const struct aorta_finding *copies = evaluate(&sample);
    assert_ptr_equal(copies, &verdict.findings[0]);
    said_near(said_value(copies, AORTA_FACT_PAGE_READS), (PAGES - 1) * 0.49, 0.01);
    said_near(said_value(copies, AORTA_FACT_COPY_ALONE), PAGES * 0.01, 0.01);
    said_near(copies->gain_ms, (PAGES - 1) * 0.5 + 0.01, 0.3);
    said_expect(said_words(&verdict), "the host reads managed memory page by page for 43.6 ms in all");
    said_expect(said_words(&verdict), "ms in all if avoided");
    said_expect(said_advice(copies), "compute on the GPU what the host computes from these pages");
    const struct aorta_finding *launches = said_finding(&verdict, AORTA_CAUSE_HOST_LAUNCH);
    assert_true(!launches || launches->cost_ms < 0.1); /* nothing is launched late */
    end();
}

static void a_kernel_waits_for_its_pages(void **state) {
    (void)state;
    static const double WAITED = PAGES * 0.07, BYTES = PAGES * (double)PAGE_BYTES / 1e6; /* ms; ms at 1 GB/s */
    struct sample_kineto sample;
    double range_ms[2];
    begin(&sample, "");
    add_pages(&sample, "Memcpy HtoD (Unified memory)", 1100, 100, 20);
    const struct aorta_finding *copies = evaluate(&sample);
    said_near(said_value(copies, AORTA_FACT_PAGE_FAULTS), WAITED, 0.01);
    aorta_finding_shown_range(copies, range_ms);
    said_near(range_ms[0], WAITED - BYTES / 12, 0.05);
    said_near(range_ms[1], WAITED - BYTES / 25, 0.05);
    said_expect(said_advice(copies), "cudaMemPrefetchAsync");
    end();
}

/* Pages that come before the kernel do not slow it down. */
static void a_kernel_does_not_wait_for_earlier_pages(void **state) {
    (void)state;
    struct sample_kineto sample;
    begin(&sample, "");
    add_pages(&sample, "Memcpy HtoD (Unified memory)", 1, 10, 9);
    const struct aorta_finding *copies = evaluate(&sample);
    assert_false(said_has(copies, AORTA_FACT_PAGE_FAULTS));
    end();
}

/* A kernel of one block that waits for 1.8 ms of pages takes as long on the whole GPU, too. */
static void more_blocks_need_the_same_pages(void **state) {
    (void)state;
    struct sample_kineto sample;
    begin(&sample, "\"grid\": [1, 1, 1], \"block\": [128, 1, 1]");
    add_pages(&sample, "Memcpy HtoD (Unified memory)", 1100, 100, 20);
    evaluate(&sample);
    said_near(said_finding(&verdict, AORTA_CAUSE_FEW_BLOCKS)->at_best_ms, KERNEL_US / 1e3 - PAGES * 0.02, 0.01);
    end();
}

/* The call fetches pages for 5 ms and is no stall of the host:
 *
 *     host   [first]   [ cudaMemPrefetchAsync 5000 ][add] */
static void fetching_pages_is_copying(void **state) {
    (void)state;
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 1);
    sample_kineto_kernel(&sample, "first", 7, 100, 110, 50, "");
    sample_kineto_event(&sample, "cuda_runtime", "cudaMemPrefetchAsync", 1, 200, 5000, "");
    sample_kineto_kernel(&sample, "add", 7, 5210, 5220, 50, "");
    const struct aorta_finding *copies = evaluate(&sample);
    assert_non_null(copies);
    said_near(copies->gain_ms, 5, 0.2);
    assert_null(said_finding(&verdict, AORTA_CAUSE_HOST_PAUSE));
    end();
}

/* The fill touches pages that the host wrote: they wait for it, and so for the host, not for the pages before:
 *
 *     host   [launch][synchronize]   computes 5000      [fill][launch][synchronize]
 *     GPU        [ kernel ]|pages|                       [ fill |page| ][ kernel ] */
static void pages_come_after_the_fill_that_touches_them(void **state) {
    (void)state;
    static const char *const PAGE = "\"device\": 0, \"stream\": 0, \"bytes\": 65536",
                             *const FILL = "\"device\": 0, \"stream\": 7, \"bytes\": 65536, \"correlation\": 99";
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 1);
    sample_kineto_kernel(&sample, "first", 7, 1000, 1010, 1000, "");
    sample_kineto_event(&sample, "cuda_runtime", "cudaDeviceSynchronize", 1, 1004, 1010, "");
    sample_kineto_event(&sample, "gpu_memcpy", "Memcpy DtoH (Unified memory)", 0, 2020, 10, PAGE);
    sample_kineto_event(&sample, "cuda_runtime", "cudaMemsetAsync", 1, 7000, 5, "\"correlation\": 99");
    sample_kineto_event(&sample, "gpu_memset", "Memset (Device)", 0, 7010, 300, FILL);
    sample_kineto_event(&sample, "gpu_memcpy", "Memcpy HtoD (Unified memory)", 0, 7100, 10, PAGE);
    sample_kineto_kernel(&sample, "second", 7, 7020, 7310, 1000, "");
    sample_kineto_event(&sample, "cuda_runtime", "cudaDeviceSynchronize", 1, 7030, 1290, "");
    evaluate(&sample);
    said_near(said_finding(&verdict, AORTA_CAUSE_HOST_PAUSE)->gain_ms, 5, 0.2);
    end();
}

/* The driver moves a page of 4 KiB for each kernel: nobody can pass it as an argument instead. */
static void pages_are_no_parameters(void **state) {
    (void)state;
    enum { STEPS = 20, STEP_US = 250 };
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < STEPS; i++) {
        const double at = 1000 + i * STEP_US;
        char step[32];
        snprintf(step, sizeof step, "ProfilerStep#%d", i);
        sample_kineto_event(&sample, "user_annotation", step, 1, at, STEP_US - 1, "");
        sample_kineto_kernel(&sample, "add", 7, at + 1, at + 10, 100, "");
        sample_kineto_event(&sample, "cuda_runtime", "cudaStreamSynchronize", 1, at + 6, 110, "");
        sample_kineto_event(&sample, "gpu_memcpy", "Memcpy HtoD (Unified memory)", 0, at + 20, 2,
                            "\"device\": 0, \"stream\": 0, \"bytes\": 4096");
    }
    evaluate(&sample);
    AORTA_EACH (const struct aorta_finding, finding, verdict.findings, verdict.finding_count)
        assert_false(said_has(finding, AORTA_FACT_PARAMETERS));
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_reads_page_by_page),
        cmocka_unit_test(a_kernel_waits_for_its_pages),
        cmocka_unit_test(a_kernel_does_not_wait_for_earlier_pages),
        cmocka_unit_test(more_blocks_need_the_same_pages),
        cmocka_unit_test(fetching_pages_is_copying),
        cmocka_unit_test(pages_come_after_the_fill_that_touches_them),
        cmocka_unit_test(pages_are_no_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
