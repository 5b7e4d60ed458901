#include "sweep/compare.h"
#include "base/compare.h"
#include "base/files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* aorta train or hwq, not somebody's command. */
static bool is_ours(const char *target) {
    return strncmp(target, "train ", 6) == 0 || strncmp(target, "hwq run ", 8) == 0;
}

aorta_status aorta_sweep_side_open(const char *directory, struct aorta_sweep_side *side) {
    *side = (struct aorta_sweep_side){.directory = directory};
    char *path = aorta_path_join(directory, "trials.jsonl");
    if (!path) return AORTA_ERROR(AORTA_MEMORY, "no memory for a path");
    aorta_status status =
        access(path, F_OK) == 0
            ? NULL
            : AORTA_ERROR(AORTA_USAGE, "%s holds no trials.jsonl; name the directory that a sweep wrote (its --output)",
                          directory);
    if (!status) status = aorta_sweep_read(path, &side->arena, &side->plan, &side->target, &side->trials, NULL);
    free(path);
    /* Earlier versions took the time of a step, whatever was in it. A command's steps a second are no better. */
    if (!status && is_ours(side->target) && side->plan.objective == AORTA_SWEEP_STEP_MS &&
        aorta_sweep_changes_work(&side->plan.space))
        side->plan.objective = AORTA_SWEEP_THROUGHPUT;
    if (!status) status = aorta_settings_environment(directory, &side->arena, &side->environment);
    return status ? status : aorta_sweep_result_make(&side->plan, &side->trials, &side->result);
}

/* ---- the halves of one sweep ---- */

static void leave_out(struct aorta_sweep_space *space, int knob) {
    space->count--;
    for (int i = knob; i < space->count; i++) space->knobs[i] = space->knobs[i + 1];
}

/* The cell without the knob's digit. */
static int64_t cell_without(const struct aorta_sweep_space *space, int64_t cell, int knob) {
    int64_t below = 1;
    for (int i = knob + 1; i < space->count; i++) below *= space->knobs[i].count;
    return cell / (below * space->knobs[knob].count) * below + cell % below;
}

static aorta_status make_half(const struct aorta_sweep_side *whole, int knob, int value,
                              struct aorta_sweep_side *half) {
    const struct aorta_sweep_space *space = &whole->plan.space;
    half->plan = whole->plan;
    half->target = whole->target;
    half->half = true;
    half->directory =
        aorta_arena_printf(&half->arena, "%s=%s", space->knobs[knob].name, space->knobs[knob].values[value]);
    if (!half->directory) return AORTA_ERROR(AORTA_MEMORY, "no memory for a name");
    leave_out(&half->plan.space, knob);
    half->plan.equal = 0;
    for (size_t i = 0; i < whole->trials.count; i++) {
        struct aorta_trial trial = whole->trials.items[i];
        if (trial.cell == AORTA_SWEEP_BASELINE || aorta_sweep_level(space, trial.cell, knob) != value) continue;
        trial.cell = cell_without(space, trial.cell, knob);
        AORTA_TRY(aorta_trials_add(&half->trials, &trial));
    }
    return aorta_sweep_result_make(&half->plan, &half->trials, &half->result);
}

static int value_named(const struct aorta_sweep_knob *knob, const char *name, size_t length) {
    for (int i = 0; i < knob->count; i++)
        if (strlen(knob->values[i]) == length && !strncmp(knob->values[i], name, length)) return i;
    return -1;
}

/* "A,B"; values may have commas, so each comma is tried. */
static bool two_values(const struct aorta_sweep_knob *knob, const char *text, int values[2]) {
    for (const char *comma = strchr(text, ','); comma; comma = strchr(comma + 1, ',')) {
        values[0] = value_named(knob, text, (size_t)(comma - text));
        values[1] = value_named(knob, comma + 1, strlen(comma + 1));
        if (values[0] >= 0 && values[1] >= 0 && values[0] != values[1]) return true;
    }
    return false;
}

aorta_status aorta_sweep_side_halves(const struct aorta_sweep_side *whole, const char *by,
                                     struct aorta_sweep_side halves[2]) {
    const struct aorta_sweep_space *space = &whole->plan.space;
    const size_t length = strcspn(by, "=");
    int knob = 0, values[2] = {0, 1};
    for (int side = 0; side < 2; side++) halves[side] = (struct aorta_sweep_side){0};
    while (knob < space->count &&
           (strlen(space->knobs[knob].name) != length || strncmp(space->knobs[knob].name, by, length) != 0))
        knob++;
    if (knob == space->count) return AORTA_ERROR(AORTA_USAGE, "--by %s: %s has no such knob", by, whole->directory);
    if (by[length] ? !two_values(&space->knobs[knob], by + length + 1, values) : space->knobs[knob].count != 2)
        return AORTA_ERROR(AORTA_USAGE, "--by %s: give two values of the knob, as --by NAME=A,B", by);
    if (space->count == 1) return AORTA_ERROR(AORTA_USAGE, "--by %s: %s has no other knob", by, whole->directory);
    for (int side = 0; side < 2; side++) AORTA_TRY(make_half(whole, knob, values[side], &halves[side]));
    return NULL;
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

static bool same_values(const struct aorta_sweep_side sides[2], const int *knobs, int64_t first, int64_t second) {
    const struct aorta_sweep_space *a = &sides[0].plan.space, *b = &sides[1].plan.space;
    for (int i = 0; i < a->count; i++)
        if (strcmp(aorta_sweep_value(a, first, i), aorta_sweep_value(b, second, knobs[i])) != 0) return false;
    return true;
}

static int larger_first(const void *left, const void *right) {
    const struct aorta_sweep_common *a = left, *b = right;
    const double first = isnan(a->change) ? -1 : fabs(a->change), second = isnan(b->change) ? -1 : fabs(b->change);
    return first > second ? -1 : first < second;
}

/* The mean over trials that say it; 0: none does. */
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

/* Two sweeps are two runs of the machine: what changed between them is in no trial's noise. Halves of one sweep ran in
 * turns. `spread`: variance of a trial's figure. */
static struct aorta_variance between_sweeps(const struct aorta_sweep_side sides[2], double first, double second,
                                            double spread) {
    const struct aorta_between_runs between =
        aorta_between_runs_on(aorta_trials_on_gpu(&sides[0].trials) && aorta_trials_on_gpu(&sides[1].trials));
    if (sides[0].half) return (struct aorta_variance){0, 1};
    const double pressures[] = {pressure_of(&sides[0].trials), pressure_of(&sides[1].trials)};
    const double shares[] = {first * aorta_between_share(&between, pressures[0]),
                             second * aorta_between_share(&between, pressures[1])};
    const double loads = aorta_between_loads(&between, pressures[0], pressures[1]);
    return (struct aorta_variance){shares[0] * shares[0] + shares[1] * shares[1] +
                                       loads * loads * fabs(first * second) +
                                       2 * between.spread * between.spread * spread,
                                   between.freedom};
}

/* Noise of each sweep's own. */
static double point_p(const struct aorta_sweep_side sides[2], const struct aorta_sweep_common *common) {
    const enum aorta_sweep_objective objective = sides[0].plan.objective;
    const double figures[] = {common->points[0]->figures[objective], common->points[1]->figures[objective]};
    struct aorta_variance parts[3];
    double noise = 0;
    for (int side = 0; side < 2; side++) {
        const struct aorta_sweep_importance *importance = &sides[side].result.importance;
        const double variance = importance->noise * importance->noise;
        if (isnan(variance)) return NAN;
        noise += variance / 2;
        parts[side] = (struct aorta_variance){variance / common->points[side]->runs, importance->freedom};
    }
    parts[2] = between_sweeps(sides, figures[0], figures[1], noise);
    return aorta_chance_of(figures[1] - figures[0], parts, 3).p;
}

static void sum_up(const struct aorta_sweep_side sides[2], enum aorta_sweep_objective figure,
                   struct aorta_sweep_comparison *comparison) {
    struct aorta_sweep_difference *sum = &comparison->figures[figure];
    double change = 0, squares = 0;
    *sum = (struct aorta_sweep_difference){.mean = {NAN, NAN}, .p = NAN, .between = NAN};
    for (size_t i = 0; i < comparison->count; i++) {
        const double a = comparison->common[i].points[0]->figures[figure];
        const double b = comparison->common[i].points[1]->figures[figure];
        if (isnan(a) || isnan(b)) continue;
        if (!sum->points++) sum->mean[0] = sum->mean[1] = 0;
        sum->mean[0] += (a - sum->mean[0]) / (double)sum->points;
        sum->mean[1] += (b - sum->mean[1]) / (double)sum->points;
        /* Welford's sum of squares of the differences. */
        const double before = b - a - change;
        change += before / (double)sum->points;
        squares += before * (b - a - change);
    }
    if (sum->points < 2) return;
    const double freedom = (double)sum->points - 1, spread = squares / freedom;
    const struct aorta_variance parts[] = {{spread / (double)sum->points, freedom},
                                           between_sweeps(sides, sum->mean[0], sum->mean[1], spread / 2)};
    sum->p = aorta_chance_of(change, parts, 2).p;
    sum->between = sqrt(parts[1].value / 2) / fabs(sum->mean[0]);
}

/* What was swept: of our own commands KEY=VALUE and options with their values, of others each word by its place. The
 * strings live in the arena. */
static aorta_status read_target(const char *target, struct aorta_arena *arena, struct aorta_settings *settings) {
    const bool ours = is_ours(target);
    const char *option = NULL;
    struct aorta_setting *items = aorta_arena_alloc(arena, (strlen(target) + 1) * sizeof *items);
    char *words = aorta_arena_strdup(arena, target), *rest;
    if (!items || !words) return AORTA_ERROR(AORTA_MEMORY, "no memory for what was swept");
    *settings = (struct aorta_settings){.items = items};
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *equals = ours ? strchr(word, '=') : NULL;
        struct aorta_setting *item = &items[settings->count++];
        if (equals) *equals = '\0';
        *item = equals ? (struct aorta_setting){word, equals + 1} : (struct aorta_setting){option, word};
        if (!item->key) item->key = aorta_arena_printf(arena, "word %zu of the command", settings->count);
        if (!item->key) return AORTA_ERROR(AORTA_MEMORY, "no memory for what was swept");
        option = ours && !equals && word[0] == '-' ? word : NULL;
    }
    return NULL;
}

static aorta_status find_differences(const struct aorta_sweep_side sides[2], struct aorta_differences *differences) {
    struct aorta_settings targets[2];
    for (int i = 0; i < 2; i++) AORTA_TRY(read_target(sides[i].target, &differences->arena, &targets[i]));
    AORTA_TRY(aorta_differences_add(differences, &targets[0], &targets[1]));
    return aorta_differences_add(differences, &sides[0].environment, &sides[1].environment);
}

aorta_status aorta_sweep_compare(const struct aorta_sweep_side sides[2], struct aorta_sweep_comparison *comparison) {
    const enum aorta_sweep_objective objective = sides[0].plan.objective;
    *comparison = (struct aorta_sweep_comparison){0};
    AORTA_TRY(check_sides(sides));
    AORTA_TRY(find_differences(sides, &comparison->differences));
    for (int i = 0; i < sides[0].plan.space.count; i++)
        comparison->knobs[i] = same_knob(&sides[1].plan.space, &sides[0].plan.space.knobs[i]);
    comparison->common = calloc(sides[0].result.whole + 1, sizeof *comparison->common);
    if (!comparison->common) return AORTA_ERROR(AORTA_MEMORY, "no memory for the points of two sweeps");
    for (size_t i = 0; i < sides[0].result.whole; i++)
        for (size_t j = 0; j < sides[1].result.whole; j++) {
            const struct aorta_sweep_point *a = &sides[0].result.points[i], *b = &sides[1].result.points[j];
            if (!same_values(sides, comparison->knobs, a->cell, b->cell)) continue;
            const double first = a->figures[objective], second = b->figures[objective];
            struct aorta_sweep_common *common = &comparison->common[comparison->count++];
            *common =
                (struct aorta_sweep_common){{a, b}, first != 0 ? (second - first) / fabs(first) : NAN, NAN, false};
            common->p = point_p(sides, common);
        }
    for (size_t i = 0; i < comparison->count; i++)
        comparison->common[i].counts = comparison->common[i].p < aorta_significance / (double)comparison->count;
    qsort(comparison->common, comparison->count, sizeof *comparison->common, larger_first);
    for (int f = 0; f < AORTA_SWEEP_OBJECTIVE_COUNT; f++) sum_up(sides, (enum aorta_sweep_objective)f, comparison);
    return NULL;
}

void aorta_sweep_comparison_free(struct aorta_sweep_comparison *comparison) {
    aorta_differences_free(&comparison->differences);
    free(comparison->common);
    comparison->common = NULL;
}
