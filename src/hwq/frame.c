#include "hwq/frame.h"
#include "base/clock.h"

/* Times of iteration i are slots[2·(i+1)] (start) and the one behind it (end); the first pair is the warm-up's. Streams
 * that are not joined have a row each of their own instead: slots[(i+1)·streams + s] is the end of iteration i on
 * stream s, and row 0 the start. */
static size_t slot_count(const struct aorta_hwq_frame *frame) {
    const size_t rows = (size_t)frame->plan->iterations + 1;
    return rows * (frame->joined ? 2 : (size_t)frame->hwq->stream_count);
}

aorta_status aorta_hwq_frame_open(struct aorta_hwq *hwq, const struct aorta_hwq_plan *plan,
                                  struct aorta_hwq_frame *frame) {
    *frame = (struct aorta_hwq_frame){.hwq = hwq, .plan = plan};
    frame->joined = plan->sync != AORTA_HWQ_NONE || plan->graph || !plan->independent;
    aorta_status status = aorta_event_create_untimed(hwq->device, &frame->fork);
    for (int s = 1; s < hwq->stream_count && !status; s++)
        status = aorta_event_create_untimed(hwq->device, &frame->joins[s]);
    if (!status && plan->gate) status = aorta_hwq_gate_create(hwq, &frame->gate);
    if (!status)
        status = aorta_pinned_alloc(hwq->device, slot_count(frame) * sizeof *frame->slots, "times of iterations",
                                    (void **)&frame->slots);
    if (status) aorta_hwq_frame_close(frame);
    return status;
}

void aorta_hwq_frame_close(struct aorta_hwq_frame *frame) {
    aorta_hwq_gate_destroy(frame->gate);
    aorta_status_free(aorta_hwq_frame_wait(frame)); /* nothing may write to what is freed now */
    aorta_graph_destroy(frame->graph);
    aorta_event_destroy(frame->fork);
    for (int s = 1; s < frame->hwq->stream_count; s++) aorta_event_destroy(frame->joins[s]);
    aorta_pinned_free(frame->hwq->device, frame->slots);
}

aorta_status aorta_hwq_frame_wait(struct aorta_hwq_frame *frame) {
    aorta_status status = NULL;
    for (int s = 0; s < frame->hwq->stream_count; s++)
        status = aorta_status_join(status, aorta_stream_synchronize(frame->hwq->streams[s]));
    return status;
}

/* ---- one iteration ---- */

/* All streams begin behind what is queued on the first. */
static aorta_status fork_streams(struct aorta_hwq_frame *frame) {
    struct aorta_hwq *hwq = frame->hwq;
    if (hwq->stream_count == 1) return NULL;
    AORTA_TRY(aorta_event_record(frame->fork, hwq->streams[0]));
    for (int s = 1; s < hwq->stream_count; s++) AORTA_TRY(aorta_stream_wait(hwq->streams[s], frame->fork));
    return NULL;
}

static aorta_status join_streams(struct aorta_hwq_frame *frame) {
    struct aorta_hwq *hwq = frame->hwq;
    for (int s = 1; s < hwq->stream_count; s++) {
        AORTA_TRY(aorta_event_record(frame->joins[s], hwq->streams[s]));
        AORTA_TRY(aorta_stream_wait(hwq->streams[0], frame->joins[s]));
    }
    return NULL;
}

static aorta_status iterate_joined(struct aorta_hwq_frame *frame) {
    AORTA_TRY(fork_streams(frame));
    AORTA_TRY(frame->plan->iterate(frame->hwq, frame->plan->state));
    return join_streams(frame);
}

aorta_status aorta_hwq_frame_capture(struct aorta_hwq_frame *frame) {
    AORTA_TRY(aorta_capture_begin(frame->hwq->streams[0]));
    aorta_status inside = iterate_joined(frame);
    aorta_status status = aorta_capture_end(frame->hwq->streams[0], &frame->graph);
    if (inside && !status) aorta_graph_destroy(frame->graph);
    if (inside || status) frame->graph = NULL;
    return aorta_annotate(aorta_status_join(inside, status), "the iteration cannot be captured (--graph)");
}

static aorta_status queue_joined(struct aorta_hwq_frame *frame, int64_t *slots) {
    struct aorta_stream *first = frame->hwq->streams[0];
    if (frame->gate) AORTA_TRY(aorta_hwq_gate_close(frame->gate));
    AORTA_TRY(aorta_timestamp(first, &slots[0]));
    if (frame->graph)
        AORTA_TRY(aorta_graph_launch(frame->graph, first));
    else
        AORTA_TRY(iterate_joined(frame));
    return aorta_timestamp(first, &slots[1]);
}

static aorta_status stamp_streams(struct aorta_hwq_frame *frame, int64_t row) {
    const int count = frame->hwq->stream_count;
    for (int s = 0; s < count; s++) AORTA_TRY(aorta_timestamp(frame->hwq->streams[s], &frame->slots[row * count + s]));
    return NULL;
}

static aorta_status queue_freely(struct aorta_hwq_frame *frame, int64_t index) {
    if (index == 0) AORTA_TRY(stamp_streams(frame, 0));
    AORTA_TRY(frame->plan->iterate(frame->hwq, frame->plan->state));
    return index < 0 ? NULL : stamp_streams(frame, index + 1);
}

static aorta_status check_gate(const struct aorta_hwq_frame *frame) {
    if (aorta_hwq_gate_held(frame->gate)) return NULL;
    return AORTA_ERROR(AORTA_DEVICE,
                       "--gate: the device could not be held until an iteration was queued: that took the host more "
                       "than %g s, or the device's queues are full before; --graph queues it with one launch",
                       AORTA_HWQ_GATE_LIMIT_S);
}

aorta_status aorta_hwq_frame_run(struct aorta_hwq_frame *frame, int64_t index, int64_t *host_ns) {
    const int64_t start_ns = aorta_clock_ns();
    const int64_t row = index < 0 ? 0 : index + 1;
    aorta_status status = frame->joined ? queue_joined(frame, &frame->slots[2 * row]) : queue_freely(frame, index);
    *host_ns = aorta_clock_ns() - start_ns;
    if (frame->gate) aorta_hwq_gate_open(frame->gate);
    if (status) return status;
    if (frame->plan->sync != AORTA_HWQ_PER_ITERATION) return NULL;
    AORTA_TRY(aorta_stream_synchronize(frame->hwq->streams[0]));
    return frame->gate ? check_gate(frame) : NULL;
}

/* ---- times ---- */

static int64_t latest(const int64_t *slots, int count) {
    int64_t last = slots[0];
    for (int i = 1; i < count; i++)
        if (slots[i] > last) last = slots[i];
    return last;
}

static int64_t earliest(const int64_t *slots, int count) {
    int64_t first = slots[0];
    for (int i = 1; i < count; i++)
        if (slots[i] < first) first = slots[i];
    return first;
}

/* Streams that run on freely: an iteration lasts from the end of the one before on the last stream to its own. */
static void free_times(const struct aorta_hwq_frame *frame, double *iteration_ms) {
    const int count = frame->hwq->stream_count;
    int64_t before = earliest(frame->slots, count);
    for (int64_t i = 0; i < frame->plan->iterations; i++) {
        const int64_t end = latest(&frame->slots[(i + 1) * count], count);
        iteration_ms[i] = (double)(end - before) * 1e-6;
        before = end;
    }
}

void aorta_hwq_frame_times(const struct aorta_hwq_frame *frame, double *iteration_ms) {
    if (!frame->joined) {
        free_times(frame, iteration_ms);
        return;
    }
    for (int64_t i = 0; i < frame->plan->iterations; i++) {
        const int64_t *slots = &frame->slots[2 * (i + 1)];
        iteration_ms[i] = (double)(slots[1] - slots[0]) * 1e-6;
    }
}
