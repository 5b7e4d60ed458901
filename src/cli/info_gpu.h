/* The part of `aorta info` about GPUs. */
#ifndef AORTA_CLI_INFO_GPU_H
#define AORTA_CLI_INFO_GPU_H

#include "base/json.h"
#include "device/inventory.h"

enum { INFO_GPU_KINDS = 2, INFO_GPU_LIBRARIES = 3 };

struct info_gpu {
    struct info_gpu_kind {
        struct aorta_gpu_inventory inventory;
        aorta_status failure;     /* NULL: there are devices; owned */
        struct info_gpu_library { /* operations, collectives and traces load it */
            char path[PATH_MAX];
            aorta_status problem; /* NULL: the path is known; owned */
        } libraries[INFO_GPU_LIBRARIES];
    } kinds[INFO_GPU_KINDS];
};

void info_gpu_gather(struct info_gpu *gpu);
void info_gpu_release(struct info_gpu *gpu);

/* "8 GPUs (NVIDIA H200, cuda)"; returns how many kinds there are. */
int info_gpu_print_answer(const struct info_gpu *gpu);
void info_gpu_print_devices(const struct info_gpu *gpu);
void info_gpu_print_software(const struct info_gpu *gpu); /* drivers and libraries, links */
/* A line for each software that the GPUs lack; returns how many. */
int info_gpu_print_missing(const struct info_gpu *gpu);

void info_gpu_write_devices(const struct info_gpu *gpu, struct aorta_json *json);  /* elements of an open array */
void info_gpu_write_software(const struct info_gpu *gpu, struct aorta_json *json); /* keys of an open object */
void info_gpu_write_missing(const struct info_gpu *gpu, struct aorta_json *json);  /* elements of an open array */

#endif
