/* sweep.json, best.yaml and best.env. */
#include "base/files.h"
#include "base/result_table.h"
#include "sparse/options.h"
#include "sweep/result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- sweep.json ---- */

static void write_effect(struct aorta_json *json, const struct aorta_sweep_effect *effect) {
    aorta_json_key_double(json, "share", effect->measured ? effect->share : NAN);
    aorta_json_key_double(json, "p_value", effect->p);
    aorta_json_key_bool(json, "counts", effect->counts);
}

static void write_knob(struct aorta_json *json, const struct aorta_sweep_result *result, int k) {
    const struct aorta_sweep_importance *importance = &result->importance;
    const struct aorta_sweep_knob *knob = &result->plan->space.knobs[k];
    aorta_json_object(json);
    aorta_json_key_string(json, "name", knob->name);
    aorta_json_key_bool(json, "environment", knob->environment);
    aorta_json_key_bool(json, "ordered", knob->ordered);
    aorta_json_key_double(json, "importance", importance->total[k]);
    aorta_json_key_bool(json, "beats_noise", importance->counts[k]);
    aorta_json_key_object(json, "alone");
    write_effect(json, &importance->mains[k]);
    aorta_json_object_end(json);
    aorta_json_key_array(json, "values");
    for (int v = 0; v < knob->count; v++) {
        const struct aorta_sweep_level *level = &importance->levels[k][v];
        aorta_json_object(json);
        aorta_json_key_string(json, "value", knob->values[v]);
        aorta_json_key_double(json, "mean", level->mean);
        aorta_json_key_int(json, "trials", level->done);
        aorta_json_key_int(json, "failures", level->failed);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
    aorta_json_object_end(json);
}

static void write_importance(struct aorta_json *json, const struct aorta_sweep_result *result) {
    const struct aorta_sweep_importance *importance = &result->importance;
    const struct aorta_sweep_space *space = &result->plan->space;
    aorta_json_key_object(json, "noise");
    aorta_json_key_double(json, "std", importance->noise);
    aorta_json_key_int(json, "degrees_of_freedom", importance->freedom);
    aorta_json_key_string(json, "from", importance->repeated ? "repeats" : "residue");
    aorta_json_object_end(json);
    aorta_json_key_array(json, "knobs");
    for (int k = 0; k < space->count; k++) write_knob(json, result, k);
    aorta_json_array_end(json);
    aorta_json_key_array(json, "interactions");
    for (int i = 0; i < importance->pair_count; i++) {
        const struct aorta_sweep_effect *pair = &importance->pairs[i];
        aorta_json_object(json);
        aorta_json_key_array(json, "knobs");
        for (int side = 0; side < 2; side++) aorta_json_string(json, space->knobs[pair->knobs[side]].name);
        aorta_json_array_end(json);
        write_effect(json, pair);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void write_figures(struct aorta_json *json, const struct aorta_sweep_point *point) {
    aorta_json_key_int(json, "steps", point->steps);
    aorta_json_key_int(json, "runs", point->runs);
    aorta_sweep_figures_json(point->figures, json);
}

static void write_baseline(struct aorta_json *json, const struct aorta_sweep_result *result) {
    if (!result->baseline.runs) {
        aorta_json_key_null(json, "baseline");
        return;
    }
    aorta_json_key_object(json, "baseline");
    write_figures(json, &result->baseline);
    aorta_json_key_bool(json, "within_noise", result->baseline_alike);
    aorta_json_object_end(json);
}

static void write_points(struct aorta_json *json, const struct aorta_sweep_result *result) {
    const struct aorta_sweep_space *space = &result->plan->space;
    if (result->best) {
        aorta_json_key_object(json, "best");
        aorta_sweep_point_json(space, result->best->cell, json);
        write_figures(json, result->best);
        aorta_json_key_int(json, "points_alike", (int64_t)result->alike);
        aorta_json_key_bool(json, "beats_noise", result->wins);
        aorta_json_object_end(json);
    } else {
        aorta_json_key_null(json, "best");
    }
    aorta_json_key_array(json, "points");
    for (size_t i = 0; i < result->count; i++) {
        aorta_json_object(json);
        aorta_sweep_point_json(space, result->points[i].cell, json);
        write_figures(json, &result->points[i]);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

void aorta_sweep_result_json(const struct aorta_sweep_result *result, struct aorta_text *text) {
    const struct aorta_sweep_plan *plan = result->plan;
    struct aorta_json json;
    aorta_sweep_json_begin(plan, text, 2, &json);
    aorta_json_key_bool(&json, "higher_is_better", aorta_sweep_objectives[plan->objective].higher_is_better);
    aorta_json_key_int(&json, "steps", plan->steps);
    aorta_json_key_int(&json, "repeats", plan->repeats);
    aorta_json_key_int(&json, "seed", (int64_t)plan->seed);
    aorta_json_key_int(&json, "planned_trials", aorta_sweep_planned(plan));
    aorta_json_key_object(&json, "states");
    for (int s = 0; s < AORTA_TRIAL_STATE_COUNT; s++)
        aorta_json_key_int(&json, aorta_trial_state_name((enum aorta_trial_state)s), result->states[s]);
    aorta_json_object_end(&json);
    aorta_json_key_fixed(&json, "seconds", result->seconds, 3);
    write_points(&json, result);
    write_baseline(&json, result);
    write_importance(&json, result);
    aorta_json_key_array(&json, "trials");
    for (size_t i = 0; i < result->trials->count; i++) aorta_sweep_trial_json(plan, &result->trials->items[i], &json);
    aorta_json_array_end(&json);
    aorta_json_output_end(&json);
}

/* ---- best.yaml ---- */

static void write_yaml(json_t *object, int indent, struct aorta_text *text) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        aorta_text_printf(text, "%*s%s:", indent, "", key);
        if (json_is_object(value) && json_object_size(value)) {
            aorta_text_puts(text, "\n");
            write_yaml(value, indent + 2, text);
            continue;
        }
        char *scalar = json_dumps(value, JSON_ENCODE_ANY);
        if (!scalar) text->failed = 1;
        aorta_text_printf(text, " %s\n", scalar ? scalar : "");
        free(scalar);
    }
}

static aorta_status write_values(const char *path, const char *const *overrides, size_t count,
                                 struct aorta_json *json) {
    if (aorta_sparse_is_asked_for(path, overrides, count)) {
        struct aorta_sparse_options sparse;
        AORTA_TRY(aorta_sparse_options_load(path, overrides, count, &sparse));
        aorta_config_write_json(&sparse.train.config, json);
        aorta_sparse_options_free(&sparse);
        return NULL;
    }
    struct aorta_train_options options;
    AORTA_TRY(aorta_train_options_load(path, overrides, count, &options));
    aorta_config_write_json(&options.config, json);
    aorta_train_options_free(&options);
    return NULL;
}

static aorta_status best_config(const struct aorta_sweep_job *job, const char *const *overrides, size_t count,
                                struct aorta_text *text) {
    struct aorta_text json_text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &json_text, 0);
    aorta_status status = write_values(job->config, overrides, count, &json);
    if (!status) status = aorta_text_check(&json_text);
    json_t *root = status ? NULL : json_loads(json_text.data, 0, NULL);
    if (!status && !root) status = AORTA_ERROR(AORTA_INTERNAL, "a configuration that is no JSON");
    if (root) write_yaml(root, 0, text);
    json_decref(root);
    aorta_text_free(&json_text);
    return status;
}

static aorta_status write_text(const char *directory, const char *name, aorta_status status, struct aorta_text *text) {
    if (!status) status = aorta_file_put(aorta_path_in(directory, "%s", name).text, text);
    aorta_text_free(text);
    return status;
}

static aorta_status write_config(const struct aorta_sweep_job *job, const struct aorta_sweep_result *result) {
    const struct aorta_sweep_plan *plan = &job->plan;
    struct aorta_arena arena = {0};
    struct aorta_text text = {0};
    aorta_text_printf(&text, "# The best of %s by %s: %s.\n", aorta_counted((long long)result->whole, "point").text,
                      aorta_sweep_objectives[plan->objective].key,
                      aorta_brief(result->best->figures[plan->objective]).text);
    const char **all = aorta_arena_alloc(&arena, (job->override_count + AORTA_SWEEP_MOST_KNOBS) * sizeof *all);
    size_t count = 0;
    for (size_t i = 0; all && i < job->override_count; i++) all[count++] = job->overrides[i];
    for (int k = 0; all && k < plan->space.count; k++) {
        const char *value = aorta_sweep_value(&plan->space, result->best->cell, k);
        const char *pair = aorta_arena_printf(&arena, "%s=%s", plan->space.knobs[k].name, value);
        aorta_text_printf(&text, "# %s%s%s\n", pair ? pair : "", plan->space.knobs[k].environment ? " (best.env)" : "",
                          result->importance.counts[k] ? "" : ", within the noise");
        if (!plan->space.knobs[k].environment) all[count++] = pair;
    }
    aorta_status status = aorta_arena_check(&arena, "best.yaml");
    if (!status) status = best_config(job, all, count, &text);
    aorta_arena_free(&arena);
    return write_text(job->output, "best.yaml", status, &text);
}

/* ---- best.env ---- */

static aorta_status write_environment(const struct aorta_sweep_job *job, const struct aorta_sweep_result *result) {
    const struct aorta_sweep_space *space = &job->plan.space;
    struct aorta_text text = {0};
    for (int k = 0; k < space->count; k++) {
        const char *value = aorta_sweep_value(space, result->best->cell, k);
        if (!space->knobs[k].environment) continue;
        const struct aorta_sweep_variable set = {space->knobs[k].name, strcmp(value, "unset") ? value : NULL};
        aorta_sweep_export(&set, &text);
    }
    if (!text.length && !text.failed) return NULL;
    return write_text(job->output, "best.env", NULL, &text);
}

/* Removes the files of an earlier part of the sweep. */
static void remove_best(const char *directory) {
    unlink(aorta_path_in(directory, "best.yaml").text);
    unlink(aorta_path_in(directory, "best.env").text);
}

aorta_status aorta_sweep_result_write(const struct aorta_sweep_job *job, const struct aorta_sweep_result *result) {
    struct aorta_text text = {0};
    aorta_sweep_result_json(result, &text);
    AORTA_TRY(write_text(job->output, "sweep.json", NULL, &text));
    if (!result->wins) {
        remove_best(job->output);
        return NULL;
    }
    if (job->target == AORTA_SWEEP_TRAIN) AORTA_TRY(write_config(job, result));
    return write_environment(job, result);
}

/* ---- the tables of a sweep as CSV ---- */

enum { POINT_SIZE = 1024 };

static const char *objective_key(int objective) {
    return aorta_sweep_objectives[objective].key;
}

struct point_values {
    const char *point;
    int64_t steps;
    int runs;
    double figures[AORTA_SWEEP_OBJECTIVE_COUNT];
    char name[POINT_SIZE];
};

#define AT(member) offsetof(struct point_values, member)
static const struct aorta_row point_rows[] = {{"point", AORTA_ROW_TEXT, AT(point), .help = "values of its knobs"},
                                              {"steps", AORTA_ROW_INT, AT(steps), .help = "of each of its trials"},
                                              {"runs", AORTA_ROW_INT32, AT(runs), .help = "trials that have a figure"},
                                              {"mean", AORTA_ROW_NUMBER, AT(figures), .help = "of those",
                                               .name = objective_key, .names = AORTA_SWEEP_OBJECTIVE_COUNT},
                                              {0}};

static enum aorta_line fill_point(const void *of, size_t index, void *values) {
    if (index >= ((const struct aorta_sweep_result *)of)->count) return AORTA_LINE_END;
    const struct aorta_sweep_result *result = of;
    const struct aorta_sweep_point *point = &result->points[index];
    struct point_values *out = values;
    struct aorta_text text = {0};
    aorta_sweep_point_text(&result->plan->space, point->cell, &text);
    snprintf(out->name, POINT_SIZE, "%s", text.data ? text.data : "");
    aorta_text_free(&text);
    out->point = out->name;
    out->steps = point->steps;
    out->runs = point->runs;
    memcpy(out->figures, point->figures, sizeof out->figures);
    return AORTA_LINE;
}

aorta_status aorta_sweep_result_csv(const struct aorta_sweep_result *result, const char *folder) {
    static AORTA_TABLE(points, "points", AORTA_LINES(point_rows, struct point_values, fill_point));
    return aorta_table_csv(&points, result, folder);
}
