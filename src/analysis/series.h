/* A rank's time in parts of equal length: busy times, queue length, launch delays and bytes moved. Also the queue of
 * each stream. Computed on request.
 *
 * Work is in the queue from the start of its launching call to its own start; a graph from its launch to its first
 * node. HTA defines the queue in the same way (hta/analyzers/trace_counters.py), but its launch delay begins at the end
 * of the call. Ours begins at its start, so that length = launch rate × delay. Work without a recorded launch is in no
 * queue. Times are ns of the trace's clock. */
#ifndef AORTA_ANALYSIS_SERIES_H
#define AORTA_ANALYSIS_SERIES_H

#include "analysis/analysis.h"
#include "analysis/memory.h"
#include "trace/trace.h"

struct aorta_series_part {
    int64_t start_ns, end_ns;
    int64_t compute_ns, comm_ns, copy_ns, overlap_ns, idle_ns; /* within the part */
    size_t launches;                                           /* launches in the part, of recorded work */
    double queue_mean;                                         /* time average */
    size_t queue_most;                                         /* maximum */
    size_t started;                                            /* work that left the queue in the part, … */
    double delay_ns;                                           /* … and its waiting time: sum … */
    int64_t delay_most_ns;                                     /* … and maximum */
    double copied[AORTA_COPIED_COUNT];                         /* bytes; a copy across a border is split */
    double sent;                                               /* bytes of collectives (larger buffer of the rank) */
};

/* A stream's queue over the rank's span. */
struct aorta_series_stream {
    uint32_t stream; /* row of streams[] */
    double queue_mean;
    size_t queue_most;
    int64_t full_ns;                /* with 1024 or more in the queue, when launches begin to block */
    struct aorta_trace_times delay; /* times from launch to start */
};

struct aorta_series {
    struct aorta_series_part *parts;
    size_t count;
    struct aorta_memory_part *memory;    /* one per part; NULL without allocations in the file */
    struct aorta_series_stream *streams; /* most work first, as in the rank's streams[] */
    size_t stream_count;
    size_t launched; /* work with a recorded launch; 0: queues are unknown */
};

/* Covers the rank's chosen steps. `count`: parts, at least 1. */
void aorta_series_make(const struct aorta_trace_rank *rank, size_t count, struct aorta_arena *arena,
                       struct aorta_series *series);

/* Counters over a rank's time, as values at the times of change: queue length, overlap, bytes per second, memory.
 * Written traces contain them (report/merge.h). Computed on request. */

enum aorta_counter_kind {
    AORTA_COUNTER_QUEUE,      /* launched and not started (series.h) */
    AORTA_COUNTER_OVERLAP,    /* 1: collectives and compute run; else 0 */
    AORTA_COUNTER_COPIED,     /* GB/s of running copies and fills */
    AORTA_COUNTER_COLLECTIVE, /* GB/s of running collectives: bytes (larger buffer of the rank) / duration */
    AORTA_COUNTER_MEMORY,     /* MB that the framework's allocator has allocated */
    AORTA_COUNTER_COUNT
};
const char *aorta_counter_name(int kind); /* name in traces: "queue length", "overlap", "copies GB/s", … */

struct aorta_counter_point {
    int64_t at_ns; /* on the clock of the rank's trace */
    double value;  /* from at_ns on */
};

struct aorta_counters {
    int rank;
    struct {
        struct aorta_counter_point *points; /* ascending, one per time; empty if unknown */
        size_t count;
    } of[AORTA_COUNTER_COUNT];
};

void aorta_counters_make(const struct aorta_trace_rank *rank, struct aorta_arena *arena,
                         struct aorta_counters *counters);

/* Repeating kernel sequences: the kernels launched by runs of the framework's operations, in order. Fusing or capturing
 * removes launches of sequences of short kernels that repeat often.
 *
 * HTA finds frequent CUDA kernel sequences of one given operation (hta/analyzers/cuda_kernel_analysis.py), this those
 * of all operations. If nested operations launch the same work, the outermost counts. Computed on request. */

enum { AORTA_SEQUENCE_SHORTEST = 2, AORTA_SEQUENCE_LONGEST = 12 };

struct aorta_sequence {
    uint32_t operation;                       /* text: the outermost launching operation, of the first run */
    uint32_t kernels[AORTA_SEQUENCE_LONGEST]; /* texts, in order of their starts; copies and fills count */
    uint32_t length;
    size_t runs;     /* at least 2 */
    int64_t ns;      /* total time of the kernels of all runs */
    int64_t span_ns; /* sum over runs of the time from first start to last end */
};

struct aorta_sequences {
    struct aorta_sequence *rows; /* by total number of kernels, largest first */
    size_t count;
    const char *reason; /* why there are none; NULL */
};

/* Covers the rank's chosen steps. */
void aorta_sequences_make(const struct aorta_trace_rank *rank, struct aorta_arena *arena,
                          struct aorta_sequences *sequences);

#endif
