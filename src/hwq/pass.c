#include "hwq/pass.h"
#include "base/clock.h"
#include "hwq/frame.h"

#include <stdlib.h>

void aorta_hwq_times_free(struct aorta_hwq_times *times) {
    free(times->iteration_ms);
    free(times->host_ms);
    *times = (struct aorta_hwq_times){0};
}

/* What will be captured runs once before: libraries, kernels and scratch memory are got then. */
static aorta_status warm_up(struct aorta_hwq_frame *frame, int64_t iterations) {
    int64_t host_ns;
    if (frame->plan->graph && iterations < 1) iterations = 1;
    for (int64_t i = 0; i < iterations; i++) AORTA_TRY(aorta_hwq_frame_run(frame, -1, &host_ns));
    AORTA_TRY(aorta_hwq_frame_wait(frame));
    if (!frame->plan->graph) return NULL;
    AORTA_TRY(aorta_hwq_frame_capture(frame));
    AORTA_TRY(aorta_hwq_frame_run(frame, -1, &host_ns)); /* a graph's first launch brings it to the device */
    return aorta_hwq_frame_wait(frame);
}

static aorta_status run_timed(struct aorta_hwq_frame *frame, struct aorta_hwq_times *times) {
    const struct aorta_hwq_plan *plan = frame->plan;
    const int64_t queued = frame->hwq->queued;
    AORTA_TRY(warm_up(frame, plan->warmup));
    const int64_t before = frame->hwq->queued, start_ns = aorta_clock_ns();
    for (int64_t i = 0; i < plan->iterations; i++) {
        int64_t host_ns;
        AORTA_TRY(aorta_hwq_frame_run(frame, i, &host_ns));
        times->host_ms[i] = (double)host_ns * 1e-6;
        if (plan->tell) plan->tell(plan->user, i + 1);
    }
    AORTA_TRY(aorta_hwq_frame_wait(frame));
    times->wall_ms = (double)(aorta_clock_ns() - start_ns) * 1e-6;
    aorta_hwq_frame_times(frame, times->iteration_ms);
    /* A replay queues what its capture did. */
    const int64_t warmups = plan->warmup < 1 ? 1 : plan->warmup;
    times->queued = plan->graph ? (before - queued) / (warmups + 1) : (frame->hwq->queued - before) / plan->iterations;
    return NULL;
}

aorta_status aorta_hwq_pass_time(struct aorta_hwq *hwq, const struct aorta_hwq_plan *plan,
                                 struct aorta_hwq_times *times) {
    struct aorta_hwq_frame frame;
    const size_t count = (size_t)plan->iterations;
    *times = (struct aorta_hwq_times){.iteration_ms = calloc(count, sizeof(double)),
                                      .host_ms = calloc(count, sizeof(double))};
    aorta_status status = NULL;
    if (!times->iteration_ms || !times->host_ms)
        status = AORTA_ERROR(AORTA_MEMORY, "no host memory for the times of %zu iterations", count);
    if (!status) status = aorta_hwq_frame_open(hwq, plan, &frame);
    if (!status) {
        status = run_timed(&frame, times);
        aorta_hwq_frame_close(&frame);
    }
    if (status) aorta_hwq_times_free(times);
    return status;
}

/* ---- stamps ---- */

/* Iterations one by one: stamps are blank before each, and read after it. */
static aorta_status run_stamped(struct aorta_hwq_frame *frame, struct aorta_hwq_spans *spans, aorta_hwq_see see,
                                void *user) {
    struct aorta_hwq_stamps *stamps = frame->hwq->stamps;
    int64_t host_ns;
    struct aorta_hwq_barrier *gate = frame->gate;
    frame->gate = NULL; /* room for stamps is made in this iteration, which waits for the device */
    AORTA_TRY(aorta_hwq_stamps_clear(stamps, false));
    aorta_status first = aorta_hwq_frame_run(frame, -1, &host_ns);
    frame->gate = gate;
    if (first) return first;
    if (frame->plan->graph) {
        AORTA_TRY(aorta_hwq_stamps_clear(stamps, false));
        AORTA_TRY(aorta_hwq_frame_capture(frame));
    }
    for (int64_t i = 0; i < frame->plan->iterations; i++) {
        AORTA_TRY(aorta_hwq_stamps_clear(stamps, frame->plan->graph));
        spans->host_start_ns = aorta_clock_ns();
        AORTA_TRY(aorta_hwq_frame_run(frame, i, &host_ns));
        spans->host_end_ns = aorta_clock_ns();
        spans->replayed = frame->plan->graph;
        spans->gate = frame->gate ? frame->hwq->gates : 0;
        AORTA_TRY(aorta_hwq_stamps_collect(stamps, spans));
        AORTA_TRY(see(user, spans));
        if (frame->plan->tell) frame->plan->tell(frame->plan->user, i + 1);
    }
    return NULL;
}

aorta_status aorta_hwq_pass_stamp(struct aorta_hwq *hwq, const struct aorta_hwq_plan *given, aorta_hwq_see see,
                                  void *user) {
    struct aorta_hwq_plan plan = *given;
    struct aorta_hwq_frame frame;
    struct aorta_hwq_spans spans = {0};
    plan.sync = AORTA_HWQ_PER_ITERATION;
    AORTA_TRY(aorta_hwq_stamps_create(hwq, &hwq->stamps));
    aorta_status status = aorta_hwq_frame_open(hwq, &plan, &frame);
    if (!status) {
        status = run_stamped(&frame, &spans, see, user);
        aorta_hwq_frame_close(&frame);
    }
    aorta_hwq_spans_free(&spans);
    aorta_hwq_stamps_destroy(hwq->stamps);
    hwq->stamps = NULL;
    return status;
}
