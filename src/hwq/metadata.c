/* The metadata of a result: settings, device, environment, the workload's own options. */
#include "device/environment.h"
#include "device/gpu.h"
#include "device/inventory.h"
#include "hwq/run.h"

#include <stdio.h>
#include <string.h>

static aorta_status add_config(const struct aorta_hwq_run *run, const struct aorta_hwq *hwq,
                               struct aorta_hwq_result *result) {
    const struct aorta_device_info *info = aorta_device_get_info(hwq->device);
    char device[64];
    snprintf(device, sizeof device, "%s:%d", aorta_device_kind_name(info->kind), info->index);
    AORTA_TRY(aorta_hwq_metadata_int(result, "config", "stream_count", hwq->stream_count));
    AORTA_TRY(aorta_hwq_metadata_int(result, "config", "warmup_iterations", run->warmup));
    AORTA_TRY(aorta_hwq_metadata_int(result, "config", "measurement_iterations", run->iterations));
    AORTA_TRY(aorta_hwq_metadata_string(result, "config", "sync_mode", aorta_hwq_sync_name(run->sync)));
    AORTA_TRY(aorta_hwq_metadata_string(result, "config", "device", device));
    AORTA_TRY(aorta_hwq_metadata_bool(result, "config", "graph", run->graph));
    AORTA_TRY(aorta_hwq_metadata_bool(result, "config", "gate", run->gate));
    AORTA_TRY(aorta_hwq_metadata_int(result, "config", "seed", run->seed));
    AORTA_TRY(aorta_hwq_metadata_int(result, "config", "world_size", run->ranks.world_size));
    if (!run->world) return NULL;
    return aorta_hwq_metadata_string(result, "config", "backend", aorta_comm_backend(run->world));
}

static aorta_status add_device(const struct aorta_hwq *hwq, struct aorta_hwq_result *result) {
    const struct aorta_device_info *info = aorta_device_get_info(hwq->device);
    AORTA_TRY(aorta_hwq_metadata_string(result, "device_info", "name", info->name));
    AORTA_TRY(aorta_hwq_metadata_string(result, "device_info", "isa", info->isa));
    AORTA_TRY(aorta_hwq_metadata_int(result, "device_info", "device_index", info->index));
    AORTA_TRY(
        aorta_hwq_metadata_number(result, "device_info", "total_memory_gb", (double)info->memory_bytes / (1 << 30)));
    AORTA_TRY(aorta_hwq_metadata_int(result, "device_info", "multi_processor_count", info->multiprocessors));
    AORTA_TRY(aorta_hwq_metadata_bool(result, "device_info", "is_rocm", info->kind == AORTA_DEVICE_HIP));
    AORTA_TRY(aorta_hwq_metadata_int(result, "device_info", "timestamp_tick_ns", info->timestamp_tick));
    if (!aorta_device_is_gpu(hwq->device)) return NULL;
    struct aorta_gpu_inventory inventory;
    aorta_status none = aorta_gpu_inventory_take(info->kind, &inventory);
    if (none) { /* the device works; its driver's version is unknown */
        aorta_status_free(none);
        return aorta_hwq_metadata_string(result, "device_info", "driver_version", NULL);
    }
    aorta_status status = aorta_hwq_metadata_string(result, "device_info", "driver_version", inventory.driver_version);
    aorta_gpu_inventory_free(&inventory);
    return status;
}

static aorta_status add_environment(const struct aorta_hwq_run *run, const struct aorta_hwq *hwq,
                                    struct aorta_hwq_result *result) {
    struct aorta_environment environment;
    char version[256];
    AORTA_TRY(aorta_environment_take(hwq->device, &environment));
    aorta_status status = NULL;
    if (run->world)
        status = aorta_environment_add(&environment, "software", "collectives",
                                       aorta_comm_version(run->world, version, sizeof version));
    for (size_t i = 0; !status && i < environment.count; i++) {
        const struct aorta_environment_item *item = &environment.items[i];
        if (strcmp(item->section, "device") != 0) /* device_info has it */
            status = aorta_hwq_metadata_string(result, item->section, item->key, item->value);
    }
    aorta_environment_free(&environment);
    return status;
}

static aorta_status add_option(struct aorta_hwq_result *result, const struct aorta_option *option, const char *values) {
    const void *value = values + option->offset;
    const char *section = "workload_config";
    if (option->type == AORTA_OPTION_BOOL)
        return aorta_hwq_metadata_bool(result, section, option->key, *(const bool *)value);
    if (option->type == AORTA_OPTION_DOUBLE)
        return aorta_hwq_metadata_number(result, section, option->key, *(const double *)value);
    if (option->type == AORTA_OPTION_INT)
        return aorta_hwq_metadata_int(result, section, option->key, *(const int64_t *)value);
    if (option->type == AORTA_OPTION_STRING)
        return aorta_hwq_metadata_string(result, section, option->key, *(const char *const *)value);
    if (option->type != AORTA_OPTION_CHOICE)
        return AORTA_ERROR(AORTA_INTERNAL, "option %s has a type that results cannot store", option->key);
    for (const struct aorta_choice *choice = option->choices; choice->name; choice++)
        if (choice->value == *(const int *)value)
            return aorta_hwq_metadata_string(result, section, option->key, choice->name);
    return aorta_hwq_metadata_int(result, section, option->key, *(const int *)value);
}

aorta_status aorta_hwq_metadata_fill(const struct aorta_hwq_run *run, const struct aorta_hwq *hwq,
                                     struct aorta_hwq_result *result) {
    const struct aorta_hwq_workload *w = run->workload;
    AORTA_TRY(add_config(run, hwq, result));
    AORTA_TRY(add_device(hwq, result));
    AORTA_TRY(add_environment(run, hwq, result));
    for (size_t i = 0; i < w->option_count; i++) AORTA_TRY(add_option(result, &w->options[i], run->options));
    for (int s = 0; s < hwq->stream_count; s++) {
        const char *role = aorta_hwq_role(hwq, w, s);
        char key[32];
        if (!role) break;
        snprintf(key, sizeof key, "stream_%d", s);
        AORTA_TRY(aorta_hwq_metadata_string(result, "stream_roles", key, role));
    }
    return NULL;
}
