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

static void explain_missing(struct aorta_device_metrics *metrics) {
    const struct {
        const char *name;
        double value;
    } values[] = {{"temperature", metrics->temperature_c},
                  {"power", metrics->power_w},
                  {"clock", metrics->sm_clock_mhz},
                  {"memory clock", metrics->memory_clock_mhz},
                  {"utilization", metrics->utilization},
                  {"memory in use", metrics->memory_used_bytes},
                  {"power limit", metrics->power_limit_w},
                  {"highest clock", metrics->sm_clock_max_mhz},
                  {"reason of a low clock", metrics->clock_limits_known ? 0 : NAN}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (!isnan(values[i].value)) continue;
        snprintf(metrics->reason, sizeof metrics->reason, "the driver does not report the %s of this device",
                 values[i].name);
        return;
    }
}

/* The path of a library can be longer than the reason may be: its last part stays, with what is wrong. */
static void put_reason(char *out, size_t capacity, const char *reason) {
    const char *first = strchr(reason, '/'), *last = strrchr(reason, '/');
    if (!first || strlen(reason) < capacity)
        snprintf(out, capacity, "%s", reason);
    else
        snprintf(out, capacity, "%.*s…%s", (int)(first - reason), reason, last);
}

struct aorta_device_metrics aorta_device_unmeasured(const char *reason) {
    struct aorta_device_metrics metrics = {.temperature_c = NAN,
                                           .power_w = NAN,
                                           .power_limit_w = NAN,
                                           .sm_clock_mhz = NAN,
                                           .sm_clock_max_mhz = NAN,
                                           .memory_clock_mhz = NAN,
                                           .utilization = NAN,
                                           .memory_used_bytes = NAN,
                                           .power_capped_ms = NAN,
                                           .thermal_capped_ms = NAN};
    put_reason(metrics.reason, sizeof metrics.reason, reason);
    return metrics;
}

bool aorta_device_measured(const struct aorta_device_metrics *m) {
    const double values[] = {m->temperature_c,    m->power_w,          m->power_limit_w, m->sm_clock_mhz,
                             m->sm_clock_max_mhz, m->memory_clock_mhz, m->utilization,   m->memory_used_bytes};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (!isnan(values[i])) return true;
    return m->clock_limits_known;
}

struct aorta_device_metrics aorta_gpu_manager_measure(struct gpu_manager *manager, const struct gpu_managed *device) {
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
    return aorta_gpu_manager_measure(&watch->manager, &watch->device);
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
    state->metrics = aorta_gpu_manager_measure(&gpus->manager, &gpus->devices[index]);
    state->process_count = 0;
    state->processes_known = gpus->manager.kind->processes(&gpus->manager, &gpus->devices[index], state);
}
