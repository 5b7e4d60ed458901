/* What a rank did over its time, in parts of equal length: busy with what, how much was launched and had not started,
 * how long that waited, how fast data moved. And the same of its streams. Made when it is asked for.
 *
 * Work is in the queue from the start of the call that launched it to its own start; a graph is so from its launch to
 * its first node. HTA counts likewise, from the start of the call to that of the kernel (hta/analyzers/
 * trace_counters.py); its launch delay is from the end of the call, ours from its start, so that length = rate of
 * launches × delay. Work whose launch is not recorded is in no queue. Times are ns of the trace's clock. */
#ifndef AORTA_ANALYSIS_SERIES_H
#define AORTA_ANALYSIS_SERIES_H

#include "analysis/analysis.h"
#include "analysis/memory.h"
#include "trace/trace.h"

struct aorta_series_part {
    int64_t start_ns, end_ns;
    int64_t compute_ns, comm_ns, copy_ns, overlap_ns, idle_ns; /* of it */
    size_t launches;                                           /* that were made in it, of work that is known */
    double queue_mean;                                         /* over its time */
    size_t queue_most;                                         /* at any moment */
    size_t started;                                            /* work that left the queue in it, */
    double delay_ns;                                           /* and how long it had waited: sum, */
    int64_t delay_most_ns;                                     /* and the longest */
    double copied[AORTA_COPIED_COUNT];                         /* bytes; copies across a border count in part */
    double sent;                                               /* bytes of collectives (larger buffer of the rank) */
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

/* Covers the rank's chosen steps. `count`: parts, at least 1. */
void aorta_series_make(const struct aorta_trace_rank *rank, size_t count, struct aorta_arena *arena,
                       struct aorta_series *series);

/* What changes while a rank runs, as steps at the moments of change: launched work that has not started, compute and
 * communication that run, both at once, bytes per second, memory. Written traces contain them (report/merge.h).
 * Computed on request. */

enum aorta_counter_kind {
    AORTA_COUNTER_QUEUE,      /* launched and not started (series.h) */
    AORTA_COUNTER_OVERLAP,    /* 1: collectives and compute run; else 0 */
    AORTA_COUNTER_COPIED,     /* GB/s of copies and fills that run */
    AORTA_COUNTER_COLLECTIVE, /* GB/s of collectives that run: their bytes over their time, larger buffer of the rank */
    AORTA_COUNTER_MEMORY,     /* MB of the device that the framework's allocator has handed out */
    AORTA_COUNTER_COUNT
};
const char *aorta_counter_name(int kind); /* as traces show it: "queue length", "overlap", "copies GB/s", … */

struct aorta_counter_point {
    int64_t at_ns; /* on the clock of the rank's trace */
    double value;  /* from then on */
};

struct aorta_counters {
    int rank;
    struct {
        struct aorta_counter_point *points; /* ascending, one for each moment; none where nothing is known */
        size_t count;
    } of[AORTA_COUNTER_COUNT];
};

void aorta_counters_make(const struct aorta_trace_rank *rank, struct aorta_arena *arena,
                         struct aorta_counters *counters);

/* Kernel sequences that repeat: the kernels that runs of the framework's operations launch, in order. Fusing or
 * capturing removes launches from a sequence of short kernels that repeats often.
 *
 * HTA finds frequent CUDA kernel sequences of one operation that the caller names
 * (hta/analyzers/cuda_kernel_analysis.py); this finds those of all operations. Where nested operations launch the same
 * work, the outermost counts. Computed on request. */

enum { AORTA_SEQUENCE_SHORTEST = 2, AORTA_SEQUENCE_LONGEST = 12 };

struct aorta_sequence {
    uint32_t operation;                       /* text: the outermost that launched it, of its first run */
    uint32_t kernels[AORTA_SEQUENCE_LONGEST]; /* texts, in order of their starts; copies and fills count */
    uint32_t length;
    size_t runs;     /* 2 at least */
    int64_t ns;      /* times of the kernels of all runs added up */
    int64_t span_ns; /* of each run from the first start to the last end, added up */
};

struct aorta_sequences {
    struct aorta_sequence *rows; /* most kernels in all first */
    size_t count;
    const char *reason; /* why there are none; NULL */
};

/* Covers the rank's chosen steps. */
void aorta_sequences_make(const struct aorta_trace_rank *rank, struct aorta_arena *arena,
                          struct aorta_sequences *sequences);

#endif
