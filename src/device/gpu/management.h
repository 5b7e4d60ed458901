/* The vendors' management libraries: NVML and ROCm SMI, behind one small table. */
#ifndef AORTA_DEVICE_GPU_MANAGEMENT_H
#define AORTA_DEVICE_GPU_MANAGEMENT_H

#include "device/gpu.h"
#include "device/inventory.h"

/* NVML; every function returns 0 for success. */
struct nvml_api {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_text)(int error);
    int (*driver_version)(char *version, unsigned length);
    int (*by_bus_id)(const char *bus_id, void **device);
    int (*temperature)(void *device, int sensor, unsigned *celsius);
    int (*power)(void *device, unsigned *milliwatts);
    int (*clock)(void *device, int clock, unsigned *mhz);
    int (*clock_max)(void *device, int clock, unsigned *mhz);
    int (*power_limit)(void *device, unsigned *milliwatts);
    int (*event_reasons)(void *device, unsigned long long *reasons);
    int (*throttle_reasons)(void *device, unsigned long long *reasons);      /* its older name */
    int (*violation)(void *device, int policy, unsigned long long times[2]); /* struct nvmlViolationTime_t: us, ns */
    int (*utilization)(void *device, unsigned percent[2]);    /* struct nvmlUtilization_t: of the GPU, of its memory */
    int (*memory)(void *device, unsigned long long bytes[3]); /* struct nvmlMemory_t: total, free, used */
    int (*common_ancestor)(void *device, void *other, int *level);
    int (*peer_status)(void *device, void *other, int capability, int *status);
    int (*link_state)(void *device, unsigned link, int *active);
    int (*count)(unsigned *count);
    int (*by_index)(unsigned index, void **device);
    int (*processes)(void *device, unsigned *count, void *infos);    /* nvmlProcessInfo_v2_t */
    int (*processes_v3)(void *device, unsigned *count, void *infos); /* the same struct */
    int (*process_use)(void *device, void *samples, unsigned *count, unsigned long long since_us);
};

/* ROCm SMI; every function returns 0 for success. */
struct rsmi_api {
    int (*init)(uint64_t flags);
    int (*shutdown)(void);
    int (*error_text)(int error, const char **text);
    int (*version)(void *version); /* struct rsmi_version_t: three uint32_t and a text */
    int (*count)(uint32_t *count);
    int (*bus_id)(uint32_t index, uint64_t *id);
    int (*temperature)(uint32_t index, uint32_t sensor, int metric, int64_t *millicelsius);
    int (*power)(uint32_t index, uint32_t sensor, uint64_t *microwatts);
    int (*socket_power)(uint32_t index, uint64_t *microwatts);
    int (*power_cap)(uint32_t index, uint32_t sensor, uint64_t *microwatts);
    int (*busy)(uint32_t index, uint32_t *percent);
    int (*memory_used)(uint32_t index, int kind, uint64_t *bytes);
    int (*clock)(uint32_t index, int clock, void *frequencies);
    int (*link_type)(uint32_t index, uint32_t other, uint64_t *hops, int *type);
    int (*processes)(void *infos, uint32_t *count); /* struct rsmi_process_info_t */
    int (*process_devices)(uint32_t pid, uint32_t *indices, uint32_t *count);
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
