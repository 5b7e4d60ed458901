/* The figures of an iteration as one table, and their samples. */
#include "report/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the figures ---- */

static double ms(const struct aorta_run_step *step, int64_t ns) {
    return step->profiled ? (double)ns / 1e6 : NAN;
}

static double get_step(const struct aorta_run_step *step) {
    if (!isnan(step->step_ms)) return step->step_ms;
    return ms(step, step->overlap.span_ns + step->overlap.lead_ns);
}

static double get_span(const struct aorta_run_step *step) {
    return ms(step, step->overlap.span_ns);
}

static double get_compute(const struct aorta_run_step *step) {
    return ms(step, step->overlap.compute_ns);
}

static double get_comm(const struct aorta_run_step *step) {
    return ms(step, step->overlap.comm_ns);
}

static double get_memcpy(const struct aorta_run_step *step) {
    return ms(step, step->overlap.memcpy_ns);
}

static double get_overlap(const struct aorta_run_step *step) {
    return ms(step, step->overlap.overlap_ns);
}

static double get_exposed(const struct aorta_run_step *step) {
    return ms(step, step->overlap.exposed_comm_ns);
}

static double get_idle(const struct aorta_run_step *step) {
    return ms(step, step->overlap.idle_ns);
}

static double get_lead(const struct aorta_run_step *step) {
    return step->profile.own_clock ? NAN : ms(step, step->overlap.lead_ns);
}

static double get_data_wait(const struct aorta_run_step *step) {
    return step->data_wait_ms;
}

static double get_overlap_ratio(const struct aorta_run_step *step) {
    return step->profiled ? step->overlap.overlap_ratio : NAN;
}

static double get_compute_overlap_ratio(const struct aorta_run_step *step) {
    return step->profiled ? step->overlap.compute_overlap_ratio : NAN;
}

static double get_samples_per_s(const struct aorta_run_step *step) {
    return step->samples_per_s;
}

const struct aorta_metric aorta_metrics[] = {
    {"step_ms", "ms", false, get_step},
    {"span_ms", "ms", false, get_span},
    {"compute_ms", "ms", false, get_compute},
    {"comm_ms", "ms", false, get_comm},
    {"memcpy_ms", "ms", false, get_memcpy},
    {"overlap_ms", "ms", true, get_overlap},
    {"exposed_comm_ms", "ms", false, get_exposed},
    {"idle_ms", "ms", false, get_idle},
    {"lead_ms", "ms", false, get_lead},
    {"data_wait_ms", "ms", false, get_data_wait},
    {"overlap_ratio", "", true, get_overlap_ratio},
    {"compute_overlap_ratio", "", true, get_compute_overlap_ratio},
    {"samples_per_s", "1/s", true, get_samples_per_s},
    {0},
};

/* ---- samples of a run ---- */

/* The caller frees *samples. */
static aorta_status samples_of(const struct aorta_labelled *labelled, const struct aorta_metric *metric,
                               double **samples, size_t *count) {
    const size_t limit = aorta_measured_most(labelled);
    *count = 0;
    *samples = malloc((limit + 1) * sizeof **samples);
    if (!*samples) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu samples", limit);
    for (size_t i = 0; i < limit; i++) {
        double sum = 0;
        int ranks = 0;
        for (size_t j = 0; j < labelled->run.rank_count; j++) {
            size_t first = 0, steps = aorta_measured_steps(labelled, j, &first);
            double value = i < steps ? metric->get(&labelled->run.steps[first + i]) : NAN;
            if (isnan(value)) continue;
            sum += value;
            ranks++;
        }
        if (ranks) (*samples)[(*count)++] = sum / ranks;
    }
    return NULL;
}

/* ---- two figures ---- */

aorta_status aorta_metric_compare(const struct aorta_labelled *reference, const struct aorta_metric *reference_metric,
                                  const struct aorta_labelled *candidate, const struct aorta_metric *candidate_metric,
                                  struct aorta_comparison *comparison) {
    double *a = NULL, *b = NULL;
    size_t a_count = 0, b_count = 0;
    aorta_status status = samples_of(reference, reference_metric, &a, &a_count);
    if (!status) status = samples_of(candidate, candidate_metric, &b, &b_count);
    if (!status) *comparison = aorta_compare(a, a_count, b, b_count);
    free(a);
    free(b);
    return status;
}

void aorta_metric_chance(const struct aorta_comparison *comparison, struct aorta_text *out) {
    if (isnan(comparison->p_value))
        aorta_text_puts(out, "too few samples to separate it from noise");
    else
        aorta_text_printf(out, "%s (p = %.2g)",
                          comparison->p_value < aorta_significance ? "significant" : "within the noise",
                          comparison->p_value);
}

/* ---- the figure that differs most ---- */

/* How far apart two means are, the same for twice and half; 0: it does not count. */
static double distance(const struct aorta_metric *metric, const struct aorta_comparison *compared, double step_ms) {
    const double before = compared->reference.mean, after = compared->candidate.mean;
    const bool time = strcmp(metric->unit, "ms") == 0;
    if (isnan(compared->p_value) || compared->p_value >= aorta_significance) return 0;
    if (!(before > 0) || !(after > 0)) return 0;
    if (time && !(fabs(compared->delta) >= 0.01 * step_ms)) return 0;
    return fabs(log(after / before));
}

aorta_status aorta_metric_largest_change(const struct aorta_labelled *reference, const struct aorta_labelled *candidate,
                                         struct aorta_text *out) {
    const struct aorta_metric *largest = NULL;
    struct aorta_comparison most = {0};
    double farthest = 0, step_ms = NAN;
    for (const struct aorta_metric *metric = aorta_metrics; metric->key; metric++) {
        struct aorta_comparison compared;
        AORTA_TRY(aorta_metric_compare(reference, metric, candidate, metric, &compared));
        if (metric == aorta_metrics) step_ms = compared.reference.mean;
        const double far = distance(metric, &compared, step_ms);
        if (far <= farthest) continue;
        farthest = far;
        largest = metric;
        most = compared;
    }
    const char *a = reference->run.label, *b = candidate->run.label;
    if (!largest) {
        aorta_text_printf(out, "No figure of %s differs from %s beyond the noise.", b, a);
        return NULL;
    }
    const double percent = 100 * most.delta / most.reference.mean;
    aorta_text_printf(out, "What differs most: %s is %s%s%s in %s and %s%s%s in %s (%+.*f%%, %s).", largest->key,
                      aorta_brief(most.candidate.mean).text, *largest->unit ? " " : "", largest->unit, b,
                      aorta_brief(most.reference.mean).text, *largest->unit ? " " : "", largest->unit, a,
                      fabs(percent) < 10 ? 1 : 0, percent,
                      (most.delta > 0) == largest->higher_is_better ? "better" : "worse");
    return NULL;
}
