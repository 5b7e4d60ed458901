/* Lists GPUs and vendor libraries of the machine. */
#include "device/inventory.h"

#include "device/gpu/driver.h"
#include "device/gpu/management.h"

#include <stdio.h>
#include <stdlib.h>

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
    aorta_status status = aorta_gpu_driver_open(aorta_gpu_vendor(kind), &device->driver);
    if (!status) {
        inventory->count = (size_t)device->driver.count;
        inventory->devices = calloc(inventory->count, sizeof *inventory->devices);
        inventory->links = calloc(inventory->count * inventory->count, sizeof *inventory->links);
        if (!inventory->devices || !inventory->links)
            status = AORTA_ERROR(AORTA_MEMORY, "no host memory to list the GPUs");
    }
    for (size_t i = 0; !status && i < inventory->count; i++) {
        status = aorta_gpu_find_device(device, (int)i);
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
