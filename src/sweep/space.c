/* Knobs and their values, and the points these make. */
#include "config/option.h"
#include "report/settings.h"
#include "sweep/sweep.h"

#include <stdlib.h>
#include <string.h>

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

static bool has_value(const char *const *values, int count, const char *value) {
    for (int i = 0; i < count; i++)
        if (!strcmp(values[i], value)) return true;
    return false;
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
        if (has_value(values, knob->count, value))
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
    for (int i = 0; i < space->count; i++)
        if (!strcmp(space->knobs[i].name, knob.name))
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
