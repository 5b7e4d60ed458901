/* A device object's memory, as it was handed out and given back. */
#ifndef AORTA_DEVICE_MEMORY_EVENTS_H
#define AORTA_DEVICE_MEMORY_EVENTS_H

#include "device/device.h"

struct aorta_memory_event {
    int64_t time_ns;                       /* by the host's clock */
    int64_t bytes;                         /* negative: given back */
    uint64_t address, allocated, reserved; /* the two after it */
};
/* Copies events from number `from` (0: the first of the device) on; returns how many, `capacity` at most. The first
 * 65536 are known. Any thread. */
size_t aorta_device_memory_events(struct aorta_device *device, size_t from, struct aorta_memory_event *events,
                                  size_t capacity);

#endif
