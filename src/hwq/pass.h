/* Passes: the same iterations again and again, timed without any stamp, or stamped and not timed. */
#ifndef AORTA_HWQ_PASS_H
#define AORTA_HWQ_PASS_H

#include "hwq/stamps.h"

enum aorta_hwq_sync {
    AORTA_HWQ_PER_ITERATION, /* the host waits for each iteration */
    AORTA_HWQ_END_ONLY,      /* iterations follow each other on the device; the host waits for the last */
    AORTA_HWQ_NONE,          /* and streams are not joined between iterations, where the workload allows it */
};

struct aorta_hwq_plan {
    enum aorta_hwq_sync sync;
    bool graph; /* an iteration is captured once and replayed */
    bool gate;  /* everything is queued behind a held kernel; needs PER_ITERATION */
    bool independent;
    int64_t warmup, iterations;
    aorta_status (*iterate)(struct aorta_hwq *hwq, void *state);
    void *state;
    void (*tell)(void *user, int64_t done); /* progress; may be NULL */
    void *user;
};

/* What the timing pass found; arrays of `iterations`, owned. */
struct aorta_hwq_times {
    double *iteration_ms; /* on the device: from the first thing that could run to the last that did */
    double *host_ms;      /* what queueing took the host */
    double wall_ms;       /* host clock, over all iterations and the last wait */
    int64_t queued;       /* by one iteration */
};
void aorta_hwq_times_free(struct aorta_hwq_times *times);

/* AORTA_DEVICE when the gate gave up before everything was queued. */
AORTA_MUST_USE aorta_status aorta_hwq_pass_time(struct aorta_hwq *hwq, const struct aorta_hwq_plan *plan,
                                                struct aorta_hwq_times *times);

/* Shown the spans of each iteration. */
typedef aorta_status (*aorta_hwq_see)(void *user, const struct aorta_hwq_spans *spans);
/* The plan's sync is PER_ITERATION here, whatever it says. One more iteration runs first, unseen. */
AORTA_MUST_USE aorta_status aorta_hwq_pass_stamp(struct aorta_hwq *hwq, const struct aorta_hwq_plan *plan,
                                                 aorta_hwq_see see, void *user);

#endif
