/* Differences between CUDA and HIP, as data. */
#ifndef AORTA_DEVICE_GPU_DRIVER_H
#define AORTA_DEVICE_GPU_DRIVER_H

#include "device/backend.h"
#include "device/gpu.h"
#include "device/gpu/api.h"
#include "device/gpu/clock.h"
#include "device/gpu/launch.h"

struct gpu_device;

struct gpu_attributes { /* numbers of the vendor's device attributes; -1: there is none */
    int multiprocessors, warp_size, threads_per_block, threads_per_multiprocessor, shared_bytes, l2_bytes, major, minor,
        unified_addressing, timer_khz;
};

struct gpu_vendor {
    enum aorta_device_kind kind;
    struct aorta_library_description driver, compiler;
    const char *visible[3];  /* variables that restrict the devices the driver shows */
    const char *blocking[2]; /* variables that, unless 0, make each launch wait for its kernel */
    int oldest_driver;       /* as driver_version counts */
    const char *oldest_driver_text;
    struct gpu_attributes attribute;
    /* Makes kernels of a graph keep the priorities of the streams they were captured on, from that driver on. */
    unsigned long long priority_flag;
    int priority_driver;
    int timer_khz;          /* of the clock that kernels read, when the driver does not say */
    uint32_t shared_opt_in; /* above so many bytes a kernel has to be allowed its shared memory; 0: never */
    int shared_attribute;   /* of a function */
    const char *compiler_name;
    bool compiles_side_by_side; /* several programs at once, on several threads */
    int (*copy)(const struct gpu_api *api, void *to, const void *from, size_t bytes, void *stream);
    const char *(*error_name)(const struct gpu_api *api, int error);
    const char *(*error_text)(const struct gpu_api *api, int error);
    /* Fills architecture, major and minor; returns the vendor's error, 0 for none. */
    int (*architecture)(const struct gpu_device *device, struct aorta_gpu_properties *properties);
    /* A stream on at most `share` of the multiprocessors. */
    aorta_status (*limited_stream)(struct gpu_device *device, double share, enum aorta_priority priority,
                                   void **stream);
    /* Writes the option that names the architecture to the compiler. */
    void (*architecture_option)(const struct aorta_gpu_properties *properties, char *text, size_t size);
};

extern const struct gpu_vendor aorta_gpu_cuda, aorta_gpu_hip;
const struct gpu_vendor *aorta_gpu_vendor(enum aorta_device_kind kind); /* NULL: not a GPU */

/* ---- limit.c ---- */

aorta_status aorta_gpu_cuda_limited_stream(struct gpu_device *device, double share, enum aorta_priority priority,
                                           void **stream);
aorta_status aorta_gpu_hip_limited_stream(struct gpu_device *device, double share, enum aorta_priority priority,
                                          void **stream);

/* ---- the driver ----
 * The GPU driver from inside: one driver for CUDA and HIP.
 *
 * Headers, each with the files of its theme: api.h and *.def (the vendors' functions), driver.h (the vendors'
 * differences, as data; opening; a device), clock.h (device time on the host's clock), launch.h (kernels from source,
 * functions, launches), stream.h (host calls and notes, and their failures; streams, events, captures, graphs),
 * management.h (NVML and ROCm SMI: clocks, power, links).
 *
 * Failures: what fails when it is queued (a kernel that does not compile, a refused launch) fails its stream at that
 * place, so that later work on it, and after its events, is skipped, as on the CPU. A host call fails while device
 * work queued after it is on its way already: that still runs; later host calls do not. A fault of a kernel ends the
 * whole context: every call fails from there on. */

struct gpu_device;

/* The vendor's library, opened and initialised; opens no device. */
struct gpu_driver {
    const struct gpu_vendor *vendor;
    struct gpu_api api;
    struct aorta_library library;
    int version, count; /* of devices */
};

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

#endif
