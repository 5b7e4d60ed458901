/* trials.jsonl: a line with the definition of the sweep, and a line for each ended trial. */
#include "base/array.h"
#include "base/files.h"
#include "sweep/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct aorta_sweep_objective_row aorta_sweep_objectives[AORTA_SWEEP_OBJECTIVE_COUNT] = {
    {"step_ms", "ms", false, 0, 1e12, .above_min = true},
    {"overlap_ratio", "", true, 0, 1, .above_min = false},
    {"exposed_comm_ms", "ms", false, 0, 1e12, .above_min = false},
    {"throughput", "1/s", true, 0, 1e18, .above_min = true},
};

static const char *const states[AORTA_TRIAL_STATE_COUNT] = {"done", "failed",    "crashed",
                                                            "hung", "no_figure", "disk_full"};

bool aorta_sweep_figure_fits(enum aorta_sweep_objective objective, double figure) {
    const struct aorta_sweep_objective_row *row = &aorta_sweep_objectives[objective];
    if (isnan(figure)) return true;
    return figure >= row->min && figure <= row->max && !(row->above_min && figure == row->min);
}

const char *aorta_sweep_unit(const struct aorta_trials *trials, enum aorta_sweep_objective objective) {
    for (size_t i = 0; objective == AORTA_SWEEP_THROUGHPUT && i < trials->count; i++)
        if (*trials->items[i].unit) return trials->items[i].unit;
    return aorta_sweep_objectives[objective].unit;
}

const char *aorta_trial_state_name(enum aorta_trial_state state) {
    return states[state];
}

aorta_status aorta_sweep_states_read(const char *name, unsigned *bits) {
    unsigned named = 0;
    for (int s = AORTA_TRIAL_FAILED; s <= AORTA_TRIAL_NO_FIGURE; s++)
        if (!strcmp(name, "all") || !strcmp(name, states[s])) named |= 1u << s;
    *bits |= named;
    return named ? NULL
                 : AORTA_ERROR(AORTA_USAGE, "--retry %s: expected failed, crashed, hung, no_figure or all", name);
}

int64_t aorta_sweep_cell_of(const struct aorta_sweep_plan *plan, const struct aorta_trial *trial) {
    return trial->cell == AORTA_SWEEP_BASELINE && plan->equal ? plan->equal - 1 : trial->cell;
}

bool aorta_trial_has(const struct aorta_trial *trial, enum aorta_sweep_objective objective) {
    return trial->state == AORTA_TRIAL_DONE && isfinite(trial->figures[objective]);
}

aorta_status aorta_trials_add(struct aorta_trials *trials, const struct aorta_trial *trial) {
    AORTA_TRY(
        aorta_array_reserve(&trials->items, &trials->capacity, trials->count + 1, sizeof *trials->items, "trials"));
    trials->items[trials->count++] = *trial;
    return NULL;
}

aorta_status aorta_trials_take(struct aorta_trials *trials, unsigned taken_states, struct aorta_trials *taken) {
    size_t count = 0;
    aorta_status status = NULL;
    for (size_t i = 0; i < trials->count; i++)
        if (!status && taken_states & 1u << trials->items[i].state)
            status = aorta_trials_add(taken, &trials->items[i]);
        else
            trials->items[count++] = trials->items[i];
    trials->count = count;
    return status;
}

bool aorta_trials_on_gpu(const struct aorta_trials *trials) {
    for (size_t i = 0; i < trials->count; i++)
        if (*trials->items[i].device && strcmp(trials->items[i].device, "cpu") != 0) return true;
    return false;
}

void aorta_trials_free(struct aorta_trials *trials) {
    free(trials->items);
    *trials = (struct aorta_trials){0};
}

/* ---- writing ---- */

static void write_knobs(const struct aorta_sweep_space *space, struct aorta_json *json) {
    aorta_json_key_array(json, "knobs");
    for (int i = 0; i < space->count; i++) {
        const struct aorta_sweep_knob *knob = &space->knobs[i];
        aorta_json_object(json);
        aorta_json_key_string(json, "name", knob->name);
        aorta_json_key_bool(json, "environment", knob->environment);
        aorta_json_key_array(json, "values");
        for (int v = 0; v < knob->count; v++) aorta_json_string(json, knob->values[v]);
        aorta_json_array_end(json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

void aorta_sweep_json_begin(const struct aorta_sweep_plan *plan, struct aorta_text *text, int indent,
                            struct aorta_json *json) {
    aorta_json_output(json, text, indent, AORTA_SWEEP_SCHEMA);
    aorta_json_key_string(json, "kind", "sweep");
    aorta_json_key_string(json, "target", plan->target);
    aorta_json_key_string(json, "search", aorta_sweep_methods[plan->method]);
    aorta_json_key_string(json, "objective", aorta_sweep_objectives[plan->objective].key);
}

void aorta_sweep_header(const struct aorta_sweep_plan *plan, struct aorta_text *line) {
    struct aorta_json json;
    aorta_sweep_json_begin(plan, line, 0, &json);
    aorta_json_key_int(&json, "points", plan->points);
    aorta_json_key_int(&json, "repeats", plan->repeats);
    aorta_json_key_bool(&json, "baseline", plan->baseline);
    if (plan->equal) aorta_json_key_int(&json, "baseline_cell", plan->equal - 1);
    aorta_json_key_int(&json, "steps", plan->steps);
    aorta_json_key_int(&json, "seed", (int64_t)plan->seed);
    write_knobs(&plan->space, &json);
    aorta_json_output_end(&json);
}

void aorta_sweep_point_json(const struct aorta_sweep_space *space, int64_t cell, struct aorta_json *json) {
    aorta_json_key_object(json, "values");
    for (int i = 0; i < space->count; i++)
        aorta_json_key_string(json, space->knobs[i].name, aorta_sweep_value(space, cell, i));
    aorta_json_object_end(json);
}

void aorta_sweep_figures_json(const double figures[AORTA_SWEEP_OBJECTIVE_COUNT], struct aorta_json *json) {
    for (int i = 0; i < AORTA_SWEEP_OBJECTIVE_COUNT; i++)
        aorta_json_key_double(json, aorta_sweep_objectives[i].key, figures[i]);
}

void aorta_sweep_trial_json(const struct aorta_sweep_plan *plan, const struct aorta_trial *trial,
                            struct aorta_json *json) {
    aorta_json_object(json);
    aorta_json_key_int(json, "trial", trial->number);
    if (trial->again >= 0) aorta_json_key_int(json, "again", trial->again);
    aorta_json_key_natural(json, "cell", trial->cell); /* the baseline: null */
    aorta_sweep_point_json(&plan->space, trial->cell, json);
    aorta_json_key_int(json, "repeat", trial->repeat);
    aorta_json_key_int(json, "steps", trial->steps);
    aorta_json_key_string(json, "state", states[trial->state]);
    aorta_json_key_int(json, "exit_code", trial->exit_code);
    aorta_json_key_int(json, "signal", trial->signal);
    aorta_json_key_fixed(json, "seconds", trial->seconds, 3);
    aorta_sweep_figures_json(trial->figures, json);
    aorta_json_key_string(json, "device", trial->device[0] ? trial->device : NULL);
    if (*trial->unit) aorta_json_key_string(json, "throughput_unit", trial->unit);
    if (trial->pressure > 0) aorta_json_key_fixed(json, "machine_pressure", trial->pressure, 3);
    aorta_json_key_string(json, "reason", trial->reason[0] ? trial->reason : NULL);
    aorta_json_object_end(json);
}

void aorta_sweep_trial_line(const struct aorta_sweep_plan *plan, const struct aorta_trial *trial,
                            struct aorta_text *line) {
    struct aorta_json json;
    aorta_json_begin(&json, line, 0);
    aorta_sweep_trial_json(plan, trial, &json);
    aorta_text_puts(line, "\n");
}

/* ---- reading ---- */

static aorta_status malformed(const char *path, int line, const char *what) {
    return AORTA_ERROR(AORTA_FORMAT, "%s:%d: %s", path, line, what);
}

/* Index of a text among names; -1: none. */
static int name_index(const json_t *value, const char *const *names, int count) {
    const char *text = json_string_value(value);
    for (int i = 0; text && i < count; i++)
        if (!strcmp(text, names[i])) return i;
    return -1;
}

static int objective_index(const json_t *value) {
    const char *names[AORTA_SWEEP_OBJECTIVE_COUNT];
    for (int i = 0; i < AORTA_SWEEP_OBJECTIVE_COUNT; i++) names[i] = aorta_sweep_objectives[i].key;
    return name_index(value, names, AORTA_SWEEP_OBJECTIVE_COUNT);
}

/* Writes the knob as on the command line, so that aorta_sweep_space_add parses both. */
static aorta_status read_knob(const json_t *row, struct aorta_arena *arena, struct aorta_sweep_space *space) {
    struct aorta_text text = {0};
    const char *name = json_string_value(json_object_get(row, "name"));
    const json_t *values = json_object_get(row, "values"), *value;
    size_t i;
    aorta_text_printf(&text, "%s=", name ? name : "");
    json_array_foreach(values, i, value) {
        const char *word = json_string_value(value);
        aorta_text_printf(&text, "%s%s", i ? "," : "", word ? word : "");
    }
    aorta_status status = aorta_text_check(&text);
    if (!status)
        status = aorta_sweep_space_add(space, text.data, json_is_true(json_object_get(row, "environment")), arena);
    aorta_text_free(&text);
    return status;
}

static aorta_status read_header(const json_t *root, const char *path, struct aorta_arena *arena,
                                struct aorta_sweep_plan *plan) {
    const char *kind = json_string_value(json_object_get(root, "kind"));
    int64_t schema = json_integer_value(json_object_get(root, "schema_version"));
    if (!kind || strcmp(kind, "sweep") != 0) return malformed(path, 1, "is not the first line of a sweep");
    if (schema != AORTA_SWEEP_SCHEMA)
        return AORTA_ERROR(AORTA_FORMAT, "%s: schema_version %lld; this program reads %d", path, (long long)schema,
                           AORTA_SWEEP_SCHEMA);
    int method = name_index(json_object_get(root, "search"), aorta_sweep_methods, AORTA_SWEEP_TPE + 1);
    int objective = objective_index(json_object_get(root, "objective"));
    const char *name = json_string_value(json_object_get(root, "target"));
    if (method < 0 || objective < 0 || !name) return malformed(path, 1, "has no search, objective or target");
    *plan = (struct aorta_sweep_plan){.target = aorta_arena_strdup(arena, name),
                                      .method = (enum aorta_sweep_method)method,
                                      .objective = (enum aorta_sweep_objective)objective,
                                      .points = json_integer_value(json_object_get(root, "points")),
                                      .repeats = (int)json_integer_value(json_object_get(root, "repeats")),
                                      .baseline = json_is_true(json_object_get(root, "baseline")),
                                      .steps = json_integer_value(json_object_get(root, "steps")),
                                      .seed = (uint64_t)json_integer_value(json_object_get(root, "seed"))};
    const json_t *equal = json_object_get(root, "baseline_cell");
    if (json_is_integer(equal)) plan->equal = json_integer_value(equal) + 1;
    AORTA_TRY(aorta_arena_check(arena, path));
    const json_t *knob;
    size_t i;
    json_array_foreach(json_object_get(root, "knobs"), i, knob) {
        AORTA_TRY(aorta_annotate(read_knob(knob, arena, &plan->space), "%s:1", path));
    }
    if (plan->equal < 0 || plan->equal > aorta_sweep_cells(&plan->space))
        return malformed(path, 1, "has a baseline_cell that is none of its cells");
    return NULL;
}

static aorta_status read_trial(const json_t *root, const char *path, int line, const struct aorta_sweep_plan *plan,
                               struct aorta_trials *trials) {
    struct aorta_trial trial = {.number = (int64_t)trials->count,
                                .again = -1,
                                .repeat = (int)json_integer_value(json_object_get(root, "repeat")),
                                .steps = json_integer_value(json_object_get(root, "steps")),
                                .exit_code = (int)json_integer_value(json_object_get(root, "exit_code")),
                                .signal = (int)json_integer_value(json_object_get(root, "signal")),
                                .seconds = json_number_value(json_object_get(root, "seconds"))};
    const json_t *cell = json_object_get(root, "cell");
    int state = name_index(json_object_get(root, "state"), states, AORTA_TRIAL_STATE_COUNT);
    const bool baseline = plan->baseline && json_is_null(cell);
    trial.cell = json_is_integer(cell) ? json_integer_value(cell) : AORTA_SWEEP_BASELINE;
    if ((!baseline && trial.cell < 0) || trial.cell >= aorta_sweep_cells(&plan->space) || state < 0 || trial.repeat < 0)
        return malformed(path, line, "is no trial of this sweep");
    trial.state = (enum aorta_trial_state)state;
    for (int i = 0; i < AORTA_SWEEP_OBJECTIVE_COUNT; i++) {
        const json_t *figure = json_object_get(root, aorta_sweep_objectives[i].key);
        trial.figures[i] = json_is_number(figure) ? json_number_value(figure) : NAN;
        if (!aorta_sweep_figure_fits((enum aorta_sweep_objective)i, trial.figures[i])) trial.figures[i] = NAN;
    }
    const json_t *again = json_object_get(root, "again");
    if (json_is_integer(again)) trial.again = json_integer_value(again);
    if (trial.again < -1 || trial.again >= trial.number) return malformed(path, line, "runs a later trial again");
    const char *reason = json_string_value(json_object_get(root, "reason"));
    const double pressure = json_number_value(json_object_get(root, "machine_pressure"));
    trial.pressure = pressure > 0 && pressure < 10 ? pressure : 0;
    const char *device = json_string_value(json_object_get(root, "device")),
               *unit = json_string_value(json_object_get(root, "throughput_unit"));
    snprintf(trial.device, sizeof trial.device, "%s", device ? device : "");
    snprintf(trial.unit, sizeof trial.unit, "%s", unit ? unit : "");
    snprintf(trial.reason, sizeof trial.reason, "%s", reason ? reason : "");
    if (trial.state == AORTA_TRIAL_DONE && !aorta_trial_has(&trial, plan->objective)) { /* earlier versions took any */
        trial.state = AORTA_TRIAL_NO_FIGURE;
        snprintf(trial.reason, sizeof trial.reason, "%s has no value within its range",
                 aorta_sweep_objectives[plan->objective].key);
    }
    return aorta_trials_add(trials, &trial);
}

static aorta_status read_line(const char *text, size_t length, const char *path, int line, struct aorta_arena *arena,
                              struct aorta_sweep_plan *plan, struct aorta_trials *trials) {
    json_error_t error;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!root) return malformed(path, line, error.text);
    aorta_status status = line == 1 ? read_header(root, path, arena, plan) : read_trial(root, path, line, plan, trials);
    json_decref(root);
    return status;
}

/* Drops trials that ran again. Until here a trial's number is its index. */
static void drop_repeated(struct aorta_trials *trials) {
    enum { DROPPED = -1 };
    size_t count = 0;
    for (size_t i = 0; i < trials->count; i++)
        if (trials->items[i].again >= 0) trials->items[trials->items[i].again].number = DROPPED;
    for (size_t i = 0; i < trials->count; i++)
        if (trials->items[i].number != DROPPED) trials->items[count++] = trials->items[i];
    trials->count = count;
}

aorta_status aorta_sweep_read(const char *path, struct aorta_arena *arena, struct aorta_sweep_plan *plan,
                              struct aorta_trials *trials, int64_t *valid) {
    enum { MOST_BYTES = 1 << 30 };
    char *bytes;
    size_t length, at = 0;
    int line = 0;
    AORTA_TRY(aorta_file_read_regular(path, MOST_BYTES, &bytes, &length));
    aorta_status status = NULL;
    while (!status && at < length) {
        const char *end = memchr(bytes + at, '\n', length - at);
        if (!end) break; /* a kill cut it */
        size_t size = (size_t)(end - bytes) - at;
        status = read_line(bytes + at, size, path, ++line, arena, plan, trials);
        at += size + 1;
    }
    if (!status && !line) status = AORTA_ERROR(AORTA_FORMAT, "%s: has no whole line", path);
    if (valid) *valid = (int64_t)at;
    if (!status) drop_repeated(trials);
    free(bytes);
    if (status) aorta_trials_free(trials);
    return status;
}
