#include "hwq/queue_usage.h"

#include "base/result_table.h"

#include <math.h>

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
    aorta_text_printf(text, "%s and %zu copies and fills of %s over %.3f ms, %.1f%% of it busy\n",
                      aorta_counted((long long)queues->kernels, "kernel").text, queues->transfers,
                      aorta_counted((long long)queues->stream_count, "stream").text, (double)queues->span_ns * 1e-6,
                      queues->span_ns > 0 ? 100 * (double)queues->busy_ns / (double)queues->span_ns : 0.0);
    if (queues->count) {
        aorta_text_printf(text, "Hardware queues used: %zu\n\n", queues->count);
        aorta_text_printf(text, "  %-*s %8s %8s %8s %8s %10s\n", 9 + (int)sizeof "queue" - 1, name, "kernels", "copies",
                          "streams", "changes", "busy");
        for (size_t i = 0; i < queues->count; i++) say_queue(text, queues, &queues->items[i], name);
    }
    if (queues->unqueued)
        aorta_text_printf(text, "The recording does not say which %s ran %zu of the kernels.\n", name,
                          queues->unqueued);
    aorta_text_printf(text, "\n  %-44s%9s %9s\n", "gaps, us", "median", "p95");
    say_gap(text, "to the next kernel of the same stream", &queues->intra);
    say_gap(text, "from the last to end, of another stream", &queues->inter);
    if (queues->count) {
        say_gap(text, "within a queue, same stream", &queues->same_stream);
        say_gap(text, "within a queue, another stream", &queues->other_stream);
    }
    aorta_text_puts(text, "\n");
    if (queues->same_stream.ns.count && queues->other_stream.ns.count)
        aorta_text_printf(
            text,
            "A queue's gap before a kernel of another stream is %+.2f us longer than before one of the same (late "
            "launches included).\n",
            (queues->other_stream.ns.p50 - queues->same_stream.ns.p50) * 1e-3);
    if (!isnan(queues->parallel))
        aorta_text_printf(text, "While any kernel ran, %.2f ran at once on average.\n", queues->parallel);
    if (queues->streams_on_several)
        aorta_text_printf(text, "%zu of %s used more than one %s.\n", queues->streams_on_several,
                          aorta_counted((long long)queues->stream_count, "stream").text, name);
    if (queues->count && queues->stream_count > queues->count)
        aorta_text_puts(text, "Fewer queues than streams: some streams share a queue. aorta hwq map shows which.\n");
}

/* ---- rows ---- */

struct gap_values {
    int64_t samples, overlapping;
    double p50_ns, p95_ns, mean_ns;
};

#define AT(member) offsetof(struct gap_values, member)
static const struct aorta_row gap_rows[] = {
    {"samples", AORTA_ROW_INT, AT(samples), .help = "gaps"},
    {"p50_ns", AORTA_ROW_NUMBER, AT(p50_ns), "ns", .help = "the median"},
    {"p95_ns", AORTA_ROW_NUMBER, AT(p95_ns), "ns", .help = "95% are no longer"},
    {"mean_ns", AORTA_ROW_NUMBER, AT(mean_ns), "ns", .help = "the mean"},
    {"overlapping", AORTA_ROW_INT, AT(overlapping), .help = "kernels that began before the one before them ended"},
    {0}};
#undef AT

struct queue_values {
    const char *path;
    int64_t rank, device, id, kernels, transfers, streams, changes, busy_ns;
    struct gap_values stay, go;
};

#define AT(member) offsetof(struct queue_values, member)
static const struct aorta_row queue_rows[] = {
    {"id", AORTA_ROW_INT, AT(id), .help = "of the recording"},
    {"kernels", AORTA_ROW_INT, AT(kernels), .help = "that it ran"},
    {"transfers", AORTA_ROW_INT, AT(transfers), .help = "copies and fills"},
    {"streams", AORTA_ROW_INT, AT(streams), .help = "whose work it ran"},
    {"changes", AORTA_ROW_INT, AT(changes), .help = "from a stream to another"},
    {"busy_ns", AORTA_ROW_INT, AT(busy_ns), "ns", .help = "anything ran on it"},
    {"stay", AORTA_ROW_PART, AT(stay), .part = gap_rows},
    {"go", AORTA_ROW_PART, AT(go), .part = gap_rows},
    {0}};
static const struct aorta_row named_queue_rows[] = {
    {"path", AORTA_ROW_TEXT, AT(path), .help = "of the recording"},
    {"rank", AORTA_ROW_INT, AT(rank), .help = "of the job"},
    {"device", AORTA_ROW_INT, AT(device), .help = "its number in the recording"},
    {NULL, AORTA_ROW_PART, 0, .part = queue_rows},
    {0}};
#undef AT

struct named_gap_values {
    const char *path, *gap;
    int64_t rank, device;
    struct gap_values values;
};

#define AT(member) offsetof(struct named_gap_values, member)
static const struct aorta_row named_gap_rows[] = {
    {"path", AORTA_ROW_TEXT, AT(path), .help = "of the recording"},
    {"rank", AORTA_ROW_INT, AT(rank), .help = "of the job"},
    {"device", AORTA_ROW_INT, AT(device), .help = "its number in the recording"},
    {"gap", AORTA_ROW_TEXT, AT(gap), .help = "between which kernels, as its key in the JSON"},
    {NULL, AORTA_ROW_PART, AT(values), .part = gap_rows},
    {0}};
#undef AT

static struct gap_values gap_of(const struct aorta_gap_summary *gap) {
    return (struct gap_values){(int64_t)gap->ns.count, (int64_t)gap->overlapping, gap->ns.p50, gap->ns.p95,
                               gap->ns.mean};
}

static size_t queue_count(const void *of) {
    return ((const struct aorta_queue_usage_of *)of)->usage->count;
}

static bool fill_queue(const void *of, size_t index, void *values) {
    const struct aorta_queue_usage_of *recorded = of;
    const struct aorta_queue *queue = &recorded->usage->items[index];
    *(struct queue_values *)values = (struct queue_values){.path = recorded->path,
                                                           .rank = recorded->rank,
                                                           .device = recorded->device,
                                                           .id = queue->id,
                                                           .kernels = (int64_t)queue->kernels,
                                                           .transfers = (int64_t)queue->transfers,
                                                           .streams = (int64_t)queue->streams,
                                                           .changes = (int64_t)queue->changes,
                                                           .busy_ns = queue->busy_ns,
                                                           .stay = gap_of(&queue->same_stream),
                                                           .go = gap_of(&queue->other_stream)};
    return true;
}

enum { GAP_COUNT = 4 };

static size_t gap_count(const void *of) {
    (void)of;
    return GAP_COUNT;
}

static bool fill_gap(const void *of, size_t index, void *values) {
    const struct aorta_queue_usage_of *recorded = of;
    const struct aorta_queue_usage *usage = recorded->usage;
    const struct {
        const char *key;
        const struct aorta_gap_summary *gap;
    } gaps[GAP_COUNT] = {{"intra_stream", &usage->intra},
                         {"inter_stream", &usage->inter},
                         {"queue_stay", &usage->same_stream},
                         {"queue_go", &usage->other_stream}};
    *(struct named_gap_values *)values = (struct named_gap_values){recorded->path, gaps[index].key, recorded->rank,
                                                                   recorded->device, gap_of(gaps[index].gap)};
    return true;
}

static const struct aorta_result_table queues_table = {.key = "queues",
                                                       .rows = named_queue_rows,
                                                       .size = sizeof(struct queue_values),
                                                       .count = queue_count,
                                                       .fill = fill_queue};
static const struct aorta_result_table gaps_table = {.key = "gaps",
                                                     .rows = named_gap_rows,
                                                     .size = sizeof(struct named_gap_values),
                                                     .count = gap_count,
                                                     .fill = fill_gap};

void aorta_queue_usage_csv_add(struct aorta_queue_usage_csv *csv, const struct aorta_queue_usage_of *of) {
    if (!csv->queues.length) {
        aorta_table_csv_header(&queues_table, NULL, &csv->queues);
        aorta_table_csv_header(&gaps_table, NULL, &csv->gaps);
    }
    aorta_table_csv_lines(&queues_table, of, NULL, &csv->queues);
    aorta_table_csv_lines(&gaps_table, of, NULL, &csv->gaps);
}

aorta_status aorta_queue_usage_csv_write(struct aorta_queue_usage_csv *csv, const char *folder) {
    aorta_status status = NULL;
    if (folder) status = aorta_csv_write(folder, queues_table.key, &csv->queues);
    if (folder && !status) status = aorta_csv_write(folder, gaps_table.key, &csv->gaps);
    aorta_text_free(&csv->queues);
    aorta_text_free(&csv->gaps);
    return status;
}

/* ---- JSON ---- */

struct usage_values {
    int64_t kernels, transfers, unqueued, streams, on_several, queues, span_ns, busy_ns;
    double parallel;
};

#define AT(member) offsetof(struct usage_values, member)
static const struct aorta_row usage_rows[] = {
    {"kernels", AORTA_ROW_INT, AT(kernels), .help = "of the device"},
    {"transfers", AORTA_ROW_INT, AT(transfers), .help = "copies and fills"},
    {"kernels_of_unknown_queue", AORTA_ROW_INT, AT(unqueued), .help = "whose queue is not recorded"},
    {"stream_count", AORTA_ROW_INT, AT(streams), .help = "streams"},
    {"streams_on_several_queues", AORTA_ROW_INT, AT(on_several), .help = "of these"},
    {"queue_count", AORTA_ROW_INT, AT(queues), .help = "queues that were used"},
    {"span_ns", AORTA_ROW_INT, AT(span_ns), "ns", .help = "first start to last end"},
    {"busy_ns", AORTA_ROW_INT, AT(busy_ns), "ns", .help = "anything ran"},
    {"kernels_at_once", AORTA_ROW_NUMBER, AT(parallel), .help = "on average, while any ran"},
    {0}};
#undef AT

void aorta_queue_usage_json(const struct aorta_queue_usage *queues, struct aorta_json *json) {
    const struct aorta_queue_usage_of of = {.usage = queues};
    const struct usage_values values = {(int64_t)queues->kernels,
                                        (int64_t)queues->transfers,
                                        (int64_t)queues->unqueued,
                                        (int64_t)queues->stream_count,
                                        (int64_t)queues->streams_on_several,
                                        (int64_t)queues->count,
                                        queues->span_ns,
                                        queues->busy_ns,
                                        queues->parallel};
    aorta_json_object(json);
    aorta_rows_json(usage_rows, &values, 0, json);
    aorta_json_key_array(json, "queues");
    for (size_t i = 0; i < queues->count; i++) {
        struct queue_values queue;
        (void)fill_queue(&of, i, &queue);
        aorta_json_object(json);
        aorta_rows_json(queue_rows, &queue, 0, json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
    aorta_json_key_object(json, "gaps");
    for (size_t i = 0; i < GAP_COUNT; i++) {
        struct named_gap_values gap;
        (void)fill_gap(&of, i, &gap);
        aorta_rows_object(gap.gap, gap_rows, &gap.values, 0, json);
    }
    aorta_json_object_end(json);
    aorta_json_object_end(json);
}
