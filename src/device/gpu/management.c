/* Clocks, temperature, power and load of a device, by the vendor's management library. */
#include "device/gpu/management.h"
#include "device/backend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

aorta_status aorta_gpu_manager_open(enum aorta_device_kind kind, struct gpu_manager *manager) {
    static const struct gpu_management *const kinds[] = {
        [AORTA_DEVICE_CPU] = NULL,
        [AORTA_DEVICE_CUDA] = &aorta_gpu_nvml,
        [AORTA_DEVICE_HIP] = &aorta_gpu_rsmi,
    };
    *manager = (struct gpu_manager){.kind = kinds[kind]};
    AORTA_TRY(aorta_library_open(&manager->kind->description, &manager->api, &manager->library));
    return manager->kind->start(manager);
}

void aorta_gpu_manager_close(struct gpu_manager *manager) {
    manager->kind->end(manager);
}

/* ---- state of one device ---- */

struct watch {
    struct gpu_manager manager;
    struct gpu_managed device;
    aorta_status failure; /* owned: why nothing can be measured */
};

/* A missing library is no failure of the device: it is reported with every measurement. */
static aorta_status make_watch(struct aorta_device *device, void **state) {
    struct watch *watch = calloc(1, sizeof *watch);
    if (!watch) return AORTA_ERROR(AORTA_MEMORY, "no host memory to measure the device");
    watch->failure = aorta_gpu_manager_open(device->info.kind, &watch->manager);
    if (!watch->failure) {
        const char *bus_id = aorta_gpu_get_properties(device)->pci_bus_id;
        watch->failure = watch->manager.kind->find(&watch->manager, bus_id, &watch->device);
        if (watch->failure) aorta_gpu_manager_close(&watch->manager);
    }
    *state = watch;
    return NULL;
}

static void end_watch(void *state) {
    struct watch *watch = state;
    if (!watch->failure) aorta_gpu_manager_close(&watch->manager);
    aorta_status_free(watch->failure);
    free(watch);
}

/* Values that are NaN until measured, and their names in messages. NULL if many drivers do not report the value. */
static const struct {
    size_t offset;
    const char *name;
} values[] = {
#define AT(member) offsetof(struct aorta_device_metrics, member)
    {AT(temperature_c), "temperature"}, {AT(power_w), "power"},
    {AT(sm_clock_mhz), "clock"},        {AT(memory_clock_mhz), "memory clock"},
    {AT(utilization), "utilization"},   {AT(memory_used_bytes), "memory in use"},
    {AT(power_limit_w), "power limit"}, {AT(sm_clock_max_mhz), "highest clock"},
    {AT(power_capped_ms), NULL},        {AT(thermal_capped_ms), NULL},
};
enum { VALUES = sizeof values / sizeof *values };

static double *value_of(const struct aorta_device_metrics *metrics, int index) {
    return (double *)(void *)((char *)metrics + values[index].offset);
}

/* Writes the first missing value to the reason. */
static void explain_missing(struct aorta_device_metrics *metrics) {
    const char *missing = metrics->clock_limits_known ? NULL : "reason of a low clock";
    for (int i = VALUES; i-- > 0;)
        if (values[i].name && isnan(*value_of(metrics, i))) missing = values[i].name;
    if (!missing) return;
    snprintf(metrics->reason, sizeof metrics->reason, "the driver does not report the %s of this device", missing);
}

/* If a library's path does not fit into the reason, only its last part and the error remain. */
static void put_reason(char *out, size_t capacity, const char *reason) {
    const char *first = strchr(reason, '/'), *last = strrchr(reason, '/');
    if (!first || strlen(reason) < capacity)
        snprintf(out, capacity, "%s", reason);
    else
        snprintf(out, capacity, "%.*s…%s", (int)(first - reason), reason, last);
}

struct aorta_device_metrics aorta_device_unmeasured(const char *reason) {
    struct aorta_device_metrics metrics = {0};
    for (int i = 0; i < VALUES; i++) *value_of(&metrics, i) = NAN;
    put_reason(metrics.reason, sizeof metrics.reason, reason);
    return metrics;
}

bool aorta_device_measured(const struct aorta_device_metrics *metrics) {
    for (int i = 0; i < VALUES; i++)
        if (values[i].name && !isnan(*value_of(metrics, i))) return true;
    return metrics->clock_limits_known;
}

static struct aorta_device_metrics measure_device(struct gpu_manager *manager, const struct gpu_managed *device) {
    struct aorta_device_metrics metrics = aorta_device_unmeasured("");
    manager->kind->measure(manager, device, &metrics);
    explain_missing(&metrics);
    return metrics;
}

struct aorta_device_metrics aorta_device_measure(struct aorta_device *device) {
    static const char key;
    if (!aorta_device_is_gpu(device)) return aorta_device_unmeasured("not measured on the cpu device");
    void *state;
    aorta_status status = aorta_device_attachment(device, &key, make_watch, end_watch, &state);
    struct watch *watch = status ? NULL : state;
    if (!watch || watch->failure) {
        struct aorta_device_metrics none =
            aorta_device_unmeasured(aorta_status_message(watch ? watch->failure : status));
        aorta_status_free(status);
        return none;
    }
    return measure_device(&watch->manager, &watch->device);
}

/* ---- all devices of the machine ---- */

struct aorta_gpus {
    struct gpu_manager manager;
    unsigned count;
    struct gpu_managed devices[];
};

static aorta_status take_devices(struct gpu_manager *manager, struct aorta_gpus **out) {
    const unsigned count = manager->kind->count(manager);
    struct aorta_gpus *gpus = calloc(1, sizeof *gpus + count * sizeof *gpus->devices);
    if (!gpus) return AORTA_ERROR(AORTA_MEMORY, "no host memory for %u devices", count);
    gpus->manager = *manager;
    for (gpus->count = 0; gpus->count < count; gpus->count++) {
        aorta_status status = manager->kind->at(manager, gpus->count, &gpus->devices[gpus->count]);
        if (!status) continue;
        free(gpus);
        return status;
    }
    *out = gpus;
    return NULL;
}

aorta_status aorta_gpus_open(struct aorta_gpus **gpus) {
    static const enum aorta_device_kind kinds[] = {AORTA_DEVICE_CUDA, AORTA_DEVICE_HIP};
    aorta_status failure = NULL;
    *gpus = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !*gpus; i++) {
        struct gpu_manager manager;
        aorta_status status = aorta_gpu_manager_open(kinds[i], &manager);
        if (!status) {
            status = take_devices(&manager, gpus);
            if (!status && !(*gpus)->count)
                status = AORTA_ERROR(AORTA_UNSUPPORTED, "%s lists no device", manager.library.path);
            if (status) {
                free(*gpus);
                *gpus = NULL;
                aorta_gpu_manager_close(&manager);
            }
        }
        failure = aorta_status_join(failure, status);
    }
    if (!*gpus) return failure;
    aorta_status_free(failure);
    return NULL;
}

void aorta_gpus_close(struct aorta_gpus *gpus) {
    if (!gpus) return;
    aorta_gpu_manager_close(&gpus->manager);
    free(gpus);
}

size_t aorta_gpus_count(const struct aorta_gpus *gpus) {
    return gpus ? gpus->count : 0;
}

void aorta_gpus_read(struct aorta_gpus *gpus, size_t index, struct aorta_gpu_state *state) {
    state->metrics = measure_device(&gpus->manager, &gpus->devices[index]);
    state->process_count = 0;
    state->processes_known = gpus->manager.kind->processes(&gpus->manager, &gpus->devices[index], state);
}

/* ---- NVML ---- */

enum {
    SENSOR_GPU = 0,
    CLOCK_SM = 1,
    CLOCK_MEMORY = 2,
    POLICY_POWER = 0,
    POLICY_THERMAL = 1,
    CAPABILITY_NVLINK = 2,
    MOST_LINKS = 36, /* 18 on Hopper and Blackwell */
};

#define ROW(member, symbol, required, ...) {#symbol, offsetof(struct nvml_api, member), required},
static const struct aorta_symbol symbols[] = {
#include "device/gpu/nvml.def"
};
#undef ROW

static aorta_status nvml_start(struct gpu_manager *manager) {
    const struct nvml_api *api = &manager->api.nvml;
    int result = api->init();
    if (result)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%s does not start: %s", manager->library.path, api->error_text(result));
    char driver[80] = "";
    if (!api->driver_version(driver, sizeof driver))
        snprintf(manager->version, sizeof manager->version, "driver %s", driver);
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

/* Reads the largest share that each process used since the last reading. */
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
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (levels[i].level == level) snprintf(name, 8, "%s", levels[i].name);
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

/* ---- ROCm SMI ---- */

enum {
    SENSOR_EDGE = 0,
    SENSOR_JUNCTION = 1,
    TEMPERATURE_CURRENT = 0,
    MEMORY_VRAM = 0,
    CLOCK_SYSTEM = 0,
    RSMI_CLOCK_MEMORY = 4,
    LINK_XGMI = 2,
};

#define ROW(member, symbol, required, ...) {#symbol, offsetof(struct rsmi_api, member), required},
static const struct aorta_symbol rsmi_symbols[] = {
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
    if (result)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%s does not start: %s", manager->library.path, text_of(api, result));
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

/* Reads the current clock and the highest in the list. Version 6 added a flag at the beginning of the struct. */
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

/* ROCm SMI does not report why and for how long a clock is low. */
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
    if (read_clock(manager, index, RSMI_CLOCK_MEMORY, &mhz, &highest)) metrics->memory_clock_mhz = mhz;
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
struct rsmi_process_info {
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
    struct rsmi_process_info infos[PROCESSES_MOST];
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

static const char *const rsmi_names[] = {"librocm_smi64.so.7", "librocm_smi64.so.6", "librocm_smi64.so.5",
                                         "librocm_smi64.so.1", "librocm_smi64.so",   NULL};

const struct gpu_management aorta_gpu_rsmi = {
    .description = {.purpose = "clocks, power and links of the GPUs",
                    .names = rsmi_names,
                    .symbols = rsmi_symbols,
                    .symbol_count = sizeof rsmi_symbols / sizeof *rsmi_symbols,
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
