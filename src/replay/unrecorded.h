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
#ifndef AORTA_REPLAY_UNRECORDED_H
#define AORTA_REPLAY_UNRECORDED_H

#include "base/arena.h"
#include "replay/trace_graph.h"
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

/* Cost of recording one event. */
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
/* To be called before aorta_recording_cost_between. */
void aorta_recording_cost_weigh(struct aorta_recording_cost *cost, struct aorta_recording_weight weight);
/* What recording cost the thread between two moments; 0 for threads that launch nothing. Cheap where calls go on in
 * time. */
int64_t aorta_recording_cost_between(struct aorta_recording_cost *cost, uint32_t thread, int64_t from_ns,
                                     int64_t to_ns);

/* ---- what a trace says of its host threads, event by event: what recording_cost.c weighs ---- */

enum { AORTA_STAMPED_SEVERAL = UINT32_MAX - 1, AORTA_STAMPED_TEXTS = (1 << 26) - 1 /* that a stamp can name */ };

/* An event on a thread that launches; as many as a trace has operations, so without a gap. */
struct aorta_stamped_event {
    int64_t start_ns, end_ns;
    uint32_t parent;      /* row; NONE */
    uint32_t only;        /* the only event right within it; NONE: there is none; SEVERAL */
    uint32_t name : 28;   /* of an operation or a call */
    uint32_t stamped : 4; /* enum aorta_stamped */
};

/* Events of all threads. A thread's events are contiguous: ascending start, longer first. */
struct aorta_stamped_events {
    struct aorta_stamped_event *items;
    size_t *ends; /* of each thread of the trace: where the next one's begin */
    size_t count;
};

static inline bool aorta_stamped_is_call(const struct aorta_stamped_event *event) {
    return event->stamped >= AORTA_STAMPED_LAUNCH;
}

/* A call within a call is part of it; what outlasts what is around it ends with that. The items are in `memory`, and
 * `ends` are in `scratch`, which fails where either is exhausted. */
struct aorta_stamped_events aorta_stamped_events_make(const struct aorta_trace *trace, struct aorta_arena *memory,
                                                      struct aorta_arena *scratch);

/* The step as it runs without being recorded: a graph of recorded ranks with what recording cost their hosts
 * taken out of the hosts' edges. */

struct aorta_unrecorded {
    bool known;
    const char *reason;          /* static: why not */
    double recorded_ns, step_ns; /* a step's */
    double range_ns[2];          /* if recording cost more than was found, and if it cost less */
};

/* Turns the finished graph into the graph of the step without the recording: work that depends on hosts comes earlier.
 * Nothing comes later, except data from loaders. The graph is unchanged where the cost of recording is not known.
 * Recordings of `aorta train` need no correction; `reason` is then NULL.
 * AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_graph_unrecord(struct aorta_trace_graph *built,
                                                       struct aorta_unrecorded *unrecorded);

#endif
