/* One large product on each stream: the peak rate of the device, and the cost of several products at once. */
#include "hwq/operations.h"

struct options {
    int64_t size;
};

static void build(struct hwq_graph *g) {
    const int64_t n = ((const struct options *)g->options)->size;
    for (int s = 0; s < g->hwq->stream_count; s++) hwq_product(g, s, AORTA_F32, n, n, n, NULL);
}

static const struct aorta_option rows[] = {
    AORTA_HWQ_ROW(struct options, size, "8192", "384", 1, HWQ_LARGEST, "rows and columns of the matrices"),
};

const struct aorta_hwq_workload aorta_hwq_large_gemm_only = {
    .name = "large_gemm_only",
    .summary = "one large fp32 product per stream: each fills the device, so more streams should change nothing",
    .group = AORTA_HWQ_P0,
    .category = "latency_sensitive",
    .sensitivity = "low",
    .streams = {.min = 1, .max = 16, .recommended = 4},
    .unit = "TFLOPS",
    .independent = true,
    AORTA_HWQ_OPTIONS(rows, struct options),
    .try_next = "--size 2048: products that do not fill the device gain from parallel streams",
    .build = build,
};
