#include "cli/info_gpu.h"
#include "cli/cli.h"
#include "comm/comm.h"
#include "measure/tracer.h"
#include "ops/gpu/blas.h"

#include <stdio.h>
#include <string.h>

/* Libraries beside the driver, and what is lost without each. */
static const struct library {
    const char *name;
    const struct aorta_library_description *description;
    const char *without;
} libraries[INFO_GPU_KINDS][INFO_GPU_LIBRARIES] = {
    {{"cuBLASLt", &aorta_blas_cuda.library, "training on the GPU cannot run"},
     {"NCCL", &aorta_nccl_library, "ranks cannot use a GPU each"},
     {"CUPTI", &aorta_cupti_library, "times come from ranges only, not from kernels"}},
    {{"hipBLASLt", &aorta_blas_hip.library, "training on the GPU cannot run"},
     {"RCCL", &aorta_rccl_library, "ranks cannot use a GPU each"},
     {"rocprofiler-sdk", &aorta_rocprofiler_library, "times come from ranges only, not from kernels"}},
};

static const enum aorta_device_kind kinds[INFO_GPU_KINDS] = {AORTA_DEVICE_CUDA, AORTA_DEVICE_HIP};

/* ---- gathering ---- */

static void find_library(const struct library *library, struct info_gpu_library *result) {
    struct aorta_library_description description = *library->description;
    description.symbol_count = 0; /* the file alone */
    struct aorta_library found;
    result->problem = aorta_library_open(&description, NULL, &found);
    snprintf(result->path, sizeof result->path, "%s", result->problem ? "" : found.path);
}

void info_gpu_gather(struct info_gpu *gpu) {
    for (int i = 0; i < INFO_GPU_KINDS; i++) {
        struct info_gpu_kind *kind = &gpu->kinds[i];
        kind->failure = aorta_gpu_inventory_take(kinds[i], &kind->inventory);
        if (kind->failure) continue;
        for (int j = 0; j < INFO_GPU_LIBRARIES; j++) find_library(&libraries[i][j], &kind->libraries[j]);
    }
}

void info_gpu_release(struct info_gpu *gpu) {
    for (int i = 0; i < INFO_GPU_KINDS; i++) {
        aorta_status_free(gpu->kinds[i].failure);
        for (int j = 0; j < INFO_GPU_LIBRARIES; j++) aorta_status_free(gpu->kinds[i].libraries[j].problem);
        aorta_gpu_inventory_free(&gpu->kinds[i].inventory);
    }
}

/* ---- as text ---- */

int info_gpu_print_answer(const struct info_gpu *gpu) {
    int count = 0;
    for (int i = 0; i < INFO_GPU_KINDS; i++) {
        const struct aorta_gpu_inventory *inventory = &gpu->kinds[i].inventory;
        if (!inventory->count || !inventory->compiler_path[0]) continue;
        printf("%s%s (%s, %s)", count++ ? " and " : "", aorta_counted((long long)inventory->count, "GPU").text,
               inventory->devices[0].info.name, aorta_device_kind_name(kinds[i]));
    }
    return count;
}

void info_gpu_print_devices(const struct info_gpu *gpu) {
    for (int i = 0; i < INFO_GPU_KINDS; i++) {
        const struct aorta_gpu_inventory *inventory = &gpu->kinds[i].inventory;
        for (size_t j = 0; j < inventory->count; j++) {
            const struct aorta_gpu_found *found = &inventory->devices[j];
            char name[32];
            snprintf(name, sizeof name, "%s:%zu", aorta_device_kind_name(kinds[i]), j);
            printf("  %-9s %s, %d multiprocessors, %.1f GiB, %s, at %s\n", name, found->info.name,
                   found->info.multiprocessors, (double)found->info.memory_bytes / (1 << 30), found->info.isa,
                   found->properties.pci_bus_id);
        }
    }
}

static void print_links(enum aorta_device_kind kind, const struct aorta_gpu_inventory *inventory) {
    printf("  Links (NVn: n NVLinks; PIX, PXB, PHB, NODE, SYS: over PCIe, ever farther; *: no direct access)\n");
    printf("  %-9s", "");
    for (size_t j = 0; j < inventory->count; j++) printf(" %s:%-3zu", aorta_device_kind_name(kind), j);
    for (size_t i = 0; i < inventory->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s:%zu", aorta_device_kind_name(kind), i);
        printf("\n  %-9s", name);
        for (size_t j = 0; j < inventory->count; j++) {
            const struct aorta_gpu_link *link = &inventory->links[i * inventory->count + j];
            char text[16];
            snprintf(text, sizeof text, "%s%s", link->name, i == j || link->peer ? "" : "*");
            printf(" %-*s", (int)strlen(aorta_device_kind_name(kind)) + 4, text);
        }
    }
    printf("\n");
}

static void print_part(const char *name, const char *version, const char *path) {
    if (path[0])
        printf("  %-16s %s%s%s\n", name, version, version[0] ? ", " : "", path);
    else
        printf("  %-16s not found\n", name);
}

static void print_kind(int index, const struct info_gpu_kind *kind) {
    const struct aorta_gpu_inventory *inventory = &kind->inventory;
    const char *name = aorta_device_kind_name(kinds[index]);
    if (kind->failure) {
        printf("  %-16s not used: %s\n", name, aorta_status_message(kind->failure));
        return;
    }
    char version[64];
    snprintf(version, sizeof version, "version %s", inventory->driver_version);
    print_part(name, version, inventory->driver_path);
    print_part("kernel compiler", inventory->compiler_version, inventory->compiler_path);
    print_part("management", inventory->management_version, inventory->management_path);
    for (int j = 0; j < INFO_GPU_LIBRARIES; j++) print_part(libraries[index][j].name, "", kind->libraries[j].path);
    if (inventory->count > 1) print_links(kinds[index], inventory);
}

void info_gpu_print_software(const struct info_gpu *gpu) {
    printf("GPU software\n");
    for (int i = 0; i < INFO_GPU_KINDS; i++) print_kind(i, &gpu->kinds[i]);
}

/* ---- software that a GPU lacks ---- */

struct missing {
    const char *name, *cost, *get, *searched;
};

/* The next one from *at on; false when there is none. */
static bool next_missing(int index, const struct info_gpu_kind *kind, int *at, struct missing *missing) {
    const struct aorta_gpu_inventory *inventory = &kind->inventory;
    const struct missing own[] = {
        {inventory->compiler_path[0] ? NULL : "kernel compiler", "the GPU cannot be used", inventory->compiler_problem,
         ""},
        {inventory->management_path[0] ? NULL : "management library",
         "temperature, power and clocks are not measured, links not known", inventory->management_problem, ""},
    };
    enum { OWN = sizeof own / sizeof *own };
    if (kind->failure) return false;
    while (*at < OWN + INFO_GPU_LIBRARIES) {
        int i = (*at)++;
        if (i < OWN && own[i].name) {
            *missing = own[i];
            return true;
        }
        if (i < OWN || kind->libraries[i - OWN].path[0]) continue;
        const struct library *library = &libraries[index][i - OWN];
        const aorta_status problem = kind->libraries[i - OWN].problem;
        *missing = (struct missing){library->name, library->without, aorta_status_message(problem),
                                    aorta_status_detail(problem)};
        return true;
    }
    return false;
}

int info_gpu_print_missing(const struct info_gpu *gpu) {
    int count = 0;
    for (int i = 0; i < INFO_GPU_KINDS; i++) {
        struct missing missing;
        for (int at = 0; next_missing(i, &gpu->kinds[i], &at, &missing); count++)
            printf("  %-16s %s; %s\n", missing.name, missing.cost, missing.get);
    }
    return count;
}

/* ---- as JSON ---- */

void info_gpu_write_devices(const struct info_gpu *gpu, struct aorta_json *json) {
    for (int i = 0; i < INFO_GPU_KINDS; i++) {
        const struct aorta_gpu_inventory *inventory = &gpu->kinds[i].inventory;
        for (size_t j = 0; j < inventory->count; j++) {
            const struct aorta_gpu_found *found = &inventory->devices[j];
            aorta_json_object(json);
            aorta_json_key_string(json, "kind", aorta_device_kind_name(kinds[i]));
            aorta_json_key_int(json, "index", (int64_t)j);
            aorta_json_key_string(json, "name", found->info.name);
            aorta_json_key_string(json, "isa", found->info.isa);
            aorta_json_key_int(json, "multiprocessors", found->info.multiprocessors);
            aorta_json_key_int(json, "memory_bytes", (int64_t)found->info.memory_bytes);
            aorta_json_key_string(json, "pci_bus_id", found->properties.pci_bus_id);
            aorta_json_object_end(json);
        }
    }
}

static void write_part(struct aorta_json *json, const char *name, const char *version, const char *path) {
    aorta_json_key_object(json, name);
    aorta_json_key_string(json, "path", path[0] ? path : NULL);
    aorta_json_key_string(json, "version", version && version[0] ? version : NULL);
    aorta_json_object_end(json);
}

static void write_links(const struct aorta_gpu_inventory *inventory, struct aorta_json *json) {
    aorta_json_key_array(json, "links");
    for (size_t i = 0; i < inventory->count; i++) {
        aorta_json_array(json);
        for (size_t j = 0; j < inventory->count; j++) {
            const struct aorta_gpu_link *link = &inventory->links[i * inventory->count + j];
            aorta_json_object(json);
            aorta_json_key_string(json, "name", link->name);
            aorta_json_key_bool(json, "peer_access", link->peer);
            aorta_json_object_end(json);
        }
        aorta_json_array_end(json);
    }
    aorta_json_array_end(json);
}

void info_gpu_write_software(const struct info_gpu *gpu, struct aorta_json *json) {
    aorta_json_key_object(json, "gpu_software");
    for (int i = 0; i < INFO_GPU_KINDS; i++) {
        const struct info_gpu_kind *kind = &gpu->kinds[i];
        const struct aorta_gpu_inventory *inventory = &kind->inventory;
        aorta_json_key_object(json, aorta_device_kind_name(kinds[i]));
        aorta_json_key_string(json, "failure", kind->failure ? aorta_status_message(kind->failure) : NULL);
        if (*aorta_status_detail(kind->failure))
            aorta_json_key_string(json, "searched", aorta_status_detail(kind->failure));
        if (!kind->failure) {
            write_part(json, "driver", inventory->driver_version, inventory->driver_path);
            write_part(json, "kernel_compiler", inventory->compiler_version, inventory->compiler_path);
            write_part(json, "management", inventory->management_version, inventory->management_path);
            for (int j = 0; j < INFO_GPU_LIBRARIES; j++)
                write_part(json, libraries[i][j].name, NULL, kind->libraries[j].path);
            write_links(inventory, json);
        }
        aorta_json_object_end(json);
    }
    aorta_json_object_end(json);
}

void info_gpu_write_missing(const struct info_gpu *gpu, struct aorta_json *json) {
    for (int i = 0; i < INFO_GPU_KINDS; i++) {
        struct missing missing;
        for (int at = 0; next_missing(i, &gpu->kinds[i], &at, &missing);) {
            aorta_json_object(json);
            aorta_json_key_string(json, "name", missing.name);
            aorta_json_key_string(json, "cost", missing.cost);
            aorta_json_key_string(json, "get", missing.get);
            if (*missing.searched) aorta_json_key_string(json, "searched", missing.searched);
            aorta_json_object_end(json);
        }
    }
}
