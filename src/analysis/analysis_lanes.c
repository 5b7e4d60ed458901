/* Streams and hardware queues: how busy each was, and which streams shared which queues. */
#include "analysis/analysis_internal.h"

#include <stdlib.h>

/* A union that grows at its end. */
struct reach {
    int64_t until_ns, length_ns;
};

static void reach_add(struct reach *reach, const struct aorta_trace_work *work) {
    int64_t from = work->start_ns > reach->until_ns ? work->start_ns : reach->until_ns;
    if (work->end_ns <= from) return;
    reach->length_ns += work->end_ns - from;
    reach->until_ns = work->end_ns;
}

struct lane {
    struct reach all, compute, comm, copy;
    int64_t sum_ns;
    size_t count, others;
};

static void lane_add(struct lane *lane, const struct aorta_trace_work *work) {
    bool copy = work->kind != AORTA_TRACE_KERNEL;
    reach_add(&lane->all, work);
    reach_add(copy ? &lane->copy : aorta_trace_is_collective(work) ? &lane->comm : &lane->compute, work);
    lane->sum_ns += work->end_ns - work->start_ns;
    lane->count++;
}

static struct lane *new_lanes(size_t count) {
    struct lane *lanes = calloc(count + 1, sizeof *lanes);
    for (size_t i = 0; lanes && i < count; i++)
        lanes[i].all.until_ns = lanes[i].compute.until_ns = lanes[i].comm.until_ns = lanes[i].copy.until_ns = INT64_MIN;
    return lanes;
}

static int busiest_first(const void *left, const void *right) {
    const struct aorta_trace_lane_row *a = left, *b = right;
    if (a->busy_ns != b->busy_ns) return a->busy_ns > b->busy_ns ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

static aorta_status take_rows(const struct lane *lanes, size_t count, struct aorta_trace_lane_row **rows,
                              size_t *row_count) {
    size_t used = 0;
    for (size_t i = 0; i < count; i++) used += lanes[i].count > 0;
    *rows = calloc(used + 1, sizeof **rows);
    if (!*rows) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu streams", used);
    for (size_t i = 0; i < count; i++) {
        const struct lane *lane = &lanes[i];
        if (!lane->count) continue;
        (*rows)[(*row_count)++] = (struct aorta_trace_lane_row){
            .row = (uint32_t)i,
            .count = lane->count,
            .busy_ns = lane->all.length_ns,
            .compute_ns = lane->compute.length_ns,
            .comm_ns = lane->comm.length_ns,
            .memcpy_ns = lane->copy.length_ns,
            .overlapped_ns = lane->sum_ns - lane->all.length_ns,
            .others = lane->others,
        };
    }
    qsort(*rows, *row_count, sizeof **rows, busiest_first);
    return NULL;
}

/* ---- who used what ---- */

struct use {
    uint32_t stream, queue;
};

static int use_order(const void *left, const void *right) {
    const struct use *a = left, *b = right;
    if (a->stream != b->stream) return a->stream < b->stream ? -1 : 1;
    return (a->queue > b->queue) - (a->queue < b->queue);
}

/* Consecutive work mostly uses one pair, so the list of changes is short. */
static aorta_status count_uses(const struct aorta_trace_rank *rank, struct lane *streams, struct lane *queues) {
    struct use *uses = malloc((rank->work_count + 1) * sizeof *uses);
    if (!uses) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu uses of queues", rank->work_count);
    size_t count = 0;
    for (size_t i = 0; i < rank->work_count; i++) {
        struct use use = {rank->work[i].stream, rank->work[i].queue};
        if (use.queue == AORTA_TRACE_NONE || use.stream == AORTA_TRACE_NONE) continue;
        if (count && use_order(&uses[count - 1], &use) == 0) continue;
        uses[count++] = use;
    }
    qsort(uses, count, sizeof *uses, use_order);
    for (size_t i = 0; i < count; i++) {
        if (i && use_order(&uses[i - 1], &uses[i]) == 0) continue;
        streams[uses[i].stream].others++;
        queues[uses[i].queue].others++;
    }
    free(uses);
    return NULL;
}

aorta_status aorta_trace_lanes_make(struct aorta_trace_rank *rank) {
    const struct aorta_trace *trace = rank->trace;
    struct lane *streams = new_lanes(trace->stream_count), *queues = new_lanes(trace->queue_count);
    aorta_status status =
        streams && queues ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for %zu streams", trace->stream_count);
    for (size_t i = 0; !status && i < rank->work_count; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        if (work->stream != AORTA_TRACE_NONE) lane_add(&streams[work->stream], work);
        if (work->queue != AORTA_TRACE_NONE) lane_add(&queues[work->queue], work);
    }
    if (!status && trace->queue_count) status = count_uses(rank, streams, queues);
    if (!status) status = take_rows(streams, trace->stream_count, &rank->streams, &rank->stream_count);
    if (!status) status = take_rows(queues, trace->queue_count, &rank->queues, &rank->queue_count);
    free(streams);
    free(queues);
    return status;
}
