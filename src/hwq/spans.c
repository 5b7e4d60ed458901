#include "hwq/spans.h"
#include "base/interval.h"

#include <stdlib.h>

/* ---- gaps ---- */

static int compare(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

static int by_start(const struct aorta_span *a, const struct aorta_span *b) {
    const int start = compare(a->start_ns, b->start_ns);
    return start ? start : compare(a->end_ns, b->end_ns);
}

static int order_by_start(const void *x, const void *y) {
    const struct aorta_span *const *a = x, *const *b = y;
    return by_start(*a, *b);
}

static int order_by_end(const void *x, const void *y) {
    const struct aorta_span *const *a = x, *const *b = y;
    const int end = compare((*a)->end_ns, (*b)->end_ns);
    return end ? end : compare((*a)->start_ns, (*b)->start_ns);
}

static int order_by_stream(const void *x, const void *y) {
    const struct aorta_span *const *a = x, *const *b = y;
    const int stream = compare((*a)->stream, (*b)->stream);
    return stream ? stream : by_start(*a, *b);
}

static const struct aorta_span **sort(const struct aorta_span *spans, size_t count,
                                      int (*order)(const void *, const void *)) {
    const struct aorta_span **sorted = malloc((count + 1) * sizeof *sorted);
    for (size_t i = 0; sorted && i < count; i++) sorted[i] = &spans[i];
    if (sorted) qsort(sorted, count, sizeof *sorted, order);
    return sorted;
}

static aorta_status no_memory(size_t count) {
    return AORTA_ERROR(AORTA_MEMORY, "no memory to sort %zu kernels", count);
}

aorta_status aorta_gaps_on_streams(const struct aorta_span *spans, size_t count, aorta_gap_visitor visit, void *user) {
    const struct aorta_span **sorted = sort(spans, count, order_by_stream);
    aorta_status status = sorted ? NULL : no_memory(count);
    for (size_t i = 1; i < count && !status; i++)
        if (sorted[i]->stream == sorted[i - 1]->stream) status = visit(user, sorted[i - 1], sorted[i]);
    free(sorted);
    return status;
}

/* `ended` counts the spans that ended before the current start. A span without length may be among them itself. */
static aorta_status visit_last_ends(const struct aorta_span *const *starts, const struct aorta_span *const *ends,
                                    size_t count, aorta_gap_visitor visit, void *user) {
    size_t ended = 0;
    for (size_t i = 0; i < count; i++) {
        const struct aorta_span *span = starts[i];
        while (ended < count && ends[ended]->end_ns <= span->start_ns) ended++;
        size_t last = ended;
        if (last && ends[last - 1] == span) last--;
        if (last && ends[last - 1]->stream != span->stream) AORTA_TRY(visit(user, ends[last - 1], span));
    }
    return NULL;
}

aorta_status aorta_gaps_between_streams(const struct aorta_span *spans, size_t count, aorta_gap_visitor visit,
                                        void *user) {
    const struct aorta_span **starts = sort(spans, count, order_by_start), **ends = sort(spans, count, order_by_end);
    aorta_status status = starts && ends ? visit_last_ends(starts, ends, count, visit, user) : no_memory(count);
    free(starts);
    free(ends);
    return status;
}

/* ---- busy time ---- */

static void measure(const struct aorta_span *spans, size_t count, struct aorta_intervals sets[3],
                    struct aorta_span_times *times) {
    struct aorta_intervals *work = &sets[0], *calls = &sets[1], *alone = &sets[2];
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        const struct aorta_span *span = &spans[i];
        const bool host = span->kind == AORTA_SPAN_HOST;
        aorta_intervals_add(host ? calls : work, span->start_ns, span->end_ns);
        if (!host) times->sum_ns += span->end_ns - span->start_ns;
        if (span->start_ns < first_ns) first_ns = span->start_ns;
        if (span->end_ns > last_ns) last_ns = span->end_ns;
    }
    aorta_intervals_subtract(calls, work, alone);
    times->span_ns = count ? last_ns - first_ns : 0;
    times->busy_ns = aorta_intervals_length(work);
    times->host_ns = aorta_intervals_length(alone);
    times->idle_ns = times->span_ns - times->busy_ns - times->host_ns;
}

aorta_status aorta_spans_measure(const struct aorta_span *spans, size_t count, struct aorta_span_times *times) {
    struct aorta_intervals sets[3] = {{0}};
    *times = (struct aorta_span_times){0};
    measure(spans, count, sets, times);
    aorta_status status = aorta_intervals_check(&sets[2]);
    for (int i = 0; i < 3; i++) aorta_intervals_free(&sets[i]);
    return status;
}
