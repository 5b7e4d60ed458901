/* How much of newly hidden communication comes back as slower compute where the recording has no overlap to measure. */
#include "trace/trace.h"
#include "verdict/roofline.h"
#include "verdict/verdict_internal.h"

#include <math.h>
#include <string.h>

/* Measured on two H200 (tests/gpu/contention.py, docs/results.md): time that overlap did not save, as a share of the
 * shorter side. `least`: nothing depends on the other stream; `most`: layers wait for data that was fetched during the
 * layer before. Products and attention take all multiprocessors until they end, so collectives hardly run meanwhile. */
static const struct {
    double least, most;
} lost[AORTA_WORK_CLASS_COUNT] = {
    [AORTA_WORK_GEMM] = {0.50, 0.78},      [AORTA_WORK_CONVOLUTION] = {0.21, 0.21},
    [AORTA_WORK_ATTENTION] = {0.30, 0.74}, [AORTA_WORK_POINTWISE] = {0.30, 0.35},
    [AORTA_WORK_REDUCTION] = {0.30, 0.40}, [AORTA_WORK_OTHER] = {0.30, 0.40},
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

void aorta_verdict_lost_overlap(const struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict) {
    verdict->lost_beside[0] = verdict->lost_beside[1] = verdict->slowdown.lost_per_ns;
    if (!isnan(verdict->slowdown.lost_per_ns) || !verdict->roofline_count || !are_kernels(analysis)) return;
    const struct aorta_roofline *roofline = &verdict->rooflines[0];
    if (!was_measured_on(roofline->peaks.device)) return;
    double least_ns = 0, most_ns = 0, ns = 0;
    for (int i = 0; i < AORTA_WORK_CLASS_COUNT; i++) {
        ns += (double)roofline->classes[i].ns;
        least_ns += lost[i].least * (double)roofline->classes[i].ns;
        most_ns += lost[i].most * (double)roofline->classes[i].ns;
    }
    if (!(ns > 0)) return;
    verdict->lost_beside[0] = least_ns / ns;
    verdict->lost_beside[1] = most_ns / ns;
}
