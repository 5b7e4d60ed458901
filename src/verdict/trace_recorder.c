/* What recording added to the time that the device waited for its host. */
#include "verdict/verdict_internal.h"

#include <stdio.h>

/* CUPTI's calls around a launch and the record of it: 2.8 ms of a step of 813 kernels on an H100's host
 * (docs/results.md, bench/trace_run_cost.py). A replayed graph is one launch. */
enum { LAUNCH_NS = 3500 };

static const double least_share = 0.05; /* of a step: below it no note is given */
static const double least_part = 0.10;  /* of the waiting */

static double cost_of(const struct aorta_verdict *verdict, enum aorta_cause cause) {
    double cost_ms = 0.0;
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (verdict->findings[i].cause == cause) cost_ms += verdict->findings[i].cost_ms;
    return cost_ms;
}

bool aorta_recording_share(const struct aorta_verdict *verdict, double launches, char *sentence, size_t size) {
    const double late_ms = cost_of(verdict, AORTA_CAUSE_HOST_LAUNCH), own_ms = launches * LAUNCH_NS * 1e-6;
    if (verdict->idle_unexplained || late_ms < least_share * verdict->step_ms_mean) return false;
    if (own_ms < least_part * late_ms) return false;
    snprintf(sentence, size,
             "up to %s of the %s ms of late launches are its own, as it makes each of %.0f launches a step some %.1f "
             "us longer",
             aorta_brief(own_ms < late_ms ? own_ms : late_ms).text, aorta_brief(late_ms).text, launches,
             LAUNCH_NS * 1e-3);
    return true;
}
