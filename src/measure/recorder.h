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
/* From the next step on the device's times come from the tracer's records: ranges queue nothing, and those collected
 * have no times yet. NULL: ranges ask for a timestamp at each end. */
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
/* Ranges are nested: the end is that of the last one that began, on its stream. Inner ones (profile.h) are recorded
 * while a tracer records, within another. AORTA_INTERNAL when the slot is full (names the limit). Without a recorder
 * both do nothing. */
AORTA_MUST_USE aorta_status aorta_range_begin(struct aorta_recorder *recorder, struct aorta_stream *stream,
                                              const struct aorta_range_info *info);
AORTA_MUST_USE aorta_status aorta_range_end(struct aorta_recorder *recorder);
/* The next range is the first of a part of the step ("forward"; static), which a marker at its start names. */
void aorta_recorder_begins(struct aorta_recorder *recorder, const char *part);
/* A call of the host, by its own clock; belongs to the slot being recorded. */
AORTA_MUST_USE aorta_status aorta_recorder_host(struct aorta_recorder *recorder, enum aorta_host_kind kind,
                                                int64_t start_ns, int64_t end_ns);
/* After the device has finished the slot's work. The caller frees the profile. */
AORTA_MUST_USE aorta_status aorta_recorder_collect(struct aorta_recorder *recorder, int slot,
                                                   struct aorta_profile *profile);
/* Identifies the records of a traced slot's ranges; empty for other slots. The caller frees launches->ranges. */
AORTA_MUST_USE aorta_status aorta_recorder_launches(const struct aorta_recorder *recorder, int slot,
                                                    struct aorta_launches *launches);

#endif
