/* The GPUs and vendor libraries of this machine, found without creating anything on a device. For `aorta info`. */
#ifndef AORTA_DEVICE_INVENTORY_H
#define AORTA_DEVICE_INVENTORY_H

#include "device/gpu.h"

/* One vendor's driver: a library that was found, or the reason why not. */
struct aorta_gpu_inventory {
    char driver_path[256];
    char driver_version[32]; /* "13.0" */
    char compiler_path[256]; /* of kernels; empty: compiler_problem says why */
    char compiler_version[32];
    char compiler_problem[1024];
    char management_path[256]; /* clocks, power and links; empty: management_problem says why */
    char management_version[96];
    char management_problem[1024];
    size_t count;
    struct aorta_gpu_found {
        struct aorta_device_info info;
        struct aorta_gpu_properties properties;
    } * devices; /* of the visible ones; owned */
    /* How device i reaches device j: links[i * count + j], "NV18" (so many NVLinks), "PIX" … "SYS" as nvidia-smi names
     * paths over PCIe, "X" for itself, "?" when it is not known; owned. */
    struct aorta_gpu_link {
        char name[8];
        bool peer; /* reads and writes the other's memory directly */
    } * links;
};

/* AORTA_UNSUPPORTED when there is no usable driver or no device; the message names the searched places. */
AORTA_MUST_USE aorta_status aorta_gpu_inventory_take(enum aorta_device_kind kind,
                                                     struct aorta_gpu_inventory *inventory);
void aorta_gpu_inventory_free(struct aorta_gpu_inventory *inventory);

#endif
