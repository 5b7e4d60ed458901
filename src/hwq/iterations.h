/* Runs iterations of a workload: with a gate before each, launched one by one or replayed from a graph, timed without
 * any stamp or stamped kernel by kernel. */
#ifndef AORTA_HWQ_ITERATIONS_H
#define AORTA_HWQ_ITERATIONS_H

#include "hwq/stamps.h"
#include "measure/clocks.h"

enum aorta_hwq_sync {
    AORTA_HWQ_PER_ITERATION, /* the host waits for each iteration */
    AORTA_HWQ_END_ONLY,      /* iterations follow each other on the device; the host waits for the last */
    AORTA_HWQ_NONE, /* as END_ONLY, and streams are not joined between iterations where the workload allows it */
};

struct aorta_hwq_plan {
    enum aorta_hwq_sync sync;
    bool graph; /* an iteration is captured once and replayed */
    bool gate;  /* no work starts before the whole iteration is queued; needs PER_ITERATION */
    bool independent;
    int64_t iterations;
    struct hwq_graph *g;                        /* what is iterated, on the streams of its harness */
    void (*progress)(void *user, int64_t done); /* may be NULL */
    void *user;
};

/* ---- timed ---- */

/* Arrays of `iterations`, of the caller. */
struct aorta_hwq_times {
    double *iteration_ms; /* on the device: from the first work that could run to the end of the last */
    double *host_ms;      /* the host's time to queue the iteration */
    double wall_ms;       /* host clock, over all iterations and the last wait */
    int64_t queued;       /* launches of one iteration */
};
/* AORTA_DEVICE when the gate reached its limit before everything was queued. */
AORTA_MUST_USE aorta_status aorta_hwq_time_iterations(const struct aorta_hwq_plan *plan, struct aorta_hwq_times *times);

/* ---- stamped ---- */

typedef aorta_status (*aorta_hwq_spans_visitor)(void *user, const struct aorta_hwq_spans *spans);
/* The sync mode is always PER_ITERATION. One more iteration runs first, without a visit. */
AORTA_MUST_USE aorta_status aorta_hwq_stamp_iterations(const struct aorta_hwq_plan *plan, aorta_hwq_spans_visitor visit,
                                                       void *user);

/* ---- one by one ---- */

struct aorta_hwq_gate; /* iterations.c */

struct aorta_hwq_runner {
    struct aorta_hwq *hwq;
    const struct aorta_hwq_plan *plan;
    struct aorta_owned own;
    struct aorta_event *fork;
    struct aorta_event *joins[AORTA_HWQ_MAX_STREAMS];
    struct aorta_hwq_gate *gate; /* NULL: none */
    struct aorta_graph *graph;   /* NULL: launched one by one */
    int64_t *slots;              /* pinned; see iterations.c */
    bool joined;                 /* streams are joined after every iteration */
};

AORTA_MUST_USE aorta_status aorta_hwq_runner_open(const struct aorta_hwq_plan *plan, struct aorta_hwq_runner *runner);
void aorta_hwq_runner_close(struct aorta_hwq_runner *runner);
/* Captures an iteration, for runner_run to replay. It must have run once before. */
AORTA_MUST_USE aorta_status aorta_hwq_runner_capture(struct aorta_hwq_runner *runner);
/* Queues iteration number `index` (negative: warm-up, without times) and waits if the plan says so. *host_ns: the
 * host's time to queue it. */
AORTA_MUST_USE aorta_status aorta_hwq_runner_run(struct aorta_hwq_runner *runner, int64_t index, int64_t *host_ns);
/* Runs `iterations` without times and waits for them. With plan->graph at least one runs, which loads libraries and
 * kernels and allocates scratch memory; the capture and the first replay follow. */
AORTA_MUST_USE aorta_status aorta_hwq_runner_warm_up(struct aorta_hwq_runner *runner, int64_t iterations);
AORTA_MUST_USE aorta_status aorta_hwq_wait_for_streams(const struct aorta_hwq *hwq); /* for everything on all streams */

/* ---- the device's clock ----
 * Sampled while iterations are timed: before and after them, and twice a second in between, on a
 * thread of its own. On a CPU there is nothing to sample. */

struct aorta_hwq_clock_sampler;

/* Opens the library of the vendor, which takes a while. Close it in any case. */
AORTA_MUST_USE aorta_status aorta_hwq_clock_sampler_begin(struct aorta_device *device,
                                                          struct aorta_hwq_clock_sampler **sampler);
/* Call it directly after the last iteration. */
AORTA_MUST_USE aorta_status aorta_hwq_clock_sampler_end(struct aorta_hwq_clock_sampler *sampler,
                                                        struct aorta_clocks *clocks);
void aorta_hwq_clock_sampler_close(struct aorta_hwq_clock_sampler *sampler); /* NULL is fine; also without an end */

#endif
