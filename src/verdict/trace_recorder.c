/* How much recording added to the time that the device waited for its host. */
#include "verdict/verdict_internal.h"

/* CUPTI's calls around a launch and the record of it: 2.8 ms of a step of 813 kernels on an H100's host
 * (docs/results.md, bench/trace_run_cost.py). A replayed graph is one launch. */
enum { LAUNCH_NS = 3500 };

static const double least_share = 0.05; /* of a step: a smaller loss gets no note */
static const double least_part = 0.10;  /* of the late launches */

static double cost_of(const struct aorta_verdict *verdict, enum aorta_cause cause) {
    double cost_ms = 0.0;
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (verdict->findings[i].cause == cause) cost_ms += verdict->findings[i].cost_ms;
    return cost_ms;
}

double aorta_recording_share(const struct aorta_verdict *verdict, double launches) {
    const double late_ms = cost_of(verdict, AORTA_CAUSE_HOST_LAUNCH), own_ms = launches * LAUNCH_NS * 1e-6;
    if (verdict->idle_unexplained || late_ms < least_share * verdict->step_ms_mean) return 0;
    if (own_ms < least_part * late_ms) return 0;
    return own_ms < late_ms ? own_ms : late_ms;
}
