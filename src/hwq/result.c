/* A result: filling it, its JSON with the original toolkit's keys and ours, and its tables. */
#include "config/config.h"
#include "hwq/limit.h"
#include "hwq/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void aorta_hwq_result_free(struct aorta_hwq_result *result) {
    aorta_arena_free(&result->arena);
    aorta_environment_free(&result->metadata);
    aorta_found_free(&result->found);
    *result = (struct aorta_hwq_result){0};
}

void aorta_hwq_result_figure(struct aorta_hwq_result *result, const char *name, const char *unit, double value,
                             const char *reason) {
    struct aorta_arena *arena = &result->arena;
    const struct aorta_hwq_figure figure = {.name = aorta_arena_strdup(arena, name),
                                            .unit = aorta_arena_strdup(arena, unit),
                                            .group = result->figure_group,
                                            .value = value,
                                            .reason =
                                                isnan(value) && reason ? aorta_arena_strdup(arena, reason) : NULL};
    aorta_arena_append(arena, &result->figures, &result->figure_capacity, &result->figure_count, &figure,
                       sizeof figure);
}

int64_t aorta_hwq_result_iterations(const struct aorta_hwq_result *result, double ms, int64_t most) {
    const double fit = ms / (result->pace_ms > 0.0 ? result->pace_ms : result->latency_ms.p50);
    if (!(fit < (double)most)) return most;
    return fit > 3.0 ? (int64_t)fit : 3;
}

const struct aorta_hwq_figure *aorta_hwq_result_find(const struct aorta_hwq_result *result, const char *name) {
    for (size_t i = 0; i < result->figure_count; i++)
        if (!strcmp(result->figures[i].name, name)) return &result->figures[i];
    return NULL;
}

/* Frees the text. */
static void add_text(struct aorta_hwq_result *result, const char *section, const char *key, struct aorta_text *json) {
    if (json->failed)
        result->metadata.arena.failed = true;
    else
        aorta_environment_add_json(&result->metadata, section, key, json->data);
    aorta_text_free(json);
}

void aorta_hwq_metadata_string(struct aorta_hwq_result *result, const char *section, const char *key,
                               const char *value) {
    struct aorta_text text = {0};
    aorta_json_string(&(struct aorta_json){.out = &text}, value);
    add_text(result, section, key, &text);
}

void aorta_hwq_metadata_number(struct aorta_hwq_result *result, const char *section, const char *key, double value) {
    struct aorta_text text = {0};
    aorta_json_double(&(struct aorta_json){.out = &text}, value);
    add_text(result, section, key, &text);
}

static void metadata_int(struct aorta_hwq_result *result, const char *section, const char *key, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    aorta_environment_add_json(&result->metadata, section, key, text);
}

static void metadata_bool(struct aorta_hwq_result *result, const char *section, const char *key, bool value) {
    aorta_environment_add_json(&result->metadata, section, key, value ? "true" : "false");
}

/* ---- rows ---- */

#define AT(member) offsetof(struct aorta_summary, member)
static const struct aorta_row latency_rows[] = {
    {"mean", AORTA_ROW_NUMBER, AT(mean), "ms", .heading = "mean ms", .help = "of the iterations"},
    {"p50", AORTA_ROW_NUMBER, AT(p50), "ms", .heading = "p50 ms", .help = "the median"},
    {"p95", AORTA_ROW_NUMBER, AT(p95), "ms", .heading = "p95 ms", .help = "95% take no longer"},
    {"p99", AORTA_ROW_NUMBER, AT(p99), "ms", .heading = "p99 ms", .help = "99% take no longer"},
    {"min", AORTA_ROW_NUMBER, AT(min), "ms", .heading = "min ms", .help = "the shortest"},
    {"max", AORTA_ROW_NUMBER, AT(max), "ms", .heading = "max ms", .help = "the longest"},
    {"std", AORTA_ROW_NUMBER, AT(std), "ms", .heading = "std ms", .help = "standard deviation"},
    {0}};

#undef AT
#define AT(member) offsetof(struct aorta_hwq_switches, member)
static const struct aorta_row switches_rows[] = {
    {"gap_ms", AORTA_ROW_NUMBER, AT(gap_ms), "ms", .help = "the median"},
    {"overhead_ms", AORTA_ROW_NUMBER, AT(overhead_ms), "ms", .help = "that less the gap on one stream"},
    {"samples", AORTA_ROW_INT, AT(samples), .help = "gaps"},
    {0}};

#undef AT
#define AT(member) offsetof(struct aorta_hwq_pair, member)
static const struct aorta_row pair_rows[] = {{"from_stream", AORTA_ROW_INT32, AT(from), .help = "of the first kernel"},
                                             {"to_stream", AORTA_ROW_INT32, AT(to), .help = "of the second"},
                                             {"gap_ms", AORTA_ROW_NUMBER, AT(gap_ms), "ms", .help = "the median"},
                                             {0}};

#undef AT
#define AT(member) offsetof(struct aorta_hwq_host_gaps, member)
static const struct aorta_row host_rows[] = {
    {"inter_stream_gap_ms", AORTA_ROW_NUMBER, AT(inter_ms), "ms", .help = "between streams"},
    {"intra_stream_gap_ms", AORTA_ROW_NUMBER, AT(intra_ms), "ms", .help = "on one stream"},
    {"inter_stream_samples", AORTA_ROW_INT, AT(inter_samples), .help = "gaps"},
    {"intra_stream_samples", AORTA_ROW_INT, AT(intra_samples), .help = "gaps"},
    {0}};

#undef AT
#define AT(member) offsetof(struct aorta_hwq_switch, member)
static const struct aorta_row switch_rows[] = {
    {"inter_stream_gap_ms", AORTA_ROW_NUMBER, AT(inter_gap_ms), "ms", .help = "between streams"},
    {"intra_stream_gap_ms", AORTA_ROW_NUMBER, AT(intra_gap_ms), "ms", .help = "on one stream"},
    {"estimated_switch_overhead_ms", AORTA_ROW_NUMBER, AT(overhead_ms), "ms", .help = "of another stream"},
    {"inter_stream_samples", AORTA_ROW_INT, AT(inter_samples), .help = "gaps"},
    {"intra_stream_samples", AORTA_ROW_INT, AT(intra_samples), .help = "gaps"},
    {"inter_source", AORTA_ROW_TEXT, AT(inter_source), .help = "`workload` or `probe`"},
    {"intra_source", AORTA_ROW_TEXT, AT(intra_source), .help = "`workload` or `probe`"},
    {"probe_inter_stream_gap_ms", AORTA_ROW_NUMBER, AT(probe.chosen.gap_ms), "ms", .help = "of the probe's kernels"},
    {"probe_intra_stream_gap_ms", AORTA_ROW_NUMBER, AT(probe.intra_ms), "ms", .help = "of the probe's kernels"},
    {"probe_samples", AORTA_ROW_INT, AT(probe.chosen.samples), .help = "gaps"},
    {0}};

#undef AT
#define AT(member) offsetof(struct aorta_hwq_memory, member)
static const struct aorta_row memory_rows[] = {
    {"peak_allocated_gb", AORTA_ROW_NUMBER, AT(peak), "GiB", .help = "the most that was handed out"},
    {"peak_reserved_gb", AORTA_ROW_NUMBER, AT(peak_reserved), "GiB", .help = "the most that was taken"},
    {"final_allocated_gb", AORTA_ROW_NUMBER, AT(allocated), "GiB", .help = "handed out at the end"},
    {"final_reserved_gb", AORTA_ROW_NUMBER, AT(reserved), "GiB", .help = "taken at the end"},
    {"reason", AORTA_ROW_TEXT, AT(reason), .help = "why they are null"},
    {0}};

#undef AT
#define AT(member) offsetof(struct aorta_hwq_figure, member)
static const struct aorta_row figure_rows[] = {
    {"value", AORTA_ROW_NUMBER, AT(value), .help = "in its unit"},
    {"unit", AORTA_ROW_TEXT, AT(unit), .help = "of the value"},
    {"reason", AORTA_ROW_TEXT, AT(reason), .help = "why it is null", .omit = true},
    {0}};

#undef AT
#define AT(member) offsetof(struct aorta_hwq_result, member)
static const struct aorta_row head_rows[] = {
    {"schema_version", AORTA_ROW_INT, AT(schema_version), .help = "1"},
    {"workload_name", AORTA_ROW_TEXT, AT(workload_name), .heading = "workload", .help = "of `aorta hwq list`"},
    {"stream_count", AORTA_ROW_INT32, AT(stream_count), .heading = "streams", .help = "streams"},
    {"throughput", AORTA_ROW_NUMBER, AT(throughput), .heading = "throughput", .help = "from the mean iteration time"},
    {"throughput_unit", AORTA_ROW_TEXT, AT(throughput_unit), .heading = "unit", .help = "its unit"},
    {0}};

/* ---- tables ---- */

static const struct aorta_row result_rows[] = {
    {NULL, AORTA_ROW_PART, 0, .part = head_rows},
    {"latency_ms", AORTA_ROW_PART, AT(latency_ms), .part = latency_rows},
    {"total_time_ms", AORTA_ROW_NUMBER, AT(total_time_ms), "ms", .help = "of all iterations"},
    {"switch_latency", AORTA_ROW_PART, AT(switch_latency), .part = switch_rows},
    {"limit", AORTA_ROW_TEXT, AT(limit.key), .help = "what limits an iteration"},
    {"memory", AORTA_ROW_PART, AT(memory), .part = memory_rows},
    {"simulated", AORTA_ROW_BOOL, AT(simulated), .help = "collectives were copies on one rank"},
    {"verified", AORTA_ROW_TEXT, AT(verified), .help = "`passed` or `failed`; null without `--verify`"},
    {"timestamp", AORTA_ROW_TEXT, AT(timestamp), .help = "local time"},
    {0}};

struct figure_values {
    const char *workload_name;
    int stream_count;
    struct aorta_hwq_figure figure;
};

#undef AT
#define AT(member) offsetof(struct figure_values, member)
static const struct aorta_row named_figure_rows[] = {
    {"workload_name", AORTA_ROW_TEXT, AT(workload_name), .help = "of `aorta hwq list`"},
    {"stream_count", AORTA_ROW_INT32, AT(stream_count), .help = "streams"},
    {"figure", AORTA_ROW_TEXT, AT(figure.name), .help = "its name"},
    {NULL, AORTA_ROW_PART, AT(figure), .part = figure_rows},
    {0}};

static enum aorta_line fill_result(const void *of, size_t index, void *values) {
    if (index >= 1) return AORTA_LINE_END;
    *(struct aorta_hwq_result *)values = *(const struct aorta_hwq_result *)of;
    return AORTA_LINE;
}

static enum aorta_line fill_figure(const void *of, size_t index, void *values) {
    const struct aorta_hwq_result *result = of;
    if (index >= result->figure_count) return AORTA_LINE_END;
    *(struct figure_values *)values =
        (struct figure_values){result->workload_name, result->stream_count, result->figures[index]};
    return AORTA_LINE;
}

static AORTA_TABLE(results, "results", "Results", AORTA_LINES(result_rows, struct aorta_hwq_result, fill_result));
static AORTA_TABLE(figures, "figures", AORTA_LINES(named_figure_rows, struct figure_values, fill_figure));

AORTA_TABLES(aorta_hwq_result_tables, &results);

const struct aorta_result_table *const aorta_hwq_result_csv[2] = {&results, &figures};

void aorta_hwq_csv_add(struct aorta_hwq_csv *csv, const void *of) {
    for (int i = 0; i < 2; i++) {
        if (!csv->texts[i].length) aorta_table_csv_header(csv->tables[i], NULL, &csv->texts[i]);
        aorta_table_csv_lines(csv->tables[i], of, NULL, &csv->texts[i]);
    }
}

aorta_status aorta_hwq_csv_write(struct aorta_hwq_csv *csv, const char *folder) {
    aorta_status status = NULL;
    for (int i = 0; i < 2; i++) {
        const bool any = csv->texts[i].length || csv->texts[i].failed;
        if (folder && any && !status) status = aorta_csv_write(folder, csv->tables[i]->key, &csv->texts[i]);
        aorta_text_free(&csv->texts[i]);
    }
    return status;
}

/* ---- JSON ---- */

static void write_times(const char *key, const double *times, size_t count, struct aorta_json *json) {
    aorta_json_key_array(json, key);
    for (size_t i = 0; i < count; i++) aorta_json_double(json, times[i]);
    aorta_json_array_end(json);
}

static void write_switches(const char *key, const struct aorta_hwq_switches *found, const char *none,
                           struct aorta_json *json) {
    aorta_json_key_object(json, key);
    aorta_rows_json(switches_rows, found, 0, json);
    if (!found->samples) aorta_json_key_string(json, "reason", none);
    aorta_json_object_end(json);
}

static void write_host_gaps(const struct aorta_hwq_host_gaps *host, struct aorta_json *json) {
    const bool any = host->inter_samples || host->intra_samples;
    aorta_json_key_object(json, "host_gaps");
    aorta_rows_json(host_rows, host, 0, json);
    aorta_json_key_string(json, "reason",
                          any ? "the host launched the second kernel, or returned from a call, after the first had "
                                "ended: not part of the gaps above"
                              : NULL);
    aorta_json_object_end(json);
}

static void write_switch(const struct aorta_hwq_result *result, struct aorta_json *json) {
    const struct aorta_hwq_switch *found = &result->switch_latency;
    aorta_json_key_object(json, "switch_latency");
    aorta_rows_json(switch_rows, found, 0, json);
    if (found->probe.chosen.samples) {
        write_switches("probe_same_priority", &found->probe.same_priority,
                       "no two streams that follow each other have the same priority", json);
        write_switches("probe_across_priorities", &found->probe.across_priorities, "all streams have the same priority",
                       json);
        aorta_rows_object("probe_quickest_pair", pair_rows, &found->probe.quickest, 0, json);
        aorta_rows_object("probe_slowest_pair", pair_rows, &found->probe.slowest, 0, json);
    }
    write_host_gaps(&found->host, json);
    aorta_json_key_string(json, "clock", found->clock);
    aorta_json_key_string(json, "reason", found->reason);
    aorta_json_object_end(json);
}

static void write_figures(const struct aorta_hwq_result *result, struct aorta_json *json) {
    aorta_json_key_object(json, "figures");
    for (size_t i = 0; i < result->figure_count; i++)
        aorta_rows_object(result->figures[i].name, figure_rows, &result->figures[i], 0, json);
    aorta_json_object_end(json);
}

void aorta_hwq_result_json(const struct aorta_hwq_result *result, struct aorta_json *json) {
    aorta_json_object(json);
    aorta_rows_json(head_rows, result, 0, json);
    aorta_rows_object("latency_ms", latency_rows, &result->latency_ms, 0, json);
    aorta_json_key_double(json, "total_time_ms", result->total_time_ms);
    write_times("iteration_times_ms", result->iteration_times_ms, result->iteration_count, json);
    if (result->per_stream_times_ms)
        write_times("per_stream_times_ms", result->per_stream_times_ms, (size_t)result->stream_count, json);
    else
        aorta_json_key_null(json, "per_stream_times_ms");
    if (result->host_launch_ms) write_times("host_launch_ms", result->host_launch_ms, result->iteration_count, json);
    write_switch(result, json);
    aorta_json_key(json, "limit");
    aorta_hwq_limit_json(result, json);
    aorta_clocks_json(&result->clocks, json);
    aorta_json_key_double(json, "machine_pressure", result->pressure);
    aorta_rows_object("memory", memory_rows, &result->memory, 0, json);
    write_figures(result, json);
    aorta_hwq_result_findings_json(result, json);
    aorta_json_key_bool(json, "simulated", result->simulated);
    aorta_json_key_string(json, "verified", result->verified);
    aorta_json_key_object(json, "metadata");
    aorta_environment_json(&result->metadata, json);
    aorta_json_object_end(json);
    aorta_json_key_string(json, "timestamp", result->timestamp);
    aorta_json_object_end(json);
}

void aorta_hwq_result_schema(struct aorta_json *json) {
    aorta_rows_schema(head_rows + 1, json);
    aorta_rows_schema_object("latency_ms", latency_rows, json);
    aorta_rows_schema_object("switch_latency", switch_rows, json);
    aorta_rows_schema_object("limit", aorta_hwq_limit_rows, json);
    aorta_rows_schema_object("memory", memory_rows, json);
    aorta_found_schema(json);
}

/* ---- metadata: settings, device, environment, the workload's own options ---- */

static void add_config(const struct aorta_hwq_run *run, const struct aorta_hwq *hwq, struct aorta_hwq_result *result) {
    const struct aorta_device_info *info = aorta_device_get_info(hwq->device);
    char device[64];
    snprintf(device, sizeof device, "%s:%d", aorta_device_kind_name(info->kind), info->index);
    metadata_int(result, "config", "stream_count", hwq->stream_count);
    metadata_int(result, "config", "warmup_iterations", run->warmup);
    metadata_int(result, "config", "measurement_iterations", run->iterations);
    aorta_hwq_metadata_string(result, "config", "sync_mode", aorta_hwq_sync_name(run->sync));
    aorta_hwq_metadata_string(result, "config", "device", device);
    metadata_bool(result, "config", "graph", run->graph);
    metadata_bool(result, "config", "gate", run->gate);
    metadata_int(result, "config", "seed", run->seed);
    metadata_int(result, "config", "world_size", run->ranks.world_size);
    if (run->world) aorta_hwq_metadata_string(result, "config", "backend", aorta_comm_backend(run->world));
}

static void add_device(const struct aorta_hwq *hwq, struct aorta_hwq_result *result) {
    const struct aorta_device_info *info = aorta_device_get_info(hwq->device);
    aorta_hwq_metadata_string(result, "device_info", "name", info->name);
    aorta_hwq_metadata_string(result, "device_info", "isa", info->isa);
    metadata_int(result, "device_info", "device_index", info->index);
    aorta_hwq_metadata_number(result, "device_info", "total_memory_gb", (double)info->memory_bytes / (1 << 30));
    metadata_int(result, "device_info", "multi_processor_count", info->multiprocessors);
    metadata_bool(result, "device_info", "is_rocm", info->kind == AORTA_DEVICE_HIP);
    metadata_int(result, "device_info", "timestamp_tick_ns", info->timestamp_tick);
    if (!aorta_device_is_gpu(hwq->device)) return;
    struct aorta_gpu_inventory inventory;
    aorta_status none = aorta_gpu_inventory_take(info->kind, &inventory);
    /* The device works without a known driver version. */
    aorta_hwq_metadata_string(result, "device_info", "driver_version", none ? NULL : inventory.driver_version);
    if (!none) aorta_gpu_inventory_free(&inventory);
    aorta_status_free(none);
}

static aorta_status add_environment(const struct aorta_hwq_run *run, const struct aorta_hwq *hwq,
                                    struct aorta_hwq_result *result) {
    struct aorta_environment environment;
    char version[256];
    AORTA_TRY(aorta_environment_take(hwq->device, &environment));
    if (run->world)
        aorta_environment_add(&environment, "software", "collectives",
                              aorta_comm_version(run->world, version, sizeof version));
    aorta_status status = aorta_arena_check(&environment.arena, "the environment of a result");
    for (size_t i = 0; !status && i < environment.count; i++) {
        const struct aorta_environment_item *item = &environment.items[i];
        if (strcmp(item->section, "device") != 0) /* device_info has it */
            aorta_hwq_metadata_string(result, item->section, item->key, item->value);
    }
    aorta_environment_free(&environment);
    return status;
}

static void add_option(struct aorta_hwq_result *result, const struct aorta_option *option, const char *values) {
    struct aorta_text text = {0};
    aorta_option_json(option, values + option->offset, &(struct aorta_json){.out = &text});
    add_text(result, "workload_config", option->key, &text);
}

aorta_status aorta_hwq_metadata_fill(const struct aorta_hwq_run *run, const struct aorta_hwq *hwq,
                                     struct aorta_hwq_result *result) {
    const struct aorta_hwq_workload *w = run->workload;
    add_config(run, hwq, result);
    add_device(hwq, result);
    AORTA_TRY(add_environment(run, hwq, result));
    for (size_t i = 0; i < w->option_count; i++) add_option(result, &w->options[i], run->options);
    for (int s = 0; s < hwq->stream_count; s++) {
        const char *role = aorta_hwq_role(hwq, s);
        char key[32];
        if (!role) break;
        snprintf(key, sizeof key, "stream_%d", s);
        aorta_hwq_metadata_string(result, "stream_roles", key, role);
    }
    result->arena.failed |= result->found.arena.failed || result->metadata.arena.failed;
    return aorta_arena_check(&result->arena, "a result");
}
