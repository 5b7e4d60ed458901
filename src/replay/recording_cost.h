/* What being recorded cost a program's host threads, found from the recording itself.
 *
 * A profiler stamps an operation's start as the last thing it does on entering and its end as the first on leaving: the
 * cost lies outside, in the time of whatever is around. An operation that does nothing but call another one shows it:
 *
 *     outer |--[enter inner]--| inner ... |--[leave inner]--|
 *            before                         after
 *
 * What such pairs take at least is the cost of an event. Calls of the runtime interface cost within, where CUPTI writes
 * its record. And everything between runs slower, as the profiler takes caches away from it: in proportion to the share
 * of its stamps, and more where the same intervals differ more from their fastest (docs/metrics.md has the rules and
 * what was measured).
 *
 * Times are int64 ns on the trace's clock. One thread. */
#ifndef AORTA_REPLAY_RECORDING_COST_H
#define AORTA_REPLAY_RECORDING_COST_H

#include "trace/trace.h"

/* What kinds of events a profiler stamps differently. */
enum aorta_stamped {
    AORTA_STAMPED_OPERATION,
    AORTA_STAMPED_ENGINE, /* autograd's engine around a node */
    AORTA_STAMPED_NODE,   /* of autograd's graph */
    AORTA_STAMPED_RANGE,
    AORTA_STAMPED_FUNCTION, /* of Python */
    AORTA_STAMPED_LAUNCH,   /* a call that launches */
    AORTA_STAMPED_WAIT,     /* one that waits for the device */
    AORTA_STAMPED_CALL,     /* any other */
    AORTA_STAMPED_COUNT
};

/* Of one event. */
struct aorta_stamp_cost {
    double enter_ns, leave_ns; /* before its start and after its end */
};

struct aorta_recording_costs {
    struct aorta_stamp_cost stamp[AORTA_STAMPED_COUNT];
    double within_ns; /* a launch; mean of the trace's */
    double share;     /* of the host's time between the trace's steps that stamps took */
    double spread; /* how much longer than their fastest equal intervals are, in the step where least; 1: all alike */
    double pace;   /* how much slower all the rest runs in that step; 1: as fast */
};

struct aorta_recording_cost; /* of one trace */

/* AORTA_UNSUPPORTED: nothing in the trace shows what recording it cost; AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_recording_cost_make(const struct aorta_trace *trace,
                                                      struct aorta_recording_cost **cost);
void aorta_recording_cost_free(struct aorta_recording_cost *cost); /* NULL is fine */

const struct aorta_recording_costs *aorta_recording_costs(const struct aorta_recording_cost *cost);

/* 1 and 1: as found. */
struct aorta_recording_weight {
    double cost; /* times what was found */
    double own;  /* … what the host does itself takes */
};
/* Sums the costs up. To be called before aorta_recording_cost_between. */
void aorta_recording_cost_sum(struct aorta_recording_cost *cost, struct aorta_recording_weight weight);
/* What recording cost the thread between two moments; 0 for threads that launch nothing. Cheap where calls go on in
 * time. */
int64_t aorta_recording_cost_between(struct aorta_recording_cost *cost, uint32_t thread, int64_t from_ns,
                                     int64_t to_ns);

#endif
