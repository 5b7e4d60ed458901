/* Reads result files, ours and the original toolkit's, for a comparison. */
#include "base/files.h"
#include "base/printable.h"
#include "base/sort.h"
#include "hwq/compare.h"
#include "hwq/result.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_DEPTH = 12, MOST_SETTINGS = 4096, LARGEST_FILE = 256 << 20 };

struct reader {
    struct aorta_hwq_measurements *measurements;
    const char *file; /* being read */
    size_t item_capacity;
    size_t found; /* results in this file */
};

static aorta_status check_memory(const struct reader *reader) {
    return aorta_arena_check(&reader->measurements->notes.arena, "results");
}

/* ---- settings: every scalar of the metadata, with its path ---- */

/* Settings that always differ between runs, or are compared elsewhere. */
static bool is_ignored(const char *key) {
    static const char *const ignored[] = {"timestamp",
                                          "measurement_iterations",
                                          "warmup_iterations",
                                          "iterations",
                                          "warmup",
                                          "stream_count",
                                          "streams",
                                          "output",
                                          "profile_dir",
                                          "pid",
                                          "memory_gb",
                                          "total_memory_gb"};
    return aorta_is_one_of(key, ignored, sizeof ignored / sizeof *ignored);
}

struct settings {
    struct aorta_arena *arena;
    struct aorta_settings list;
    size_t capacity;
    bool too_many;
};

/* NULL for NULL. */
static const char *copy_printable(struct aorta_arena *arena, const char *text) {
    char *copy = text ? aorta_arena_strdup(arena, text) : NULL;
    if (copy) aorta_make_printable(copy, strlen(copy), false);
    return copy;
}

/* 8 and 8.0 are one setting. */
static char *text_of(const json_t *value) {
    const double number = json_number_value(value);
    char text[32];
    if (json_is_string(value)) return strdup(json_string_value(value));
    if (!json_is_real(value) || number != rint(number) || fabs(number) > 1e15)
        return json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
    snprintf(text, sizeof text, "%.0f", number);
    return strdup(text);
}

static void add_setting(struct settings *settings, const char *key, const json_t *value) {
    struct aorta_settings *list = &settings->list;
    settings->too_many |= list->count == MOST_SETTINGS; /* the time to compare them grows quadratically */
    if (settings->too_many) return;
    char *text = text_of(value);
    const struct aorta_setting item = {copy_printable(settings->arena, key), copy_printable(settings->arena, text)};
    settings->arena->failed |= !text;
    aorta_arena_append(settings->arena, &list->items, &settings->capacity, &list->count, &item, sizeof item);
    free(text);
}

static void collect(struct settings *settings, const char *prefix, json_t *object, int depth) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        if (is_ignored(key)) continue;
        char path[256];
        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", key);
        if (json_is_object(value) && depth < MOST_DEPTH)
            collect(settings, path, value, depth + 1);
        else
            add_setting(settings, path, value);
    }
}

/* A variable that a file does not list was not set. Other keys are compared only if both files have them, as our keys
 * and those of the original toolkit differ. */
static bool matters(const struct aorta_setting_difference *d) {
    if (d->reference && d->candidate) return true;
    return strncmp(d->key, "environment.", 12) == 0 && strcmp(d->reference ? d->reference : d->candidate, "null") != 0;
}

void aorta_hwq_differences(const struct aorta_hwq_measurement *left, const struct aorta_hwq_measurement *right,
                           struct aorta_differences *differences) {
    size_t count = 0;
    *differences = (struct aorta_differences){0};
    aorta_differences_add(differences, &left->settings, &right->settings);
    for (size_t i = 0; i < differences->count; i++)
        if (matters(&differences->items[i])) differences->items[count++] = differences->items[i];
    differences->count = count;
}

/* ---- one result ---- */

static aorta_status wrong(const struct reader *reader, const char *what, const char *problem) {
    return AORTA_ERROR(AORTA_USAGE, "%s: %s: %s; expected a file that aorta hwq run, sweep or run-priority wrote",
                       reader->file, what, problem);
}

static aorta_status read_times(struct reader *reader, const char *what, const json_t *array, double *times) {
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *value = json_array_get(array, i);
        times[i] = json_is_number(value) ? json_number_value(value) : NAN;
        if (times[i] >= 1e-9 && times[i] <= 1e12) continue; /* ratios of other values would not be finite */
        char problem[96];
        snprintf(problem, sizeof problem, "iteration_times_ms[%zu] is not a time above 0 (1e-9 to 1e12 ms)", i);
        return wrong(reader, what, problem);
    }
    return NULL;
}

struct aorta_hwq_measurement *aorta_hwq_measurements_find(const struct aorta_hwq_measurements *measurements,
                                                          const struct aorta_hwq_measurement *like) {
    for (size_t i = 0; i < measurements->count; i++) {
        struct aorta_hwq_measurement *item = &measurements->items[i];
        if (item->streams == like->streams && strcmp(item->workload, like->workload) == 0) return item;
    }
    return NULL;
}

/* ---- repeated runs ---- */

static void note_setting(struct reader *reader, const char *file, const char *key, const char *first,
                         const char *found) {
    HWQ_FIND(&reader->measurements->notes, AORTA_HWQ_COMPARE_POOLED, hwq_text("file", reader->file),
             hwq_text("setting", key), hwq_text("value", found ? found : "null"),
             hwq_text("pooled", first ? first : "null"), hwq_text("pooled_file", file));
}

/* Pooled runs are compared as one, so differing settings (such as the GPU) need a warning. */
static void note_settings(struct reader *reader, const struct aorta_hwq_measurement *measurement,
                          const struct aorta_hwq_measurement *found) {
    struct aorta_differences differences;
    aorta_hwq_differences(measurement, found, &differences);
    for (size_t i = 0; i < differences.count; i++) {
        const struct aorta_setting_difference *d = &differences.items[i];
        note_setting(reader, measurement->file, d->key, d->reference, d->candidate);
    }
    aorta_arena_end(&differences.arena, &reader->measurements->notes.arena);
    if (measurement->simulated != found->simulated)
        note_setting(reader, measurement->file, "simulated", measurement->simulated ? "true" : "false",
                     found->simulated ? "true" : "false");
}

static void *joined(struct aorta_arena *arena, const void *first, size_t first_count, const void *second,
                    size_t second_count, size_t size) {
    char *all = aorta_arena_raw(arena, (first_count + second_count) * size);
    if (!all) return NULL;
    memcpy(all, first, first_count * size);
    memcpy(all + first_count * size, second, second_count * size);
    return all;
}

/* Appends the times of another run of the same workload and number of streams. */
static aorta_status append(struct reader *reader, struct aorta_hwq_measurement *measurement,
                           const struct aorta_hwq_measurement *found) {
    struct aorta_arena *arena = &reader->measurements->notes.arena;
    note_settings(reader, measurement, found);
    measurement->times_ms = joined(arena, measurement->times_ms, measurement->count, found->times_ms, found->count,
                                   sizeof *measurement->times_ms);
    measurement->lengths =
        joined(arena, measurement->lengths, measurement->runs, found->lengths, 1, sizeof *measurement->lengths);
    measurement->pressures =
        joined(arena, measurement->pressures, measurement->runs, found->pressures, 1, sizeof *measurement->pressures);
    AORTA_TRY(check_memory(reader));
    measurement->count += found->count;
    measurement->clock_mhz += (found->clock_mhz - measurement->clock_mhz) / (double)++measurement->runs;
    return NULL;
}

static aorta_status add_measurement(struct reader *reader, const struct aorta_hwq_measurement *found) {
    struct aorta_hwq_measurements *measurements = reader->measurements;
    struct aorta_hwq_measurement *same = aorta_hwq_measurements_find(measurements, found);
    if (same) return append(reader, same, found);
    aorta_arena_append(&measurements->notes.arena, &measurements->items, &reader->item_capacity, &measurements->count,
                       found, sizeof *found);
    return check_memory(reader);
}

static double read_clock(const json_t *object) {
    const json_t *clocks = json_object_get(object, "clocks");
    const json_t *median = json_object_get(json_object_get(clocks, "sm_clock_mhz"), "p50");
    return json_is_number(median) && json_number_value(median) > 0 ? json_number_value(median) : NAN;
}

static aorta_status read_result(struct reader *reader, const json_t *object, const char *workload,
                                json_t *environment) {
    struct aorta_arena *arena = &reader->measurements->notes.arena;
    const char *name = json_string_value(json_object_get(object, "workload_name"));
    const json_t *streams = json_object_get(object, "stream_count"),
                 *times = json_object_get(object, "iteration_times_ms");
    if (!name) name = workload;
    if (!name) return wrong(reader, "a result", "it has no workload_name");
    name = copy_printable(arena, name);
    AORTA_TRY(check_memory(reader));
    if (!json_is_integer(streams) || json_integer_value(streams) < 1)
        return wrong(reader, name, "stream_count is missing or not a number of streams");
    char what[192];
    snprintf(what, sizeof what, "%.100s on %s", name, aorta_counted(json_integer_value(streams), "stream").text);
    reader->found++;
    if (!json_is_array(times) || !json_array_size(times)) {
        HWQ_FIND(&reader->measurements->notes, AORTA_HWQ_COMPARE_NO_TIMES, hwq_text("file", reader->file),
                 hwq_text("workload", name), hwq_count("streams", (double)json_integer_value(streams)));
        return NULL;
    }
    struct aorta_hwq_measurement measurement = {.workload = name,
                                                .streams = json_integer_value(streams),
                                                .file = reader->file,
                                                .count = json_array_size(times),
                                                .runs = 1,
                                                .simulated = json_is_true(json_object_get(object, "simulated")),
                                                .clock_mhz = read_clock(object)};
    measurement.times_ms = aorta_arena_alloc(arena, measurement.count * sizeof *measurement.times_ms);
    measurement.lengths = aorta_arena_alloc(arena, sizeof *measurement.lengths);
    measurement.pressures = aorta_arena_alloc(arena, sizeof *measurement.pressures);
    AORTA_TRY(check_memory(reader));
    const json_t *pressure = json_object_get(object, "machine_pressure");
    *measurement.pressures = json_is_number(pressure) ? json_number_value(pressure) : NAN;
    *measurement.lengths = measurement.count;
    AORTA_TRY(read_times(reader, what, times, measurement.times_ms));
    struct settings settings = {.arena = arena};
    collect(&settings, "", json_object_get(object, "metadata"), 0);
    collect(&settings, "file_environment", environment, 0);
    AORTA_TRY(check_memory(reader));
    if (settings.too_many) return wrong(reader, what, "its metadata holds more than 4096 values");
    measurement.settings = settings.list;
    return add_measurement(reader, &measurement);
}

/* ---- where results are in a file ---- */

/* A result is an object with stream_count and throughput or times; a sweep lists its results in "results" and names the
 * workload once. All other values (a group of sweeps, by name or in a list) are searched. */
static bool is_result(const json_t *value) {
    return json_object_get(value, "iteration_times_ms") ||
           (json_object_get(value, "stream_count") && json_object_get(value, "throughput"));
}

static aorta_status search(struct reader *reader, json_t *value, const char *workload, json_t *environment, int depth) {
    if (depth > MOST_DEPTH) return NULL;
    if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++)
            AORTA_TRY(search(reader, json_array_get(value, i), workload, environment, depth + 1));
        return NULL;
    }
    if (!json_is_object(value)) return NULL;
    const char *named = json_string_value(json_object_get(value, "workload"));
    if (named) workload = named;
    if (is_result(value)) return read_result(reader, value, workload, environment);
    json_t *own = json_object_get(value, "environment");
    if (json_is_object(own)) environment = own;
    const char *key;
    json_t *member;
    json_object_foreach(value, key, member) {
        AORTA_TRY(search(reader, member, workload, environment, depth + 1));
    }
    return NULL;
}

/* ---- files ---- */

static const char *guess(const char *bytes, size_t length) {
    if (length == 0) return "the file is empty";
    if (length > 1 && (unsigned char)bytes[0] == 0x1f && (unsigned char)bytes[1] == 0x8b)
        return "the file is compressed; unpack it with gunzip first";
    if (length > 6 && memcmp(bytes, "SQLite", 6) == 0)
        return "the file is a database; aorta trace analyze reads traces";
    return NULL;
}

static aorta_status parse(const char *path, const char *bytes, size_t length, json_t **root) {
    const size_t mark = aorta_utf8_mark(bytes, length);
    bytes += mark;
    length -= mark;
    json_error_t error;
    *root = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &error);
    if (*root) return NULL;
    const char *looks = guess(bytes, length);
    if (looks) return AORTA_ERROR(AORTA_USAGE, "%s: %s", path, looks);
    bool cut = (size_t)error.position >= length || json_error_code(&error) == json_error_premature_end_of_input;
    return AORTA_ERROR(AORTA_USAGE, "%s: line %d, column %d (byte %d): %s; %s", path, error.line, error.column,
                       error.position, error.text,
                       cut ? "the file is cut off: was its run still writing, or the disk full?" : "it is not JSON");
}

/* The file of run-priority next to those of its workloads. */
static bool is_summary(const json_t *root) {
    const char *kind = json_string_value(json_object_get(root, "kind"));
    return kind && strcmp(kind, "hwq_run_priority") == 0;
}

static aorta_status nothing_found(const char *path, const json_t *root) {
    const char *kind = json_string_value(json_object_get(root, "kind"));
    const char *looks = kind                                   ? kind
                        : json_object_get(root, "traceEvents") ? "a trace; aorta trace analyze reads it"
                        : json_object_get(root, "comparison")  ? "a report's summary"
                        : json_object_get(root, "profile")     ? "a training run's metrics; aorta report reads them"
                                                               : NULL;
    return AORTA_ERROR(AORTA_USAGE,
                       "%s: no result of a workload in it (an object with stream_count and iteration_times_ms)%s%s; "
                       "expected a file that aorta hwq run, sweep or run-priority wrote",
                       path, looks ? "; it looks like " : "", looks ? looks : "");
}

/* The original toolkit's files have no version. */
static aorta_status check_version(const char *path, const json_t *root) {
    const json_t *version = json_object_get(root, "schema_version");
    if (!json_is_integer(version) || json_integer_value(version) <= AORTA_HWQ_SCHEMA_VERSION) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "%s: schema_version is %lld; this program reads up to %d", path,
                       (long long)json_integer_value(version), AORTA_HWQ_SCHEMA_VERSION);
}

static aorta_status read_file(struct reader *reader, const char *path, bool is_one_of_many) {
    char *bytes;
    size_t length;
    aorta_status status =
        (is_one_of_many ? aorta_file_read_regular : aorta_file_read_small)(path, LARGEST_FILE, &bytes, &length);
    if (status) return aorta_status_recode(status, AORTA_USAGE);
    json_t *root = NULL;
    reader->file = aorta_arena_strdup(&reader->measurements->notes.arena, path);
    reader->found = 0;
    status = check_memory(reader);
    if (!status) status = parse(path, bytes, length, &root);
    free(bytes);
    if (!status) status = check_version(path, root);
    if (!status) status = search(reader, root, NULL, NULL, 0);
    if (!status && !reader->found && is_one_of_many && !is_summary(root))
        HWQ_FIND(&reader->measurements->notes, AORTA_HWQ_COMPARE_NO_RESULT, hwq_text("file", path));
    else if (!status && !reader->found && !is_one_of_many)
        status = nothing_found(path, root);
    json_decref(root);
    return status;
}

static int is_json(const struct dirent *entry) {
    const size_t length = strlen(entry->d_name);
    return length > 5 && entry->d_name[0] != '.' && strcmp(entry->d_name + length - 5, ".json") == 0;
}

static int by_name(const struct dirent **left, const struct dirent **right) {
    return strcmp((*left)->d_name, (*right)->d_name);
}

static aorta_status read_directory(struct reader *reader, const char *path) {
    struct dirent **entries;
    const int count = scandir(path, &entries, is_json, by_name);
    if (count < 0)
        return AORTA_ERROR(errno == ENOMEM ? AORTA_MEMORY : AORTA_USAGE, "%s: cannot be read: %s", path,
                           strerror(errno));
    aorta_status status = count ? NULL : AORTA_ERROR(AORTA_USAGE, "%s: no .json file in this directory", path);
    for (int i = 0; i < count; i++) {
        const char *file = aorta_arena_printf(&reader->measurements->notes.arena, "%s/%s", path, entries[i]->d_name);
        if (!status) status = check_memory(reader);
        if (!status) status = read_file(reader, file, true);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static AORTA_ORDER(by_workload, struct aorta_hwq_measurement, AORTA_TEXT(workload) AORTA_UP(streams));

static aorta_status no_results(const struct aorta_hwq_measurements *measurements, const char *path) {
    struct aorta_text why = {0};
    aorta_text_printf(&why, "%s: ", path);
    if (measurements->notes.count)
        aorta_found_sentence(measurements->notes.items, &why);
    else
        aorta_text_puts(&why, "no results in it");
    return aorta_text_error(&why, AORTA_USAGE);
}

static aorta_status read_all(struct reader *reader, const char *path) {
    struct stat about;
    if (stat(path, &about) != 0) return AORTA_ERROR(AORTA_USAGE, "%s: cannot be read: %s", path, strerror(errno));
    if (S_ISDIR(about.st_mode))
        AORTA_TRY(read_directory(reader, path));
    else
        AORTA_TRY(read_file(reader, path, false));
    return reader->measurements->count ? NULL : no_results(reader->measurements, path);
}

aorta_status aorta_hwq_measurements_open(const char *path, struct aorta_hwq_measurements *measurements) {
    *measurements = (struct aorta_hwq_measurements){0};
    struct reader reader = {.measurements = measurements};
    measurements->path = aorta_arena_strdup(&measurements->notes.arena, path);
    aorta_status status = read_all(&reader, path);
    if (!status) status = check_memory(&reader);
    if (status)
        aorta_hwq_measurements_close(measurements);
    else
        qsort(measurements->items, measurements->count, sizeof *measurements->items, by_workload);
    return status;
}

void aorta_hwq_measurements_close(struct aorta_hwq_measurements *measurements) {
    aorta_found_free(&measurements->notes);
    *measurements = (struct aorta_hwq_measurements){0};
}
