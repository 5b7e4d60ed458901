/* One iteration as one JSON line (layout: docs/metrics-format.md). */
#include "base/json.h"
#include "formats/metrics.h"
#include "measure/clocks.h"

#include <math.h>

enum { REASON_LIMIT = 16 };

/* Names of what is null and why, written after the object's other keys. */
struct reasons {
    struct {
        const char *key, *reason;
    } rows[REASON_LIMIT];
    int count;
};

static void number_or_reason(struct aorta_json *json, struct reasons *reasons, const char *key, double value,
                             const char *reason) {
    aorta_json_key_double(json, key, value);
    if (isfinite(value) || reasons->count == REASON_LIMIT) return;
    reasons->rows[reasons->count].key = key;
    reasons->rows[reasons->count++].reason = reason;
}

static void write_reasons(struct aorta_json *json, const struct reasons *reasons) {
    if (!reasons->count) return;
    aorta_json_key_object(json, "null_reasons");
    for (int i = 0; i < reasons->count; i++) aorta_json_key_string(json, reasons->rows[i].key, reasons->rows[i].reason);
    aorta_json_object_end(json);
}

/* Nanoseconds as milliseconds with up to six decimals, which is exact. By integers: a line has thousands of times, and
 * printing them as doubles would take most of the time that a line takes. */
static void key_ms(struct aorta_json *json, const char *key, int64_t ns) {
    char digits[32];
    char *end = digits + sizeof digits, *at = end;
    uint64_t left = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
    for (int decimals = 0; decimals < 6; decimals++, left /= 10) {
        *--at = (char)('0' + left % 10);
        if (*at == '0' && at + 1 == end && decimals < 5) end = at; /* a trailing zero */
    }
    *--at = '.';
    do {
        *--at = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (ns < 0) *--at = '-';
    aorta_json_key(json, key);
    aorta_text_append(json->out, at, (size_t)(end - at));
    json->after_key = false;
    json->need_comma = true;
}

/* Bytes per nanosecond are GB/s (10^9 bytes, as nccl-tests print). */
static void write_collective(struct aorta_json *json, const struct aorta_range *range) {
    const struct aorta_range_info *info = &range->info;
    aorta_json_key_string(json, "collective", aorta_collective_name(info->collective));
    aorta_json_key_int(json, "group_size", info->group_size);
    aorta_json_key_int(json, "group", info->group);
    if (info->group_stride > 1) aorta_json_key_int(json, "group_stride", info->group_stride);
    aorta_json_key_int(json, "sequence", range->sequence);
    int64_t length = range->end_ns - range->start_ns;
    double algbw = length > 0 && info->bytes > 0 ? (double)info->bytes / (double)length : NAN;
    if (isfinite(algbw)) {
        aorta_json_key_fixed(json, "algbw_gbps", algbw, 6);
        aorta_json_key_fixed(json, "busbw_gbps",
                             algbw * aorta_collective_bus_factor(info->collective, info->group_size), 6);
    }
    if (info->simulated) aorta_json_key_bool(json, "simulated", true);
}

static const char *range_kind_name(enum aorta_range_kind kind) {
    static const char *const names[] = {"compute", "collective", "copy"};
    return names[kind];
}

static void write_range(struct aorta_json *json, const struct aorta_range *range, int64_t origin_ns) {
    const struct aorta_range_info *info = &range->info;
    aorta_json_object(json);
    aorta_json_key_string(json, "stream", aorta_role_name(info->role));
    aorta_json_key_string(json, "tag", info->tag);
    key_ms(json, "start_ms", range->start_ns - origin_ns);
    key_ms(json, "end_ms", range->end_ns - origin_ns);
    key_ms(json, "duration_ms", range->end_ns - range->start_ns);
    aorta_json_key_object(json, "metadata");
    aorta_json_key_string(json, "function", info->function);
    aorta_json_key_string(json, "kind", range_kind_name(info->kind));
    aorta_json_key_int(json, "queue", range->stream);
    if (range->enqueue_ns != INT64_MIN) key_ms(json, "enqueue_ms", range->enqueue_ns - origin_ns);
    if (info->within) aorta_json_key_string(json, "range", info->within);
    if (info->layer >= 0) aorta_json_key_int(json, "layer", info->layer);
    if (info->bytes > 0) aorta_json_key_int(json, "bytes", info->bytes);
    if (info->flops > 0) {
        aorta_json_key_double(json, "flops", info->flops);
        if (info->attention_flops > 0) aorta_json_key_double(json, "attention_flops", info->attention_flops);
        if (info->attention_bytes > 0) aorta_json_key_int(json, "attention_bytes", info->attention_bytes);
        if (info->dtype < AORTA_DTYPE_COUNT) aorta_json_key_string(json, "dtype", aorta_dtype_name(info->dtype));
    }
    if (info->kind == AORTA_RANGE_COLLECTIVE) write_collective(json, range);
    aorta_json_object_end(json);
    aorta_json_object_end(json);
}

static void write_marker(struct aorta_json *json, enum aorta_role role, const char *tag, int64_t after_ns) {
    aorta_json_object(json);
    aorta_json_key_string(json, "stream", aorta_role_name(role));
    aorta_json_key_string(json, "tag", tag);
    key_ms(json, "time_ms", after_ns);
    aorta_json_key_object(json, "metadata");
    aorta_json_object_end(json);
    aorta_json_object_end(json);
}

/* Where the step and its parts begin, and its end. */
static void write_markers(struct aorta_json *json, const struct aorta_profile *profile) {
    aorta_json_key_array(json, "markers");
    if (profile->marker_count) write_marker(json, AORTA_ROLE_COMPUTE, "step", 0);
    for (size_t i = 0; i < profile->marker_count; i++)
        write_marker(json, profile->markers[i].role, profile->markers[i].tag,
                     profile->markers[i].time_ns - profile->start_ns);
    if (profile->marker_count) write_marker(json, AORTA_ROLE_COMPUTE, "end", profile->end_ns - profile->start_ns);
    aorta_json_array_end(json);
}

static void write_host(struct aorta_json *json, const struct aorta_profile *profile) {
    aorta_json_key_array(json, "host_ranges");
    for (size_t i = 0; i < profile->host_count; i++) {
        const struct aorta_host_range *range = &profile->host[i];
        aorta_json_object(json);
        aorta_json_key_string(json, "kind", aorta_host_kind_name(range->kind));
        key_ms(json, "start_ms", range->start_ns - profile->start_ns);
        key_ms(json, "end_ms", range->end_ns - profile->start_ns);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void write_segments(struct aorta_json *json, const struct aorta_overlap *overlap, int64_t origin_ns) {
    aorta_json_key_array(json, "active_segments");
    for (size_t i = 0; i < overlap->segment_count; i++) {
        const struct aorta_segment *segment = &overlap->segments[i];
        aorta_json_object(json);
        key_ms(json, "start_ms", segment->start_ns - origin_ns);
        key_ms(json, "end_ms", segment->end_ns - origin_ns);
        aorta_json_key_array(json, "active_streams");
        for (int role = 0; role < AORTA_ROLE_COUNT; role++)
            if (segment->roles >> role & 1) aorta_json_string(json, aorta_role_name((enum aorta_role)role));
        aorta_json_array_end(json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void write_collectives(struct aorta_json *json, const struct aorta_overlap *overlap) {
    aorta_json_key_object(json, "collectives");
    for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++) {
        const struct aorta_collective_overlap *one = &overlap->kind[kind];
        if (!one->count) continue;
        aorta_json_key_object(json, aorta_collective_name((enum aorta_collective)kind));
        aorta_json_key_int(json, "count", one->count);
        aorta_json_key_int(json, "bytes", one->bytes);
        key_ms(json, "comm_ms", one->comm_ns);
        key_ms(json, "overlap_ms", one->overlap_ns);
        key_ms(json, "exposed_ms", one->exposed_ns);
        key_ms(json, "blamed_ms", one->blamed_ns);
        aorta_json_object_end(json);
    }
    aorta_json_object_end(json);
}

static void write_stream_times(struct aorta_json *json, const struct aorta_overlap *overlap) {
    aorta_json_key_object(json, "per_stream_ms");
    for (int role = 0; role < AORTA_ROLE_COUNT; role++)
        key_ms(json, aorta_role_name((enum aorta_role)role), overlap->role_ns[role]);
    aorta_json_object_end(json);
    aorta_json_key_object(json, "utilization");
    for (int role = 0; role < AORTA_ROLE_COUNT; role++)
        aorta_json_key_fixed(json, aorta_role_name((enum aorta_role)role), overlap->utilization[role], 9);
    aorta_json_object_end(json);
}

static void write_overlap_ms(struct aorta_json *json, const struct aorta_overlap *overlap) {
    static const char *const keys[AORTA_COLLECTIVE_COUNT] = {
        "compute_allreduce",  "compute_reducescatter", "compute_allgather", "compute_broadcast",
        "compute_all_to_all", "compute_barrier",       "compute_collective"};
    aorta_json_key_object(json, "overlap_ms");
    key_ms(json, "compute_comm", overlap->overlap_ns);
    for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++)
        if (kind <= AORTA_ALL_GATHER || overlap->kind[kind].count)
            key_ms(json, keys[kind], overlap->kind[kind].overlap_ns);
    key_ms(json, "idle", overlap->idle_ns);
    aorta_json_object_end(json);
}

static void write_idle(struct aorta_json *json, const struct aorta_idle *idle) {
    aorta_json_key_object(json, "idle_causes_ms");
    for (int i = 0; i < AORTA_IDLE_CAUSE_COUNT; i++)
        key_ms(json, aorta_idle_cause_name((enum aorta_idle_cause)i), idle->ns[i]);
    aorta_json_object_end(json);
}

static void write_overlap(struct aorta_json *json, const struct aorta_overlap *overlap, int64_t origin_ns) {
    struct reasons reasons = {0};
    aorta_json_key_object(json, "overlap");
    write_stream_times(json, overlap);
    write_overlap_ms(json, overlap);
    number_or_reason(json, &reasons, "overlap_ratio", overlap->overlap_ratio, "no collective ran in this iteration");
    number_or_reason(json, &reasons, "compute_overlap_ratio", overlap->compute_overlap_ratio,
                     "no compute ran in this iteration");
    key_ms(json, "exposed_comm_ms", overlap->exposed_comm_ns);
    key_ms(json, "exposed_copy_ms", overlap->exposed_copy_ns);
    key_ms(json, "span_ms", overlap->span_ns);
    key_ms(json, "lead_ms", overlap->lead_ns);
    key_ms(json, "busy_ms", overlap->busy_ns);
    key_ms(json, "compute_ms", overlap->compute_ns);
    key_ms(json, "comm_ms", overlap->comm_ns);
    key_ms(json, "memcpy_ms", overlap->memcpy_ns);
    key_ms(json, "dependency_ms", overlap->dependency_ns);
    write_idle(json, &overlap->idle);
    write_collectives(json, overlap);
    write_segments(json, overlap, origin_ns);
    write_reasons(json, &reasons);
    aorta_json_object_end(json);
}

static void write_kernel_facts(struct aorta_json *json, const struct aorta_kernel_facts *facts) {
    aorta_json_key_int(json, "attributed", facts->attributed);
    aorta_json_key_int(json, "dropped", facts->dropped);
    key_ms(json, "clock_offset_ms", facts->clock_offset_ns);
    aorta_json_key_int(json, "launches", facts->launches);
    aorta_json_key_int(json, "stamps", facts->stamp_count);
    key_ms(json, "stamps_ms", facts->stamp_ns);
}

static void write_profile(struct aorta_json *json, const char *key, const struct aorta_profile *profile,
                          const struct aorta_overlap *overlap) {
    aorta_json_key_object(json, key);
    aorta_json_key_int(json, "index", profile->index);
    key_ms(json, "total_ms", profile->end_ns - profile->start_ns);
    aorta_json_key_string(json, "source", aorta_profile_source_name(profile->source));
    if (profile->source == AORTA_SOURCE_KERNEL) write_kernel_facts(json, &profile->kernels);
    aorta_json_key_int(json, "origin_ns", profile->start_ns);
    aorta_json_key_array(json, "ranges");
    for (size_t i = 0; i < profile->range_count; i++) write_range(json, &profile->ranges[i], profile->start_ns);
    aorta_json_array_end(json);
    write_markers(json, profile);
    write_host(json, profile);
    write_overlap(json, overlap, profile->start_ns);
    aorta_json_object_end(json);
}

static void write_memory(struct aorta_json *json, const struct aorta_memory_info *memory) {
    aorta_json_key_object(json, "memory");
    aorta_json_key_int(json, "allocated_bytes", (int64_t)memory->allocated);
    aorta_json_key_int(json, "peak_bytes", (int64_t)memory->peak);
    aorta_json_key_int(json, "reserved_bytes", (int64_t)memory->reserved);
    aorta_json_key_int(json, "pinned_bytes", (int64_t)memory->pinned);
    aorta_json_object_end(json);
}

static const char missing[] = "the driver does not report it of this device";

/* Why the clock is as low as it is; empty: for no reason that the driver knows. */
static void write_clock_limits(struct aorta_json *json, struct reasons *reasons, const char *key,
                               const struct aorta_device_metrics *values) {
    if (!values->clock_limits_known) {
        number_or_reason(json, reasons, key, NAN, missing);
        return;
    }
    aorta_json_key(json, key);
    aorta_clock_limits_json(values->clock_limits, json);
}

/* A device's readings as an object; null when there are none. */
static void write_reading(struct aorta_json *json, struct reasons *reasons, const char *key,
                          const struct aorta_device_reading *reading) {
    const struct aorta_device_metrics *values = &reading->values;
    const struct {
        const char *key;
        double value;
    } rows[] = {{"temperature_c", values->temperature_c},         {"power_w", values->power_w},
                {"sm_clock_mhz", values->sm_clock_mhz},           {"memory_clock_mhz", values->memory_clock_mhz},
                {"memory_used_bytes", values->memory_used_bytes}, {"utilization", values->utilization},
                {"sm_clock_max_mhz", values->sm_clock_max_mhz},   {"power_limit_w", values->power_limit_w}};
    struct reasons own = {0};
    if (!reading->wanted) return;
    if (!aorta_device_measured(values)) {
        number_or_reason(json, reasons, key, NAN, values->reason);
        return;
    }
    aorta_json_key_object(json, key);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        number_or_reason(json, &own, rows[i].key, rows[i].value, missing);
    write_clock_limits(json, &own, "clock_limited_by", values);
    aorta_json_key_double(json, "age_ms", reading->age_ms);
    aorta_json_key_double(json, "read_ms", reading->read_ms);
    write_reasons(json, &own);
    aorta_json_object_end(json);
}

/* As much of a reading as says what the clock was and why. */
static void write_clocks(struct aorta_json *json, struct reasons *reasons, const struct aorta_device_reading *reading) {
    const struct aorta_device_metrics *values = &reading->values;
    const struct {
        const char *key;
        double value;
    } rows[] = {{"sm_clock_mhz", values->sm_clock_mhz},
                {"sm_clock_max_mhz", values->sm_clock_max_mhz},
                {"power_w", values->power_w},
                {"power_limit_w", values->power_limit_w},
                {"power_capped_ms", values->power_capped_ms},
                {"thermal_capped_ms", values->thermal_capped_ms}};
    struct reasons own = {0};
    if (!reading->wanted) return;
    if (!aorta_device_measured(values)) {
        number_or_reason(json, reasons, "clocks", NAN, values->reason);
        return;
    }
    aorta_json_key_object(json, "clocks");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        number_or_reason(json, &own, rows[i].key, rows[i].value, missing);
    write_clock_limits(json, &own, "limited_by", values);
    aorta_json_key_int(json, "at_ns", reading->at_ns);
    write_reasons(json, &own);
    aorta_json_object_end(json);
}

static void write_peaks(struct aorta_json *json, const struct aorta_measured_peaks *peaks) {
    aorta_json_key_object(json, "measured_peaks");
    aorta_json_key_object(json, "tflops");
    for (int i = 0; i < AORTA_ARITHMETIC_COUNT; i++)
        if (!isnan(peaks->tflops[i]))
            aorta_json_key_double(json, aorta_arithmetic_name((enum aorta_arithmetic)i), peaks->tflops[i]);
    aorta_json_object_end(json);
    aorta_json_key_double(json, "gbytes_per_s", peaks->gbytes_per_s);
    aorta_json_key_double(json, "cost_ms", peaks->cost_ms);
    aorta_json_object_end(json);
}

static void write_device(struct aorta_json *json, const struct aorta_step_metrics *metrics) {
    const struct aorta_device_info *info = metrics->info;
    aorta_json_key_object(json, "device_info");
    aorta_json_key_string(json, "name", info->name);
    aorta_json_key_string(json, "isa", info->isa);
    aorta_json_key_int(json, "multiprocessors", info->multiprocessors);
    aorta_json_key_int(json, "memory_bytes", (int64_t)info->memory_bytes);
    if (metrics->peaks) write_peaks(json, metrics->peaks);
    aorta_json_object_end(json);
}

static void write_training(struct aorta_json *json, const struct aorta_step_metrics *metrics, struct reasons *reasons) {
    aorta_json_key_int(json, "schema_version", AORTA_METRICS_SCHEMA);
    aorta_json_key_int(json, "rank", metrics->rank);
    aorta_json_key_int(json, "world_size", metrics->world_size);
    aorta_json_key_int(json, "epoch", metrics->epoch);
    aorta_json_key_int(json, "step", metrics->step);
    aorta_json_key_int(json, "global_step", metrics->global_step);
    number_or_reason(json, reasons, "loss", metrics->loss, "the loss was not finite");
    number_or_reason(json, reasons, "grad_norm", metrics->grad_norm,
                     isinf(metrics->grad_norm) ? "the gradients overflowed" : "not computed or not finite");
    number_or_reason(json, reasons, "lr", metrics->lr, "the optimizer did not run");
    number_or_reason(json, reasons, "samples_per_s", metrics->samples_per_s, "the step was not timed");
    number_or_reason(json, reasons, "data_wait_ms", metrics->data_wait_ms, "waiting for data was not timed");
    number_or_reason(json, reasons, "step_ms", metrics->step_ms, "the step was not timed");
    if (!isnan(metrics->loss_scale)) aorta_json_key_double(json, "loss_scale", metrics->loss_scale);
    aorta_json_key_bool(json, "skipped", metrics->skipped);
    aorta_json_key_bool(json, "simulated", metrics->simulated);
    if (metrics->device) aorta_json_key_string(json, "device", metrics->device);
    if (metrics->info) write_device(json, metrics);
    if (metrics->memory) write_memory(json, metrics->memory);
    write_reading(json, reasons, "device_metrics", &metrics->device_metrics);
    write_reading(json, reasons, "rocm_smi_output", &metrics->rocm_smi_output);
    write_clocks(json, reasons, &metrics->clocks);
}

aorta_status aorta_metrics_format(const struct aorta_step_metrics *metrics, struct aorta_text *out) {
    struct aorta_json json;
    struct reasons reasons = {0};
    aorta_json_begin(&json, out, 0);
    aorta_json_object(&json);
    write_training(&json, metrics, &reasons);
    if (metrics->profile) {
        write_profile(&json, "profile", metrics->profile, metrics->overlap);
    } else {
        aorta_json_key_null(&json, "profile");
        reasons.rows[reasons.count].key = "profile"; /* at most nine reasons come before it */
        reasons.rows[reasons.count++].reason = metrics->unrecorded ? metrics->unrecorded : "recording was switched off";
    }
    if (metrics->kernel_profile)
        write_profile(&json, "kernel_profile", metrics->kernel_profile, metrics->kernel_overlap);
    write_reasons(&json, &reasons);
    aorta_json_object_end(&json);
    return aorta_text_check(out);
}
