/* What one iteration's ranges say about overlap: the definitions of docs/metrics.md, exact to the nanosecond.
 * All times are int64 ns on unions of intervals of one rank. */
#ifndef AORTA_ANALYSIS_OVERLAP_H
#define AORTA_ANALYSIS_OVERLAP_H

#include "base/interval.h"
#include "trace/profile.h"

#include <stdbool.h>

/* Why the device was idle: the one rule, for every gap of every source. Definitions: docs/metrics.md. */

enum aorta_idle_cause {
    AORTA_IDLE_DATA_WAIT,      /* the host waited for input before it launched on */
    AORTA_IDLE_HOST_SYNC,      /* the host waited for the device before it launched on */
    AORTA_IDLE_HOST_LAUNCH,    /* the host had not launched the next operation for another reason */
    AORTA_IDLE_LAUNCH_LATENCY, /* launched and nothing ran before it, but not started yet */
    AORTA_IDLE_UNKNOWN,        /* the launch is not recorded */
    AORTA_IDLE_CAUSE_COUNT
};
/* What every output calls them. */
struct aorta_idle_words {
    const char *key;  /* in JSON: "data_wait" */
    const char *name; /* of a row: "data wait" */
    const char *says; /* in a sentence: "waiting for data" */
    bool host;        /* the device is idle because the host has launched nothing */
};
extern const struct aorta_idle_words aorta_idle_words[AORTA_IDLE_CAUSE_COUNT];

/* Idle time by its cause. */
struct aorta_idle {
    int64_t ns[AORTA_IDLE_CAUSE_COUNT];
};
int64_t aorta_idle_total(const struct aorta_idle *idle);
/* What of it is the host's: data_wait, host_sync, host_launch. "Host-bound" is this; what is launched and has not
 * started is not. */
int64_t aorta_idle_host(const struct aorta_idle *idle);
void aorta_idle_add(struct aorta_idle *sum, const struct aorta_idle *idle);
/* The largest part; the first of two alike. */
enum aorta_idle_cause aorta_idle_largest(const struct aorta_idle *idle);

/* When the host could not launch because it waited. Disjoint: where both apply it is the data. Zero-initialise. */
struct aorta_host_waits {
    struct aorta_intervals data, device;
};
void aorta_host_waits_free(struct aorta_host_waits *waits);
/* From waits in any order, which may overlap; both sets are normalised and emptied. Where memory is exhausted
 * waits->device has failed. */
void aorta_host_waits_make(struct aorta_intervals *data, struct aorta_intervals *device,
                           struct aorta_host_waits *waits);

/* A gap ends with the start of an operation that was launched at `launch_ns` (INT64_MIN: not known). Until the launch
 * the host is the reason, from then on the launch's latency. The parts add up to the gap. */
struct aorta_idle aorta_idle_of_gap(const struct aorta_host_waits *waits, int64_t start_ns, int64_t end_ns,
                                    int64_t launch_ns);

/* One kind of collective within the iteration. */
struct aorta_collective_overlap {
    int64_t count;      /* collectives of this kind */
    int64_t bytes;      /* sum of their sizes */
    int64_t comm_ns;    /* U(kind) */
    int64_t overlap_ns; /* U(kind) ∩ U(compute) */
    int64_t exposed_ns; /* comm − overlap */
    int64_t blamed_ns;  /* its part of the iteration's exposed_comm_ns; the kinds' parts add up to it exactly */
};

/* A stretch of time and the roles whose streams were active in it. */
struct aorta_segment {
    int64_t start_ns, end_ns;
    unsigned roles; /* bit r: enum aorta_role r; 0: idle */
};

/* A stretch in which a collective ran without concurrent compute. Where several ran, `range` is the collective that
 * ended the wait: the last to end before compute continued, else the first to end afterwards. Stretches are disjoint
 * and sorted by time. */
struct aorta_exposed {
    int64_t start_ns, end_ns;
    size_t range; /* index in the profile */
};

struct aorta_overlap {
    int64_t span_ns;    /* first start, or the previous iteration's end where that is later, to last end */
    int64_t lead_ns;    /* gap between the previous iteration's end and this one's start; 0: none or not known */
    int64_t compute_ns; /* U(ranges that are neither collectives nor copies) */
    int64_t comm_ns, memcpy_ns, busy_ns, idle_ns;
    int64_t overlap_ns, exposed_comm_ns;
    int64_t exposed_copy_ns;      /* copies without concurrent compute or collectives */
    int64_t dependency_ns;        /* no compute although the next compute was launched: it waited for another stream */
    double overlap_ratio;         /* NaN when comm_ns is 0 */
    double compute_overlap_ratio; /* NaN when compute_ns is 0 */
    int64_t role_ns[AORTA_ROLE_COUNT];
    double utilization[AORTA_ROLE_COUNT]; /* role_ns / span; NaN when the span is 0 */
    struct aorta_collective_overlap kind[AORTA_COLLECTIVE_COUNT];
    struct aorta_idle idle;         /* by cause, over idle_ns + lead_ns; adds up to it exactly */
    struct aorta_segment *segments; /* owned */
    size_t segment_count;
    struct aorta_exposed *exposed; /* owned */
    size_t exposed_count;
    bool simulated; /* a collective was a local copy */
};

/* `previous_end_ns`: end_ns of the iteration before, INT64_MIN when there is none. span + lead is the time from that
 * end to this one's: an iteration that began before it (the copy of its batch, say) has no lead, and times count from
 * there. Fills *overlap (no need to initialise); the caller ends it with aorta_overlap_free. */
AORTA_MUST_USE aorta_status aorta_overlap_compute(const struct aorta_profile *profile, int64_t previous_end_ns,
                                                  struct aorta_overlap *overlap);
/* The same; where memory is exhausted, `memory` has failed. */
void aorta_overlap_make(const struct aorta_profile *profile, int64_t previous_end_ns, struct aorta_arena *memory,
                        struct aorta_overlap *overlap);
void aorta_overlap_free(struct aorta_overlap *overlap);

#endif
