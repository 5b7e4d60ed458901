/* Runs of one label against those of another. */
#include "base/lines.h"
#include "report/summary.h"
#include "report/trace_report.h"

#include <math.h>
#include <string.h>

/* ---- samples ---- */

/* Appends the samples of one run to an array with enough space. */
static size_t add_samples(const struct aorta_recorded *run, const struct aorta_metric *metric, double *samples) {
    const size_t limit = aorta_measured_most(run);
    size_t count = 0;
    for (size_t i = 0; i < limit; i++) {
        double sum = 0;
        int ranks = 0;
        AORTA_EACH (const struct aorta_measured, measured, run->measured, run->run.rank_count) {
            const double value = i < measured->count ? aorta_metric_of(metric, &measured->steps[i]) : NAN;
            if (isnan(value)) continue;
            sum += value;
            ranks++;
        }
        if (ranks) samples[count++] = sum / ranks;
    }
    return count;
}

static struct aorta_samples samples_make(const struct aorta_label *label, const struct aorta_metric *metric,
                                         struct aorta_arena *memory) {
    size_t limit = 0, count = 0;
    for (size_t i = 0; i < label->count; i++) limit += aorta_measured_most(&label->runs[i]);
    double *values = aorta_arena_raw(memory, limit * sizeof *values);
    double *pressures = aorta_arena_raw(memory, label->count * sizeof *pressures);
    size_t *lengths = aorta_arena_raw(memory, label->count * sizeof *lengths);
    for (size_t i = 0; lengths && i < label->count; i++) {
        lengths[i] = add_samples(&label->runs[i], metric, values + count);
        count += lengths[i];
        pressures[i] = label->runs[i].machine.known ? aorta_machine_pressure(&label->runs[i].machine.summary) : NAN;
    }
    return (struct aorta_samples){values, count, lengths, label->count, pressures};
}

enum { MOST_METRICS = 32 };
static const char rate[] = "samples_per_s";

struct figures {
    const struct aorta_label *labels[2];
    struct aorta_compared rows[MOST_METRICS]; /* by metric */
    size_t count, main;                       /* the first sentence's: the step, or samples a second */
    const char *work;                         /* key of a setting that changes the work of a step; NULL: none */
    struct aorta_differences differences;
};

/* ---- two figures ---- */

static struct aorta_comparison compare(const struct aorta_label *labels[2], const struct aorta_metric *metrics[2],
                                       const struct aorta_between_runs *between, struct aorta_arena *memory) {
    struct aorta_arena scratch = {0};
    struct aorta_comparison comparison = {0};
    const struct aorta_samples before = samples_make(labels[0], metrics[0], &scratch);
    const struct aorta_samples after = samples_make(labels[1], metrics[1], &scratch);
    if (!scratch.failed) comparison = aorta_compare(&before, &after, AORTA_MEAN, between);
    aorta_arena_end(&scratch, memory);
    return comparison;
}

static bool on_gpu(const struct aorta_label *label) {
    const char *device = label->runs->run.device;
    return !device || strcmp(device, "cpu") != 0; /* runs of the original toolkit are on GPUs, but do not say so */
}

/* A figure of two labels. A sample is an iteration's mean over its ranks. */
static struct aorta_comparison compare_labels(const struct figures *figures, const struct aorta_metric *metric,
                                              struct aorta_arena *memory) {
    const struct aorta_label *labels[] = {figures->labels[0], figures->labels[1]};
    const struct aorta_between_runs between = aorta_between_runs_on(on_gpu(labels[0]) && on_gpu(labels[1]));
    return compare(labels, (const struct aorta_metric *[]){metric, metric}, &between, memory);
}

struct aorta_comparison aorta_run_compare(const struct aorta_recorded *run, const struct aorta_metric *reference,
                                          const struct aorta_metric *candidate, struct aorta_arena *memory) {
    const struct aorta_label label = {run, 1};
    return compare((const struct aorta_label *[]){&label, &label},
                   (const struct aorta_metric *[]){reference, candidate}, NULL, memory);
}

/* ---- what else differs ---- */

static double lowest_clock(const struct aorta_recorded *recorded) {
    return recorded->is_run ? recorded->clocks[recorded->lowest_clock].mhz.p50 : NAN;
}

void aorta_recorded_differences(const struct aorta_recorded *reference, const struct aorta_recorded *candidate,
                                struct aorta_differences *differences) {
    static const double alike = 0.03; /* clocks: the time of kernels depends on them */
    const double before = lowest_clock(reference), after = lowest_clock(candidate);
    if (reference->is_run && candidate->is_run)
        aorta_differences_add(differences, &reference->settings, &candidate->settings);
    aorta_differences_add(differences, &reference->environment, &candidate->environment);
    if (!(fabs(after / before - 1) > alike)) return; /* also if a clock is unknown */
    struct aorta_setting clocks[] = {{"device.clock_mhz", aorta_arena_printf(&differences->arena, "%.0f", before)},
                                     {"device.clock_mhz", aorta_arena_printf(&differences->arena, "%.0f", after)}};
    if (!differences->arena.failed)
        aorta_differences_add(differences, &(struct aorta_settings){&clocks[0], 1},
                              &(struct aorta_settings){&clocks[1], 1});
}

/* ---- all figures ---- */

static double get_seconds_per_sample(const struct aorta_step_metrics *step, size_t offset) {
    (void)offset;
    return 1 / step->samples_per_s;
}

/* The mean of a rate is all samples over all time (aorta_rate_mean). Therefore times per sample are compared. */
static struct aorta_comparison compare_rates(const struct figures *figures, struct aorta_arena *memory) {
    static const struct aorta_metric inverse = {rate, "s", false, get_seconds_per_sample, 0, NULL};
    struct aorta_comparison out = compare_labels(figures, &inverse, memory);
    const double before = out.value[0], low = out.low, high = out.high;
    for (int i = 0; i < 2; i++) out.value[i] = 1 / out.value[i];
    out.delta = out.value[1] - out.value[0];
    out.low = 1 / (before + high) - out.value[0];
    out.high = before + low > 0 ? 1 / (before + low) - out.value[0] : NAN;
    return out;
}

/* Times of steps with other work do not compare. */
static void choose_main(struct figures *figures) {
    for (size_t i = 0; i < figures->differences.count && !figures->work; i++)
        if (aorta_setting_changes_work(figures->differences.items[i].key))
            figures->work = figures->differences.items[i].key;
    for (size_t i = 0; i < figures->count && figures->work && !figures->main; i++)
        if (strcmp(aorta_metrics[i].key, rate) == 0 && !isnan(figures->rows[i].of.p_value)) figures->main = i;
}

/* The step is a family of tests of its own: in a longer step other figures are longer, too. Times of steps with
 * different work do not count. */
static void evaluate(struct figures *figures) {
    const double least = 0.01 * figures->rows[0].of.value[0];
    for (size_t i = 0; i < figures->count; i++) {
        struct aorta_compared *row = &figures->rows[i];
        const bool time = strcmp(row->unit, "ms") == 0;
        row->family = i != figures->main;
        row->far = aorta_compared_ratio(&row->of);
        row->too_small = !(row->far > 0) || (time && !(fabs(row->of.delta) >= least));
        if (!time || !figures->main) continue;
        row->good = AORTA_GOOD_NEITHER;
        row->too_small = true;
    }
    aorta_compared_correct(figures->rows, figures->count);
}

/* Ends with aorta_differences_free; their arena fails for all figures. */
static void compare_all(const struct aorta_label *reference, const struct aorta_label *candidate,
                        struct figures *figures) {
    *figures = (struct figures){.labels = {reference, candidate}};
    struct aorta_arena *memory = &figures->differences.arena;
    for (; aorta_metrics[figures->count].key && figures->count < MOST_METRICS; figures->count++) {
        const struct aorta_metric *metric = &aorta_metrics[figures->count];
        figures->rows[figures->count] =
            (struct aorta_compared){.figure = metric->name,
                                    .unit = metric->unit,
                                    .good = metric->higher_is_better ? AORTA_GOOD_HIGH : AORTA_GOOD_LOW,
                                    .of = strcmp(metric->key, rate) == 0 ? compare_rates(figures, memory)
                                                                         : compare_labels(figures, metric, memory)};
    }
    aorta_recorded_differences(reference->runs, candidate->runs, &figures->differences);
    choose_main(figures);
    evaluate(figures);
}

static const char *label_of(const struct figures *figures, int side) {
    return figures->labels[side]->runs->run.label;
}

/* The row with most of the step's change, as in `aorta trace compare`. Nothing if a run has no work to compare. */
static void put_mostly(const struct figures *figures, struct aorta_text *out) {
    const size_t most = figures->labels[0]->count + figures->labels[1]->count;
    struct aorta_arena memory = {0};
    struct aorta_trace_compare_input *inputs = aorta_arena_alloc(&memory, most * sizeof *inputs);
    struct aorta_trace_comparison comparison;
    bool known = inputs && !figures->main;
    for (size_t i = 0; i < most && known; i++) {
        const bool candidate = i >= figures->labels[0]->count;
        const size_t repeat = candidate ? i - figures->labels[0]->count : i;
        const struct aorta_recorded *run = &figures->labels[candidate]->runs[repeat];
        inputs[i] = (struct aorta_trace_compare_input){
            .label = label_of(figures, candidate), .analysis = &run->analysis, .repeats = repeat > 0, .pressure = NAN};
        known = run->has_verdict;
    }
    aorta_status status = known ? aorta_trace_compare(inputs, most, &comparison) : NULL;
    if (known && !status) {
        aorta_trace_comparison_mostly(&comparison, 1, out);
        aorta_trace_comparison_free(&comparison);
    }
    out->failed |= status != NULL;
    aorta_status_free(status);
    aorta_text_arena_end(out, &memory);
}

static void put_headline(const struct figures *figures, struct aorta_text *out) {
    const struct aorta_compared *row = &figures->rows[figures->main];
    aorta_compared_headline(row, label_of(figures, 0), label_of(figures, 1), false, out);
    if (row->counts) put_mostly(figures, out);
}

/* Times of steps with different work are neither better nor worse. */
static void put_work(const struct figures *figures, struct aorta_text *out) {
    if (!figures->main) return;
    aorta_text_printf(out, "another %s makes other work: ", figures->work);
    aorta_compared_values(&figures->rows[0], false, out);
}

static void put_largest(const struct figures *figures, struct aorta_text *out) {
    aorta_compared_text(aorta_compared_largest(figures->rows, figures->count), out);
}

static void put_between(const struct figures *figures, struct aorta_text *out) {
    aorta_compare_between(&figures->rows[figures->main].of, "--log-dir of one --label", out);
}

/* The facts below the headline. */
static void put_facts(const struct figures *figures, struct aorta_text *out) {
    struct aorta_text text = {0};
    aorta_differences_list(&figures->differences, &text);
    aorta_text_fact(out, "different", &text);
    aorta_compare_chance(&figures->rows[figures->main].of, "step", &text);
    aorta_text_fact(out, "chance", &text);
    put_work(figures, &text);
    aorta_text_fact(out, "work", &text);
    if (!figures->rows[figures->main].counts) put_largest(figures, &text); /* else the headline says it */
    aorta_text_fact(out, "largest", &text);
    put_between(figures, &text);
    aorta_text_fact(out, "noise", &text);
    aorta_text_free(&text);
}

void aorta_label_comparison_text(const struct aorta_label *reference, const struct aorta_label *candidate, bool answer,
                                 struct aorta_text *out) {
    struct figures figures;
    struct aorta_text headline = {0};
    compare_all(reference, candidate, &figures);
    put_headline(&figures, &headline);
    aorta_text_lines(out, headline.data ? headline.data : "", &(struct aorta_lines){.indent = 2});
    aorta_text_end(&headline, out);
    if (!answer) put_facts(&figures, out);
    out->failed |= figures.differences.arena.failed;
    aorta_differences_free(&figures.differences);
}

/* ---- JSON ---- */

static void write_comparison(struct aorta_json *json, const struct figures *figures) {
    const struct aorta_label *const *labels = figures->labels;
    struct aorta_text headline = {0}, largest = {0}, between = {0};
    aorta_json_object(json);
    aorta_json_key_string(json, "reference", labels[0]->runs->run.label);
    aorta_json_key_string(json, "candidate", labels[1]->runs->run.label);
    aorta_differences_json(&figures->differences, json);
    aorta_json_key_int(json, "reference_runs", (int64_t)labels[0]->count);
    aorta_json_key_int(json, "candidate_runs", (int64_t)labels[1]->count);
    aorta_summary_ratios(labels[0]->runs, labels[1]->runs, json);
    aorta_json_key_string(json, "test",
                          "means over blocks of iterations and over runs, two-sided, one sample per iteration");
    aorta_json_key_double(json, "significance_level", aorta_significance);
    put_headline(figures, &headline);
    aorta_json_key_sentence(json, "step_change", &headline);
    put_largest(figures, &largest);
    aorta_json_key_sentence(json, "largest_change", &largest);
    put_between(figures, &between);
    if (between.length) aorta_json_key_string(json, "between_runs", between.data);
    aorta_text_end(&between, json->out);
    aorta_json_key_object(json, "metrics");
    for (size_t i = 0; i < figures->count; i++) {
        aorta_json_key_object(json, aorta_metrics[i].key);
        aorta_compared_json(&figures->rows[i], json);
        aorta_json_object_end(json);
    }
    aorta_json_object_end(json);
    aorta_json_object_end(json);
}

void aorta_label_comparison_json(const struct aorta_label *reference, const struct aorta_label *candidate,
                                 struct aorta_json *json) {
    struct figures figures;
    compare_all(reference, candidate, &figures);
    write_comparison(json, &figures);
    json->out->failed |= figures.differences.arena.failed;
    aorta_differences_free(&figures.differences);
}
