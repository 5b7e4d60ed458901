/* A line of a run's metrics as one of its steps: the gap to the step before, and what its ranges say of overlap. */
#include "formats/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool follows(const struct aorta_run_step *previous, const struct aorta_run_step *step) {
    return previous && previous->global_step < step->global_step && step->global_step - 1 == previous->global_step &&
           !step->profile.own_clock && !previous->profile.own_clock;
}

/* When the iteration before had ended; INT64_MIN: not known. Where that was not recorded the line itself says how long
 * before this one. */
static int64_t end_before(const struct aorta_run_step *previous, const struct aorta_run_step *step, double lead_ms) {
    if (!follows(previous, step)) return INT64_MIN;
    if (previous->profiled) return previous->profile.range_count ? previous->profile.end_ns : INT64_MIN;
    return lead_ms > 0.0 && lead_ms < 1e9 ? step->profile.start_ns - (int64_t)(lead_ms * 1e6 + 0.5) : INT64_MIN;
}

static aorta_status compute(double lead_ms, const struct aorta_run_step *previous, struct aorta_run_step *step) {
    const struct aorta_run_view *before = follows(previous, step) ? previous->kernels : NULL;
    if (!step->profiled) return NULL;
    AORTA_TRY(aorta_overlap_compute(&step->profile, end_before(previous, step, lead_ms), &step->overlap));
    if (!step->kernels) return NULL;
    return aorta_overlap_compute(&step->kernels->profile,
                                 before && before->profile.range_count ? before->profile.end_ns : INT64_MIN,
                                 &step->kernels->overlap);
}

static void take(const struct aorta_metrics_line *line, struct aorta_run_step *step) {
    const struct aorta_metrics_step *from = &line->step;
    *step = (struct aorta_run_step){.rank = from->rank,
                                    .world_size = from->world_size,
                                    .epoch = from->epoch,
                                    .step = from->step,
                                    .global_step = from->global_step,
                                    .loss = from->loss,
                                    .grad_norm = from->grad_norm,
                                    .lr = from->lr,
                                    .samples_per_s = from->samples_per_s,
                                    .data_wait_ms = from->data_wait_ms,
                                    .step_ms = from->step_ms,
                                    .skipped = from->skipped,
                                    .simulated = from->simulated,
                                    .clocked = line->clocked,
                                    .clocks = line->clocks.values,
                                    .clocks_at_ns = line->clocks.at_ns,
                                    .recorded = line->recorded,
                                    .profiled = line->profiled,
                                    .profile = line->profile};
}

/* Most steps of most runs have none. */
static aorta_status take_kernels(struct aorta_metrics_line *line, struct aorta_run_step *step) {
    if (!line->traced) return NULL;
    step->kernels = calloc(1, sizeof *step->kernels);
    if (step->kernels) {
        step->kernels->profile = line->kernel_profile;
        return NULL;
    }
    aorta_profile_free(&line->kernel_profile);
    aorta_run_step_free(step);
    return AORTA_ERROR(AORTA_MEMORY, "no memory for the kernels of a step");
}

static aorta_status check_origin(const struct aorta_metrics_line *line, struct aorta_run *run) {
    const bool original = line->step.schema_version == 0;
    if (run->step_count && run->original != original)
        return AORTA_ERROR(AORTA_FORMAT, "the line is %s, the lines before are not: files of different runs",
                           original ? "the original Python toolkit's" : "aorta's");
    run->original = original;
    return NULL;
}

aorta_status aorta_run_parse_line(const char *line, size_t length, bool with_ranges, struct aorta_run *run,
                                  const struct aorta_run_step *previous, struct aorta_run_step *step) {
    struct aorta_metrics_line found;
    memset(step, 0, sizeof *step);
    AORTA_TRY(aorta_metrics_read(line, length, with_ranges, &run->strings, &found));
    take(&found, step);
    AORTA_TRY(take_kernels(&found, step));
    if (found.step.device) run->device = found.step.device;
    if (!run->info.name) run->info = found.info;
    run->simulated |= step->simulated;
    aorta_status status = check_origin(&found, run);
    if (!status) status = compute(found.lead_ms, previous, step);
    if (status) aorta_run_step_free(step);
    return status;
}

void aorta_run_step_drop_ranges(struct aorta_run_step *step) {
    aorta_profile_free(&step->profile);
    aorta_overlap_free(&step->overlap);
    if (step->kernels) {
        aorta_profile_free(&step->kernels->profile);
        aorta_overlap_free(&step->kernels->overlap);
    }
    free(step->kernels);
    step->kernels = NULL;
    memset(&step->profile, 0, sizeof step->profile);
    memset(&step->overlap, 0, sizeof step->overlap);
    step->profiled = false;
}

void aorta_run_step_free(struct aorta_run_step *step) {
    aorta_run_step_drop_ranges(step);
    memset(step, 0, sizeof *step);
}
