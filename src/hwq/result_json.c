/* A result as JSON: the original toolkit's keys, and ours beside them. */
#include "base/files.h"
#include "hwq/limit.h"

#include <math.h>
#include <string.h>

static void write_latency(const struct aorta_summary *latency, struct aorta_json *json) {
    aorta_json_key_object(json, "latency_ms");
    aorta_json_key_double(json, "mean", latency->mean);
    aorta_json_key_double(json, "p50", latency->p50);
    aorta_json_key_double(json, "p95", latency->p95);
    aorta_json_key_double(json, "p99", latency->p99);
    aorta_json_key_double(json, "min", latency->min);
    aorta_json_key_double(json, "max", latency->max);
    aorta_json_key_double(json, "std", latency->std);
    aorta_json_object_end(json);
}

static void write_times(const char *key, const double *times, size_t count, struct aorta_json *json) {
    aorta_json_key_array(json, key);
    for (size_t i = 0; i < count; i++) aorta_json_double(json, times[i]);
    aorta_json_array_end(json);
}

static void write_switches(const char *key, const struct aorta_hwq_switches *found, const char *none,
                           struct aorta_json *json) {
    aorta_json_key_object(json, key);
    aorta_json_key_double(json, "gap_ms", found->gap_ms);
    aorta_json_key_double(json, "overhead_ms", found->overhead_ms);
    aorta_json_key_int(json, "samples", (int64_t)found->samples);
    if (!found->samples) aorta_json_key_string(json, "reason", none);
    aorta_json_object_end(json);
}

static void write_pair(const char *key, const struct aorta_hwq_pair *pair, struct aorta_json *json) {
    aorta_json_key_object(json, key);
    aorta_json_key_int(json, "from_stream", pair->from);
    aorta_json_key_int(json, "to_stream", pair->to);
    aorta_json_key_double(json, "gap_ms", pair->gap_ms);
    aorta_json_object_end(json);
}

static void write_host_gaps(const struct aorta_hwq_host_gaps *host, struct aorta_json *json) {
    const bool any = host->inter_samples || host->intra_samples;
    aorta_json_key_object(json, "host_gaps");
    aorta_json_key_double(json, "inter_stream_gap_ms", host->inter_ms);
    aorta_json_key_double(json, "intra_stream_gap_ms", host->intra_ms);
    aorta_json_key_int(json, "inter_stream_samples", (int64_t)host->inter_samples);
    aorta_json_key_int(json, "intra_stream_samples", (int64_t)host->intra_samples);
    aorta_json_key_string(json, "reason",
                          any ? "the host launched the second kernel, or returned from a call, after the first had "
                                "ended: left out of the gaps above"
                              : NULL);
    aorta_json_object_end(json);
}

static void write_switch(const struct aorta_hwq_switch *found, struct aorta_json *json) {
    const struct aorta_hwq_switches *switches = aorta_hwq_probe_switches(&found->probe);
    aorta_json_key_object(json, "switch_latency");
    aorta_json_key_double(json, "inter_stream_gap_ms", found->inter_gap_ms);
    aorta_json_key_double(json, "intra_stream_gap_ms", found->intra_gap_ms);
    aorta_json_key_double(json, "estimated_switch_overhead_ms", found->overhead_ms);
    aorta_json_key_int(json, "inter_stream_samples", (int64_t)found->inter_samples);
    aorta_json_key_int(json, "intra_stream_samples", (int64_t)found->intra_samples);
    aorta_json_key_string(json, "inter_source", found->inter_source);
    aorta_json_key_string(json, "intra_source", found->intra_source);
    aorta_json_key_double(json, "probe_inter_stream_gap_ms", switches->gap_ms);
    aorta_json_key_double(json, "probe_intra_stream_gap_ms", found->probe.intra_ms);
    aorta_json_key_int(json, "probe_samples", (int64_t)switches->samples);
    if (switches->samples) {
        write_switches("probe_same_priority", &found->probe.same_priority,
                       "no two streams that follow each other have the same priority", json);
        write_switches("probe_across_priorities", &found->probe.across_priorities, "all streams have the same priority",
                       json);
        write_pair("probe_quickest_pair", &found->probe.quickest, json);
        write_pair("probe_slowest_pair", &found->probe.slowest, json);
    }
    write_host_gaps(&found->host, json);
    aorta_json_key_string(json, "clock", found->clock);
    aorta_json_key_string(json, "reason", found->reason);
    aorta_json_object_end(json);
}

static void write_memory(const struct aorta_hwq_result *result, struct aorta_json *json) {
    const struct aorta_hwq_memory *memory = &result->memory;
    const double gib = 1 << 30;
    const bool known = !result->memory_reason;
    aorta_json_key_object(json, "memory");
    aorta_json_key_double(json, "peak_allocated_gb", known ? (double)memory->peak / gib : NAN);
    aorta_json_key_double(json, "peak_reserved_gb", known ? (double)memory->peak_reserved / gib : NAN);
    aorta_json_key_double(json, "final_allocated_gb", known ? (double)memory->allocated / gib : NAN);
    aorta_json_key_double(json, "final_reserved_gb", known ? (double)memory->reserved / gib : NAN);
    aorta_json_key_string(json, "reason", result->memory_reason);
    aorta_json_object_end(json);
}

static void write_figures(const struct aorta_hwq_result *result, struct aorta_json *json) {
    aorta_json_key_object(json, "figures");
    for (size_t i = 0; i < result->figure_count; i++) {
        const struct aorta_hwq_figure *figure = &result->figures[i];
        aorta_json_key_object(json, figure->name);
        aorta_json_key_double(json, "value", figure->value);
        aorta_json_key_string(json, "unit", figure->unit);
        if (figure->reason) aorta_json_key_string(json, "reason", figure->reason);
        aorta_json_object_end(json);
    }
    aorta_json_object_end(json);
}

/* Entries of one section are written together. */
static bool is_first(const struct aorta_hwq_result *result, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (!strcmp(result->facts[i].section, result->facts[index].section)) return false;
    return true;
}

/* The value is JSON text already. */
static void write_raw(struct aorta_json *json, const char *key, const char *text) {
    aorta_json_key(json, key);
    aorta_text_puts(json->out, text);
    json->after_key = false;
    json->need_comma = true;
}

static void write_metadata(const struct aorta_hwq_result *result, struct aorta_json *json) {
    aorta_json_key_object(json, "metadata");
    for (size_t i = 0; i < result->fact_count; i++) {
        if (!is_first(result, i)) continue;
        const char *section = result->facts[i].section;
        aorta_json_key_object(json, section);
        for (size_t j = i; j < result->fact_count; j++)
            if (!strcmp(result->facts[j].section, section))
                write_raw(json, result->facts[j].key, result->facts[j].json);
        aorta_json_object_end(json);
    }
    aorta_json_object_end(json);
}

void aorta_hwq_result_json(const struct aorta_hwq_result *result, struct aorta_json *json) {
    aorta_json_object(json);
    aorta_json_key_int(json, "schema_version", AORTA_HWQ_SCHEMA_VERSION);
    aorta_json_key_string(json, "workload_name", result->workload_name);
    aorta_json_key_int(json, "stream_count", result->stream_count);
    aorta_json_key_double(json, "throughput", result->throughput);
    aorta_json_key_string(json, "throughput_unit", result->throughput_unit);
    write_latency(&result->latency_ms, json);
    aorta_json_key_double(json, "total_time_ms", result->total_time_ms);
    write_times("iteration_times_ms", result->iteration_times_ms, result->iteration_count, json);
    if (result->per_stream_times_ms)
        write_times("per_stream_times_ms", result->per_stream_times_ms, (size_t)result->stream_count, json);
    else
        aorta_json_key_null(json, "per_stream_times_ms");
    if (result->host_launch_ms) write_times("host_launch_ms", result->host_launch_ms, result->iteration_count, json);
    write_switch(&result->switch_latency, json);
    aorta_json_key(json, "limit");
    aorta_hwq_limit_json(&result->limit, result, json);
    aorta_clocks_json(&result->clocks, json);
    write_memory(result, json);
    write_figures(result, json);
    aorta_json_key_array(json, "findings");
    for (size_t i = 0; i < result->finding_count; i++) aorta_json_string(json, result->findings[i]);
    aorta_json_array_end(json);
    aorta_json_key_bool(json, "simulated", result->simulated);
    aorta_json_key_string(json, "verified", result->verified);
    write_metadata(result, json);
    aorta_json_key_string(json, "timestamp", result->timestamp);
    aorta_json_object_end(json);
}

aorta_status aorta_hwq_result_write(const struct aorta_hwq_result *result, const char *path) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 2);
    aorta_hwq_result_json(result, &json);
    aorta_text_puts(&text, "\n");
    aorta_status status = aorta_text_check(&text);
    if (!status) status = aorta_file_replace(path, text.data, text.length);
    aorta_text_free(&text);
    return status;
}
