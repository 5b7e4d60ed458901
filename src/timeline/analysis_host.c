/* What the host was doing while the device had nothing to do. Only threads that launch work count: a watchdog that
 * waits holds nobody up. */
#include "timeline/analysis_parts.h"

#include <stdlib.h>
#include <string.h>

/* Calls that return only when the device has come so far. */
static bool waits_for_device(const struct aorta_trace *trace, const struct aorta_trace_call *call) {
    if (call->kind == AORTA_CALL_SYNC) return true;
    const char *name = aorta_trace_text(trace, call->name);
    if (strstr(name, "Async")) return false;
    return call->kind == AORTA_CALL_COPY || (call->kind == AORTA_CALL_MEMORY && strstr(name, "Free"));
}

bool aorta_trace_call_launches(const struct aorta_trace_call *call) {
    return call->kind == AORTA_CALL_LAUNCH || call->kind == AORTA_CALL_GRAPH_LAUNCH || call->kind == AORTA_CALL_COPY ||
           call->kind == AORTA_CALL_FILL || call->kind == AORTA_CALL_OTHER;
}

/* The time lost by a wait of length d: the wait itself, and of the time until the thread's next launch what would not
 * have been lost without it, which is d at most. */
static int64_t lost_until(const struct aorta_trace_call *call, int64_t next_launch_ns) {
    int64_t until_ns = call->end_ns + (call->end_ns - call->start_ns);
    if (next_launch_ns < until_ns) until_ns = next_launch_ns;
    return until_ns > call->end_ns ? until_ns : call->end_ns;
}

aorta_status aorta_trace_waits_make(const struct aorta_trace_rank *rank, struct aorta_host_waits *waits) {
    const struct aorta_trace *trace = rank->trace;
    int64_t *next_ns = malloc((trace->thread_count + 1) * sizeof *next_ns); /* the thread's next launch */
    bool *launching = calloc(trace->thread_count + 1, sizeof *launching);
    struct aorta_intervals data = {0}, device = {0};
    aorta_status status = NULL;
    if (!next_ns || !launching) status = AORTA_ERROR(AORTA_MEMORY, "no memory for %zu threads", trace->thread_count);
    for (size_t i = 0; !status && i < trace->thread_count; i++) next_ns[i] = INT64_MAX;
    for (size_t i = 0; !status && i < trace->call_count; i++)
        if (aorta_trace_call_launches(&trace->calls[i])) launching[trace->calls[i].thread] = true;
    for (size_t i = trace->call_count; !status && i-- > 0;) { /* backwards, so that what comes next is known */
        const struct aorta_trace_call *call = &trace->calls[i];
        if (call->kind == AORTA_CALL_DATA_WAIT)
            status = aorta_intervals_add(&data, call->start_ns, call->end_ns);
        else if (launching[call->thread] && waits_for_device(trace, call))
            status = aorta_intervals_add(&device, call->start_ns, lost_until(call, next_ns[call->thread]));
        if (aorta_trace_call_launches(call)) next_ns[call->thread] = call->start_ns;
    }
    free(next_ns);
    free(launching);
    return aorta_status_join(status, aorta_host_waits_make(&data, &device, waits));
}
