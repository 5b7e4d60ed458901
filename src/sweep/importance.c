#include "base/compare.h"
#include "sweep/result.h"

#include <math.h>
#include <string.h>

/* Trials with the figure, and an orthonormal basis of what the model explains so far. */
struct fit {
    const struct aorta_sweep_plan *plan;
    const struct aorta_trial **trials;
    double *figures; /* less what the basis explains */
    double *basis;   /* [size][count] */
    double *column;  /* [count] */
    int count, size;
    struct aorta_arena arena;
};

/* The baseline is no combination of the knobs' values, but its repeats differ by the same noise. */
static void take_trials(struct fit *fit, const struct aorta_trials *trials, bool baseline) {
    fit->count = 0;
    AORTA_EACH (const struct aorta_trial, trial, trials->items, trials->count) {
        if (!baseline && aorta_sweep_cell_of(fit->plan, trial) == AORTA_SWEEP_BASELINE) continue;
        if (aorta_trial_has(trial, fit->plan->objective)) fit->trials[fit->count++] = trial;
    }
}

static aorta_status fit_make(struct fit *fit, const struct aorta_sweep_plan *plan, const struct aorta_trials *trials) {
    size_t n = trials->count + 1;
    *fit = (struct fit){.plan = plan};
    fit->trials = aorta_arena_alloc(&fit->arena, n * sizeof(struct aorta_trial *));
    fit->figures = aorta_arena_alloc(&fit->arena, n * sizeof *fit->figures);
    fit->basis = aorta_arena_alloc(&fit->arena, n * n * sizeof *fit->basis);
    fit->column = aorta_arena_alloc(&fit->arena, n * sizeof *fit->column);
    aorta_status status = aorta_arena_check(&fit->arena, "the importance of knobs");
    if (status)
        aorta_arena_free(&fit->arena);
    else
        take_trials(fit, trials, false);
    return status;
}

static double dot(const double *a, const double *b, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

/* Adds a column by Gram-Schmidt, applied twice against rounding. False if the column depends on the basis. */
static bool add_column(struct fit *fit) {
    const double before = sqrt(dot(fit->column, fit->column, fit->count));
    if (before <= 0 || fit->size >= fit->count) return false;
    for (int pass = 0; pass < 2; pass++)
        for (int b = 0; b < fit->size; b++) {
            const double *unit = fit->basis + (size_t)b * (size_t)fit->count;
            const double part = dot(unit, fit->column, fit->count);
            for (int i = 0; i < fit->count; i++) fit->column[i] -= part * unit[i];
        }
    const double length = sqrt(dot(fit->column, fit->column, fit->count));
    if (length < 1e-8 * before) return false;
    double *unit = fit->basis + (size_t)fit->size++ * (size_t)fit->count;
    for (int i = 0; i < fit->count; i++) unit[i] = fit->column[i] / length;
    const double part = dot(unit, fit->figures, fit->count);
    for (int i = 0; i < fit->count; i++) fit->figures[i] -= part * unit[i];
    return true;
}

static int level(const struct fit *fit, int trial, int knob) {
    return aorta_sweep_level(&fit->plan->space, aorta_sweep_cell_of(fit->plan, fit->trials[trial]), knob);
}

/* Columns of one knob, or of the products of two. Returns how many are new. */
static int add_effect(struct fit *fit, int first, int second) {
    const struct aorta_sweep_knob *knobs = fit->plan->space.knobs;
    int added = 0;
    for (int a = 1; a < knobs[first].count; a++)
        for (int b = second < 0 ? 0 : 1; b < (second < 0 ? 1 : knobs[second].count); b++) {
            for (int i = 0; i < fit->count; i++)
                fit->column[i] = level(fit, i, first) == a && (second < 0 || level(fit, i, second) == b);
            added += add_column(fit);
        }
    return added;
}

static bool same_block(const struct aorta_sweep_plan *plan, const struct aorta_trial *a, const struct aorta_trial *b) {
    (void)plan;
    return a->repeat == b->repeat && a->steps == b->steps;
}

static bool same_point(const struct aorta_sweep_plan *plan, const struct aorta_trial *a, const struct aorta_trial *b) {
    return aorta_sweep_cell_of(plan, a) == aorta_sweep_cell_of(plan, b) && a->steps == b->steps;
}

/* A column for each set of trials that are the same. */
static void add_sets(struct fit *fit, bool (*same)(const struct aorta_sweep_plan *plan, const struct aorta_trial *a,
                                                   const struct aorta_trial *b)) {
    for (int i = 0; i < fit->count; i++) {
        int first = i;
        for (int j = 0; j < fit->count; j++) {
            fit->column[j] = same(fit->plan, fit->trials[i], fit->trials[j]);
            if (j < first && fit->column[j] > 0) first = j;
        }
        if (first == i) add_column(fit);
    }
}

/* Resets the model to blocks: the mean of each repeat of all points with the same number of steps. So drift between
 * repeats is not noise. */
static void restart(struct fit *fit) {
    fit->size = 0;
    for (int i = 0; i < fit->count; i++) fit->figures[i] = fit->trials[i]->figures[fit->plan->objective];
    add_sets(fit, same_block);
}

static void add_mains(struct fit *fit, int but) {
    for (int k = 0; k < fit->plan->space.count; k++)
        if (k != but) add_effect(fit, k, -1);
}

static double residue(const struct fit *fit) {
    return dot(fit->figures, fit->figures, fit->count);
}

/* ---- noise ---- */

static double measure_noise(struct fit *fit, const struct aorta_trials *trials,
                            struct aorta_sweep_importance *importance) {
    take_trials(fit, trials, true);
    restart(fit);
    add_sets(fit, same_point);
    importance->freedom = fit->count - fit->size;
    importance->repeated = importance->freedom > 0;
    const double squares = residue(fit);
    take_trials(fit, trials, false);
    if (!importance->repeated) {
        restart(fit);
        add_mains(fit, -1);
        importance->freedom = fit->count - fit->size;
    }
    const double left = importance->repeated ? squares : residue(fit);
    const double variance = importance->freedom > 0 ? left / importance->freedom : NAN;
    importance->noise = sqrt(variance);
    return variance;
}

/* ---- effects ---- */

static void weigh(struct aorta_sweep_effect *effect, double squares, int columns, double variance, double total,
                  int freedom, int effects) {
    effect->measured = columns > 0;
    effect->p = NAN;
    if (!effect->measured || total <= 0) return;
    const double by_chance = isnan(variance) ? 0 : columns * variance;
    effect->share = fmin(fmax((squares - by_chance) / total, 0), 1);
    if (isnan(variance)) return;
    const double ratio = variance > 0 ? squares / columns / variance : INFINITY;
    /* If all repeats are equal, rounding must not count as an effect. */
    if (squares <= 1e-18 * total)
        effect->p = 1;
    else
        effect->p = isinf(ratio) ? 0 : fmin(1, effects * aorta_variance_ratio_p(ratio, columns, freedom));
    effect->counts = effect->p < aorta_significance;
}

static void weigh_mains(struct fit *fit, double variance, double total, struct aorta_sweep_importance *importance) {
    const int knobs = fit->plan->space.count;
    for (int k = 0; k < knobs; k++) {
        restart(fit);
        add_mains(fit, k);
        const double without = residue(fit);
        const int columns = add_effect(fit, k, -1);
        importance->mains[k].knobs[0] = k;
        importance->mains[k].knobs[1] = -1;
        weigh(&importance->mains[k], without - residue(fit), columns, variance, total, importance->freedom, knobs);
    }
}

/* Without repeats the noise is estimated from the pairs, so pairs have a share but no p value. */
static void weigh_pairs(struct fit *fit, double variance, double total, struct aorta_sweep_importance *importance) {
    const int knobs = fit->plan->space.count;
    const double known = importance->repeated ? variance : NAN;
    for (int a = 0; a < knobs; a++)
        for (int b = a + 1; b < knobs; b++) {
            struct aorta_sweep_effect *pair = &importance->pairs[importance->pair_count++];
            restart(fit);
            add_mains(fit, -1);
            const double without = residue(fit);
            const int columns = add_effect(fit, a, b);
            pair->knobs[0] = a;
            pair->knobs[1] = b;
            weigh(pair, without - residue(fit), columns, known, total, importance->freedom, knobs * (knobs - 1) / 2);
        }
}

/* Each knob of a pair gets half of the pair's share (Owen 2014, "Sobol' indices and Shapley value"). Shares are scaled
 * if they exceed 1 in total, which can occur if the points are no full grid. */
static void sum_up(const struct aorta_sweep_plan *plan, struct aorta_sweep_importance *importance) {
    double all = 0;
    for (int k = 0; k < plan->space.count; k++) {
        importance->counts[k] = importance->mains[k].counts;
        importance->total[k] = importance->mains[k].share;
    }
    for (int i = 0; i < importance->pair_count; i++) {
        const struct aorta_sweep_effect *pair = &importance->pairs[i];
        for (int side = 0; side < 2; side++) {
            importance->counts[pair->knobs[side]] |= pair->counts;
            importance->total[pair->knobs[side]] += importance->repeated ? pair->share / 2 : 0;
        }
    }
    for (int k = 0; k < plan->space.count; k++) all += importance->total[k];
    for (int k = 0; k < plan->space.count && all > 1; k++) importance->total[k] /= all;
}

static void measure_levels(const struct aorta_sweep_plan *plan, const struct aorta_trials *trials,
                           struct aorta_sweep_importance *importance) {
    AORTA_EACH (const struct aorta_trial, trial, trials->items, trials->count) {
        const bool has = aorta_trial_has(trial, plan->objective);
        const int64_t cell = aorta_sweep_cell_of(plan, trial);
        if (cell == AORTA_SWEEP_BASELINE || trial->state == AORTA_TRIAL_DISK_FULL) continue;
        for (int k = 0; k < plan->space.count; k++) {
            struct aorta_sweep_level *level = &importance->levels[k][aorta_sweep_level(&plan->space, cell, k)];
            *(has ? &level->done : &level->failed) += 1;
            if (has) level->mean += trial->figures[plan->objective];
        }
    }
    for (int k = 0; k < plan->space.count; k++)
        for (int v = 0; v < plan->space.knobs[k].count; v++) {
            struct aorta_sweep_level *level = &importance->levels[k][v];
            level->mean = level->done ? level->mean / level->done : NAN;
        }
}

aorta_status aorta_sweep_noise_make(const struct aorta_sweep_plan *plan, const struct aorta_trials *trials,
                                    struct aorta_sweep_importance *importance) {
    struct fit fit;
    AORTA_TRY(fit_make(&fit, plan, trials));
    measure_noise(&fit, trials, importance);
    aorta_arena_free(&fit.arena);
    return NULL;
}

aorta_status aorta_sweep_importance_make(const struct aorta_sweep_plan *plan, const struct aorta_trials *trials,
                                         struct aorta_sweep_importance *importance) {
    struct fit fit;
    memset(importance, 0, sizeof *importance);
    AORTA_TRY(fit_make(&fit, plan, trials));
    measure_levels(plan, trials, importance);
    const double variance = measure_noise(&fit, trials, importance);
    restart(&fit);
    const double total = residue(&fit);
    weigh_mains(&fit, variance, total, importance);
    weigh_pairs(&fit, variance, total, importance);
    sum_up(plan, importance);
    aorta_arena_free(&fit.arena);
    return NULL;
}
