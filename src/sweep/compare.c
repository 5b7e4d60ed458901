#include "sweep/compare.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the sides have in common ---- */

/* The knob of the other sweep with the same name and kind, or -1. */
static int same_knob(const struct aorta_sweep_space *space, const struct aorta_sweep_knob *knob) {
    const int same = aorta_sweep_knob_named(space, knob->name, strlen(knob->name));
    return same >= 0 && space->knobs[same].environment == knob->environment ? same : -1;
}

/* Whether the knob is not part of points: it has one value here, and one value or none on the other side. Its values
 * may differ between the sides. */
static bool is_fixed(const struct aorta_sweep_knob *knob, const struct aorta_sweep_space *other) {
    const int same = same_knob(other, knob);
    return knob->count == 1 && (same < 0 || other->knobs[same].count == 1);
}

static bool has_knobs_of(const struct aorta_sweep_space *space, const struct aorta_sweep_space *other) {
    for (int i = 0; i < other->count; i++)
        if (other->knobs[i].count > 1 && same_knob(space, &other->knobs[i]) < 0) return false;
    return true;
}

static aorta_status check_side(const struct aorta_sweep_side *first, const struct aorta_sweep_side *other) {
    if (first->plan.objective != other->plan.objective)
        return AORTA_ERROR(AORTA_USAGE, "%s has the objective %s, %s has %s", first->label,
                           aorta_sweep_objectives[first->plan.objective].key, other->label,
                           aorta_sweep_objectives[other->plan.objective].key);
    if (has_knobs_of(&first->plan.space, &other->plan.space) && has_knobs_of(&other->plan.space, &first->plan.space))
        return NULL;
    return AORTA_ERROR(AORTA_USAGE, "%s and %s have different knobs", first->label, other->label);
}

static bool same_values(const struct aorta_sweep_space *first, int64_t cell, const struct aorta_sweep_space *other,
                        int64_t other_cell) {
    for (int i = 0; i < first->count; i++) {
        const int knob = same_knob(other, &first->knobs[i]);
        if (knob < 0 || is_fixed(&first->knobs[i], other)) continue;
        if (strcmp(aorta_sweep_value(first, cell, i), aorta_sweep_value(other, other_cell, knob)) != 0) return false;
    }
    return true;
}

static const struct aorta_sweep_point *find_point(const struct aorta_sweep_side *first, int64_t cell,
                                                  const struct aorta_sweep_side *other) {
    AORTA_EACH (const struct aorta_sweep_point, point, other->result.points, other->result.whole)
        if (same_values(&first->plan.space, cell, &other->plan.space, point->cell)) return point;
    return NULL;
}

static AORTA_ORDER(by_cell, struct aorta_sweep_common, AORTA_UP(points[0]->cell));

/* Names a point by its knobs with several values. */
static const char *name_point(const struct aorta_sweep_space *space, int64_t cell, struct aorta_arena *arena) {
    struct aorta_text text = {0};
    for (int i = 0; i < space->count; i++)
        if (space->knobs[i].count > 1)
            aorta_text_printf(&text, "%s%s=%s", text.length ? " " : "", space->knobs[i].name,
                              aorta_sweep_value(space, cell, i));
    if (!text.length) aorta_text_puts(&text, "all runs");
    return aorta_text_move(&text, arena);
}

static void find_points(struct aorta_sweep_comparison *c) {
    const struct aorta_sweep_side *first = c->sides;
    c->points = aorta_arena_alloc(&c->arena, (first->result.whole + 1) * sizeof *c->points);
    for (size_t i = 0; i < first->result.whole; i++) {
        struct aorta_sweep_common common = {.points = {&first->result.points[i]}};
        size_t sides = 1;
        for (; sides < c->side_count; sides++) {
            common.points[sides] = find_point(first, common.points[0]->cell, &c->sides[sides]);
            if (!common.points[sides]) break;
        }
        if (sides < c->side_count) continue;
        common.name = name_point(&first->plan.space, common.points[0]->cell, &c->arena);
        if (c->points) c->points[c->count++] = common;
    }
    if (c->points) qsort(c->points, c->count, sizeof *c->points, by_cell);
}

bool aorta_sweep_trial_of(const struct aorta_sweep_side *side, const struct aorta_sweep_point *point, size_t *place) {
    for (; *place < side->trials.count; ++*place) {
        const struct aorta_trial *trial = &side->trials.items[*place];
        if (aorta_trial_has(trial, side->plan.objective) && trial->steps == point->steps &&
            aorta_sweep_cell_of(&side->plan, trial) == point->cell)
            return true;
    }
    return false;
}

/* ---- the figures ---- */

/* A name once. */
static void add_figure(struct aorta_sweep_comparison *c, size_t *capacity, const struct aorta_figure *figure) {
    for (size_t i = 0; i < c->figure_count; i++)
        if (strcmp(c->figures[i].name, figure->name) == 0) return;
    aorta_arena_append(&c->arena, &c->figures, capacity, &c->figure_count, figure, sizeof *figure);
}

static void find_figures(struct aorta_sweep_comparison *c) {
    size_t capacity = 0;
    for (int f = 0; f < AORTA_SWEEP_OBJECTIVE_COUNT; f++)
        add_figure(c, &capacity,
                   &(struct aorta_figure){.name = aorta_sweep_objectives[f].key,
                                          .unit = aorta_sweep_unit(&c->sides->trials, f),
                                          .good = aorta_sweep_objectives[f].higher_is_better ? AORTA_GOOD_HIGH
                                                                                             : AORTA_GOOD_LOW});
    for (size_t s = 0; s < c->side_count; s++)
        for (size_t t = 0; t < c->sides[s].trials.count; t++) {
            const struct aorta_figures *figures = c->sides[s].recordings[t].figures;
            for (size_t i = 0; figures && i < figures->count; i++) add_figure(c, &capacity, &figures->items[i]);
        }
}

/* NaN: not measured. */
static double value_of(const struct aorta_sweep_comparison *c, size_t side, size_t place, size_t figure) {
    const struct aorta_trial *trial = &c->sides[side].trials.items[place];
    if (trial->state != AORTA_TRIAL_DONE) return NAN;
    if (figure < AORTA_SWEEP_OBJECTIVE_COUNT) return trial->figures[figure];
    const struct aorta_figures *figures = c->sides[side].recordings[place].figures;
    const struct aorta_figure *found = figures ? aorta_figures_find(figures, c->figures[figure].name) : NULL;
    return found ? found->value : NAN;
}

/* ---- one figure of two sides ---- */

/* A figure of one side: its mean over the trials of each point, and the noise of a trial. */
struct series {
    double *means;
    int *runs;
    double noise, freedom; /* standard deviation; NaN: not known */
};

/* One figure of two sides, as logarithms if it changes by percent. */
struct pair {
    const struct aorta_sweep_comparison *comparison;
    size_t figure, side;
    bool logarithms;
    struct series series[2];
    struct aorta_arena arena; /* of the series */
};

static size_t side_of(const struct pair *pair, int i) {
    return i ? pair->side : 0;
}

/* Rates and times change by percent, shares by what they are. */
static bool takes_logarithms(const struct aorta_sweep_comparison *c, size_t figure, size_t side) {
    const size_t sides[] = {0, side};
    if (!*c->figures[figure].unit) return false;
    for (int i = 0; i < 2; i++)
        for (size_t t = 0; t < c->sides[sides[i]].trials.count; t++)
            if (value_of(c, sides[i], t, figure) <= 0) return false;
    return true;
}

/* Measures the noise of this figure between trials of a point, as for a sweep's objective. */
static aorta_status measure_noise(struct pair *pair, int i) {
    const struct aorta_sweep_side *side = &pair->comparison->sides[side_of(pair, i)];
    struct aorta_sweep_importance *importance = aorta_arena_alloc(&pair->arena, sizeof *importance);
    struct aorta_trials trials = {.items = aorta_arena_raw(&pair->arena, side->trials.count * sizeof *trials.items),
                                  .count = side->trials.count};
    AORTA_TRY(aorta_arena_check(&pair->arena, "a comparison of sweeps"));
    for (size_t t = 0; t < trials.count; t++) {
        const double value = value_of(pair->comparison, side_of(pair, i), t, pair->figure);
        trials.items[t] = side->trials.items[t];
        trials.items[t].figures[side->plan.objective] = pair->logarithms ? log(value) : value;
    }
    AORTA_TRY(aorta_sweep_noise_make(&side->plan, &trials, importance));
    pair->series[i].noise = importance->noise;
    pair->series[i].freedom = importance->freedom;
    return NULL;
}

static aorta_status series_make(struct pair *pair, int i) {
    const struct aorta_sweep_comparison *c = pair->comparison;
    const struct aorta_sweep_side *side = &c->sides[side_of(pair, i)];
    struct series *series = &pair->series[i];
    series->means = aorta_arena_alloc(&pair->arena, c->count * sizeof *series->means);
    series->runs = aorta_arena_alloc(&pair->arena, c->count * sizeof *series->runs);
    AORTA_TRY(aorta_arena_check(&pair->arena, "a comparison of sweeps"));
    for (size_t p = 0; p < c->count; p++) {
        const struct aorta_sweep_point *point = c->points[p].points[side_of(pair, i)];
        double sum = 0;
        for (size_t t = 0; aorta_sweep_trial_of(side, point, &t); t++) {
            const double value = value_of(c, side_of(pair, i), t, pair->figure);
            if (isnan(value)) continue;
            sum += pair->logarithms ? log(value) : value;
            series->runs[p]++;
        }
        series->means[p] = series->runs[p] ? sum / series->runs[p] : NAN;
    }
    return measure_noise(pair, i);
}

/* Mean pressure of the trials with a known pressure, or 0. */
static double pressure_of(const struct aorta_trials *trials) {
    double sum = 0;
    int count = 0;
    for (size_t i = 0; i < trials->count; i++) {
        if (!(trials->items[i].pressure > 0)) continue;
        sum += trials->items[i].pressure;
        count++;
    }
    return count ? sum / count : 0;
}

/* Variance between sweeps, as changes of the machine between two sweeps are not in the noise of trials. 0 for halves
 * of one sweep, whose trials alternated. `noise`: variance of a trial's figure. */
static struct aorta_variance between_sweeps(const struct pair *pair, double first, double second, double noise) {
    const struct aorta_sweep_side *a = pair->comparison->sides, *b = a + pair->side;
    const struct aorta_between_runs between =
        aorta_between_runs_on(aorta_trials_on_gpu(&a->trials) && aorta_trials_on_gpu(&b->trials));
    if (a->half) return (struct aorta_variance){0, 1};
    if (pair->logarithms) first = second = 1;
    const double pressures[] = {pressure_of(&a->trials), pressure_of(&b->trials)};
    const double shares[] = {first * aorta_between_share(&between, pressures[0]),
                             second * aorta_between_share(&between, pressures[1])};
    const double loads = aorta_between_loads(&between, pressures[0], pressures[1]);
    return (struct aorta_variance){shares[0] * shares[0] + shares[1] * shares[1] +
                                       loads * loads * fabs(first * second) +
                                       2 * between.spread * between.spread * noise,
                                   between.freedom};
}

/* Makes the comparison of two means, whose difference has the variances `parts`. */
static struct aorta_comparison comparison_of(const struct pair *pair, double first, double second,
                                             const struct aorta_variance *parts, size_t count, double between) {
    const double difference = second - first;
    const struct aorta_chance chance = aorta_chance_of(difference, parts, count);
    struct aorta_comparison of = {.value = {first, second}, .p_value = chance.p, .assumed = between > 0, .fewest = 1};
    of.low = difference - chance.reach;
    of.high = difference + chance.reach;
    of.between = sqrt(between / 2);
    if (pair->logarithms) {
        for (int i = 0; i < 2; i++) of.value[i] = exp(of.value[i]);
        of.low = of.value[0] * expm1(of.low);
        of.high = of.value[0] * expm1(of.high);
    } else {
        of.between /= fabs(first);
    }
    of.delta = of.value[1] - of.value[0];
    if (isnan(of.p_value)) of.low = of.high = NAN;
    return of;
}

static double noise_of(const struct pair *pair) {
    const double a = pair->series[0].noise, b = pair->series[1].noise;
    return (a * a + b * b) / 2;
}

static struct aorta_comparison compare_point(const struct pair *pair, size_t point) {
    static const struct aorta_comparison unknown = {
        .value = {NAN, NAN}, .delta = NAN, .low = NAN, .high = NAN, .p_value = NAN};
    const struct series *a = &pair->series[0], *b = &pair->series[1];
    if (!a->runs[point] || !b->runs[point]) return unknown;
    const struct aorta_variance between = between_sweeps(pair, a->means[point], b->means[point], noise_of(pair));
    const struct aorta_variance parts[] = {{a->noise * a->noise / a->runs[point], a->freedom},
                                           {b->noise * b->noise / b->runs[point], b->freedom},
                                           between};
    const bool known = !isnan(parts[0].value) && !isnan(parts[1].value);
    struct aorta_comparison of =
        comparison_of(pair, a->means[point], b->means[point], parts, 3, known ? between.value : 0);
    if (!known) of.p_value = of.low = of.high = NAN;
    return of;
}

/* Compares over all points that both sides measured. The spread of the points' differences is the noise. */
static struct aorta_comparison compare_all(const struct pair *pair) {
    const struct series *a = &pair->series[0], *b = &pair->series[1];
    double first = 0, change = 0, squares = 0, count = 0;
    size_t last = 0;
    for (size_t p = 0; p < pair->comparison->count; p++) {
        if (!a->runs[p] || !b->runs[p]) continue;
        /* Welford's sum of squares of the differences */
        const double before = b->means[p] - a->means[p] - change;
        count++;
        first += (a->means[p] - first) / count;
        change += before / count;
        squares += before * (b->means[p] - a->means[p] - change);
        last = p;
    }
    if (count < 2) return compare_point(pair, last);
    const double freedom = count - 1, spread = squares / freedom;
    const struct aorta_variance between = between_sweeps(pair, first, first + change, spread / 2);
    const struct aorta_variance parts[] = {{spread / count, freedom}, between};
    return comparison_of(pair, first, first + change, parts, 2, between.value);
}

/* ---- rows ---- */

enum { ALL_OF_OBJECTIVE, ALL_OF_OTHERS, OBJECTIVE_AT_POINTS, OTHERS_AT_POINTS };

const struct aorta_compared *aorta_sweep_row(const struct aorta_sweep_comparison *c, size_t side, size_t point,
                                             size_t figure) {
    const size_t group = point == c->count ? 0 : point + 1;
    return &c->against[side].rows[group * c->figure_count + figure];
}

static struct aorta_compared row_of(const struct pair *pair, size_t point, const struct aorta_comparison *of) {
    const struct aorta_sweep_comparison *c = pair->comparison;
    const struct aorta_figure *figure = &c->figures[pair->figure];
    const bool all = point == c->count, objective = pair->figure == (size_t)c->sides->plan.objective;
    const double ratio = aorta_compared_ratio(of);
    return (struct aorta_compared){.group = all ? NULL : c->points[point].name,
                                   .figure = figure->name,
                                   .unit = figure->unit,
                                   .good = figure->good,
                                   .family = all         ? objective ? ALL_OF_OBJECTIVE : ALL_OF_OTHERS
                                             : objective ? OBJECTIVE_AT_POINTS
                                                         : OTHERS_AT_POINTS,
                                   .far = ratio > 0 ? ratio : fabs(of->delta),
                                   .of = *of};
}

static aorta_status compare_figure(struct aorta_sweep_comparison *c, size_t side, size_t figure) {
    struct pair pair = {
        .comparison = c, .figure = figure, .side = side, .logarithms = takes_logarithms(c, figure, side)};
    struct aorta_compared *rows = c->against[side].rows;
    aorta_status status = series_make(&pair, 0);
    if (!status) status = series_make(&pair, 1);
    if (!status) {
        const struct aorta_comparison all = compare_all(&pair);
        rows[figure] = row_of(&pair, c->count, &all);
        for (size_t p = 0; p < c->count; p++) {
            const struct aorta_comparison of = compare_point(&pair, p);
            rows[(p + 1) * c->figure_count + figure] = row_of(&pair, p, &of);
        }
    }
    aorta_arena_free(&pair.arena);
    return status;
}

/* Times of less than a hundredth of a step do not count. */
static void leave_out_small(struct aorta_sweep_comparison *c, size_t side) {
    struct aorta_compared *rows = c->against[side].rows;
    for (size_t p = 0; p <= c->count; p++) {
        const double least = 0.01 * rows[p * c->figure_count + AORTA_SWEEP_STEP_MS].of.value[0];
        for (size_t f = 0; f < c->figure_count; f++) {
            struct aorta_compared *row = &rows[p * c->figure_count + f];
            row->too_small = strcmp(row->unit, "ms") == 0 && fabs(row->of.delta) < least;
        }
    }
}

static aorta_status compare_side(struct aorta_sweep_comparison *c, size_t side) {
    const size_t rows = (c->count + 1) * c->figure_count;
    c->against[side].rows = aorta_arena_alloc(&c->arena, (rows + 1) * sizeof *c->against->rows);
    AORTA_TRY(aorta_arena_check(&c->arena, "a comparison of sweeps"));
    for (size_t f = 0; c->count && f < c->figure_count; f++) AORTA_TRY(compare_figure(c, side, f));
    if (!c->count) return NULL;
    leave_out_small(c, side);
    aorta_compared_correct(c->against[side].rows, rows);
    return NULL;
}

/* ---- what differs ---- */

/* The swept command as settings: our own commands have KEY=VALUE and options with values; any other command has words
 * by place. The strings live in the arena. */
static void read_target(const char *target, struct aorta_arena *arena, struct aorta_settings *settings) {
    const bool ours = aorta_sweep_is_ours(target);
    const char *option = NULL;
    struct aorta_setting *items = aorta_arena_alloc(arena, (strlen(target) + 1) * sizeof *items);
    char *words = aorta_arena_strdup(arena, target), *rest;
    *settings = (struct aorta_settings){.items = items};
    for (char *word = items && words ? strtok_r(words, " ", &rest) : NULL; word; word = strtok_r(NULL, " ", &rest)) {
        char *equals = ours ? strchr(word, '=') : NULL;
        struct aorta_setting *item = &items[settings->count++];
        if (equals) *equals = '\0';
        *item = equals ? (struct aorta_setting){word, equals + 1} : (struct aorta_setting){option, word};
        if (!item->key) item->key = aorta_arena_printf(arena, "word %zu of the command", settings->count);
        option = ours && !equals && word[0] == '-' ? word : NULL;
    }
}

static void read_fixed(const struct aorta_sweep_space *space, const struct aorta_sweep_space *other,
                       struct aorta_arena *arena, struct aorta_settings *settings) {
    *settings =
        (struct aorta_settings){.items = aorta_arena_alloc(arena, AORTA_SWEEP_MOST_KNOBS * sizeof *settings->items)};
    for (int i = 0; settings->items && i < space->count; i++) {
        const struct aorta_sweep_knob *knob = &space->knobs[i];
        if (!is_fixed(knob, other)) continue;
        const char *key = aorta_arena_printf(arena, "%s%s", knob->environment ? "environment." : "", knob->name);
        settings->items[settings->count++] = (struct aorta_setting){key, knob->values[0]};
    }
}

/* The recording of the first trial of the side's first point, or NULL. */
static const struct aorta_figures *first_recording(const struct aorta_sweep_comparison *c, size_t side) {
    size_t place = 0;
    if (!c->count || !aorta_sweep_trial_of(&c->sides[side], c->points->points[side], &place)) return NULL;
    return c->sides[side].recordings[place].figures;
}

static aorta_status find_differences(struct aorta_sweep_comparison *c, size_t side) {
    struct aorta_differences *differences = &c->against[side].differences;
    const struct aorta_figures *a = first_recording(c, 0), *b = first_recording(c, side);
    const struct aorta_sweep_space *space = &c->sides->plan.space, *other = &c->sides[side].plan.space;
    struct aorta_settings first, second;
    read_fixed(space, other, &differences->arena, &first);
    read_fixed(other, space, &differences->arena, &second);
    aorta_differences_add(differences, &first, &second);
    read_target(c->sides->plan.target, &differences->arena, &first);
    read_target(c->sides[side].plan.target, &differences->arena, &second);
    aorta_differences_add(differences, &first, &second);
    if (a && b) aorta_differences_add(differences, &a->settings, &b->settings);
    const bool both = a && b && a->environment.count && b->environment.count;
    aorta_differences_add(differences, both ? &a->environment : &c->sides->environment,
                          both ? &b->environment : &c->sides[side].environment);
    return aorta_arena_check(&differences->arena, "what differs between two sweeps");
}

/* ---- all of it ---- */

aorta_status aorta_sweep_compare(const struct aorta_sweep_side *sides, size_t count, struct aorta_sweep_comparison *c) {
    *c = (struct aorta_sweep_comparison){.sides = sides, .side_count = count};
    for (size_t s = 1; s < count; s++) AORTA_TRY(check_side(sides, &sides[s]));
    find_points(c);
    find_figures(c);
    for (size_t s = 1; s < count; s++) {
        AORTA_TRY(compare_side(c, s));
        AORTA_TRY(find_differences(c, s));
    }
    return NULL;
}

void aorta_sweep_comparison_free(struct aorta_sweep_comparison *comparison) {
    for (size_t s = 0; s < AORTA_SWEEP_MOST_SIDES; s++) aorta_differences_free(&comparison->against[s].differences);
    aorta_arena_free(&comparison->arena);
    *comparison = (struct aorta_sweep_comparison){0};
}
