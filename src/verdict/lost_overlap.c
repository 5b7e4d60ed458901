/* How much of newly hidden communication comes back as slower compute where the recording has no overlap to measure. */
#include "trace/trace.h"
#include "verdict/roofline.h"
#include "verdict/verdict_internal.h"

#include <math.h>
#include <string.h>

/* Measured on two H200 (tests/gpu/contention.py, docs/results.md): the share of the shorter side that overlap did not
 * save, where layers wait for data fetched during the layer before. Products and attention keep all multiprocessors
 * until they end. Attention is its forward pass; the backward pass loses 0.22. */
static const double lost[AORTA_WORK_CLASS_COUNT] = {
    [AORTA_WORK_GEMM] = 0.78,      [AORTA_WORK_CONVOLUTION] = 0.20, [AORTA_WORK_ATTENTION] = 0.74,
    [AORTA_WORK_POINTWISE] = 0.33, [AORTA_WORK_REDUCTION] = 0.38,   [AORTA_WORK_OTHER] = 0.36,
};

/* Copy engines leave the multiprocessors to compute. */
static bool are_kernels(const struct aorta_trace_analysis *analysis) {
    int64_t kernels_ns = 0, copies_ns = 0;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        for (size_t j = 0; j < rank->work_count; j++) {
            if (!aorta_trace_is_collective(&rank->work[j])) continue;
            *(rank->work[j].kind == AORTA_TRACE_COPY ? &copies_ns : &kernels_ns) +=
                rank->work[j].end_ns - rank->work[j].start_ns;
        }
    }
    return kernels_ns > copies_ns;
}

static bool was_measured_on(const char *device) {
    return device && (strstr(device, "H100") || strstr(device, "H200"));
}

double aorta_verdict_lost_overlap(const struct aorta_trace_analysis *analysis, const struct aorta_verdict *verdict) {
    if (!isnan(verdict->slowdown.lost_per_ns) || !verdict->roofline_count || !are_kernels(analysis)) return NAN;
    const struct aorta_roofline *roofline = &verdict->rooflines[0];
    if (!was_measured_on(roofline->peaks.device)) return NAN;
    double lost_ns = 0, ns = 0;
    for (int i = 0; i < AORTA_WORK_CLASS_COUNT; i++) {
        ns += (double)roofline->classes[i].ns;
        lost_ns += lost[i] * (double)roofline->classes[i].ns;
    }
    return ns > 0 ? lost_ns / ns : NAN;
}
