/* A comparison as a table and as JSON. */
#include "hwq/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double percent(double ratio) {
    return 100 * (ratio - 1);
}

static void say_pair(const struct aorta_hwq_compared *pair, int width, struct aorta_text *text) {
    static const char *const names[AORTA_HWQ_CHANGE_COUNT] = {"unchanged", "REGRESSION", "improvement", "uncertain"};
    const struct aorta_ratio *ratio = &pair->widened;
    char interval[48];
    snprintf(interval, sizeof interval, "[%+.1f, %+.1f]", percent(ratio->low), percent(ratio->high));
    aorta_text_printf(text, "%-*s %7lld  %11.4f  %11.4f  %+7.1f%%  %-18s %s", width, pair->baseline->workload,
                      (long long)pair->baseline->streams, pair->p50_ms[0], pair->p50_ms[1], percent(ratio->value),
                      interval, names[pair->change]);
    if (pair->reason) aorta_text_printf(text, ": %s", pair->reason);
    if (pair->wanted)
        aorta_text_printf(text, "; try --iterations %zu", pair->wanted);
    else if (pair->change == AORTA_HWQ_UNCERTAIN)
        aorta_text_puts(text, "; repeat both runs, and compare the directories");
    if (pair->slower_tail)
        aorta_text_printf(text, "; slower tail: p95 %+.1f%% [%+.1f, %+.1f]", percent(pair->ratios.p95.value),
                          percent(pair->ratios.p95.low), percent(pair->ratios.p95.high));
    aorta_text_puts(text, "\n");
}

/* What changed most for sure, of all pairs. */
static void say_largest(const struct aorta_hwq_comparison *comparison, struct aorta_text *text) {
    const struct aorta_hwq_compared *largest = NULL;
    double farthest = 0;
    for (size_t i = 0; i < comparison->pair_count; i++) {
        const struct aorta_hwq_compared *pair = &comparison->pairs[i];
        const double far = fabs(log(pair->widened.value));
        if (pair->change != AORTA_HWQ_REGRESSION && pair->change != AORTA_HWQ_IMPROVEMENT) continue;
        if (far <= farthest) continue;
        farthest = far;
        largest = pair;
    }
    if (!largest) {
        aorta_text_printf(text, "No iteration time of %s differs from %s by more than %g%% for sure.",
                          comparison->test->path, comparison->baseline->path, 100 * comparison->options.threshold);
        return;
    }
    aorta_text_printf(text, "What differs most: %s on %s takes %s ms an iteration in %s and %s ms in %s (%+.*f%%, %s).",
                      largest->baseline->workload, aorta_counted(largest->baseline->streams, "stream").text,
                      aorta_brief(largest->p50_ms[1]).text, comparison->test->path,
                      aorta_brief(largest->p50_ms[0]).text, comparison->baseline->path,
                      fabs(percent(largest->widened.value)) < 10 ? 1 : 0, percent(largest->widened.value),
                      largest->change == AORTA_HWQ_REGRESSION ? "worse" : "better");
}

void aorta_hwq_comparison_text(const struct aorta_hwq_comparison *comparison, struct aorta_text *text) {
    int width = (int)strlen("workload");
    for (size_t i = 0; i < comparison->pair_count; i++) {
        int length = (int)strlen(comparison->pairs[i].baseline->workload);
        if (length > width) width = length;
    }
    aorta_text_printf(text, "baseline %s, test %s: time of an iteration, median\n\n", comparison->baseline->path,
                      comparison->test->path);
    aorta_text_printf(text, "%-*s %7s  %11s  %11s  %8s  %-18s %s\n", width, "workload", "streams", "baseline ms",
                      "test ms", "change", "interval, percent", "verdict");
    for (size_t i = 0; i < comparison->pair_count; i++) say_pair(&comparison->pairs[i], width, text);
    aorta_text_puts(text, "\n");
    for (size_t i = 0; i < comparison->warning_count; i++)
        aorta_text_printf(text, "warning: %s\n", comparison->warnings[i]);
    say_largest(comparison, text);
    aorta_text_puts(text, "\n");
    const size_t *changes = comparison->changes;
    aorta_text_printf(text, "%zu compared: %s, %s, %zu unchanged, %zu uncertain ", comparison->pair_count,
                      aorta_counted((long long)changes[AORTA_HWQ_REGRESSION], "regression").text,
                      aorta_counted((long long)changes[AORTA_HWQ_IMPROVEMENT], "improvement").text,
                      changes[AORTA_HWQ_UNCHANGED], changes[AORTA_HWQ_UNCERTAIN]);
    aorta_text_printf(text, "(threshold %g%%, %g%% intervals of %d block resamples, runs may differ by %g%%)\n",
                      100 * comparison->options.threshold, 100 * comparison->options.bootstrap.confidence,
                      comparison->options.bootstrap.resamples, 100 * comparison->options.between_runs);
}

/* ---- JSON ---- */

static void write_ratio(struct aorta_json *json, const char *key, const struct aorta_ratio *ratio) {
    aorta_json_key_object(json, key);
    aorta_json_key_fixed(json, "ratio", ratio->value, 6);
    aorta_json_key_fixed(json, "low", ratio->low, 6);
    aorta_json_key_fixed(json, "high", ratio->high, 6);
    aorta_json_object_end(json);
}

static void write_side(struct aorta_json *json, const char *key, const struct aorta_hwq_compared *pair, int side) {
    const struct aorta_hwq_measurement *measurement = side ? pair->test : pair->baseline;
    aorta_json_key_object(json, key);
    aorta_json_key_string(json, "file", measurement->file);
    aorta_json_key_int(json, "runs", measurement->runs);
    aorta_json_key_int(json, "iterations", (int64_t)measurement->count);
    aorta_json_key_double(json, "p50_ms", pair->p50_ms[side]);
    aorta_json_key_double(json, "mean_ms", pair->mean_ms[side]);
    aorta_json_key_double(json, "p95_ms", pair->p95_ms[side]);
    aorta_json_key_int(json, "block_length", (int64_t)pair->ratios.blocks[side]);
    aorta_json_object_end(json);
}

static void write_pair(struct aorta_json *json, const struct aorta_hwq_compared *pair) {
    aorta_json_object(json);
    aorta_json_key_string(json, "workload", pair->baseline->workload);
    aorta_json_key_int(json, "stream_count", pair->baseline->streams);
    aorta_json_key_string(json, "change", aorta_hwq_change_name(pair->change));
    aorta_json_key_string(json, "reason", pair->reason);
    aorta_json_key_fixed(json, "change_percent", percent(pair->ratios.p50.value), 3);
    aorta_json_key(json, "iterations_wanted");
    if (pair->wanted)
        aorta_json_int(json, (int64_t)pair->wanted);
    else
        aorta_json_null(json);
    aorta_json_key_bool(json, "slower_tail", pair->slower_tail);
    write_ratio(json, "judged", &pair->widened);
    write_ratio(json, "p50", &pair->ratios.p50);
    write_ratio(json, "mean", &pair->ratios.mean);
    write_ratio(json, "p95", &pair->ratios.p95);
    write_side(json, "baseline", pair, 0);
    write_side(json, "test", pair, 1);
    aorta_json_object_end(json);
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
    aorta_json_key_double(json, "confidence", comparison->options.bootstrap.confidence);
    aorta_json_key_int(json, "resamples", comparison->options.bootstrap.resamples);
    aorta_json_key_int(json, "seed", (int64_t)comparison->options.bootstrap.seed);
    aorta_json_key_object(json, "changes");
    for (enum aorta_hwq_change change = 0; change < AORTA_HWQ_CHANGE_COUNT; change++)
        aorta_json_key_int(json, aorta_hwq_change_name(change), (int64_t)comparison->changes[change]);
    aorta_json_object_end(json);
    aorta_json_key_array(json, "pairs");
    for (size_t i = 0; i < comparison->pair_count; i++) write_pair(json, &comparison->pairs[i]);
    aorta_json_array_end(json);
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
        aorta_json_key_int(json, "runs", item->runs);
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
