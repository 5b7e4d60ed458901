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
    struct aorta_arena scratch;
};
static int compare(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

static bool is_kernel(const struct aorta_span *span) {
    return span->kind != AORTA_SPAN_COPY;
}

/* ---- gaps ---- */

static void put_gap(struct gap_list *list, const struct aorta_span *before, const struct aorta_span *after) {
    const int64_t gap_ns = after->start_ns - before->end_ns;
    if (gap_ns < 0)
        list->overlapping++;
    else
        list->items[list->count++] = (double)gap_ns;
}

static aorta_status add_gap(void *user, const struct aorta_span *before, const struct aorta_span *after) {
    put_gap(user, before, after);
    return NULL;
}

/* Of the gaps from `first` on. */
static struct aorta_gap_summary summarise(const struct gap_list *list, const struct gap_list *first) {
    return (struct aorta_gap_summary){aorta_summarise(list->items + first->count, list->count - first->count),
                                      list->overlapping - first->overlapping};
}

/* `kernels`: those of the device. */
static aorta_status find_stream_gaps(struct analysis *analysis, const struct aorta_span *kernels, size_t count) {
    const struct gap_list none = {0};
    struct gap_list intra = {.items = aorta_arena_raw(&analysis->scratch, count * sizeof(double))};
    struct gap_list inter = {.items = aorta_arena_raw(&analysis->scratch, count * sizeof(double))};
    if (!inter.items) return NULL;
    AORTA_TRY(aorta_gaps_on_streams(kernels, count, add_gap, &intra));
    AORTA_TRY(aorta_gaps_between_streams(kernels, count, add_gap, &inter));
    analysis->queues->intra = summarise(&intra, &none);
    analysis->queues->inter = summarise(&inter, &none);
    return NULL;
}

/* ---- unions ---- */

static int64_t measure_union(const struct aorta_span *spans, size_t count, struct aorta_arena *memory) {
    struct aorta_intervals set = {0};
    for (size_t i = 0; i < count; i++) aorta_intervals_add(&set, spans[i].start_ns, spans[i].end_ns);
    const int64_t length_ns = aorta_intervals_length(&set);
    aorta_intervals_end(&set, memory);
    return length_ns;
}

/* ---- one queue ---- */

static int by_id(const void *x, const void *y) {
    return compare(*(const int64_t *)x, *(const int64_t *)y);
}

static size_t count_streams(const struct aorta_span *spans, size_t count, struct aorta_arena *memory) {
    int64_t *ids = aorta_arena_raw(memory, count * sizeof *ids);
    size_t streams = ids && count > 0;
    for (size_t i = 0; ids && i < count; i++) ids[i] = spans[i].stream;
    if (ids) qsort(ids, count, sizeof *ids, by_id);
    for (size_t i = 1; ids && i < count; i++) streams += ids[i] != ids[i - 1];
    return streams;
}

/* Spans of one queue, by start. */
static void describe_queue(struct analysis *analysis, const struct aorta_span *spans, size_t count) {
    struct aorta_queue *queue = &analysis->queues->items[analysis->queues->count++];
    const struct gap_list same_before = analysis->same_stream, other_before = analysis->other_stream;
    const struct aorta_span *before = NULL;
    *queue = (struct aorta_queue){.id = spans->queue};
    for (size_t i = 0; i < count; i++) {
        queue->kernels += is_kernel(&spans[i]);
        queue->transfers += !is_kernel(&spans[i]);
        if (!is_kernel(&spans[i])) continue;
        const bool same = before && before->stream == spans[i].stream;
        if (before) put_gap(same ? &analysis->same_stream : &analysis->other_stream, before, &spans[i]);
        before = &spans[i];
    }
    queue->same_stream = summarise(&analysis->same_stream, &same_before);
    queue->other_stream = summarise(&analysis->other_stream, &other_before);
    queue->changes = queue->other_stream.ns.count + queue->other_stream.overlapping;
    queue->streams = count_streams(spans, count, &analysis->scratch);
    queue->busy_ns = measure_union(spans, count, &analysis->scratch);
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

static void describe_queues(struct analysis *analysis) {
    const struct gap_list none = {0};
    struct aorta_queue_usage *queues = analysis->queues;
    const struct aorta_span *spans = analysis->spans;
    size_t end, used = 0;
    for (size_t i = 0; i < analysis->count; i++)
        used += spans[i].queue != AORTA_SPAN_NO_QUEUE && (i == 0 || spans[i].queue != spans[i - 1].queue);
    queues->items = aorta_arena_alloc(&queues->arena, used * sizeof *queues->items);
    for (size_t first = 0; queues->items && first < analysis->count; first = end) {
        for (end = first; end < analysis->count && spans[end].queue == spans[first].queue;) end++;
        if (spans[first].queue != AORTA_SPAN_NO_QUEUE) describe_queue(analysis, spans + first, end - first);
    }
    if (queues->items) qsort(queues->items, queues->count, sizeof *queues->items, most_kernels_first);
    queues->same_stream = summarise(&analysis->same_stream, &none);
    queues->other_stream = summarise(&analysis->other_stream, &none);
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
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN, sum_ns = 0;
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
    queues->stream_count = count_streams(analysis->spans, analysis->count, &analysis->scratch);
    queues->busy_ns = measure_union(analysis->spans, analysis->count, &analysis->scratch);
    const int64_t kernels_ns = measure_union(kernels, queues->kernels, &analysis->scratch);
    queues->parallel = kernels_ns > 0 ? (double)sum_ns / (double)kernels_ns : NAN;
    AORTA_TRY(find_stream_gaps(analysis, kernels, queues->kernels));
    describe_queues(analysis);
    count_streams_on_several(analysis);
    analysis->scratch.failed |= queues->arena.failed;
    return aorta_arena_check(&analysis->scratch, "the kernels of queues");
}

aorta_status aorta_queue_usage_measure(struct aorta_span *spans, size_t count, struct aorta_queue_usage *queues) {
    struct analysis analysis = {.spans = spans, .count = count, .queues = queues};
    *queues = (struct aorta_queue_usage){0};
    if (count) qsort(spans, count, sizeof *spans, by_queue);
    struct aorta_span *kernels = aorta_arena_raw(&analysis.scratch, count * sizeof *kernels);
    analysis.same_stream.items = aorta_arena_raw(&analysis.scratch, count * sizeof(double));
    analysis.other_stream.items = aorta_arena_raw(&analysis.scratch, count * sizeof(double));
    aorta_status status = aorta_arena_check(&analysis.scratch, "the kernels of queues");
    if (!status) status = describe_device(&analysis, kernels);
    aorta_arena_free(&analysis.scratch);
    if (status) aorta_queue_usage_free(queues);
    return status;
}

void aorta_queue_usage_free(struct aorta_queue_usage *queues) {
    aorta_arena_free(&queues->arena);
    *queues = (struct aorta_queue_usage){0};
}
