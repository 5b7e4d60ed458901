#include "report/labelled.h"

#include "report/settings.h"
#include "verdict/advice.h"

#include <stdlib.h>
#include <string.h>

/* ---- analysis of the ranks ---- */

/* Behind which of the rank's steps [start .. end) the warm-up lies: as the verdict's it is of recorded ones, where
 * there are any. */
static size_t warmup_end(const struct aorta_labelled *labelled, size_t start, size_t end) {
    const struct aorta_run_step *steps = labelled->run.steps;
    size_t recorded = 0, behind = start;
    for (size_t i = start; i < end; i++) {
        if (!steps[i].profiled) continue;
        if (recorded++ < labelled->warmup) behind = i + 1;
    }
    if (recorded) return recorded < labelled->warmup ? end : behind;
    return end - start > labelled->warmup ? start + labelled->warmup : end;
}

/* Once for all who ask: a look through the run for each iteration would take a time that grows with its square. */
static aorta_status find_measured(struct aorta_labelled *labelled) {
    const struct aorta_run *run = &labelled->run;
    labelled->measured = calloc(run->rank_count + 1, sizeof *labelled->measured);
    if (!labelled->measured) return AORTA_ERROR(AORTA_MEMORY, "no memory for the steps of %zu ranks", run->rank_count);
    for (size_t i = 0, start = 0; i < run->rank_count; i++) {
        size_t end = start;
        while (end < run->step_count && run->steps[end].rank == run->ranks[i]) end++;
        size_t first = warmup_end(labelled, start, end);
        labelled->measured[i] = (struct aorta_measured){first, end - first};
        start = end;
    }
    return NULL;
}

static void count_records(struct aorta_labelled *labelled) {
    struct aorta_records *records = &labelled->records;
    for (size_t i = 0; i < labelled->run.rank_count; i++) {
        size_t first = 0, count = aorta_measured_steps(labelled, i, &first);
        for (size_t j = first; j < first + count; j++) {
            const struct aorta_run_step *step = &labelled->run.steps[j];
            if (!step->kernels) continue;
            const struct aorta_profile *kernels = labelled->by_kernels ? &step->profile : &step->kernels->profile;
            records->iterations++;
            records->kernels += (int64_t)kernels->range_count;
            records->attributed += kernels->kernels.attributed;
            records->dropped += kernels->kernels.dropped;
            records->launches += kernels->kernels.launches;
        }
    }
}

/* ---- the recording ---- */

static aorta_status analyse(const struct aorta_run *run, const struct aorta_trace_analysis_options *options,
                            struct aorta_labelled *labelled) {
    labelled->warmup = options->warmup;
    AORTA_TRY(aorta_run_traces(run, &labelled->traces));
    if (!labelled->traces.count) return NULL;
    AORTA_TRY(aorta_trace_analyze(&labelled->traces, options, &labelled->analysis));
    labelled->warmup = labelled->analysis.warmup;
    AORTA_TRY(aorta_verdict_make(&labelled->analysis, &labelled->verdict));
    labelled->has_verdict = true;
    return NULL;
}

static aorta_status read_settings(struct aorta_run *run, struct aorta_labelled *labelled) {
    AORTA_TRY(aorta_settings_read(run->directory, run->device, &run->arena, &labelled->settings));
    return aorta_settings_environment(run->directory, &run->arena, &labelled->environment);
}

/* The run, still the caller's, is borrowed by all else. */
static aorta_status make(struct aorta_run *run, const struct aorta_trace_analysis_options *options,
                         struct aorta_labelled *labelled) {
    labelled->by_kernels = aorta_run_take_kernels(run);
    AORTA_TRY(aorta_annotate(analyse(run, options, labelled), "%s", run->directory));
    AORTA_TRY(aorta_annotate(read_settings(run, labelled), "%s", run->directory));
    labelled->run = *run;
    AORTA_TRY(find_measured(labelled));
    count_records(labelled);
    AORTA_TRY(aorta_labelled_clocks(labelled));
    AORTA_TRY(aorta_recorded_machine_read(labelled->run.directory, NULL, &labelled->machine));
    if (labelled->has_verdict) AORTA_TRY(aorta_recorded_machine_report(&labelled->machine, &labelled->verdict));
    aorta_verdict_environment(&labelled->verdict, &labelled->environment);
    return aorta_advise(&labelled->verdict, &labelled->settings); /* clocks matter to it */
}

static void free_but_run(struct aorta_labelled *labelled) {
    aorta_recorded_machine_free(&labelled->machine);
    aorta_verdict_free(&labelled->verdict);
    aorta_trace_analysis_free(&labelled->analysis);
    aorta_trace_list_free(&labelled->traces);
    free(labelled->clocks);
    free(labelled->measured);
}

aorta_status aorta_labelled_make(struct aorta_run *run, const struct aorta_trace_analysis_options *options,
                                 struct aorta_labelled *labelled) {
    memset(labelled, 0, sizeof *labelled);
    aorta_status status = make(run, options, labelled);
    if (status) {
        free_but_run(labelled);
        memset(labelled, 0, sizeof *labelled);
        return status;
    }
    memset(run, 0, sizeof *run);
    return NULL;
}

void aorta_labelled_free(struct aorta_labelled *labelled) {
    free_but_run(labelled);
    aorta_run_free(&labelled->run);
    memset(labelled, 0, sizeof *labelled);
}

size_t aorta_measured_steps(const struct aorta_labelled *labelled, size_t rank, size_t *first) {
    *first = labelled->measured[rank].first;
    return labelled->measured[rank].count;
}

size_t aorta_measured_most(const struct aorta_labelled *labelled) {
    size_t most = 0;
    for (size_t i = 0; i < labelled->run.rank_count; i++)
        if (labelled->measured[i].count > most) most = labelled->measured[i].count;
    return most;
}
