/* Work that only serves values for which the host waits. A host launches something every 20 us, and so sets the pace:
 *
 *     layer   gemm | compare fill any copy (wait) |   gemm | …     without the check: gemm gemm …
 */
#include "analysis/analysis.h"
#include "said.h"
#include "samples/kineto.h"
#include "trace/open.h"
#include "verdict/verdict.h"

#include <math.h>
#include <string.h>

enum { STEPS = 6, LAYERS = 12, PACE_US = 20, MOST = 16 };

#define COPY "Memcpy DtoH (Device -> Pinned)"
#define INPUT "Memcpy HtoD (Pageable -> Device)"
#define FILL "Memset (Device)"
#define WAIT "cudaStreamSynchronize"

struct pattern {
    const char *name;
    const char *work[MOST]; /* of a layer; the work that goes begins with '-' */
    enum aorta_fact_key fact;
    const char *advice;
    enum aorta_cause cause;
};

static void add(struct sample_kineto *sample, const char *name, double at) {
    const char *kind = !strncmp(name, "Memcpy", 6) ? "gpu_memcpy" : !strcmp(name, FILL) ? "gpu_memset" : NULL;
    char args[128];
    if (!strcmp(name, WAIT)) {
        sample_kineto_event(sample, "cuda_runtime", WAIT, 1, at, 3, "");
    } else if (!kind) {
        sample_kineto_kernel(sample, name, 7, at, at + 4, 3, "");
    } else {
        snprintf(args, sizeof args, "\"correlation\": %u", ++sample->correlation);
        sample_kineto_event(sample, "cuda_runtime",
                            kind[4] == 'm' && kind[7] == 'c' ? "cudaMemcpyAsync" : "cudaMemsetAsync", 1, at, 2, args);
        snprintf(args, sizeof args, "\"device\": 0, \"stream\": 7, \"bytes\": 1, \"correlation\": %u",
                 sample->correlation);
        sample_kineto_event(sample, kind, name, 7, at + 4, 3, args);
    }
}

/* Returns how long the work that goes keeps the host of a step. */
static double add_steps(struct sample_kineto *sample, const struct pattern *pattern) {
    double at = 10, goes = 0;
    for (int step = 0; step < STEPS; step++) {
        char name[32];
        const double begin = at;
        for (int layer = 0; layer < LAYERS; layer++)
            for (int i = 0; i < MOST && pattern->work[i]; i++, at += PACE_US) {
                const bool gone = pattern->work[i][0] == '-';
                add(sample, pattern->work[i] + gone, at);
                goes += gone ? PACE_US : 0;
            }
        snprintf(name, sizeof name, "ProfilerStep#%d", step);
        sample_kineto_event(sample, "user_annotation", name, 1, begin - 1, at - begin - 1, "");
    }
    return goes / STEPS;
}

static void check(const struct pattern *pattern) {
    struct sample_kineto sample;
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    sample_kineto_begin(&sample, 0, 1);
    const double goes_us = add_steps(&sample, pattern);
    sample_kineto_open(&sample, &list);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    said_make(&analysis, &verdict);
    const struct aorta_finding *waits = said_finding(&verdict, pattern->cause);
    assert_true(said_has(waits, pattern->fact));
    assert_non_null(strstr(said_advice(waits), pattern->advice));
    const double scale =
        verdict.replay.unrecorded_ms > 0 ? verdict.replay.unrecorded_ms / verdict.replay.measured_ms : 1;
    if (!(fabs(waits->alone_ms * 1e3 - scale * goes_us) < 0.15 * goes_us))
        fail_msg("%s: %f us, not %f", pattern->name, waits->alone_ms * 1e3, scale * goes_us);
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

static void launches_go_with_what_they_serve(void **state) {
    (void)state;
    static const struct pattern patterns[] = {
        {"mask",
         {"gemm", "at::native::compare", "-DeviceReduceSingleTileKernel", "-" COPY, "-" WAIT,
          "-DeviceCompactInitKernel", "-DeviceSelectSweepKernel", "index"},
         AORTA_FACT_SELECTS,
         "torch.where",
         AORTA_CAUSE_HOST_SYNC},
        {"check",
         {"gemm", "at::native::elementwise<Add>", "-at::native::elementwise<CompareEq>", "-" FILL,
          "-reduce<or_kernel_cuda>", "-" COPY, "-" WAIT},
         AORTA_FACT_CHECKS,
         "set_detect_anomaly(False)",
         AORTA_CAUSE_HOST_SYNC},
        {"norms",
         {"gemm", "batch_norm_collect_statistics_kernel", "-CatArrayBatchedCopy", "-ncclDevKernel_AllGather_RING_LL",
          "-DeviceReduceSingleTileKernel", "-" COPY, "-" WAIT, "-DeviceCompactInitKernel", "-DeviceSelectSweepKernel",
          "-at::native::index", "-batch_norm_reduce_statistics_kernel", "batch_norm_transform_input_kernel"},
         AORTA_FACT_SYNC_NORMS,
         "convert_sync_batchnorm",
         AORTA_CAUSE_HOST_SYNC},
        {"values one by one", /* all but the first go, an eighth less */
         {"-at::native::elementwise<CompareEq>", "-at::native::elementwise<And>", "-reduce<sum_functor>", "-" COPY,
          "-" WAIT},
         AORTA_FACT_ONE_BY_ONE,
         "torch.stack(values)",
         AORTA_CAUSE_HOST_SYNC},
        {"experts", /* all turns but the first go, and their products' time stays: a tenth less */
         {"-DeviceSelectSweepKernel", "-" COPY, "-" WAIT, "-vectorized_gather_kernel", "-sm90_xmma_gemm",
          "-at::native::indexFuncLargeIndex"},
         AORTA_FACT_EXPERTS,
         "one grouped product for all experts",
         AORTA_CAUSE_HOST_SYNC},
        {"parameters", /* of a program in CUDA */
         {"-" INPUT, "gemm"},
         AORTA_FACT_PARAMETERS,
         "as arguments of kernels",
         AORTA_CAUSE_COPY},
        {"small copies",
         {"gemm", "-" INPUT, WAIT, "-" INPUT, WAIT, "-" INPUT, WAIT, INPUT, "at::native::elementwise<Add>"},
         AORTA_FACT_SMALL_COPIES,
         "torch.cat",
         AORTA_CAUSE_COPY},
    };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) check(&patterns[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(launches_go_with_what_they_serve)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
