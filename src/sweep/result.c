#include "sweep/result.h"
#include "base/compare.h"
#include "base/found.h"
#include "base/lines.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>

/* ---- points ---- */

static struct aorta_sweep_point *point_of(struct aorta_sweep_result *result, int64_t cell, int64_t steps) {
    if (cell == AORTA_SWEEP_BASELINE) return &result->baseline;
    for (size_t i = 0; i < result->count; i++)
        if (result->points[i].cell == cell && result->points[i].steps == steps) return &result->points[i];
    struct aorta_sweep_point *point = &result->points[result->count++];
    *point = (struct aorta_sweep_point){.cell = cell, .steps = steps};
    return point;
}

static void add_trial(const struct aorta_trial *trial, struct aorta_sweep_point *point) {
    for (int f = 0; f < AORTA_SWEEP_OBJECTIVE_COUNT; f++)
        point->figures[f] += (trial->figures[f] - point->figures[f]) / (point->runs + 1);
    point->runs++;
}

static void set_cost(const struct aorta_sweep_plan *plan, struct aorta_sweep_point *point) {
    const double figure = point->figures[plan->objective];
    point->cost = aorta_sweep_objectives[plan->objective].higher_is_better ? -figure : figure;
}

static void collect(struct aorta_sweep_result *result) {
    const struct aorta_sweep_plan *plan = result->plan;
    AORTA_EACH (const struct aorta_trial, trial, result->trials->items, result->trials->count) {
        result->states[trial->state]++;
        result->seconds += trial->seconds;
        if (!aorta_trial_has(trial, plan->objective)) continue;
        const int64_t cell = aorta_sweep_cell_of(plan, trial);
        add_trial(trial, point_of(result, cell, trial->steps));
        if (cell >= 0 && cell + 1 == plan->equal && trial->steps == plan->steps) add_trial(trial, &result->baseline);
    }
    set_cost(plan, &result->baseline);
    for (size_t i = 0; i < result->count; i++) {
        set_cost(plan, &result->points[i]);
        result->whole += result->points[i].steps == plan->steps;
    }
}

static AORTA_ORDER(better_first, struct aorta_sweep_point, AORTA_DOWN(steps) AORTA_UP(cost) AORTA_UP(cell));

/* Halving and TPE select points that were also lucky, so among their points only those with the most repeats can be
 * the best. */
static const struct aorta_sweep_point *choose_best(const struct aorta_sweep_result *result) {
    const bool adaptive = result->plan->method == AORTA_SWEEP_HALVING || result->plan->method == AORTA_SWEEP_TPE;
    int most = 0;
    for (size_t i = 0; adaptive && i < result->whole; i++)
        if (result->points[i].runs > most) most = result->points[i].runs;
    for (size_t i = 0; i < result->whole; i++)
        if (result->points[i].runs >= most) return &result->points[i];
    return NULL;
}

/* Whether the difference between two points is not significant at `level`. */
static bool is_alike(const struct aorta_sweep_importance *importance, const struct aorta_sweep_point *a,
                     const struct aorta_sweep_point *b, double level) {
    if (isnan(importance->noise)) return false;
    const double off = a->cost - b->cost;
    const struct aorta_variance variance = {importance->noise * importance->noise * (1.0 / a->runs + 1.0 / b->runs),
                                            importance->freedom};
    return aorta_chance_of(off, &variance, 1).p >= level;
}

/* True if a knob or a pair of knobs is significant, or the best point beats the baseline, corrected for the number of
 * points. Also true if the noise is unknown or there is nothing to compare with. */
static bool beats_noise(const struct aorta_sweep_result *result) {
    const struct aorta_sweep_importance *importance = &result->importance;
    bool counts = isnan(importance->noise) || (result->whole < 2 && !result->baseline.runs);
    for (int k = 0; k < result->plan->space.count; k++) counts |= importance->counts[k];
    for (int i = 0; i < importance->pair_count; i++) counts |= importance->pairs[i].counts;
    return counts || (result->baseline.runs && !is_alike(importance, result->best, &result->baseline,
                                                         aorta_significance / (double)result->whole));
}

aorta_status aorta_sweep_result_make(const struct aorta_sweep_plan *plan, const struct aorta_trials *trials,
                                     struct aorta_sweep_result *result) {
    *result = (struct aorta_sweep_result){.plan = plan, .trials = trials};
    AORTA_TRY(aorta_sweep_importance_make(plan, trials, &result->importance));
    result->points = calloc(trials->count + 1, sizeof *result->points);
    if (!result->points) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu points", trials->count);
    collect(result);
    qsort(result->points, result->count, sizeof *result->points, better_first);
    result->baseline.steps = plan->steps;
    result->best = choose_best(result);
    result->baseline_alike = result->best && result->baseline.runs > 0 &&
                             is_alike(&result->importance, result->best, &result->baseline, aorta_significance);
    for (size_t i = 0; result->best && i < result->whole; i++)
        result->alike += &result->points[i] != result->best &&
                         is_alike(&result->importance, result->best, &result->points[i], aorta_significance);
    result->wins = result->best && beats_noise(result);
    return NULL;
}

void aorta_sweep_result_free(struct aorta_sweep_result *result) {
    free(result->points);
    result->points = NULL;
}

/* ---- text ---- */

static void put_seconds(struct aorta_text *text, double seconds) {
    const long long whole = llround(seconds);
    aorta_text_printf(text, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
}

static void put_states(const struct aorta_sweep_result *result, struct aorta_text *text) {
    const char *before = ": ";
    for (int s = 0; s < AORTA_TRIAL_STATE_COUNT; s++) {
        if (!result->states[s]) continue;
        aorta_text_printf(text, "%s%d %s", before, result->states[s],
                          aorta_trial_state_name((enum aorta_trial_state)s));
        before = ", ";
    }
}

/* ", 12.4% below the median (80.2)" */
static void put_difference(const struct aorta_sweep_result *result, const struct aorta_sweep_point *other,
                           const char *name, struct aorta_text *text) {
    const double best = result->best->figures[result->plan->objective],
                 figure = other->figures[result->plan->objective];
    if (figure == 0 || best == figure) return;
    const double change = 100 * (best - figure) / fabs(figure);
    aorta_text_printf(text, ", %.*f%% %s the %s (%s)", fabs(change) < 99.95, fabs(change),
                      change < 0 ? "below" : "above", name, aorta_brief(figure).text);
}

/* "key=value: step_ms 5 ms (2 runs), 12.4% below the baseline (5.7)" */
static void put_best(const struct aorta_sweep_result *result, struct aorta_text *text) {
    const struct aorta_sweep_plan *plan = result->plan;
    const struct aorta_sweep_point *best = result->best;
    const char *unit = aorta_sweep_unit(result->trials, plan->objective);
    aorta_sweep_point_text(&plan->space, best->cell, text);
    aorta_text_printf(text, ": %s %s%s%s (%s)", aorta_sweep_objectives[plan->objective].key,
                      aorta_brief(best->figures[plan->objective]).text, *unit ? " " : "", unit,
                      aorta_counted(best->runs, "run").text);
    if (plan->equal == best->cell + 1)
        aorta_text_puts(text, ", which is the baseline");
    else if (result->baseline.runs && !result->baseline_alike)
        put_difference(result, &result->baseline, "baseline", text);
    else if (result->baseline.runs)
        aorta_text_printf(text, ", within the noise of the baseline (%s)",
                          aorta_brief(result->baseline.figures[plan->objective]).text);
    else
        put_difference(result, &result->points[result->whole / 2], "median", text);
    put_difference(result, &result->points[result->whole - 1], "worst", text);
}

static double noise_share(const struct aorta_sweep_result *result) {
    return result->importance.noise / fabs(result->best->figures[result->plan->objective]);
}

static void put_noise(const struct aorta_sweep_result *result, struct aorta_text *text) {
    const struct aorta_sweep_importance *importance = &result->importance;
    if (isnan(importance->noise)) {
        aorta_text_puts(text, "not known: no point has two runs (--repeats 2)");
        return;
    }
    aorta_text_printf(text, "%s (", aorta_brief(importance->noise).text);
    aorta_found_value_text(noise_share(result), "share", text);
    aorta_text_printf(text, "), from %s",
                      importance->repeated ? aorta_counted(importance->freedom, "repeat").text
                                           : "the variance that no knob explains alone: nothing was repeated");
}

/* Knobs by importance. */
static void sort_knobs(const struct aorta_sweep_result *result, int order[AORTA_SWEEP_MOST_KNOBS]) {
    const struct aorta_sweep_importance *importance = &result->importance;
    for (int k = 0; k < result->plan->space.count; k++) {
        int at = k;
        for (; at > 0 && importance->total[order[at - 1]] < importance->total[k]; at--) order[at] = order[at - 1];
        order[at] = k;
    }
}

static void put_levels(const struct aorta_sweep_result *result, int knob, struct aorta_text *text) {
    const char *before = "; ";
    const struct aorta_sweep_knob *k = &result->plan->space.knobs[knob];
    for (int v = 0; v < k->count; v++) {
        const struct aorta_sweep_level *level = &result->importance.levels[knob][v];
        if (!level->done) continue;
        aorta_text_printf(text, "%s%s %s", before, k->values[v], aorta_brief(level->mean).text);
        before = ", ";
    }
}

static int values_done(const struct aorta_sweep_result *result, int knob) {
    int count = 0;
    for (int v = 0; v < result->plan->space.knobs[knob].count; v++)
        count += result->importance.levels[knob][v].done > 0;
    return count;
}

/* The knobs without effect that were measured, or those that were not. */
static void put_names(const struct aorta_sweep_result *result, const int order[AORTA_SWEEP_MOST_KNOBS], bool measured,
                      const char *end, struct aorta_text *text) {
    for (int i = 0; i < result->plan->space.count; i++) {
        const struct aorta_sweep_knob *knob = &result->plan->space.knobs[order[i]];
        if (knob->count < 2 || result->importance.counts[order[i]]) continue;
        if ((values_done(result, order[i]) > 1) != measured) continue;
        aorta_text_printf(text, "%s%s", text->length ? ", " : "", knob->name);
    }
    if (text->length) aorta_text_puts(text, end);
}

/* "87% of the variance, 81% only together with distributed.mode" */
static void put_share(const struct aorta_sweep_result *result, int knob, struct aorta_text *text) {
    const struct aorta_sweep_importance *importance = &result->importance;
    const struct aorta_sweep_effect *strongest = NULL;
    for (int i = 0; i < importance->pair_count; i++) {
        const struct aorta_sweep_effect *pair = &importance->pairs[i];
        if (!pair->counts || (pair->knobs[0] != knob && pair->knobs[1] != knob)) continue;
        if (!strongest || pair->share > strongest->share) strongest = pair;
    }
    aorta_text_printf(text, "%.0f%% of the variance", 100 * importance->total[knob]);
    if (!strongest || strongest->share < 0.02) return;
    const int other = strongest->knobs[strongest->knobs[0] == knob];
    aorta_text_printf(text, ", %.0f%% only together with %s", 50 * strongest->share,
                      result->plan->space.knobs[other].name);
}

static void put_knobs(const struct aorta_sweep_result *result, struct aorta_text *out) {
    enum { SHOWN = 4 };
    int order[AORTA_SWEEP_MOST_KNOBS], shown = 0;
    struct aorta_text text = {0};
    sort_knobs(result, order);
    for (int i = 0; i < result->plan->space.count && shown < SHOWN; i++) {
        const int k = order[i];
        if (!result->importance.counts[k]) continue;
        aorta_text_printf(&text, "%s ", result->plan->space.knobs[k].name);
        put_share(result, k, &text);
        put_levels(result, k, &text);
        aorta_text_fact(out, shown++ ? "" : "knobs", &text);
    }
    if (!isnan(result->importance.noise)) put_names(result, order, true, ": within the noise", &text);
    aorta_text_fact(out, "no effect", &text);
    put_names(result, order, false, ": fewer than two values have results", &text);
    aorta_text_fact(out, "not known", &text);
    aorta_text_free(&text);
}

static void put_failures(const struct aorta_sweep_result *result, struct aorta_text *text) {
    for (int k = 0; k < result->plan->space.count; k++) {
        const struct aorta_sweep_knob *knob = &result->plan->space.knobs[k];
        for (int v = 0; v < knob->count; v++) {
            const struct aorta_sweep_level *level = &result->importance.levels[k][v];
            if (level->done || !level->failed) continue;
            aorta_text_printf(text, "%s%s=%s", text->length ? ", " : "always with ", knob->name, knob->values[v]);
        }
    }
}

static void put_trials(const struct aorta_sweep_result *result, struct aorta_text *text) {
    aorta_text_puts(text, aorta_counted((long long)result->trials->count, "trial").text);
    put_states(result, text);
    aorta_text_puts(text, "; ");
    put_seconds(text, result->seconds);
    aorta_text_printf(text, "; %s of %s", aorta_sweep_methods[result->plan->method], result->plan->target);
}

/* "No winner: all 4 points are within the noise of ±32%", or they differ by more and may by chance. */
static void put_no_winner(const struct aorta_sweep_result *result, struct aorta_text *text) {
    const double worst = result->points[result->whole - 1].figures[result->plan->objective];
    const double spread = fabs(result->points[0].figures[result->plan->objective] - worst) / fabs(worst);
    const bool beyond = spread > noise_share(result);
    aorta_text_printf(text, beyond ? "No winner: %s differ by up to " : "No winner: all %s are within the noise of ±",
                      aorta_counted((long long)result->whole, "point").text);
    aorta_found_value_text(beyond ? spread : noise_share(result), "share", text);
    if (beyond)
        aorta_text_printf(text, ", not significant with %s (more --repeats)",
                          aorta_counted(result->importance.repeated ? result->importance.freedom : 0, "repeat").text);
}

static void put_headline(const struct aorta_sweep_result *result, struct aorta_text *text) {
    if (!result->best) {
        aorta_text_printf(text, "No result: no trial measured %s", aorta_sweep_objectives[result->plan->objective].key);
    } else if (result->wins) {
        aorta_text_printf(text, "Best of %s: ", aorta_counted((long long)result->whole, "point").text);
        put_best(result, text);
    } else {
        put_no_winner(result, text);
    }
}

void aorta_sweep_result_text(const struct aorta_sweep_result *result, bool answer, struct aorta_text *out) {
    struct aorta_text text = {0};
    put_headline(result, out);
    aorta_text_puts(out, "\n");
    if (answer) return;
    put_trials(result, &text);
    aorta_text_fact(out, "trials", &text);
    if (!result->best) {
        aorta_text_free(&text);
        return;
    }
    if (!result->wins) put_best(result, &text);
    aorta_text_fact(out, "best", &text);
    if (result->wins && result->alike)
        aorta_text_printf(&text, "%s within its noise", aorta_counted((long long)result->alike, "other point").text);
    aorta_text_fact(out, "alike", &text);
    put_noise(result, &text);
    aorta_text_fact(out, "noise", &text);
    put_knobs(result, out);
    put_failures(result, &text);
    aorta_text_fact(out, "failures", &text);
    aorta_text_free(&text);
}
