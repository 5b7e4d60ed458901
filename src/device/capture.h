/* Which nodes of a captured graph come before some point: for each branch a count of its nodes, a vector clock (Fidge
 * 1988, Mattern 1989). Branches hand it on with their events, and waits take the maximum; that says whether every
 * branch was joined in the end. */
#ifndef AORTA_DEVICE_CAPTURE_H
#define AORTA_DEVICE_CAPTURE_H

#include "device/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reach { /* zero-initialise; free `counts` */
    uint32_t *counts;
    size_t count;
};

bool aorta_reach_merge(struct reach *into, const struct reach *from);

/* ---- captures ----
 * Captures of every device: the state of a capture and of each stream in it, and mistakes that are reported, by name,
 * before the device sees them. Each device records and replays work in its own way. */

struct capture_state {      /* first member of a device's capture; `references` and freeing are the device's */
    _Atomic int references; /* captured streams' and events' */
    struct aorta_device *device;
    bool active;
    aorta_status broken; /* first error inside; the capture's end returns it */
};

struct capture_branch { /* first member of a device's data of one stream */
    size_t index;       /* 0: the stream that capture began on */
    char name[64];      /* the stream's */
    struct reach reach; /* everything before its next node; owned */
};

/* Makes the branch of a stream that comes into a capture. False: no memory, and nothing to free. */
bool aorta_capture_branch_open(struct capture_branch *branch, size_t index, const char *name);

/* Keeps a copy of the first error as the one that broke the capture, and returns the error given. */
AORTA_MUST_USE aorta_status aorta_capture_break(struct capture_state *capture, aorta_status error);
AORTA_MUST_USE aorta_status aorta_capture_no_memory(void);

/* May the stream `name`, itself captured by `own` (NULL: it is not), wait for an event last recorded in `recorded`
 * (NULL: outside of captures) on the stream `recorded_on`? AORTA_DEVICE says why not. */
AORTA_MUST_USE aorta_status aorta_capture_check_wait(const char *name, const struct capture_state *own,
                                                     const struct capture_state *recorded, const char *recorded_on);
/* AORTA_DEVICE naming the branch when its last node does not come before the end of the first branch, `origin`. */
AORTA_MUST_USE aorta_status aorta_capture_check_joined(const struct capture_branch *origin,
                                                       const struct capture_branch *branch);

/* Further mistakes with a captured stream; `name` is the stream's. */
AORTA_MUST_USE aorta_status aorta_capture_begun_already(const char *name);
AORTA_MUST_USE aorta_status aorta_capture_not_begun(const char *name);
AORTA_MUST_USE aorta_status aorta_capture_begun_elsewhere(const char *name, const struct capture_branch *origin);
AORTA_MUST_USE aorta_status aorta_capture_stream_destroyed(const char *name);
/* The error for callers that ask an event of a capture for its time, or wait for it on the host. */
AORTA_MUST_USE aorta_status aorta_capture_only_orders(const char *recorded_on);

#endif
