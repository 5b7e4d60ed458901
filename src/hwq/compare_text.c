/* A comparison as a table and as JSON. */
#include "base/result_table.h"
#include "hwq/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double percent(double ratio) {
    return 100 * (ratio - 1);
}

static void say_pair(const struct aorta_hwq_compared *pair, int width, struct aorta_text *text) {
    static const char *const names[AORTA_HWQ_CHANGE_COUNT] = {"unchanged", "REGRESSION", "improvement", "uncertain"};
    const struct aorta_ratio ratio = aorta_hwq_ratio(&pair->p50), tail = aorta_hwq_ratio(&pair->p95);
    char interval[48];
    snprintf(interval, sizeof interval, "[%+.1f, %+.1f]", percent(ratio.low), percent(ratio.high));
    aorta_text_printf(text, "%-*s %7lld  %11.4f  %11.4f  %+7.1f%%  %-18s %s", width, pair->baseline->workload,
                      (long long)pair->baseline->streams, pair->p50.value[0], pair->p50.value[1], percent(ratio.value),
                      pair->reason ? "" : interval, names[pair->change]);
    if (pair->reason) aorta_text_printf(text, ": %s", pair->reason);
    if (pair->wanted)
        aorta_text_printf(text, "; try --iterations %zu", pair->wanted);
    else if (pair->change == AORTA_HWQ_UNCERTAIN)
        aorta_text_puts(text, "; repeat both runs, and compare the directories");
    if (pair->slower_tail)
        aorta_text_printf(text, "; slower tail: p95 %+.1f%% [%+.1f, %+.1f]", percent(tail.value), percent(tail.low),
                          percent(tail.high));
    aorta_text_puts(text, "\n");
}

/* What changed most for sure, of all pairs. */
static void say_largest(const struct aorta_hwq_comparison *comparison, struct aorta_text *text) {
    const struct aorta_hwq_compared *largest = NULL;
    double farthest = 0;
    for (size_t i = 0; i < comparison->pair_count; i++) {
        const struct aorta_hwq_compared *pair = &comparison->pairs[i];
        const double far = fabs(log(aorta_hwq_ratio(&pair->p50).value));
        if (pair->change != AORTA_HWQ_REGRESSION && pair->change != AORTA_HWQ_IMPROVEMENT) continue;
        if (far <= farthest) continue;
        farthest = far;
        largest = pair;
    }
    const char *baseline = comparison->baseline->path, *test = comparison->test->path;
    if (!largest) {
        aorta_text_printf(text, "No iteration time of %s differs from %s by more than %g%% for sure.", test, baseline,
                          100 * comparison->options.threshold);
        return;
    }
    char figure[256];
    snprintf(figure, sizeof figure, "an iteration of %.120s on %s", largest->baseline->workload,
             aorta_counted(largest->baseline->streams, "stream").text);
    const struct aorta_difference difference = {.figure = figure,
                                                .unit = "ms",
                                                .sides = {baseline, test},
                                                .value = {largest->p50.value[0], largest->p50.value[1]},
                                                .word = largest->change == AORTA_HWQ_REGRESSION ? "worse" : "better"};
    aorta_difference_text(&difference, baseline, test, text);
}

/* The pair whose runs differ most stands for all. */
static const struct aorta_comparison *least_sure(const struct aorta_hwq_comparison *comparison) {
    const struct aorta_comparison *found = &comparison->pairs->p50;
    for (size_t i = 1; i < comparison->pair_count; i++)
        if (comparison->pairs[i].p50.between > found->between) found = &comparison->pairs[i].p50;
    return found;
}

static void say_table(const struct aorta_hwq_comparison *comparison, struct aorta_text *text) {
    int width = (int)strlen("workload");
    for (size_t i = 0; i < comparison->pair_count; i++) {
        int length = (int)strlen(comparison->pairs[i].baseline->workload);
        if (length > width) width = length;
    }
    aorta_text_printf(text, "%-*s %7s  %11s  %11s  %8s  %-18s %s\n", width, "workload", "streams", "baseline ms",
                      "test ms", "change", "interval, percent", "verdict");
    for (size_t i = 0; i < comparison->pair_count; i++) say_pair(&comparison->pairs[i], width, text);
    aorta_text_puts(text, "\n");
}

void aorta_hwq_comparison_text(const struct aorta_hwq_comparison *comparison, bool table, struct aorta_text *text) {
    aorta_text_printf(text, "baseline %s, test %s: time of an iteration, median\n%s", comparison->baseline->path,
                      comparison->test->path, table ? "\n" : "");
    for (size_t i = 0; i < comparison->warning_count; i++)
        aorta_text_printf(text, "warning: %s\n", comparison->warnings[i]);
    if (comparison->warning_count && table) aorta_text_puts(text, "\n");
    if (table) say_table(comparison, text);
    say_largest(comparison, text);
    aorta_text_puts(text, "\n");
    const size_t *changes = comparison->changes;
    aorta_text_printf(text, "%zu compared: %s, %s, %zu unchanged, %zu uncertain ", comparison->pair_count,
                      aorta_counted((long long)changes[AORTA_HWQ_REGRESSION], "regression").text,
                      aorta_counted((long long)changes[AORTA_HWQ_IMPROVEMENT], "improvement").text,
                      changes[AORTA_HWQ_UNCHANGED], changes[AORTA_HWQ_UNCERTAIN]);
    aorta_text_printf(text, "(threshold %g%%, 95%% intervals)\n", 100 * comparison->options.threshold);
    aorta_compare_between(least_sure(comparison), "results on a side, in a directory,", text);
    aorta_text_puts(text, "\n");
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

static const char *change_name(int change) {
    return aorta_hwq_change_name((enum aorta_hwq_change)change);
}

struct pair_values {
    const char *workload, *reason;
    int64_t stream_count, wanted;
    int change;
    double change_percent;
    bool slower_tail;
    double between_percent;
    int64_t repeats;
    struct aorta_ratio p50, mean, p95;
    struct side_values sides[2];
};

#define AT(member) offsetof(struct pair_values, member)
static const struct aorta_row pair_rows[] = {
    {"workload", AORTA_ROW_TEXT, AT(workload), .help = "its name"},
    {"stream_count", AORTA_ROW_INT, AT(stream_count), .help = "streams"},
    {"change", AORTA_ROW_CHOICE, AT(change), .help = "one of", .name = change_name, .names = AORTA_HWQ_CHANGE_COUNT},
    {"reason", AORTA_ROW_TEXT, AT(reason), .help = "uncertain for another reason than the interval"},
    {"change_percent", AORTA_ROW_NUMBER, AT(change_percent), "percent", 3, .help = "of the median"},
    {"iterations_wanted", AORTA_ROW_INT, AT(wanted), .help = "that would probably decide it"},
    {"slower_tail", AORTA_ROW_BOOL, AT(slower_tail), .help = "the 95th percentile is beyond the threshold"},
    {"between_runs_percent", AORTA_ROW_NUMBER, AT(between_percent), "percent", 6, .help = "that equal runs differ by"},
    {"repeats", AORTA_ROW_INT, AT(repeats), .help = "that say so; 0: it is assumed"},
    {"judged", AORTA_ROW_PART, AT(p50), .part = ratio_rows},
    {"p50", AORTA_ROW_PART, AT(p50), .part = ratio_rows},
    {"mean", AORTA_ROW_PART, AT(mean), .part = ratio_rows},
    {"p95", AORTA_ROW_PART, AT(p95), .part = ratio_rows},
    {"baseline", AORTA_ROW_PART, AT(sides[0]), .part = side_rows},
    {"test", AORTA_ROW_PART, AT(sides[1]), .part = side_rows},
    {0}};
#undef AT

static size_t pair_count(const void *of) {
    return ((const struct aorta_hwq_comparison *)of)->pair_count;
}

static struct side_values side_of(const struct aorta_hwq_compared *pair, int side) {
    const struct aorta_hwq_measurement *measurement = side ? pair->test : pair->baseline;
    return (struct side_values){.file = measurement->file,
                                .runs = (int64_t)measurement->runs,
                                .iterations = (int64_t)measurement->count,
                                .p50_ms = pair->p50.value[side],
                                .mean_ms = pair->mean.value[side],
                                .p95_ms = pair->p95.value[side]};
}

static bool fill_pair(const void *of, size_t index, void *values) {
    const struct aorta_hwq_compared *pair = &((const struct aorta_hwq_comparison *)of)->pairs[index];
    *(struct pair_values *)values =
        (struct pair_values){.workload = pair->baseline->workload,
                             .reason = pair->reason,
                             .stream_count = pair->baseline->streams,
                             .wanted = pair->wanted ? (int64_t)pair->wanted : AORTA_ROW_UNKNOWN,
                             .change = (int)pair->change,
                             .change_percent = percent(aorta_hwq_ratio(&pair->p50).value),
                             .slower_tail = pair->slower_tail,
                             .between_percent = 100 * pair->p50.between,
                             .repeats = (int64_t)pair->p50.repeats,
                             .p50 = aorta_hwq_ratio(&pair->p50),
                             .mean = aorta_hwq_ratio(&pair->mean),
                             .p95 = aorta_hwq_ratio(&pair->p95),
                             .sides = {side_of(pair, 0), side_of(pair, 1)}};
    return true;
}

static const struct aorta_result_table pairs = {
    .key = "pairs", .rows = pair_rows, .size = sizeof(struct pair_values), .count = pair_count, .fill = fill_pair};

aorta_status aorta_hwq_comparison_csv(const struct aorta_hwq_comparison *comparison, const char *folder) {
    return aorta_table_csv(&pairs, comparison, folder);
}

void aorta_hwq_comparison_json(const struct aorta_hwq_comparison *comparison, struct aorta_json *json) {
    aorta_json_object(json);
    aorta_json_key_int(json, "schema_version", 1);
    aorta_json_key_string(json, "kind", "hwq_comparison");
    aorta_json_key_string(json, "baseline", comparison->baseline->path);
    aorta_json_key_string(json, "test", comparison->test->path);
    struct aorta_text largest = {0};
    say_largest(comparison, &largest);
    aorta_json_key_string(json, "largest_change", largest.data);
    json->out->failed |= largest.failed;
    aorta_text_free(&largest);
    aorta_json_key_double(json, "threshold", comparison->options.threshold);
    aorta_json_key_double(json, "between_runs", comparison->options.between_runs);
    aorta_json_key_object(json, "changes");
    for (enum aorta_hwq_change change = 0; change < AORTA_HWQ_CHANGE_COUNT; change++)
        aorta_json_key_int(json, aorta_hwq_change_name(change), (int64_t)comparison->changes[change]);
    aorta_json_object_end(json);
    aorta_table_json(&pairs, comparison, json);
    aorta_json_key_array(json, "warnings");
    for (size_t i = 0; i < comparison->warning_count; i++) aorta_json_string(json, comparison->warnings[i]);
    aorta_json_array_end(json);
    aorta_json_object_end(json);
}

void aorta_hwq_measurements_json(const struct aorta_hwq_measurements *measurements, struct aorta_json *json) {
    aorta_json_array(json);
    for (size_t i = 0; i < measurements->count; i++) {
        const struct aorta_hwq_measurement *item = &measurements->items[i];
        aorta_json_object(json);
        aorta_json_key_string(json, "workload", item->workload);
        aorta_json_key_int(json, "stream_count", item->streams);
        aorta_json_key_string(json, "file", item->file);
        aorta_json_key_int(json, "runs", (int64_t)item->runs);
        aorta_json_key_bool(json, "simulated", item->simulated);
        aorta_json_key_double(json, "clock_mhz", item->clock_mhz);
        aorta_json_key_array(json, "times_ms");
        for (size_t j = 0; j < item->count; j++) aorta_json_fixed(json, item->times_ms[j], 6);
        aorta_json_array_end(json);
        aorta_json_key_object(json, "settings");
        for (size_t j = 0; j < item->setting_count; j++)
            aorta_json_key_string(json, item->settings[j].key, item->settings[j].value);
        aorta_json_object_end(json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}
