/* NVIDIA's management library. Numbers are from nvml.h. */
#include "device/gpu/management.h"

#include <math.h>
#include <stdio.h>

enum {
    SENSOR_GPU = 0,
    CLOCK_SM = 1,
    CLOCK_MEMORY = 2,
    POLICY_POWER = 0,
    POLICY_THERMAL = 1,
    CAPABILITY_NVLINK = 2,
    MOST_LINKS = 36, /* 18 on Hopper and Blackwell */
};

#define ROW(member, symbol, required) {#symbol, offsetof(struct nvml_api, member), required},
static const struct aorta_symbol symbols[] = {
#include "device/gpu/nvml.def"
};
#undef ROW

static aorta_status nvml_start(struct gpu_manager *manager) {
    const struct nvml_api *api = &manager->api.nvml;
    int result = api->init();
    if (result) {
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%s does not start: %s", manager->library.path, api->error_text(result));
    }
    char driver[80] = "";
    if (!api->driver_version(driver, sizeof driver)) {
        snprintf(manager->version, sizeof manager->version, "driver %s", driver);
    }
    return NULL;
}

static void nvml_end(struct gpu_manager *manager) {
    manager->api.nvml.shutdown();
}

static aorta_status nvml_find(struct gpu_manager *manager, const char *bus_id, struct gpu_managed *device) {
    int result = manager->api.nvml.by_bus_id(bus_id, &device->handle);
    if (!result) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED, "NVML does not know the device at %s: %s", bus_id,
                       manager->api.nvml.error_text(result));
}

/* False when the driver does not report. */
static bool read_limits(const struct nvml_api *api, void *device, unsigned *limits) {
    static const struct {
        unsigned long long bit;
        enum aorta_clock_limit limit;
    } reasons[] = {{0x1, AORTA_CLOCK_IDLE},        {0x2, AORTA_CLOCK_APPLICATIONS}, {0x4, AORTA_CLOCK_POWER_CAP},
                   {0x8, AORTA_CLOCK_HW_SLOWDOWN}, {0x10, AORTA_CLOCK_SYNC_BOOST},  {0x20, AORTA_CLOCK_SW_THERMAL},
                   {0x40, AORTA_CLOCK_HW_THERMAL}, {0x80, AORTA_CLOCK_POWER_BRAKE}, {0x100, AORTA_CLOCK_DISPLAY}};
    int (*get)(void *, unsigned long long *) = api->event_reasons ? api->event_reasons : api->throttle_reasons;
    unsigned long long bits;
    if (!get || get(device, &bits)) return false;
    *limits = 0;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (bits & reasons[i].bit) *limits |= 1U << reasons[i].limit;
    return true;
}

static void nvml_measure(struct gpu_manager *manager, const struct gpu_managed *device,
                         struct aorta_device_metrics *metrics) {
    const struct nvml_api *api = &manager->api.nvml;
    void *handle = device->handle;
    unsigned value, percent[2];
    unsigned long long bytes[3], times[2];
    if (!api->temperature(handle, SENSOR_GPU, &value)) metrics->temperature_c = value;
    if (!api->power(handle, &value)) metrics->power_w = value / 1e3;
    if (api->power_limit && !api->power_limit(handle, &value)) metrics->power_limit_w = value / 1e3;
    if (!api->clock(handle, CLOCK_SM, &value)) metrics->sm_clock_mhz = value;
    if (api->clock_max && !api->clock_max(handle, CLOCK_SM, &value)) metrics->sm_clock_max_mhz = value;
    if (!api->clock(handle, CLOCK_MEMORY, &value)) metrics->memory_clock_mhz = value;
    if (!api->utilization(handle, percent)) metrics->utilization = percent[0] / 1e2;
    if (!api->memory(handle, bytes)) metrics->memory_used_bytes = (double)bytes[2];
    metrics->clock_limits_known = read_limits(api, handle, &metrics->clock_limits);
    if (!api->violation) return;
    if (!api->violation(handle, POLICY_POWER, times)) metrics->power_capped_ms = (double)times[1] / 1e6;
    if (!api->violation(handle, POLICY_THERMAL, times)) metrics->thermal_capped_ms = (double)times[1] / 1e6;
}

static unsigned nvml_count(struct gpu_manager *manager) {
    const struct nvml_api *api = &manager->api.nvml;
    unsigned count = 0;
    return api->count && api->by_index && !api->count(&count) ? count : 0;
}

static aorta_status nvml_at(struct gpu_manager *manager, unsigned index, struct gpu_managed *device) {
    int result = manager->api.nvml.by_index(index, &device->handle);
    if (!result) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED, "NVML does not give device %u: %s", index,
                       manager->api.nvml.error_text(result));
}

/* nvmlProcessInfo_v2_t, and nvmlProcessUtilizationSample_t. */
struct process_info {
    uint32_t pid;
    uint64_t memory_bytes; /* UINT64_MAX: not known */
    uint32_t instance, compute_instance;
};
struct process_sample {
    uint32_t pid;
    uint64_t at_us;
    uint32_t sm_percent, memory_percent, encoder_percent, decoder_percent;
};
enum { SAMPLES_MOST = 512 };

/* The most that each of the processes used since the last time. */
static void read_use(const struct nvml_api *api, struct gpu_managed *device, struct aorta_gpu_state *state) {
    struct process_sample samples[SAMPLES_MOST];
    unsigned count = SAMPLES_MOST;
    if (!api->process_use || api->process_use(device->handle, samples, &count, device->since_us)) return;
    for (unsigned i = 0; i < count && i < SAMPLES_MOST; i++) {
        if (samples[i].at_us > device->since_us) device->since_us = samples[i].at_us;
        for (size_t j = 0; j < state->process_count; j++) {
            struct aorta_gpu_process *process = &state->processes[j];
            const double share = samples[i].sm_percent / 1e2;
            if (process->pid != samples[i].pid || share > 1) continue;
            if (isnan(process->sm_share) || share > process->sm_share) process->sm_share = share;
        }
    }
}

static bool nvml_processes(struct gpu_manager *manager, struct gpu_managed *device, struct aorta_gpu_state *state) {
    const struct nvml_api *api = &manager->api.nvml;
    int (*get)(void *, unsigned *, void *) = api->processes ? api->processes : api->processes_v3;
    struct process_info infos[AORTA_GPU_PROCESSES_MOST];
    unsigned count = AORTA_GPU_PROCESSES_MOST;
    if (!get || get(device->handle, &count, infos)) return false;
    for (unsigned i = 0; i < count && i < AORTA_GPU_PROCESSES_MOST; i++)
        state->processes[state->process_count++] = (struct aorta_gpu_process){
            .pid = infos[i].pid,
            .memory_bytes = infos[i].memory_bytes == UINT64_MAX ? NAN : (double)infos[i].memory_bytes,
            .sm_share = NAN};
    read_use(api, device, state);
    return true;
}

static int count_links(const struct nvml_api *api, void *device) {
    int count = 0, active;
    for (unsigned link = 0; link < MOST_LINKS; link++) count += !api->link_state(device, link, &active) && active;
    return count;
}

/* Through an NVSwitch all links of a device lead to every other; where devices are wired to each other this counts all
 * links of the first, an upper bound. */
static void nvml_link(struct gpu_manager *manager, const struct gpu_managed *a, const struct gpu_managed *b,
                      char name[8]) {
    static const struct {
        int level;
        const char *name;
    } levels[] = {{0, "PIX"}, {10, "PIX"}, {20, "PXB"}, {30, "PHB"}, {40, "NODE"}, {50, "SYS"}};
    const struct nvml_api *api = &manager->api.nvml;
    int status, level;
    if (api->peer_status && !api->peer_status(a->handle, b->handle, CAPABILITY_NVLINK, &status) && status == 0) {
        snprintf(name, 8, "NV%d", count_links(api, a->handle) % 1000);
        return;
    }
    snprintf(name, 8, "?");
    if (api->common_ancestor(a->handle, b->handle, &level)) return;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (levels[i].level == level) snprintf(name, 8, "%s", levels[i].name);
    }
}

static const char *const names[] = {"libnvidia-ml.so.1", "libnvidia-ml.so", NULL};

const struct gpu_management aorta_gpu_nvml = {
    .description = {.purpose = "clocks, power and links of the GPUs",
                    .names = names,
                    .symbols = symbols,
                    .symbol_count = sizeof symbols / sizeof *symbols,
                    .install = "it comes with the NVIDIA driver"},
    .start = nvml_start,
    .end = nvml_end,
    .find = nvml_find,
    .measure = nvml_measure,
    .count = nvml_count,
    .at = nvml_at,
    .processes = nvml_processes,
    .link = nvml_link,
};
