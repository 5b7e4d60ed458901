/* The analysis as JSON; docs/metrics-format.md lists the keys. Milliseconds with six decimals are exact nanoseconds. */
#include "base/json.h"
#include "report/trace_report.h"
#include "timeline/links.h"

#include <math.h>
#include <string.h>

static void key_ms(struct aorta_json *json, const char *key, int64_t ns) {
    aorta_json_key_fixed(json, key, (double)ns / 1e6, 6);
}

static void key_known(struct aorta_json *json, const char *key, int64_t value) {
    if (value < 0)
        aorta_json_key_null(json, key);
    else
        aorta_json_key_int(json, key, value);
}

/* INT64_MIN is not known. */
static void key_number(struct aorta_json *json, const char *key, int64_t value) {
    if (value == INT64_MIN)
        aorta_json_key_null(json, key);
    else
        aorta_json_key_int(json, key, value);
}

static void key_text(struct aorta_json *json, const char *key, const struct aorta_trace *trace, uint32_t text) {
    aorta_json_key_string(json, key, text == AORTA_TRACE_NONE ? NULL : aorta_trace_text(trace, text));
}

/* ---- figures ---- */

static void write_figures(struct aorta_json *json, const struct aorta_trace_figures *figures) {
    key_ms(json, "span_ms", figures->span_ns);
    key_ms(json, "busy_ms", figures->busy_ns);
    key_ms(json, "compute_ms", figures->compute_ns);
    key_ms(json, "comm_ms", figures->comm_ns);
    key_ms(json, "memcpy_ms", figures->memcpy_ns);
    key_ms(json, "idle_ms", figures->idle_ns);
    key_ms(json, "overlap_ms", figures->overlap_ns);
    key_ms(json, "exposed_comm_ms", figures->exposed_comm_ns);
    key_ms(json, "exposed_copy_ms", figures->exposed_copy_ns);
    aorta_json_key_fixed(json, "overlap_ratio", figures->overlap_ratio, 9);
    aorta_json_key_fixed(json, "compute_overlap_ratio", figures->compute_overlap_ratio, 9);
    if (figures->comm_ns && figures->compute_ns) return;
    aorta_json_key_object(json, "null_reasons");
    if (!figures->comm_ns) aorta_json_key_string(json, "overlap_ratio", "no collective ran");
    if (!figures->compute_ns) aorta_json_key_string(json, "compute_overlap_ratio", "no compute ran");
    aorta_json_object_end(json);
}

static void key_ms_unless(struct aorta_json *json, bool left_out, const char *key, int64_t ns) {
    if (left_out)
        aorta_json_key_null(json, key);
    else
        key_ms(json, key, ns);
}

static void write_idle(struct aorta_json *json, const struct aorta_trace *trace, const struct aorta_idle *idle) {
    aorta_json_key_object(json, "idle_causes_ms");
    key_ms(json, "data_wait", idle->ns[AORTA_IDLE_DATA_WAIT]);
    key_ms_unless(json, trace->no_waits, "host_sync", idle->ns[AORTA_IDLE_HOST_SYNC]);
    key_ms_unless(json, trace->no_launches, "host_launch", idle->ns[AORTA_IDLE_HOST_LAUNCH]);
    key_ms_unless(json, trace->no_launches, "launch_latency", idle->ns[AORTA_IDLE_LAUNCH_LATENCY]);
    key_ms(json, "unknown", idle->ns[AORTA_IDLE_UNKNOWN]);
    if (trace->no_waits || trace->no_launches) {
        aorta_json_key_object(json, "null_reasons");
        if (trace->no_waits)
            aorta_json_key_string(json, "host_sync",
                                  trace->no_launches
                                      ? "calls were not recorded (--record kernels)"
                                      : "waits were not recorded (--record kernels,launches): they are in host_launch");
        if (trace->no_launches) {
            aorta_json_key_string(json, "host_launch", "calls were not recorded (--record kernels)");
            aorta_json_key_string(json, "launch_latency", "calls were not recorded (--record kernels)");
        }
        aorta_json_object_end(json);
    }
    aorta_json_object_end(json);
}

static void write_times(struct aorta_json *json, const struct aorta_trace_times *times) {
    aorta_json_key_int(json, "count", (int64_t)times->count);
    key_ms(json, "total_ms", times->total_ns);
    aorta_json_key_fixed(json, "mean_ms", times->mean_ns / 1e6, 9);
    aorta_json_key_fixed(json, "p50_ms", times->p50_ns / 1e6, 9);
    aorta_json_key_fixed(json, "p95_ms", times->p95_ns / 1e6, 9);
    key_ms(json, "min_ms", times->min_ns);
    key_ms(json, "max_ms", times->max_ns);
}

/* ---- tables ---- */

static const char *class_name(const struct aorta_trace_kernel_row *row) {
    if (row->kind == AORTA_TRACE_COPY) return "copy";
    if (row->kind == AORTA_TRACE_FILL) return "fill";
    return row->class == AORTA_KERNEL_COLLECTIVE ? "collective" : "compute";
}

static void write_kernels(struct aorta_json *json, const struct aorta_trace_rank *rank, bool copies, const char *key) {
    aorta_json_key_array(json, key);
    for (size_t i = 0; i < rank->kernel_count; i++) {
        const struct aorta_trace_kernel_row *row = &rank->kernels[i];
        if ((row->kind != AORTA_TRACE_KERNEL) != copies) continue;
        aorta_json_object(json);
        key_text(json, "name", rank->trace, row->name);
        aorta_json_key_string(json, "class", class_name(row));
        write_times(json, &row->times);
        aorta_json_key_fixed(json, "share", row->share, 9);
        if (copies) {
            key_known(json, "bytes", row->bytes);
            bool known = row->bytes > 0 && row->times.total_ns > 0;
            aorta_json_key_fixed(json, "gbps", known ? (double)row->bytes / (double)row->times.total_ns : NAN, 6);
        }
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void write_shape(struct aorta_json *json, const struct aorta_trace *trace, uint32_t row) {
    const struct aorta_trace_shape *shape = row == AORTA_TRACE_NONE ? NULL : &trace->shapes[row];
    key_text(json, "op", trace, shape ? shape->op : AORTA_TRACE_NONE);
    key_text(json, "dims", trace, shape ? shape->dims : AORTA_TRACE_NONE);
    key_text(json, "types", trace, shape ? shape->types : AORTA_TRACE_NONE);
    key_known(json, "batch", shape ? shape->product.batch : -1);
    key_known(json, "m", shape ? shape->product.m : -1);
    key_known(json, "n", shape ? shape->product.n : -1);
    key_known(json, "k", shape ? shape->product.k : -1);
}

static void write_gemms(struct aorta_json *json, const struct aorta_trace_rank *rank) {
    aorta_json_key_array(json, "gemms");
    for (size_t i = 0; i < rank->gemm_count; i++) {
        const struct aorta_trace_gemm_row *row = &rank->gemms[i];
        aorta_json_object(json);
        key_text(json, "kernel", rank->trace, row->name);
        write_shape(json, rank->trace, row->shape);
        key_text(json, "geometry", rank->trace, row->geometry);
        write_times(json, &row->times);
        aorta_json_key_double(json, "flops", row->flops);
        aorta_json_key_fixed(json, "tflops_p50", row->flops / row->times.p50_ns / 1e3, 6);
        aorta_json_key_int(json, "runs_alone", (int64_t)row->alone);
        aorta_json_key_int(json, "runs_beside_comm", (int64_t)row->beside);
        aorta_json_key_fixed(json, "alone_p50_ms", row->alone_p50_ns / 1e6, 9);
        aorta_json_key_fixed(json, "beside_comm_p50_ms", row->beside_p50_ns / 1e6, 9);
        aorta_json_key_fixed(json, "slowdown", row->slowdown, 6);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void write_group(struct aorta_json *json, const struct aorta_trace_analysis *analysis, uint32_t group) {
    const struct aorta_trace_world_group *found = group == AORTA_TRACE_NONE ? NULL : &analysis->groups[group];
    aorta_json_key_string(json, "group", found ? found->name : NULL);
    aorta_json_key_string(json, "group_description", found && found->description[0] ? found->description : NULL);
    key_known(json, "group_size", found ? found->size : -1);
}

static void write_collectives(struct aorta_json *json, const struct aorta_trace_analysis *analysis,
                              const struct aorta_trace_rank *rank) {
    aorta_json_key_array(json, "collectives");
    for (size_t i = 0; i < rank->collective_count; i++) {
        const struct aorta_trace_collective_row *row = &rank->collectives[i];
        aorta_json_object(json);
        aorta_json_key_string(json, "kind", aorta_collective_name(row->kind));
        write_group(json, analysis, row->group);
        write_times(json, &row->times);
        key_known(json, "bytes", row->bytes);
        key_ms(json, "comm_ms", row->comm_ns);
        key_ms(json, "overlap_ms", row->overlap_ns);
        key_ms(json, "exposed_ms", row->exposed_ns);
        key_ms(json, "blamed_ms", row->blamed_ns);
        aorta_json_key_fixed(json, "algbw_gbps", row->algbw_gbps, 6);
        aorta_json_key_fixed(json, "busbw_gbps", row->busbw_gbps, 6);
        aorta_json_key_int(json, "waits_known", (int64_t)row->waits_known);
        if (row->waits_known)
            key_ms(json, "wait_ms", row->wait_ns);
        else
            aorta_json_key_null(json, "wait_ms");
        aorta_json_key_fixed(json, "transfer_busbw_gbps", row->transfer_busbw_gbps, 6);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static double share_of_link(double busbw_gbps, double link_gbps) {
    return link_gbps > 0 ? busbw_gbps / link_gbps : NAN;
}

static void write_collective_sizes(struct aorta_json *json, const struct aorta_trace_analysis *analysis,
                                   const struct aorta_trace_rank *rank) {
    aorta_json_key_array(json, "collective_sizes");
    for (size_t i = 0; i < rank->collective_size_count; i++) {
        const struct aorta_trace_collective_row *row = &rank->collective_sizes[i];
        double link_gbps = aorta_trace_link_of(analysis, rank, row);
        aorta_json_object(json);
        aorta_json_key_string(json, "kind", aorta_collective_name(row->kind));
        write_group(json, analysis, row->group);
        key_known(json, "bytes_each", row->bytes_each);
        key_text(json, "dtype", rank->trace, row->dtype);
        key_known(json, "channels", row->channels);
        write_times(json, &row->times);
        aorta_json_key_int(json, "waits_known", (int64_t)row->waits_known);
        key_ms_unless(json, !row->waits_known, "wait_ms", row->wait_ns);
        key_ms_unless(json, !row->waits_known, "transfer_ms", row->transfer_ns);
        aorta_json_key_fixed(json, "transfer_busbw_gbps", row->transfer_busbw_gbps, 6);
        aorta_json_key_fixed(json, "link_gbps", link_gbps > 0 ? link_gbps : NAN, 3);
        aorta_json_key_fixed(json, "link_share", share_of_link(row->transfer_busbw_gbps, link_gbps), 6);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void write_syncs(struct aorta_json *json, const struct aorta_trace_rank *rank) {
    aorta_json_key_array(json, "synchronisations");
    for (size_t i = 0; i < rank->sync_count; i++) {
        const struct aorta_trace_sync_row *row = &rank->syncs[i];
        aorta_json_object(json);
        key_text(json, "call", rank->trace, row->name);
        key_text(json, "operation", rank->trace, row->operation);
        key_text(json, "function", rank->trace, row->function);
        key_text(json, "range", rank->trace, row->range);
        write_times(json, &row->times);
        aorta_json_key_fixed(json, "count_per_step", (double)row->times.count / (double)rank->steps, 6);
        aorta_json_key_fixed(json, "ms_per_step", (double)row->times.total_ns / 1e6 / (double)rank->steps, 9);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void write_lane(struct aorta_json *json, const struct aorta_trace_lane_row *lane, int64_t span_ns) {
    aorta_json_key_int(json, "count", (int64_t)lane->count);
    key_ms(json, "busy_ms", lane->busy_ns);
    key_ms(json, "compute_ms", lane->compute_ns);
    key_ms(json, "comm_ms", lane->comm_ns);
    key_ms(json, "memcpy_ms", lane->memcpy_ns);
    aorta_json_key_fixed(json, "utilization", span_ns ? (double)lane->busy_ns / (double)span_ns : NAN, 9);
    key_ms(json, "overlapped_ms", lane->overlapped_ns);
}

static void write_lanes(struct aorta_json *json, const struct aorta_trace_rank *rank) {
    const struct aorta_trace *trace = rank->trace;
    aorta_json_key_array(json, "streams");
    for (size_t i = 0; i < rank->stream_count; i++) {
        const struct aorta_trace_lane_row *lane = &rank->streams[i];
        aorta_json_object(json);
        aorta_json_key_int(json, "stream", trace->streams[lane->row].id);
        key_known(json, "context", trace->streams[lane->row].context);
        write_lane(json, lane, rank->figures.span_ns);
        if (rank->queue_count)
            aorta_json_key_int(json, "queues_used", (int64_t)lane->others);
        else
            aorta_json_key_null(json, "queues_used");
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
    aorta_json_key_array(json, "queues");
    for (size_t i = 0; i < rank->queue_count; i++) {
        const struct aorta_trace_lane_row *lane = &rank->queues[i];
        aorta_json_object(json);
        aorta_json_key_int(json, "queue", trace->queues[lane->row].id);
        key_text(json, "type", trace, trace->queues[lane->row].type);
        write_lane(json, lane, rank->figures.span_ns);
        aorta_json_key_int(json, "streams_served", (int64_t)lane->others);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void write_gaps(struct aorta_json *json, const struct aorta_trace_rank *rank) {
    const struct aorta_trace *trace = rank->trace;
    aorta_json_key_array(json, "gaps");
    for (size_t i = 0; i < rank->gap_count; i++) {
        const struct aorta_trace_gap *gap = &rank->gaps[i];
        uint32_t call = gap->call == AORTA_TRACE_NONE ? AORTA_TRACE_NONE : trace->calls[gap->call].name;
        uint32_t mark =
            gap->annotation == AORTA_TRACE_NONE ? AORTA_TRACE_NONE : trace->annotations[gap->annotation].name;
        aorta_json_object(json);
        key_ms(json, "start_ms", gap->start_ns - rank->figures.start_ns);
        key_ms(json, "duration_ms", gap->end_ns - gap->start_ns);
        aorta_json_key_string(json, "cause", aorta_idle_cause_name(aorta_idle_largest(&gap->idle)));
        aorta_json_key_object(json, "parts_ms");
        for (int cause = 0; cause < AORTA_IDLE_CAUSE_COUNT; cause++)
            key_ms(json, aorta_idle_cause_name((enum aorta_idle_cause)cause), gap->idle.ns[cause]);
        aorta_json_object_end(json);
        key_text(json, "next", trace, rank->work[gap->next].name);
        key_number(json, "stream",
                   rank->work[gap->next].stream == AORTA_TRACE_NONE ? INT64_MIN
                                                                    : trace->streams[rank->work[gap->next].stream].id);
        key_text(json, "host_call", trace, call);
        key_text(json, "host_range", trace, mark);
        key_number(json, "step", gap->step);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void write_steps(struct aorta_json *json, const struct aorta_trace_rank *rank) {
    aorta_json_key_array(json, "steps");
    for (size_t i = 0; i < rank->window_count; i++) {
        const struct aorta_trace_window *window = &rank->windows[i];
        const struct aorta_overlap *overlap = &window->overlap;
        if (window->number == INT64_MIN) continue;
        aorta_json_object(json);
        aorta_json_key_int(json, "step", window->number);
        key_ms(json, "start_ms", window->start_ns - rank->figures.start_ns);
        key_ms(json, "lead_ms", overlap->lead_ns);
        key_ms(json, "span_ms", overlap->span_ns);
        key_ms(json, "busy_ms", overlap->busy_ns);
        key_ms(json, "compute_ms", overlap->compute_ns);
        key_ms(json, "comm_ms", overlap->comm_ns);
        key_ms(json, "memcpy_ms", overlap->memcpy_ns);
        key_ms(json, "idle_ms", overlap->idle_ns);
        key_ms(json, "overlap_ms", overlap->overlap_ns);
        key_ms(json, "exposed_comm_ms", overlap->exposed_comm_ns);
        aorta_json_key_fixed(json, "overlap_ratio", overlap->overlap_ratio, 9);
        aorta_json_key_fixed(json, "compute_overlap_ratio", overlap->compute_overlap_ratio, 9);
        write_idle(json, rank->trace, &overlap->idle);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

/* ---- ranks ---- */

static void write_warnings(struct aorta_json *json, const struct aorta_trace *trace) {
    aorta_json_key_array(json, "warnings");
    for (int reason = 0; reason < AORTA_REASON_COUNT; reason++) {
        const struct aorta_trace_warning *warning = &trace->warnings[reason];
        if (!warning->count) continue;
        aorta_json_object(json);
        aorta_json_key_string(json, "reason", aorta_trace_reason_key((enum aorta_trace_reason)reason));
        aorta_json_key_int(json, "count", warning->count);
        key_known(json, "offset", warning->offset);
        aorta_json_key_string(json, "text", aorta_trace_reason_text((enum aorta_trace_reason)reason));
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static const char *device_name(const struct aorta_trace_rank *rank) {
    for (size_t i = 0; i < rank->trace->device_count; i++)
        if (rank->trace->devices[i].id == rank->device && rank->trace->devices[i].name != AORTA_TRACE_NONE)
            return aorta_trace_text(rank->trace, rank->trace->devices[i].name);
    return NULL;
}

static void write_clock(struct aorta_json *json, const struct aorta_align_clock *clock) {
    aorta_json_key_object(json, "clock");
    aorta_json_key_int(json, "shift_ns", clock->shift_ns);
    key_known(json, "residual_ns", clock->residual_ns);
    aorta_json_key_int(json, "shared_collectives", (int64_t)clock->shared);
    aorta_json_key_int(json, "came_last", (int64_t)clock->late);
    key_ms(json, "late_ms", clock->late_ns);
    aorta_json_object_end(json);
}

static void write_rank(struct aorta_json *json, const struct aorta_trace_analysis *analysis,
                       const struct aorta_verdict *verdict, size_t place) {
    const struct aorta_trace_rank *rank = &analysis->ranks[place];
    aorta_json_object(json);
    aorta_json_key_int(json, "rank", rank->rank);
    aorta_json_key_string(json, "file", rank->trace->path);
    aorta_json_key_string(json, "format", aorta_trace_format_name(rank->trace->format));
    aorta_json_key_int(json, "device", rank->device);
    aorta_json_key_string(json, "device_name", device_name(rank));
    write_figures(json, &rank->figures);
    write_idle(json, rank->trace, &rank->idle);
    if (analysis->rank_count > 1) write_clock(json, &analysis->alignment.clocks[place]);
    if (rank->stamps) {
        aorta_json_key_int(json, "stamps", rank->stamps);
        key_ms(json, "stamps_ms", rank->stamps_ns);
    }
    aorta_json_key_string(json, "steps_by",
                          rank->trace->step_count ? aorta_step_source_name(rank->trace->steps_by) : NULL);
    write_steps(json, rank);
    write_kernels(json, rank, false, "kernels");
    write_kernels(json, rank, true, "copies");
    write_gemms(json, rank);
    aorta_roofline_write(place < verdict->roofline_count ? &verdict->rooflines[place] : NULL, json);
    write_collectives(json, analysis, rank);
    write_collective_sizes(json, analysis, rank);
    write_syncs(json, rank);
    write_lanes(json, rank);
    write_gaps(json, rank);
    write_warnings(json, rank->trace);
    aorta_json_object_end(json);
}

static void write_shared(struct aorta_json *json, const struct aorta_trace_analysis *analysis) {
    const int64_t origin_ns = analysis->ranks[0].figures.start_ns;
    aorta_json_key_array(json, "shared_collectives");
    for (size_t i = 0; i < analysis->alignment.shared_count; i++) {
        const struct aorta_align_shared *shared = &analysis->alignment.shared[i];
        const struct aorta_shared_collective *collective = &analysis->shared_collectives[i];
        if (!collective->chosen) continue;
        int64_t last_start_ns = INT64_MIN, last_end_ns = INT64_MIN;
        for (size_t j = 0; j < shared->part_count; j++) {
            if (shared->parts[j].start_ns > last_start_ns) last_start_ns = shared->parts[j].start_ns;
            if (shared->parts[j].end_ns > last_end_ns) last_end_ns = shared->parts[j].end_ns;
        }
        int64_t transfer_ns = last_end_ns - last_start_ns;
        bool known = collective->complete && shared->bytes > 0 && transfer_ns > 0;
        double algbw = known ? (double)shared->bytes / (double)transfer_ns : NAN;
        aorta_json_object(json);
        aorta_json_key_string(json, "kind", aorta_collective_name(collective->kind));
        write_group(json, analysis, collective->group);
        key_known(json, "sequence", shared->sequence);
        key_number(json, "step", collective->step);
        key_known(json, "bytes", shared->bytes);
        aorta_json_key_int(json, "ranks_seen", (int64_t)shared->part_count);
        key_ms(json, "last_start_ms", last_start_ns - origin_ns);
        key_ms(json, "skew_ms", shared->skew_ns);
        aorta_json_key_int(json, "last_rank", analysis->ranks[shared->last_rank].rank);
        aorta_json_key_string(json, "late", !shared->cause_known ? NULL : shared->device_late ? "device" : "host");
        key_ms(json, "transfer_ms", transfer_ns);
        aorta_json_key_fixed(json, "algbw_gbps", algbw, 6);
        double factor = aorta_collective_bus_factor(collective->kind, (int)shared->part_count);
        aorta_json_key_fixed(json, "busbw_gbps", factor > 0 ? algbw * factor : NAN, 6);
        key_ms(json, "exposed_ms", collective->exposed_ns);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void write_differences(struct aorta_json *json, const struct aorta_trace_analysis *analysis) {
    aorta_json_key_array(json, "kernel_differences");
    for (size_t i = 0; i < analysis->difference_count; i++) {
        const struct aorta_trace_difference *row = &analysis->differences[i];
        aorta_json_object(json);
        aorta_json_key_string(json, "kernel", row->name);
        aorta_json_key_int(json, "rank", analysis->ranks[row->rank].rank);
        aorta_json_key_fixed(json, "count_per_step", row->count, 6);
        aorta_json_key_fixed(json, "ms_per_step", row->ns / 1e6, 9);
        aorta_json_key_fixed(json, "others_count_per_step", row->others_count, 6);
        aorta_json_key_fixed(json, "others_ms_per_step", row->others_ns / 1e6, 9);
        aorta_json_key_fixed(json, "excess_ms_per_step", row->excess_ns / 1e6, 9);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void write_slowdown(struct aorta_json *json, const struct aorta_slowdown *slowdown) {
    aorta_json_key_object(json, "gemm_slowdown");
    aorta_json_key_double(json, "ratio", slowdown->ratio);
    aorta_json_key_int(json, "shapes", (int64_t)slowdown->shapes);
    aorta_json_key_int(json, "by_grid", (int64_t)slowdown->by_grid);
    aorta_json_key_int(json, "samples_alone", (int64_t)slowdown->samples_alone);
    aorta_json_key_int(json, "samples_beside", (int64_t)slowdown->samples_beside);
    aorta_json_key_string(json, "reason", slowdown->reason);
    aorta_json_object_end(json);
}

void aorta_trace_report_json(const struct aorta_trace_report *report, int indent, struct aorta_text *out) {
    const struct aorta_trace_analysis *analysis = report->analysis;
    const struct aorta_verdict *verdict = report->verdict;
    struct aorta_json json;
    aorta_json_begin(&json, out, indent);
    aorta_json_object(&json);
    aorta_json_key_int(&json, "schema_version", 1);
    aorta_json_key_array(&json, "ranks");
    for (size_t i = 0; i < analysis->rank_count; i++) write_rank(&json, analysis, verdict, i);
    aorta_json_array_end(&json);
    write_shared(&json, analysis);
    write_differences(&json, analysis);
    write_slowdown(&json, &verdict->slowdown);
    aorta_json_key_string(&json, "judged", analysis->stepped ? "steps" : "recording");
    aorta_json_key_fixed(&json, "judged_ms_mean", verdict->step_ms_mean, 9);
    aorta_verdict_findings(verdict, &json);
    aorta_verdict_replay_write(verdict, &json);
    aorta_json_key_int(&json, "ranks_missing", verdict->ranks_missing);
    aorta_json_key_int(&json, "ranks_outside", (int64_t)analysis->ranks_outside);
    aorta_json_key_string(&json, "remark", verdict->note);
    aorta_json_object_end(&json);
    aorta_text_puts(out, "\n");
}
