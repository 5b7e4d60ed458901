#include "report/comparison.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- samples ---- */

/* Of one run, behind what `samples` holds already; the caller has made place. */
static size_t add_samples(const struct aorta_labelled *run, const struct aorta_metric *metric, double *samples) {
    const size_t limit = aorta_measured_most(run);
    size_t count = 0;
    for (size_t i = 0; i < limit; i++) {
        double sum = 0;
        int ranks = 0;
        for (size_t j = 0; j < run->run.rank_count; j++) {
            size_t first = 0, steps = aorta_measured_steps(run, j, &first);
            double value = i < steps ? metric->get(&run->run.steps[first + i]) : NAN;
            if (isnan(value)) continue;
            sum += value;
            ranks++;
        }
        if (ranks) samples[count++] = sum / ranks;
    }
    return count;
}

struct samples {
    double *values;
    size_t *lengths, count;
};

static void samples_free(struct samples *samples) {
    free(samples->values);
    free(samples->lengths);
}

/* Ends with samples_free, also on failure. */
static aorta_status samples_make(const struct aorta_label *label, const struct aorta_metric *metric,
                                 struct samples *samples) {
    size_t limit = 1;
    for (size_t i = 0; i < label->count; i++) limit += aorta_measured_most(&label->runs[i]);
    *samples = (struct samples){malloc(limit * sizeof(double)), malloc(label->count * sizeof(size_t)), 0};
    if (!samples->values || !samples->lengths) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu samples", limit);
    for (size_t i = 0; i < label->count; i++) {
        samples->lengths[i] = add_samples(&label->runs[i], metric, samples->values + samples->count);
        samples->count += samples->lengths[i];
    }
    return NULL;
}

/* ---- two figures ---- */

static aorta_status compare(const struct aorta_label *labels[2], const struct aorta_metric *metrics[2],
                            const struct aorta_between_runs *between, struct aorta_comparison *comparison) {
    struct samples sides[2] = {0};
    aorta_status status = samples_make(labels[0], metrics[0], &sides[0]);
    if (!status) status = samples_make(labels[1], metrics[1], &sides[1]);
    if (!status) {
        const struct aorta_samples a = {sides[0].values, sides[0].count, sides[0].lengths, labels[0]->count},
                                   b = {sides[1].values, sides[1].count, sides[1].lengths, labels[1]->count};
        *comparison = aorta_compare(&a, &b, AORTA_MEAN, between);
    }
    samples_free(&sides[0]);
    samples_free(&sides[1]);
    return status;
}

static bool on_gpu(const struct aorta_label *label) {
    const char *device = label->runs->run.device;
    return !device || strcmp(device, "cpu") != 0; /* the original's run on GPUs, and do not say so */
}

/* A figure of two labels. A sample is an iteration's mean over its ranks. */
static aorta_status compare_labels(const struct aorta_label *reference, const struct aorta_label *candidate,
                                   const struct aorta_metric *metric, struct aorta_comparison *comparison) {
    const struct aorta_between_runs between = aorta_between_runs_on(on_gpu(reference) && on_gpu(candidate));
    return compare((const struct aorta_label *[]){reference, candidate},
                   (const struct aorta_metric *[]){metric, metric}, &between, comparison);
}

aorta_status aorta_run_compare(const struct aorta_labelled *run, const struct aorta_metric *reference,
                               const struct aorta_metric *candidate, struct aorta_comparison *comparison) {
    const struct aorta_label label = {run, 1};
    return compare((const struct aorta_label *[]){&label, &label},
                   (const struct aorta_metric *[]){reference, candidate}, NULL, comparison);
}

/* ---- what else differs ---- */

aorta_status aorta_labelled_differences(const struct aorta_labelled *reference, const struct aorta_labelled *candidate,
                                        struct aorta_differences *differences) {
    static const double alike = 0.03; /* clocks: the time of kernels depends on them */
    const double before = reference->clocks[reference->lowest_clock].mhz.p50,
                 after = candidate->clocks[candidate->lowest_clock].mhz.p50;
    AORTA_TRY(aorta_differences_add(differences, &reference->settings, &candidate->settings));
    AORTA_TRY(aorta_differences_add(differences, &reference->environment, &candidate->environment));
    if (!(fabs(after / before - 1) > alike)) return NULL; /* nor where one is not known */
    struct aorta_setting clocks[] = {{"device.clock_mhz", aorta_arena_printf(&differences->arena, "%.0f", before)},
                                     {"device.clock_mhz", aorta_arena_printf(&differences->arena, "%.0f", after)}};
    if (!clocks[0].value || !clocks[1].value) return AORTA_ERROR(AORTA_MEMORY, "no memory for a clock");
    return aorta_differences_add(differences, &(struct aorta_settings){&clocks[0], 1},
                                 &(struct aorta_settings){&clocks[1], 1});
}

/* ---- all figures ---- */

enum { MOST_METRICS = 32 };

struct figures {
    const struct aorta_label *labels[2];
    struct aorta_comparison compared[MOST_METRICS]; /* by metric */
    size_t count;
};

static aorta_status compare_all(const struct aorta_label *reference, const struct aorta_label *candidate,
                                struct figures *figures) {
    *figures = (struct figures){.labels = {reference, candidate}};
    for (; aorta_metrics[figures->count].key && figures->count < MOST_METRICS; figures->count++)
        AORTA_TRY(
            compare_labels(reference, candidate, &aorta_metrics[figures->count], &figures->compared[figures->count]));
    return NULL;
}

static double percent_of(const struct aorta_comparison *compared) {
    return 100 * compared->delta / fabs(compared->value[0]);
}

/* "better", "worse", "within the noise", "not known". */
static const char *word_of(const struct aorta_metric *metric, const struct aorta_comparison *compared) {
    if (isnan(compared->p_value)) return "not known";
    if (compared->p_value >= aorta_significance) return "within the noise";
    return (compared->delta > 0) == metric->higher_is_better ? "better" : "worse";
}

/* How far apart two values are, the same for twice and half; 0: it does not count. As one of several figures it has to
 * be the less likely (Bonferroni). */
static double distance(const struct figures *figures, size_t metric) {
    const struct aorta_comparison *compared = &figures->compared[metric];
    const double before = compared->value[0], after = compared->value[1];
    const bool step = metric == 0, time = strcmp(aorta_metrics[metric].unit, "ms") == 0;
    if (!(compared->p_value < (step ? aorta_significance : aorta_significance / (double)figures->count))) return 0;
    if (!(before > 0) || !(after > 0)) return 0;
    if (time && !(fabs(compared->delta) >= 0.01 * figures->compared[0].value[0])) return 0;
    return fabs(log(after / before));
}

/* Of the step where that differs: a figure that is longer in a longer step is no news. */
static void put_largest(const struct figures *figures, struct aorta_text *out) {
    size_t largest = 0;
    double farthest = distance(figures, 0);
    for (size_t i = 1; i < figures->count && !(distance(figures, 0) > 0); i++) {
        const double far = distance(figures, i);
        if (far <= farthest) continue;
        farthest = far;
        largest = i;
    }
    const char *a = figures->labels[0]->runs->run.label, *b = figures->labels[1]->runs->run.label;
    const struct aorta_metric *metric = &aorta_metrics[largest];
    const struct aorta_difference difference = {
        .figure = metric->key,
        .unit = metric->unit,
        .sides = {a, b},
        .value = {figures->compared[largest].value[0], figures->compared[largest].value[1]},
        .word = word_of(metric, &figures->compared[largest])};
    aorta_difference_text(farthest > 0 ? &difference : NULL, a, b, out);
}

static void put_step(const struct figures *figures, struct aorta_text *out) {
    const struct aorta_comparison *step = &figures->compared[0];
    aorta_text_printf(out, "%s against %s: step %.3f ms against %.3f ms (%+.1f%%), ",
                      figures->labels[1]->runs->run.label, figures->labels[0]->runs->run.label, step->value[1],
                      step->value[0], percent_of(step));
    aorta_compare_chance(step, "step", out);
}

static const char repeated[] = "--log-dir of one --label";

aorta_status aorta_label_comparison_text(const struct aorta_label *reference, const struct aorta_label *candidate,
                                         struct aorta_text *out) {
    struct figures figures;
    struct aorta_differences differences = {0};
    AORTA_TRY(compare_all(reference, candidate, &figures));
    aorta_status status = aorta_labelled_differences(reference->runs, candidate->runs, &differences);
    if (!status) aorta_differences_text(&differences, out);
    aorta_differences_free(&differences);
    if (status) return status;
    put_step(&figures, out);
    aorta_text_puts(out, "\n");
    put_largest(&figures, out);
    aorta_text_puts(out, "\n");
    aorta_compare_between(&figures.compared[0], repeated, out);
    aorta_text_puts(out, "\n");
    return NULL;
}

/* ---- JSON ---- */

static void write_figure(struct aorta_json *json, const struct aorta_metric *metric,
                         const struct aorta_comparison *compared) {
    const bool known = !isnan(compared->p_value);
    aorta_json_key_object(json, metric->key);
    aorta_json_key_double(json, "reference", compared->value[0]);
    aorta_json_key_double(json, "candidate", compared->value[1]);
    aorta_json_key_double(json, "delta", compared->delta);
    aorta_json_key_double(json, "delta_percent", percent_of(compared));
    aorta_json_key_array(json, "ci");
    aorta_json_double(json, compared->low);
    aorta_json_double(json, compared->high);
    aorta_json_array_end(json);
    aorta_json_key_double(json, "p_value", compared->p_value);
    aorta_json_key(json, "significant");
    if (known)
        aorta_json_bool(json, compared->p_value < aorta_significance);
    else
        aorta_json_null(json);
    aorta_json_key_bool(json, "higher_is_better", metric->higher_is_better);
    aorta_json_key_string(json, "change", word_of(metric, compared));
    aorta_compare_between_json(compared, json);
    if (!known)
        aorta_json_key_string(json, "reason",
                              compared->fewest ? "fewer than three samples on a side" : "not measured on a side");
    aorta_json_object_end(json);
}

aorta_status aorta_label_comparison_json(const struct aorta_label *reference, const struct aorta_label *candidate,
                                         struct aorta_json *json) {
    struct figures figures;
    struct aorta_text sentence = {0};
    struct aorta_differences differences = {0};
    AORTA_TRY(compare_all(reference, candidate, &figures));
    aorta_json_object(json);
    aorta_json_key_string(json, "reference", reference->runs->run.label);
    aorta_json_key_string(json, "candidate", candidate->runs->run.label);
    aorta_status status = aorta_labelled_differences(reference->runs, candidate->runs, &differences);
    if (!status) aorta_differences_json(&differences, json);
    aorta_differences_free(&differences);
    if (status) return status;
    aorta_json_key_int(json, "reference_runs", (int64_t)reference->count);
    aorta_json_key_int(json, "candidate_runs", (int64_t)candidate->count);
    aorta_summary_ratios(reference->runs, candidate->runs, json);
    aorta_json_key_string(json, "test",
                          "means over blocks of iterations and over runs, two-sided, one sample per iteration");
    aorta_json_key_double(json, "significance_level", aorta_significance);
    put_step(&figures, &sentence);
    aorta_json_key_string(json, "step_change", sentence.data);
    json->out->failed |= sentence.failed;
    aorta_text_clear(&sentence);
    put_largest(&figures, &sentence);
    aorta_json_key_string(json, "largest_change", sentence.data);
    json->out->failed |= sentence.failed;
    aorta_text_clear(&sentence);
    aorta_compare_between(&figures.compared[0], repeated, &sentence);
    if (sentence.length) aorta_json_key_string(json, "between_runs", sentence.data);
    json->out->failed |= sentence.failed;
    aorta_text_free(&sentence);
    aorta_json_key_object(json, "metrics");
    for (size_t i = 0; i < figures.count; i++) write_figure(json, &aorta_metrics[i], &figures.compared[i]);
    aorta_json_object_end(json);
    aorta_json_object_end(json);
    return NULL;
}
