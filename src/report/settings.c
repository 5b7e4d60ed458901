#include "report/settings.h"

#include "base/files.h"
#include "device/inventory.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *text_of(const json_t *value, struct aorta_arena *arena) {
    switch (json_typeof(value)) {
    case JSON_STRING:
        return aorta_arena_strdup(arena, json_string_value(value));
    case JSON_INTEGER:
        return aorta_arena_printf(arena, "%lld", (long long)json_integer_value(value));
    case JSON_REAL:
        return aorta_arena_printf(arena, "%g", json_real_value(value));
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    default:
        return "null"; /* lists and maps: no advice depends on them */
    }
}

static size_t count_keys(json_t *section) {
    const char *name;
    json_t *value;
    size_t count = 0;
    json_object_foreach(section, name, value) count += json_is_object(value) ? count_keys(value) : 1;
    return count;
}

/* Keys have dots between the sections that they are in; `before` is the prefix, its last dot included. */
static void flatten(json_t *section, const char *before, struct aorta_arena *arena, struct aorta_settings *settings) {
    const char *name;
    json_t *value;
    json_object_foreach(section, name, value) {
        const bool deeper = json_is_object(value);
        const char *key = aorta_arena_printf(arena, "%s%s%s", before, name, deeper ? "." : "");
        const char *text = text_of(value, arena);
        if (arena->failed) return;
        if (deeper)
            flatten(value, key, arena, settings);
        else
            settings->items[settings->count++] = (struct aorta_setting){key, text};
    }
}

static void set_device(struct aorta_settings *settings, const char *device) {
    for (size_t i = 0; i < settings->count; i++)
        if (strcmp(settings->items[i].key, "device.kind") == 0) settings->items[i].value = device;
}

static aorta_status read_settings(const char *path, struct aorta_arena *arena, struct aorta_settings *settings) {
    enum { MOST_BYTES = 1 << 20 };
    char *bytes;
    size_t length;
    json_error_t error;
    AORTA_TRY(aorta_file_read_regular(path, MOST_BYTES, &bytes, &length));
    json_t *root = json_loadb(bytes, length, 0, &error);
    free(bytes);
    if (json_is_object(root)) {
        settings->items = aorta_arena_alloc(arena, count_keys(root) * sizeof *settings->items);
        flatten(root, "", arena, settings);
    }
    aorta_status status = json_is_object(root) ? aorta_arena_check(arena, "the settings of the run")
                                               : AORTA_ERROR(AORTA_FORMAT, "%s:%d: %s", path, root ? 1 : error.line,
                                                             root ? "not a JSON object" : error.text);
    json_decref(root);
    return status;
}

/* Nothing where the directory has no such file. */
static aorta_status read_from(const char *directory, const char *name, struct aorta_arena *arena,
                              struct aorta_settings *settings) {
    *settings = (struct aorta_settings){0};
    char *path = aorta_path_join(directory, name);
    if (!path) return AORTA_ERROR(AORTA_MEMORY, "no memory for a file name");
    aorta_status status = access(path, F_OK) == 0 ? read_settings(path, arena, settings) : NULL;
    free(path);
    return status;
}

aorta_status aorta_settings_read(const char *directory, const char *device, struct aorta_arena *arena,
                                 struct aorta_settings *settings) {
    AORTA_TRY(read_from(directory, "config.json", arena, settings));
    if (device) set_device(settings, device);
    return NULL;
}

aorta_status aorta_settings_environment(const char *directory, struct aorta_arena *arena,
                                        struct aorta_settings *settings) {
    return read_from(directory, aorta_environment_file, arena, settings);
}

/* ---- what differs ---- */

bool aorta_setting_changes_work(const char *key) {
    static const char *const sections[] = {"model.", "dataset.", "sparse."};
    /* the last word of a key, of an option of hwq or of a command */
    static const char *const words[] = {"batch",     "batch_size",      "batch-size",  "gradient_accumulation",
                                        "micro",     "streams",         "mm-dim",      "num-compute",
                                        "comm-size", "compute-streams", "num-coll",    "sequence_length",
                                        "seq_len",   "seq-len",         "matrix-size", "layers"};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (strncmp(key, sections[i], strlen(sections[i])) == 0) return true;
    const char *dot = strrchr(key, '.'), *word = dot ? dot + 1 : key;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0) return true;
    return false;
}
