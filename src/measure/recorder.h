/* The recorder: ranges around operations, by timestamps of the device.
 *
 * Slots: timestamps of up to `slots` iterations are in flight; the host collects one while the device fills another.
 * One host thread records. */
#ifndef AORTA_MEASURE_RECORDER_H
#define AORTA_MEASURE_RECORDER_H

#include "device/device.h"
#include "timeline/profile.h"

struct aorta_recorder;

AORTA_MUST_USE aorta_status aorta_recorder_create(struct aorta_device *device, int slots, size_t ranges_per_slot,
                                                  struct aorta_recorder **recorder);
void aorta_recorder_destroy(struct aorta_recorder *recorder);
/* Switched off, begin and end queue nothing (for measuring the cost of recording). */
void aorta_recorder_enable(struct aorta_recorder *recorder, bool enabled);
/* Whether a stream in a captured step waits for the stamps of its ranges (aorta_timestamp); it does not before this is
 * called (aorta_timestamp_next, aorta_timestamp_aside). Stamps of collectives that begin with room for them are waited
 * for in any case. */
void aorta_recorder_wait_for_stamps(struct aorta_recorder *recorder, bool wait);
bool aorta_recorder_enabled(const struct aorta_recorder *recorder);
/* Starts iteration `index` in a slot; the slot's former content is dropped. */
void aorta_recorder_step(struct aorta_recorder *recorder, int slot, int64_t index);
/* What was recorded in the slot since its step began has been captured into a graph, which is launched now. */
void aorta_recorder_captured(struct aorta_recorder *recorder);
/* Starts an iteration that replays the graph captured in this slot: its ranges stay, their launches date from
 * launch_ns; host ranges, markers and what else was recorded beside an earlier replay are dropped. */
void aorta_recorder_replay(struct aorta_recorder *recorder, int slot, int64_t index, int64_t launch_ns);
/* Asks for the start stamp, unless it is known from the ranges that this one comes right behind (collectives of
 * captured steps); *range is handed to end. AORTA_INTERNAL when the slot is full (names the limit). */
AORTA_MUST_USE aorta_status aorta_range_begin(struct aorta_recorder *recorder, struct aorta_stream *stream,
                                              const struct aorta_range_info *info, int *range);
/* The kernel of an operation may find no room beside others for long after its stream has come to it. Where such a
 * range is to begin when the kernel can, a stamp as large as the kernel waits for room as well, on a stream of its own
 * and so behind nothing but what the operation is behind. Whoever waits for the range waits for that stream, too. */
struct aorta_room {
    struct aorta_footprint footprint; /* of the operation's kernel */
    struct aorta_stream *stream;      /* of the same priority as the operation's; that itself: the stamp comes first */
    struct aorta_event *event;        /* untimed; carries the operation's place to the other stream */
    bool alone;                       /* with that stream itself: nothing tells when it came to the operation */
    bool witness;                     /* in a capture: the operation is one kernel, and is witnessed (aorta_witness) */
};
AORTA_MUST_USE aorta_status aorta_range_begin_room(struct aorta_recorder *recorder, struct aorta_stream *stream,
                                                   const struct aorta_range_info *info, const struct aorta_room *room,
                                                   int *range);
AORTA_MUST_USE aorta_status aorta_range_end(struct aorta_recorder *recorder, struct aorta_stream *stream, int range);
AORTA_MUST_USE aorta_status aorta_recorder_mark(struct aorta_recorder *recorder, struct aorta_stream *stream,
                                                enum aorta_role role, const char *tag);
/* What the host did, by its own clock; belongs to the slot being recorded. */
AORTA_MUST_USE aorta_status aorta_recorder_host(struct aorta_recorder *recorder, enum aorta_host_kind kind,
                                                int64_t start_ns, int64_t end_ns);
/* After the device has finished the slot's work. The caller frees the profile. */
AORTA_MUST_USE aorta_status aorta_recorder_collect(struct aorta_recorder *recorder, int slot,
                                                   struct aorta_profile *profile);

#endif
