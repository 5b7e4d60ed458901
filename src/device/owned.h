/* Device memory and events of one object, which it creates during its set-up and which end with it. */
#ifndef AORTA_DEVICE_OWNED_H
#define AORTA_DEVICE_OWNED_H

#include "device/device.h"

/* Zero-initialise, and set the device first. aorta_owned_free also after a failure. */
struct aorta_owned {
    struct aorta_device *device;
    struct aorta_owned_item *items;
    size_t count, capacity;
};

/* Device memory, and page-locked memory. `place` is a pointer to a pointer of any type, which gets the address. */
AORTA_MUST_USE aorta_status aorta_own_memory(struct aorta_owned *owned, size_t bytes, const char *what, void *place);
AORTA_MUST_USE aorta_status aorta_own_pinned(struct aorta_owned *owned, size_t bytes, const char *what, void *place);
/* Device memory that a fill on the stream sets to zero. */
AORTA_MUST_USE aorta_status aorta_own_zeros(struct aorta_owned *owned, struct aorta_stream *stream, size_t bytes,
                                            const char *what, void *place);
/* Memory that aorta_device_free gives back; on failure it is given back now. */
AORTA_MUST_USE aorta_status aorta_own_given(struct aorta_owned *owned, void *memory);
AORTA_MUST_USE aorta_status aorta_own_event(struct aorta_owned *owned, struct aorta_event **event);
/* Ends everything, newest first. No work on the device may still use it. */
void aorta_owned_free(struct aorta_owned *owned);

#endif
