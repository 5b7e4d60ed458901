#include "hwq/gaps.h"

#include "base/array.h"
#include "base/statistics.h"

#include <stdlib.h>

aorta_status aorta_hwq_samples_add(struct aorta_hwq_samples *samples, double value) {
    AORTA_TRY(aorta_array_reserve(&samples->items, &samples->capacity, samples->count + 1, sizeof *samples->items,
                                  "samples"));
    samples->items[samples->count++] = value;
    return NULL;
}

void aorta_hwq_samples_free(struct aorta_hwq_samples *samples) {
    free(samples->items);
    *samples = (struct aorta_hwq_samples){0};
}

double aorta_hwq_samples_median(const struct aorta_hwq_samples *samples) {
    return aorta_summarise(samples->items, samples->count).p50;
}

void aorta_hwq_gaps_free(struct aorta_hwq_gaps *gaps) {
    aorta_hwq_samples_free(&gaps->inter);
    aorta_hwq_samples_free(&gaps->intra);
    aorta_hwq_samples_free(&gaps->host_inter);
    aorta_hwq_samples_free(&gaps->host_intra);
}

/* ---- one iteration ---- */

struct iteration {
    struct aorta_hwq_gaps *gaps;
    struct aorta_span *work; /* without calls of the host */
    int64_t *call_ends;
    size_t work_count, call_count;
};

static bool is_caused_by_host(const struct iteration *iteration, const struct aorta_span *before,
                              const struct aorta_span *after) {
    if (after->launch_ns > before->end_ns) return true;
    for (size_t i = 0; i < iteration->call_count; i++)
        if (iteration->call_ends[i] > before->end_ns && iteration->call_ends[i] <= after->start_ns) return true;
    return false;
}

static aorta_status add_gap(void *user, const struct aorta_span *before, const struct aorta_span *after) {
    const struct iteration *iteration = user;
    struct aorta_hwq_gaps *gaps = iteration->gaps;
    const bool host = is_caused_by_host(iteration, before, after);
    struct aorta_hwq_samples *intra = host ? &gaps->host_intra : &gaps->intra;
    struct aorta_hwq_samples *inter = host ? &gaps->host_inter : &gaps->inter;
    return aorta_hwq_samples_add(before->stream == after->stream ? intra : inter,
                                 (double)(after->start_ns - before->end_ns));
}

static void split_spans(struct iteration *iteration, const struct aorta_hwq_spans *spans) {
    for (size_t i = 0; i < spans->count; i++) {
        if (spans->items[i].kind == AORTA_SPAN_HOST)
            iteration->call_ends[iteration->call_count++] = spans->items[i].end_ns;
        else
            iteration->work[iteration->work_count++] = spans->items[i];
    }
}

aorta_status aorta_hwq_gaps_add(struct aorta_hwq_gaps *gaps, const struct aorta_hwq_spans *spans) {
    struct iteration iteration = {.gaps = gaps};
    iteration.work = malloc((spans->count + 1) * sizeof *iteration.work);
    iteration.call_ends = malloc((spans->count + 1) * sizeof *iteration.call_ends);
    aorta_status status = NULL;
    if (!iteration.work || !iteration.call_ends)
        status = AORTA_ERROR(AORTA_MEMORY, "no host memory for the gaps of %zu kernels", spans->count);
    if (!status) {
        split_spans(&iteration, spans);
        status = aorta_gaps_on_streams(iteration.work, iteration.work_count, add_gap, &iteration);
    }
    if (!status) status = aorta_gaps_between_streams(iteration.work, iteration.work_count, add_gap, &iteration);
    free(iteration.work);
    free(iteration.call_ends);
    return status;
}
