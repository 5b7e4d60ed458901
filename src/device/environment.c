#include "device/inventory.h"

#include "base/files.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The program has its own (src/cli/CMakeLists.txt). */
__attribute__((weak)) const char aorta_version[] = "unknown";
__attribute__((weak)) const char aorta_commit[] = "unknown";
const char aorta_environment_file[] = "environment.json";

/* A name that ends in '_' matches all names that begin with it. Variables that mpirun itself sets do not count, as
 * they differ from run to run. */
bool aorta_environment_matters(const char *variable) {
    static const char *const names[] = {"CUDA_VISIBLE_DEVICES",
                                        "CUDA_DEVICE_MAX_CONNECTIONS",
                                        "CUDA_LAUNCH_BLOCKING",
                                        "CUDA_MODULE_LOADING",
                                        "HIP_",
                                        "ROCR_VISIBLE_DEVICES",
                                        "GPU_MAX_HW_QUEUES",
                                        "HSA_",
                                        "NCCL_",
                                        "RCCL_",
                                        "TORCH_NCCL_",
                                        "PYTORCH_CUDA_ALLOC_CONF",
                                        "UCX_",
                                        "OMP_",
                                        "OPENBLAS_",
                                        "ONEDNN_",
                                        "DNNL_",
                                        "MKL_",
                                        "OMPI_MCA_btl",
                                        "OMPI_MCA_coll",
                                        "OMPI_MCA_pml",
                                        "OMPI_MCA_mtl",
                                        "MALLOC_",
                                        "LD_PRELOAD",
                                        "AORTA_LIBRARY_PATH"};
    const size_t length = strcspn(variable, "=");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t name_length = strlen(names[i]);
        const bool prefix = names[i][name_length - 1] == '_';
        if (strncmp(variable, names[i], name_length) == 0 && (prefix || length == name_length)) return true;
    }
    return false;
}

static void add(struct aorta_environment *e, const char *section, const char *key, const char *value, bool json) {
    const struct aorta_environment_item item = {aorta_arena_strdup(&e->arena, section),
                                                aorta_arena_strdup(&e->arena, key),
                                                aorta_arena_strdup(&e->arena, value), json};
    aorta_arena_append(&e->arena, &e->items, &e->capacity, &e->count, &item, sizeof item);
}

void aorta_environment_add(struct aorta_environment *e, const char *section, const char *key, const char *value) {
    if (value && *value) add(e, section, key, value, false);
}

void aorta_environment_add_json(struct aorta_environment *e, const char *section, const char *key, const char *value) {
    add(e, section, key, value, true);
}

static void add_number(struct aorta_environment *e, const char *section, const char *key, long long value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", value);
    aorta_environment_add(e, section, key, text);
}

/* The first line of a file in /proc or /sys, after a prefix; nothing if there is none. */
static void add_host_line(struct aorta_environment *e, const char *key, const char *path, const char *prefix) {
    char value[256];
    if (aorta_file_line(path, prefix, value, sizeof value)) aorta_environment_add(e, "host", key, value);
}

static void add_host(struct aorta_environment *e) {
    struct utsname names;
    if (uname(&names) == 0) {
        aorta_environment_add(e, "host", "name", names.nodename);
        aorta_environment_add(e, "host", "kernel", names.release);
    }
    add_host_line(e, "processor", "/proc/cpuinfo", "model name");
    add_number(e, "host", "processors", sysconf(_SC_NPROCESSORS_ONLN));
    add_host_line(e, "nvidia_module", "/sys/module/nvidia/version", "");
    add_host_line(e, "amdgpu_module", "/sys/module/amdgpu/version", "");
}

static void add_inventory(struct aorta_environment *e, const struct aorta_gpu_inventory *inventory,
                          const struct aorta_device_info *info) {
    if (!info && inventory->count) {
        const struct aorta_device_info *first = &inventory->devices[0].info;
        aorta_environment_add(e, "device", "name", first->name);
        aorta_environment_add(e, "device", "isa", first->isa);
    }
    add_number(e, "device", "visible", (long long)inventory->count);
    aorta_environment_add(e, "software", "driver", inventory->driver_version);
    aorta_environment_add(e, "software", "driver_release", inventory->management_version);
    aorta_environment_add(e, "software", "kernel_compiler", inventory->compiler_version);
}

/* A vendor without a driver adds nothing. */
static void add_gpus(struct aorta_environment *e, enum aorta_device_kind kind, const struct aorta_device_info *info) {
    struct aorta_gpu_inventory inventory;
    aorta_status none = aorta_gpu_inventory_take(kind, &inventory);
    if (none) {
        aorta_status_free(none);
        return;
    }
    add_inventory(e, &inventory, info);
    aorta_gpu_inventory_free(&inventory);
}

static void add_device(struct aorta_environment *e, struct aorta_device *device) {
    const struct aorta_device_info *info = device ? aorta_device_get_info(device) : NULL;
    if (info) {
        aorta_environment_add(e, "device", "kind", aorta_device_kind_name(info->kind));
        aorta_environment_add(e, "device", "name", info->name);
        aorta_environment_add(e, "device", "isa", info->isa);
        if (aorta_device_is_gpu(device)) add_gpus(e, info->kind, info);
        return;
    }
    add_gpus(e, AORTA_DEVICE_CUDA, NULL);
    add_gpus(e, AORTA_DEVICE_HIP, NULL);
}

static void add_variables(struct aorta_environment *e) {
    for (char **variable = environ; *variable; variable++) {
        const char *equals = strchr(*variable, '=');
        char name[256];
        if (!equals || !aorta_environment_matters(*variable)) continue;
        snprintf(name, sizeof name, "%.*s", (int)(equals - *variable), *variable);
        aorta_environment_add(e, "environment", name, equals + 1);
    }
}

aorta_status aorta_environment_take(struct aorta_device *device, struct aorta_environment *e) {
    *e = (struct aorta_environment){0};
    aorta_environment_add(e, "aorta", "version", aorta_version);
    aorta_environment_add(e, "aorta", "commit", aorta_commit);
    add_host(e);
    add_variables(e);
    add_device(e, device);
    aorta_status status = aorta_arena_check(&e->arena, "the environment of a result");
    if (status) aorta_environment_free(e);
    return status;
}

void aorta_environment_free(struct aorta_environment *e) {
    aorta_arena_free(&e->arena);
    *e = (struct aorta_environment){0};
}

static void write_section(const struct aorta_environment *e, const char *section, struct aorta_json *json) {
    aorta_json_key_object(json, section);
    for (size_t i = 0; i < e->count; i++) {
        const struct aorta_environment_item *item = &e->items[i];
        if (strcmp(item->section, section) != 0) continue;
        aorta_json_key(json, item->key);
        (item->json ? aorta_json_text : aorta_json_string)(json, item->value);
    }
    aorta_json_object_end(json);
}

static bool is_first(const struct aorta_environment *e, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (strcmp(e->items[i].section, e->items[index].section) == 0) return false;
    return true;
}

void aorta_environment_json(const struct aorta_environment *e, struct aorta_json *json) {
    for (size_t i = 0; i < e->count; i++)
        if (is_first(e, i)) write_section(e, e->items[i].section, json);
}

aorta_status aorta_environment_save(const struct aorta_environment *e, const char *directory) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 2);
    aorta_json_object(&json);
    aorta_json_key_int(&json, "schema_version", 1);
    aorta_environment_json(e, &json);
    aorta_json_object_end(&json);
    aorta_text_puts(&text, "\n");
    aorta_status status = aorta_arena_check(&e->arena, "the environment of a result");
    if (!status) status = aorta_text_check(&text);
    const struct aorta_file_path path = aorta_path_in(directory, "%s", aorta_environment_file);
    if (!status) status = aorta_file_replace(path.text, text.data, text.length);
    aorta_text_free(&text);
    return status;
}

aorta_status aorta_environment_of_host_save(const char *directory) {
    struct aorta_environment environment;
    AORTA_TRY(aorta_environment_take(NULL, &environment));
    aorta_status status = aorta_environment_save(&environment, directory);
    aorta_environment_free(&environment);
    return status;
}
