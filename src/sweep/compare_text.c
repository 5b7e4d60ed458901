/* A comparison of sweeps as text and as JSON. */
#include "base/lines.h"
#include "base/sort.h"
#include "sweep/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t objective_of(const struct aorta_sweep_comparison *c) {
    return (size_t)c->sides->plan.objective;
}

static const char *label_of(const struct aorta_sweep_comparison *c, size_t side) {
    return c->sides[side].label;
}

/* ---- sentences ---- */

static size_t count_words(const struct aorta_sweep_comparison *c, size_t side, const char *word) {
    size_t count = 0;
    for (size_t p = 0; p < c->count; p++) {
        const struct aorta_compared *row = aorta_sweep_row(c, side, p, objective_of(c));
        count += row->counts && strcmp(aorta_compared_word(row, row->p), word) == 0;
    }
    return count;
}

/* "B is slower than A: step_ms 22.1 -> 30.3 ms (+37%, 95%: +24 to +52%), worse at 7 of 8 points" */
static void put_headline(const struct aorta_sweep_comparison *c, size_t side, struct aorta_text *text) {
    const struct aorta_compared *row = aorta_sweep_row(c, side, c->count, objective_of(c));
    const size_t worse = count_words(c, side, "worse"), better = count_words(c, side, "better");
    if (!row->counts && worse + better) {
        aorta_text_printf(text, "%s differs from %s at some points, not over all: ", label_of(c, side), label_of(c, 0));
        aorta_compared_values(row, true, text);
    } else {
        aorta_compared_headline(row, label_of(c, 0), label_of(c, side), true, text);
    }
    if (worse) aorta_text_printf(text, ", worse at %zu", worse);
    if (better) aorta_text_printf(text, ", better at %zu", better);
    aorta_text_printf(text, "%s %s", worse + better ? " of" : ",", aorta_counted((long long)c->count, "point").text);
}

static void put_largest(const struct aorta_sweep_comparison *c, size_t side, struct aorta_text *text) {
    aorta_compared_text(c->count ? aorta_compared_largest(c->against[side].rows, c->figure_count) : NULL, text);
}

/* ---- changes and their causes ---- */

/* A step's cost of a cause, the mean over the trials of a point that recorded. */
static double cause_ms(const struct aorta_sweep_side *side, const struct aorta_sweep_point *point, const char *name) {
    double sum = 0, recorded = 0;
    for (size_t t = 0; aorta_sweep_trial_of(side, point, &t); t++) {
        const struct aorta_figures *figures = side->recordings[t].figures;
        if (!figures) continue;
        recorded++;
        for (size_t i = 0; i < figures->cause_count; i++)
            if (strcmp(figures->causes[i].name, name) == 0) sum += figures->causes[i].ms;
    }
    return recorded > 0 ? sum / recorded : NAN;
}

struct cause {
    const char *name, *about;
    double ms[2];
};

/* The cause of the trials' verdicts whose cost changed most, in the direction of `sign`. */
static struct cause find_cause(const struct aorta_sweep_comparison *c, size_t side, size_t point, double sign) {
    const struct aorta_sweep_side *sides[] = {c->sides, &c->sides[side]};
    const struct aorta_sweep_point *points[] = {c->points[point].points[0], c->points[point].points[side]};
    struct cause found = {0};
    for (int i = 0; i < 2; i++)
        for (size_t t = 0; aorta_sweep_trial_of(sides[i], points[i], &t); t++) {
            const struct aorta_figures *figures = sides[i]->recordings[t].figures;
            for (size_t k = 0; figures && k < figures->cause_count; k++) {
                const struct cause cause = {.name = figures->causes[k].name,
                                            .about = figures->causes[k].about,
                                            .ms = {cause_ms(sides[0], points[0], figures->causes[k].name),
                                                   cause_ms(sides[1], points[1], figures->causes[k].name)}};
                const double change = sign * (cause.ms[1] - cause.ms[0]);
                if (change > (found.name ? sign * (found.ms[1] - found.ms[0]) : 0)) found = cause;
            }
        }
    return found;
}

/* The rate of what the cause is about: the bus of a collective, the products of compute. */
static void put_rate(const struct aorta_sweep_comparison *c, size_t side, size_t point, const struct cause *cause,
                     struct aorta_text *text) {
    for (size_t f = AORTA_SWEEP_OBJECTIVE_COUNT; cause->about && f < c->figure_count; f++) {
        const char *explains = c->figures[f].explains;
        const struct aorta_compared *row = aorta_sweep_row(c, side, point, f);
        if (!explains || strcmp(explains, cause->about) != 0) continue;
        if (isnan(row->of.value[0]) || isnan(row->of.value[1])) continue;
        aorta_text_printf(text, ", %s %s", row->figure, aorta_brief(row->of.value[0]).text);
        aorta_text_printf(text, " -> %s %s", aorta_brief(row->of.value[1]).text, row->unit);
        return;
    }
}

/* Rates have no cause of their own. */
static struct cause cause_of(const struct aorta_sweep_comparison *c, size_t side, size_t point, size_t figure) {
    const struct aorta_compared *row = aorta_sweep_row(c, side, point, figure);
    const bool worse = (row->of.delta > 0) == (row->good == AORTA_GOOD_LOW);
    return figure < AORTA_SWEEP_OBJECTIVE_COUNT && point < c->count ? find_cause(c, side, point, worse ? 1 : -1)
                                                                    : (struct cause){0};
}

/* "slow all_gather 4.1 -> 5.2 ms per step, all_gather bus bandwidth 217 -> 190 GB/s" */
static void put_cause(const struct aorta_sweep_comparison *c, size_t side, size_t point, const struct cause *cause,
                      struct aorta_text *text) {
    aorta_text_printf(text, "%s %s", cause->name, aorta_brief(cause->ms[0]).text);
    aorta_text_printf(text, " -> %s ms per step", aorta_brief(cause->ms[1]).text);
    put_rate(c, side, point, cause, text);
}

/* "all_gather bus bandwidth 217 -> 190 GB/s (-12%) at channels=56" */
static void put_change(const struct aorta_compared *row, struct aorta_text *text) {
    aorta_compared_values(row, false, text);
    aorta_text_printf(text, " at %s", row->group ? row->group : "all points");
}

/* ---- text ---- */

struct place {
    size_t point, figure;
    double far;
};

static AORTA_ORDER(farthest_first, struct place, AORTA_DOWN(far));

/* The rows that count, except the headline's, or with `all` the objective at each point. The objective is first, then
 * the largest changes. */
static struct place *find_changes(const struct aorta_sweep_comparison *c, size_t side, bool all,
                                  struct aorta_arena *memory, size_t *count) {
    struct place *places = aorta_arena_alloc(memory, ((c->count + 1) * c->figure_count + 1) * sizeof *places);
    *count = 0;
    for (size_t p = 0; places && c->count && p <= c->count; p++)
        for (size_t f = 0; f < c->figure_count; f++) {
            const struct aorta_compared *row = aorta_sweep_row(c, side, p, f);
            const bool objective = f == objective_of(c);
            if (p == c->count && (objective || all)) continue;
            if (all ? !objective || isnan(row->of.delta) || row->of.delta == 0 : !row->counts) continue;
            places[(*count)++] = (struct place){p, f, objective ? 1e6 + row->far : row->far};
        }
    if (places) qsort(places, *count, sizeof *places, farthest_first);
    return places;
}

/* The functions below write facts; `text` is a scratch text, empty before and after. */

/* Writes the changes that count. If there are none, the objective at the points that differ most. */
static void put_changes(const struct aorta_sweep_comparison *c, size_t side, struct aorta_text *text,
                        struct aorta_text *out) {
    enum { SHOWN = 6 };
    struct aorta_arena memory = {0};
    size_t count;
    const struct place *changes = find_changes(c, side, false, &memory, &count);
    const bool none = count == 0;
    if (none) changes = find_changes(c, side, true, &memory, &count);
    const size_t shown = none ? SHOWN / 2 : SHOWN;
    for (size_t i = 0; i < count && i < shown; i++) {
        const struct aorta_compared *row = aorta_sweep_row(c, side, changes[i].point, changes[i].figure);
        const struct cause cause = cause_of(c, side, changes[i].point, changes[i].figure);
        put_change(row, text);
        if (!row->counts && !isnan(row->p)) aorta_text_puts(text, ", within the noise");
        if (cause.name) aorta_text_puts(text, "; cause: ");
        if (cause.name) put_cause(c, side, changes[i].point, &cause, text);
        aorta_text_fact(out, i ? "" : "changes", text);
    }
    if (count > shown && !none) aorta_text_printf(text, "and %zu more (--json has all)", count - shown);
    aorta_text_fact(out, "", text);
    aorta_text_arena_end(out, &memory);
}

static void put_best(const struct aorta_sweep_comparison *c, size_t side, struct aorta_text *text,
                     struct aorta_text *out) {
    const struct aorta_sweep_side *of = &c->sides[side];
    const struct aorta_sweep_point *best = of->result.best;
    aorta_text_printf(text, "%s: ", of->label);
    if (best) aorta_sweep_point_text(&of->plan.space, best->cell, text);
    aorta_text_printf(text, best ? ": %s" : "none", best ? aorta_brief(best->figures[of->plan.objective]).text : "");
    aorta_text_fact(out, side ? "" : "best", text);
}

static void put_importance(const struct aorta_sweep_comparison *c, struct aorta_text *text, struct aorta_text *out) {
    const char *head = "importance";
    for (int k = 0; k < c->sides->plan.space.count; k++) {
        const char *name = c->sides->plan.space.knobs[k].name;
        if (c->sides->plan.space.knobs[k].count < 2) continue;
        aorta_text_printf(text, "%s:", name);
        for (size_t s = 0; s < c->side_count; s++) {
            const struct aorta_sweep_importance *importance = &c->sides[s].result.importance;
            const int knob = aorta_sweep_knob_named(&c->sides[s].plan.space, name, strlen(name));
            aorta_text_printf(text, "%s %.0f%% of the variance of %s%s", s ? "," : "", 100 * importance->total[knob],
                              label_of(c, s), importance->counts[knob] ? "" : " (within its noise)");
        }
        aorta_text_fact(out, head, text);
        head = "";
    }
}

static void put_unread(const struct aorta_sweep_side *side, struct aorta_text *text, struct aorta_text *out) {
    size_t unread = 0;
    const char *reason = NULL;
    for (size_t i = 0; i < side->trials.count; i++) {
        if (!side->recordings[i].reason) continue;
        if (!unread++) reason = side->recordings[i].reason;
    }
    if (unread)
        aorta_text_printf(text, "%s of %s: %s", aorta_counted((long long)unread, "recording").text, side->label,
                          reason);
    aorta_text_fact(out, "not read", text);
}

static void put_chance(const struct aorta_sweep_comparison *c, size_t side, struct aorta_text *text,
                       struct aorta_text *out) {
    const struct aorta_compared *row = aorta_sweep_row(c, side, c->count, objective_of(c));
    if (isnan(row->p))
        aorta_text_puts(text, "not known: no point has two runs (--repeats 2)");
    else
        aorta_text_printf(text, "p = %.2g", row->p);
    if (row->of.between > 0)
        aorta_text_printf(text, "; equal sweeps are assumed to differ by %.2g%%", 100 * row->of.between);
    aorta_text_fact(out, "chance", text);
}

void aorta_sweep_compare_text(const struct aorta_sweep_comparison *c, bool answer, struct aorta_text *out) {
    struct aorta_text text = {0};
    for (size_t s = 1; s < c->side_count; s++) {
        if (c->count)
            put_headline(c, s, out);
        else if (c->sides[0].result.whole && c->sides[s].result.whole)
            aorta_text_printf(out, "%s and %s have no point in common: nothing to compare", label_of(c, 0),
                              label_of(c, s));
        else
            aorta_text_printf(out, "no trial of %s measured %s: nothing to compare",
                              label_of(c, c->sides[0].result.whole ? s : 0),
                              aorta_sweep_objectives[objective_of(c)].key);
        aorta_text_puts(out, "\n");
        if (answer) continue;
        aorta_differences_list(&c->against[s].differences, &text);
        aorta_text_fact(out, "different", &text);
        if (!c->count) continue;
        put_chance(c, s, &text, out);
        put_changes(c, s, &text, out);
    }
    if (answer) return;
    for (size_t s = 0; s < c->side_count && c->count; s++) put_best(c, s, &text, out);
    if (c->count) put_importance(c, &text, out);
    for (size_t s = 0; s < c->side_count; s++) put_unread(&c->sides[s], &text, out);
    aorta_text_free(&text);
}

/* ---- JSON ---- */

struct knob_values {
    const char *name;
    double importance;
    bool beats_noise;
};

#define AT(member) offsetof(struct knob_values, member)
static const struct aorta_row knob_rows[] = {
    {"name", AORTA_ROW_TEXT, AT(name), .help = "the knob"},
    {"importance", AORTA_ROW_NUMBER, AT(importance), .help = "its share of the variance"},
    {"beats_noise", AORTA_ROW_BOOL, AT(beats_noise), .help = "it has an effect beyond the noise"},
    {0}};
#undef AT

#define AT(member) offsetof(struct aorta_sweep_side, member)
static const struct aorta_row side_rows[] = {
    {"label", AORTA_ROW_TEXT, AT(label), .help = "name of the sweep"},
    {"directory", AORTA_ROW_TEXT, AT(directory), .help = "its folder"},
    {"target", AORTA_ROW_TEXT, AT(plan.target), .help = "the program that it ran"},
    {"noise_std", AORTA_ROW_NUMBER, AT(result.importance.noise), .help = "standard deviation of repeats"},
    {0}};
#undef AT

static void write_side(struct aorta_json *json, const struct aorta_sweep_side *side) {
    const struct aorta_sweep_importance *importance = &side->result.importance;
    aorta_json_object(json);
    aorta_rows_json(side_rows, side, 0, json);
    aorta_json_key_array(json, "knobs");
    for (int k = 0; k < side->plan.space.count; k++) {
        const struct knob_values knob = {side->plan.space.knobs[k].name, importance->total[k], importance->counts[k]};
        aorta_json_object(json);
        aorta_rows_json(knob_rows, &knob, 0, json);
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

#define AT(member) offsetof(struct aorta_figure, member)
static const struct aorta_row figure_rows[] = {{"name", AORTA_ROW_TEXT, AT(name), .help = "key of the figure"},
                                               {"unit", AORTA_ROW_TEXT, AT(unit), .help = "its unit"},
                                               {0}};

static void write_figures(struct aorta_json *json, const struct aorta_sweep_comparison *c) {
    aorta_json_key_array(json, "figures");
    for (size_t f = 0; f < c->figure_count; f++) {
        aorta_json_object(json);
        aorta_rows_json(figure_rows, &c->figures[f], 0, json);
        aorta_json_key_bool(json, "higher_is_better", c->figures[f].good == AORTA_GOOD_HIGH);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

/* Values of the knobs that have several. */
static void write_values(struct aorta_json *json, const struct aorta_sweep_space *space, int64_t cell) {
    aorta_json_key_object(json, "values");
    for (int k = 0; k < space->count; k++)
        if (space->knobs[k].count > 1)
            aorta_json_key_string(json, space->knobs[k].name, aorta_sweep_value(space, cell, k));
    aorta_json_object_end(json);
}

static void write_points(struct aorta_json *json, const struct aorta_sweep_comparison *c) {
    aorta_json_key_array(json, "points");
    for (size_t p = 0; p < c->count; p++) {
        aorta_json_object(json);
        aorta_json_key_string(json, "name", c->points[p].name);
        write_values(json, &c->sides->plan.space, c->points[p].points[0]->cell);
        aorta_json_key_array(json, "runs");
        for (size_t s = 0; s < c->side_count; s++) aorta_json_int(json, c->points[p].points[s]->runs);
        aorta_json_array_end(json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void write_place(struct aorta_json *json, const struct aorta_sweep_comparison *c, size_t point, size_t figure) {
    aorta_json_key_natural(json, "point", point < c->count ? (int64_t)point : -1);
    aorta_json_key_string(json, "figure", c->figures[figure].name);
}

/* Writes only figures that both sides measured. */
static void write_rows(struct aorta_json *json, const struct aorta_sweep_comparison *c, size_t side) {
    aorta_json_key_array(json, "rows");
    for (size_t p = 0; c->count && p <= c->count; p++)
        for (size_t f = 0; f < c->figure_count; f++) {
            const size_t point = p ? p - 1 : c->count;
            const struct aorta_compared *row = aorta_sweep_row(c, side, point, f);
            if (isnan(row->of.value[0]) || isnan(row->of.value[1])) continue;
            aorta_json_object(json);
            write_place(json, c, point, f);
            aorta_compared_json(row, json);
            aorta_json_key_double(json, "p_corrected", row->p);
            aorta_json_key_bool(json, "counts", row->counts);
            aorta_json_object_end(json);
        }
    aorta_json_array_end(json);
}

static void write_changes(struct aorta_json *json, const struct aorta_sweep_comparison *c, size_t side) {
    struct aorta_arena memory = {0};
    struct aorta_text text = {0};
    size_t count;
    const struct place *changes = find_changes(c, side, false, &memory, &count);
    aorta_json_key_array(json, "changes");
    for (size_t i = 0; i < count; i++) {
        const struct aorta_compared *row = aorta_sweep_row(c, side, changes[i].point, changes[i].figure);
        aorta_json_object(json);
        write_place(json, c, changes[i].point, changes[i].figure);
        aorta_json_key_string(json, "change", aorta_compared_word(row, row->p));
        put_change(row, &text);
        aorta_json_key_sentence(json, "text", &text);
        const struct cause cause = cause_of(c, side, changes[i].point, changes[i].figure);
        if (cause.name) put_cause(c, side, changes[i].point, &cause, &text);
        aorta_json_key_sentence(json, "cause", &text);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
    aorta_text_arena_end(json->out, &memory);
}

static void write_comparison(struct aorta_json *json, const struct aorta_sweep_comparison *c, size_t side) {
    struct aorta_text text = {0};
    aorta_json_object(json);
    aorta_json_key_string(json, "reference", label_of(c, 0));
    aorta_json_key_string(json, "candidate", label_of(c, side));
    if (c->count) put_headline(c, side, &text);
    aorta_json_key_sentence(json, "headline", &text);
    put_largest(c, side, &text);
    aorta_json_key_sentence(json, "largest_change", &text);
    aorta_json_key_double(json, "p_value", c->count ? aorta_sweep_row(c, side, c->count, objective_of(c))->p : NAN);
    aorta_differences_json(&c->against[side].differences, json);
    write_rows(json, c, side);
    write_changes(json, c, side);
    aorta_json_object_end(json);
}

void aorta_sweep_compare_json(const struct aorta_sweep_comparison *c, struct aorta_text *text) {
    const struct aorta_sweep_objective_row *objective = &aorta_sweep_objectives[objective_of(c)];
    struct aorta_json json;
    aorta_json_output(&json, text, 2, AORTA_SWEEP_SCHEMA);
    aorta_json_key_string(&json, "kind", "sweep_comparison");
    aorta_json_key_string(&json, "objective", objective->key);
    aorta_json_key_bool(&json, "higher_is_better", objective->higher_is_better);
    aorta_json_key_array(&json, "sweeps");
    for (size_t s = 0; s < c->side_count; s++) write_side(&json, &c->sides[s]);
    aorta_json_array_end(&json);
    write_figures(&json, c);
    write_points(&json, c);
    aorta_json_key_array(&json, "comparisons");
    for (size_t s = 1; s < c->side_count; s++) write_comparison(&json, c, s);
    aorta_json_array_end(&json);
    aorta_json_output_end(&json);
}

/* ---- its schema ---- */

static const char a_text[] = "{\"type\": [\"string\", \"null\"]}", a_number[] = "{\"type\": [\"number\", \"null\"]}",
                  an_object[] = "{\"type\": [\"object\", \"null\"]}", a_bool[] = "{\"type\": \"boolean\"}";

static void put_place(struct aorta_json *json) {
    aorta_schema_put(json, "point", "{\"type\": [\"integer\", \"null\"], \"description\": \"null: over all points\"}");
    aorta_schema_put(json, "figure", a_text);
}

static void put_comparisons(struct aorta_json *json) {
    static const char *const texts[] = {"reference", "candidate", "headline", "largest_change"};
    aorta_schema_list("comparisons", json);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) aorta_schema_put(json, texts[i], a_text);
    aorta_schema_put(json, "p_value", a_number);
    aorta_rows_schema_array("differences", aorta_difference_rows, json);
    aorta_schema_list("rows", json);
    put_place(json);
    aorta_compared_schema(json);
    aorta_schema_put(json, "p_corrected", a_number);
    aorta_schema_put(json, "counts", a_bool);
    aorta_schema_list_end(json);
    aorta_schema_list("changes", json);
    put_place(json);
    aorta_schema_put(json, "change", a_text);
    aorta_schema_put(json, "text", a_text);
    aorta_schema_put(json, "cause", a_text);
    aorta_schema_list_end(json);
    aorta_schema_list_end(json);
}

static void put_members(struct aorta_json *json) {
    aorta_schema_put(json, "kind", "{\"const\": \"sweep_comparison\"}");
    aorta_schema_put(json, "objective", a_text);
    aorta_schema_put(json, "higher_is_better", a_bool);
    aorta_schema_list("sweeps", json);
    aorta_rows_schema(side_rows, json);
    aorta_rows_schema_array("knobs", knob_rows, json);
    aorta_schema_put(json, "best", an_object);
    aorta_schema_list_end(json);
    aorta_schema_list("figures", json);
    aorta_rows_schema(figure_rows, json);
    aorta_schema_put(json, "higher_is_better", a_bool);
    aorta_schema_list_end(json);
    aorta_schema_list("points", json);
    aorta_schema_put(json, "name", a_text);
    aorta_schema_put(json, "values", an_object);
    aorta_schema_put(json, "runs", "{\"type\": \"array\", \"items\": {\"type\": \"integer\"}}");
    aorta_schema_list_end(json);
    put_comparisons(json);
}

const struct aorta_schema aorta_sweep_schema = {"sweep_comparison", "aorta sweep --compare --json", put_members};
