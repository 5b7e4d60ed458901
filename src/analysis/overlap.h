/* Overlap of one iteration's ranges, as defined in docs/metrics.md, exact to the nanosecond.
 * All times are int64 ns on unions of intervals of one rank. */
#ifndef AORTA_ANALYSIS_OVERLAP_H
#define AORTA_ANALYSIS_OVERLAP_H

#include "base/interval.h"
#include "trace/profile.h"

#include <stdbool.h>

/* Causes of idle time, by one rule for all gaps of all sources. Definitions: docs/metrics.md. */

/* Names of idle causes in all outputs. */
struct aorta_idle_words {
    const char *key;  /* in JSON: "data_wait" */
    const char *name; /* "waiting for data", as in the verdict */
    const char *when; /* "with nothing queued": follows "idle" */
};
extern const struct aorta_idle_words aorta_idle_words[AORTA_IDLE_CAUSE_COUNT];
const char *aorta_idle_name(int cause); /* in JSON */

int64_t aorta_idle_total(const struct aorta_idle *idle);
/* The host's part: data_wait, host_sync, host_launch. "Host-bound" refers to this part, without launch latency. */
int64_t aorta_idle_host(const struct aorta_idle *idle);
void aorta_idle_add(struct aorta_idle *sum, const struct aorta_idle *idle);
/* The cause with the largest part; the first of equal ones. */
enum aorta_idle_cause aorta_idle_largest(const struct aorta_idle *idle);

/* Times in which the host could not launch because it waited. Disjoint: a time in both is in `data`.
 * Zero-initialise. */
struct aorta_host_waits {
    struct aorta_intervals data, device;
};
void aorta_host_waits_free(struct aorta_host_waits *waits);
/* Makes them from waits in any order, which may overlap. Empties both sets. If memory is exhausted,
 * waits->device.failed is set. */
void aorta_host_waits_make(struct aorta_intervals *data, struct aorta_intervals *device,
                           struct aorta_host_waits *waits);

/* Splits a gap that ends with the start of an operation launched at `launch_ns` (INT64_MIN: not known). The time until
 * the launch is the host's, the time after it is launch latency. The parts add up to the gap. */
struct aorta_idle aorta_idle_of_gap(const struct aorta_host_waits *waits, int64_t start_ns, int64_t end_ns,
                                    int64_t launch_ns);

/* Fills profile->overlap, which is zero or was filled before. `previous_end_ns`: end_ns of the previous iteration,
 * INT64_MIN if there is none. span + lead is the time from that end to this iteration's. An iteration that began before
 * that end, as with an early copy of its batch, has no lead and counts from there. */
AORTA_MUST_USE aorta_status aorta_overlap_compute(struct aorta_profile *profile, int64_t previous_end_ns);
/* As aorta_overlap_compute, but sets memory->failed if memory is exhausted. */
void aorta_overlap_make(struct aorta_profile *profile, int64_t previous_end_ns, struct aorta_arena *memory);

#endif
