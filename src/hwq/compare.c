/* Pairs results, finds the changes, and renders them as text, JSON and CSV. */
#include "hwq/compare.h"
#include "base/result_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FEWEST_WANTED = 30 }; /* iterations to ask for if there are too few for an estimate */

static const char *name_of_change(int change) {
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

/* The number of iterations with which the interval would cross no edge. Returns 0 if the change is too close to an
 * edge, or if more runs are needed instead of longer ones. */
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
    const char *device = aorta_settings_value(&measurement->settings, "config.device");
    return !device || strncmp(device, "cpu", 3) != 0;
}

static bool are_equal(const struct aorta_hwq_measurement *a, const struct aorta_hwq_measurement *b) {
    return a->count == b->count && memcmp(a->times_ms, b->times_ms, a->count * sizeof *a->times_ms) == 0;
}

static void compare_pair(const struct aorta_hwq_comparison *comparison, struct aorta_hwq_compared *pair) {
    const struct aorta_hwq_measurement *a = pair->baseline, *b = pair->test;
    const struct aorta_samples sides[2] = {{a->times_ms, a->count, a->lengths, a->runs, a->pressures},
                                           {b->times_ms, b->count, b->lengths, b->runs, b->pressures}};
    const double threshold = comparison->options.threshold, given = comparison->options.between_runs;
    struct aorta_between_runs between = aorta_between_runs_on(on_gpu(a) && on_gpu(b));
    if (!isnan(given)) between = (struct aorta_between_runs){.share = given, .freedom = between.freedom};
    pair->p50 = aorta_compare(&sides[0], &sides[1], AORTA_P50, &between);
    pair->mean = aorta_compare(&sides[0], &sides[1], AORTA_MEAN, &between);
    pair->p95 = aorta_compare(&sides[0], &sides[1], AORTA_P95, &between);
    pair->equal = are_equal(a, b);
    if (pair->equal) return;
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
    return aorta_text_error(&text, AORTA_USAGE);
}

/* ---- findings ---- */

static bool differs(const struct aorta_hwq_compared *pair) {
    return pair->change == AORTA_HWQ_REGRESSION || pair->change == AORTA_HWQ_IMPROVEMENT;
}

static double count_of(const struct aorta_hwq_comparison *comparison, enum aorta_hwq_change change) {
    return comparison->changes[change] ? (double)comparison->changes[change] : NAN;
}

static size_t count_equal(const struct aorta_hwq_comparison *comparison) {
    size_t count = 0;
    for (size_t i = 0; i < comparison->pair_count; i++) count += comparison->pairs[i].equal;
    return count;
}

static void find_largest(struct aorta_hwq_comparison *comparison) {
    const struct aorta_hwq_compared *largest = NULL;
    for (size_t i = 0; i < comparison->pair_count; i++) {
        const struct aorta_hwq_compared *pair = &comparison->pairs[i];
        if (!differs(pair)) continue;
        if (!largest || aorta_compared_ratio(&pair->p50) > aorta_compared_ratio(&largest->p50)) largest = pair;
    }
    const struct aorta_found_fact test = hwq_text("test", comparison->test->path),
                                  baseline = hwq_text("baseline", comparison->baseline->path);
    if (!largest && count_equal(comparison) == comparison->pair_count) {
        HWQ_FIND(&comparison->found, AORTA_HWQ_COMPARE_EQUAL, test, baseline);
        return;
    }
    if (!largest) {
        const double uncertain = count_of(comparison, AORTA_HWQ_UNCERTAIN);
        HWQ_FIND(&comparison->found, isnan(uncertain) ? AORTA_HWQ_COMPARE_SAME : AORTA_HWQ_COMPARE_UNDECIDED, test,
                 baseline, hwq_value("threshold", comparison->options.threshold, "share"),
                 hwq_count("uncertain", uncertain),
                 hwq_count("pairs", isnan(uncertain) ? NAN : (double)comparison->pair_count));
        return;
    }
    const struct aorta_ratio ratio = aorta_hwq_ratio(&largest->p50);
    HWQ_FIND(&comparison->found, largest->p50.delta > 0 ? AORTA_HWQ_COMPARE_SLOWER : AORTA_HWQ_COMPARE_FASTER, test,
             baseline, hwq_text("workload", largest->baseline->workload),
             hwq_count("streams", (double)largest->baseline->streams), hwq_value("before", largest->p50.value[0], "ms"),
             hwq_value("after", largest->p50.value[1], "ms"), hwq_value("change", ratio.value - 1, "change"),
             hwq_value("low", ratio.low - 1, "change"), hwq_value("high", ratio.high - 1, "change"));
}

/* Adds the counts of pairs. If the answer is undecided, its line already has the number of uncertain pairs. */
static void find_counts(struct aorta_hwq_comparison *comparison) {
    const bool decided = comparison->found.items[0].finding != AORTA_HWQ_COMPARE_UNDECIDED;
    HWQ_FIND(&comparison->found, AORTA_HWQ_COMPARE_PAIRS, hwq_count("pairs", (double)comparison->pair_count),
             hwq_count("regressions", count_of(comparison, AORTA_HWQ_REGRESSION)),
             hwq_count("improvements", count_of(comparison, AORTA_HWQ_IMPROVEMENT)),
             hwq_count("unchanged", count_of(comparison, AORTA_HWQ_UNCHANGED)),
             hwq_count("uncertain", decided ? count_of(comparison, AORTA_HWQ_UNCERTAIN) : NAN),
             hwq_value("threshold", comparison->options.threshold, "share"));
}

/* How much equal runs differ, as a share of the side's median. */
static double between_runs(const struct aorta_hwq_compared *pair, int side) {
    const struct aorta_hwq_measurement *measurement = side ? pair->test : pair->baseline;
    return sqrt(pair->p50.among[side].value * (double)measurement->runs) / pair->p50.value[side];
}

static double most_between_runs(const struct aorta_hwq_compared *pair) {
    return fmax(between_runs(pair, 0), between_runs(pair, 1));
}

/* Reports the pair whose runs differ most. */
static void find_noise(struct aorta_hwq_comparison *comparison) {
    static const double busy = 0.1;
    const struct aorta_hwq_compared *most = comparison->pairs;
    for (size_t i = 1; i < comparison->pair_count; i++)
        if (most_between_runs(&comparison->pairs[i]) > most_between_runs(most)) most = &comparison->pairs[i];
    const struct aorta_comparison *p50 = &most->p50;
    if (!(most_between_runs(most) > 0) || most->equal) return;
    HWQ_FIND(&comparison->found,
             most_between_runs(most) > 1 ? AORTA_HWQ_COMPARE_NO_NOISE
             : p50->assumed              ? AORTA_HWQ_COMPARE_ASSUMED
                                         : AORTA_HWQ_COMPARE_REPEATED,
             hwq_value("between_runs", between_runs(most, 0), "share"),
             hwq_value("between_runs_of_test", between_runs(most, 1), "share"),
             hwq_count("repeats", (double)p50->repeats),
             hwq_value("slowdown", p50->pressure > busy ? exp(p50->pressure) : NAN, "x"));
}

/* Pairs without a decision, and what would decide them. */
static void find_uncertain(struct aorta_hwq_comparison *comparison) {
    size_t few = 0, long_enough = 0, repeat = 0, iterations = 0;
    for (size_t i = 0; i < comparison->pair_count; i++) {
        const struct aorta_hwq_compared *pair = &comparison->pairs[i];
        const struct aorta_ratio tail = aorta_hwq_ratio(&pair->p95);
        few += pair->reason != NULL;
        long_enough += pair->wanted > 0;
        repeat += pair->change == AORTA_HWQ_UNCERTAIN && !pair->wanted;
        if (pair->wanted > iterations) iterations = pair->wanted;
        if (pair->slower_tail)
            HWQ_FIND(&comparison->found, AORTA_HWQ_COMPARE_TAIL, hwq_text("workload", pair->baseline->workload),
                     hwq_count("streams", (double)pair->baseline->streams),
                     hwq_value("change", tail.value - 1, "change"), hwq_value("low", tail.low - 1, "change"),
                     hwq_value("high", tail.high - 1, "change"));
    }
    if (few) HWQ_FIND(&comparison->found, AORTA_HWQ_COMPARE_FEW, hwq_count("pairs", (double)few));
    if (long_enough)
        HWQ_FIND(&comparison->found, AORTA_HWQ_COMPARE_ITERATIONS, hwq_count("iterations", (double)iterations),
                 hwq_count("pairs", (double)long_enough));
    if (repeat) HWQ_FIND(&comparison->found, AORTA_HWQ_COMPARE_REPEAT, hwq_count("pairs", (double)repeat));
}

static void warn_of_settings(struct aorta_hwq_comparison *comparison, const struct aorta_hwq_compared *pair) {
    const struct aorta_hwq_measurement *a = pair->baseline, *b = pair->test;
    struct aorta_differences differences;
    aorta_hwq_differences(a, b, &differences);
    for (size_t i = 0; i < differences.count; i++) {
        const struct aorta_setting_difference *d = &differences.items[i];
        HWQ_FIND(&comparison->found, AORTA_HWQ_COMPARE_SETTING, hwq_text("setting", d->key),
                 hwq_text("baseline", d->reference ? d->reference : "null"),
                 hwq_text("test", d->candidate ? d->candidate : "null"));
    }
    aorta_arena_end(&differences.arena, &comparison->found.arena);
    if (a->simulated != b->simulated)
        HWQ_FIND(&comparison->found, AORTA_HWQ_COMPARE_SIMULATED, hwq_text("workload", a->workload),
                 hwq_text("side", a->simulated ? "baseline" : "test"));
}

/* The interval of one run's iterations does not cover disturbances longer than the run (other work, clocks). */
static void warn_of_short_runs(struct aorta_hwq_comparison *comparison, const struct aorta_hwq_compared *pair) {
    static const double enough_ms = 500.0;
    double shortest = INFINITY;
    const struct aorta_hwq_measurement *sides[2] = {pair->baseline, pair->test};
    if (!differs(pair)) return;
    for (int i = 0; i < 2; i++) {
        double sum = 0.0;
        for (size_t k = 0; k < sides[i]->count; k++) sum += sides[i]->times_ms[k];
        if (sides[i]->runs == 1) shortest = fmin(shortest, sum);
    }
    if (shortest >= enough_ms) return;
    HWQ_FIND(&comparison->found, AORTA_HWQ_COMPARE_SHORT, hwq_text("workload", pair->baseline->workload),
             hwq_count("streams", (double)pair->baseline->streams), hwq_value("seconds", shortest * 1e-3, "s"));
}

/* Times at different clocks differ even if the program is unchanged. */
static void warn_of_clocks(struct aorta_hwq_comparison *comparison, const struct aorta_hwq_compared *pair) {
    static const double alike = 0.03;
    const double baseline = pair->baseline->clock_mhz, test = pair->test->clock_mhz;
    if (!(fabs(test / baseline - 1.0) > alike)) return; /* also when a clock is not known */
    HWQ_FIND(&comparison->found, AORTA_HWQ_COMPARE_CLOCKS, hwq_text("workload", pair->baseline->workload),
             hwq_count("streams", (double)pair->baseline->streams), hwq_value("baseline", baseline, "MHz"),
             hwq_value("test", test, "MHz"));
}

static void warn_of_single(struct aorta_hwq_comparison *comparison, const struct aorta_hwq_measurements *one,
                           const struct aorta_hwq_measurements *other, const char *side) {
    for (size_t i = 0; i < one->count; i++)
        if (!aorta_hwq_measurements_find(other, &one->items[i]))
            HWQ_FIND(&comparison->found, AORTA_HWQ_COMPARE_SINGLE, hwq_text("workload", one->items[i].workload),
                     hwq_count("streams", (double)one->items[i].streams), hwq_text("side", side));
    for (size_t i = 0; i < one->notes.count; i++)
        aorta_hwq_add(&comparison->found, one->notes.items[i].finding, one->notes.items[i].facts);
}

static aorta_status find_all(struct aorta_hwq_comparison *comparison) {
    find_largest(comparison);
    find_counts(comparison);
    find_noise(comparison);
    find_uncertain(comparison);
    for (size_t i = 0; i < comparison->pair_count; i++) {
        warn_of_settings(comparison, &comparison->pairs[i]);
        warn_of_short_runs(comparison, &comparison->pairs[i]);
        warn_of_clocks(comparison, &comparison->pairs[i]);
    }
    warn_of_single(comparison, comparison->baseline, comparison->test, "baseline");
    warn_of_single(comparison, comparison->test, comparison->baseline, "test");
    return aorta_arena_check(&comparison->found.arena, "the comparison");
}

static aorta_status make(struct aorta_hwq_comparison *comparison) {
    comparison->pairs =
        aorta_arena_alloc(&comparison->found.arena, (comparison->baseline->count + 1) * sizeof *comparison->pairs);
    if (!comparison->pairs) return AORTA_ERROR(AORTA_MEMORY, "no memory for the comparison");
    for (size_t i = 0; i < comparison->baseline->count; i++) {
        const struct aorta_hwq_measurement *baseline = &comparison->baseline->items[i];
        const struct aorta_hwq_measurement *test = aorta_hwq_measurements_find(comparison->test, baseline);
        if (!test) continue;
        struct aorta_hwq_compared *pair = &comparison->pairs[comparison->pair_count];
        *pair = (struct aorta_hwq_compared){.baseline = baseline, .test = test};
        compare_pair(comparison, pair);
        comparison->pair_count++;
        comparison->changes[pair->change]++;
    }
    if (!comparison->pair_count) return nothing_to_pair(comparison->baseline, comparison->test);
    return find_all(comparison);
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
    aorta_found_free(&comparison->found);
    *comparison = (struct aorta_hwq_comparison){0};
}

/* ---- text ---- */

static double percent(double ratio) {
    return 100 * (ratio - 1);
}

static void say_pair(const struct aorta_hwq_compared *pair, int width, struct aorta_text *text) {
    static const char *const names[AORTA_HWQ_CHANGE_COUNT] = {"unchanged", "REGRESSION", "improvement", "uncertain"};
    const struct aorta_ratio ratio = aorta_hwq_ratio(&pair->p50);
    char interval[48];
    snprintf(interval, sizeof interval, "[%+.1f, %+.1f]", percent(ratio.low), percent(ratio.high));
    aorta_text_printf(text, "%-*s %7lld  %11.4f  %11.4f  %+7.1f%%  %-18s %s\n", width, pair->baseline->workload,
                      (long long)pair->baseline->streams, pair->p50.value[0], pair->p50.value[1], percent(ratio.value),
                      pair->reason || pair->equal ? "" : interval, pair->equal ? "equal" : names[pair->change]);
}

static void say_table(const struct aorta_hwq_comparison *comparison, struct aorta_text *text) {
    int width = (int)strlen("workload");
    for (size_t i = 0; i < comparison->pair_count; i++) {
        int length = (int)strlen(comparison->pairs[i].baseline->workload);
        if (length > width) width = length;
    }
    aorta_text_printf(text, "\nMedian iteration time\n%-*s %7s  %11s  %11s  %8s  %-18s %s\n", width, "workload",
                      "streams", "baseline ms", "test ms", "change", "interval, percent", "verdict");
    for (size_t i = 0; i < comparison->pair_count; i++) say_pair(&comparison->pairs[i], width, text);
}

void aorta_hwq_comparison_text(const struct aorta_hwq_comparison *comparison, struct aorta_text *text) {
    aorta_found_text(&comparison->found, text);
    say_table(comparison, text);
}

/* ---- JSON ---- */

#define AT(member) offsetof(struct aorta_ratio, member)
static const struct aorta_row ratio_rows[] = {
    {"ratio", AORTA_ROW_NUMBER, AT(value), NULL, 6, .help = "test / baseline; above 1 is slower"},
    {"low", AORTA_ROW_NUMBER, AT(low), NULL, 6, .help = "of its interval"},
    {"high", AORTA_ROW_NUMBER, AT(high), NULL, 6, .help = "of its interval"},
    {0}};
#undef AT

struct side_values {
    const char *file;
    int64_t runs, iterations;
    double p50_ms, mean_ms, p95_ms;
};

#define AT(member) offsetof(struct side_values, member)
static const struct aorta_row side_rows[] = {
    {"file", AORTA_ROW_TEXT, AT(file), .help = "of the last result"},
    {"runs", AORTA_ROW_INT, AT(runs), .help = "results taken together"},
    {"iterations", AORTA_ROW_INT, AT(iterations), .help = "of all of them"},
    {"p50_ms", AORTA_ROW_NUMBER, AT(p50_ms), "ms", .help = "the median"},
    {"mean_ms", AORTA_ROW_NUMBER, AT(mean_ms), "ms", .help = "the mean"},
    {"p95_ms", AORTA_ROW_NUMBER, AT(p95_ms), "ms", .help = "95% take no longer"},
    {0}};
#undef AT

struct pair_values {
    struct aorta_hwq_compared of;
    const char *workload;
    int64_t stream_count, wanted;
    double change_percent, between_percent;
    struct aorta_ratio p50, mean, p95;
    struct side_values sides[2];
};

#define AT(member) offsetof(struct pair_values, member)
static const struct aorta_row pair_rows[] = {
    {"workload", AORTA_ROW_TEXT, AT(workload), .help = "its name"},
    {"stream_count", AORTA_ROW_INT, AT(stream_count), .help = "streams"},
    {"change", AORTA_ROW_CHOICE, AT(of.change), .help = "one of", .name = name_of_change,
     .names = AORTA_HWQ_CHANGE_COUNT},
    {"reason", AORTA_ROW_TEXT, AT(of.reason), .help = "uncertain for another reason than the interval"},
    {"change_percent", AORTA_ROW_NUMBER, AT(change_percent), "percent", 3, .help = "of the median"},
    {"iterations_wanted", AORTA_ROW_INT, AT(wanted), .help = "that are probably enough to decide"},
    {"slower_tail", AORTA_ROW_BOOL, AT(of.slower_tail), .help = "the 95th percentile is beyond the threshold"},
    {"between_runs_percent", AORTA_ROW_NUMBER, AT(between_percent), "percent", 6,
     .help = "that equal runs of the baseline differ by"},
    {"repeats", AORTA_ROW_NATURAL, AT(of.p50.repeats), .help = "that the estimate is from; 0: it is assumed"},
    {"judged", AORTA_ROW_PART, AT(p50), .part = ratio_rows},
    {"p50", AORTA_ROW_PART, AT(p50), .part = ratio_rows},
    {"mean", AORTA_ROW_PART, AT(mean), .part = ratio_rows},
    {"p95", AORTA_ROW_PART, AT(p95), .part = ratio_rows},
    {"baseline", AORTA_ROW_PART, AT(sides[0]), .part = side_rows},
    {"test", AORTA_ROW_PART, AT(sides[1]), .part = side_rows},
    {0}};

static struct side_values side_of(const struct aorta_hwq_compared *pair, int side) {
    const struct aorta_hwq_measurement *measurement = side ? pair->test : pair->baseline;
    return (struct side_values){.file = measurement->file,
                                .runs = (int64_t)measurement->runs,
                                .iterations = (int64_t)measurement->count,
                                .p50_ms = pair->p50.value[side],
                                .mean_ms = pair->mean.value[side],
                                .p95_ms = pair->p95.value[side]};
}

static enum aorta_line fill_pair(const void *of, size_t index, void *values) {
    if (index >= ((const struct aorta_hwq_comparison *)of)->pair_count) return AORTA_LINE_END;
    const struct aorta_hwq_compared *pair = &((const struct aorta_hwq_comparison *)of)->pairs[index];
    *(struct pair_values *)values =
        (struct pair_values){.of = *pair,
                             .workload = pair->baseline->workload,
                             .stream_count = pair->baseline->streams,
                             .wanted = pair->wanted ? (int64_t)pair->wanted : AORTA_ROW_UNKNOWN,
                             .change_percent = percent(aorta_hwq_ratio(&pair->p50).value),
                             .between_percent = 100 * pair->p50.between,
                             .p50 = aorta_hwq_ratio(&pair->p50),
                             .mean = aorta_hwq_ratio(&pair->mean),
                             .p95 = aorta_hwq_ratio(&pair->p95),
                             .sides = {side_of(pair, 0), side_of(pair, 1)}};
    return AORTA_LINE;
}

static AORTA_TABLE(pairs, "pairs", AORTA_LINES(pair_rows, struct pair_values, fill_pair));

aorta_status aorta_hwq_comparison_csv(const struct aorta_hwq_comparison *comparison, const char *folder) {
    return aorta_table_csv(&pairs, comparison, folder);
}

void aorta_hwq_comparison_json(const struct aorta_hwq_comparison *comparison, struct aorta_text *text) {
    struct aorta_json json;
    aorta_json_output(&json, text, 2, 1);
    aorta_json_key_string(&json, "kind", "hwq_comparison");
    aorta_json_key_string(&json, "baseline", comparison->baseline->path);
    aorta_json_key_string(&json, "test", comparison->test->path);
    aorta_found_answer_json("largest_change", &comparison->found, &json);
    aorta_json_key_double(&json, "threshold", comparison->options.threshold);
    aorta_json_key_double(&json, "between_runs", comparison->options.between_runs);
    aorta_json_key_object(&json, "changes");
    for (enum aorta_hwq_change change = 0; change < AORTA_HWQ_CHANGE_COUNT; change++)
        aorta_json_key_int(&json, name_of_change((int)change), (int64_t)comparison->changes[change]);
    aorta_json_object_end(&json);
    aorta_table_json(&pairs, comparison, &json);
    aorta_found_sentences_json("warnings", &comparison->found, AORTA_FOUND_WARNING, &json);
    aorta_found_facts_json(&comparison->found, &json);
    aorta_json_output_end(&json);
}

void aorta_hwq_comparison_schema(struct aorta_json *json) {
    aorta_found_schema(json);
    aorta_rows_schema_array("pairs", pair_rows, json);
}

void aorta_hwq_measurements_json(const struct aorta_hwq_measurements *measurements, struct aorta_text *text) {
    struct aorta_json json;
    aorta_json_begin(&json, text, 0);
    aorta_json_array(&json);
    for (size_t i = 0; i < measurements->count; i++) {
        const struct aorta_hwq_measurement *item = &measurements->items[i];
        aorta_json_object(&json);
        aorta_json_key_string(&json, "workload", item->workload);
        aorta_json_key_int(&json, "stream_count", item->streams);
        aorta_json_key_string(&json, "file", item->file);
        aorta_json_key_int(&json, "runs", (int64_t)item->runs);
        aorta_json_key_bool(&json, "simulated", item->simulated);
        aorta_json_key_double(&json, "clock_mhz", item->clock_mhz);
        aorta_json_key_array(&json, "times_ms");
        for (size_t j = 0; j < item->count; j++) aorta_json_fixed(&json, item->times_ms[j], 6);
        aorta_json_array_end(&json);
        aorta_json_key_object(&json, "settings");
        for (size_t j = 0; j < item->settings.count; j++)
            aorta_json_key_string(&json, item->settings.items[j].key, item->settings.items[j].value);
        aorta_json_object_end(&json);
        aorta_json_object_end(&json);
    }
    aorta_json_array_end(&json);
}
