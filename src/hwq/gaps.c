#include "hwq/gaps.h"

#include "base/statistics.h"

#include <stdlib.h>

aorta_status aorta_hwq_samples_add(struct aorta_hwq_samples *samples, double value) {
    if (samples->count == samples->capacity) {
        const size_t capacity = samples->capacity ? 2 * samples->capacity : 1024;
        double *items = realloc(samples->items, capacity * sizeof *items);
        if (!items) return AORTA_ERROR(AORTA_MEMORY, "no host memory for %zu samples", capacity);
        samples->items = items;
        samples->capacity = capacity;
    }
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

static int by_start(const void *x, const void *y) {
    const struct aorta_hwq_span *const *a = x, *const *b = y;
    if ((*a)->start_ns != (*b)->start_ns) return (*a)->start_ns < (*b)->start_ns ? -1 : 1;
    return (*a)->end_ns < (*b)->end_ns ? -1 : (*a)->end_ns > (*b)->end_ns;
}

static int by_end(const void *x, const void *y) {
    const struct aorta_hwq_span *const *a = x, *const *b = y;
    if ((*a)->end_ns != (*b)->end_ns) return (*a)->end_ns < (*b)->end_ns ? -1 : 1;
    return (*a)->start_ns < (*b)->start_ns ? -1 : (*a)->start_ns > (*b)->start_ns;
}

static aorta_status show_intra(aorta_hwq_pair_seen seen, void *user, const struct aorta_hwq_span *const *starts,
                               size_t count) {
    const struct aorta_hwq_span *before[AORTA_HWQ_MAX_STREAMS] = {0};
    for (size_t i = 0; i < count; i++) {
        const struct aorta_hwq_span *span = starts[i], *last = before[span->stream];
        if (last) AORTA_TRY(seen(user, last, span));
        before[span->stream] = span;
    }
    return NULL;
}

/* Ends are passed in their order while starts are, so that the one passed last is the latest before a start. A span
 * too short for the clock may have passed itself. */
static aorta_status show_inter(aorta_hwq_pair_seen seen, void *user, const struct aorta_hwq_span *const *starts,
                               const struct aorta_hwq_span *const *ends, size_t count) {
    size_t passed = 0;
    for (size_t i = 0; i < count; i++) {
        const struct aorta_hwq_span *span = starts[i];
        while (passed < count && ends[passed]->end_ns <= span->start_ns) passed++;
        size_t last = passed;
        if (last && ends[last - 1] == span) last--;
        if (!last || ends[last - 1]->stream == span->stream) continue;
        AORTA_TRY(seen(user, ends[last - 1], span));
    }
    return NULL;
}

aorta_status aorta_hwq_pairs(const struct aorta_hwq_spans *spans, aorta_hwq_pair_seen seen, void *user) {
    const struct aorta_hwq_span **starts = malloc((spans->count + 1) * sizeof *starts);
    const struct aorta_hwq_span **ends = malloc((spans->count + 1) * sizeof *ends);
    size_t count = 0;
    aorta_status status = NULL;
    if (starts && ends) {
        for (size_t i = 0; i < spans->count; i++)
            if (spans->items[i].kind != AORTA_HWQ_HOST) starts[count] = ends[count] = &spans->items[i], count++;
        qsort(starts, count, sizeof *starts, by_start);
        qsort(ends, count, sizeof *ends, by_end);
        status = show_intra(seen, user, starts, count);
        if (!status) status = show_inter(seen, user, starts, ends, count);
    } else {
        status = AORTA_ERROR(AORTA_MEMORY, "no host memory to order %zu stamps", spans->count);
    }
    free(starts);
    free(ends);
    return status;
}

struct iteration {
    struct aorta_hwq_gaps *gaps;
    const struct aorta_hwq_spans *spans;
    int64_t *calls; /* when calls of the host ended */
    size_t call_count;
};

/* The device waited for a launch, or, as far as stamps can tell, for a call of the host to return. */
static bool is_hosts(const struct iteration *iteration, const struct aorta_hwq_span *before,
                     const struct aorta_hwq_span *span) {
    const struct aorta_hwq_spans *spans = iteration->spans;
    if (!spans->replayed && span->queued_ns - spans->origin > before->end_ns) return true;
    for (size_t i = 0; i < iteration->call_count; i++)
        if (iteration->calls[i] > before->end_ns && iteration->calls[i] <= span->start_ns) return true;
    return false;
}

static aorta_status add_gap(void *user, const struct aorta_hwq_span *before, const struct aorta_hwq_span *span) {
    const struct iteration *iteration = user;
    struct aorta_hwq_gaps *gaps = iteration->gaps;
    const bool host = is_hosts(iteration, before, span);
    struct aorta_hwq_samples *intra = host ? &gaps->host_intra : &gaps->intra;
    struct aorta_hwq_samples *inter = host ? &gaps->host_inter : &gaps->inter;
    return aorta_hwq_samples_add(before->stream == span->stream ? intra : inter,
                                 (double)(span->start_ns - before->end_ns));
}

static aorta_status find_calls(struct iteration *iteration) {
    const struct aorta_hwq_spans *spans = iteration->spans;
    size_t count = 0;
    for (size_t i = 0; i < spans->count; i++) count += spans->items[i].kind == AORTA_HWQ_HOST;
    if (!count) return NULL;
    iteration->calls = malloc(count * sizeof *iteration->calls);
    if (!iteration->calls) return AORTA_ERROR(AORTA_MEMORY, "no host memory for %zu calls", count);
    for (size_t i = 0; i < spans->count; i++)
        if (spans->items[i].kind == AORTA_HWQ_HOST) iteration->calls[iteration->call_count++] = spans->items[i].end_ns;
    return NULL;
}

aorta_status aorta_hwq_gaps_add(struct aorta_hwq_gaps *gaps, const struct aorta_hwq_spans *spans) {
    struct iteration iteration = {.gaps = gaps, .spans = spans};
    AORTA_TRY(find_calls(&iteration));
    aorta_status status = aorta_hwq_pairs(spans, add_gap, &iteration);
    free(iteration.calls);
    return status;
}
