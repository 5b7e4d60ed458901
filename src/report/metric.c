/* The figures of an iteration as one table. */
#include "report/summary.h"

#include <math.h>

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

/* NaN: no such collective. */
static double overlap_of(const struct aorta_run_step *step, enum aorta_collective kind) {
    return step->overlap.kind[kind].count ? ms(step, step->overlap.kind[kind].overlap_ns) : NAN;
}

static double get_allreduce(const struct aorta_run_step *step) {
    return overlap_of(step, AORTA_ALL_REDUCE);
}

static double get_reducescatter(const struct aorta_run_step *step) {
    return overlap_of(step, AORTA_REDUCE_SCATTER);
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
    {"compute_allreduce_ms", "ms", true, get_allreduce},
    {"compute_reducescatter_ms", "ms", true, get_reducescatter},
    {"exposed_comm_ms", "ms", false, get_exposed},
    {"idle_ms", "ms", false, get_idle},
    {"lead_ms", "ms", false, get_lead},
    {"data_wait_ms", "ms", false, get_data_wait},
    {"overlap_ratio", "", true, get_overlap_ratio},
    {"compute_overlap_ratio", "", true, get_compute_overlap_ratio},
    {"samples_per_s", "1/s", true, get_samples_per_s},
    {0},
};

double aorta_rate_mean(const double *samples, size_t count) {
    double times = 0;
    size_t known = 0;
    for (size_t i = 0; i < count; i++) {
        if (!(samples[i] > 0)) continue;
        times += 1 / samples[i];
        known++;
    }
    return known ? (double)known / times : NAN;
}
