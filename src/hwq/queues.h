/* What a recording of the device's work says of its hardware queues (`aorta hwq profile`): which were used, by which
 * streams, how many kernels came through each, and the gaps between them. The work may come from the kernel tracer
 * (channels of CUDA) or from a trace file (queues of rocprofv3).
 *
 * Gaps, each from the end of a kernel to the start of a later one, ns:
 *   intra   to the next kernel of the same stream
 *   inter   from the kernel that was the last of the device to end before this one began, where that was of another
 *           stream
 *   stay, go   to the next kernel of the same queue, of the same stream or of another one: go − stay is what a queue
 * takes for going over to another stream A kernel that begins before its predecessor ended has a gap below zero; such
 * gaps are counted and left out. */
#ifndef AORTA_HWQ_QUEUES_H
#define AORTA_HWQ_QUEUES_H

#include "base/arena.h"
#include "base/json.h"
#include "base/statistics.h"

#include <stdbool.h>
#include <stdint.h>

/* One kernel, copy or fill. */
struct aorta_queue_work {
    int64_t start_ns, end_ns;
    int64_t stream, queue; /* numbers as the source has them, of one device */
    bool kernel;           /* or a copy or fill */
    bool queued;           /* the source knows the queue */
};

struct aorta_queue_gap {
    struct aorta_summary ns; /* of the gaps of 0 and more; NaN without any */
    size_t overlapping;      /* gaps below 0 */
};

struct aorta_queue {
    int64_t id;
    size_t kernels, transfers, streams; /* streams that used it */
    int64_t busy_ns;                    /* union of its work */
    size_t changes;                     /* a kernel of another stream came next */
    struct aorta_queue_gap stay, go;
};

struct aorta_queues {
    struct aorta_arena arena;
    struct aorta_queue *items; /* those that were used, most kernels first */
    size_t count, stream_count;
    size_t kernels, transfers, unqueued; /* unqueued: kernels of which the source does not know the queue */
    size_t streams_on_several;           /* streams that used more than one queue */
    int64_t span_ns, busy_ns;            /* first start to last end; union of all work */
    double parallel;                     /* mean number of kernels at once while there were any; NaN without kernels */
    struct aorta_queue_gap intra, inter, stay, go;
};

/* `work` is sorted by start. */
AORTA_MUST_USE aorta_status aorta_queues_analyse(struct aorta_queue_work *work, size_t count,
                                                 struct aorta_queues *queues);
void aorta_queues_free(struct aorta_queues *queues);

/* `queue_name`: what the source calls a queue ("channel", "queue"). */
void aorta_queues_text(const struct aorta_queues *queues, const char *queue_name, struct aorta_text *text);
/* An object. */
void aorta_queues_json(const struct aorta_queues *queues, struct aorta_json *json);

#endif
