/* What a trace says of its host threads, event by event: what recording_cost.c weighs. */
#ifndef AORTA_REPLAY_RECORDING_COST_INTERNAL_H
#define AORTA_REPLAY_RECORDING_COST_INTERNAL_H

#include "replay/recording_cost.h"

/* An event on a thread that launches. */
struct aorta_stamped_event {
    int64_t start_ns, end_ns;
    uint32_t name, thread;
    uint32_t parent; /* row; NONE */
    uint32_t only;   /* the only event right within it; NONE: there is none, or there are several */
    uint32_t within; /* how many there are */
    uint8_t stamped; /* enum aorta_stamped */
};

static inline bool is_call(const struct aorta_stamped_event *event) {
    return event->stamped >= AORTA_STAMPED_LAUNCH;
}

/* By thread, then start, longer first. A call within a call is part of it; what outlasts what is around it ends with
 * that. The caller frees *events. AORTA_MEMORY. (recording_cost_events.c) */
AORTA_MUST_USE aorta_status aorta_stamped_events(const struct aorta_trace *trace, struct aorta_stamped_event **events,
                                                 size_t *count);

#endif
