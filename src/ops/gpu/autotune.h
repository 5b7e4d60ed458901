/* Autotuning finds the fastest of several candidates for one piece of work on a stream. They are replayed from a graph,
 * as steps are, so that a candidate that needs a second node (a library that clears a counter before its kernel) shows
 * the node's cost. */
#ifndef AORTA_OPS_GPU_AUTOTUNE_H
#define AORTA_OPS_GPU_AUTOTUNE_H

#include "device/device.h"

enum { AORTA_AUTOTUNE_MOST = 48 };

struct aorta_candidate {
    size_t workspace_bytes; /* the caller's: memory that this candidate needs, … */
    bool preferred;         /* … and whether it is measured to the end, however slow it is at first */
    int64_t time_ns;        /* the shortest run; INT64_MAX: it does not run, or is much slower than the fastest */
    int nodes;              /* that a run adds to a graph; 0: it could not be captured and was timed as launched */
};

struct aorta_autotune {
    struct aorta_stream *stream;
    /* Queues a run of candidate number `which` on the stream, which may be capturing. Not 0: it is refused, nothing is
     * queued.
     */
    int (*queue)(void *context, int which);
    void *context;
    int count; /* at most AORTA_AUTOTUNE_MOST */
};

/* Fills time and nodes of `count` candidates. If there are many, the slowest as launched are dropped first; if the work
 * is long, only the preferred ones are measured. Waits for the stream, which is not capturing. If some candidates can
 * be captured, only these are measured; else all are timed as launched. */
AORTA_MUST_USE aorta_status aorta_autotune_run(const struct aorta_autotune *autotune,
                                               struct aorta_candidate *candidates);

/* The fastest. Times within 2% are noise: among these, the one with the fewest nodes, then without workspace, then the
 * fastest. −1: none runs. */
int aorta_autotune_best(const struct aorta_candidate *candidates, int count);

#endif
