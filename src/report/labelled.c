#include "report/summary.h"
#include "verdict/advice.h"
#include "verdict/verdict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the devices' clocks over the measured steps of a run ---- */

/* Clocks of ranks that differ by less count as equal. */
static const double alike = 0.03;

static const char *why_none(const struct aorta_run *run) {
    if (run->device && strcmp(run->device, "cpu") == 0) return "not measured on the cpu device";
    return run->original ? "the original toolkit does not read the clock"
                         : "the clock was not read while measured steps ran";
}

static aorta_status clocks_of_rank(struct aorta_recorded *labelled, size_t rank, struct aorta_clocks *clocks) {
    const struct aorta_measured *measured = &labelled->measured[rank];
    struct aorta_clock_sample *samples = aorta_arena_alloc(&labelled->memory, measured->count * sizeof *samples);
    size_t count = 0;
    AORTA_TRY(aorta_arena_check(&labelled->memory, "the clocks of a rank"));
    AORTA_EACH (const struct aorta_step_metrics, step, measured->steps, measured->count) {
        const struct aorta_device_reading *reading = step->readings ? &step->readings->clocks : NULL;
        if (reading) samples[count++] = (struct aorta_clock_sample){&reading->values, reading->at_ns, true};
    }
    AORTA_TRY(aorta_clocks_make(samples, count, clocks));
    if (!count) snprintf(clocks->reason, sizeof clocks->reason, "%s", why_none(&labelled->run));
    return NULL;
}

/* Ranks whose clock is not known come last. */
static bool is_lower(const struct aorta_clocks *a, const struct aorta_clocks *b) {
    double share = aorta_clocks_share(a), other = aorta_clocks_share(b);
    return !isnan(share) && (isnan(other) || share < other);
}

/* Writes the lowest clock of all ranks, and the highest one if the two differ clearly. */
static void note(const struct aorta_recorded *labelled, struct aorta_text *out) {
    const struct aorta_run *run = &labelled->run;
    const struct aorta_clocks *lowest = &labelled->clocks[labelled->lowest_clock];
    size_t highest = labelled->lowest_clock;
    for (size_t i = 0; i < run->rank_count; i++)
        if (aorta_clocks_share(&labelled->clocks[i]) > aorta_clocks_share(&labelled->clocks[highest])) highest = i;
    double difference = aorta_clocks_share(&labelled->clocks[highest]) - aorta_clocks_share(lowest);
    aorta_clocks_figures(lowest, out);
    if (difference >= alike)
        aorta_text_printf(out, " on rank %d, %.0f MHz on rank %d", run->ranks[labelled->lowest_clock],
                          labelled->clocks[highest].mhz.p50, run->ranks[highest]);
    aorta_text_puts(out, ": ");
    aorta_clocks_cause(lowest, out);
}

static aorta_status take_clocks(struct aorta_recorded *labelled) {
    const struct aorta_run *run = &labelled->run;
    labelled->clocks = aorta_arena_alloc(&labelled->memory, (run->rank_count + 1) * sizeof *labelled->clocks);
    AORTA_TRY(aorta_arena_check(&labelled->memory, "the clocks of the ranks"));
    for (size_t i = 0; i < run->rank_count; i++) {
        AORTA_TRY(clocks_of_rank(labelled, i, &labelled->clocks[i]));
        if (is_lower(&labelled->clocks[i], &labelled->clocks[labelled->lowest_clock])) labelled->lowest_clock = i;
    }
    if (!aorta_clocks_low(&labelled->clocks[labelled->lowest_clock])) return NULL;
    struct aorta_text text = {0};
    note(labelled, &text);
    aorta_status status = aorta_text_check(&text);
    if (!status) status = aorta_verdict_clocks(&labelled->verdict, text.data);
    if (aorta_clocks_at_power_limit(&labelled->clocks[labelled->lowest_clock]))
        for (size_t i = 0; i < labelled->verdict.finding_count; i++)
            if (labelled->verdict.findings[i].cause == AORTA_CAUSE_CONTENTION)
                aorta_facts_flag(&labelled->verdict.findings[i].facts, AORTA_FACT_POWER_LIMIT);
    aorta_text_free(&text);
    return status;
}

/* ---- analysis of the ranks ---- */

/* The end of the warm-up among the rank's steps [start .. end). As in the verdict, warm-up steps are counted among
 * recorded steps, if there are any. */
static size_t warmup_end(const struct aorta_recorded *labelled, size_t start, size_t end) {
    const struct aorta_step_metrics *steps = labelled->run.steps;
    size_t recorded = 0, behind = start;
    for (size_t i = start; i < end; i++) {
        if (!steps[i].profile) continue;
        if (recorded++ < labelled->warmup) behind = i + 1;
    }
    if (recorded) return recorded < labelled->warmup ? end : behind;
    return end - start > labelled->warmup ? start + labelled->warmup : end;
}

/* Done once: a search for each iteration would take quadratic time. */
static void find_measured(struct aorta_recorded *labelled) {
    const struct aorta_run *run = &labelled->run;
    labelled->measured = aorta_arena_alloc(&labelled->memory, run->rank_count * sizeof *labelled->measured);
    labelled->steps = aorta_arena_alloc(&labelled->memory, run->step_count * sizeof *labelled->steps);
    for (size_t i = 0, start = 0; labelled->measured && labelled->steps && i < run->rank_count; i++) {
        size_t end = start;
        while (end < run->step_count && run->steps[end].rank == run->ranks[i]) end++;
        size_t first = warmup_end(labelled, start, end);
        labelled->measured[i] = (struct aorta_measured){&run->steps[first], end - first};
        for (size_t j = first; j < end; j++) labelled->steps[labelled->step_count++] = &run->steps[j];
        start = end;
    }
}

static void count_records(struct aorta_recorded *labelled) {
    struct aorta_records *records = &labelled->records;
    for (size_t i = 0; i < labelled->step_count; i++) {
        const struct aorta_step_metrics *step = labelled->steps[i];
        if (!step->kernel_profile) continue;
        const struct aorta_profile *kernels = labelled->by_kernels ? step->profile : step->kernel_profile;
        records->iterations++;
        records->kernels += (int64_t)kernels->range_count;
        records->attributed += kernels->kernels.attributed;
        records->dropped += kernels->kernels.dropped;
        records->launches += kernels->kernels.launches;
    }
}

/* ---- the recording ---- */

static aorta_status analyze(const struct aorta_trace_analysis_options *options, struct aorta_recorded *labelled) {
    labelled->warmup = options->warmup;
    AORTA_TRY(aorta_run_traces(&labelled->run, &labelled->traces));
    if (!labelled->traces.count) return NULL;
    AORTA_TRY(aorta_trace_analyze(&labelled->traces, options, &labelled->analysis));
    labelled->warmup = labelled->analysis.warmup;
    AORTA_TRY(aorta_verdict_make(&labelled->analysis, &labelled->verdict));
    labelled->has_verdict = true;
    return NULL;
}

static aorta_status read_settings(struct aorta_recorded *labelled) {
    const struct aorta_run *run = &labelled->run;
    AORTA_TRY(aorta_settings_read(run->directory, run->device, &labelled->memory, &labelled->settings));
    return aorta_settings_environment(run->directory, &labelled->memory, &labelled->environment);
}

static aorta_status make(const struct aorta_trace_analysis_options *options, struct aorta_recorded *labelled) {
    labelled->by_kernels = aorta_run_take_kernels(&labelled->run);
    AORTA_TRY(aorta_annotate(analyze(options, labelled), "%s", labelled->run.directory));
    AORTA_TRY(aorta_annotate(read_settings(labelled), "%s", labelled->run.directory));
    find_measured(labelled);
    AORTA_TRY(aorta_arena_check(&labelled->memory, "the steps of the ranks"));
    count_records(labelled);
    AORTA_TRY(take_clocks(labelled));
    AORTA_TRY(aorta_recorded_machine_read(labelled->run.directory, NULL, &labelled->machine));
    if (labelled->has_verdict) AORTA_TRY(aorta_recorded_machine_report(&labelled->machine, &labelled->verdict));
    aorta_verdict_environment(&labelled->verdict, &labelled->environment);
    return aorta_advise(&labelled->verdict, &labelled->settings); /* advice depends on clocks */
}

aorta_status aorta_recorded_run(const char *directory, const char *label, int64_t read_every,
                                const struct aorta_trace_analysis_options *options, const struct aorta_log *log,
                                struct aorta_recorded *recorded) {
    *recorded = (struct aorta_recorded){.is_run = true};
    aorta_status status = aorta_run_read(directory, label, read_every, log, &recorded->run);
    if (!status) status = make(options, recorded);
    if (status) aorta_recorded_free(recorded);
    return status;
}

size_t aorta_measured_most(const struct aorta_recorded *labelled) {
    size_t most = 0;
    for (size_t i = 0; i < labelled->run.rank_count; i++)
        if (labelled->measured[i].count > most) most = labelled->measured[i].count;
    return most;
}

/* The cost of recording ranges. It is known in a run that records only some of its steps: the recorded steps are
 * compared with the unrecorded ones. */

static double step_if(const struct aorta_step_metrics *step, size_t recorded) {
    return step->recorded == (recorded != 0) ? step->step_ms : NAN;
}

/* `reference`: measured steps without ranges; `candidate`: measured steps with ranges. */
static struct aorta_comparison compare(const struct aorta_recorded *labelled, struct aorta_text *out) {
    static const struct aorta_metric recorded = {.get = step_if, .offset = true}, unrecorded = {.get = step_if};
    struct aorta_arena memory = {0};
    const struct aorta_comparison cost = aorta_run_compare(labelled, &unrecorded, &recorded, &memory);
    aorta_text_arena_end(out, &memory);
    return cost;
}

static bool known(const struct aorta_comparison *cost) {
    return cost->reference.count > 0 && cost->candidate.count > 0;
}

static double share(const struct aorta_comparison *cost) {
    return cost->candidate.p50 / cost->reference.p50 - 1;
}

struct cost_values {
    int64_t recorded, unrecorded;
    double recorded_ms, unrecorded_ms, percent, p_value;
};

#define AT(member) offsetof(struct cost_values, member)
const struct aorta_row aorta_recording_rows[] = {
    {"recorded_steps", AORTA_ROW_INT, AT(recorded), .help = "with ranges"},
    {"unrecorded_steps", AORTA_ROW_INT, AT(unrecorded), .help = "without"},
    {"recorded_step_ms_p50", AORTA_ROW_NUMBER, AT(recorded_ms), "ms", .help = "the median of the former"},
    {"unrecorded_step_ms_p50", AORTA_ROW_NUMBER, AT(unrecorded_ms), "ms", .help = "and of the latter"},
    {"percent", AORTA_ROW_NUMBER, AT(percent), "percent", .help = "by which it is longer"},
    {"p_value", AORTA_ROW_NUMBER, AT(p_value), .help = "that this is chance"},
    {0}};
#undef AT

void aorta_recording_json(const struct aorta_recorded *labelled, struct aorta_json *json) {
    const struct aorta_comparison cost = compare(labelled, json->out);
    if (!known(&cost)) return;
    const struct cost_values values = {(int64_t)cost.candidate.count,
                                       (int64_t)cost.reference.count,
                                       cost.candidate.p50,
                                       cost.reference.p50,
                                       100 * share(&cost),
                                       cost.p_value};
    aorta_rows_object("recording_cost", aorta_recording_rows, &values, 0, json);
}

/* Kernel records cost host time at each launch. */
static void say_share(const struct aorta_recorded *labelled, struct aorta_text *out) {
    const struct aorta_records *records = &labelled->records;
    if (!labelled->by_kernels || !records->iterations) return;
    const double launches = (double)records->launches / (double)records->iterations;
    const double own_ms = aorta_recording_share(&labelled->verdict, launches);
    if (own_ms > 0)
        aorta_text_printf(out,
                          "recording: up to %s ms of late launches are the recording's own cost (%.0f launches per "
                          "step); compile.enabled=true makes one launch per step",
                          aorta_brief(own_ms).text, launches);
}

void aorta_recording_text(const struct aorta_recorded *labelled, struct aorta_text *out) {
    const struct aorta_comparison cost = compare(labelled, out);
    if (!known(&cost)) {
        say_share(labelled, out);
        return;
    }
    aorta_text_printf(out, "recording: steps took %.3f ms with ranges (p50 of %zu), %.3f ms without (%zu): %+.1f%%, ",
                      cost.candidate.p50, cost.candidate.count, cost.reference.p50, cost.reference.count,
                      100 * share(&cost));
    aorta_compare_chance(&cost, "step", out);
}

/* ---- the figures ---- */

/* A number of the step, a time in its ranges, or a share. NaN if the step has no such figure. */
double aorta_metric_number(const struct aorta_step_metrics *step, size_t offset) {
    return *(const double *)((const char *)step + offset);
}

static double time_at(const struct aorta_step_metrics *step, size_t offset) {
    return step->profile ? (double)*(const int64_t *)((const char *)step->profile + offset) / 1e6 : NAN;
}

static double share_at(const struct aorta_step_metrics *step, size_t offset) {
    return step->profile ? *(const double *)((const char *)step->profile + offset) : NAN;
}

/* The time of the step. If it was not timed: its ranges and the gap before them. */
static double step_at(const struct aorta_step_metrics *step, size_t offset) {
    if (!isnan(aorta_metric_number(step, offset))) return aorta_metric_number(step, offset);
    return step->profile ? (double)(step->profile->overlap.span_ns + step->profile->overlap.lead_ns) / 1e6 : NAN;
}

/* NaN if there is no such collective. */
static double kind_at(const struct aorta_step_metrics *step, size_t kind) {
    const struct aorta_collective_overlap *of = step->profile ? &step->profile->overlap.kind[kind] : NULL;
    return of && of->count ? (double)of->overlap_ns / 1e6 : NAN;
}

static double lead_at(const struct aorta_step_metrics *step, size_t offset) {
    return step->profile && step->profile->own_clock ? NAN : time_at(step, offset);
}

double aorta_metric_of(const struct aorta_metric *metric, const struct aorta_step_metrics *step) {
    return metric->get(step, metric->offset);
}

#define AT(member) offsetof(struct aorta_step_metrics, member)
#define IN(member) offsetof(struct aorta_profile, member)
const struct aorta_metric aorta_metrics[] = {
    {"step_ms", "ms", false, step_at, AT(step_ms), "step"},
    {"span_ms", "ms", false, time_at, IN(overlap.span_ns), "first to last work of the step"},
    {"compute_ms", "ms", false, time_at, IN(overlap.compute_ns), "compute"},
    {"comm_ms", "ms", false, time_at, IN(overlap.comm_ns), "communication"},
    {"memcpy_ms", "ms", false, time_at, IN(overlap.memcpy_ns), "copies"},
    {"overlap_ms", "ms", true, time_at, IN(overlap.overlap_ns), "hidden communication"},
    {"compute_allreduce_ms", "ms", true, kind_at, AORTA_ALL_REDUCE, "compute during all-reduce"},
    {"compute_reducescatter_ms", "ms", true, kind_at, AORTA_REDUCE_SCATTER, "compute during reduce-scatter"},
    {"exposed_comm_ms", "ms", false, time_at, IN(overlap.exposed_comm_ns), "exposed communication"},
    {"idle_ms", "ms", false, time_at, IN(overlap.idle_ns), "idle time"},
    {"lead_ms", "ms", false, lead_at, IN(overlap.lead_ns), "time between steps"},
    {"data_wait_ms", "ms", false, aorta_metric_number, AT(data_wait_ms), "waiting for data"},
    {"overlap_ratio", "", true, share_at, IN(overlap.overlap_ratio), "hidden share of communication"},
    {"compute_overlap_ratio", "", true, share_at, IN(overlap.compute_overlap_ratio),
     "share of compute during communication"},
    {"samples_per_s", "1/s", true, aorta_metric_number, AT(samples_per_s), "throughput"},
    {0},
};
#undef IN
#undef AT

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
