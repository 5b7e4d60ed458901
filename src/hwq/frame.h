/* What stands around an iteration: where it starts, where its streams are joined, and the times of both. */
#ifndef AORTA_HWQ_FRAME_H
#define AORTA_HWQ_FRAME_H

#include "hwq/gate.h"
#include "hwq/pass.h"

struct aorta_hwq_frame {
    struct aorta_hwq *hwq;
    const struct aorta_hwq_plan *plan;
    struct aorta_event *fork;
    struct aorta_event *joins[AORTA_HWQ_MAX_STREAMS];
    struct aorta_hwq_barrier *gate; /* NULL: none */
    struct aorta_graph *graph;      /* NULL: launched one by one */
    int64_t *slots;                 /* pinned; see frame.c */
    bool joined;                    /* streams are joined after every iteration */
};

AORTA_MUST_USE aorta_status aorta_hwq_frame_open(struct aorta_hwq *hwq, const struct aorta_hwq_plan *plan,
                                                 struct aorta_hwq_frame *frame);
void aorta_hwq_frame_close(struct aorta_hwq_frame *frame);
/* Records an iteration, for frame_run to replay. Everything in it has run once before. */
AORTA_MUST_USE aorta_status aorta_hwq_frame_capture(struct aorta_hwq_frame *frame);
/* Queues iteration number `index` (negative: warm-up, whose times are not kept), waits if the plan says so. *host_ns:
 * what queueing took. */
AORTA_MUST_USE aorta_status aorta_hwq_frame_run(struct aorta_hwq_frame *frame, int64_t index, int64_t *host_ns);
AORTA_MUST_USE aorta_status aorta_hwq_frame_wait(struct aorta_hwq_frame *frame); /* for everything */
/* After the wait: the time of each iteration. */
void aorta_hwq_frame_times(const struct aorta_hwq_frame *frame, double *iteration_ms);

#endif
