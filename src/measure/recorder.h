/* The recorder: ranges around operations. Their times come from the tracer's records (kernels.c joins them) or, without
 * a tracer, from timestamps of the device, which are upper bounds: between two of them a stream also waits.
 *
 * Slots: up to `slots` iterations are in flight; the host collects one while the device fills another.
 * One host thread records. */
#ifndef AORTA_MEASURE_RECORDER_H
#define AORTA_MEASURE_RECORDER_H

#include "device/device.h"
#include "measure/tracer.h"
#include "trace/profile.h"

struct aorta_recorder;

AORTA_MUST_USE aorta_status aorta_recorder_create(struct aorta_device *device, int slots, size_t ranges_per_slot,
                                                  struct aorta_recorder **recorder);
void aorta_recorder_destroy(struct aorta_recorder *recorder);
/* Switched off, begin and end queue nothing (for measuring the cost of recording). */
void aorta_recorder_enable(struct aorta_recorder *recorder, bool enabled);
/* From the next step on, times come from the tracer's records: ranges queue nothing, and collected ranges have no
 * times yet. NULL: ranges queue a timestamp at each end. */
void aorta_recorder_trace(struct aorta_recorder *recorder, struct aorta_tracer *tracer);
/* Starts iteration `index` in a slot; the slot's former content is dropped. */
void aorta_recorder_step(struct aorta_recorder *recorder, int slot, int64_t index);
/* The work recorded in the slot since its step began has been captured into a graph. */
void aorta_recorder_captured(struct aorta_recorder *recorder);
/* Starts an iteration that replays the graph captured in this slot: its ranges stay; host ranges and other records of
 * an earlier replay are dropped. */
void aorta_recorder_replay(struct aorta_recorder *recorder, int slot, int64_t index);
/* The graph captured in the slot is launched now. */
void aorta_recorder_launched(struct aorta_recorder *recorder);
/* All of the step has been queued. */
void aorta_recorder_queued(struct aorta_recorder *recorder);
/* Ranges are nested: aorta_range_end ends the last range that began, on its stream. Inner ranges (profile.h) are
 * recorded only with a tracer and within another range. AORTA_INTERNAL when the slot is full (names the limit). Without
 * a recorder both do nothing. */
AORTA_MUST_USE aorta_status aorta_range_begin(struct aorta_recorder *recorder, struct aorta_stream *stream,
                                              const struct aorta_range_info *info);
AORTA_MUST_USE aorta_status aorta_range_end(struct aorta_recorder *recorder);
/* The next range begins a part of the step ("forward"; a static string). A marker at its start gets this name. */
void aorta_recorder_begins(struct aorta_recorder *recorder, const char *part);
/* Adds a host call, in host time, to the slot being recorded. */
AORTA_MUST_USE aorta_status aorta_recorder_host(struct aorta_recorder *recorder, enum aorta_host_kind kind,
                                                int64_t start_ns, int64_t end_ns);
/* After the device has finished the slot's work. The caller frees the profile. */
AORTA_MUST_USE aorta_status aorta_recorder_collect(struct aorta_recorder *recorder, int slot,
                                                   struct aorta_profile *profile);
/* Identifies the records of a traced slot's ranges; empty for other slots. The caller frees launches->ranges. */
AORTA_MUST_USE aorta_status aorta_recorder_launches(const struct aorta_recorder *recorder, int slot,
                                                    struct aorta_launches *launches);

#endif
