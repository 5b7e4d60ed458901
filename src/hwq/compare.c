/* Pairs results, decides which changed, and reports settings that differ. */
#include "hwq/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_WANTED = 30 }; /* iterations, where there are too few to say how many */

const char *aorta_hwq_change_name(enum aorta_hwq_change change) {
    static const char *const names[AORTA_HWQ_CHANGE_COUNT] = {"unchanged", "regression", "improvement", "uncertain"};
    return names[change];
}

/* ---- one pair ---- */

enum aorta_hwq_change aorta_hwq_change_of(const struct aorta_ratio *ratio, double threshold) {
    double slower = 1 + threshold, faster = 1 / (1 + threshold);
    if (ratio->low > slower) return AORTA_HWQ_REGRESSION;
    if (ratio->high < faster) return AORTA_HWQ_IMPROVEMENT;
    return ratio->low >= faster && ratio->high <= slower ? AORTA_HWQ_UNCHANGED : AORTA_HWQ_UNCERTAIN;
}

struct aorta_ratio aorta_hwq_ratio(const struct aorta_comparison *comparison) {
    const double baseline = comparison->value[0];
    return (struct aorta_ratio){comparison->value[1] / baseline, 1 + comparison->low / baseline,
                                1 + comparison->high / baseline};
}

/* The number of iterations whose interval crosses no edge. 0: the change is too close to an edge, or more runs are
 * needed and not longer ones. */
static size_t iterations_wanted(const struct aorta_hwq_compared *pair, double threshold) {
    const double edges[] = {1 + threshold, 1 / (1 + threshold)}, value = aorta_hwq_ratio(&pair->p50).value;
    size_t most = 0;
    for (int i = 0; i < 2; i++) {
        size_t iterations, runs;
        aorta_compare_wanted(&pair->p50, (edges[i] - value) * pair->p50.value[0], &iterations, &runs);
        if (!iterations) return 0;
        if (iterations > most) most = iterations;
    }
    return most;
}

static bool on_gpu(const struct aorta_hwq_measurement *measurement) {
    for (size_t i = 0; i < measurement->setting_count; i++)
        if (strcmp(measurement->settings[i].key, "config.device") == 0)
            return strncmp(measurement->settings[i].value, "cpu", 3) != 0;
    return true;
}

static void compare_pair(const struct aorta_hwq_comparison *comparison, struct aorta_hwq_compared *pair) {
    const struct aorta_hwq_measurement *a = pair->baseline, *b = pair->test;
    const struct aorta_samples sides[2] = {{a->times_ms, a->count, a->lengths, a->runs},
                                           {b->times_ms, b->count, b->lengths, b->runs}};
    const double threshold = comparison->options.threshold, given = comparison->options.between_runs;
    struct aorta_between_runs between = aorta_between_runs_on(on_gpu(a) && on_gpu(b));
    if (!isnan(given)) between = (struct aorta_between_runs){.share = given, .freedom = between.freedom};
    pair->p50 = aorta_compare(&sides[0], &sides[1], AORTA_P50, &between);
    pair->mean = aorta_compare(&sides[0], &sides[1], AORTA_MEAN, &between);
    pair->p95 = aorta_compare(&sides[0], &sides[1], AORTA_P95, &between);
    if (isnan(pair->p50.p_value)) {
        pair->change = AORTA_HWQ_UNCERTAIN;
        pair->wanted = FEWEST_WANTED;
        pair->reason = "fewer than 8 iterations";
        return;
    }
    const struct aorta_ratio ratio = aorta_hwq_ratio(&pair->p50), tail = aorta_hwq_ratio(&pair->p95);
    pair->change = aorta_hwq_change_of(&ratio, threshold);
    pair->slower_tail = pair->change != AORTA_HWQ_REGRESSION && tail.low > 1 + threshold;
    if (pair->change == AORTA_HWQ_UNCERTAIN) pair->wanted = iterations_wanted(pair, threshold);
}

/* ---- pairing ---- */

static const struct aorta_hwq_measurement *find(const struct aorta_hwq_measurements *measurements,
                                                const struct aorta_hwq_measurement *like) {
    for (size_t i = 0; i < measurements->count; i++) {
        const struct aorta_hwq_measurement *item = &measurements->items[i];
        if (item->streams == like->streams && strcmp(item->workload, like->workload) == 0) return item;
    }
    return NULL;
}

static void list(const struct aorta_hwq_measurements *measurements, struct aorta_text *text) {
    enum { SHOWN = 6 };
    for (size_t i = 0; i < measurements->count && i < SHOWN; i++)
        aorta_text_printf(text, "%s%s on %s", i ? ", " : "", measurements->items[i].workload,
                          aorta_counted(measurements->items[i].streams, "stream").text);
    if (measurements->count > SHOWN) aorta_text_printf(text, " and %zu more", measurements->count - SHOWN);
}

static aorta_status nothing_to_pair(const struct aorta_hwq_measurements *baseline,
                                    const struct aorta_hwq_measurements *test) {
    struct aorta_text text = {0};
    aorta_text_printf(&text, "no workload and number of streams is in both: %s has ", baseline->path);
    list(baseline, &text);
    aorta_text_printf(&text, "; %s has ", test->path);
    list(test, &text);
    aorta_status status = aorta_text_check(&text);
    if (!status) status = AORTA_ERROR(AORTA_USAGE, "%s", text.data);
    aorta_text_free(&text);
    return status;
}

/* ---- warnings ---- */

static aorta_status warn(struct aorta_hwq_comparison *comparison, size_t capacity, const char *text) {
    if (!text) return AORTA_ERROR(AORTA_MEMORY, "no memory for the comparison");
    for (size_t i = 0; i < comparison->warning_count; i++) {
        if (strcmp(comparison->warnings[i], text) == 0) return NULL;
    }
    if (comparison->warning_count < capacity) comparison->warnings[comparison->warning_count++] = text;
    return NULL;
}

struct warning {
    struct aorta_hwq_comparison *comparison;
    size_t capacity;
};

static aorta_status warn_of_setting(void *user, const char *key, const char *baseline, const char *test) {
    const struct warning *warning = user;
    return warn(warning->comparison, warning->capacity,
                aorta_arena_printf(&warning->comparison->arena, "%s differs: %s in the baseline, %s in the test", key,
                                   baseline, test));
}

static aorta_status warn_of_settings(struct aorta_hwq_comparison *comparison, size_t capacity,
                                     const struct aorta_hwq_compared *pair) {
    const struct aorta_hwq_measurement *a = pair->baseline, *b = pair->test;
    struct warning warning = {comparison, capacity};
    AORTA_TRY(aorta_hwq_differences(a, b, warn_of_setting, &warning));
    if (a->simulated != b->simulated)
        AORTA_TRY(warn(comparison, capacity,
                       aorta_arena_printf(&comparison->arena, "%s: collectives were simulated in the %s only",
                                          a->workload, a->simulated ? "baseline" : "test")));
    return NULL;
}

/* Disturbances longer than a run (other work on the machine, clocks) are in no interval of its iterations. */
static aorta_status warn_of_short_runs(struct aorta_hwq_comparison *comparison, size_t capacity,
                                       const struct aorta_hwq_compared *pair) {
    static const double enough_ms = 500.0;
    double shortest = INFINITY;
    const struct aorta_hwq_measurement *sides[2] = {pair->baseline, pair->test};
    if (pair->change != AORTA_HWQ_REGRESSION && pair->change != AORTA_HWQ_IMPROVEMENT) return NULL;
    for (int i = 0; i < 2; i++) {
        double sum = 0.0;
        for (size_t k = 0; k < sides[i]->count; k++) sum += sides[i]->times_ms[k];
        if (sides[i]->runs == 1) shortest = fmin(shortest, sum);
    }
    if (shortest >= enough_ms) return NULL;
    return warn(comparison, capacity,
                aorta_arena_printf(&comparison->arena,
                                   "%s on %s: a side is one run of %.2g s; a longer disturbance of the machine "
                                   "looks like a change: repeat the runs, or raise --iterations",
                                   pair->baseline->workload, aorta_counted(pair->baseline->streams, "stream").text,
                                   shortest * 1e-3));
}

/* With different clocks the comparison is also one of the clocks. */
static aorta_status warn_of_clocks(struct aorta_hwq_comparison *comparison, size_t capacity,
                                   const struct aorta_hwq_compared *pair) {
    static const double alike = 0.03;
    const double baseline = pair->baseline->clock_mhz, test = pair->test->clock_mhz;
    if (!(fabs(test / baseline - 1.0) > alike)) return NULL; /* nor where a clock is not known */
    return warn(comparison, capacity,
                aorta_arena_printf(&comparison->arena,
                                   "%s on %s: the device's clock was %.0f MHz in the baseline, %.0f MHz in "
                                   "the test: the time of kernels depends on it",
                                   pair->baseline->workload, aorta_counted(pair->baseline->streams, "stream").text,
                                   baseline, test));
}

static aorta_status warn_of_single(struct aorta_hwq_comparison *comparison, size_t capacity,
                                   const struct aorta_hwq_measurements *one, const struct aorta_hwq_measurements *other,
                                   const char *where) {
    for (size_t i = 0; i < one->count; i++) {
        if (find(other, &one->items[i])) continue;
        AORTA_TRY(warn(comparison, capacity,
                       aorta_arena_printf(&comparison->arena, "%s on %s is only in the %s", one->items[i].workload,
                                          aorta_counted(one->items[i].streams, "stream").text, where)));
    }
    for (size_t i = 0; i < one->note_count; i++) AORTA_TRY(warn(comparison, capacity, one->notes[i]));
    return NULL;
}

static aorta_status collect_warnings(struct aorta_hwq_comparison *comparison) {
    size_t capacity = comparison->baseline->count + comparison->test->count + comparison->baseline->note_count +
                      comparison->test->note_count;
    for (size_t i = 0; i < comparison->pair_count; i++)
        capacity += comparison->pairs[i].baseline->setting_count + comparison->pairs[i].test->setting_count + 3;
    comparison->warnings = aorta_arena_alloc(&comparison->arena, (capacity + 1) * sizeof *comparison->warnings);
    if (!comparison->warnings) return AORTA_ERROR(AORTA_MEMORY, "no memory for the comparison");
    for (size_t i = 0; i < comparison->pair_count; i++) {
        AORTA_TRY(warn_of_settings(comparison, capacity, &comparison->pairs[i]));
        AORTA_TRY(warn_of_short_runs(comparison, capacity, &comparison->pairs[i]));
        AORTA_TRY(warn_of_clocks(comparison, capacity, &comparison->pairs[i]));
    }
    AORTA_TRY(warn_of_single(comparison, capacity, comparison->baseline, comparison->test, "baseline"));
    return warn_of_single(comparison, capacity, comparison->test, comparison->baseline, "test");
}

/* ---- the comparison ---- */

static aorta_status make(struct aorta_hwq_comparison *comparison) {
    comparison->pairs =
        aorta_arena_alloc(&comparison->arena, (comparison->baseline->count + 1) * sizeof *comparison->pairs);
    if (!comparison->pairs) return AORTA_ERROR(AORTA_MEMORY, "no memory for the comparison");
    for (size_t i = 0; i < comparison->baseline->count; i++) {
        const struct aorta_hwq_measurement *baseline = &comparison->baseline->items[i];
        const struct aorta_hwq_measurement *test = find(comparison->test, baseline);
        if (!test) continue;
        struct aorta_hwq_compared *pair = &comparison->pairs[comparison->pair_count];
        *pair = (struct aorta_hwq_compared){.baseline = baseline, .test = test};
        compare_pair(comparison, pair);
        comparison->pair_count++;
        comparison->changes[pair->change]++;
    }
    if (!comparison->pair_count) return nothing_to_pair(comparison->baseline, comparison->test);
    return collect_warnings(comparison);
}

aorta_status aorta_hwq_comparison_make(const struct aorta_hwq_measurements *baseline,
                                       const struct aorta_hwq_measurements *test,
                                       const struct aorta_hwq_comparison_options *options,
                                       struct aorta_hwq_comparison *comparison) {
    *comparison = (struct aorta_hwq_comparison){.baseline = baseline, .test = test, .options = *options};
    aorta_status status = make(comparison);
    if (status) aorta_hwq_comparison_free(comparison);
    return status;
}

void aorta_hwq_comparison_free(struct aorta_hwq_comparison *comparison) {
    aorta_arena_free(&comparison->arena);
    *comparison = (struct aorta_hwq_comparison){0};
}
