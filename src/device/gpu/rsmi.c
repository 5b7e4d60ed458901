/* AMD's management library, ROCm SMI. Numbers are from rocm_smi.h. */
#include "device/gpu/management.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    SENSOR_EDGE = 0,
    SENSOR_JUNCTION = 1,
    TEMPERATURE_CURRENT = 0,
    MEMORY_VRAM = 0,
    CLOCK_SYSTEM = 0,
    CLOCK_MEMORY = 4,
    LINK_XGMI = 2,
};

#define ROW(member, symbol, required) {#symbol, offsetof(struct rsmi_api, member), required},
static const struct aorta_symbol symbols[] = {
#include "device/gpu/rsmi.def"
};
#undef ROW

static const char *text_of(const struct rsmi_api *api, int error) {
    const char *text = NULL;
    return api->error_text(error, &text) || !text ? "unknown error" : text;
}

static aorta_status rsmi_start(struct gpu_manager *manager) {
    const struct rsmi_api *api = &manager->api.rsmi;
    struct {
        uint32_t major, minor, patch;
        const char *build;
    } version = {0};
    int result = api->init(0);
    if (result) {
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%s does not start: %s", manager->library.path, text_of(api, result));
    }
    if (!api->version(&version)) {
        manager->major = (int)version.major;
        snprintf(manager->version, sizeof manager->version, "ROCm SMI %u.%u.%u", version.major, version.minor,
                 version.patch);
    }
    return NULL;
}

static void rsmi_end(struct gpu_manager *manager) {
    manager->api.rsmi.shutdown();
}

/* Identifiers are domain << 32 | bus << 8 | device << 3 | function. */
static aorta_status rsmi_find(struct gpu_manager *manager, const char *bus_id, struct gpu_managed *device) {
    const struct rsmi_api *api = &manager->api.rsmi;
    unsigned domain = 0, bus = 0, slot = 0;
    uint32_t count = 0;
    sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot);
    int result = api->count(&count);
    for (device->index = 0; !result && device->index < count; device->index++) {
        uint64_t id;
        if (!api->bus_id(device->index, &id) && id >> 32 == domain && (id >> 8 & 0xFF) == bus &&
            (id >> 3 & 0x1F) == slot)
            return NULL;
    }
    return AORTA_ERROR(AORTA_UNSUPPORTED, "ROCm SMI does not know the device at %s: %s", bus_id,
                       result ? text_of(api, result) : "it is not among those listed");
}

/* The clock that holds now, and the highest of those listed. Version 6 put a flag in front of the struct. */
static bool read_clock(const struct gpu_manager *manager, uint32_t index, int clock, double *mhz, double *highest) {
    struct {
        uint32_t head[3];
        uint64_t rest[64];
    } raw = {0};
    const char *bytes = (const char *)&raw + (manager->major >= 6 ? sizeof(uint32_t) : 0);
    const char *list = (const char *)&raw + (manager->major >= 6 ? 16 : 8);
    uint32_t count, current;
    uint64_t hertz;
    if (manager->api.rsmi.clock(index, clock, &raw)) return false;
    memcpy(&count, bytes, sizeof count);
    memcpy(&current, bytes + sizeof count, sizeof current);
    if (count > 33 || current >= count) return false;
    *mhz = *highest = 0;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(&hertz, list + i * sizeof hertz, sizeof hertz);
        if (i == current) *mhz = (double)hertz / 1e6;
        if ((double)hertz / 1e6 > *highest) *highest = (double)hertz / 1e6;
    }
    return true;
}

/* Why a clock is low, and for how long, ROCm SMI does not report. */
static void rsmi_measure(struct gpu_manager *manager, const struct gpu_managed *device,
                         struct aorta_device_metrics *metrics) {
    const struct rsmi_api *api = &manager->api.rsmi;
    uint32_t index = device->index, percent;
    int64_t millicelsius;
    uint64_t value;
    double mhz, highest;
    if (!api->temperature(index, SENSOR_EDGE, TEMPERATURE_CURRENT, &millicelsius) ||
        !api->temperature(index, SENSOR_JUNCTION, TEMPERATURE_CURRENT, &millicelsius))
        metrics->temperature_c = (double)millicelsius / 1e3;
    if ((api->socket_power && !api->socket_power(index, &value)) || !api->power(index, 0, &value))
        metrics->power_w = (double)value / 1e6;
    if (api->power_cap && !api->power_cap(index, 0, &value)) metrics->power_limit_w = (double)value / 1e6;
    if (read_clock(manager, index, CLOCK_SYSTEM, &mhz, &highest))
        metrics->sm_clock_mhz = mhz, metrics->sm_clock_max_mhz = highest;
    if (read_clock(manager, index, CLOCK_MEMORY, &mhz, &highest)) metrics->memory_clock_mhz = mhz;
    if (!api->busy(index, &percent)) metrics->utilization = percent / 1e2;
    if (!api->memory_used(index, MEMORY_VRAM, &value)) metrics->memory_used_bytes = (double)value;
}

static unsigned rsmi_count(struct gpu_manager *manager) {
    uint32_t count = 0;
    return manager->api.rsmi.count(&count) ? 0 : count;
}

static aorta_status rsmi_at(struct gpu_manager *manager, unsigned index, struct gpu_managed *device) {
    (void)manager;
    device->index = index;
    return NULL;
}

/* struct rsmi_process_info_t; the meaning of its load differs between versions. */
struct process_info {
    uint32_t pid, pasid;
    uint64_t memory_bytes, sdma_us;
    uint32_t occupancy, padding;
};
enum { PROCESSES_MOST = 256, DEVICES_MOST = 64 };

static bool is_on(const struct rsmi_api *api, uint32_t pid, uint32_t index) {
    uint32_t indices[DEVICES_MOST], count = DEVICES_MOST;
    if (api->process_devices(pid, indices, &count)) return false;
    for (uint32_t i = 0; i < count && i < DEVICES_MOST; i++)
        if (indices[i] == index) return true;
    return false;
}

static bool rsmi_processes(struct gpu_manager *manager, struct gpu_managed *device, struct aorta_gpu_state *state) {
    const struct rsmi_api *api = &manager->api.rsmi;
    struct process_info infos[PROCESSES_MOST];
    uint32_t count = PROCESSES_MOST;
    if (!api->processes || !api->process_devices || api->processes(infos, &count)) return false;
    for (uint32_t i = 0; i < count && i < PROCESSES_MOST && state->process_count < AORTA_GPU_PROCESSES_MOST; i++)
        if (is_on(api, infos[i].pid, device->index))
            state->processes[state->process_count++] = (struct aorta_gpu_process){
                .pid = infos[i].pid, .memory_bytes = (double)infos[i].memory_bytes, .sm_share = NAN};
    return true;
}

static void rsmi_link(struct gpu_manager *manager, const struct gpu_managed *a, const struct gpu_managed *b,
                      char name[8]) {
    uint64_t hops;
    int type, result = manager->api.rsmi.link_type(a->index, b->index, &hops, &type);
    snprintf(name, 8, "%s", result ? "?" : type == LINK_XGMI ? "XGMI" : "PCIE");
}

static const char *const names[] = {"librocm_smi64.so.7", "librocm_smi64.so.6", "librocm_smi64.so.5",
                                    "librocm_smi64.so.1", "librocm_smi64.so",   NULL};

const struct gpu_management aorta_gpu_rsmi = {
    .description = {.purpose = "clocks, power and links of the GPUs",
                    .names = names,
                    .symbols = symbols,
                    .symbol_count = sizeof symbols / sizeof *symbols,
                    .install = "it comes with ROCm (apt install rocm-smi-lib)"},
    .start = rsmi_start,
    .end = rsmi_end,
    .find = rsmi_find,
    .measure = rsmi_measure,
    .count = rsmi_count,
    .at = rsmi_at,
    .processes = rsmi_processes,
    .link = rsmi_link,
};
