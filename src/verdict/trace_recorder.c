/* What recording added to the time that the device waited for its host. */
#include "verdict/verdict_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* CUPTI's calls around a launch and the record of it: 2.8 ms of a step of 813 kernels on an H100's host
 * (docs/results.md, bench/trace_run_cost.py). A replayed graph is one launch. */
enum { LAUNCH_NS = 3500 };

static const double least_share = 0.05; /* of a step: below it no note is given */
static const double least_part = 0.10;  /* of the waiting */

/* Calls that launched what the window holds. `seen`: a mark for each call of the trace, cleared. */
static size_t launches_in(const struct aorta_trace_rank *rank, const struct aorta_trace_window *window, bool *seen) {
    size_t count = 0;
    for (size_t i = 0; i < window->profile.range_count; i++) {
        const uint32_t call = rank->work[window->work[i]].call;
        if (call == AORTA_TRACE_NONE || seen[call]) continue;
        seen[call] = true;
        count++;
    }
    return count;
}

/* Launches of a step, mean over ranks and steps. */
static aorta_status mean_launches(const struct aorta_trace_analysis *analysis, double *launches) {
    size_t count = 0, windows = 0;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        bool *seen = calloc(rank->trace->call_count + 1, sizeof *seen);
        if (!seen) return AORTA_ERROR(AORTA_MEMORY, "no memory to count %zu calls", rank->trace->call_count);
        for (size_t j = 0; j < rank->window_count; j++) {
            if (!aorta_trace_window_counts(analysis, &rank->windows[j])) continue;
            count += launches_in(rank, &rank->windows[j], seen);
            windows++;
        }
        free(seen);
    }
    *launches = windows ? (double)count / (double)windows : 0.0;
    return NULL;
}

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

aorta_status aorta_trace_recording_note(const struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict) {
    double launches;
    char share[192], sentence[256];
    for (size_t i = 0; i < analysis->rank_count; i++)
        if (analysis->ranks[i].trace->format != AORTA_TRACE_SPOOL) return NULL;
    AORTA_TRY(mean_launches(analysis, &launches));
    if (!aorta_recording_share(verdict, launches, share, sizeof share)) return NULL;
    snprintf(sentence, sizeof sentence, "%s; --record kernels costs less", share);
    return aorta_verdict_note(verdict, "recording", sentence);
}
