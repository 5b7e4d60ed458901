/* What one iteration's ranges say about overlap: the definitions of docs/metrics.md, exact to the nanosecond.
 * All times are int64 ns on unions of intervals of one rank. */
#ifndef AORTA_ANALYSIS_OVERLAP_H
#define AORTA_ANALYSIS_OVERLAP_H

#include "base/interval.h"
#include "trace/profile.h"

#include <stdbool.h>

/* Why the device was idle: the one rule, for every gap of every source. Definitions: docs/metrics.md. */

/* What every output calls them. */
struct aorta_idle_words {
    const char *key;  /* in JSON: "data_wait" */
    const char *name; /* "waiting for data", as the verdict names its cause */
    const char *when; /* "with nothing queued": the device is idle, whatever the cause is */
};
extern const struct aorta_idle_words aorta_idle_words[AORTA_IDLE_CAUSE_COUNT];
const char *aorta_idle_name(int cause); /* in JSON */

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

/* Fills profile->overlap, which is zero, or was filled before. `previous_end_ns`: end_ns of the iteration before,
 * INT64_MIN when there is none. span + lead is the time from that end to this one's: an iteration that began before it
 * (the copy of its batch, say) has no lead, and times count from there. */
AORTA_MUST_USE aorta_status aorta_overlap_compute(struct aorta_profile *profile, int64_t previous_end_ns);
/* The same; where memory is exhausted, `memory` has failed. */
void aorta_overlap_make(struct aorta_profile *profile, int64_t previous_end_ns, struct aorta_arena *memory);

#endif
