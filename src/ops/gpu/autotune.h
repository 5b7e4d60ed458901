/* Autotuning: which of several candidates for the same work on a stream is the fastest. They are replayed from a graph,
 * as steps are, so that a candidate that needs a second node (a library that clears a counter before its kernel) shows
 * what the node costs. */
#ifndef AORTA_OPS_GPU_AUTOTUNE_H
#define AORTA_OPS_GPU_AUTOTUNE_H

#include "device/device.h"

enum { AORTA_AUTOTUNE_MOST = 48 };

struct aorta_candidate {
    size_t workspace_bytes; /* the caller's: memory that this candidate needs, … */
    bool preferred;         /* … and whether it is measured to the end, however slow it is at first */
    int64_t time_ns;        /* the shortest run; INT64_MAX: it does not run, or others were much faster */
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

/* Fills time and nodes of `count` candidates. Of many, the slowest as launched are dropped first; of long work only the
 * preferred ones are measured. Waits for the stream, which is not capturing. Where no candidate can be captured all are
 * timed as launched; where some can, the others do not run. */
AORTA_MUST_USE aorta_status aorta_autotune_run(const struct aorta_autotune *autotune,
                                               struct aorta_candidate *candidates);

/* The fastest. Of those within 2%, which is noise: with the fewest nodes, then without workspace, then the fastest.
 * −1: none runs. */
int aorta_autotune_best(const struct aorta_candidate *candidates, int count);

#endif
