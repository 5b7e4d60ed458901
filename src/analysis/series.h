/* What a rank did over its time, in parts of equal length: busy with what, how much was launched and had not started,
 * how long that waited, how fast data moved. And the same of its streams. Made when it is asked for.
 *
 * Work is in the queue from the start of the call that launched it to its own start; a graph is so from its launch to
 * its first node. HTA counts likewise, from the start of the call to that of the kernel (hta/analyzers/
 * trace_counters.py); its launch delay is from the end of the call, ours from its start, so that length = rate of
 * launches × delay. Work whose launch is not recorded is in no queue. Times are ns of the trace's clock. */
#ifndef AORTA_ANALYSIS_SERIES_H
#define AORTA_ANALYSIS_SERIES_H

#include "analysis/memory.h"
#include "trace/copied.h"

struct aorta_series_part {
    int64_t start_ns, end_ns;
    int64_t compute_ns, comm_ns, copy_ns, overlap_ns, idle_ns; /* of it */
    size_t launches;                                           /* that were made in it, of work that is known */
    double queue_mean;                                         /* over its time */
    size_t queue_most;                                         /* at any moment */
    size_t started;                                            /* work that left the queue in it, */
    double delay_ns;                                           /* and how long it had waited: sum, */
    int64_t delay_most_ns;                                     /* and the longest */
    double copied[AORTA_COPIED_COUNT];                         /* bytes; of a copy as much as lies in the part */
    double sent;                                               /* the same of collectives (larger buffer of the rank) */
};

/* A stream's queue over the rank's span. */
struct aorta_series_stream {
    uint32_t stream; /* row of streams[] */
    double queue_mean;
    size_t queue_most;
    int64_t full_ns;                /* in which 1024 or more waited: a launch blocks about then */
    struct aorta_trace_times delay; /* from launch to start */
};

struct aorta_series {
    struct aorta_series_part *parts;
    size_t count;
    struct aorta_memory_part *memory;    /* one for each part; NULL: the file has no allocations */
    struct aorta_series_stream *streams; /* most work first, as in the rank's streams[] */
    size_t stream_count;
    size_t launched; /* work with a launch in the file; 0: nothing is known of queues */
};

/* `count`: parts, at least 1. Of the rank's chosen steps. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_series_make(const struct aorta_trace_rank *rank, size_t count,
                                              struct aorta_series *series);
/* What a copy, a fill or a collective moves (larger buffer of the rank); -1: not known, or neither. */
int64_t aorta_trace_bytes_of(const struct aorta_trace *trace, const struct aorta_trace_work *work);
void aorta_series_free(struct aorta_series *series);

#endif
