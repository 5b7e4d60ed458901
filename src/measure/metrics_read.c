/* One line of rank_RR_metrics.jsonl, by the rows of metrics_format.c. Keys that only this program writes are optional,
 * so that the original toolkit's files are read too. */
#include "measure/metrics_internal.h"
#include "measure/run_files.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kinds of operations ---- */

static const struct {
    const char *name;
    enum aorta_collective kind;
} collective_names[] = {
    {"all_reduce", AORTA_ALL_REDUCE},
    {"reduce_scatter", AORTA_REDUCE_SCATTER},
    {"reduce_scatter_tensor", AORTA_REDUCE_SCATTER},
    {"_reduce_scatter_base", AORTA_REDUCE_SCATTER},
    {"all_gather", AORTA_ALL_GATHER},
    {"all_gather_into_tensor", AORTA_ALL_GATHER},
    {"_all_gather_base", AORTA_ALL_GATHER},
    {"broadcast", AORTA_BROADCAST},
    {"all_to_all", AORTA_ALL_TO_ALL},
    {"all_to_all_single", AORTA_ALL_TO_ALL},
    {"barrier", AORTA_BARRIER},
    {"collective", AORTA_COLLECTIVE_OTHER},
};

static bool find_collective(const char *name, struct aorta_range_info *info) {
    for (size_t i = 0; i < sizeof collective_names / sizeof collective_names[0]; i++) {
        if (strcmp(collective_names[i].name, name) != 0) continue;
        info->collective = collective_names[i].kind;
        return true;
    }
    return false;
}

/* "epoch0_step5_forward" is "forward". */
static const char *without_step(const char *tag) {
    int epoch = 0, step = 0, length = 0;
    return sscanf(tag, "epoch%d_step%d_%n", &epoch, &step, &length) == 2 && length > 0 ? tag + length : tag;
}

/* Guesses the kind if the file does not have it: collectives by function or stream, the input's copy by the function
 * "prefetch".
 */
static enum aorta_range_kind guess_kind(struct aorta_range_info *info) {
    if (find_collective(info->function, info)) return AORTA_RANGE_COLLECTIVE;
    if (info->role == AORTA_ROLE_ALLREDUCE || info->role == AORTA_ROLE_REDUCESCATTER) {
        info->collective = info->role == AORTA_ROLE_ALLREDUCE ? AORTA_ALL_REDUCE : AORTA_REDUCE_SCATTER;
        return AORTA_RANGE_COLLECTIVE;
    }
    return strcmp(info->function, "prefetch") == 0 ? AORTA_RANGE_COPY : AORTA_RANGE_COMPUTE;
}

static aorta_status take_kind(const struct aorta_line_range *line, struct aorta_range_info *info) {
    const bool known = line->kind >= 0;
    info->kind = known ? (enum aorta_range_kind)line->kind : guess_kind(info);
    if (!known || info->kind != AORTA_RANGE_COLLECTIVE) return NULL;
    if (line->collective && find_collective(line->collective, info)) return NULL;
    return AORTA_ERROR(AORTA_FORMAT, "metadata.collective does not name a collective: %s",
                       line->collective ? line->collective : "it is missing");
}

/* ---- ranges ---- */

static aorta_status check_parts(const struct aorta_range_info *info) {
    if (info->attention_flops > info->flops)
        return AORTA_ERROR(AORTA_FORMAT, "metadata.attention_flops is more than flops");
    if (info->attention_bytes > info->bytes)
        return AORTA_ERROR(AORTA_FORMAT, "metadata.attention_bytes is more than bytes");
    return NULL;
}

static const struct aorta_line_range unknown_range = {.range = {.enqueue_ns = AORTA_ROW_UNKNOWN,
                                                                .sequence = -1,
                                                                .stream = INT_MIN,
                                                                .info = {.layer = -1, .group_size = INT_MIN}},
                                                      .kind = -1};

static aorta_status take_range(struct aorta_rows_reader *reader, const struct aorta_line_range *line, int world_size,
                               struct aorta_range *range) {
    struct aorta_range_info *info = &range->info;
    *range = line->range;
    info->role = (enum aorta_role)line->role;
    if (line->dims && !aorta_range_dims_parse(line->dims, info))
        return AORTA_ERROR(AORTA_FORMAT, "metadata.dims is no list of shapes like [[768, 512], [512, 768]]: %s",
                           line->dims);
    enum aorta_dtype dtype;
    info->dtype = line->dtype && aorta_dtype_parse(line->dtype, &dtype) ? dtype : AORTA_DTYPE_COUNT;
    if (!info->function) info->function = aorta_intern(reader->strings, without_step(info->tag));
    if (!info->function) return AORTA_ERROR(AORTA_MEMORY, "no memory for a file's strings");
    if (range->end_ns < range->start_ns)
        return AORTA_ERROR(AORTA_FORMAT, "end_ms is before start_ms (range '%s')", info->tag);
    AORTA_TRY(take_kind(line, info));
    if (info->group_size == INT_MIN) info->group_size = info->kind == AORTA_RANGE_COLLECTIVE ? world_size : 0;
    if (range->stream == INT_MIN) range->stream = (int)info->role;
    return check_parts(info);
}

static aorta_status read_range(struct aorta_rows_reader *reader, struct aorta_json_value value, int world_size,
                               struct aorta_range *range) {
    struct aorta_line_range line = unknown_range;
    struct aorta_fields object;
    AORTA_TRY(aorta_fields_read(reader->line, value, &object));
    AORTA_TRY(aorta_rows_read(reader, &object, "", aorta_range_rows, &line));
    return take_range(reader, &line, world_size, range);
}

/* Numbers collectives by their order if the file does not number them. */
static void number_collectives(struct aorta_profile *profile) {
    int64_t next[AORTA_ROLE_COUNT][AORTA_COLLECTIVE_COUNT] = {0};
    for (size_t i = 0; i < profile->range_count; i++) {
        struct aorta_range *range = &profile->ranges[i];
        int64_t *number = &next[range->info.role][range->info.collective];
        if (range->info.kind == AORTA_RANGE_COLLECTIVE && range->sequence < 0) range->sequence = (*number)++;
    }
}

/* Allocates zeroed space for a key's elements and one more, so that an empty list is not NULL. */
static aorta_status get_list(const struct aorta_rows_reader *reader, const struct aorta_fields *object, const char *key,
                             size_t size, void **list, struct aorta_json_cursor *cursor) {
    const struct aorta_json_value *field = aorta_fields_get(object, key);
    size_t count = 0;
    *cursor = (struct aorta_json_cursor){0};
    if (field && !aorta_json_key_is(*field, "null")) {
        AORTA_TRY(aorta_annotate(aorta_elements_count(reader->line, *field, &count), "%s", key));
        *cursor = aorta_json_elements(*field);
    }
    *list = calloc(count + 1, size);
    return *list ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for %zu %s", count, key);
}

static aorta_status read_ranges(struct aorta_rows_reader *reader, const struct aorta_fields *object, int world_size,
                                struct aorta_profile *profile) {
    struct aorta_json_cursor cursor;
    struct aorta_json_value value;
    AORTA_TRY(get_list(reader, object, "ranges", sizeof *profile->ranges, (void **)&profile->ranges, &cursor));
    profile->start_ns = profile->end_ns = reader->origin_ns;
    for (size_t i = 0; aorta_json_next_element(&cursor, &value); i++) {
        struct aorta_range *range = &profile->ranges[i];
        AORTA_TRY(aorta_annotate(read_range(reader, value, world_size, range), "ranges[%zu]", i));
        if (i == 0 || range->start_ns < profile->start_ns) profile->start_ns = range->start_ns;
        if (i == 0 || range->end_ns > profile->end_ns) profile->end_ns = range->end_ns;
        profile->range_count++;
    }
    number_collectives(profile);
    return NULL;
}

/* An array of objects that have nothing but their rows. */
static aorta_status read_list(struct aorta_rows_reader *reader, const struct aorta_fields *object, const char *key,
                              const struct aorta_row *rows, size_t size, void **list, size_t *count) {
    struct aorta_json_cursor cursor;
    struct aorta_json_value value;
    struct aorta_fields fields;
    AORTA_TRY(get_list(reader, object, key, size, list, &cursor));
    for (; aorta_json_next_element(&cursor, &value); ++*count) {
        aorta_status status = aorta_fields_read(reader->line, value, &fields);
        if (!status) status = aorta_rows_read(reader, &fields, "", rows, (char *)*list + *count * size);
        if (status) return aorta_annotate(status, "%s[%zu]", key, *count);
    }
    return NULL;
}

static aorta_status read_profile(struct aorta_rows_reader *reader, const struct aorta_fields *object,
                                 const struct aorta_step_metrics *step, struct aorta_profile *profile) {
    static const struct aorta_row origin_rows[] = {{"origin_ns", AORTA_ROW_INT, 0, .low = -2e18, .high = 2e18}, {0}};
    profile->index = step->global_step;
    reader->origin_ns = 0;
    AORTA_TRY(aorta_rows_read(reader, object, "", aorta_profile_rows, profile));
    AORTA_TRY(aorta_rows_read(reader, object, "", origin_rows, &reader->origin_ns));
    profile->own_clock = !aorta_fields_get(object, "origin_ns");
    AORTA_TRY(read_ranges(reader, object, step->world_size, profile));
    AORTA_TRY(read_list(reader, object, "markers", aorta_marker_rows, sizeof *profile->markers,
                        (void **)&profile->markers, &profile->marker_count));
    return read_list(reader, object, "host_ranges", aorta_host_rows, sizeof *profile->host, (void **)&profile->host,
                     &profile->host_count);
}

/* ---- overlap ---- */

/* Values of the line about the previous iteration. NaN: unknown. */
struct place {
    double lead_ms, span_ms;
};

/* End of the previous iteration. INT64_MIN if unknown or irrelevant. */
static int64_t end_before(const struct aorta_profile *profile, struct place place) {
    const int64_t span_ns =
        place.span_ms >= 0 && place.span_ms < 1e9 ? (int64_t)(place.span_ms * 1e6 + 0.5) : INT64_MAX;
    if (profile->own_clock || !profile->range_count) return INT64_MIN;
    if (place.lead_ms > 0 && place.lead_ms < 1e9) return profile->start_ns - (int64_t)(place.lead_ms * 1e6 + 0.5);
    return span_ns < profile->end_ns - profile->start_ns ? profile->end_ns - span_ns : INT64_MIN;
}

static aorta_status read_overlap(struct aorta_rows_reader *reader, const struct aorta_fields *object,
                                 struct aorta_profile *profile) {
    static const struct aorta_row rows[] = {
        {.key = "lead_ms", .type = AORTA_ROW_NUMBER, .offset = offsetof(struct place, lead_ms)},
        {.key = "span_ms", .type = AORTA_ROW_NUMBER, .offset = offsetof(struct place, span_ms)},
        {0}};
    struct place place = {NAN, NAN};
    struct aorta_fields overlap;
    AORTA_TRY(aorta_rows_read_object(reader, object, "overlap", &overlap));
    AORTA_TRY(aorta_rows_read(reader, &overlap, "overlap.", rows, &place));
    return aorta_overlap_compute(profile, end_before(profile, place));
}

/* ---- the views ---- */

/* *view is the step's, also after a failure. */
static aorta_status read_view(struct aorta_rows_reader *reader, struct aorta_json_value value, bool of_kernels,
                              const struct aorta_step_metrics *step, struct aorta_profile **view) {
    struct aorta_fields object;
    struct aorta_profile *profile = *view = calloc(1, sizeof *profile);
    if (!profile) return AORTA_ERROR(AORTA_MEMORY, "no memory for the ranges of a step");
    AORTA_TRY(aorta_fields_read(reader->line, value, &object));
    if (of_kernels && !aorta_fields_get(&object, "ranges")) return AORTA_ERROR(AORTA_FORMAT, "ranges is missing");
    AORTA_TRY(read_profile(reader, &object, step, profile));
    AORTA_TRY(read_overlap(reader, &object, profile));
    if (!of_kernels) return NULL;
    profile->source = AORTA_SOURCE_KERNEL;
    return aorta_rows_read(reader, &object, "", aorta_kernel_facts_rows, &profile->kernels);
}

static aorta_status read_views(struct aorta_rows_reader *reader, const struct aorta_fields *object, bool with_ranges,
                               struct aorta_step_metrics *step) {
    const struct aorta_json_value *ranges = aorta_fields_get(object, "profile");
    const struct aorta_json_value *kernels = aorta_fields_get(object, "kernel_profile");
    if (!ranges || aorta_json_key_is(*ranges, "null")) return NULL;
    step->recorded = true;
    if (!with_ranges) return NULL;
    AORTA_TRY(aorta_annotate(read_view(reader, *ranges, false, step, &step->profile), "profile"));
    if (!kernels) return NULL;
    return aorta_annotate(read_view(reader, *kernels, true, step, &step->kernel_profile), "kernel_profile");
}

/* ---- the device ---- */

/* Why nothing was measured. */
static aorta_status read_no_clocks(struct aorta_rows_reader *reader, const struct aorta_fields *object,
                                   struct aorta_device_metrics *values) {
    static const struct aorta_row reason_rows[] = {{.key = "clocks", .type = AORTA_ROW_TEXT}, {0}};
    const char *reason = "the files do not say why";
    struct aorta_fields reasons;
    AORTA_TRY(aorta_rows_read_object(reader, object, "null_reasons", &reasons));
    AORTA_TRY(aorta_rows_read(reader, &reasons, "null_reasons.", reason_rows, (void *)&reason));
    *values = aorta_device_unmeasured(reason);
    return NULL;
}

static aorta_status read_clocks(struct aorta_rows_reader *reader, const struct aorta_fields *object,
                                struct aorta_arena *arena, struct aorta_step_metrics *step) {
    static const char path[] = "clocks.";
    const struct aorta_json_value *found = aorta_fields_get(object, "clocks");
    struct aorta_fields clocks;
    if (!found) return NULL;
    struct aorta_step_readings *readings = aorta_arena_alloc(arena, sizeof *readings);
    AORTA_TRY(aorta_arena_check(arena, "the clocks of a step"));
    struct aorta_device_metrics *values = &readings->clocks.values;
    step->readings = readings;
    if (aorta_json_key_is(*found, "null")) return read_no_clocks(reader, object, values);
    if (*found->text != '{') return AORTA_ERROR(AORTA_FORMAT, "clocks is neither an object nor null");
    *values = aorta_device_unmeasured("");
    AORTA_TRY(aorta_rows_read_object(reader, object, "clocks", &clocks));
    AORTA_TRY(aorta_rows_read(reader, &clocks, path, aorta_clocks_rows, &readings->clocks));
    AORTA_TRY(aorta_rows_read(reader, &clocks, path, aorta_clocks_at_rows, &readings->clocks));
    if (isnan(values->sm_clock_mhz))
        snprintf(values->reason, sizeof values->reason, "the driver does not report the clock of this device");
    return aorta_clock_limits_read(reader, aorta_fields_get(&clocks, "limited_by"), "clocks.limited_by", values);
}

static aorta_status read_device(struct aorta_rows_reader *reader, const struct aorta_fields *object,
                                struct aorta_metrics_device *device) {
    struct aorta_fields info, peaks;
    *device = (struct aorta_metrics_device){.memory_bytes = -1, .multiprocessors = -1};
    for (int i = 0; i < AORTA_ARITHMETIC_COUNT; i++) device->peaks.tflops[i] = NAN;
    device->peaks.gbytes_per_s = device->peaks.cost_ms = NAN;
    AORTA_TRY(aorta_rows_read_object(reader, object, "device_info", &info));
    AORTA_TRY(aorta_rows_read(reader, &info, "device_info.", aorta_device_rows, device));
    AORTA_TRY(aorta_rows_read_object(reader, &info, "measured_peaks", &peaks));
    AORTA_TRY(aorta_rows_read(reader, &peaks, "device_info.measured_peaks.", aorta_peaks_rows, &device->peaks));
    for (int i = 0; i < AORTA_ARITHMETIC_COUNT; i++)
        if (!(device->peaks.tflops[i] > 0)) device->peaks.tflops[i] = NAN;
    device->measured = device->peaks.gbytes_per_s > 0;
    return NULL;
}

/* ---- the line ---- */

/* Before all else: a later version may have other keys. */
static aorta_status check_version(struct aorta_rows_reader *reader, const struct aorta_fields *object) {
    static const struct aorta_row rows[] = {{.key = "schema_version", .type = AORTA_ROW_INT}, {0}};
    int64_t version = 0;
    AORTA_TRY(aorta_rows_read(reader, object, "", rows, &version));
    if (version <= AORTA_METRICS_SCHEMA) return NULL;
    return AORTA_ERROR(AORTA_FORMAT, "schema_version is %lld; this program reads up to %d", (long long)version,
                       AORTA_METRICS_SCHEMA);
}

static aorta_status read_step(struct aorta_rows_reader *reader, const struct aorta_fields *object,
                              struct aorta_step_metrics *step) {
    *step = (struct aorta_step_metrics){.loss = NAN,
                                        .grad_norm = NAN,
                                        .lr = NAN,
                                        .samples_per_s = NAN,
                                        .data_wait_ms = NAN,
                                        .step_ms = NAN,
                                        .loss_scale = NAN};
    AORTA_TRY(check_version(reader, object));
    AORTA_TRY(aorta_rows_read(reader, object, "", aorta_step_rows, step));
    if (step->world_size < 1 || step->world_size > 1000000 || step->rank < 0 || step->rank >= step->world_size)
        return AORTA_ERROR(AORTA_FORMAT, "rank %d of world_size %d cannot be", step->rank, step->world_size);
    return NULL;
}

static aorta_status check_origin(const struct aorta_step_metrics *step, struct aorta_run *run) {
    const bool original = step->schema_version == 0;
    if (run->step_count && run->original != original)
        return AORTA_ERROR(AORTA_FORMAT, "the line is %s, the lines before are not: files of different runs",
                           original ? "the original Python toolkit's" : "aorta's");
    run->original = original;
    return NULL;
}

static aorta_status read_line(struct aorta_rows_reader *reader, size_t length, bool with_ranges, struct aorta_run *run,
                              struct aorta_step_metrics *step) {
    struct aorta_json_value value;
    struct aorta_fields object;
    struct aorta_metrics_device info;
    AORTA_TRY(aorta_line_value(reader->line, length, &value));
    if (*value.text != '{') return AORTA_ERROR(AORTA_FORMAT, "the line is not a JSON object");
    AORTA_TRY(aorta_fields_read(reader->line, value, &object));
    AORTA_TRY(read_step(reader, &object, step));
    AORTA_TRY(read_clocks(reader, &object, &run->arena, step));
    AORTA_TRY(read_device(reader, &object, &info));
    AORTA_TRY(read_views(reader, &object, with_ranges, step));
    if (step->device) run->device = step->device;
    if (!run->info.name) run->info = info;
    run->simulated |= step->simulated;
    return check_origin(step, run);
}

aorta_status aorta_run_parse_line(const char *line, size_t length, bool with_ranges, struct aorta_run *run,
                                  struct aorta_step_metrics *step) {
    struct aorta_rows_reader reader = {.line = line, .strings = &run->strings};
    memset(step, 0, sizeof *step);
    aorta_status status = read_line(&reader, length, with_ranges, run, step);
    aorta_text_free(&reader.scratch);
    if (status) aorta_run_step_free(step);
    return status;
}

static void free_view(struct aorta_profile *view) {
    if (view) aorta_profile_free(view);
    free(view);
}

void aorta_run_step_free(struct aorta_step_metrics *step) {
    free_view(step->profile);
    free_view(step->kernel_profile);
    memset(step, 0, sizeof *step);
}
