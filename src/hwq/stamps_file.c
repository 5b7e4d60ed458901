#include "hwq/stamps_file.h"
#include "base/files.h"
#include "base/json.h"

#include <string.h>

enum { SCHEMA_VERSION = 1, FIELDS = 6, MOST_NAMES = 1024 };
static const char *const source_names[AORTA_HWQ_STAMPS_SOURCE_COUNT] = {"workload", "probe"};

static aorta_status no_memory(size_t count) {
    return AORTA_ERROR(AORTA_MEMORY, "no host memory to store %zu stamps", count);
}

aorta_status aorta_hwq_stamps_file_add(struct aorta_hwq_stamps_file *file, enum aorta_hwq_stamps_source source,
                                       const struct aorta_hwq_spans *spans) {
    if (spans->unstamped)
        return AORTA_ERROR(AORTA_DEVICE, "--stamps: %zu kernels left no stamp: they did not run", spans->unstamped);
    struct aorta_hwq_stamped_iteration *iterations =
        aorta_arena_grow(&file->arena, file->iterations, file->count, &file->capacity, sizeof *iterations);
    if (!iterations) return no_memory(spans->count);
    file->iterations = iterations;
    struct aorta_span *items = aorta_arena_alloc(&file->arena, (spans->count + 1) * sizeof *items);
    if (!items) return no_memory(spans->count);
    if (spans->count) memcpy(items, spans->items, spans->count * sizeof *items);
    file->iterations[file->count++] = (struct aorta_hwq_stamped_iteration){
        .source = source, .spans = {.items = items, .count = spans->count, .gate = spans->gate}};
    return NULL;
}

void aorta_hwq_stamps_file_free(struct aorta_hwq_stamps_file *file) {
    aorta_arena_free(&file->arena);
    *file = (struct aorta_hwq_stamps_file){0};
}

/* ---- writing ---- */

struct names {
    const char *items[MOST_NAMES];
    size_t count;
};

/* MOST_NAMES: the table is full. */
static size_t index_of(struct names *names, const char *name) {
    for (size_t i = 0; i < names->count; i++)
        if (!strcmp(names->items[i], name)) return i;
    if (names->count == MOST_NAMES) return MOST_NAMES;
    names->items[names->count] = name;
    return names->count++;
}

static aorta_status write_span(const struct aorta_span *span, struct names *names, struct aorta_json *json) {
    const size_t name = index_of(names, span->name);
    if (name == MOST_NAMES) return AORTA_ERROR(AORTA_UNSUPPORTED, "--stamps: more than %d names", MOST_NAMES);
    const int64_t fields[FIELDS] = {span->stream,  span->kind,     span->marked,
                                    (int64_t)name, span->start_ns, span->end_ns};
    aorta_json_array(json);
    for (int i = 0; i < FIELDS; i++) aorta_json_int(json, fields[i]);
    aorta_json_array_end(json);
    return NULL;
}

static aorta_status write_iterations(const struct aorta_hwq_stamps_file *file, struct names *names,
                                     struct aorta_json *json) {
    aorta_json_key_array(json, "iterations");
    for (size_t i = 0; i < file->count; i++) {
        const struct aorta_hwq_stamped_iteration *iteration = &file->iterations[i];
        aorta_json_object(json);
        aorta_json_key_string(json, "pass", source_names[iteration->source]);
        aorta_json_key_int(json, "gate", iteration->spans.gate);
        aorta_json_key_array(json, "stamps");
        for (size_t k = 0; k < iteration->spans.count; k++)
            AORTA_TRY(write_span(&iteration->spans.items[k], names, json));
        aorta_json_array_end(json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
    return NULL;
}

aorta_status aorta_hwq_stamps_file_write(const struct aorta_hwq_stamps_file *file, const char *path) {
    struct names names = {.count = 0};
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    aorta_json_object(&json);
    aorta_json_key_int(&json, "schema_version", SCHEMA_VERSION);
    aorta_json_key_string(&json, "kind", "hwq_stamps");
    if (file->tick_ns) aorta_json_key_int(&json, "tick_ns", file->tick_ns);
    aorta_status status = write_iterations(file, &names, &json);
    aorta_json_key_array(&json, "names");
    for (size_t i = 0; i < names.count; i++) aorta_json_string(&json, names.items[i]);
    aorta_json_array_end(&json);
    aorta_json_object_end(&json);
    aorta_text_puts(&text, "\n");
    if (!status) status = aorta_text_check(&text);
    if (!status) status = aorta_file_replace(path, text.data, text.length);
    aorta_text_free(&text);
    return status;
}
