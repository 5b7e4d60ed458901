/* What each hardware queue ran, which streams used it, and the gaps between its kernels. */
#include "base/interval.h"
#include "hwq/spans.h"

#include <math.h>
#include <stdlib.h>

struct gap_list {
    double *items;
    size_t count, overlapping;
};

struct analysis {
    struct aorta_span *spans; /* sorted by queue, then start */
    size_t count;
    struct aorta_queue_usage *queues;
    struct gap_list same_stream, other_stream; /* of all queues */
};

static aorta_status no_memory(size_t count) {
    return AORTA_ERROR(AORTA_MEMORY, "no memory to sort %zu kernels by their queues", count);
}

static int compare(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

static bool is_kernel(const struct aorta_span *span) {
    return span->kind != AORTA_SPAN_COPY;
}

/* ---- gaps ---- */

static aorta_status add_gap(void *user, const struct aorta_span *before, const struct aorta_span *after) {
    struct gap_list *list = user;
    const int64_t gap_ns = after->start_ns - before->end_ns;
    if (gap_ns < 0)
        list->overlapping++;
    else
        list->items[list->count++] = (double)gap_ns;
    return NULL;
}

/* Of the gaps from `first` on. */
static struct aorta_gap_summary summarise(const struct gap_list *list, const struct gap_list *first) {
    return (struct aorta_gap_summary){aorta_summarise(list->items + first->count, list->count - first->count),
                                      list->overlapping - first->overlapping};
}

/* `kernels`: those of the device. */
static aorta_status find_stream_gaps(struct aorta_queue_usage *queues, const struct aorta_span *kernels, size_t count) {
    const struct gap_list none = {0};
    struct gap_list intra = {.items = malloc((count + 1) * sizeof(double))};
    struct gap_list inter = {.items = malloc((count + 1) * sizeof(double))};
    aorta_status status = intra.items && inter.items ? NULL : no_memory(count);
    if (!status) status = aorta_gaps_on_streams(kernels, count, add_gap, &intra);
    if (!status) status = aorta_gaps_between_streams(kernels, count, add_gap, &inter);
    if (!status) queues->intra = summarise(&intra, &none);
    if (!status) queues->inter = summarise(&inter, &none);
    free(intra.items);
    free(inter.items);
    return status;
}

/* ---- unions ---- */

static aorta_status measure_union(const struct aorta_span *spans, size_t count, int64_t *length_ns) {
    struct aorta_intervals set = {0};
    for (size_t i = 0; i < count; i++) aorta_intervals_add(&set, spans[i].start_ns, spans[i].end_ns);
    *length_ns = aorta_intervals_length(&set);
    aorta_status status = aorta_intervals_check(&set);
    aorta_intervals_free(&set);
    return status;
}

/* ---- one queue ---- */

static int by_id(const void *x, const void *y) {
    return compare(*(const int64_t *)x, *(const int64_t *)y);
}

static aorta_status count_streams(const struct aorta_span *spans, size_t count, size_t *streams) {
    int64_t *ids = malloc((count + 1) * sizeof *ids);
    if (!ids) return no_memory(count);
    for (size_t i = 0; i < count; i++) ids[i] = spans[i].stream;
    qsort(ids, count, sizeof *ids, by_id);
    *streams = count > 0;
    for (size_t i = 1; i < count; i++) *streams += ids[i] != ids[i - 1];
    free(ids);
    return NULL;
}

/* Spans of one queue, by start. */
static aorta_status describe_queue(struct analysis *analysis, const struct aorta_span *spans, size_t count) {
    struct aorta_queue *queue = &analysis->queues->items[analysis->queues->count++];
    const struct gap_list same_before = analysis->same_stream, other_before = analysis->other_stream;
    const struct aorta_span *before = NULL;
    *queue = (struct aorta_queue){.id = spans->queue};
    for (size_t i = 0; i < count; i++) {
        queue->kernels += is_kernel(&spans[i]);
        queue->transfers += !is_kernel(&spans[i]);
        if (!is_kernel(&spans[i])) continue;
        const bool same = before && before->stream == spans[i].stream;
        if (before) AORTA_TRY(add_gap(same ? &analysis->same_stream : &analysis->other_stream, before, &spans[i]));
        before = &spans[i];
    }
    queue->same_stream = summarise(&analysis->same_stream, &same_before);
    queue->other_stream = summarise(&analysis->other_stream, &other_before);
    queue->changes = queue->other_stream.ns.count + queue->other_stream.overlapping;
    AORTA_TRY(count_streams(spans, count, &queue->streams));
    return measure_union(spans, count, &queue->busy_ns);
}

/* ---- the device ---- */

static int by_queue(const void *x, const void *y) {
    const struct aorta_span *a = x, *b = y;
    const int queue = compare(a->queue, b->queue), start = compare(a->start_ns, b->start_ns);
    return queue ? queue : start ? start : compare(a->end_ns, b->end_ns);
}

static int by_stream_and_queue(const void *x, const void *y) {
    const struct aorta_span *a = x, *b = y;
    const int stream = compare(a->stream, b->stream);
    return stream ? stream : compare(a->queue, b->queue);
}

static int most_kernels_first(const void *x, const void *y) {
    const struct aorta_queue *a = x, *b = y;
    if (a->kernels != b->kernels) return a->kernels < b->kernels ? 1 : -1;
    return compare(a->id, b->id);
}

static aorta_status describe_queues(struct analysis *analysis) {
    const struct gap_list none = {0};
    struct aorta_queue_usage *queues = analysis->queues;
    const struct aorta_span *spans = analysis->spans;
    size_t end, used = 0;
    for (size_t i = 0; i < analysis->count; i++)
        used += spans[i].queue != AORTA_SPAN_NO_QUEUE && (i == 0 || spans[i].queue != spans[i - 1].queue);
    queues->items = aorta_arena_alloc(&queues->arena, (used + 1) * sizeof *queues->items);
    if (!queues->items) return no_memory(analysis->count);
    for (size_t first = 0; first < analysis->count; first = end) {
        for (end = first; end < analysis->count && spans[end].queue == spans[first].queue;) end++;
        if (spans[first].queue != AORTA_SPAN_NO_QUEUE) AORTA_TRY(describe_queue(analysis, spans + first, end - first));
    }
    qsort(queues->items, queues->count, sizeof *queues->items, most_kernels_first);
    queues->same_stream = summarise(&analysis->same_stream, &none);
    queues->other_stream = summarise(&analysis->other_stream, &none);
    return NULL;
}

/* Sorts the spans by stream and queue. */
static void count_streams_on_several(struct analysis *analysis) {
    const struct aorta_span *spans = analysis->spans, *first = NULL; /* first queue of the stream */
    bool several = false;
    qsort(analysis->spans, analysis->count, sizeof *spans, by_stream_and_queue);
    for (size_t i = 0; i < analysis->count; i++) {
        const struct aorta_span *span = &spans[i];
        if (i == 0 || span->stream != spans[i - 1].stream) {
            analysis->queues->streams_on_several += several;
            several = false;
            first = NULL;
        }
        if (span->queue == AORTA_SPAN_NO_QUEUE) continue;
        if (!first) first = span;
        several = several || span->queue != first->queue;
    }
    analysis->queues->streams_on_several += several;
}

static aorta_status describe_device(struct analysis *analysis, struct aorta_span *kernels) {
    struct aorta_queue_usage *queues = analysis->queues;
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN, sum_ns = 0, kernels_ns;
    for (size_t i = 0; i < analysis->count; i++) {
        const struct aorta_span *span = &analysis->spans[i];
        if (span->start_ns < first_ns) first_ns = span->start_ns;
        if (span->end_ns > last_ns) last_ns = span->end_ns;
        queues->transfers += !is_kernel(span);
        if (!is_kernel(span)) continue;
        queues->unqueued += span->queue == AORTA_SPAN_NO_QUEUE;
        sum_ns += span->end_ns - span->start_ns;
        kernels[queues->kernels++] = *span;
    }
    queues->span_ns = analysis->count ? last_ns - first_ns : 0;
    AORTA_TRY(count_streams(analysis->spans, analysis->count, &queues->stream_count));
    AORTA_TRY(measure_union(analysis->spans, analysis->count, &queues->busy_ns));
    AORTA_TRY(measure_union(kernels, queues->kernels, &kernels_ns));
    queues->parallel = kernels_ns > 0 ? (double)sum_ns / (double)kernels_ns : NAN;
    AORTA_TRY(find_stream_gaps(queues, kernels, queues->kernels));
    AORTA_TRY(describe_queues(analysis));
    count_streams_on_several(analysis);
    return NULL;
}

aorta_status aorta_queue_usage_measure(struct aorta_span *spans, size_t count, struct aorta_queue_usage *queues) {
    struct analysis analysis = {.spans = spans, .count = count, .queues = queues};
    *queues = (struct aorta_queue_usage){0};
    if (count) qsort(spans, count, sizeof *spans, by_queue);
    struct aorta_span *kernels = calloc(count + 1, sizeof *kernels);
    analysis.same_stream.items = malloc((count + 1) * sizeof(double));
    analysis.other_stream.items = malloc((count + 1) * sizeof(double));
    aorta_status status = kernels && analysis.same_stream.items && analysis.other_stream.items
                              ? describe_device(&analysis, kernels)
                              : no_memory(count);
    free(kernels);
    free(analysis.same_stream.items);
    free(analysis.other_stream.items);
    if (status) aorta_queue_usage_free(queues);
    return status;
}

void aorta_queue_usage_free(struct aorta_queue_usage *queues) {
    aorta_arena_free(&queues->arena);
    *queues = (struct aorta_queue_usage){0};
}
