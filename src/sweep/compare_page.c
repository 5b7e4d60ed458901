/* Writes a comparison of sweeps for its page, per side, and as CSV. */
#include "base/result_table.h"
#include "sweep/compare.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes the path relative to the folder of `from`, or the path itself if one of them does not exist. */
static void put_relative(const char *from, const char *path, struct aorta_text *text) {
    char folder[PATH_MAX], here[PATH_MAX], there[PATH_MAX];
    const char *slash = strrchr(from, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - from + 1) : 1, slash ? from : ".");
    if (!realpath(folder, here) || !realpath(path, there)) {
        aorta_text_puts(text, path);
        return;
    }
    size_t same = 0, at = 0;
    for (; here[at] && here[at] == there[at]; at++)
        if (here[at] == '/') same = at + 1;
    if (!here[at] && there[at] == '/') same = at + 1;
    for (const char *up = here + (same < at ? same : at); *up; up++)
        if (up == here + same || *up == '/') aorta_text_puts(text, "../");
    aorta_text_puts(text, there + same);
}

/* The trial with the median objective. The point has at least one trial. */
static size_t median_of(const struct aorta_sweep_side *side, const struct aorta_sweep_point *point) {
    const enum aorta_sweep_objective objective = side->plan.objective;
    size_t median = 0;
    for (size_t i = 0; aorta_sweep_trial_of(side, point, &i); i++) {
        size_t below = 0, above = 0, count = 0;
        const double value = side->trials.items[i].figures[objective];
        for (size_t j = 0; aorta_sweep_trial_of(side, point, &j); j++) {
            below += side->trials.items[j].figures[objective] < value;
            above += side->trials.items[j].figures[objective] > value;
            count++;
        }
        if (below <= count / 2 && above <= count / 2) median = i;
    }
    return median;
}

static bool is_objective(const char *name) {
    for (int f = 0; f < AORTA_SWEEP_OBJECTIVE_COUNT; f++)
        if (strcmp(aorta_sweep_objectives[f].key, name) == 0) return true;
    return false;
}

static void write_trial(struct aorta_json *json, const struct aorta_sweep_side *side, size_t place, const char *html) {
    const struct aorta_sweep_recording *recording = &side->recordings[place];
    struct aorta_text page = {0};
    if (recording->page) put_relative(html, recording->page, &page);
    aorta_json_object(json);
    aorta_json_key_int(json, "trial", side->trials.items[place].number);
    aorta_json_key_string(json, "folder", recording->folder);
    aorta_json_key_string(json, "page", page.length ? page.data : NULL);
    json->out->failed |= page.failed;
    aorta_json_key_object(json, "figures");
    aorta_sweep_figures_json(side->trials.items[place].figures, json);
    for (size_t i = 0; recording->figures && i < recording->figures->count; i++) {
        const struct aorta_figure *figure = &recording->figures->items[i];
        if (!is_objective(figure->name)) aorta_json_key_double(json, figure->name, figure->value);
    }
    aorta_json_object_end(json);
    aorta_json_object_end(json);
    aorta_text_free(&page);
}

/* Writes the environment of the first recorded trial, or else of the sweep. */
static void write_environment(struct aorta_json *json, const struct aorta_sweep_side *side) {
    const struct aorta_settings *environment = &side->environment;
    for (size_t i = side->trials.count; i-- > 0;)
        if (side->recordings[i].figures && side->recordings[i].figures->environment.count)
            environment = &side->recordings[i].figures->environment;
    aorta_json_key_object(json, "environment");
    for (size_t i = 0; i < environment->count; i++)
        aorta_json_key_string(json, environment->items[i].key, environment->items[i].value);
    aorta_json_object_end(json);
}

static void write_point(struct aorta_json *json, const struct aorta_sweep_side *side,
                        const struct aorta_sweep_point *point, const char *html) {
    const size_t median = median_of(side, point);
    const struct aorta_figures *figures = side->recordings[median].figures;
    aorta_json_object(json);
    aorta_json_key_array(json, "trials");
    for (size_t i = 0; aorta_sweep_trial_of(side, point, &i); i++) write_trial(json, side, i, html);
    aorta_json_array_end(json);
    aorta_json_key_int(json, "median", side->trials.items[median].number);
    aorta_json_key(json, "detail");
    aorta_json_text(json, figures && figures->detail.length ? figures->detail.data : "null");
    aorta_json_object_end(json);
}

void aorta_sweep_compare_part(const struct aorta_sweep_comparison *c, size_t side, const char *html,
                              struct aorta_text *text) {
    struct aorta_json json;
    aorta_json_begin(&json, text, 0);
    aorta_json_object(&json);
    aorta_json_key(&json, "sweep");
    struct aorta_text sweep = {0};
    const struct aorta_sweep_side *of = &c->sides[side];
    aorta_sweep_result_json(&of->result, &sweep);
    aorta_json_text(&json, sweep.data ? sweep.data : "null");
    aorta_text_end(&sweep, text);
    write_environment(&json, of);
    aorta_json_key_array(&json, "points");
    for (size_t p = 0; p < c->count; p++) write_point(&json, of, c->points[p].points[side], html);
    aorta_json_array_end(&json);
    aorta_json_object_end(&json);
}

/* ---- CSV ---- */

struct row_values {
    const char *candidate;
    double change;
    struct aorta_compared row;
};

#define AT(member) offsetof(struct row_values, member)
static const struct aorta_row row_rows[] = {
    {"candidate", AORTA_ROW_TEXT, AT(candidate), .help = "label of the sweep that is compared with the first"},
    {"point", AORTA_ROW_TEXT, AT(row.group), .help = "values of its knobs; empty: all points"},
    {"figure", AORTA_ROW_TEXT, AT(row.figure), .help = "its name"},
    {"first", AORTA_ROW_NUMBER, AT(row.of.value[0]), .help = "of the first sweep"},
    {"second", AORTA_ROW_NUMBER, AT(row.of.value[1]), .help = "of the candidate"},
    {"change", AORTA_ROW_NUMBER, AT(change), .help = "from the first, as a share of it"},
    {"p_value", AORTA_ROW_NUMBER, AT(row.of.p_value), .help = "that chance alone makes such a change"},
    {"p_corrected", AORTA_ROW_NUMBER, AT(row.p), .help = "as one of all rows of its kind"},
    {"counts", AORTA_ROW_BOOL, AT(row.counts), .help = "it is more than noise"},
    {0}};

static enum aorta_line fill_row(const void *of, size_t index, void *values) {
    const struct aorta_sweep_comparison *c = of;
    if (!c->count || index >= (c->side_count - 1) * (c->count + 1) * c->figure_count) return AORTA_LINE_END;
    const size_t rows = (c->count + 1) * c->figure_count, side = 1 + index / rows;
    const struct aorta_compared *row = &c->against[side].rows[index % rows];
    if (isnan(row->of.value[0]) || isnan(row->of.value[1])) return AORTA_LINE_SKIP;
    *(struct row_values *)values =
        (struct row_values){c->sides[side].label, aorta_compared_percent(&row->of) / 100, *row};
    return AORTA_LINE;
}

aorta_status aorta_sweep_compare_csv(const struct aorta_sweep_comparison *comparison, const char *folder) {
    static AORTA_TABLE(points, "points", AORTA_LINES(row_rows, struct row_values, fill_row));
    return aorta_table_csv(&points, comparison, folder);
}
