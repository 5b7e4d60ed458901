/* For a watchdog: whether the host is blocked in a call, and how to declare a device failed. */
#include "device/backend.h"

#include <stdatomic.h>

void aorta_watch_open(struct aorta_device *device) {
    atomic_init(&device->failure, NULL);
    atomic_init(&device->calls_begun, 0);
    atomic_init(&device->calls_ended, 0);
}

void aorta_watch_close(struct aorta_device *device) {
    aorta_status_free(atomic_load(&device->failure));
}

void aorta_device_fail(struct aorta_device *device, aorta_status status) {
    aorta_status none = NULL;
    if (!atomic_compare_exchange_strong(&device->failure, &none, status)) aorta_status_free(status);
}

struct aorta_device_calls aorta_device_count_calls(struct aorta_device *device) {
    /* In this order a call that begins in between looks under way, not ended before it began. */
    uint64_t ended = atomic_load(&device->calls_ended);
    return (struct aorta_device_calls){.begun = atomic_load(&device->calls_begun), .ended = ended};
}

void aorta_watch_begin(struct aorta_device *device) {
    atomic_fetch_add_explicit(&device->calls_begun, 1, memory_order_relaxed);
}

aorta_status aorta_watch_end(struct aorta_device *device, aorta_status status) {
    atomic_fetch_add_explicit(&device->calls_ended, 1, memory_order_relaxed);
    aorta_status failure = atomic_load_explicit(&device->failure, memory_order_acquire);
    if (!failure) return status;
    /* Later statuses of the driver are consequences. */
    aorta_status_free(status);
    return aorta_status_copy(failure);
}
