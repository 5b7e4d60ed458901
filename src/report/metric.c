/* The figures of an iteration as one table, and the test of two runs. */
#include "report/summary.h"

#include <math.h>
#include <stdlib.h>

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

static size_t longest_rank(const struct aorta_labelled *labelled) {
    size_t longest = 0, first = 0;
    for (size_t i = 0; i < labelled->run.rank_count; i++) {
        size_t count = aorta_measured_steps(labelled, labelled->run.ranks[i], &first);
        if (count > longest) longest = count;
    }
    return longest;
}

aorta_status aorta_metric_samples(const struct aorta_labelled *labelled, const struct aorta_metric *metric,
                                  double **samples, size_t *count) {
    size_t limit = longest_rank(labelled);
    *count = 0;
    *samples = malloc((limit + 1) * sizeof **samples);
    if (!*samples) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu samples", limit);
    for (size_t i = 0; i < limit; i++) {
        double sum = 0;
        int ranks = 0;
        for (size_t j = 0; j < labelled->run.rank_count; j++) {
            size_t first = 0, steps = aorta_measured_steps(labelled, labelled->run.ranks[j], &first);
            double value = i < steps ? metric->get(&labelled->run.steps[first + i]) : NAN;
            if (isnan(value)) continue;
            sum += value;
            ranks++;
        }
        if (ranks) (*samples)[(*count)++] = sum / ranks;
    }
    return NULL;
}

/* ---- Welch's t-test ---- */

/* Continued fraction of the incomplete beta function by Lentz's method (Abramowitz & Stegun 26.5.8). */
static double beta_fraction(double a, double b, double x) {
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double fraction = d;
    for (int m = 1; m < 500; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        double steps[2] = {even, odd}, change = 1;
        for (int i = 0; i < 2; i++) {
            d = 1 + steps[i] * d;
            c = 1 + steps[i] / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            change = c * d;
            fraction *= change;
        }
        if (fabs(change - 1) < 1e-15) break;
    }
    return fraction;
}

/* Regularised incomplete beta function I_x(a, b). */
static double incomplete_beta(double a, double b, double x) {
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

/* Squared standard error of a mean, from the population standard deviation. */
static double error_squared(const struct aorta_summary *summary) {
    return summary->std * summary->std / (double)(summary->count - 1);
}

struct aorta_comparison aorta_compare(const double *reference, size_t reference_count, const double *candidate,
                                      size_t candidate_count) {
    struct aorta_comparison result = {aorta_summarise(reference, reference_count),
                                      aorta_summarise(candidate, candidate_count), NAN, NAN};
    result.delta = result.candidate.mean - result.reference.mean;
    if (result.reference.count < 2 || result.candidate.count < 2) return result;
    double a = error_squared(&result.reference), b = error_squared(&result.candidate);
    if (!(a + b > 0)) return result;
    double t_squared = result.delta * result.delta / (a + b);
    double freedom = (a + b) * (a + b) /
                     (a * a / (double)(result.reference.count - 1) + b * b / (double)(result.candidate.count - 1));
    result.p_value = incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t_squared));
    return result;
}
