#include "samples/measured.h"
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

static int iteration_order(const void *left, const void *right) {
    const struct aorta_iteration *a = left, *b = right;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    return (a->step > b->step) - (a->step < b->step);
}

static void add_rank(const struct aorta_iteration *iterations, size_t count, const struct aorta_metrics_device *device,
                     struct aorta_trace_list *traces) {
    char path[32];
    struct aorta_measured_step *steps = calloc(count, sizeof *steps);
    struct aorta_trace *trace;
    assert_non_null(steps);
    for (size_t i = 0; i < count; i++)
        steps[i] = (struct aorta_measured_step){iterations[i].step, 0, iterations[i].profile};
    snprintf(path, sizeof path, "rank %d", iterations[0].rank);
    const struct aorta_measured_rank rank = {.rank = iterations[0].rank,
                                             .path = path,
                                             .on_gpu = iterations[0].on_gpu,
                                             .device = device,
                                             .steps = steps,
                                             .step_count = count};
    check_ok(aorta_trace_of_measured(&rank, &trace));
    check_ok(aorta_trace_list_add(traces, trace));
    free(steps);
}

aorta_status sample_analyze(const struct aorta_iteration *iterations, size_t count, int warmup,
                            const struct aorta_metrics_device *device, struct sample_recording *recording) {
    struct aorta_iteration *sorted = calloc(count + 1, sizeof *sorted);
    assert_non_null(sorted);
    memcpy(sorted, iterations, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, iteration_order);
    *recording = (struct sample_recording){0};
    for (size_t i = 0, same; i < count; i += same) {
        for (same = 1; i + same < count && sorted[i + same].rank == sorted[i].rank;) same++;
        add_rank(sorted + i, same, device, &recording->traces);
    }
    free(sorted);
    const struct aorta_trace_analysis_options options = {.warmup_given = warmup >= 0,
                                                         .warmup = warmup >= 0 ? (size_t)warmup : 0};
    return aorta_trace_analyze(&recording->traces, &options, &recording->analysis);
}

void sample_recording_free(struct sample_recording *recording) {
    aorta_trace_analysis_free(&recording->analysis);
    aorta_trace_list_free(&recording->traces);
}
