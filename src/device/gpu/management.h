/* The vendors' management libraries: NVML and ROCm SMI, behind one small table. */
#ifndef AORTA_DEVICE_GPU_MANAGEMENT_H
#define AORTA_DEVICE_GPU_MANAGEMENT_H

#include "device/gpu.h"
#include "device/inventory.h"

/* NVML; every function returns 0 for success. */
struct nvml_api {
#define ROW(member, symbol, required, result, parameters) result(*member) parameters;
#include "device/gpu/nvml.def"
#undef ROW
};

/* ROCm SMI; every function returns 0 for success. */
struct rsmi_api {
#define ROW(member, symbol, required, result, parameters) result(*member) parameters;
#include "device/gpu/rsmi.def"
#undef ROW
};

struct gpu_manager {
    const struct gpu_management *kind;
    struct aorta_library library;
    union {
        struct nvml_api nvml;
        struct rsmi_api rsmi;
    } api;
    char version[96];
    int major; /* ROCm SMI */
};

/* A device as the library knows it. */
struct gpu_managed {
    void *handle;                /* NVML */
    uint32_t index;              /* ROCm SMI */
    unsigned long long since_us; /* NVML: the newest sample of its processes' load that was read */
};

struct gpu_management {
    struct aorta_library_description description;
    aorta_status (*start)(struct gpu_manager *manager); /* after the table has been filled; sets version */
    void (*end)(struct gpu_manager *manager);
    aorta_status (*find)(struct gpu_manager *manager, const char *bus_id, struct gpu_managed *device);
    /* Writes available values; unavailable ones stay NaN. */
    void (*measure)(struct gpu_manager *manager, const struct gpu_managed *device,
                    struct aorta_device_metrics *metrics);
    /* Devices of the machine by number; `count` 0: the library does not list them. */
    unsigned (*count)(struct gpu_manager *manager);
    aorta_status (*at)(struct gpu_manager *manager, unsigned index, struct gpu_managed *device);
    /* The processes that compute on it, at most AORTA_GPU_PROCESSES_MOST. False: the library does not report them. */
    bool (*processes)(struct gpu_manager *manager, struct gpu_managed *device, struct aorta_gpu_state *state);
    /* Names the way between two devices as nvidia-smi and rocm-smi do: "NV18", "SYS", "XGMI"; "?": not known. */
    void (*link)(struct gpu_manager *manager, const struct gpu_managed *a, const struct gpu_managed *b, char name[8]);
};

extern const struct gpu_management aorta_gpu_nvml, aorta_gpu_rsmi;

aorta_status aorta_gpu_manager_open(enum aorta_device_kind kind, struct gpu_manager *manager);
void aorta_gpu_manager_close(struct gpu_manager *manager);

#endif
