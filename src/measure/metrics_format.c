/* One iteration as one JSON line: its rows, and its writer. */
#include "measure/metrics_internal.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- rows ---- */

/* Sizes beyond a petabyte are damage; below, sums cannot overflow. */
#define BYTES_MOST 1e15
#define INT_MOST 2147483647.0
/* A collective's number in its run has the step in its upper 39 bits, its number in the step in the lower 24
 * (measured_trace.c). */
#define STEP_MOST 5e11
#define SEQUENCE_MOST 16e6

static const char *kind_name(int kind) {
    static const char *const names[] = {"compute", "collective", "copy"};
    return names[kind];
}

/* ---- the step ---- */

#define AT(member) offsetof(struct aorta_step_metrics, member)

const struct aorta_row aorta_step_rows[] = {
    {"schema_version", AORTA_ROW_INT, AT(schema_version), .help = "1"},
    {"rank", AORTA_ROW_INT32, AT(rank), .required = true, .help = "of the job"},
    {"world_size", AORTA_ROW_INT32, AT(world_size), .required = true, .help = "ranks of the job"},
    {"epoch", AORTA_ROW_INT, AT(epoch), .required = true, .help = "from 0"},
    {"step", AORTA_ROW_INT, AT(step), .required = true, .help = "within the epoch"},
    {"global_step", AORTA_ROW_INT, AT(global_step), .required = true, .high = STEP_MOST, .help = "from 0"},
    {"loss", AORTA_ROW_NUMBER, AT(loss), .help = "of the rank's own samples", .reason = "the loss was not finite"},
    {"grad_norm", AORTA_ROW_NUMBER, AT(grad_norm), .help = "before clipping", .reason_at = AT(grad_norm_reason)},
    {"lr", AORTA_ROW_NUMBER, AT(lr), .help = "learning rate of this step", .reason = "the optimizer did not run"},
    {"samples_per_s", AORTA_ROW_NUMBER, AT(samples_per_s), .help = "of this rank", .reason = "the step was not timed"},
    {"data_wait_ms", AORTA_ROW_NUMBER, AT(data_wait_ms), "ms", .help = "by the host's clock",
     .reason = "waiting for data was not timed"},
    {"step_ms", AORTA_ROW_NUMBER, AT(step_ms), "ms", .help = "from the end of the step before to this one's",
     .reason = "the step was not timed"},
    {"loss_scale", AORTA_ROW_NUMBER, AT(loss_scale), .help = "with `fp16`", .omit = true},
    {"skipped", AORTA_ROW_BOOL, AT(skipped),
     .help = "the optimizer skipped the step (`fp16`: the gradients were not finite)"},
    {"simulated", AORTA_ROW_BOOL, AT(simulated), .help = "collectives are copies (one rank)"},
    {"device", AORTA_ROW_TEXT, AT(device), .help = "`cpu`, `cuda` or `hip`", .omit = true},
    {0}};

#undef AT
#define AT(member) offsetof(struct aorta_metrics_device, member)

const struct aorta_row aorta_device_rows[] = {
    {"name", AORTA_ROW_TEXT, AT(name), .help = "of the device"},
    {"isa", AORTA_ROW_TEXT, AT(isa), .help = "`avx512`, `sm_90`, `gfx942`"},
    {"multiprocessors", AORTA_ROW_INT, AT(multiprocessors), .help = "of the CPU device its threads"},
    {"memory_bytes", AORTA_ROW_INT, AT(memory_bytes), "bytes", .help = "in all"},
    {0}};

const struct aorta_row aorta_peaks_rows[] = {
    {"tflops", AORTA_ROW_NUMBER, offsetof(struct aorta_measured_peaks, tflops), "TFLOP/s", .omit = true,
     .help = "of a product", .name = aorta_arithmetic_name, .names = AORTA_ARITHMETIC_COUNT},
    {"gbytes_per_s", AORTA_ROW_NUMBER, offsetof(struct aorta_measured_peaks, gbytes_per_s), "GB/s",
     .help = "of a copy of much data"},
    {"cost_ms", AORTA_ROW_NUMBER, offsetof(struct aorta_measured_peaks, cost_ms), "ms",
     .help = "what measuring took, before the first step"},
    {0}};

#undef AT
#define AT(member) offsetof(struct aorta_memory_info, member)

static const struct aorta_row memory_rows[] = {
    {"allocated_bytes", AORTA_ROW_INT, AT(allocated), "bytes", .help = "of the device, handed out now"},
    {"peak_bytes", AORTA_ROW_INT, AT(peak), "bytes", .help = "the most that was handed out at once"},
    {"reserved_bytes", AORTA_ROW_INT, AT(reserved), "bytes", .help = "taken from the system"},
    {"pinned_bytes", AORTA_ROW_INT, AT(pinned), "bytes", .help = "of the host, pinned"},
    {0}};

#undef AT
#define AT(member) offsetof(struct aorta_device_reading, member)
#define MISSING .reason = "the driver does not report it of this device"

static const struct aorta_row reading_rows[] = {
    {"temperature_c", AORTA_ROW_NUMBER, AT(values.temperature_c), "°C", MISSING, .help = "of the device"},
    {"power_w", AORTA_ROW_NUMBER, AT(values.power_w), "W", MISSING, .help = "drawn now"},
    {"sm_clock_mhz", AORTA_ROW_NUMBER, AT(values.sm_clock_mhz), "MHz", MISSING, .help = "now"},
    {"memory_clock_mhz", AORTA_ROW_NUMBER, AT(values.memory_clock_mhz), "MHz", MISSING, .help = "now"},
    {"memory_used_bytes", AORTA_ROW_NUMBER, AT(values.memory_used_bytes), "bytes", MISSING, .help = "by all processes"},
    {"utilization", AORTA_ROW_NUMBER, AT(values.utilization), "share", MISSING,
     .help = "of the last sampling period, the time in which a kernel ran"},
    {"sm_clock_max_mhz", AORTA_ROW_NUMBER, AT(values.sm_clock_max_mhz), "MHz", MISSING, .help = "the highest there is"},
    {"power_limit_w", AORTA_ROW_NUMBER, AT(values.power_limit_w), "W", MISSING, .help = "the limit that is enforced"},
    {0}};

static const struct aorta_row reading_age_rows[] = {
    {"age_ms", AORTA_ROW_NUMBER, AT(age_ms), "ms", .help = "how old the reading was when the line was made"},
    {"read_ms", AORTA_ROW_NUMBER, AT(read_ms), "ms", .help = "what it took"},
    {0}};

const struct aorta_row aorta_clocks_rows[] = {
    {.type = AORTA_ROW_PART, .offset = AT(values), .part = aorta_clock_metrics_rows}, {0}};

const struct aorta_row aorta_clocks_at_rows[] = {
    {"at_ns", AORTA_ROW_INT, AT(at_ns), "ns", .help = "the host's monotonic clock", .required = true, .high = 2e18},
    {0}};

/* ---- the profile ---- */

#undef AT
#define AT(member) offsetof(struct aorta_profile, member)

const struct aorta_row aorta_profile_rows[] = {
    {"index", AORTA_ROW_INT, AT(index), .help = "number of the iteration"},
    {"total_ms", AORTA_ROW_TIME, AT(end_ns), .help = "last end − first start", .written_only = true},
    {"source", AORTA_ROW_CHOICE, AT(source), .name = aorta_profile_source_name, .names = 2, .written_only = true,
     .help = "what the ranges are"},
    {0}};

static const struct aorta_row kernel_profile_rows[] = {
    {.type = AORTA_ROW_PART, .part = aorta_profile_rows},
    {.type = AORTA_ROW_PART, .offset = AT(kernels), .part = aorta_kernel_facts_rows},
    {0}};

#undef AT
#define AT(member) offsetof(struct aorta_kernel_facts, member)

const struct aorta_row aorta_kernel_facts_rows[] = {
    {"attributed", AORTA_ROW_INT, AT(attributed), .help = "kernels with a known range", .high = INT_MOST},
    {"dropped", AORTA_ROW_INT, AT(dropped), .help = "lost records", .high = BYTES_MOST},
    {"clock_offset_ms", AORTA_ROW_NS, AT(clock_offset_ns),
     .help = "added to the library's times, so that they agree with the device's timestamps"},
    {"launches", AORTA_ROW_INT, AT(launches), .help = "by the host; one for a whole graph", .high = INT_MOST},
    {"stamps", AORTA_ROW_INT, AT(stamp_count), .help = "kernels that measured, which are left out", .high = INT_MOST},
    {"stamps_ms", AORTA_ROW_NS, AT(stamp_ns), .help = "their time"},
    {0}};

#undef AT
#define AT(member) offsetof(struct aorta_line_range, member)

static const struct aorta_row metadata_rows[] = {
    {"function", AORTA_ROW_TEXT, AT(range.info.function), .help = "operation; by kernels the kernel"},
    {"kind", AORTA_ROW_CHOICE, AT(kind), .name = kind_name, .names = 3, .help = "what it is"},
    {"queue", AORTA_ROW_INT32, AT(range.stream), .help = "number of the stream; roles with one number share a stream",
     .high = INT_MOST},
    {"enqueue_ms", AORTA_ROW_TIME, AT(range.enqueue_ns), .help = "launch by the host", .omit = true},
    {"range", AORTA_ROW_TEXT, AT(range.info.within), .help = "by kernels: tag of the range it belongs to",
     .omit = true},
    {"operation", AORTA_ROW_TEXT, AT(range.info.operation), .omit = true,
     .help = "by kernels: operation of the range that it was launched by"},
    {"number", AORTA_ROW_INT32, AT(range.info.number), .omit = true, .low = 1, .high = INT_MOST,
     .help = "which operation of the iteration that was"},
    {"dims", AORTA_ROW_TEXT, AT(dims), .omit = true,
     .help = "shapes of the inputs, on an operation's longest kernel: a product's `[[m, k], [k, n]]`"},
    {"layer", AORTA_ROW_INT32, AT(range.info.layer), .omit = true, .low = -1, .high = INT_MOST,
     .help = "of the encoder"},
    {"bytes", AORTA_ROW_INT, AT(range.info.bytes), "bytes", .omit = true, .high = BYTES_MOST,
     .help = "collectives: larger buffer of one rank; compute: read and written at least"},
    {"flops", AORTA_ROW_NUMBER, AT(range.info.flops), "FLOP", .omit = true, .high = 1e30,
     .help = "of products and attention"},
    {"attention_flops", AORTA_ROW_NUMBER, AT(range.info.attention_flops), "FLOP", .omit = true, .high = 1e30,
     .help = "of ranges with both: attention's part"},
    {"attention_bytes", AORTA_ROW_INT, AT(range.info.attention_bytes), "bytes", .omit = true, .high = BYTES_MOST,
     .help = "the same of the bytes"},
    {"dtype", AORTA_ROW_TEXT, AT(dtype), .omit = true, .help = "of the arithmetic"},
    {"collective", AORTA_ROW_TEXT, AT(collective), .omit = true, .help = "its kind"},
    {"group_size", AORTA_ROW_INT32, AT(range.info.group_size), .omit = true, .high = INT_MOST,
     .help = "ranks of the collective"},
    {"group", AORTA_ROW_INT32, AT(range.info.group), .omit = true, .high = INT_MOST, .help = "the lowest of them"},
    {"group_stride", AORTA_ROW_INT32, AT(range.info.group_stride), .omit = true, .high = INT_MOST,
     .help = "distance of neighbors among them, where it is not 1"},
    {"sequence", AORTA_ROW_INT, AT(range.sequence), .omit = true, .low = -1, .high = SEQUENCE_MOST,
     .help = "collectives: number in the step, which pairs ranks"},
    {"algbw_gbps", AORTA_ROW_NUMBER, AT(algbw_gbps), "GB/s", 6, .omit = true, .written_only = true,
     .help = "collectives: bytes / time"},
    {"busbw_gbps", AORTA_ROW_NUMBER, AT(busbw_gbps), "GB/s", 6, .omit = true, .written_only = true,
     .help = "as nccl-tests define it"},
    {"simulated", AORTA_ROW_BOOL, AT(range.info.simulated), .omit = true, .help = "the collective is a copy"},
    {0}};

const struct aorta_row aorta_range_rows[] = {
    {"stream", AORTA_ROW_CHOICE, AT(role), .name = aorta_role_name, .names = AORTA_ROLE_COUNT, .required = true,
     .help = "its role"},
    {"tag", AORTA_ROW_TEXT, AT(range.info.tag), .required = true, .help = "name of the range"},
    {"start_ms", AORTA_ROW_TIME, AT(range.start_ns), .required = true, .help = "from `origin_ns` on"},
    {"end_ms", AORTA_ROW_TIME, AT(range.end_ns), .required = true, .help = "its end"},
    {"duration_ms", AORTA_ROW_NS, AT(duration_ns), .written_only = true, .help = "end − start"},
    {"metadata", AORTA_ROW_PART, .part = metadata_rows},
    {0}};

#undef AT
#define AT(member) offsetof(struct aorta_marker, member)

const struct aorta_row aorta_marker_rows[] = {
    {"stream", AORTA_ROW_CHOICE, AT(role), .name = aorta_role_name, .names = AORTA_ROLE_COUNT, .required = true,
     .help = "its role"},
    {"tag", AORTA_ROW_TEXT, AT(tag), .required = true,
     .help = "where `step`, `forward`, `backward` (from the loss on; each micro-batch has the two) and `optimizer` "
             "begin, and `end`"},
    {"time_ms", AORTA_ROW_TIME, AT(time_ns), .required = true, .help = "from `origin_ns` on"},
    {0}};

#undef AT
#define AT(member) offsetof(struct aorta_host_range, member)

const struct aorta_row aorta_host_rows[] = {
    {"kind", AORTA_ROW_CHOICE, AT(kind), .name = aorta_host_kind_name, .names = AORTA_HOST_KIND_COUNT, .required = true,
     .help = "what the host did"},
    {"start_ms", AORTA_ROW_TIME, AT(start_ns), .required = true, .help = "from `origin_ns` on"},
    {"end_ms", AORTA_ROW_TIME, AT(end_ns), .required = true, .help = "its end"},
    {0}};

/* ---- overlap ---- */

/* The key of each collective under "overlap_ms". */
static const char *const overlap_keys[AORTA_COLLECTIVE_COUNT] = {
    "compute_allreduce",  "compute_reducescatter", "compute_allgather", "compute_broadcast",
    "compute_all_to_all", "compute_barrier",       "compute_collective"};

static const struct aorta_row segment_rows[] = {
    {"start_ms", AORTA_ROW_TIME, offsetof(struct aorta_segment, start_ns), .help = "of a stretch of time"},
    {"end_ms", AORTA_ROW_TIME, offsetof(struct aorta_segment, end_ns), .help = "and its end"},
    {0}};

#undef AT
#define AT(member) offsetof(struct aorta_collective_overlap, member)

static const struct aorta_row kind_rows[] = {
    {"count", AORTA_ROW_INT, AT(count), .help = "collectives of the kind"},
    {"bytes", AORTA_ROW_INT, AT(bytes), "bytes", .help = "sum"},
    {"comm_ms", AORTA_ROW_NS, AT(comm_ns), .help = "union of their times"},
    {"overlap_ms", AORTA_ROW_NS, AT(overlap_ns), .help = "at the same time as compute"},
    {"exposed_ms", AORTA_ROW_NS, AT(exposed_ns), .help = "without compute at the same time"},
    {"blamed_ms", AORTA_ROW_NS, AT(blamed_ns), .help = "part of `exposed_comm_ms`; the kinds add up to it"},
    {0}};

#undef AT
#define AT(member) offsetof(struct aorta_overlap, member)

static const struct aorta_row overlap_by_role_rows[] = {
    {"per_stream_ms", AORTA_ROW_NS, AT(role_ns), .help = "by role", .name = aorta_role_name, .names = AORTA_ROLE_COUNT},
    {"utilization", AORTA_ROW_NUMBER, AT(utilization), "share", 9, .help = "by role", .name = aorta_role_name,
     .names = AORTA_ROLE_COUNT},
    {0}};

static const struct aorta_row overlap_rows[] = {
    {"overlap_ratio", AORTA_ROW_NUMBER, AT(overlap_ratio), "share", .help = "overlap / communication",
     .reason = "no collective ran in this iteration"},
    {"compute_overlap_ratio", AORTA_ROW_NUMBER, AT(compute_overlap_ratio), "share", .help = "overlap / compute",
     .reason = "no compute ran in this iteration"},
    {"exposed_comm_ms", AORTA_ROW_NS, AT(exposed_comm_ns), .help = "communication without compute"},
    {"exposed_copy_ms", AORTA_ROW_NS, AT(exposed_copy_ns), .help = "copies with nothing else running"},
    {"span_ms", AORTA_ROW_NS, AT(span_ns), .help = "first start to last end"},
    {"lead_ms", AORTA_ROW_NS, AT(lead_ns), .help = "gap before the iteration"},
    {"busy_ms", AORTA_ROW_NS, AT(busy_ns), .help = "anything ran"},
    {"compute_ms", AORTA_ROW_NS, AT(compute_ns), .help = "compute ran"},
    {"comm_ms", AORTA_ROW_NS, AT(comm_ns), .help = "collectives ran"},
    {"memcpy_ms", AORTA_ROW_NS, AT(memcpy_ns), .help = "copies and fills"},
    {"dependency_ms", AORTA_ROW_NS, AT(dependency_ns),
     .help = "no compute although the next was launched: it waited for another stream"},
    {"idle_causes_ms", AORTA_ROW_NS, AT(idle.ns), .help = "why nothing ran", .name = aorta_idle_name,
     .names = AORTA_IDLE_CAUSE_COUNT},
    {0}};

/* ---- docs ---- */

void aorta_metrics_markdown(struct aorta_text *out) {
    static const struct {
        const char *head;
        const struct aorta_row *rows;
    } parts[] = {
        {NULL, aorta_step_rows},
        {"`device_info`, in a rank's first line", aorta_device_rows},
        {"`device_info.measured_peaks`, of the CPU device", aorta_peaks_rows},
        {"`memory`", memory_rows},
        {"`device_metrics`, with `--device-metrics`, and on AMD GPUs `rocm_smi_output`, with `--enable-rocm-metrics`; "
         "read\non a thread of their own when the step begins, and every `training.log_interval` steps while a reading "
         "takes longer than 0.2 ms",
         reading_rows},
        {"Then `clock_limited_by[]`, an array that says why the clock is below its highest, and", reading_age_rows},
        {"`clocks`, about once a second on GPUs; with `limited_by[]`", aorta_clocks_rows},
        {"and", aorta_clocks_at_rows},
        {"`profile`: the ranges of the iteration and their figures, `null` where the step was not recorded; "
         "`kernel_profile`: the same by kernels, where the device's records are there.\nBoth have `origin_ns` (the "
         "device "
         "clock at the times' zero), `ranges[]`, `markers[]`, `host_ranges[]`, `overlap`, and",
         aorta_profile_rows},
        {"`kernel_profile` alone", aorta_kernel_facts_rows},
        {"`ranges[]`", aorta_range_rows},
        {"`markers[]`, with an empty `metadata`", aorta_marker_rows},
        {"`host_ranges[]`", aorta_host_rows},
        {"`overlap`, with `overlap_ms` (`compute_comm`, `compute_allreduce`, `compute_reducescatter`, "
         "`compute_allgather`, …, `idle`)",
         overlap_by_role_rows},
        {"and", overlap_rows},
        {"`overlap.collectives.KIND`", kind_rows},
        {"`overlap.active_segments[]`, with `active_streams[]`", segment_rows}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        aorta_text_printf(out, "\n%s%s", parts[i].head ? parts[i].head : "", parts[i].head ? ":\n\n" : "");
        aorta_rows_markdown(parts[i].rows, out);
    }
}

void aorta_metrics_schema(struct aorta_json *json) {
    for (const struct aorta_row *row = aorta_step_rows; row->type != AORTA_ROW_END; row++) {
        const struct aorta_row one[] = {*row, {0}};
        if (!row->key || strcmp(row->key, "schema_version") != 0) aorta_rows_schema(one, json);
    }
    aorta_rows_schema_object("device_info", aorta_device_rows, json);
    aorta_rows_schema_object("memory", memory_rows, json);
    aorta_rows_schema_object("device_metrics", reading_rows, json);
    aorta_rows_schema_object("clocks", aorta_clocks_rows, json);
    aorta_rows_schema_object("profile", aorta_profile_rows, json);
    aorta_rows_schema_object("kernel_profile", kernel_profile_rows, json);
}

/* ---- ranges ---- */

/* Bytes per nanosecond are GB/s (10^9 bytes, as nccl-tests print). */
static void put_collective(struct aorta_line_range *line) {
    struct aorta_range_info *info = &line->range.info;
    line->collective = aorta_collective_name(info->collective);
    if (info->group_stride <= 1) info->group_stride = INT_MIN;
    if (line->duration_ns <= 0 || info->bytes <= 0) return;
    line->algbw_gbps = (double)info->bytes / (double)line->duration_ns;
    line->busbw_gbps = line->algbw_gbps * aorta_collective_bus_factor(info->collective, info->group_size);
}

/* Makes members unknown that do not apply to this kind of range, and most that are 0. */
static struct aorta_line_range line_of(const struct aorta_range *range) {
    struct aorta_line_range line = {.range = *range,
                                    .role = (int)range->info.role,
                                    .kind = (int)range->info.kind,
                                    .duration_ns = range->end_ns - range->start_ns,
                                    .algbw_gbps = NAN,
                                    .busbw_gbps = NAN};
    struct aorta_range_info *info = &line.range.info;
    const bool counted = info->flops > 0;
    if ((counted || info->dims[0][0]) && info->dtype < AORTA_DTYPE_COUNT) line.dtype = aorta_dtype_name(info->dtype);
    if (info->kind == AORTA_RANGE_COLLECTIVE) {
        put_collective(&line);
    } else {
        info->group_size = info->group = info->group_stride = INT_MIN;
        line.range.sequence = AORTA_ROW_UNKNOWN;
        info->simulated = false;
    }
    if (!info->number) info->number = INT_MIN;
    if (info->layer < 0) info->layer = INT_MIN;
    if (info->bytes <= 0) info->bytes = AORTA_ROW_UNKNOWN;
    if (!counted) info->flops = NAN;
    if (!counted || !(info->attention_flops > 0)) info->attention_flops = NAN;
    if (!counted || info->attention_bytes <= 0) info->attention_bytes = AORTA_ROW_UNKNOWN;
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

/* Writes the starts of the step and its parts, and the end. */
static void write_markers(struct aorta_json *json, const struct aorta_profile *profile) {
    const struct aorta_marker first = {"step", AORTA_ROLE_COMPUTE, profile->start_ns};
    const struct aorta_marker last = {"end", AORTA_ROLE_COMPUTE, profile->end_ns};
    aorta_json_key_array(json, "markers");
    if (profile->marker_count) write_marker(json, &first, profile->start_ns);
    for (size_t i = 0; i < profile->marker_count; i++) write_marker(json, &profile->markers[i], profile->start_ns);
    if (profile->marker_count) write_marker(json, &last, profile->start_ns);
    aorta_json_array_end(json);
}

/* ---- overlap ---- */

static void write_segments(struct aorta_json *json, const struct aorta_overlap *overlap, int64_t origin_ns) {
    aorta_json_key_array(json, "active_segments");
    for (size_t i = 0; i < overlap->segment_count; i++) {
        const struct aorta_segment *segment = &overlap->segments[i];
        aorta_json_object(json);
        aorta_rows_json(segment_rows, segment, origin_ns, json);
        aorta_json_key_array(json, "active_streams");
        for (int role = 0; role < AORTA_ROLE_COUNT; role++)
            if (segment->roles >> role & 1) aorta_json_string(json, aorta_role_name(role));
        aorta_json_array_end(json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void write_collectives(struct aorta_json *json, const struct aorta_overlap *overlap) {
    aorta_json_key_object(json, "collectives");
    for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++)
        if (overlap->kind[kind].count)
            aorta_rows_object(aorta_collective_name(kind), kind_rows, &overlap->kind[kind], 0, json);
    aorta_json_object_end(json);
}

static void write_overlap_ms(struct aorta_json *json, const struct aorta_overlap *overlap) {
    aorta_json_key_object(json, "overlap_ms");
    aorta_json_key_ms(json, "compute_comm", overlap->overlap_ns);
    for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++)
        if (kind <= AORTA_ALL_GATHER || overlap->kind[kind].count)
            aorta_json_key_ms(json, overlap_keys[kind], overlap->kind[kind].overlap_ns);
    aorta_json_key_ms(json, "idle", overlap->idle_ns);
    aorta_json_object_end(json);
}

static void write_overlap(struct aorta_json *json, const struct aorta_overlap *overlap, int64_t origin_ns) {
    struct aorta_reasons reasons = {0};
    aorta_json_key_object(json, "overlap");
    aorta_rows_json(overlap_by_role_rows, overlap, origin_ns, json);
    write_overlap_ms(json, overlap);
    aorta_rows_members(overlap_rows, overlap, origin_ns, json, &reasons);
    write_collectives(json, overlap);
    write_segments(json, overlap, origin_ns);
    aorta_reasons_json(&reasons, json);
    aorta_json_object_end(json);
}

static void write_profile(struct aorta_json *json, const char *key, const struct aorta_profile *profile) {
    aorta_json_key_object(json, key);
    aorta_rows_json(profile->source == AORTA_SOURCE_KERNEL ? kernel_profile_rows : aorta_profile_rows, profile,
                    profile->start_ns, json);
    aorta_json_key_int(json, "origin_ns", profile->start_ns);
    write_ranges(json, profile);
    write_markers(json, profile);
    aorta_rows_array("host_ranges", aorta_host_rows, profile->host, profile->host_count, sizeof *profile->host,
                     profile->start_ns, json);
    write_overlap(json, &profile->overlap, profile->start_ns);
    aorta_json_object_end(json);
}

/* ---- the device ---- */

/* Writes two lists of rows with the clock's limits in between, or null without a reading. */
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
    aorta_json_key(json, limits_key);
    aorta_clock_limits_json(&reading->values, json);
    if (!reading->values.clock_limits_known)
        aorta_reasons_add(&own, limits_key, "the driver does not report it of this device");
    aorta_rows_members(last_rows, reading, 0, json, &own);
    aorta_reasons_json(&own, json);
    aorta_json_object_end(json);
}

static void write_readings(struct aorta_json *json, struct aorta_reasons *reasons,
                           const struct aorta_step_readings *readings) {
    write_reading(json, reasons, "device_metrics", reading_rows, "clock_limited_by", reading_age_rows,
                  &readings->device_metrics);
    write_reading(json, reasons, "rocm_smi_output", reading_rows, "clock_limited_by", reading_age_rows,
                  &readings->rocm_smi_output);
    write_reading(json, reasons, "clocks", aorta_clocks_rows, "limited_by", aorta_clocks_at_rows, &readings->clocks);
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
    struct aorta_step_metrics line = *metrics;
    line.schema_version = AORTA_METRICS_SCHEMA;
    line.grad_norm_reason = isinf(metrics->grad_norm) ? "the gradients overflowed" : "not computed or not finite";
    aorta_rows_members(aorta_step_rows, &line, 0, json, reasons);
}

aorta_status aorta_metrics_format(const struct aorta_step_metrics *metrics, struct aorta_text *out) {
    struct aorta_json json;
    struct aorta_reasons reasons = {0};
    aorta_json_begin(&json, out, 0);
    aorta_json_object(&json);
    write_step(&json, metrics, &reasons);
    if (metrics->info) write_device(&json, metrics);
    if (metrics->memory) aorta_rows_object("memory", memory_rows, metrics->memory, 0, &json);
    if (metrics->readings) write_readings(&json, &reasons, metrics->readings);
    if (metrics->profile) {
        write_profile(&json, "profile", metrics->profile);
    } else {
        aorta_json_key_null(&json, "profile");
        aorta_reasons_add(&reasons, "profile",
                          metrics->unrecorded ? metrics->unrecorded : "recording was switched off");
    }
    if (metrics->kernel_profile) write_profile(&json, "kernel_profile", metrics->kernel_profile);
    aorta_reasons_json(&reasons, &json);
    aorta_json_object_end(&json);
    return aorta_text_check(out);
}
