/* The cost of recording for a program's host threads, estimated from the recording.
 *
 * A profiler stamps an operation's start as the last thing it does on entering and its end as the first on leaving: the
 * cost is outside, in the time of whatever is around. An operation that only calls another operation shows this cost:
 *
 *     outer |--[enter inner]--| inner ... |--[leave inner]--|
 *            before                         after
 *
 * The minimum over such pairs is the cost of an event. Calls of the runtime interface contain their cost, because CUPTI
 * writes its record within them. Code between stamps is slower, too, because the profiler uses its caches: in
 * proportion to the share of stamps, and more where equal intervals vary more from their fastest (docs/metrics.md has
 * the rules and measurements).
 *
 * Times are int64 ns on the trace's clock. One thread. */
#ifndef AORTA_REPLAY_UNRECORDED_H
#define AORTA_REPLAY_UNRECORDED_H

#include "base/arena.h"
#include "replay/trace_graph.h"
#include "trace/trace.h"

/* Kinds of events that a profiler stamps differently. */
enum aorta_stamped {
    AORTA_STAMPED_OPERATION,
    AORTA_STAMPED_ENGINE, /* autograd's engine around a node */
    AORTA_STAMPED_NODE,   /* of autograd's graph */
    AORTA_STAMPED_RANGE,
    AORTA_STAMPED_FUNCTION, /* of Python */
    AORTA_STAMPED_LAUNCH,   /* a call that launches */
    AORTA_STAMPED_WAIT,     /* a call that waits for the device */
    AORTA_STAMPED_CALL,     /* any other */
    AORTA_STAMPED_COUNT
};

/* Cost of recording one event. */
struct aorta_stamp_cost {
    double enter_ns, leave_ns; /* before its start and after its end */
};

struct aorta_recording_costs {
    struct aorta_stamp_cost stamp[AORTA_STAMPED_COUNT];
    double within_ns; /* per launch, mean of the trace */
    double share;     /* of the host's time since the first step that stamps took */
    double spread;    /* mean of equal intervals over their fastest, in the step where this is least; 1: no spread */
    double pace;      /* slowdown of the host's own time in that step; 1: none */
};

struct aorta_recording_cost; /* of one trace */

/* AORTA_UNSUPPORTED: nothing in the trace shows what recording it cost; AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_recording_cost_make(const struct aorta_trace *trace,
                                                      struct aorta_recording_cost **cost);
void aorta_recording_cost_free(struct aorta_recording_cost *cost); /* NULL is fine */

const struct aorta_recording_costs *aorta_recording_costs(const struct aorta_recording_cost *cost);

/* Factors of the estimate; 1 and 1: as found. */
struct aorta_recording_weight {
    double cost; /* of the cost that was found */
    double own;  /* of the host's own time */
};
/* To be called before aorta_recording_cost_between. */
void aorta_recording_cost_weigh(struct aorta_recording_cost *cost, struct aorta_recording_weight weight);
/* The cost of recording for the thread between two times; 0 for threads without launches and steps. Cheap if successive
 * calls advance in time. */
int64_t aorta_recording_cost_between(struct aorta_recording_cost *cost, uint32_t thread, int64_t from_ns,
                                     int64_t to_ns);

/* ---- events of a trace's host threads, for recording_cost.c ---- */

enum { AORTA_STAMPED_SEVERAL = UINT32_MAX - 1, AORTA_STAMPED_TEXTS = (1 << 26) - 1 /* that a stamp can name */ };

/* An event on a thread that launches or has steps. Without padding, because there are as many as operations. */
struct aorta_stamped_event {
    int64_t start_ns, end_ns;
    uint32_t parent;      /* row; NONE */
    uint32_t only;        /* row of the only direct child; NONE: no child; SEVERAL */
    uint32_t name : 28;   /* of an operation or a call */
    uint32_t stamped : 4; /* enum aorta_stamped */
};

/* Events of all threads. A thread's events are contiguous: ascending start, longer first. */
struct aorta_stamped_events {
    struct aorta_stamped_event *items;
    size_t *ends; /* by thread of the trace: end of its events */
    size_t count;
};

static inline bool aorta_stamped_is_call(const struct aorta_stamped_event *event) {
    return event->stamped >= AORTA_STAMPED_LAUNCH;
}

/* A call within a call is part of the outer call. An event that outlasts its parent is cut at the parent's end. The
 * items are in `memory`, and `ends` are in `scratch`, which fails if either is exhausted. */
struct aorta_stamped_events aorta_stamped_events_make(const struct aorta_trace *trace, struct aorta_arena *memory,
                                                      struct aorta_arena *scratch);

/* The step without the recording: a graph of recorded ranks with the cost of recording subtracted from the hosts'
 * edges. */

struct aorta_unrecorded {
    bool known;
    const char *reason;          /* static: why not */
    double recorded_ns, step_ns; /* per step */
    double range_ns[2];          /* per step, if recording cost more than was found, and if it cost less */
};

/* Turns the finished graph into the graph of the step without the recording: work that depends on hosts comes earlier.
 * Nothing comes later, except data from loaders. The graph is unchanged where the cost of recording is not known.
 * Recordings of `aorta train` need no correction; `reason` is then NULL.
 * AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_trace_graph_unrecord(struct aorta_trace_graph *built,
                                                       struct aorta_unrecorded *unrecorded);

#endif
