/* The GPU driver from inside: one driver for CUDA and HIP.
 *
 * Headers, each with the files of its theme: api.h and *.def (the vendors' functions), vendor.h (what differs, as
 * data), driver.h (opening; a device), clock.h (device time on the host's clock), compile.h (kernels from source),
 * launch.h (functions and launches), host_calls.h (host calls and notes, and their failures), stream.h (streams,
 * events, captures, graphs), management.h (NVML and ROCm SMI: clocks, power, links).
 *
 * Failures: what fails when it is queued (a kernel that does not compile, a refused launch) fails its stream at that
 * place, so that later work on it, and after its events, is skipped, as on the CPU. A host call fails while device
 * work queued after it is on its way already: that still runs; later host calls do not. A fault of a kernel ends the
 * whole context: every call fails from there on. */
#ifndef AORTA_DEVICE_GPU_DRIVER_H
#define AORTA_DEVICE_GPU_DRIVER_H

#include "device/backend.h"
#include "device/gpu/clock.h"
#include "device/gpu/compile.h"
#include "device/gpu/launch.h"
#include "device/gpu/vendor.h"

struct gpu_device;

/* The vendor's library, opened and initialised; opens no device. */
struct gpu_driver {
    const struct gpu_vendor *vendor;
    struct gpu_api api;
    struct aorta_library library;
    int version, count; /* of devices */
};
AORTA_MUST_USE aorta_status aorta_gpu_driver_open(const struct gpu_vendor *vendor, struct gpu_driver *driver);
/* Finds the device in an open driver and reads its properties; creates nothing on it. */
AORTA_MUST_USE aorta_status aorta_gpu_find_device(struct gpu_device *device, int index);

/* AORTA_MEMORY or AORTA_DEVICE: "what: CUDA_ERROR_… (its text)". */
AORTA_MUST_USE aorta_status aorta_gpu_error(const struct gpu_device *device, int result, const char *format, ...)
    AORTA_PRINTF(3, 4);
bool aorta_gpu_given_up(const struct gpu_device *device);

struct gpu_device {
    struct aorta_device base;
    struct gpu_driver driver;
    struct aorta_gpu_properties properties;
    int handle;
    void *context;
    int priority_low, priority_high; /* lower numbers go first */
    struct gpu_compiler compiler;
    struct gpu_functions functions;
    struct gpu_clock clock;
    struct gpu_mark_pool *marks;
    _Atomic(struct gpu_partition *) partitions; /* limit.c's */
};

static inline struct gpu_device *gpu_device(const struct aorta_device *device) {
    return (struct gpu_device *)(uintptr_t)device;
}
/* The number that the vendor has for a priority. */
int aorta_gpu_priority(const struct gpu_device *device, enum aorta_priority priority);

#endif
