/* A comparison of sweeps as text and as JSON. */
#include "base/compare.h"
#include "sweep/compare.h"

#include <math.h>
#include <stdio.h>

static void put_change(double first, double second, struct aorta_text *text) {
    aorta_text_printf(text, "%s, then %s", aorta_brief(first).text, aorta_brief(second).text);
    if (first != 0) aorta_text_printf(text, " (%+.1f%%)", 100 * (second - first) / fabs(first));
}

/* The objective where that changed, else the figure that changed most; as one of several it has to be the less likely
 * (Bonferroni). */
static void put_largest(const struct aorta_sweep_side sides[2], const struct aorta_sweep_comparison *comparison,
                        struct aorta_text *text) {
    int largest = -1;
    double farthest = 0;
    for (int f = 0; f < AORTA_SWEEP_OBJECTIVE_COUNT; f++) {
        const struct aorta_sweep_difference *figure = &comparison->figures[f];
        const double ratio = figure->mean[1] / figure->mean[0];
        const bool objective = f == (int)sides[0].plan.objective;
        const double level = objective ? aorta_significance : aorta_significance / AORTA_SWEEP_OBJECTIVE_COUNT;
        double far = ratio > 0 && figure->p < level ? fabs(log(ratio)) : 0;
        if (objective && far > 0) far = INFINITY;
        if (far <= farthest) continue;
        farthest = far;
        largest = f;
    }
    const char *before = sides[0].directory, *after = sides[1].directory;
    if (largest < 0) {
        aorta_compared_text(NULL, NULL, before, after, NULL, text);
        return;
    }
    const double *mean = comparison->figures[largest].mean;
    char points[96];
    snprintf(points, sizeof points, ", the mean of %s",
             aorta_counted((long long)comparison->figures[largest].points, "point").text);
    const bool better = (mean[1] > mean[0]) == aorta_sweep_objectives[largest].higher_is_better;
    const struct aorta_compared row = {
        .figure = aorta_sweep_objectives[largest].key, .unit = "", .of = {.value = {mean[0], mean[1]}}};
    aorta_compared_text(&row, better ? "better" : "worse", before, after, points, text);
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
    aorta_differences_text(&comparison->differences, text);
    aorta_text_printf(text, "%s of %s and %s, %s in common: ", aorta_sweep_objectives[objective].key,
                      sides[0].directory, sides[1].directory,
                      aorta_counted((long long)comparison->count, "point").text);
    if (!comparison->count) {
        aorta_text_puts(text, "nothing to compare\n");
        return;
    }
    const struct aorta_sweep_difference *sum = &comparison->figures[objective];
    put_change(sum->mean[0], sum->mean[1], text);
    if (!isnan(sum->p))
        aorta_text_printf(text, ", %s (p = %.2g)", sum->p < aorta_significance ? "significant" : "within the noise",
                          sum->p);
    aorta_text_puts(text, "\n  ");
    put_largest(sides, comparison, text);
    aorta_text_puts(text, "\n");
    if (sum->between > 0)
        aorta_text_printf(text, "  Equal sweeps are assumed to differ by %s%%.\n",
                          aorta_brief(100 * sum->between).text);
    put_sides_best(&sides[0], "best before", text);
    put_sides_best(&sides[1], "best after", text);
    for (size_t i = 0; i < comparison->count && i < SHOWN; i++) {
        const struct aorta_sweep_common *common = &comparison->common[i];
        aorta_text_printf(text, "  %-11s ", i ? "" : "most change");
        aorta_sweep_point_text(&sides[0].plan.space, common->points[0]->cell, text);
        aorta_text_puts(text, ": ");
        put_change(common->points[0]->figures[objective], common->points[1]->figures[objective], text);
        aorta_text_puts(text, isnan(common->p) || common->counts ? "\n" : ", within the noise\n");
    }
    for (int k = 0; k < sides[0].plan.space.count; k++) {
        const int other = comparison->knobs[k];
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

static void write_figures(struct aorta_json *json, const struct aorta_sweep_comparison *comparison) {
    aorta_json_key_object(json, "figures");
    for (int f = 0; f < AORTA_SWEEP_OBJECTIVE_COUNT; f++) {
        const struct aorta_sweep_difference *figure = &comparison->figures[f];
        aorta_json_key_object(json, aorta_sweep_objectives[f].key);
        aorta_json_key_array(json, "mean");
        for (int side = 0; side < 2; side++) aorta_json_double(json, figure->mean[side]);
        aorta_json_array_end(json);
        aorta_json_key_int(json, "points", (int64_t)figure->points);
        aorta_json_key_double(json, "p_value", figure->p);
        aorta_json_key_double(json, "between_sweeps_percent", 100 * figure->between);
        aorta_json_key_bool(json, "higher_is_better", aorta_sweep_objectives[f].higher_is_better);
        aorta_json_object_end(json);
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
    aorta_differences_json(&comparison->differences, &json);
    struct aorta_text largest = {0};
    put_largest(sides, comparison, &largest);
    aorta_json_key_string(&json, "largest_change", largest.data);
    text->failed |= largest.failed;
    aorta_text_free(&largest);
    aorta_json_key_array(&json, "mean");
    for (int side = 0; side < 2; side++) aorta_json_double(&json, comparison->figures[objective].mean[side]);
    aorta_json_array_end(&json);
    aorta_json_key_double(&json, "p_value", comparison->figures[objective].p);
    write_figures(&json, comparison);
    aorta_json_key_array(&json, "points");
    for (size_t i = 0; i < comparison->count; i++) {
        const struct aorta_sweep_common *common = &comparison->common[i];
        aorta_json_object(&json);
        aorta_sweep_point_json(&sides[0].plan.space, common->points[0]->cell, &json);
        aorta_json_key_array(&json, "figures");
        for (int side = 0; side < 2; side++) aorta_json_double(&json, common->points[side]->figures[objective]);
        aorta_json_array_end(&json);
        aorta_json_key_double(&json, "change", common->change);
        aorta_json_key_double(&json, "p_value", common->p);
        aorta_json_key_bool(&json, "counts", common->counts);
        aorta_json_object_end(&json);
    }
    aorta_json_array_end(&json);
    aorta_json_object_end(&json);
    aorta_text_puts(text, "\n");
}
