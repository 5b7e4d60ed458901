/* How long collectives ran on the host, in a recording without a device. */
#include "base/interval.h"
#include "verdict/verdict_internal.h"

#include <string.h>

/* `ran`: gloo's ranges; `compute`: operations of the program that are neither ranges nor collectives. */
static void collect(const struct aorta_trace *trace, struct aorta_intervals *ran, struct aorta_intervals *compute,
                    const char **name) {
    for (size_t i = 0; i < trace->annotation_count; i++) {
        const struct aorta_trace_annotation *range = &trace->annotations[i];
        if (!aorta_trace_is_gloo_range(aorta_trace_text(trace, range->name))) continue;
        *name = aorta_trace_text(trace, range->name);
        aorta_intervals_add(ran, range->start_ns, range->end_ns);
    }
    for (size_t i = 0; i < trace->operation_count; i++) {
        const struct aorta_trace_operation *operation = &trace->operations[i];
        if (operation->range || strncmp(aorta_trace_text(trace, operation->name), "c10d::", 6) == 0) continue;
        aorta_intervals_add(compute, operation->start_ns, operation->end_ns);
    }
}

void aorta_verdict_host_collectives(const struct aorta_trace *trace, struct aorta_verdict *verdict) {
    struct aorta_intervals ran = {0}, compute = {0}, alone = {0};
    const char *name = NULL;
    collect(trace, &ran, &compute, &name);
    aorta_intervals_normalise(&ran);
    aorta_intervals_normalise(&compute);
    aorta_intervals_subtract(&ran, &compute, &alone);
    verdict->arena->failed |= alone.failed;
    double ran_ns = 0, alone_ns = 0, all_ns = 0;
    for (size_t i = 0; i < trace->step_count; i++) {
        ran_ns += (double)aorta_intervals_within(&ran, trace->steps[i].start_ns, trace->steps[i].end_ns);
        alone_ns += (double)aorta_intervals_within(&alone, trace->steps[i].start_ns, trace->steps[i].end_ns);
        all_ns += (double)(trace->steps[i].end_ns - trace->steps[i].start_ns);
    }
    if (!trace->step_count) {
        ran_ns = (double)aorta_intervals_length(&ran);
        alone_ns = (double)aorta_intervals_length(&alone);
    }
    if (all_ns > 0) verdict->host_alone = alone_ns / all_ns;
    const double steps = trace->step_count ? (double)trace->step_count : 1;
    verdict->host_collectives.name = name ? aorta_arena_strdup(verdict->arena, name) : NULL;
    verdict->host_collectives.ran_ms = ran_ns / 1e6 / steps;
    verdict->host_collectives.alone_ms = alone_ns / 1e6 / steps;
    aorta_intervals_free(&ran);
    aorta_intervals_free(&compute);
    aorta_intervals_free(&alone);
}
