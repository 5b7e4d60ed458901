/* Spans: pieces of device work and calls of the host, and what follows from their times: gaps, busy time, queues. */
#ifndef AORTA_HWQ_SPANS_H
#define AORTA_HWQ_SPANS_H

#include "base/statistics.h"
#include "base/status.h"
#include "hwq/findings.h"

enum aorta_span_kind { AORTA_SPAN_KERNEL, AORTA_SPAN_GEMM, AORTA_SPAN_COLLECTIVE, AORTA_SPAN_COPY, AORTA_SPAN_HOST };
#define AORTA_SPAN_NO_QUEUE INT64_MIN

/* One kernel, operation, copy or call of the host. */
struct aorta_span {
    int64_t start_ns, end_ns;
    int64_t launch_ns;     /* when the host queued it; INT64_MIN: not known */
    int64_t stream, queue; /* numbers of the source, of one device; queue AORTA_SPAN_NO_QUEUE: not known */
    enum aorta_span_kind kind;
    bool marked; /* timed by kernels before and after it, so start and end are bounds; else its own times */
    const char *name;
};

/* Gets both spans of each gap; the gap is after->start_ns − before->end_ns, below 0 where the two overlap. */
typedef void (*aorta_gap_visitor)(void *user, const struct aorta_span *before, const struct aorta_span *after);

/* Each span and the next one (by start) of the same stream. Nothing is visited if `memory` is exhausted. */
void aorta_gaps_on_streams(const struct aorta_span *spans, size_t count, aorta_gap_visitor visit, void *user,
                           struct aorta_arena *memory);
/* Each span and the last span of the device that ended before it, if that is on another stream. The gap is the device's
 * time to continue on another stream. */
void aorta_gaps_between_streams(const struct aorta_span *spans, size_t count, aorta_gap_visitor visit, void *user,
                                struct aorta_arena *memory);

/* How the time from the first start to the last end divides, ns. */
struct aorta_span_times {
    int64_t span_ns;                   /* the sum of the next three */
    int64_t busy_ns, host_ns, idle_ns; /* device work runs; only a call of the host does; nothing does */
    int64_t sum_ns;                    /* of the durations of device work */
};
struct aorta_span_times aorta_spans_measure(const struct aorta_span *spans, size_t count, struct aorta_arena *memory);

/* ---- queues ---- */

struct aorta_gap_summary {
    struct aorta_summary ns; /* of the gaps of 0 and more; NaN without any */
    size_t overlapping;      /* gaps below 0 */
};

struct aorta_queue {
    int64_t id;
    size_t kernels, transfers, streams; /* transfers: copies and fills; streams that used the queue */
    int64_t busy_ns;                    /* union of its spans */
    size_t changes;                     /* how often the next kernel is from another stream */
    struct aorta_gap_summary same_stream,
        other_stream; /* from a kernel to the queue's next one on the same stream; on another stream */
};

struct aorta_queue_usage {
    struct aorta_arena arena;
    struct aorta_queue *items; /* those that were used, most kernels first */
    size_t count, stream_count;
    size_t kernels, transfers, unqueued;   /* unqueued: kernels whose queue is not known */
    size_t streams_on_several;             /* streams that used more than one queue */
    int64_t span_ns, busy_ns;              /* first start to last end; union of all spans */
    double parallel;                       /* mean number of kernels at once while any ran; NaN without kernels */
    struct aorta_gap_summary intra, inter; /* between kernels: on streams, between streams */
    struct aorta_gap_summary same_stream, other_stream; /* of all queues */
};

/* `spans` of one device; sorts them. Spans of the host are not allowed. */
AORTA_MUST_USE aorta_status aorta_queue_usage_measure(struct aorta_span *spans, size_t count,
                                                      struct aorta_queue_usage *queues);
void aorta_queue_usage_free(struct aorta_queue_usage *queues);

/* ---- queues of a device (hwq/spans.h) as text and as JSON (aorta hwq profile) ---- */

/* `queue_name`: the source's word for a queue ("channel", "queue"). */
void aorta_queue_usage_find(const struct aorta_queue_usage *queues, const char *queue_name,
                            struct aorta_found_list *found);
/* The tables. */
void aorta_queue_usage_text(const struct aorta_queue_usage *queues, const char *queue_name, struct aorta_text *text);
/* An object. */
void aorta_queue_usage_json(const struct aorta_queue_usage *queues, struct aorta_json *json);
void aorta_queue_usage_schema(struct aorta_json *json);

/* As CSV (struct aorta_hwq_csv): queues.csv, a line for each queue, and gaps.csv. */
extern const struct aorta_result_table *const aorta_queue_usage_csv[2];
struct aorta_queue_usage_of { /* borrowed */
    const char *path;
    int64_t rank, device;
    const struct aorta_queue_usage *usage;
};

#endif
