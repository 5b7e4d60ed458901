#include "sweep/compare.h"
#include "base/files.h"
#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

aorta_status aorta_sweep_side_open(const char *directory, struct aorta_sweep_side *side) {
    *side = (struct aorta_sweep_side){.directory = directory};
    char *path = aorta_path_join(directory, "trials.jsonl");
    if (!path) return AORTA_ERROR(AORTA_MEMORY, "no memory for a path");
    aorta_status status = aorta_sweep_read(path, &side->arena, &side->plan, &side->target, &side->trials, NULL);
    free(path);
    return status ? status : aorta_sweep_result_make(&side->plan, &side->trials, &side->result);
}

void aorta_sweep_side_close(struct aorta_sweep_side *side) {
    aorta_sweep_result_free(&side->result);
    aorta_trials_free(&side->trials);
    aorta_arena_free(&side->arena);
}

/* The knob of the other sweep with this name; -1: none. */
static int same_knob(const struct aorta_sweep_space *space, const struct aorta_sweep_knob *knob) {
    for (int i = 0; i < space->count; i++)
        if (!strcmp(space->knobs[i].name, knob->name) && space->knobs[i].environment == knob->environment) return i;
    return -1;
}

static aorta_status check_sides(const struct aorta_sweep_side sides[2]) {
    const struct aorta_sweep_space *first = &sides[0].plan.space, *second = &sides[1].plan.space;
    if (sides[0].plan.objective != sides[1].plan.objective)
        return AORTA_ERROR(AORTA_USAGE, "%s has the objective %s, %s has %s", sides[0].directory,
                           aorta_sweep_objectives[sides[0].plan.objective].key, sides[1].directory,
                           aorta_sweep_objectives[sides[1].plan.objective].key);
    for (int i = 0; i < first->count; i++)
        if (first->count != second->count || same_knob(second, &first->knobs[i]) < 0)
            return AORTA_ERROR(AORTA_USAGE, "%s and %s have different knobs", sides[0].directory, sides[1].directory);
    return NULL;
}

static bool same_values(const struct aorta_sweep_side sides[2], int64_t first, int64_t second) {
    const struct aorta_sweep_space *a = &sides[0].plan.space, *b = &sides[1].plan.space;
    for (int i = 0; i < a->count; i++)
        if (strcmp(aorta_sweep_value(a, first, i), aorta_sweep_value(b, second, same_knob(b, &a->knobs[i]))))
            return false;
    return true;
}

static int larger_first(const void *left, const void *right) {
    const struct aorta_sweep_common *a = left, *b = right;
    const double first = isnan(a->change) ? -1 : fabs(a->change), second = isnan(b->change) ? -1 : fabs(b->change);
    return first > second ? -1 : first < second;
}

static void sum_up(enum aorta_sweep_objective objective, struct aorta_sweep_comparison *comparison) {
    const double count = (double)comparison->count;
    double mean = 0, squares = 0;
    comparison->p = NAN;
    for (size_t i = 0; i < comparison->count; i++)
        for (int side = 0; side < 2; side++)
            comparison->mean[side] += comparison->common[i].points[side]->figures[objective] / count;
    if (comparison->count < 2) return;
    mean = comparison->mean[1] - comparison->mean[0];
    for (size_t i = 0; i < comparison->count; i++) {
        const struct aorta_sweep_common *common = &comparison->common[i];
        squares += pow(common->points[1]->figures[objective] - common->points[0]->figures[objective] - mean, 2);
    }
    const double variance = squares / (count - 1) / count;
    comparison->p = variance > 0 ? aorta_variance_ratio_p(mean * mean / variance, 1, count - 1) : mean == 0;
}

aorta_status aorta_sweep_compare(const struct aorta_sweep_side sides[2], struct aorta_sweep_comparison *comparison) {
    const enum aorta_sweep_objective objective = sides[0].plan.objective;
    *comparison = (struct aorta_sweep_comparison){0};
    AORTA_TRY(check_sides(sides));
    comparison->common = calloc(sides[0].result.whole + 1, sizeof *comparison->common);
    if (!comparison->common) return AORTA_ERROR(AORTA_MEMORY, "no memory for the points of two sweeps");
    for (size_t i = 0; i < sides[0].result.whole; i++)
        for (size_t j = 0; j < sides[1].result.whole; j++) {
            const struct aorta_sweep_point *a = &sides[0].result.points[i], *b = &sides[1].result.points[j];
            if (!same_values(sides, a->cell, b->cell)) continue;
            const double first = a->figures[objective], second = b->figures[objective];
            comparison->common[comparison->count++] =
                (struct aorta_sweep_common){{a, b}, first != 0 ? (second - first) / fabs(first) : NAN};
        }
    qsort(comparison->common, comparison->count, sizeof *comparison->common, larger_first);
    sum_up(objective, comparison);
    return NULL;
}

/* ---- text ---- */

static void put_change(double first, double second, struct aorta_text *text) {
    aorta_text_printf(text, "%s, then %s", aorta_brief(first).text, aorta_brief(second).text);
    if (first != 0) aorta_text_printf(text, " (%+.1f%%)", 100 * (second - first) / fabs(first));
}

static void put_sides_best(const struct aorta_sweep_side *side, const char *head, struct aorta_text *text) {
    aorta_text_printf(text, "  %-11s ", head);
    if (side->result.best) {
        aorta_sweep_point_text(&side->plan.space, side->result.best->cell, text);
        aorta_text_printf(text, ": %s\n", aorta_brief(side->result.best->figures[side->plan.objective]).text);
    } else {
        aorta_text_puts(text, "none\n");
    }
}

void aorta_sweep_compare_text(const struct aorta_sweep_side sides[2], const struct aorta_sweep_comparison *comparison,
                              struct aorta_text *text) {
    enum { SHOWN = 3 };
    const enum aorta_sweep_objective objective = sides[0].plan.objective;
    aorta_text_printf(text, "%s of %s and %s, %s in common: ", aorta_sweep_objectives[objective].key,
                      sides[0].directory, sides[1].directory,
                      aorta_counted((long long)comparison->count, "point").text);
    if (!comparison->count) {
        aorta_text_puts(text, "nothing to compare\n");
        return;
    }
    put_change(comparison->mean[0], comparison->mean[1], text);
    if (!isnan(comparison->p))
        aorta_text_printf(text, ", %s (p = %.2g)",
                          comparison->p < aorta_significance ? "significant" : "within the noise", comparison->p);
    aorta_text_puts(text, "\n");
    put_sides_best(&sides[0], "best before", text);
    put_sides_best(&sides[1], "best after", text);
    for (size_t i = 0; i < comparison->count && i < SHOWN; i++) {
        const struct aorta_sweep_common *common = &comparison->common[i];
        aorta_text_printf(text, "  %-11s ", i ? "" : "most change");
        aorta_sweep_point_text(&sides[0].plan.space, common->points[0]->cell, text);
        aorta_text_puts(text, ": ");
        put_change(common->points[0]->figures[objective], common->points[1]->figures[objective], text);
        aorta_text_puts(text, "\n");
    }
    for (int k = 0; k < sides[0].plan.space.count; k++) {
        const int other = same_knob(&sides[1].plan.space, &sides[0].plan.space.knobs[k]);
        const struct aorta_sweep_importance *before = &sides[0].result.importance, *after = &sides[1].result.importance;
        aorta_text_printf(text, "  %-11s %s %.0f%%%s, then %.0f%%%s\n", k ? "" : "importance",
                          sides[0].plan.space.knobs[k].name, 100 * before->total[k],
                          before->counts[k] ? "" : " (noise)", 100 * after->total[other],
                          after->counts[other] ? "" : " (noise)");
    }
}

/* ---- JSON ---- */

static void write_side(struct aorta_json *json, const struct aorta_sweep_side *side) {
    aorta_json_object(json);
    aorta_json_key_string(json, "directory", side->directory);
    aorta_json_key_string(json, "target", side->target);
    aorta_json_key_double(json, "noise_std", side->result.importance.noise);
    aorta_json_key_array(json, "knobs");
    for (int k = 0; k < side->plan.space.count; k++) {
        aorta_json_object(json);
        aorta_json_key_string(json, "name", side->plan.space.knobs[k].name);
        aorta_json_key_double(json, "importance", side->result.importance.total[k]);
        aorta_json_key_bool(json, "beats_noise", side->result.importance.counts[k]);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
    if (side->result.best) {
        aorta_json_key_object(json, "best");
        aorta_sweep_point_json(&side->plan.space, side->result.best->cell, json);
        aorta_sweep_figures_json(side->result.best->figures, json);
        aorta_json_object_end(json);
    } else {
        aorta_json_key_null(json, "best");
    }
    aorta_json_object_end(json);
}

void aorta_sweep_compare_json(const struct aorta_sweep_side sides[2], const struct aorta_sweep_comparison *comparison,
                              struct aorta_text *text) {
    const enum aorta_sweep_objective objective = sides[0].plan.objective;
    struct aorta_json json;
    aorta_json_begin(&json, text, 2);
    aorta_json_object(&json);
    aorta_json_key_int(&json, "schema_version", AORTA_SWEEP_SCHEMA);
    aorta_json_key_string(&json, "kind", "sweep_comparison");
    aorta_json_key_string(&json, "objective", aorta_sweep_objectives[objective].key);
    aorta_json_key_bool(&json, "higher_is_better", aorta_sweep_objectives[objective].higher_is_better);
    aorta_json_key_array(&json, "sweeps");
    for (int side = 0; side < 2; side++) write_side(&json, &sides[side]);
    aorta_json_array_end(&json);
    aorta_json_key_array(&json, "mean");
    for (int side = 0; side < 2; side++) aorta_json_double(&json, comparison->count ? comparison->mean[side] : NAN);
    aorta_json_array_end(&json);
    aorta_json_key_double(&json, "p_value", comparison->p);
    aorta_json_key_array(&json, "points");
    for (size_t i = 0; i < comparison->count; i++) {
        const struct aorta_sweep_common *common = &comparison->common[i];
        aorta_json_object(&json);
        aorta_sweep_point_json(&sides[0].plan.space, common->points[0]->cell, &json);
        aorta_json_key_array(&json, "figures");
        for (int side = 0; side < 2; side++) aorta_json_double(&json, common->points[side]->figures[objective]);
        aorta_json_array_end(&json);
        aorta_json_key_double(&json, "change", common->change);
        aorta_json_object_end(&json);
    }
    aorta_json_array_end(&json);
    aorta_json_object_end(&json);
    aorta_text_puts(text, "\n");
}
