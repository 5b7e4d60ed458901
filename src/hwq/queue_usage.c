#include "hwq/queue_usage.h"

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

/* ---- JSON ---- */

static void write_gap(struct aorta_json *json, const char *key, const struct aorta_gap_summary *gap) {
    aorta_json_key_object(json, key);
    aorta_json_key_int(json, "samples", (int64_t)gap->ns.count);
    aorta_json_key_double(json, "p50_ns", gap->ns.p50);
    aorta_json_key_double(json, "p95_ns", gap->ns.p95);
    aorta_json_key_double(json, "mean_ns", gap->ns.mean);
    aorta_json_key_int(json, "overlapping", (int64_t)gap->overlapping);
    aorta_json_object_end(json);
}

static void write_queue(struct aorta_json *json, const struct aorta_queue *queue) {
    aorta_json_object(json);
    aorta_json_key_int(json, "id", queue->id);
    aorta_json_key_int(json, "kernels", (int64_t)queue->kernels);
    aorta_json_key_int(json, "transfers", (int64_t)queue->transfers);
    aorta_json_key_int(json, "streams", (int64_t)queue->streams);
    aorta_json_key_int(json, "changes", (int64_t)queue->changes);
    aorta_json_key_int(json, "busy_ns", queue->busy_ns);
    write_gap(json, "stay", &queue->same_stream);
    write_gap(json, "go", &queue->other_stream);
    aorta_json_object_end(json);
}

void aorta_queue_usage_json(const struct aorta_queue_usage *queues, struct aorta_json *json) {
    aorta_json_object(json);
    aorta_json_key_int(json, "kernels", (int64_t)queues->kernels);
    aorta_json_key_int(json, "transfers", (int64_t)queues->transfers);
    aorta_json_key_int(json, "kernels_of_unknown_queue", (int64_t)queues->unqueued);
    aorta_json_key_int(json, "stream_count", (int64_t)queues->stream_count);
    aorta_json_key_int(json, "streams_on_several_queues", (int64_t)queues->streams_on_several);
    aorta_json_key_int(json, "queue_count", (int64_t)queues->count);
    aorta_json_key_int(json, "span_ns", queues->span_ns);
    aorta_json_key_int(json, "busy_ns", queues->busy_ns);
    aorta_json_key_double(json, "kernels_at_once", queues->parallel);
    aorta_json_key_array(json, "queues");
    for (size_t i = 0; i < queues->count; i++) write_queue(json, &queues->items[i]);
    aorta_json_array_end(json);
    aorta_json_key_object(json, "gaps");
    write_gap(json, "intra_stream", &queues->intra);
    write_gap(json, "inter_stream", &queues->inter);
    write_gap(json, "queue_stay", &queues->same_stream);
    write_gap(json, "queue_go", &queues->other_stream);
    aorta_json_object_end(json);
    aorta_json_object_end(json);
}
