#include "hwq/spans.h"
#include "base/interval.h"
#include "base/result_table.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- gaps ---- */

static AORTA_POINTER_ORDER(by_start, struct aorta_span, AORTA_UP(start_ns) AORTA_UP(end_ns));
static AORTA_POINTER_ORDER(by_end, struct aorta_span, AORTA_UP(end_ns) AORTA_UP(start_ns));
static AORTA_POINTER_ORDER(by_stream, struct aorta_span, AORTA_UP(stream) AORTA_UP(start_ns) AORTA_UP(end_ns));

static const struct aorta_span **sort(const struct aorta_span *spans, size_t count,
                                      int (*order)(const void *, const void *), struct aorta_arena *memory) {
    const struct aorta_span **sorted = aorta_arena_raw(memory, count * sizeof *sorted);
    for (size_t i = 0; sorted && i < count; i++) sorted[i] = &spans[i];
    if (sorted) qsort(sorted, count, sizeof *sorted, order);
    return sorted;
}

void aorta_gaps_on_streams(const struct aorta_span *spans, size_t count, aorta_gap_visitor visit, void *user,
                           struct aorta_arena *memory) {
    const struct aorta_span **sorted = sort(spans, count, by_stream, memory);
    for (size_t i = 1; sorted && i < count; i++)
        if (sorted[i]->stream == sorted[i - 1]->stream) visit(user, sorted[i - 1], sorted[i]);
}

/* `ended` counts the spans that ended before the current start. A span without length may be among them itself. */
void aorta_gaps_between_streams(const struct aorta_span *spans, size_t count, aorta_gap_visitor visit, void *user,
                                struct aorta_arena *memory) {
    const struct aorta_span **starts = sort(spans, count, by_start, memory),
                            **ends = sort(spans, count, by_end, memory);
    size_t ended = 0;
    for (size_t i = 0; ends && i < count; i++) {
        const struct aorta_span *span = starts[i];
        while (ended < count && ends[ended]->end_ns <= span->start_ns) ended++;
        size_t last = ended;
        if (last && ends[last - 1] == span) last--;
        if (last && ends[last - 1]->stream != span->stream) visit(user, ends[last - 1], span);
    }
}

/* ---- busy time ---- */

struct aorta_span_times aorta_spans_measure(const struct aorta_span *spans, size_t count, struct aorta_arena *memory) {
    struct aorta_intervals work = {0}, calls = {0}, alone = {0};
    struct aorta_span_times times = {0};
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        const struct aorta_span *span = &spans[i];
        const bool host = span->kind == AORTA_SPAN_HOST;
        aorta_intervals_add(host ? &calls : &work, span->start_ns, span->end_ns);
        if (!host) times.sum_ns += span->end_ns - span->start_ns;
        if (span->start_ns < first_ns) first_ns = span->start_ns;
        if (span->end_ns > last_ns) last_ns = span->end_ns;
    }
    aorta_intervals_subtract(&calls, &work, &alone);
    times.span_ns = count ? last_ns - first_ns : 0;
    times.busy_ns = aorta_intervals_length(&work);
    times.host_ns = aorta_intervals_length(&alone);
    times.idle_ns = times.span_ns - times.busy_ns - times.host_ns;
    aorta_intervals_end(&work, memory);
    aorta_intervals_end(&calls, memory);
    aorta_intervals_end(&alone, memory);
    return times;
}

/* ---- what each hardware queue ran, which streams used it, and the gaps between its kernels ---- */

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

static bool is_kernel(const struct aorta_span *span) {
    return span->kind != AORTA_SPAN_COPY;
}

/* ---- gaps ---- */

static void add_gap(void *user, const struct aorta_span *before, const struct aorta_span *after) {
    struct gap_list *list = user;
    const int64_t gap_ns = after->start_ns - before->end_ns;
    if (gap_ns < 0)
        list->overlapping++;
    else
        list->items[list->count++] = (double)gap_ns;
}

/* Summarises the gaps in `list` that are not in its earlier state `first`. */
static struct aorta_gap_summary summarise(const struct gap_list *list, const struct gap_list *first) {
    return (struct aorta_gap_summary){aorta_summarise(list->items + first->count, list->count - first->count),
                                      list->overlapping - first->overlapping};
}

/* `kernels`: all kernels of the device. */
static void find_stream_gaps(struct analysis *analysis, const struct aorta_span *kernels, size_t count) {
    const struct gap_list none = {0};
    struct gap_list intra = {.items = aorta_arena_raw(&analysis->scratch, count * sizeof(double))};
    struct gap_list inter = {.items = aorta_arena_raw(&analysis->scratch, count * sizeof(double))};
    if (!inter.items) return;
    aorta_gaps_on_streams(kernels, count, add_gap, &intra, &analysis->scratch);
    aorta_gaps_between_streams(kernels, count, add_gap, &inter, &analysis->scratch);
    analysis->queues->intra = summarise(&intra, &none);
    analysis->queues->inter = summarise(&inter, &none);
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

static size_t count_streams(const struct aorta_span *spans, size_t count, struct aorta_arena *memory) {
    int64_t *ids = aorta_arena_raw(memory, count * sizeof *ids);
    for (size_t i = 0; ids && i < count; i++) ids[i] = spans[i].stream;
    return ids ? aorta_sort_unique(ids, count, sizeof *ids, aorta_by_int64) : 0;
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
        if (before) add_gap(same ? &analysis->same_stream : &analysis->other_stream, before, &spans[i]);
        before = &spans[i];
    }
    queue->same_stream = summarise(&analysis->same_stream, &same_before);
    queue->other_stream = summarise(&analysis->other_stream, &other_before);
    queue->changes = queue->other_stream.ns.count + queue->other_stream.overlapping;
    queue->streams = count_streams(spans, count, &analysis->scratch);
    queue->busy_ns = measure_union(spans, count, &analysis->scratch);
}

/* ---- the device ---- */

static AORTA_ORDER(by_queue, struct aorta_span, AORTA_UP(queue) AORTA_UP(start_ns) AORTA_UP(end_ns));
static AORTA_ORDER(by_stream_and_queue, struct aorta_span, AORTA_UP(stream) AORTA_UP(queue));
static AORTA_ORDER(most_kernels_first, struct aorta_queue, AORTA_DOWN(kernels) AORTA_UP(id));

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

/* Sorts the spans by stream and queue. A stream's spans without a known queue come first. */
static size_t count_streams_on_several(struct aorta_span *spans, size_t count) {
    const struct aorta_span *first = spans; /* of the stream, with a known queue if it has one */
    size_t several = 0;
    if (count) qsort(spans, count, sizeof *spans, by_stream_and_queue);
    for (size_t i = 0; i < count; i++) {
        if (spans[i].stream != first->stream || first->queue == AORTA_SPAN_NO_QUEUE) first = &spans[i];
        const bool is_last = i + 1 == count || spans[i + 1].stream != first->stream;
        several += is_last && spans[i].queue != first->queue;
    }
    return several;
}

static void describe_device(struct analysis *analysis, struct aorta_span *kernels) {
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
    find_stream_gaps(analysis, kernels, queues->kernels);
    describe_queues(analysis);
    queues->streams_on_several = count_streams_on_several(analysis->spans, analysis->count);
    analysis->scratch.failed |= queues->arena.failed;
}

aorta_status aorta_queue_usage_measure(struct aorta_span *spans, size_t count, struct aorta_queue_usage *queues) {
    struct analysis analysis = {.spans = spans, .count = count, .queues = queues};
    *queues = (struct aorta_queue_usage){0};
    if (count) qsort(spans, count, sizeof *spans, by_queue);
    struct aorta_span *kernels = aorta_arena_raw(&analysis.scratch, count * sizeof *kernels);
    analysis.same_stream.items = aorta_arena_raw(&analysis.scratch, count * sizeof(double));
    analysis.other_stream.items = aorta_arena_raw(&analysis.scratch, count * sizeof(double));
    if (!analysis.scratch.failed) describe_device(&analysis, kernels);
    aorta_status status = aorta_arena_check(&analysis.scratch, "the kernels of queues");
    aorta_arena_free(&analysis.scratch);
    if (status) aorta_queue_usage_free(queues);
    return status;
}

void aorta_queue_usage_free(struct aorta_queue_usage *queues) {
    aorta_arena_free(&queues->arena);
    *queues = (struct aorta_queue_usage){0};
}

static void say_gap(struct aorta_text *text, const char *what, const struct aorta_gap_summary *gap) {
    aorta_text_printf(text, "  %-44s", what);
    if (gap->ns.count)
        aorta_text_printf(text, "%9.2f %9.2f  (%zu)", gap->ns.p50 * 1e-3, gap->ns.p95 * 1e-3, gap->ns.count);
    else
        aorta_text_puts(text, "        -         -  (0)");
    if (gap->overlapping) aorta_text_printf(text, ", and %zu that overlap", gap->overlapping);
    aorta_text_puts(text, "\n");
}

static void say_queue(struct aorta_text *text, const struct aorta_queue_usage *queues, const struct aorta_queue *queue,
                      const char *name) {
    double share = queues->span_ns > 0 ? 100 * (double)queue->busy_ns / (double)queues->span_ns : 0;
    aorta_text_printf(text, "  %s %-8lld %8zu %8zu %8zu %8zu %9.1f%%\n", name, (long long)queue->id, queue->kernels,
                      queue->transfers, queue->streams, queue->changes, share);
}

void aorta_queue_usage_text(const struct aorta_queue_usage *queues, const char *name, struct aorta_text *text) {
    if (queues->count) {
        aorta_text_printf(text, "\n  %-*s %8s %8s %8s %8s %10s\n", 9 + (int)sizeof "queue" - 1, name, "kernels",
                          "copies", "streams", "changes", "busy");
        for (size_t i = 0; i < queues->count; i++) say_queue(text, queues, &queues->items[i], name);
    }
    aorta_text_printf(text, "\n  %-44s%9s %9s  (number)\n", "gaps, us", "median", "p95");
    say_gap(text, "to the next kernel of the same stream", &queues->intra);
    say_gap(text, "from the last end to another stream", &queues->inter);
    if (!queues->count) return;
    say_gap(text, "within a queue, same stream", &queues->same_stream);
    say_gap(text, "within a queue, another stream", &queues->other_stream);
}

/* ---- findings ---- */

static void find_answer(const struct aorta_queue_usage *queues, const char *name, struct aorta_found_list *found) {
    const enum aorta_hwq_finding answer = !queues->count                 ? AORTA_HWQ_PROFILE_UNKNOWN
                                          : strcmp(name, "channel") == 0 ? AORTA_HWQ_PROFILE_CHANNELS
                                                                         : AORTA_HWQ_PROFILE_QUEUES;
    const double span_ns = (double)queues->span_ns;
    HWQ_FIND(found, answer, hwq_count("streams", (double)queues->stream_count),
             hwq_count("queues", queues->count ? (double)queues->count : NAN), hwq_text("name", name),
             hwq_value("busy", span_ns > 0 ? (double)queues->busy_ns / span_ns : 0.0, "share"),
             hwq_value("span", span_ns * 1e-6, "ms"));
}

void aorta_queue_usage_find(const struct aorta_queue_usage *queues, const char *queue_name,
                            struct aorta_found_list *found) {
    const struct aorta_found_fact name = hwq_text("name", queue_name);
    const double same = queues->same_stream.ns.p50, other = queues->other_stream.ns.p50;
    find_answer(queues, queue_name, found);
    HWQ_FIND(found, AORTA_HWQ_PROFILE_WORK, hwq_count("kernels", (double)queues->kernels),
             hwq_count("transfers", (double)queues->transfers));
    if (queues->unqueued)
        HWQ_FIND(found, AORTA_HWQ_PROFILE_UNQUEUED, name, hwq_count("unqueued", (double)queues->unqueued));
    if (!isnan(queues->parallel)) HWQ_FIND(found, AORTA_HWQ_PROFILE_AT_ONCE, hwq_count("at_once", queues->parallel));
    if (queues->same_stream.ns.count && queues->other_stream.ns.count)
        HWQ_FIND(found, AORTA_HWQ_PROFILE_SWITCH, name, hwq_value("switch", (other - same) * 1e-6, "ms"),
                 hwq_value("other_stream", other * 1e-6, "ms"), hwq_value("same_stream", same * 1e-6, "ms"));
    if (queues->streams_on_several)
        HWQ_FIND(found, AORTA_HWQ_PROFILE_SEVERAL, name, hwq_count("several", (double)queues->streams_on_several),
                 hwq_count("streams", (double)queues->stream_count));
    if (queues->count && queues->stream_count > queues->count) HWQ_FIND(found, AORTA_HWQ_PROFILE_SHARED, name);
}

/* ---- rows ---- */

#define AT(member) offsetof(struct aorta_gap_summary, member)
static const struct aorta_row gap_rows[] = {
    {"samples", AORTA_ROW_INT, AT(ns.count), .help = "gaps"},
    {"p50_ns", AORTA_ROW_NUMBER, AT(ns.p50), "ns", .help = "the median"},
    {"p95_ns", AORTA_ROW_NUMBER, AT(ns.p95), "ns", .help = "95% are no longer"},
    {"mean_ns", AORTA_ROW_NUMBER, AT(ns.mean), "ns", .help = "the mean"},
    {"overlapping", AORTA_ROW_INT, AT(overlapping), .help = "kernels that began before the one before them ended"},
    {0}};
#undef AT

#define AT(member) offsetof(struct aorta_queue, member)
static const struct aorta_row queue_rows[] = {
    {"id", AORTA_ROW_INT, AT(id), .help = "of the recording"},
    {"kernels", AORTA_ROW_INT, AT(kernels), .help = "that it ran"},
    {"transfers", AORTA_ROW_INT, AT(transfers), .help = "copies and fills"},
    {"streams", AORTA_ROW_INT, AT(streams), .help = "whose work it ran"},
    {"changes", AORTA_ROW_INT, AT(changes), .help = "from a stream to another"},
    {"busy_ns", AORTA_ROW_INT, AT(busy_ns), "ns", .help = "anything ran on it"},
    {"stay", AORTA_ROW_PART, AT(same_stream), .part = gap_rows},
    {"go", AORTA_ROW_PART, AT(other_stream), .part = gap_rows},
    {0}};
#undef AT

#define AT(member) offsetof(struct aorta_queue_usage, member)
static const struct aorta_row usage_rows[] = {
    {"kernels", AORTA_ROW_INT, AT(kernels), .help = "of the device"},
    {"transfers", AORTA_ROW_INT, AT(transfers), .help = "copies and fills"},
    {"kernels_of_unknown_queue", AORTA_ROW_INT, AT(unqueued), .help = "whose queue is not recorded"},
    {"stream_count", AORTA_ROW_INT, AT(stream_count), .help = "streams"},
    {"streams_on_several_queues", AORTA_ROW_INT, AT(streams_on_several), .help = "of these"},
    {"queue_count", AORTA_ROW_INT, AT(count), .help = "queues that were used"},
    {"span_ns", AORTA_ROW_INT, AT(span_ns), "ns", .help = "first start to last end"},
    {"busy_ns", AORTA_ROW_INT, AT(busy_ns), "ns", .help = "anything ran"},
    {"kernels_at_once", AORTA_ROW_NUMBER, AT(parallel), .help = "on average, while any ran"},
    {0}};
enum { GAP_COUNT = 4 };
static const struct aorta_row gaps_rows[GAP_COUNT + 1] = {
    {"intra_stream", AORTA_ROW_PART, AT(intra), .part = gap_rows},
    {"inter_stream", AORTA_ROW_PART, AT(inter), .part = gap_rows},
    {"queue_stay", AORTA_ROW_PART, AT(same_stream), .part = gap_rows},
    {"queue_go", AORTA_ROW_PART, AT(other_stream), .part = gap_rows},
    {0}};
#undef AT

/* Lines of the two tables. */
struct line_values {
    const char *path, *gap;
    int64_t rank, device;
    union {
        struct aorta_queue queue;
        struct aorta_gap_summary summary;
    };
};

#define AT(member) offsetof(struct line_values, member)
static const struct aorta_row place_rows[] = {
    {"path", AORTA_ROW_TEXT, AT(path), .help = "of the recording"},
    {"rank", AORTA_ROW_INT, AT(rank), .help = "of the job"},
    {"device", AORTA_ROW_INT, AT(device), .help = "its number in the recording"},
    {0}};
static const struct aorta_row named_queue_rows[] = {
    {NULL, AORTA_ROW_PART, 0, .part = place_rows}, {NULL, AORTA_ROW_PART, AT(queue), .part = queue_rows}, {0}};
static const struct aorta_row named_gap_rows[] = {
    {NULL, AORTA_ROW_PART, 0, .part = place_rows},
    {"gap", AORTA_ROW_TEXT, AT(gap), .help = "between which kernels, as its key in the JSON"},
    {NULL, AORTA_ROW_PART, AT(summary), .part = gap_rows},
    {0}};

static enum aorta_line fill_queue(const void *of, size_t index, void *values) {
    const struct aorta_queue_usage_of *recorded = of;
    if (index >= recorded->usage->count) return AORTA_LINE_END;
    *(struct line_values *)values = (struct line_values){.path = recorded->path,
                                                         .rank = recorded->rank,
                                                         .device = recorded->device,
                                                         .queue = recorded->usage->items[index]};
    return AORTA_LINE;
}

static enum aorta_line fill_gap(const void *of, size_t index, void *values) {
    const struct aorta_queue_usage_of *recorded = of;
    if (index >= GAP_COUNT) return AORTA_LINE_END;
    struct line_values *line = values;
    *line = (struct line_values){recorded->path, gaps_rows[index].key, recorded->rank, recorded->device, {{0}}};
    memcpy(&line->summary, (const char *)recorded->usage + gaps_rows[index].offset, sizeof line->summary);
    return AORTA_LINE;
}

static AORTA_TABLE(queues_table, "queues", AORTA_LINES(named_queue_rows, struct line_values, fill_queue));
static AORTA_TABLE(gaps_table, "gaps", AORTA_LINES(named_gap_rows, struct line_values, fill_gap));

const struct aorta_result_table *const aorta_queue_usage_csv[2] = {&queues_table, &gaps_table};

/* ---- JSON ---- */

void aorta_queue_usage_json(const struct aorta_queue_usage *queues, struct aorta_json *json) {
    aorta_json_object(json);
    aorta_rows_json(usage_rows, queues, 0, json);
    aorta_rows_array("queues", queue_rows, queues->items, queues->count, sizeof *queues->items, 0, json);
    aorta_rows_object("gaps", gaps_rows, queues, 0, json);
    aorta_json_object_end(json);
}

void aorta_queue_usage_schema(struct aorta_json *json) {
    aorta_rows_schema(usage_rows, json);
    aorta_rows_schema_array("queues", queue_rows, json);
    aorta_rows_schema_object("gaps", gaps_rows, json);
}
