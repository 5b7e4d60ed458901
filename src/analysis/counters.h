/* What changes while a rank runs, as steps at the moments of the change, for traces that are written
 * (report/merge.h): launched work that has not started, compute and communication running, both at once, bytes a
 * second, memory. Made when it is asked for. */
#ifndef AORTA_ANALYSIS_COUNTERS_H
#define AORTA_ANALYSIS_COUNTERS_H

#include "analysis/analysis.h"

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

/* AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_counters_make(const struct aorta_trace_rank *rank, struct aorta_counters *counters);
void aorta_counters_free(struct aorta_counters *counters);

#endif
