#include "sweep/suggest.h"
#include "base/files.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    bool environment;
    const char *values, *device, *programs, *causes;
} knobs[] = {
#define KNOB(...) {__VA_ARGS__},
#include "sweep/knobs.def"
#undef KNOB
};
enum { KNOBS = sizeof knobs / sizeof *knobs };

static const double least_share = 0.01; /* of a step: less is not worth a sweep */

/* Whether the words, with spaces between, have this one. */
static bool has_word(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (!at[length] || at[length] == ' ')) return true;
    return false;
}

static bool fits(const char *wanted, const char *device) {
    if (!strcmp(wanted, "any")) return true;
    if (!strcmp(wanted, "gpu")) return !strcmp(device, "cuda") || !strcmp(device, "hip");
    return !strcmp(wanted, device);
}

/* cuda for the recordings of trace run on NVIDIA GPUs, which name the GPU and not the kind. */
static const char *device_of(const json_t *root, json_t *run) {
    const char *device = json_string_value(json_object_get(run, "device"));
    const char *name =
        json_string_value(json_object_get(json_array_get(json_object_get(root, "ranks"), 0), "device_name"));
    if (device) return !strncmp(device, "cuda", 4) ? "cuda" : !strncmp(device, "hip", 3) ? "hip" : "cpu";
    return name && (strstr(name, "AMD") || strstr(name, "gfx")) ? "hip" : "cuda";
}

/* What the cause costs: what a step gains without it, where that is known. */
static double share_of(const json_t *finding) {
    const json_t *gain = json_object_get(finding, "gain_share");
    return json_number_value(json_is_number(gain) ? gain : json_object_get(finding, "share"));
}

static bool has_knob(const struct aorta_sweep_space *space, const char *name) {
    for (int i = 0; i < space->count; i++)
        if (!strcmp(space->knobs[i].name, name)) return true;
    return false;
}

static aorta_status add_cause(const json_t *finding, const char *device, const char *program, int most,
                              struct aorta_arena *arena, struct aorta_sweep_space *space, struct aorta_text *text) {
    const char *cause = json_string_value(json_object_get(finding, "cause"));
    for (int k = 0; cause && k < KNOBS && space->count < most; k++) {
        if (!has_word(knobs[k].causes, cause) || !fits(knobs[k].device, device)) continue;
        if (!has_word(knobs[k].programs, "any") && !has_word(knobs[k].programs, program)) continue;
        if (has_knob(space, knobs[k].name)) continue;
        char *knob = aorta_arena_printf(arena, "%s=%s", knobs[k].name, knobs[k].values);
        if (!knob) return AORTA_ERROR(AORTA_MEMORY, "no memory for a knob");
        AORTA_TRY(aorta_sweep_space_add(space, knob, knobs[k].environment, arena));
        aorta_text_printf(text, "%s %s: %s, %.0f%% of a step\n", knobs[k].environment ? "--env " : "--grid", knob,
                          cause, 100 * share_of(finding));
    }
    return NULL;
}

/* The findings in the order of their cost; they are few. */
static aorta_status add_causes(json_t *verdict, const char *device, const char *program, int most,
                               struct aorta_arena *arena, struct aorta_sweep_space *space, struct aorta_text *text) {
    double before = 2;
    for (;;) {
        double next = least_share;
        for (size_t i = 0; i < json_array_size(verdict); i++) {
            const double share = share_of(json_array_get(verdict, i));
            if (share < before && share > next) next = share;
        }
        if (next <= least_share) return NULL;
        for (size_t i = 0; i < json_array_size(verdict); i++)
            if (share_of(json_array_get(verdict, i)) == next)
                AORTA_TRY(add_cause(json_array_get(verdict, i), device, program, most, arena, space, text));
        before = next;
    }
}

static aorta_status read_json(const char *directory, json_t **root) {
    static const char *const names[] = {"summary.json", "out/summary.json", "analysis.json"};
    enum { MOST_BYTES = 1 << 30 };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = aorta_path_join(directory, names[i]), *bytes;
        size_t length;
        json_error_t error;
        if (!path) return AORTA_ERROR(AORTA_MEMORY, "no memory for a path");
        const bool exists = !access(path, F_OK);
        aorta_status status = exists ? aorta_file_read_regular(path, MOST_BYTES, &bytes, &length) : NULL;
        if (exists && !status) {
            *root = json_loadb(bytes, length, 0, &error);
            free(bytes);
            if (!*root) status = AORTA_ERROR(AORTA_FORMAT, "%s:%d: %s", path, error.line, error.text);
        }
        free(path);
        if (exists) return status;
    }
    return AORTA_ERROR(
        AORTA_USAGE,
        "--suggest %s: no summary.json and no analysis.json; give the directory of a run of aorta train, "
        "aorta report or aorta trace run",
        directory);
}

aorta_status aorta_sweep_suggest(const char *directory, const char *program, int most, struct aorta_arena *arena,
                                 struct aorta_sweep_space *space, struct aorta_text *text) {
    json_t *root;
    AORTA_TRY(read_json(directory, &root));
    json_t *labels = json_object_get(root, "labels");
    json_t *run = json_object_iter_value(json_object_iter(labels));
    json_t *verdict = json_object_get(run ? run : root, "verdict");
    const int before = space->count;
    aorta_status status = add_causes(verdict, device_of(root, run), program, before + most, arena, space, text);
    json_decref(root);
    if (!status && space->count == before)
        status = AORTA_ERROR(AORTA_USAGE, "--suggest %s: no knob is known for the causes of its verdict", directory);
    return status;
}
