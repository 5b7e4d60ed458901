/* One iteration as one JSON line, by the rows of metrics_rows.c. */
#include "formats/metrics_internal.h"
#include "measure/clocks.h"

#include <math.h>

/* ---- ranges ---- */

/* Bytes per nanosecond are GB/s (10^9 bytes, as nccl-tests print). */
static void put_collective(const struct aorta_range *range, struct aorta_line_range *line) {
    const struct aorta_range_info *info = &range->info;
    line->collective = aorta_collective_name(info->collective);
    line->group_size = info->group_size;
    line->group = info->group;
    if (info->group_stride > 1) line->group_stride = info->group_stride;
    line->sequence = range->sequence;
    line->simulated = info->simulated;
    if (range->end_ns <= range->start_ns || info->bytes <= 0) return;
    line->algbw_gbps = (double)info->bytes / (double)(range->end_ns - range->start_ns);
    line->busbw_gbps = line->algbw_gbps * aorta_collective_bus_factor(info->collective, info->group_size);
}

static int64_t if_positive(int64_t value) {
    return value > 0 ? value : AORTA_ROW_UNKNOWN;
}

static struct aorta_line_range line_of(const struct aorta_range *range) {
    const struct aorta_range_info *info = &range->info;
    const bool counted = info->flops > 0;
    struct aorta_line_range line = {
        .tag = info->tag,
        .function = info->function,
        .within = info->within,
        .operation = info->operation,
        .number = info->number ? info->number : AORTA_ROW_UNKNOWN,
        .dtype =
            (counted || info->dims[0][0]) && info->dtype < AORTA_DTYPE_COUNT ? aorta_dtype_name(info->dtype) : NULL,
        .role = (int)info->role,
        .kind = (int)info->kind,
        .start_ns = range->start_ns,
        .end_ns = range->end_ns,
        .duration_ns = range->end_ns - range->start_ns,
        .enqueue_ns = range->enqueue_ns,
        .queue = range->stream,
        .layer = info->layer >= 0 ? info->layer : AORTA_ROW_UNKNOWN,
        .bytes = if_positive(info->bytes),
        .attention_bytes = counted ? if_positive(info->attention_bytes) : AORTA_ROW_UNKNOWN,
        .group_size = AORTA_ROW_UNKNOWN,
        .group = AORTA_ROW_UNKNOWN,
        .group_stride = AORTA_ROW_UNKNOWN,
        .sequence = AORTA_ROW_UNKNOWN,
        .flops = counted ? info->flops : NAN,
        .attention_flops = counted && info->attention_flops > 0 ? info->attention_flops : NAN,
        .algbw_gbps = NAN,
        .busbw_gbps = NAN};
    if (info->kind == AORTA_RANGE_COLLECTIVE) put_collective(range, &line);
    return line;
}

static void write_ranges(struct aorta_json *json, const struct aorta_profile *profile) {
    aorta_json_key_array(json, "ranges");
    for (size_t i = 0; i < profile->range_count; i++) {
        char dims[AORTA_RANGE_DIMS_TEXT];
        struct aorta_line_range line = line_of(&profile->ranges[i]);
        if (*aorta_range_dims_text(&profile->ranges[i].info, dims)) line.dims = dims;
        aorta_json_object(json);
        aorta_rows_json(aorta_range_rows, &line, profile->start_ns, json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void write_marker(struct aorta_json *json, const struct aorta_marker *marker, int64_t origin_ns) {
    aorta_json_object(json);
    aorta_rows_json(aorta_marker_rows, marker, origin_ns, json);
    aorta_json_key_object(json, "metadata");
    aorta_json_object_end(json);
    aorta_json_object_end(json);
}

/* Where the step and its parts begin, and its end. */
static void write_markers(struct aorta_json *json, const struct aorta_profile *profile) {
    const struct aorta_marker first = {"step", AORTA_ROLE_COMPUTE, profile->start_ns};
    const struct aorta_marker last = {"end", AORTA_ROLE_COMPUTE, profile->end_ns};
    aorta_json_key_array(json, "markers");
    if (profile->marker_count) write_marker(json, &first, profile->start_ns);
    for (size_t i = 0; i < profile->marker_count; i++) write_marker(json, &profile->markers[i], profile->start_ns);
    if (profile->marker_count) write_marker(json, &last, profile->start_ns);
    aorta_json_array_end(json);
}

static void write_host(struct aorta_json *json, const struct aorta_profile *profile) {
    aorta_json_key_array(json, "host_ranges");
    for (size_t i = 0; i < profile->host_count; i++) {
        aorta_json_object(json);
        aorta_rows_json(aorta_host_rows, &profile->host[i], profile->start_ns, json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

/* ---- overlap ---- */

static void write_segments(struct aorta_json *json, const struct aorta_overlap *overlap, int64_t origin_ns) {
    aorta_json_key_array(json, "active_segments");
    for (size_t i = 0; i < overlap->segment_count; i++) {
        const struct aorta_segment *segment = &overlap->segments[i];
        aorta_json_object(json);
        aorta_rows_json(aorta_segment_rows, segment, origin_ns, json);
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
    for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++)
        if (overlap->kind[kind].count)
            aorta_rows_object(aorta_collective_name((enum aorta_collective)kind), aorta_kind_rows, &overlap->kind[kind],
                              0, json);
    aorta_json_object_end(json);
}

static void write_overlap_ms(struct aorta_json *json, const struct aorta_overlap *overlap) {
    aorta_json_key_object(json, "overlap_ms");
    aorta_json_key_ms(json, "compute_comm", overlap->overlap_ns);
    for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++)
        if (kind <= AORTA_ALL_GATHER || overlap->kind[kind].count)
            aorta_json_key_ms(json, aorta_overlap_keys[kind], overlap->kind[kind].overlap_ns);
    aorta_json_key_ms(json, "idle", overlap->idle_ns);
    aorta_json_object_end(json);
}

static void write_overlap(struct aorta_json *json, const struct aorta_overlap *overlap, int64_t origin_ns) {
    struct aorta_reasons reasons = {0};
    aorta_json_key_object(json, "overlap");
    aorta_rows_json(aorta_overlap_by_role_rows, overlap, origin_ns, json);
    write_overlap_ms(json, overlap);
    aorta_rows_members(aorta_overlap_rows, overlap, origin_ns, json, &reasons);
    write_collectives(json, overlap);
    write_segments(json, overlap, origin_ns);
    aorta_reasons_json(&reasons, json);
    aorta_json_object_end(json);
}

static void write_profile(struct aorta_json *json, const char *key, const struct aorta_profile *profile,
                          const struct aorta_overlap *overlap) {
    const struct aorta_line_profile line = {profile->index, profile->end_ns - profile->start_ns, (int)profile->source};
    aorta_json_key_object(json, key);
    aorta_rows_json(aorta_profile_rows, &line, 0, json);
    if (profile->source == AORTA_SOURCE_KERNEL) aorta_rows_json(aorta_kernel_facts_rows, &profile->kernels, 0, json);
    aorta_json_key_int(json, "origin_ns", profile->start_ns);
    write_ranges(json, profile);
    write_markers(json, profile);
    write_host(json, profile);
    write_overlap(json, overlap, profile->start_ns);
    aorta_json_object_end(json);
}

/* ---- the device ---- */

static void write_memory(struct aorta_json *json, const struct aorta_memory_info *memory) {
    const struct aorta_line_memory line = {(int64_t)memory->allocated, (int64_t)memory->peak, (int64_t)memory->reserved,
                                           (int64_t)memory->pinned};
    aorta_rows_object("memory", aorta_memory_rows, &line, 0, json);
}

/* Why the clock is as low as it is; empty: for no reason that the driver knows. */
static void write_clock_limits(struct aorta_json *json, struct aorta_reasons *reasons, const char *key,
                               const struct aorta_device_metrics *values) {
    aorta_json_key(json, key);
    if (values->clock_limits_known) {
        aorta_clock_limits_json(values->clock_limits, json);
    } else {
        aorta_json_null(json);
        aorta_reasons_add(reasons, key, "the driver does not report it of this device");
    }
}

/* Two lists of rows with the clock's limits between them; null where nothing was read. */
static void write_reading(struct aorta_json *json, struct aorta_reasons *reasons, const char *key,
                          const struct aorta_row *rows, const char *limits_key, const struct aorta_row *last_rows,
                          const struct aorta_device_reading *reading) {
    struct aorta_reasons own = {0};
    if (!reading->wanted) return;
    if (!aorta_device_measured(&reading->values)) {
        aorta_json_key_null(json, key);
        aorta_reasons_add(reasons, key, reading->values.reason);
        return;
    }
    aorta_json_key_object(json, key);
    aorta_rows_members(rows, reading, 0, json, &own);
    write_clock_limits(json, &own, limits_key, &reading->values);
    aorta_rows_members(last_rows, reading, 0, json, &own);
    aorta_reasons_json(&own, json);
    aorta_json_object_end(json);
}

static void write_device(struct aorta_json *json, const struct aorta_step_metrics *metrics) {
    const struct aorta_device_info *info = metrics->info;
    const struct aorta_metrics_device line = {.name = info->name,
                                              .isa = info->isa,
                                              .multiprocessors = info->multiprocessors,
                                              .memory_bytes = (int64_t)info->memory_bytes};
    aorta_json_key_object(json, "device_info");
    aorta_rows_json(aorta_device_rows, &line, 0, json);
    if (metrics->peaks) aorta_rows_object("measured_peaks", aorta_peaks_rows, metrics->peaks, 0, json);
    aorta_json_object_end(json);
}

/* ---- the line ---- */

static void write_step(struct aorta_json *json, const struct aorta_step_metrics *metrics,
                       struct aorta_reasons *reasons) {
    const struct aorta_metrics_step line = {
        .schema_version = AORTA_METRICS_SCHEMA,
        .epoch = metrics->epoch,
        .step = metrics->step,
        .global_step = metrics->global_step,
        .rank = metrics->rank,
        .world_size = metrics->world_size,
        .loss = metrics->loss,
        .grad_norm = metrics->grad_norm,
        .lr = metrics->lr,
        .samples_per_s = metrics->samples_per_s,
        .data_wait_ms = metrics->data_wait_ms,
        .step_ms = metrics->step_ms,
        .loss_scale = metrics->loss_scale,
        .skipped = metrics->skipped,
        .simulated = metrics->simulated,
        .device = metrics->device,
        .grad_norm_reason = isinf(metrics->grad_norm) ? "the gradients overflowed" : "not computed or not finite"};
    aorta_rows_members(aorta_step_rows, &line, 0, json, reasons);
}

aorta_status aorta_metrics_format(const struct aorta_step_metrics *metrics, struct aorta_text *out) {
    struct aorta_json json;
    struct aorta_reasons reasons = {0};
    aorta_json_begin(&json, out, 0);
    aorta_json_object(&json);
    write_step(&json, metrics, &reasons);
    if (metrics->info) write_device(&json, metrics);
    if (metrics->memory) write_memory(&json, metrics->memory);
    write_reading(&json, &reasons, "device_metrics", aorta_reading_rows, "clock_limited_by", aorta_reading_age_rows,
                  &metrics->device_metrics);
    write_reading(&json, &reasons, "rocm_smi_output", aorta_reading_rows, "clock_limited_by", aorta_reading_age_rows,
                  &metrics->rocm_smi_output);
    write_reading(&json, &reasons, "clocks", aorta_clocks_rows, "limited_by", aorta_clocks_at_rows, &metrics->clocks);
    if (metrics->profile) {
        write_profile(&json, "profile", metrics->profile, metrics->overlap);
    } else {
        aorta_json_key_null(&json, "profile");
        aorta_reasons_add(&reasons, "profile",
                          metrics->unrecorded ? metrics->unrecorded : "recording was switched off");
    }
    if (metrics->kernel_profile)
        write_profile(&json, "kernel_profile", metrics->kernel_profile, metrics->kernel_overlap);
    aorta_reasons_json(&reasons, &json);
    aorta_json_object_end(&json);
    return aorta_text_check(out);
}
