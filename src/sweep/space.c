/* Knobs and their values, and the points these make. */
#include "base/files.h"
#include "config/option.h"
#include "report/summary.h"
#include "sweep/sweep.h"

#include <string.h>
#include <unistd.h>

static const int64_t most_cells = (int64_t)1 << 52; /* JSON readers keep whole numbers up to there */

/* The end of the value that begins at `at`: the next comma outside brackets and quotes. */
static const char *value_end(const char *at) {
    int depth = 0;
    char quote = 0;
    for (; *at; at++) {
        if (quote) {
            if (*at == quote) quote = 0;
        } else if (*at == '"' || *at == '\'') {
            quote = *at;
        } else if (strchr("[{(", *at)) {
            depth++;
        } else if (strchr("]})", *at)) {
            depth--;
        } else if (*at == ',' && depth <= 0) {
            break;
        }
    }
    return at;
}

static bool is_ordered(const struct aorta_sweep_knob *knob) {
    double before = 0, number;
    int up = 0, down = 0;
    for (int i = 0; i < knob->count; i++) {
        if (!aorta_scalar_double(knob->values[i], &number)) return false;
        if (i > 0) *(number > before ? &up : &down) += 1;
        before = number;
    }
    return !up || !down;
}

static aorta_status read_values(struct aorta_sweep_knob *knob, const char *text, struct aorta_arena *arena) {
    const char **values = aorta_arena_alloc(arena, AORTA_SWEEP_MOST_VALUES * sizeof *values);
    if (!values) return AORTA_ERROR(AORTA_MEMORY, "no memory for the values of %s", knob->name);
    for (const char *at = text;; at++) {
        const char *end = value_end(at);
        char *value = aorta_arena_printf(arena, "%.*s", (int)(end - at), at);
        if (!value) return AORTA_ERROR(AORTA_MEMORY, "no memory for the values of %s", knob->name);
        if (!*value) return AORTA_ERROR(AORTA_USAGE, "%s=%s: an empty value", knob->name, text);
        if (aorta_is_one_of(value, values, (size_t)knob->count))
            return AORTA_ERROR(AORTA_USAGE, "%s=%s: %s is listed twice", knob->name, text, value);
        if (knob->count == AORTA_SWEEP_MOST_VALUES)
            return AORTA_ERROR(AORTA_USAGE, "%s: more than %d values", knob->name, AORTA_SWEEP_MOST_VALUES);
        values[knob->count++] = value;
        at = end;
        if (!*end) break;
    }
    knob->values = values;
    knob->ordered = is_ordered(knob);
    return NULL;
}

int aorta_sweep_knob_named(const struct aorta_sweep_space *space, const char *name, size_t length) {
    int i = space->count - 1;
    while (i >= 0 && (strlen(space->knobs[i].name) != length || strncmp(space->knobs[i].name, name, length) != 0)) i--;
    return i;
}

aorta_status aorta_sweep_space_add(struct aorta_sweep_space *space, const char *text, bool environment,
                                   struct aorta_arena *arena) {
    const char *option = environment ? "--env" : "--grid";
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) return AORTA_ERROR(AORTA_USAGE, "%s %s: write NAME=VALUE,VALUE", option, text);
    if (space->count == AORTA_SWEEP_MOST_KNOBS)
        return AORTA_ERROR(AORTA_USAGE, "%s %s: more than %d knobs", option, text, AORTA_SWEEP_MOST_KNOBS);
    struct aorta_sweep_knob knob = {.environment = environment};
    knob.name = aorta_arena_printf(arena, "%.*s", (int)(equals - text), text);
    if (!knob.name) return AORTA_ERROR(AORTA_MEMORY, "no memory for a knob");
    if (aorta_sweep_knob_named(space, text, (size_t)(equals - text)) >= 0)
        return AORTA_ERROR(AORTA_USAGE, "%s %s: the knob is given twice", option, text);
    AORTA_TRY(read_values(&knob, equals + 1, arena));
    if (aorta_sweep_cells(space) > most_cells / knob.count)
        return AORTA_ERROR(AORTA_USAGE, "%s %s: too many combinations", option, text);
    space->knobs[space->count++] = knob;
    return NULL;
}

static bool changes_work(const struct aorta_sweep_knob *knob) {
    return !knob->environment && knob->count > 1 && aorta_setting_changes_work(knob->name);
}

const char *aorta_sweep_changes_work(const struct aorta_sweep_space *space) {
    for (int i = 0; i < space->count; i++)
        if (changes_work(&space->knobs[i])) return space->knobs[i].name;
    return NULL;
}

int64_t aorta_sweep_cells(const struct aorta_sweep_space *space) {
    int64_t cells = 1;
    for (int i = 0; i < space->count; i++) cells *= space->knobs[i].count;
    return cells;
}

int aorta_sweep_level(const struct aorta_sweep_space *space, int64_t cell, int knob) {
    for (int i = space->count - 1; i > knob; i--) cell /= space->knobs[i].count;
    return (int)(cell % space->knobs[knob].count);
}

const char *aorta_sweep_value(const struct aorta_sweep_space *space, int64_t cell, int knob) {
    const struct aorta_sweep_knob *k = &space->knobs[knob];
    if (cell == AORTA_SWEEP_BASELINE) return k->count == 1 ? k->values[0] : NULL;
    return k->values[aorta_sweep_level(space, cell, knob)];
}

void aorta_sweep_point_text(const struct aorta_sweep_space *space, int64_t cell, struct aorta_text *text) {
    if (cell == AORTA_SWEEP_BASELINE) aorta_text_puts(text, "baseline");
    for (int i = 0; cell != AORTA_SWEEP_BASELINE && i < space->count; i++)
        aorta_text_printf(text, "%s%s=%s", i ? " " : "", space->knobs[i].name, aorta_sweep_value(space, cell, i));
}

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

static const double least_share = 0.01; /* smallest share of a step for which knobs are suggested */

/* Whether the space-separated list has the word. */
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

/* The cause's gain as a share of the step, or else its share of the step's time. */
static double share_of(const json_t *finding) {
    const json_t *gain = json_object_get(finding, "gain_share");
    return json_number_value(json_is_number(gain) ? gain : json_object_get(finding, "share"));
}

static aorta_status add_cause(const json_t *finding, const char *device, const char *program, int most,
                              struct aorta_arena *arena, struct aorta_sweep_space *space, struct aorta_text *text) {
    const char *cause = json_string_value(json_object_get(finding, "cause"));
    for (int k = 0; cause && k < KNOBS && space->count < most; k++) {
        if (!has_word(knobs[k].causes, cause) || !fits(knobs[k].device, device)) continue;
        if (!has_word(knobs[k].programs, "any") && !has_word(knobs[k].programs, program)) continue;
        if (aorta_sweep_knob_named(space, knobs[k].name, strlen(knobs[k].name)) >= 0) continue;
        char *knob = aorta_arena_printf(arena, "%s=%s", knobs[k].name, knobs[k].values);
        if (!knob) return AORTA_ERROR(AORTA_MEMORY, "no memory for a knob");
        AORTA_TRY(aorta_sweep_space_add(space, knob, knobs[k].environment, arena));
        aorta_text_printf(text, "%s %s: %s, %.0f%% of a step\n", knobs[k].environment ? "--env " : "--grid", knob,
                          cause, 100 * share_of(finding));
    }
    return NULL;
}

/* Adds knobs for the findings, largest cost first. */
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
        const struct aorta_file_path path = aorta_path_in(directory, "%s", names[i]);
        if (!access(path.text, F_OK)) return aorta_json_file_read(path.text, MOST_BYTES, root);
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
