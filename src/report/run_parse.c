/* One line of rank_RR_metrics.jsonl. Keys that only this program writes are optional, so that the original toolkit's
 * files are read too. */
#include "base/printable.h"
#include "measure/clocks.h"
#include "report/fields.h"
#include "report/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Times beyond thirty years and sizes beyond a petabyte are damage; below, sums cannot overflow. */
static const int64_t time_limit_ns = 1000000000000000000;
static const double time_limit_ms = 1e12;
static const int64_t bytes_limit = 1000000000000000;

/* The line that is read and the run that it is of. */
struct reader {
    const char *line;
    struct aorta_run *run;
    bool with_ranges;
    struct aorta_text scratch;
};

/* ---- typed access, errors with the path ---- */

static bool is_null(const struct aorta_json_value *value) {
    return value && aorta_value_is(*value, "null");
}

static bool get_flag(const struct aorta_fields *object, const char *key) {
    const struct aorta_json_value *value = aorta_fields_get(object, key);
    return value && aorta_value_is(*value, "true");
}

static aorta_status find_number(const struct aorta_fields *object, const char *key, const char *path,
                                const struct aorta_json_value **number) {
    *number = aorta_fields_get(object, key);
    if (!*number) return AORTA_ERROR(AORTA_FORMAT, "%s%s is missing", path, key);
    if (aorta_value_is_number(**number)) return NULL;
    return AORTA_ERROR(AORTA_FORMAT, "%s%s is not a number", path, key);
}

/* NaN when the key is absent or null, or no finite number. */
static aorta_status get_optional(const struct aorta_fields *object, const char *key, const char *path, double *value) {
    const struct aorta_json_value *field = aorta_fields_get(object, key);
    *value = NAN;
    if (!field || is_null(field)) return NULL;
    AORTA_TRY(find_number(object, key, path, &field));
    *value = aorta_value_number(*field);
    if (isinf(*value)) *value = NAN;
    return NULL;
}

static aorta_status get_integer(const struct aorta_fields *object, const char *key, const char *path, int64_t *value) {
    const struct aorta_json_value *field = aorta_fields_get(object, key);
    if (!field) return AORTA_ERROR(AORTA_FORMAT, "%s%s is missing", path, key);
    if (aorta_value_is_number(*field) && aorta_json_get_int(*field, value)) return NULL;
    return AORTA_ERROR(AORTA_FORMAT, "%s%s is not an integer", path, key);
}

static aorta_status get_optional_integer(const struct aorta_fields *object, const char *key, const char *path,
                                         int64_t fallback, int64_t *value) {
    *value = fallback;
    return aorta_fields_get(object, key) ? get_integer(object, key, path, value) : NULL;
}

static bool is_utf8(struct aorta_json_value string) {
    for (size_t at = 0, length; at < string.length; at += length) {
        length = aorta_json_utf8_length(string.text + at, string.length - at);
        if (!length || !string.text[at]) return false;
    }
    return true;
}

/* A string that lives as long as the run. `key` names it. */
static aorta_status keep(struct reader *reader, struct aorta_json_value value, const char *key, const char **word) {
    struct aorta_json_value string;
    reader->scratch.length = 0;
    if (!aorta_json_get_string(value, &reader->scratch, &string)) return aorta_text_check(&reader->scratch);
    if (!is_utf8(string)) return AORTA_ERROR(AORTA_FORMAT, "%s holds bytes that are no text in UTF-8", key);
    char *copy = aorta_is_printable(string.text, string.length, false) ? NULL : strndup(string.text, string.length);
    if (copy) aorta_make_printable(copy, string.length, false);
    *word = aorta_intern_slice(&reader->run->strings, copy ? copy : string.text, string.length);
    free(copy);
    return *word ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for a run's strings");
}

/* NULL when there is no string under the key. */
static aorta_status get_word(struct reader *reader, const struct aorta_fields *object, const char *key,
                             const char **word) {
    const struct aorta_json_value *field = aorta_fields_get(object, key);
    *word = NULL;
    return field && aorta_json_is_string(*field) ? keep(reader, *field, key, word) : NULL;
}

static aorta_status get_string(struct reader *reader, const struct aorta_fields *object, const char *key,
                               const char **value) {
    AORTA_TRY(get_word(reader, object, key, value));
    return *value ? NULL : AORTA_ERROR(AORTA_FORMAT, "%s is missing or not a string", key);
}

static aorta_status get_time(const struct aorta_fields *object, const char *key, const char *path, int64_t origin_ns,
                             int64_t *time_ns) {
    const struct aorta_json_value *field;
    AORTA_TRY(find_number(object, key, path, &field));
    if (!aorta_json_get_scaled(*field, 6, time_ns) || llabs(*time_ns) > time_limit_ns)
        return AORTA_ERROR(AORTA_FORMAT, "%s%s is not a time: %g", path, key, aorta_value_number(*field));
    *time_ns += origin_ns;
    return NULL;
}

/* The object under a key; empty when there is none. */
static aorta_status get_object(const struct reader *reader, const struct aorta_fields *object, const char *key,
                               struct aorta_fields *members) {
    const struct aorta_json_value *field = aorta_fields_get(object, key);
    members->count = 0;
    if (!field || is_null(field)) return NULL;
    return aorta_annotate(aorta_fields_read(reader->line, *field, members), "%s", key);
}

/* The elements under a key, zeroed, and one more, so that none is no failure. */
static aorta_status get_list(const struct reader *reader, const struct aorta_fields *object, const char *key,
                             size_t size, void **list, struct aorta_json_cursor *cursor) {
    const struct aorta_json_value *field = aorta_fields_get(object, key);
    size_t count = 0;
    *cursor = (struct aorta_json_cursor){0};
    if (field && !is_null(field)) {
        AORTA_TRY(aorta_annotate(aorta_elements_count(reader->line, *field, &count), "%s", key));
        *cursor = aorta_json_elements(*field);
    }
    *list = calloc(count + 1, size);
    return *list ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for %zu %s", count, key);
}

/* ---- what an operation is ---- */

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

static bool find_collective(const char *name, enum aorta_collective *kind) {
    for (size_t i = 0; i < sizeof collective_names / sizeof collective_names[0]; i++) {
        if (strcmp(collective_names[i].name, name) != 0) continue;
        *kind = collective_names[i].kind;
        return true;
    }
    return false;
}

/* "epoch0_step5_forward" is "forward". */
static const char *without_step(const char *tag) {
    int epoch = 0, step = 0, length = 0;
    return sscanf(tag, "epoch%d_step%d_%n", &epoch, &step, &length) == 2 && length > 0 ? tag + length : tag;
}

static aorta_status find_role(const char *name, enum aorta_role *role) {
    for (int i = 0; i < AORTA_ROLE_COUNT; i++) {
        *role = (enum aorta_role)i;
        if (strcmp(aorta_role_name(*role), name) == 0) return NULL;
    }
    return AORTA_ERROR(AORTA_FORMAT, "stream is \"%s\"; known are compute, allreduce, reducescatter and aux", name);
}

/* Files that do not name the kind: collectives by their function or stream, the input's way to the device by its tag.
 */
static enum aorta_range_kind guess_kind(struct aorta_range_info *info) {
    if (find_collective(info->function, &info->collective)) return AORTA_RANGE_COLLECTIVE;
    if (info->role == AORTA_ROLE_ALLREDUCE || info->role == AORTA_ROLE_REDUCESCATTER) {
        info->collective = info->role == AORTA_ROLE_ALLREDUCE ? AORTA_ALL_REDUCE : AORTA_REDUCE_SCATTER;
        return AORTA_RANGE_COLLECTIVE;
    }
    return strcmp(info->function, "prefetch") == 0 ? AORTA_RANGE_COPY : AORTA_RANGE_COMPUTE;
}

static aorta_status read_kind(struct reader *reader, const struct aorta_fields *metadata,
                              struct aorta_range_info *info) {
    const char *kind, *name;
    AORTA_TRY(get_word(reader, metadata, "kind", &kind));
    if (!kind) {
        info->kind = guess_kind(info);
        return NULL;
    }
    info->kind = strcmp(kind, "copy") == 0 ? AORTA_RANGE_COPY : AORTA_RANGE_COMPUTE;
    if (strcmp(kind, "compute") == 0 || strcmp(kind, "copy") == 0) return NULL;
    if (strcmp(kind, "collective") != 0)
        return AORTA_ERROR(AORTA_FORMAT, "metadata.kind is \"%s\"; known are compute, collective and copy", kind);
    info->kind = AORTA_RANGE_COLLECTIVE;
    AORTA_TRY(get_word(reader, metadata, "collective", &name));
    if (name && find_collective(name, &info->collective)) return NULL;
    return AORTA_ERROR(AORTA_FORMAT, "metadata.collective does not name a collective: %s",
                       name ? name : "it is missing");
}

/* ---- ranges ---- */

static aorta_status read_numbers(const struct aorta_fields *metadata, const struct aorta_run_step *step,
                                 struct aorta_range *range) {
    static const char path[] = "metadata.";
    struct aorta_range_info *info = &range->info;
    bool collective = info->kind == AORTA_RANGE_COLLECTIVE;
    int64_t layer = 0, group_size = 0, group = 0, stride = 0, queue = 0;
    AORTA_TRY(get_optional_integer(metadata, "layer", path, -1, &layer));
    AORTA_TRY(get_optional_integer(metadata, "bytes", path, 0, &info->bytes));
    AORTA_TRY(get_optional_integer(metadata, "group_size", path, collective ? step->world_size : 0, &group_size));
    AORTA_TRY(get_optional_integer(metadata, "group", path, 0, &group));
    AORTA_TRY(get_optional_integer(metadata, "group_stride", path, 0, &stride));
    AORTA_TRY(get_optional_integer(metadata, "queue", path, info->role, &queue));
    AORTA_TRY(get_optional_integer(metadata, "sequence", path, -1, &range->sequence));
    AORTA_TRY(get_optional(metadata, "flops", path, &info->flops));
    if (isnan(info->flops)) info->flops = 0;
    AORTA_TRY(get_optional(metadata, "attention_flops", path, &info->attention_flops));
    if (isnan(info->attention_flops)) info->attention_flops = 0;
    AORTA_TRY(get_optional_integer(metadata, "attention_bytes", path, 0, &info->attention_bytes));
    if (info->attention_flops < 0 || info->attention_flops > info->flops || info->attention_bytes < 0 ||
        info->attention_bytes > info->bytes || info->bytes < 0 || info->bytes > bytes_limit || info->flops < 0 ||
        isinf(info->flops) || group_size < 0 || group_size > INT32_MAX || group < 0 || group > INT32_MAX ||
        stride < 0 || stride > INT32_MAX || layer < -1 || layer > INT32_MAX || queue < 0 || queue > INT32_MAX)
        return AORTA_ERROR(AORTA_FORMAT, "metadata holds a number that cannot be");
    info->layer = (int)layer;
    info->group_size = (int)group_size;
    info->group = (int)group;
    info->group_stride = (int)stride;
    range->stream = (int)queue;
    info->simulated = get_flag(metadata, "simulated");
    return NULL;
}

static aorta_status read_names(struct reader *reader, const struct aorta_fields *object,
                               const struct aorta_fields *metadata, struct aorta_range_info *info) {
    const char *stream, *short_tag, *dtype;
    AORTA_TRY(get_string(reader, object, "stream", &stream));
    AORTA_TRY(get_string(reader, object, "tag", &info->tag));
    AORTA_TRY(find_role(stream, &info->role));
    AORTA_TRY(get_word(reader, metadata, "range", &info->within));
    AORTA_TRY(get_word(reader, metadata, "dtype", &dtype));
    if (!dtype || !aorta_dtype_parse(dtype, &info->dtype)) info->dtype = AORTA_DTYPE_COUNT;
    AORTA_TRY(get_word(reader, metadata, "function", &info->function));
    if (info->function) return NULL;
    short_tag = without_step(info->tag);
    info->function = aorta_intern(&reader->run->strings, short_tag);
    return info->function ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for a run's strings");
}

static aorta_status read_times(const struct aorta_fields *object, const struct aorta_fields *metadata,
                               int64_t origin_ns, struct aorta_range *range) {
    AORTA_TRY(get_time(object, "start_ms", "", origin_ns, &range->start_ns));
    AORTA_TRY(get_time(object, "end_ms", "", origin_ns, &range->end_ns));
    if (range->end_ns < range->start_ns)
        return AORTA_ERROR(AORTA_FORMAT, "end_ms lies before start_ms (range '%s')", range->info.tag);
    range->enqueue_ns = INT64_MIN;
    if (!aorta_fields_get(metadata, "enqueue_ms")) return NULL;
    return get_time(metadata, "enqueue_ms", "metadata.", origin_ns, &range->enqueue_ns);
}

static aorta_status read_range(struct reader *reader, struct aorta_json_value value, int64_t origin_ns,
                               const struct aorta_run_step *step, struct aorta_range *range) {
    struct aorta_fields object, metadata;
    AORTA_TRY(aorta_fields_read(reader->line, value, &object));
    AORTA_TRY(get_object(reader, &object, "metadata", &metadata));
    AORTA_TRY(read_names(reader, &object, &metadata, &range->info));
    AORTA_TRY(read_times(&object, &metadata, origin_ns, range));
    AORTA_TRY(read_kind(reader, &metadata, &range->info));
    return read_numbers(&metadata, step, range);
}

/* Where the file does not number the collectives, their order does. */
static void number_collectives(struct aorta_profile *profile) {
    int64_t next[AORTA_ROLE_COUNT][AORTA_COLLECTIVE_COUNT] = {0};
    for (size_t i = 0; i < profile->range_count; i++) {
        struct aorta_range *range = &profile->ranges[i];
        int64_t *number = &next[range->info.role][range->info.collective];
        if (range->info.kind == AORTA_RANGE_COLLECTIVE && range->sequence < 0) range->sequence = (*number)++;
    }
}

static aorta_status read_ranges(struct reader *reader, const struct aorta_fields *object, int64_t origin_ns,
                                const struct aorta_run_step *step, struct aorta_profile *profile) {
    struct aorta_json_cursor cursor;
    struct aorta_json_value value;
    AORTA_TRY(get_list(reader, object, "ranges", sizeof *profile->ranges, (void **)&profile->ranges, &cursor));
    profile->start_ns = profile->end_ns = origin_ns;
    for (size_t i = 0; aorta_json_next_element(&cursor, &value); i++) {
        struct aorta_range *range = &profile->ranges[i];
        AORTA_TRY(aorta_annotate(read_range(reader, value, origin_ns, step, range), "ranges[%zu]", i));
        if (i == 0 || range->start_ns < profile->start_ns) profile->start_ns = range->start_ns;
        if (i == 0 || range->end_ns > profile->end_ns) profile->end_ns = range->end_ns;
        profile->range_count++;
    }
    number_collectives(profile);
    return NULL;
}

static aorta_status read_marker(struct reader *reader, struct aorta_json_value value, int64_t origin_ns,
                                struct aorta_marker *marker) {
    struct aorta_fields object;
    const char *stream;
    AORTA_TRY(aorta_fields_read(reader->line, value, &object));
    AORTA_TRY(get_string(reader, &object, "stream", &stream));
    AORTA_TRY(get_string(reader, &object, "tag", &marker->tag));
    AORTA_TRY(find_role(stream, &marker->role));
    return get_time(&object, "time_ms", "", origin_ns, &marker->time_ns);
}

static aorta_status read_markers(struct reader *reader, const struct aorta_fields *object, int64_t origin_ns,
                                 struct aorta_profile *profile) {
    struct aorta_json_cursor cursor;
    struct aorta_json_value value;
    AORTA_TRY(get_list(reader, object, "markers", sizeof *profile->markers, (void **)&profile->markers, &cursor));
    for (size_t i = 0; aorta_json_next_element(&cursor, &value); i++) {
        AORTA_TRY(aorta_annotate(read_marker(reader, value, origin_ns, &profile->markers[i]), "markers[%zu]", i));
        profile->marker_count++;
    }
    return NULL;
}

static aorta_status read_host_range(struct reader *reader, struct aorta_json_value value, int64_t origin_ns,
                                    struct aorta_host_range *range) {
    struct aorta_fields object;
    const char *kind;
    AORTA_TRY(aorta_fields_read(reader->line, value, &object));
    AORTA_TRY(get_string(reader, &object, "kind", &kind));
    for (range->kind = 0; strcmp(kind, aorta_host_kind_name(range->kind)) != 0; range->kind++)
        if (range->kind == AORTA_HOST_KIND_COUNT - 1)
            return AORTA_ERROR(AORTA_FORMAT, "kind is \"%s\"; known are data_wait, host_sync and allocation", kind);
    AORTA_TRY(get_time(&object, "start_ms", "", origin_ns, &range->start_ns));
    return get_time(&object, "end_ms", "", origin_ns, &range->end_ns);
}

static aorta_status read_host(struct reader *reader, const struct aorta_fields *object, int64_t origin_ns,
                              struct aorta_profile *profile) {
    struct aorta_json_cursor cursor;
    struct aorta_json_value value;
    AORTA_TRY(get_list(reader, object, "host_ranges", sizeof *profile->host, (void **)&profile->host, &cursor));
    for (size_t i = 0; aorta_json_next_element(&cursor, &value); i++) {
        AORTA_TRY(aorta_annotate(read_host_range(reader, value, origin_ns, &profile->host[i]), "host_ranges[%zu]", i));
        profile->host_count++;
    }
    return NULL;
}

/* What only a kernel view has. */
static aorta_status read_kernel_facts(const struct aorta_fields *object, struct aorta_kernel_facts *facts) {
    double offset_ms = NAN, stamps_ms = NAN;
    AORTA_TRY(get_optional_integer(object, "attributed", "", 0, &facts->attributed));
    AORTA_TRY(get_optional_integer(object, "dropped", "", 0, &facts->dropped));
    AORTA_TRY(get_optional_integer(object, "launches", "", 0, &facts->launches));
    AORTA_TRY(get_optional_integer(object, "stamps", "", 0, &facts->stamp_count));
    AORTA_TRY(get_optional(object, "clock_offset_ms", "", &offset_ms));
    AORTA_TRY(get_optional(object, "stamps_ms", "", &stamps_ms));
    if (fabs(offset_ms) > time_limit_ms || fabs(stamps_ms) > time_limit_ms || facts->attributed < 0 ||
        facts->attributed > INT32_MAX || facts->dropped < 0 || facts->dropped > bytes_limit || facts->stamp_count < 0 ||
        facts->launches < 0 || facts->launches > INT32_MAX)
        return AORTA_ERROR(AORTA_FORMAT, "it holds a number that cannot be");
    if (!isnan(offset_ms)) facts->clock_offset_ns = llround(offset_ms * 1e6);
    if (!isnan(stamps_ms)) facts->stamp_ns = llround(stamps_ms * 1e6);
    return NULL;
}

static aorta_status read_profile(struct reader *reader, const struct aorta_fields *object,
                                 const struct aorta_run_step *step, struct aorta_profile *profile) {
    int64_t origin_ns = 0;
    AORTA_TRY(get_optional_integer(object, "index", "", step->global_step, &profile->index));
    AORTA_TRY(get_optional_integer(object, "origin_ns", "", 0, &origin_ns));
    if (origin_ns < INT64_MIN / 4 || origin_ns > INT64_MAX / 4)
        return AORTA_ERROR(AORTA_FORMAT, "origin_ns is not a time: %lld", (long long)origin_ns);
    profile->own_clock = !aorta_fields_get(object, "origin_ns");
    AORTA_TRY(read_ranges(reader, object, origin_ns, step, profile));
    AORTA_TRY(read_markers(reader, object, origin_ns, profile));
    return read_host(reader, object, origin_ns, profile);
}

static bool follows(const struct aorta_run_step *previous, const struct aorta_run_step *step) {
    return previous && previous->global_step < step->global_step && step->global_step - 1 == previous->global_step &&
           !step->profile.own_clock && !previous->profile.own_clock;
}

/* When the iteration before had ended; INT64_MIN: not known. Where that was not recorded the line itself says how long
 * before this one. */
static aorta_status end_before(const struct reader *reader, const struct aorta_fields *ranges,
                               const struct aorta_run_step *previous, const struct aorta_run_step *step,
                               int64_t *end_ns) {
    struct aorta_fields overlap;
    double lead_ms = 0.0;
    *end_ns = INT64_MIN;
    if (!follows(previous, step)) return NULL;
    if (previous->profile.range_count) *end_ns = previous->profile.end_ns;
    if (previous->profiled) return NULL;
    AORTA_TRY(get_object(reader, ranges, "overlap", &overlap));
    AORTA_TRY(get_optional(&overlap, "lead_ms", "overlap.", &lead_ms));
    *end_ns = lead_ms > 0.0 && lead_ms < 1e9 ? step->profile.start_ns - (int64_t)(lead_ms * 1e6 + 0.5) : INT64_MIN;
    return NULL;
}

static aorta_status read_range_view(struct reader *reader, struct aorta_json_value value,
                                    const struct aorta_run_step *previous, struct aorta_run_step *step) {
    struct aorta_fields object;
    int64_t previous_ns;
    AORTA_TRY(aorta_fields_read(reader->line, value, &object));
    AORTA_TRY(read_profile(reader, &object, step, &step->profile));
    AORTA_TRY(end_before(reader, &object, previous, step, &previous_ns));
    step->profiled = true;
    return aorta_overlap_compute(&step->profile, previous_ns, &step->overlap);
}

static aorta_status read_kernel_view(struct reader *reader, struct aorta_json_value value,
                                     const struct aorta_run_step *previous, struct aorta_run_step *step) {
    struct aorta_fields object;
    step->kernel_profile.source = AORTA_SOURCE_KERNEL;
    AORTA_TRY(aorta_fields_read(reader->line, value, &object));
    if (!aorta_fields_get(&object, "ranges")) return AORTA_ERROR(AORTA_FORMAT, "ranges is missing");
    AORTA_TRY(read_profile(reader, &object, step, &step->kernel_profile));
    AORTA_TRY(read_kernel_facts(&object, &step->kernel_profile.kernels));
    const bool seen = follows(previous, step) && previous->traced && previous->kernel_profile.range_count;
    step->traced = true;
    return aorta_overlap_compute(&step->kernel_profile, seen ? previous->kernel_profile.end_ns : INT64_MIN,
                                 &step->kernel_overlap);
}

static aorta_status read_views(struct reader *reader, const struct aorta_fields *object,
                               const struct aorta_run_step *previous, struct aorta_run_step *step) {
    const struct aorta_json_value *ranges = aorta_fields_get(object, "profile");
    const struct aorta_json_value *kernels = aorta_fields_get(object, "kernel_profile");
    if (!ranges || is_null(ranges)) return NULL;
    step->recorded = true;
    if (!reader->with_ranges) return NULL;
    AORTA_TRY(aorta_annotate(read_range_view(reader, *ranges, previous, step), "profile"));
    if (!kernels) return NULL;
    return aorta_annotate(read_kernel_view(reader, *kernels, previous, step), "kernel_profile");
}

/* ---- the device's clock ---- */

/* A reason that a newer program gave makes those of the reading unknown, and nothing else of it. */
static aorta_status read_clock_limits(struct reader *reader, const struct aorta_json_value *list,
                                      struct aorta_device_metrics *values) {
    struct aorta_json_value item;
    const char *name = NULL;
    size_t count;
    values->clock_limits_known = list && *list->text == '[';
    if (!list || is_null(list)) return NULL;
    if (!values->clock_limits_known) return AORTA_ERROR(AORTA_FORMAT, "clocks.limited_by is not an array");
    AORTA_TRY(aorta_annotate(aorta_elements_count(reader->line, *list, &count), "clocks.limited_by"));
    struct aorta_json_cursor cursor = aorta_json_elements(*list);
    for (size_t i = 0; aorta_json_next_element(&cursor, &item); i++) {
        if (!aorta_json_is_string(item)) return AORTA_ERROR(AORTA_FORMAT, "clocks.limited_by[%zu] is not a string", i);
        AORTA_TRY(keep(reader, item, "clocks.limited_by", &name));
        const enum aorta_clock_limit limit = aorta_clock_limit_find(name);
        if (limit == AORTA_CLOCK_LIMITS)
            values->clock_limits_known = false;
        else
            values->clock_limits |= 1U << limit;
    }
    return NULL;
}

static bool is_amount(double value, double limit) {
    return isnan(value) || (value >= 0 && value <= limit);
}

/* Why nothing was measured. */
static aorta_status read_no_clocks(struct reader *reader, const struct aorta_fields *object,
                                   struct aorta_device_metrics *values) {
    struct aorta_fields reasons;
    const char *reason;
    AORTA_TRY(get_object(reader, object, "null_reasons", &reasons));
    AORTA_TRY(get_word(reader, &reasons, "clocks", &reason));
    *values = aorta_device_unmeasured(reason ? reason : "the files do not say why");
    return NULL;
}

static aorta_status read_clocks(struct reader *reader, const struct aorta_fields *object, struct aorta_run_step *step) {
    const struct aorta_json_value *found = aorta_fields_get(object, "clocks");
    struct aorta_device_metrics *values = &step->clocks;
    struct aorta_fields members, *clocks = &members;
    step->clocked = found != NULL;
    if (!found) return NULL;
    if (is_null(found)) return read_no_clocks(reader, object, values);
    if (*found->text != '{') return AORTA_ERROR(AORTA_FORMAT, "clocks is neither an object nor null");
    *values = aorta_device_unmeasured("");
    AORTA_TRY(get_object(reader, object, "clocks", clocks));
    AORTA_TRY(get_optional(clocks, "sm_clock_mhz", "clocks.", &values->sm_clock_mhz));
    AORTA_TRY(get_optional(clocks, "sm_clock_max_mhz", "clocks.", &values->sm_clock_max_mhz));
    AORTA_TRY(get_optional(clocks, "power_w", "clocks.", &values->power_w));
    AORTA_TRY(get_optional(clocks, "power_limit_w", "clocks.", &values->power_limit_w));
    AORTA_TRY(get_optional(clocks, "power_capped_ms", "clocks.", &values->power_capped_ms));
    AORTA_TRY(get_optional(clocks, "thermal_capped_ms", "clocks.", &values->thermal_capped_ms));
    AORTA_TRY(get_integer(clocks, "at_ns", "clocks.", &step->clocks_at_ns));
    if (!is_amount(values->sm_clock_mhz, 1e6) || !is_amount(values->sm_clock_max_mhz, 1e6) ||
        !is_amount(values->power_w, 1e6) || !is_amount(values->power_limit_w, 1e6) ||
        !is_amount(values->power_capped_ms, 1e13) || !is_amount(values->thermal_capped_ms, 1e13) ||
        step->clocks_at_ns < 0 || step->clocks_at_ns > INT64_MAX / 4)
        return AORTA_ERROR(AORTA_FORMAT, "clocks holds a number that cannot be");
    if (isnan(values->sm_clock_mhz))
        snprintf(values->reason, sizeof values->reason, "the driver does not report the clock of this device");
    return read_clock_limits(reader, aorta_fields_get(clocks, "limited_by"), values);
}

static aorta_status read_peaks(const struct reader *reader, const struct aorta_fields *info,
                               struct aorta_run_device *device) {
    static const char path[] = "device_info.measured_peaks.";
    struct aorta_fields peaks, tflops;
    AORTA_TRY(get_object(reader, info, "measured_peaks", &peaks));
    AORTA_TRY(get_object(reader, &peaks, "tflops", &tflops));
    for (int i = 0; i < AORTA_ARITHMETIC_COUNT; i++)
        AORTA_TRY(
            get_optional(&tflops, aorta_arithmetic_name((enum aorta_arithmetic)i), path, &device->peaks.tflops[i]));
    for (int i = 0; i < AORTA_ARITHMETIC_COUNT; i++)
        if (!(device->peaks.tflops[i] > 0)) device->peaks.tflops[i] = NAN;
    AORTA_TRY(get_optional(&peaks, "gbytes_per_s", path, &device->peaks.gbytes_per_s));
    AORTA_TRY(get_optional(&peaks, "cost_ms", path, &device->peaks.cost_ms));
    device->measured = device->peaks.gbytes_per_s > 0;
    return NULL;
}

static aorta_status read_device(struct reader *reader, const struct aorta_fields *object) {
    static const char path[] = "device_info.";
    struct aorta_run_device *device = &reader->run->info;
    struct aorta_fields info;
    if (device->name || !aorta_fields_get(object, "device_info")) return NULL;
    AORTA_TRY(get_object(reader, object, "device_info", &info));
    AORTA_TRY(get_word(reader, &info, "isa", &device->isa));
    AORTA_TRY(get_optional_integer(&info, "multiprocessors", path, -1, &device->multiprocessors));
    AORTA_TRY(get_optional_integer(&info, "memory_bytes", path, -1, &device->memory_bytes));
    AORTA_TRY(read_peaks(reader, &info, device));
    return get_word(reader, &info, "name", &device->name);
}

static aorta_status read_step(struct reader *reader, const struct aorta_fields *object,
                              const struct aorta_run_step *previous, struct aorta_run_step *step) {
    struct aorta_run *run = reader->run;
    const char *device;
    int64_t rank = 0, world_size = 0, version = 0;
    AORTA_TRY(get_optional_integer(object, "schema_version", "", 0, &version));
    if (version > 1)
        return AORTA_ERROR(AORTA_FORMAT, "schema_version is %lld; this program reads up to 1", (long long)version);
    AORTA_TRY(get_integer(object, "rank", "", &rank));
    AORTA_TRY(get_integer(object, "world_size", "", &world_size));
    if (world_size < 1 || world_size > 1000000 || rank < 0 || rank >= world_size)
        return AORTA_ERROR(AORTA_FORMAT, "rank %lld of world_size %lld cannot be", (long long)rank,
                           (long long)world_size);
    step->rank = (int)rank;
    step->world_size = (int)world_size;
    AORTA_TRY(get_integer(object, "epoch", "", &step->epoch));
    AORTA_TRY(get_integer(object, "step", "", &step->step));
    AORTA_TRY(get_integer(object, "global_step", "", &step->global_step));
    AORTA_TRY(get_optional(object, "loss", "", &step->loss));
    AORTA_TRY(get_optional(object, "grad_norm", "", &step->grad_norm));
    AORTA_TRY(get_optional(object, "lr", "", &step->lr));
    AORTA_TRY(get_optional(object, "samples_per_s", "", &step->samples_per_s));
    AORTA_TRY(get_optional(object, "data_wait_ms", "", &step->data_wait_ms));
    AORTA_TRY(get_optional(object, "step_ms", "", &step->step_ms));
    step->skipped = get_flag(object, "skipped");
    step->simulated = get_flag(object, "simulated");
    AORTA_TRY(read_clocks(reader, object, step));
    AORTA_TRY(get_word(reader, object, "device", &device));
    if (device) run->device = device;
    AORTA_TRY(read_device(reader, object));
    run->simulated |= step->simulated;
    if (run->step_count && run->original != (version == 0))
        return AORTA_ERROR(AORTA_FORMAT, "the line is %s, the lines before are not: files of different runs",
                           version ? "aorta's" : "the original Python toolkit's");
    run->original = version == 0;
    return read_views(reader, object, previous, step);
}

static aorta_status read_line(struct reader *reader, size_t length, const struct aorta_run_step *previous,
                              struct aorta_run_step *step) {
    struct aorta_json_value value;
    struct aorta_fields object;
    AORTA_TRY(aorta_line_value(reader->line, length, &value));
    if (*value.text != '{') return AORTA_ERROR(AORTA_FORMAT, "the line is not a JSON object");
    AORTA_TRY(aorta_fields_read(reader->line, value, &object));
    return read_step(reader, &object, previous, step);
}

aorta_status aorta_run_parse_line(const char *line, size_t length, bool with_ranges, struct aorta_run *run,
                                  const struct aorta_run_step *previous, struct aorta_run_step *step) {
    struct reader reader = {.line = line, .run = run, .with_ranges = with_ranges};
    memset(step, 0, sizeof *step);
    aorta_status status = read_line(&reader, length, previous, step);
    aorta_text_free(&reader.scratch);
    if (status) aorta_run_step_free(step);
    return status;
}

void aorta_run_step_drop_ranges(struct aorta_run_step *step) {
    aorta_profile_free(&step->profile);
    aorta_overlap_free(&step->overlap);
    aorta_profile_free(&step->kernel_profile);
    aorta_overlap_free(&step->kernel_overlap);
    memset(&step->profile, 0, sizeof step->profile);
    memset(&step->overlap, 0, sizeof step->overlap);
    memset(&step->kernel_profile, 0, sizeof step->kernel_profile);
    memset(&step->kernel_overlap, 0, sizeof step->kernel_overlap);
    step->profiled = step->traced = false;
}

void aorta_run_step_free(struct aorta_run_step *step) {
    aorta_run_step_drop_ranges(step);
    memset(step, 0, sizeof *step);
}
