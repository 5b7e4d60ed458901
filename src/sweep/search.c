/* Chooses the next trial. Successive halving: Jamieson & Talwalkar 2016, as Hyperband (Li et al. 2018) uses it, with a
 * third left in each round. TPE: Bergstra et al., "Algorithms for Hyper-Parameter Optimization", 2011; knobs are
 * discrete here, so densities are frequencies of values, smoothed over neighbours if the values are numbers. */
#include "base/random.h"
#include "sweep/sweep.h"

#include <math.h>

enum {
    DEFAULT_POINTS = 20,
    ALL_AT_ONCE = 1 << 17, /* so many cells are listed, of more some are drawn */
    FINALISTS = 3,         /* number of TPE's best points that are repeated; halving leaves at least this many */
    ETA = 3,               /* a round leaves one of ETA points, with ETA times the steps */
    LEAST_STEPS = 5,
    CANDIDATES = 24, /* of TPE, drawn from the good density */
    LEAST_START = 5  /* random points before TPE begins */
};
static const double good_share = 0.25; /* of the points, at least two */

const char *const aorta_sweep_methods[] = {"grid", "random", "halving", "tpe"};

double aorta_sweep_cost(const struct aorta_sweep_plan *plan, const struct aorta_trial *trial) {
    if (!aorta_trial_has(trial, plan->objective)) return INFINITY;
    double figure = trial->figures[plan->objective];
    return aorta_sweep_objectives[plan->objective].higher_is_better ? -figure : figure;
}

/* ---- draws ---- */

struct draws {
    struct aorta_random random;
    uint64_t next;
};

static struct draws draws_of(const struct aorta_sweep_plan *plan, uint64_t stream) {
    return (struct draws){.random = {.seed = plan->seed, .stream = stream, .domain = AORTA_RANDOM_SEARCH}};
}

static double draw(struct draws *draws) { /* in (0, 1) */
    uint32_t word;
    aorta_random_words(&draws->random, draws->next++, 1, &word);
    return ((double)word + 0.5) / 4294967296.0;
}

/* The first `count` of `all` cells become a random choice of them, in random order. */
static void shuffle(struct draws *draws, int64_t *cells, int64_t count, int64_t all) {
    for (int64_t i = 0; i < count; i++) {
        int64_t other = i + (int64_t)(draw(draws) * (double)(all - i)), cell = cells[i];
        cells[i] = cells[other];
        cells[other] = cell;
    }
}

static bool contains(const int64_t *cells, int64_t count, int64_t cell) {
    for (int64_t i = 0; i < count; i++)
        if (cells[i] == cell) return true;
    return false;
}

static int64_t point_count(const struct aorta_sweep_plan *plan) {
    int64_t cells = aorta_sweep_cells(&plan->space);
    int64_t wanted = plan->points ? plan->points : plan->method == AORTA_SWEEP_GRID ? cells : DEFAULT_POINTS;
    return wanted < cells ? wanted : cells;
}

/* `count` different cells in random order; a longer sample begins with the shorter one. */
static int64_t *sample(const struct aorta_sweep_plan *plan, int64_t count, struct aorta_arena *arena) {
    int64_t all = aorta_sweep_cells(&plan->space);
    bool whole = all <= ALL_AT_ONCE;
    int64_t *cells = aorta_arena_alloc(arena, (size_t)(whole ? all : count) * sizeof *cells);
    if (!cells) return NULL;
    struct draws draws = draws_of(plan, 0);
    for (int64_t i = 0; whole && i < all; i++) cells[i] = i;
    if (whole) shuffle(&draws, cells, count, all);
    for (int64_t i = 0; !whole && i < count;) {
        int64_t cell = 0;
        for (int k = 0; k < plan->space.count; k++) {
            int levels = plan->space.knobs[k].count;
            cell = cell * levels + (int64_t)(draw(&draws) * levels);
        }
        if (!contains(cells, i, cell)) cells[i++] = cell;
    }
    return cells;
}

/* ---- trials so far ---- */

static const struct aorta_trial *find(const struct aorta_trials *trials, int64_t cell, int repeat, int64_t steps) {
    AORTA_EACH (const struct aorta_trial, trial, trials->items, trials->count)
        if (trial->cell == cell && trial->repeat == repeat && trial->steps == steps) return trial;
    return NULL;
}

/* Whether a first run is pending: which points are the best is open. */
static bool wait_for_pending(const struct aorta_trials *trials, struct aorta_sweep_next *next) {
    for (size_t i = 0; i < trials->count; i++)
        if (trials->items[i].state == AORTA_TRIAL_PENDING && !trials->items[i].repeat) next->waits = true;
    return next->waits;
}

/* The first cell whose `repeat` has not run yet. Failed points are not repeated. */
static bool first_missing(const struct aorta_sweep_plan *plan, const struct aorta_trials *trials, const int64_t *cells,
                          int64_t count, int repeat, int64_t steps, struct aorta_sweep_next *next) {
    for (int64_t i = 0; i < count; i++) {
        if (find(trials, cells[i], repeat, steps)) continue;
        const struct aorta_trial *first = find(trials, cells[i], 0, steps);
        *next = (struct aorta_sweep_next){.cell = cells[i], .steps = steps, .repeat = repeat};
        if (repeat && first && first->state == AORTA_TRIAL_PENDING)
            next->waits = true;
        else if (repeat && (!first || !aorta_trial_has(first, plan->objective)))
            continue;
        return true;
    }
    return false;
}

static bool baseline_missing(const struct aorta_sweep_plan *plan, const struct aorta_trials *trials, int repeat,
                             struct aorta_sweep_next *next) {
    static const int64_t baseline = AORTA_SWEEP_BASELINE;
    return plan->baseline && first_missing(plan, trials, &baseline, 1, repeat, plan->steps, next);
}

/* The next repeat. Each round over the points has its own random order, so that drift is not attributed to a knob. */
static bool next_repeat(const struct aorta_sweep_plan *plan, const struct aorta_trials *trials, int64_t *cells,
                        int64_t count, int first, struct aorta_sweep_next *next) {
    for (int repeat = first; repeat < plan->repeats; repeat++) {
        struct draws draws = draws_of(plan, (uint64_t)repeat);
        if (repeat) shuffle(&draws, cells, count, count);
        if (baseline_missing(plan, trials, repeat, next)) return true;
        if (first_missing(plan, trials, cells, count, repeat, plan->steps, next)) return true;
    }
    return false;
}

/* Sorts cells by the cost of their first run with these steps, best first; stable. */
static void sort_cells(const struct aorta_sweep_plan *plan, const struct aorta_trials *trials, int64_t steps,
                       int64_t *cells, int64_t count) {
    for (int64_t i = 1; i < count; i++) {
        int64_t cell = cells[i], at = i;
        const struct aorta_trial *trial = find(trials, cell, 0, steps);
        double cost = trial ? aorta_sweep_cost(plan, trial) : INFINITY;
        for (; at > 0; at--) {
            const struct aorta_trial *before = find(trials, cells[at - 1], 0, steps);
            if (!before || aorta_sweep_cost(plan, before) <= cost) break;
            cells[at] = cells[at - 1];
        }
        cells[at] = cell;
    }
}

/* ---- successive halving ---- */

static int64_t fewer(int64_t count) {
    return count / ETA < FINALISTS ? FINALISTS : count / ETA;
}

static int64_t steps_before(const struct aorta_sweep_plan *plan, int rounds) {
    return (int64_t)llround((double)plan->steps / pow(ETA, rounds));
}

/* Rounds before the last. */
static int rounds_of(const struct aorta_sweep_plan *plan) {
    int rounds = 0;
    for (int64_t count = point_count(plan); count / ETA >= FINALISTS; count /= ETA) {
        if (steps_before(plan, rounds + 1) < LEAST_STEPS) break;
        rounds++;
    }
    return rounds;
}

static bool next_of_halving(const struct aorta_sweep_plan *plan, const struct aorta_trials *trials, int64_t *cells,
                            struct aorta_sweep_next *next) {
    int64_t count = point_count(plan);
    for (int left = rounds_of(plan); left > 0; left--) {
        int64_t steps = steps_before(plan, left);
        if (first_missing(plan, trials, cells, count, 0, steps, next)) return true;
        if (wait_for_pending(trials, next)) return true;
        sort_cells(plan, trials, steps, cells, count);
        count = fewer(count);
        while (count > 0 && !aorta_trial_has(find(trials, cells[count - 1], 0, steps), plan->objective)) count--;
    }
    return next_repeat(plan, trials, cells, count, 0, next);
}

/* ---- tree-structured Parzen estimator ---- */

static int64_t start_count(const struct aorta_sweep_plan *plan) {
    int64_t points = point_count(plan), start = points / 4 > LEAST_START ? points / 4 : LEAST_START;
    return start < points ? start : points;
}

/* The density of a knob's values among points: a prior of weight 1 spread over all values, plus 1 per point. If the
 * values are numbers, neighbours get a part of it. */
static void density(const struct aorta_sweep_plan *plan, int knob, const int64_t *cells, int64_t count,
                    double *density) {
    const struct aorta_sweep_knob *k = &plan->space.knobs[knob];
    double sum = 0;
    for (int v = 0; v < k->count; v++) {
        density[v] = 1.0 / k->count;
        for (int64_t i = 0; i < count; i++) {
            double distance = fabs(v - (double)aorta_sweep_level(&plan->space, cells[i], knob));
            density[v] += k->ordered ? exp(-2 * distance * distance) : distance < 0.5;
        }
        sum += density[v];
    }
    for (int v = 0; v < k->count; v++) density[v] /= sum;
}

static int draw_level(struct draws *draws, const double *density, int count) {
    double left = draw(draws);
    for (int v = 0; v < count - 1; v++) {
        left -= density[v];
        if (left < 0) return v;
    }
    return count - 1;
}

/* Draws candidates from the density of good points; the one with the highest ratio to the bad points' density wins. */
static int64_t propose(const struct aorta_sweep_plan *plan, const int64_t *cells, int64_t count) {
    double good[AORTA_SWEEP_MOST_KNOBS][AORTA_SWEEP_MOST_VALUES] = {{0}};
    double bad[AORTA_SWEEP_MOST_KNOBS][AORTA_SWEEP_MOST_VALUES] = {{0}};
    int64_t goods = (int64_t)ceil(good_share * (double)count);
    if (goods < 2) goods = 2;
    if (goods > count) goods = count;
    for (int k = 0; k < plan->space.count; k++) {
        density(plan, k, cells, goods, good[k]);
        density(plan, k, cells + goods, count - goods, bad[k]);
    }
    struct draws draws = draws_of(plan, 1000 + (uint64_t)count);
    int64_t best = -1;
    double best_score = -INFINITY;
    for (int i = 0; i < CANDIDATES * 100 && (i < CANDIDATES || best < 0); i++) {
        int64_t cell = 0;
        double score = 0;
        for (int k = 0; k < plan->space.count; k++) {
            int level = draw_level(&draws, good[k], plan->space.knobs[k].count);
            cell = cell * plan->space.knobs[k].count + level;
            score += log(good[k][level] / bad[k][level]);
        }
        if (score <= best_score || contains(cells, count, cell)) continue;
        best = cell;
        best_score = score;
    }
    return best;
}

/* The different points that have run, in the order of their first trials. */
static int64_t points_run(const struct aorta_trials *trials, int64_t *cells) {
    int64_t count = 0;
    for (size_t i = 0; i < trials->count; i++)
        if (!trials->items[i].repeat && trials->items[i].cell != AORTA_SWEEP_BASELINE)
            cells[count++] = trials->items[i].cell;
    return count;
}

static bool next_of_tpe(const struct aorta_sweep_plan *plan, const struct aorta_trials *trials, const int64_t *start,
                        int64_t *cells, struct aorta_sweep_next *next) {
    if (first_missing(plan, trials, start, start_count(plan), 0, plan->steps, next)) return true;
    if (wait_for_pending(trials, next)) return true;
    int64_t count = points_run(trials, cells);
    sort_cells(plan, trials, plan->steps, cells, count);
    if (count < point_count(plan)) {
        int64_t cell = propose(plan, cells, count);
        for (int64_t i = 0; cell < 0 && i < point_count(plan); i++)
            if (!contains(cells, count, start[i])) cell = start[i];
        *next = (struct aorta_sweep_next){.cell = cell, .steps = plan->steps};
        if (cell >= 0) return true;
    }
    return next_repeat(plan, trials, cells, count < FINALISTS ? count : FINALISTS, 1, next);
}

/* ---- any ---- */

aorta_status aorta_sweep_choose(const struct aorta_sweep_plan *plan, const struct aorta_trials *trials,
                                struct aorta_sweep_next *next, bool *more) {
    struct aorta_arena arena = {0};
    *next = (struct aorta_sweep_next){0};
    *more = baseline_missing(plan, trials, 0, next);
    if (*more) return NULL;
    int64_t *cells = sample(plan, point_count(plan), &arena);
    int64_t *run = aorta_arena_alloc(&arena, (trials->count + 1) * sizeof *run);
    aorta_status status = aorta_arena_check(&arena, "the points of a sweep");
    if (!status)
        *more = plan->method == AORTA_SWEEP_TPE       ? next_of_tpe(plan, trials, cells, run, next)
                : plan->method == AORTA_SWEEP_HALVING ? next_of_halving(plan, trials, cells, next)
                                                      : next_repeat(plan, trials, cells, point_count(plan), 0, next);
    aorta_arena_free(&arena);
    return status;
}

int64_t aorta_sweep_planned(const struct aorta_sweep_plan *plan) {
    int64_t count = point_count(plan), sum = plan->baseline ? plan->repeats : 0;
    if (plan->method == AORTA_SWEEP_TPE)
        return sum + count + (count < FINALISTS ? count : FINALISTS) * (plan->repeats - 1);
    for (int left = plan->method == AORTA_SWEEP_HALVING ? rounds_of(plan) : 0; left > 0; left--) {
        sum += count;
        count = fewer(count);
    }
    return sum + count * plan->repeats;
}
