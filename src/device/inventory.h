/* The GPUs and vendor libraries of this machine, found without creating anything on a device. For `aorta info`. */
#ifndef AORTA_DEVICE_INVENTORY_H
#define AORTA_DEVICE_INVENTORY_H

#include "base/arena.h"
#include "device/device.h"
#include "device/gpu.h"

#include <stdbool.h>

struct aorta_json;

/* One vendor's driver: a library that was found, or the reason why not. */
struct aorta_gpu_inventory {
    char driver_path[PATH_MAX];
    char driver_version[32];      /* "13.0" */
    char compiler_path[PATH_MAX]; /* of kernels; empty: compiler_problem says why */
    char compiler_version[32];
    char compiler_problem[1024];
    char management_path[PATH_MAX]; /* clocks, power and links; empty: management_problem says why */
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

/* AORTA_UNSUPPORTED when there is no usable driver or no device; its detail names the searched places. */
AORTA_MUST_USE aorta_status aorta_gpu_inventory_take(enum aorta_device_kind kind,
                                                     struct aorta_gpu_inventory *inventory);
void aorta_gpu_inventory_free(struct aorta_gpu_inventory *inventory);

/* ---- readings of one device ---- */

/* Why a clock is below its maximum: the "clocks event reasons" of NVML, the gravest first. Several can hold at once. */
enum aorta_clock_limit {
    AORTA_CLOCK_POWER_CAP,    /* the power limit */
    AORTA_CLOCK_SW_THERMAL,   /* the driver keeps a temperature down */
    AORTA_CLOCK_HW_THERMAL,   /* the hardware does, by a half or more */
    AORTA_CLOCK_POWER_BRAKE,  /* the machine asks for less, say a power supply */
    AORTA_CLOCK_HW_SLOWDOWN,  /* one of the two before, or power drawn too fast */
    AORTA_CLOCK_APPLICATIONS, /* applications clocks, set by somebody */
    AORTA_CLOCK_SYNC_BOOST,   /* devices of a group keep to the slowest one */
    AORTA_CLOCK_DISPLAY,
    AORTA_CLOCK_IDLE, /* nothing ran */
    AORTA_CLOCK_LIMITS
};

/* NaN: not measured, and `reason` says why (of the first one missing). */
struct aorta_device_metrics {
    double temperature_c;
    double power_w, power_limit_w; /* the limit that is enforced */
    double sm_clock_mhz, sm_clock_max_mhz, memory_clock_mhz;
    double utilization;       /* 0 to 1: share of the last sampling period in which a kernel ran */
    double memory_used_bytes; /* by all processes */
    /* Time that the clock was limited for power and for heat; only differences are meaningful. `reason` does not
     * mention them, as many drivers do not report them. */
    double power_capped_ms, thermal_capped_ms;
    bool clock_limits_known;
    unsigned clock_limits; /* 1 << enum aorta_clock_limit of each that holds */
    char reason[192];      /* empty when everything was measured */
};

struct aorta_device_metrics aorta_device_unmeasured(const char *reason);
/* Returns false if no value that `reason` covers was measured. */
bool aorta_device_measured(const struct aorta_device_metrics *metrics);

/* Cheap enough for once a step (some 10 us). The library is opened at the first call and closed with the device.
 * Everything is NaN on the CPU device. */
struct aorta_device_metrics aorta_device_measure(struct aorta_device *device);

/* ---- state of the GPUs ----
 * All GPUs of the machine by the vendor's management library (NVML, else ROCm SMI): their state and the processes that
 * compute on them. Nothing is created on a device. ROCm SMI's rows have not run. */

enum { AORTA_GPU_PROCESSES_MOST = 64 }; /* of one device that are stored */

struct aorta_gpu_process {
    int64_t pid; /* in this process's namespace if the driver supports that; in a container perhaps the host's */
    double memory_bytes; /* NaN: not known */
    double sm_share;     /* of the multiprocessors' time, the most since the last reading (0 to 1); NaN: not known */
};

struct aorta_gpu_state {
    struct aorta_device_metrics metrics;
    bool processes_known;
    size_t process_count;
    struct aorta_gpu_process processes[AORTA_GPU_PROCESSES_MOST];
};

struct aorta_gpus;

/* AORTA_UNSUPPORTED: neither library is installed, or it lists no device; its detail names the searched places. */
AORTA_MUST_USE aorta_status aorta_gpus_open(struct aorta_gpus **gpus);
void aorta_gpus_close(struct aorta_gpus *gpus);         /* NULL is fine */
size_t aorta_gpus_count(const struct aorta_gpus *gpus); /* NULL: 0 */
void aorta_gpus_read(struct aorta_gpus *gpus, size_t index, struct aorta_gpu_state *state);

/* ---- the environment of a result ---- */

struct aorta_environment { /* zero-initialise */
    struct aorta_arena arena;
    struct aorta_environment_item {
        const char *section, *key, *value;
        bool json; /* the value is JSON, else a string */
    } * items;
    size_t count, capacity;
};

/* The sections aorta, host, device, software and environment (the variables). `device`: NULL when no device of this
 * process measured; then it lists the machine's GPUs. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_environment_take(struct aorta_device *device, struct aorta_environment *environment);
/* Adds one entry; the arena keeps a failure. A NULL or empty value is skipped. */
void aorta_environment_add(struct aorta_environment *environment, const char *section, const char *key,
                           const char *value);
/* The same with a value in JSON, and without the check. */
void aorta_environment_add_json(struct aorta_environment *environment, const char *section, const char *key,
                                const char *value);
/* Keys and values: an object for each section, in the order of their first entries. */
void aorta_environment_json(const struct aorta_environment *environment, struct aorta_json *json);
void aorta_environment_free(struct aorta_environment *environment);

extern const char aorta_environment_file[]; /* "environment.json" */
/* Writes it in the directory. AORTA_IO. */
AORTA_MUST_USE aorta_status aorta_environment_save(const struct aorta_environment *environment, const char *directory);

/* Takes the environment without a device of this process, and writes it. */
AORTA_MUST_USE aorta_status aorta_environment_of_host_save(const char *directory);

/* Whether a variable ("NAME" or "NAME=value") changes measurements. */
bool aorta_environment_matters(const char *variable);

/* "0.1.0", "794d1bc" or "794d1bc-dirty"; "unknown" where it was not built from a repository,
 * and in programs that link the library. */
extern const char aorta_version[], aorta_commit[];

#endif
