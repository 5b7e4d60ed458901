/* Opening a GPU, its memory, and its table. */
#include "device/gpu/driver.h"
#include "base/clock.h"
#include "base/text.h"
#include "device/gpu/management.h"
#include "device/gpu/stream.h"
#include "device/inventory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- failures ---- */

static aorta_status describe(const struct gpu_driver *driver, int result) {
    const enum aorta_code code = result == GPU_OUT_OF_MEMORY ? AORTA_MEMORY : AORTA_DEVICE;
    return AORTA_ERROR(code, "%s (%s)", driver->vendor->error_name(&driver->api, result),
                       driver->vendor->error_text(&driver->api, result));
}

aorta_status aorta_gpu_error(const struct gpu_device *device, int result, const char *format, ...) {
    char what[512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return aorta_annotate(describe(&device->driver, result), "%s", what);
}

/* ---- the vendor's library ---- */

/* " (CUDA_VISIBLE_DEVICES is "")": what may hide devices. */
static const char *describe_visible(const struct gpu_vendor *vendor, char *text, size_t size) {
    text[0] = '\0';
    for (size_t i = 0; i < sizeof vendor->visible / sizeof *vendor->visible && vendor->visible[i]; i++) {
        const char *value = getenv(vendor->visible[i]);
        size_t used = strlen(text);
        if (value) snprintf(text + used, size - used, "; %s is \"%s\"", vendor->visible[i], value);
    }
    return text;
}

static aorta_status check_version(struct gpu_driver *driver) {
    const struct gpu_vendor *vendor = driver->vendor;
    int result = driver->api.driver_version(&driver->version);
    if (result) return aorta_annotate(describe(driver, result), "%s", driver->library.path);
    if (driver->version >= vendor->oldest_driver) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "%s: %s is of version %d, too old; needed is %s (%d) or newer; %s",
                       vendor->driver.purpose, driver->library.path, driver->version, vendor->oldest_driver_text,
                       vendor->oldest_driver, vendor->driver.install);
}

static aorta_status open_driver(const struct gpu_vendor *vendor, struct gpu_driver *driver) {
    char hidden[256];
    *driver = (struct gpu_driver){.vendor = vendor};
    AORTA_TRY(aorta_library_open(&vendor->driver, &driver->api, &driver->library));
    AORTA_TRY(check_version(driver));
    int result = driver->api.init(0);
    if (!result) result = driver->api.device_count(&driver->count);
    if (!result && driver->count > 0) return NULL;
    const char *visible = describe_visible(vendor, hidden, sizeof hidden);
    if (!result || result == GPU_NO_DEVICE || result == GPU_STUB_LIBRARY)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%s shows no device%s", driver->library.path, visible);
    return aorta_annotate(describe(driver, result), "%s cannot be used%s", driver->library.path, visible);
}

/* ---- the device ---- */

/* Some of our kernels wait for the host. If launches block, the host waits in the launch and never answers. */
static aorta_status check_blocking(const struct gpu_vendor *vendor) {
    for (size_t i = 0; i < sizeof vendor->blocking / sizeof *vendor->blocking && vendor->blocking[i]; i++) {
        const char *value = getenv(vendor->blocking[i]);
        if (!value || !*value || strcmp(value, "0") == 0) continue;
        return AORTA_ERROR(AORTA_CONFIG,
                           "%s=%s makes each launch wait for its kernel, so that nothing overlaps; unset it, or record "
                           "another program with it (aorta trace run)",
                           vendor->blocking[i], value);
    }
    return NULL;
}

static aorta_status read_attributes(struct gpu_device *device) {
    const struct gpu_attributes *numbers = &device->driver.vendor->attribute;
    struct aorta_gpu_properties *p = &device->properties;
    int shared = 0, unified = 1;
    const struct {
        int number, *value;
    } wanted[] = {
        {numbers->multiprocessors, &p->multiprocessors},
        {numbers->warp_size, &p->warp_size},
        {numbers->shared_bytes, &shared},
        {numbers->unified_addressing, &unified},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (wanted[i].number < 0) continue;
        int result = device->driver.api.device_attribute(wanted[i].value, wanted[i].number, device->handle);
        if (result) return aorta_gpu_error(device, result, "attribute %d of the device", wanted[i].number);
    }
    p->shared_bytes_per_block = (uint32_t)shared;
    if (unified) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED, "%s shares no address space with the host, which is needed",
                       device->base.info.name);
}

static aorta_status describe_device(struct gpu_device *device, int index) {
    const struct gpu_vendor *vendor = device->driver.vendor;
    const struct gpu_api *api = &device->driver.api;
    struct aorta_gpu_properties *p = &device->properties;
    struct aorta_device_info *info = &device->base.info;
    size_t bytes = 0;
    *p = (struct aorta_gpu_properties){0};
    *info = (struct aorta_device_info){.kind = vendor->kind, .index = index};
    int result = api->device_name(info->name, sizeof info->name, device->handle);
    if (!result) result = api->device_memory(&bytes, device->handle);
    if (!result) result = api->device_bus_id(p->pci_bus_id, sizeof p->pci_bus_id, device->handle);
    if (!result) result = vendor->architecture(device, p);
    if (result) return aorta_gpu_error(device, result, "properties of the device");
    if (!p->architecture[0])
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%s: the driver does not report its architecture", info->name);
    AORTA_TRY(read_attributes(device));
    info->memory_bytes = bytes;
    info->multiprocessors = p->multiprocessors;
    snprintf(info->isa, sizeof info->isa, "%.*s", (int)strcspn(p->architecture, ":"), p->architecture);
    return NULL;
}

/* Finds the device in an open driver and reads its properties; creates nothing on it. */
static aorta_status find_device(struct gpu_device *device, int index) {
    struct gpu_driver *driver = &device->driver;
    if (index < 0 || index >= driver->count) {
        char hidden[256];
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%s shows %s, numbered from 0%s", driver->library.path,
                           aorta_counted(driver->count, "device").text,
                           describe_visible(driver->vendor, hidden, sizeof hidden));
    }
    int result = driver->api.device_get(&device->handle, index);
    if (result) return aorta_gpu_error(device, result, "device %d cannot be used", index);
    return describe_device(device, index);
}

static aorta_status set_up(struct gpu_device *device) {
    const struct gpu_api *api = &device->driver.api;
    int result = api->context_retain(&device->context, device->handle);
    if (result) return aorta_gpu_error(device, result, "%s refuses a context", device->base.info.name);
    AORTA_TRY(aorta_gpu_make_current(&device->base));
    result = api->priority_range(&device->priority_low, &device->priority_high);
    if (result) return aorta_gpu_error(device, result, "priorities of streams");
    pthread_mutex_init(&device->notes_lock, NULL);
    return aorta_gpu_clock_open(device);
}

/* After the device was failed, waits for its work might never end, so nothing is waited for or freed. The end of the
 * process frees the device's memory. */
bool aorta_gpu_given_up(const struct gpu_device *device) {
    return atomic_load(&device->base.failure) != NULL;
}

static int leave(void *thing) {
    (void)thing;
    return 0;
}

static int leave_context(int device) {
    (void)device;
    return 0;
}

/* Replaces every call that may wait by one that does nothing. */
static void leave_all(struct gpu_api *api) {
    api->stream_synchronize = api->stream_destroy = api->event_destroy = leave;
    api->memory_free = api->host_free = api->module_unload = api->cuda_green_destroy = leave;
    api->context_release = leave_context;
}

static void gpu_close(struct aorta_device *base) {
    struct gpu_device *device = gpu_device(base);
    if (aorta_gpu_given_up(device)) leave_all(&device->driver.api);
    if (device->context) {
        aorta_status_free(aorta_gpu_make_current(base)); /* a lost device: its memory is gone anyway */
        aorta_gpu_clock_close(device);
        aorta_gpu_notes_close(device);
        aorta_gpu_functions_end(device);
        aorta_gpu_partitions_close(device);
        device->driver.api.context_release(device->handle);
    }
    aorta_gpu_compiler_end(&device->compiler);
    free(device);
}

static aorta_status gpu_open(const struct aorta_backend *backend, int index, struct aorta_device **opened) {
    const struct gpu_vendor *vendor = aorta_gpu_vendor(backend->kind);
    AORTA_TRY(check_blocking(vendor));
    struct gpu_device *device = calloc(1, sizeof *device);
    if (!device) return AORTA_ERROR(AORTA_MEMORY, "no host memory for a device");
    device->base.backend = backend;
    aorta_status status = open_driver(vendor, &device->driver);
    if (!status) status = find_device(device, index);
    if (status) {
        free(device);
        return aorta_annotate(status, "no device %s:%d (`aorta info` lists those found)",
                              aorta_device_kind_name(backend->kind), index);
    }
    aorta_gpu_compiler_begin(&device->compiler);
    aorta_gpu_functions_begin(&device->functions);
    status = set_up(device);
    if (status) {
        gpu_close(&device->base);
        return aorta_annotate(status, "device %s:%d", aorta_device_kind_name(backend->kind), index);
    }
    *opened = &device->base;
    return NULL;
}

aorta_status aorta_gpu_make_current(struct aorta_device *base) {
    struct gpu_device *device = gpu_device(base);
    int result = device->driver.api.context_set(device->context);
    if (!result) return NULL;
    return aorta_gpu_error(device, result, "device %s:%d cannot be used from this thread",
                           aorta_device_kind_name(base->info.kind), base->info.index);
}

void aorta_gpu_call_driver(struct aorta_device *base) {
    const struct gpu_device *device = gpu_device(base);
    int value;
    device->driver.api.device_attribute(&value, device->driver.vendor->attribute.warp_size, device->handle);
}

bool aorta_device_is_gpu(const struct aorta_device *device) {
    return device->info.kind != AORTA_DEVICE_CPU;
}

const struct aorta_gpu_properties *aorta_gpu_get_properties(const struct aorta_device *device) {
    return aorta_device_is_gpu(device) ? &gpu_device(device)->properties : NULL;
}

aorta_status aorta_gpu_enable_peer(struct aorta_device *base, struct aorta_device *other, bool *direct) {
    struct gpu_device *device = gpu_device(base), *peer = gpu_device(other);
    int possible = 0;
    *direct = device->handle == peer->handle;
    if (*direct) return NULL;
    AORTA_TRY(aorta_gpu_make_current(base));
    int result = device->driver.api.peer_possible(&possible, device->handle, peer->handle);
    if (!result && possible) result = device->driver.api.peer_enable(peer->context, 0);
    if (result && result != GPU_PEER_ALREADY_ENABLED) {
        return aorta_gpu_error(device, result, "device %d to the memory of device %d", base->info.index,
                               other->info.index);
    }
    *direct = possible;
    return NULL;
}

aorta_status aorta_gpu_count(enum aorta_device_kind kind, int *count) {
    struct gpu_driver driver;
    AORTA_TRY(open_driver(aorta_gpu_vendor(kind), &driver));
    *count = driver.count;
    return NULL;
}

/* ---- memory: the vendor's plain allocations; memory.c reuses them ---- */

/* NULL when the device is full. */
static aorta_status check_memory(struct gpu_device *device, int result) {
    if (!result || result == GPU_OUT_OF_MEMORY) return NULL;
    return aorta_gpu_error(device, result, "the device gives no memory");
}

static aorta_status gpu_memory_get(struct aorta_device *base, size_t bytes, void **memory) {
    struct gpu_device *device = gpu_device(base);
    *memory = NULL;
    AORTA_TRY(aorta_gpu_make_current(base));
    return check_memory(device, device->driver.api.memory_alloc(memory, bytes));
}

static void gpu_memory_put(struct aorta_device *base, void *memory) {
    struct gpu_device *device = gpu_device(base);
    if (aorta_gpu_given_up(device)) return;
    device->driver.api.context_set(device->context); /* a lost device: its memory is gone anyway */
    device->driver.api.memory_free(memory);
}

static aorta_status gpu_pinned_get(struct aorta_device *base, size_t bytes, void **memory) {
    struct gpu_device *device = gpu_device(base);
    *memory = NULL;
    AORTA_TRY(aorta_gpu_make_current(base));
    return check_memory(device, device->driver.api.host_alloc(memory, bytes, GPU_HOST_PORTABLE | GPU_HOST_MAPPED));
}

static void gpu_pinned_put(struct aorta_device *base, void *memory, size_t bytes) {
    struct gpu_device *device = gpu_device(base);
    (void)bytes;
    if (aorta_gpu_given_up(device)) return;
    device->driver.api.context_set(device->context); /* a lost device: its memory is gone anyway */
    device->driver.api.host_free(memory);
}

static uint64_t gpu_memory_free(struct aorta_device *base) {
    struct gpu_device *device = gpu_device(base);
    size_t free_bytes = 0, total = 0;
    if (device->driver.api.context_set(device->context) || device->driver.api.memory_info(&free_bytes, &total))
        return 0;
    return free_bytes;
}

#define MEMBERS                                                                                                        \
    .open = gpu_open, .close = gpu_close, .clock_error_ns = aorta_gpu_clock_error_ns, .memory_get = gpu_memory_get,    \
    .memory_put = gpu_memory_put, .pinned_get = gpu_pinned_get, .pinned_put = gpu_pinned_put,                          \
    .memory_free = gpu_memory_free, .stream_create = aorta_gpu_stream_create,                                          \
    .stream_destroy = aorta_gpu_stream_destroy, .stream_limit = aorta_gpu_stream_limit,                                \
    .stream_synchronize = aorta_gpu_stream_synchronize, .launch = aorta_gpu_stream_launch,                             \
    .prepared_bytes = sizeof(struct gpu_prepared), .prepare = aorta_gpu_prepared_make,                                 \
    .launch_prepared = aorta_gpu_prepared_launch, .host_call = aorta_gpu_host_call, .copy = aorta_gpu_copy,            \
    .fill_bytes = aorta_gpu_fill_bytes, .timestamp = aorta_gpu_timestamp, .event_bytes = sizeof(struct gpu_event),     \
    .event_end = aorta_gpu_event_end, .event_record = aorta_gpu_event_record, .stream_wait = aorta_gpu_stream_wait,    \
    .event_synchronize = aorta_gpu_event_synchronize, .event_done = aorta_gpu_event_done,                              \
    .capture_bytes = sizeof(struct gpu_capture), .branch_bytes = sizeof(struct gpu_branch),                            \
    .capture_begin = aorta_gpu_capture_begin, .capture_end = aorta_gpu_capture_end,                                    \
    .branch_leave = aorta_gpu_branch_leave, .capture_free = aorta_gpu_capture_free,                                    \
    .graph_launch = aorta_gpu_graph_launch, .graph_destroy = aorta_gpu_graph_destroy

const struct aorta_backend aorta_cuda_backend = {.kind = AORTA_DEVICE_CUDA, MEMBERS};
const struct aorta_backend aorta_hip_backend = {.kind = AORTA_DEVICE_HIP, MEMBERS};

/* ---- inventory ---- */

/* CUDA counts 13000 for 13.0, HIP 60342134 for 6.3.42134. */
static void write_version(const struct gpu_driver *driver, char *text, size_t size) {
    if (driver->vendor->kind == AORTA_DEVICE_CUDA) {
        snprintf(text, size, "%d.%d", driver->version / 1000, driver->version % 1000 / 10);
    } else {
        snprintf(text, size, "%d.%d.%d", driver->version / 10000000, driver->version / 100000 % 100,
                 driver->version % 100000);
    }
}

/* Writes why into `problem` and ends the status; true when there is none. */
static bool explain(aorta_status status, char *problem, size_t size) {
    if (!status) return true;
    snprintf(problem, size, "%s", aorta_status_message(status));
    aorta_status_free(status);
    return false;
}

static void look_at_compiler(const struct gpu_vendor *vendor, struct aorta_gpu_inventory *inventory) {
    struct gpu_compiler_api api;
    struct aorta_library library;
    int major = 0, minor = 0;
    if (!explain(aorta_library_open(&vendor->compiler, &api, &library), inventory->compiler_problem,
                 sizeof inventory->compiler_problem))
        return;
    snprintf(inventory->compiler_path, sizeof inventory->compiler_path, "%s", library.path);
    api.version(&major, &minor);
    snprintf(inventory->compiler_version, sizeof inventory->compiler_version, "%s %d.%d", vendor->compiler_name, major,
             minor);
}

static void find_links(const struct gpu_driver *driver, struct gpu_manager *manager, const struct gpu_managed *managed,
                       struct aorta_gpu_inventory *inventory) {
    size_t count = inventory->count;
    for (size_t i = 0; i < count * count; i++) {
        size_t from = i / count, to = i % count;
        struct aorta_gpu_link *link = &inventory->links[i];
        int possible = 0, handles[2] = {0, 0};
        snprintf(link->name, sizeof link->name, from == to ? "X" : "?");
        if (from == to) continue;
        driver->api.device_get(&handles[0], (int)from);
        driver->api.device_get(&handles[1], (int)to);
        link->peer = !driver->api.peer_possible(&possible, handles[0], handles[1]) && possible;
        if (managed) manager->kind->link(manager, &managed[from], &managed[to], link->name);
    }
}

static void look_at_links(const struct gpu_driver *driver, struct aorta_gpu_inventory *inventory) {
    struct gpu_manager manager;
    struct gpu_managed *managed = calloc(inventory->count, sizeof *managed);
    bool open = explain(aorta_gpu_manager_open(driver->vendor->kind, &manager), inventory->management_problem,
                        sizeof inventory->management_problem);
    bool known = open && managed;
    for (size_t i = 0; known && i < inventory->count; i++) {
        known = explain(manager.kind->find(&manager, inventory->devices[i].properties.pci_bus_id, &managed[i]),
                        inventory->management_problem, sizeof inventory->management_problem);
    }
    if (open) {
        snprintf(inventory->management_path, sizeof inventory->management_path, "%s", manager.library.path);
        snprintf(inventory->management_version, sizeof inventory->management_version, "%s", manager.version);
    }
    find_links(driver, &manager, known ? managed : NULL, inventory);
    if (open) aorta_gpu_manager_close(&manager);
    free(managed);
}

aorta_status aorta_gpu_inventory_take(enum aorta_device_kind kind, struct aorta_gpu_inventory *inventory) {
    *inventory = (struct aorta_gpu_inventory){0};
    struct gpu_device *device = calloc(1, sizeof *device);
    if (!device) return AORTA_ERROR(AORTA_MEMORY, "no host memory to look for GPUs");
    aorta_status status = open_driver(aorta_gpu_vendor(kind), &device->driver);
    if (!status) {
        inventory->count = (size_t)device->driver.count;
        inventory->devices = calloc(inventory->count, sizeof *inventory->devices);
        inventory->links = calloc(inventory->count * inventory->count, sizeof *inventory->links);
        if (!inventory->devices || !inventory->links)
            status = AORTA_ERROR(AORTA_MEMORY, "no host memory to list the GPUs");
    }
    for (size_t i = 0; !status && i < inventory->count; i++) {
        status = find_device(device, (int)i);
        inventory->devices[i] = (struct aorta_gpu_found){device->base.info, device->properties};
    }
    if (!status) {
        snprintf(inventory->driver_path, sizeof inventory->driver_path, "%s", device->driver.library.path);
        write_version(&device->driver, inventory->driver_version, sizeof inventory->driver_version);
        look_at_compiler(device->driver.vendor, inventory);
        look_at_links(&device->driver, inventory);
    }
    free(device);
    if (status) aorta_gpu_inventory_free(inventory);
    return status;
}

void aorta_gpu_inventory_free(struct aorta_gpu_inventory *inventory) {
    free(inventory->devices);
    free(inventory->links);
    *inventory = (struct aorta_gpu_inventory){0};
}
