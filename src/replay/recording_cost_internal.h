/* What a trace says of its host threads, event by event: what recording_cost.c weighs. */
#ifndef AORTA_REPLAY_RECORDING_COST_INTERNAL_H
#define AORTA_REPLAY_RECORDING_COST_INTERNAL_H

#include "base/arena.h"
#include "replay/recording_cost.h"

enum { AORTA_STAMPED_SEVERAL = UINT32_MAX - 1, AORTA_STAMPED_TEXTS = (1 << 26) - 1 /* that a stamp can name */ };

/* An event on a thread that launches; as many as a trace has operations, so without a gap. */
struct aorta_stamped_event {
    int64_t start_ns, end_ns;
    uint32_t parent;      /* row; NONE */
    uint32_t only;        /* the only event right within it; NONE: there is none; SEVERAL */
    uint32_t name : 28;   /* of an operation or a call */
    uint32_t stamped : 4; /* enum aorta_stamped */
};

/* Those of a thread lie together, ascending start, longer first. */
struct aorta_stamped_events {
    struct aorta_stamped_event *items; /* … in memory for half as many more, for the stamps of both ends */
    size_t *ends;                      /* of each thread of the trace: where the next one's begin */
    size_t count;
};

static inline bool is_call(const struct aorta_stamped_event *event) {
    return event->stamped >= AORTA_STAMPED_LAUNCH;
}

/* A call within a call is part of it; what outlasts what is around it ends with that. The items are in `memory`, and
 * `ends` are in `scratch`, which fails where either is exhausted. (recording_cost_events.c) */
struct aorta_stamped_events aorta_stamped_events_make(const struct aorta_trace *trace, struct aorta_arena *memory,
                                                      struct aorta_arena *scratch);

#endif
