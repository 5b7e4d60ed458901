/* Which of several ways to do the same work on a stream is the fastest, as steps do it: replayed from a graph, where a
 * way that needs a second node (a library that clears a counter before its kernel) shows what the node costs. */
#ifndef AORTA_OPS_GPU_TRIALS_H
#define AORTA_OPS_GPU_TRIALS_H

#include "device/device.h"

enum { AORTA_MOST_TRIALS = 48 };

struct aorta_trial {
    size_t workspace_bytes; /* the caller's: memory that this way needs, … */
    bool favoured;          /* … and whether it takes part to the end, however it does in the beginning */
    int64_t time_ns;        /* the least of one run; INT64_MAX: it does not run, or others were much faster */
    int nodes;              /* that a run adds to a graph; 0: it could not be captured and was timed as launched */
};

struct aorta_trials {
    struct aorta_stream *stream;
    /* Queues a run of way number `which` on the stream, which may be capturing. Not 0: it is refused, nothing is
     * queued.
     */
    int (*queue)(void *context, int which);
    void *context;
    int count; /* at most AORTA_MOST_TRIALS */
};

/* Fills time and nodes of `count` ways. Of many, those that take longest as launched are left out of what follows; long
 * work is tried in favoured ways only. Waits for the stream, which is not capturing. Where no way can be captured all
 * are timed as launched; where some can, the others do not run. */
AORTA_MUST_USE aorta_status aorta_trials_run(const struct aorta_trials *trials, struct aorta_trial *ways);

/* The fastest. Of those within 2%, which is noise: with the fewest nodes, then without workspace, then the fastest.
 * −1: none runs. */
int aorta_trials_best(const struct aorta_trial *ways, int count);

#endif
