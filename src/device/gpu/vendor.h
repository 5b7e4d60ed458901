/* Differences between CUDA and HIP, as data. */
#ifndef AORTA_DEVICE_GPU_VENDOR_H
#define AORTA_DEVICE_GPU_VENDOR_H

#include "device/gpu.h"
#include "device/gpu/api.h"

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

#endif
