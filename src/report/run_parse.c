/* One line of rank_RR_metrics.jsonl. Keys that only this program writes are optional, so that the original toolkit's
 * files are read too. */
#include "profile/clocks.h"
#include "report/run.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Times beyond thirty years and sizes beyond a petabyte are damage; below, sums cannot overflow. */
static const double time_limit_ms = 1e12;
static const int64_t bytes_limit = 1000000000000000;

/* ---- typed access, errors with the path ---- */

static aorta_status get_number(const json_t *object, const char *key, const char *path, double *value) {
    const json_t *field = json_object_get(object, key);
    if (!field) return AORTA_ERROR(AORTA_FORMAT, "%s%s is missing", path, key);
    if (!json_is_number(field)) return AORTA_ERROR(AORTA_FORMAT, "%s%s is not a number", path, key);
    *value = json_number_value(field);
    return NULL;
}

/* NaN when the key is absent or null. */
static aorta_status get_optional(const json_t *object, const char *key, const char *path, double *value) {
    const json_t *field = json_object_get(object, key);
    *value = NAN;
    if (!field || json_is_null(field)) return NULL;
    return get_number(object, key, path, value);
}

static aorta_status get_integer(const json_t *object, const char *key, const char *path, int64_t *value) {
    const json_t *field = json_object_get(object, key);
    if (!field) return AORTA_ERROR(AORTA_FORMAT, "%s%s is missing", path, key);
    if (!json_is_integer(field)) return AORTA_ERROR(AORTA_FORMAT, "%s%s is not an integer", path, key);
    *value = json_integer_value(field);
    return NULL;
}

static aorta_status get_optional_integer(const json_t *object, const char *key, const char *path, int64_t fallback,
                                         int64_t *value) {
    *value = fallback;
    return json_object_get(object, key) ? get_integer(object, key, path, value) : NULL;
}

static aorta_status get_string(const json_t *object, const char *key, const char *path, const char **value) {
    *value = json_string_value(json_object_get(object, key));
    if (!*value) return AORTA_ERROR(AORTA_FORMAT, "%s%s is missing or not a string", path, key);
    return NULL;
}

static aorta_status get_time(const json_t *object, const char *key, const char *path, int64_t origin_ns,
                             int64_t *time_ns) {
    double ms = 0;
    AORTA_TRY(get_number(object, key, path, &ms));
    if (!(fabs(ms) <= time_limit_ms)) return AORTA_ERROR(AORTA_FORMAT, "%s%s is not a time: %g", path, key, ms);
    *time_ns = origin_ns + llround(ms * 1e6);
    return NULL;
}

/* A string that lives as long as the run. */
static aorta_status keep_string(struct aorta_run *run, const char *string, const char **kept) {
    *kept = aorta_intern(&run->strings, string);
    return *kept ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for a run's strings");
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

static aorta_status find_role(const char *name, const char *path, enum aorta_role *role) {
    for (int i = 0; i < AORTA_ROLE_COUNT; i++) {
        *role = (enum aorta_role)i;
        if (strcmp(aorta_role_name(*role), name) == 0) return NULL;
    }
    return AORTA_ERROR(AORTA_FORMAT, "%sstream is \"%s\"; known are compute, allreduce, reducescatter and aux", path,
                       name);
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

static aorta_status read_kind(const json_t *metadata, const char *path, struct aorta_range_info *info) {
    const char *kind = json_string_value(json_object_get(metadata, "kind"));
    if (!kind) {
        info->kind = guess_kind(info);
        return NULL;
    }
    info->kind = strcmp(kind, "copy") == 0 ? AORTA_RANGE_COPY : AORTA_RANGE_COMPUTE;
    if (strcmp(kind, "compute") == 0 || strcmp(kind, "copy") == 0) return NULL;
    if (strcmp(kind, "collective") != 0)
        return AORTA_ERROR(AORTA_FORMAT, "%smetadata.kind is \"%s\"; known are compute, collective and copy", path,
                           kind);
    info->kind = AORTA_RANGE_COLLECTIVE;
    const char *name = json_string_value(json_object_get(metadata, "collective"));
    if (name && find_collective(name, &info->collective)) return NULL;
    return AORTA_ERROR(AORTA_FORMAT, "%smetadata.collective does not name a collective: %s", path,
                       name ? name : "it is missing");
}

/* ---- ranges ---- */

static aorta_status read_numbers(const json_t *metadata, const char *path, const struct aorta_run_step *step,
                                 struct aorta_range *range) {
    struct aorta_range_info *info = &range->info;
    bool collective = info->kind == AORTA_RANGE_COLLECTIVE;
    int64_t layer = 0, group_size = 0, group = 0, queue = 0;
    AORTA_TRY(get_optional_integer(metadata, "layer", path, -1, &layer));
    AORTA_TRY(get_optional_integer(metadata, "bytes", path, 0, &info->bytes));
    AORTA_TRY(get_optional_integer(metadata, "group_size", path, collective ? step->world_size : 0, &group_size));
    AORTA_TRY(get_optional_integer(metadata, "group", path, 0, &group));
    AORTA_TRY(get_optional_integer(metadata, "queue", path, info->role, &queue));
    AORTA_TRY(get_optional_integer(metadata, "sequence", path, -1, &range->sequence));
    AORTA_TRY(get_optional(metadata, "flops", path, &info->flops));
    if (isnan(info->flops)) info->flops = 0;
    if (info->bytes < 0 || info->bytes > bytes_limit || info->flops < 0 || group_size < 0 || group_size > INT32_MAX ||
        group < 0 || group > INT32_MAX || layer < -1 || layer > INT32_MAX || queue < 0 || queue > INT32_MAX)
        return AORTA_ERROR(AORTA_FORMAT, "%smetadata holds a number that cannot be", path);
    info->layer = (int)layer;
    info->group_size = (int)group_size;
    info->group = (int)group;
    range->stream = (int)queue;
    info->simulated = json_is_true(json_object_get(metadata, "simulated"));
    return NULL;
}

static aorta_status read_names(const json_t *object, const json_t *metadata, const char *path, struct aorta_run *run,
                               struct aorta_range_info *info) {
    const char *stream = NULL, *tag = NULL;
    AORTA_TRY(get_string(object, "stream", path, &stream));
    AORTA_TRY(get_string(object, "tag", path, &tag));
    AORTA_TRY(find_role(stream, path, &info->role));
    const char *function = json_string_value(json_object_get(metadata, "function"));
    const char *within = json_string_value(json_object_get(metadata, "range"));
    AORTA_TRY(keep_string(run, tag, &info->tag));
    if (within) AORTA_TRY(keep_string(run, within, &info->within));
    return keep_string(run, function ? function : without_step(tag), &info->function);
}

static aorta_status read_range(const json_t *object, const char *path, int64_t origin_ns, struct aorta_run *run,
                               const struct aorta_run_step *step, struct aorta_range *range) {
    if (!json_is_object(object)) return AORTA_ERROR(AORTA_FORMAT, "%s is not an object", path);
    const json_t *metadata = json_object_get(object, "metadata");
    AORTA_TRY(read_names(object, metadata, path, run, &range->info));
    AORTA_TRY(get_time(object, "start_ms", path, origin_ns, &range->start_ns));
    AORTA_TRY(get_time(object, "end_ms", path, origin_ns, &range->end_ns));
    if (range->end_ns < range->start_ns)
        return AORTA_ERROR(AORTA_FORMAT, "%send_ms lies before start_ms (range '%s')", path, range->info.tag);
    range->enqueue_ns = INT64_MIN;
    if (json_object_get(metadata, "enqueue_ms"))
        AORTA_TRY(get_time(metadata, "enqueue_ms", path, origin_ns, &range->enqueue_ns));
    const json_t *reached = json_object_get(metadata, "reached_ms");
    range->room = reached != NULL;
    range->witnessed = reached && json_is_true(json_object_get(metadata, "witnessed"));
    range->reached_ns = INT64_MIN;
    if (reached && !json_is_null(reached))
        AORTA_TRY(get_time(metadata, "reached_ms", path, origin_ns, &range->reached_ns));
    AORTA_TRY(read_kind(metadata, path, &range->info));
    return read_numbers(metadata, path, step, range);
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

static aorta_status read_ranges(const json_t *list, const char *key, int64_t origin_ns, struct aorta_run *run,
                                const struct aorta_run_step *step, struct aorta_profile *profile) {
    size_t count = json_array_size(list);
    profile->ranges = calloc(count + 1, sizeof *profile->ranges);
    if (!profile->ranges) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu ranges", count);
    profile->start_ns = profile->end_ns = origin_ns;
    for (size_t i = 0; i < count; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s.ranges[%zu].", key, i);
        struct aorta_range *range = &profile->ranges[i];
        AORTA_TRY(read_range(json_array_get(list, i), path, origin_ns, run, step, range));
        if (i == 0 || range->start_ns < profile->start_ns) profile->start_ns = range->start_ns;
        if (i == 0 || range->end_ns > profile->end_ns) profile->end_ns = range->end_ns;
        profile->range_count++;
    }
    number_collectives(profile);
    return NULL;
}

static aorta_status read_markers(const json_t *list, const char *key, int64_t origin_ns, struct aorta_run *run,
                                 struct aorta_profile *profile) {
    size_t count = json_array_size(list);
    profile->markers = calloc(count + 1, sizeof *profile->markers);
    if (!profile->markers) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu markers", count);
    for (size_t i = 0; i < count; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s.markers[%zu].", key, i);
        const json_t *object = json_array_get(list, i);
        struct aorta_marker *marker = &profile->markers[i];
        const char *stream = NULL, *tag = NULL;
        AORTA_TRY(get_string(object, "stream", path, &stream));
        AORTA_TRY(get_string(object, "tag", path, &tag));
        AORTA_TRY(find_role(stream, path, &marker->role));
        AORTA_TRY(keep_string(run, tag, &marker->tag));
        AORTA_TRY(get_time(object, "time_ms", path, origin_ns, &marker->time_ns));
        profile->marker_count++;
    }
    return NULL;
}

static aorta_status read_host(const json_t *list, const char *key, int64_t origin_ns, struct aorta_profile *profile) {
    size_t count = json_array_size(list);
    profile->host = calloc(count + 1, sizeof *profile->host);
    if (!profile->host) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu host ranges", count);
    for (size_t i = 0; i < count; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s.host_ranges[%zu].", key, i);
        const json_t *object = json_array_get(list, i);
        struct aorta_host_range *range = &profile->host[i];
        const char *kind = NULL;
        AORTA_TRY(get_string(object, "kind", path, &kind));
        if (strcmp(kind, "data_wait") != 0 && strcmp(kind, "host_sync") != 0)
            return AORTA_ERROR(AORTA_FORMAT, "%skind is \"%s\"; known are data_wait and host_sync", path, kind);
        range->kind = kind[0] == 'd' ? AORTA_HOST_DATA_WAIT : AORTA_HOST_SYNC;
        AORTA_TRY(get_time(object, "start_ms", path, origin_ns, &range->start_ns));
        AORTA_TRY(get_time(object, "end_ms", path, origin_ns, &range->end_ns));
        profile->host_count++;
    }
    return NULL;
}

/* What only a kernel view has. */
static aorta_status read_kernel_facts(const json_t *object, struct aorta_kernel_facts *facts) {
    double offset_ms = NAN, stamps_ms = NAN;
    AORTA_TRY(get_optional_integer(object, "attributed", "kernel_profile.", 0, &facts->attributed));
    AORTA_TRY(get_optional_integer(object, "dropped", "kernel_profile.", 0, &facts->dropped));
    AORTA_TRY(get_optional_integer(object, "stamps", "kernel_profile.", 0, &facts->stamp_count));
    AORTA_TRY(get_optional(object, "clock_offset_ms", "kernel_profile.", &offset_ms));
    AORTA_TRY(get_optional(object, "stamps_ms", "kernel_profile.", &stamps_ms));
    if (fabs(offset_ms) > time_limit_ms || fabs(stamps_ms) > time_limit_ms || facts->attributed < 0 ||
        facts->attributed > INT32_MAX || facts->dropped < 0 || facts->dropped > bytes_limit || facts->stamp_count < 0)
        return AORTA_ERROR(AORTA_FORMAT, "kernel_profile holds a number that cannot be");
    if (!isnan(offset_ms)) facts->clock_offset_ns = llround(offset_ms * 1e6);
    if (!isnan(stamps_ms)) facts->stamp_ns = llround(stamps_ms * 1e6);
    return NULL;
}

/* The object under `key`; its strings go to the run. */
static aorta_status read_profile(const json_t *object, const char *key, struct aorta_run *run,
                                 const struct aorta_run_step *step, struct aorta_profile *profile) {
    char path[32];
    snprintf(path, sizeof path, "%s.", key);
    if (!json_is_object(object)) return AORTA_ERROR(AORTA_FORMAT, "%s is missing or not an object", key);
    int64_t origin_ns = 0;
    AORTA_TRY(get_optional_integer(object, "index", path, step->global_step, &profile->index));
    AORTA_TRY(get_optional_integer(object, "origin_ns", path, 0, &origin_ns));
    if (origin_ns < INT64_MIN / 4 || origin_ns > INT64_MAX / 4)
        return AORTA_ERROR(AORTA_FORMAT, "%s.origin_ns is not a time: %lld", key, (long long)origin_ns);
    profile->own_clock = !json_object_get(object, "origin_ns");
    const json_t *ranges = json_object_get(object, "ranges");
    if (!json_is_array(ranges)) return AORTA_ERROR(AORTA_FORMAT, "%s.ranges is missing or not an array", key);
    AORTA_TRY(read_ranges(ranges, key, origin_ns, run, step, profile));
    AORTA_TRY(read_markers(json_object_get(object, "markers"), key, origin_ns, run, profile));
    return read_host(json_object_get(object, "host_ranges"), key, origin_ns, profile);
}

static bool follows(const struct aorta_run_step *previous, const struct aorta_run_step *step) {
    return previous && previous->global_step < step->global_step && step->global_step - 1 == previous->global_step &&
           !step->profile.own_clock && !previous->profile.own_clock;
}

/* When the iteration before had ended; INT64_MIN: not known. Where that was not recorded the line itself says how long
 * before this one. */
static aorta_status end_before(const json_t *ranges, const struct aorta_run_step *previous,
                               const struct aorta_run_step *step, int64_t *end_ns) {
    double lead_ms = 0.0;
    *end_ns = INT64_MIN;
    if (!follows(previous, step)) return NULL;
    if (previous->profile.range_count) *end_ns = previous->profile.end_ns;
    if (previous->profiled) return NULL;
    AORTA_TRY(get_optional(json_object_get(ranges, "overlap"), "lead_ms", "profile.overlap.", &lead_ms));
    *end_ns = lead_ms > 0.0 && lead_ms < 1e9 ? step->profile.start_ns - (int64_t)(lead_ms * 1e6 + 0.5) : INT64_MIN;
    return NULL;
}

static aorta_status read_views(const json_t *object, struct aorta_run *run, const struct aorta_run_step *previous,
                               struct aorta_run_step *step) {
    const json_t *ranges = json_object_get(object, "profile"), *kernels = json_object_get(object, "kernel_profile");
    if (json_is_null(ranges)) return NULL;
    AORTA_TRY(read_profile(ranges, "profile", run, step, &step->profile));
    int64_t previous_ns;
    AORTA_TRY(end_before(ranges, previous, step, &previous_ns));
    AORTA_TRY(aorta_overlap_compute(&step->profile, previous_ns, &step->overlap));
    step->profiled = true;
    if (!kernels) return NULL;
    step->kernel_profile.source = AORTA_SOURCE_KERNEL;
    AORTA_TRY(read_profile(kernels, "kernel_profile", run, step, &step->kernel_profile));
    AORTA_TRY(read_kernel_facts(kernels, &step->kernel_profile.kernels));
    const bool seen = follows(previous, step) && previous->traced && previous->kernel_profile.range_count;
    AORTA_TRY(aorta_overlap_compute(&step->kernel_profile, seen ? previous->kernel_profile.end_ns : INT64_MIN,
                                    &step->kernel_overlap));
    step->traced = true;
    return NULL;
}

/* ---- the device's clock ---- */

/* A reason that a newer program gave makes those of the reading unknown, and nothing else of it. */
static aorta_status read_clock_limits(const json_t *list, struct aorta_device_metrics *values) {
    size_t i;
    const json_t *item;
    values->clock_limits_known = json_is_array(list);
    if (!list || json_is_null(list)) return NULL;
    if (!values->clock_limits_known) return AORTA_ERROR(AORTA_FORMAT, "clocks.limited_by is not an array");
    json_array_foreach(list, i, item) {
        if (!json_is_string(item)) return AORTA_ERROR(AORTA_FORMAT, "clocks.limited_by[%zu] is not a string", i);
        const enum aorta_clock_limit limit = aorta_clock_limit_find(json_string_value(item));
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

static aorta_status read_clocks(const json_t *object, struct aorta_run_step *step) {
    const json_t *clocks = json_object_get(object, "clocks");
    struct aorta_device_metrics *values = &step->clocks;
    step->clocked = clocks != NULL;
    if (!clocks) return NULL;
    const char *reason = json_string_value(json_object_get(json_object_get(object, "null_reasons"), "clocks"));
    bool none = json_is_null(clocks);
    *values = aorta_device_unmeasured(!none ? "" : reason ? reason : "the files do not say why");
    if (none) return NULL;
    if (!json_is_object(clocks)) return AORTA_ERROR(AORTA_FORMAT, "clocks is neither an object nor null");
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
        snprintf(values->reason, sizeof values->reason, "the driver does not tell the clock of this device");
    return read_clock_limits(json_object_get(clocks, "limited_by"), values);
}

static aorta_status read_step(const json_t *object, struct aorta_run *run, const struct aorta_run_step *previous,
                              struct aorta_run_step *step) {
    if (!json_is_object(object)) return AORTA_ERROR(AORTA_FORMAT, "the line is not a JSON object");
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
    step->skipped = json_is_true(json_object_get(object, "skipped"));
    step->simulated = json_is_true(json_object_get(object, "simulated"));
    AORTA_TRY(read_clocks(object, step));
    const char *device = json_string_value(json_object_get(object, "device"));
    if (device) AORTA_TRY(keep_string(run, device, &run->device));
    run->simulated |= step->simulated;
    run->original |= version == 0;
    return read_views(object, run, previous, step);
}

aorta_status aorta_run_parse_line(const char *line, size_t length, struct aorta_run *run,
                                  const struct aorta_run_step *previous, struct aorta_run_step *step) {
    memset(step, 0, sizeof *step);
    json_error_t error;
    json_t *object = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
    if (!object) return AORTA_ERROR(AORTA_FORMAT, "byte %d: %s", error.position, error.text);
    aorta_status status = read_step(object, run, previous, step);
    json_decref(object);
    if (status) aorta_run_step_free(step);
    return status;
}

void aorta_run_step_free(struct aorta_run_step *step) {
    aorta_profile_free(&step->profile);
    aorta_overlap_free(&step->overlap);
    aorta_profile_free(&step->kernel_profile);
    aorta_overlap_free(&step->kernel_overlap);
    memset(step, 0, sizeof *step);
}
