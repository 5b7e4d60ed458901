/* The devices' clocks over the measured steps of a run. */
#include "report/summary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Clocks of ranks that differ by less are alike. */
static const double alike = 0.03;

static const char *why_none(const struct aorta_run *run) {
    if (run->device && strcmp(run->device, "cpu") == 0) return "not measured on the cpu device";
    return run->original ? "the original toolkit does not read the clock"
                         : "the clock was not read while measured steps ran";
}

static aorta_status clocks_of_rank(struct aorta_labelled *labelled, size_t rank, struct aorta_clocks *clocks) {
    const struct aorta_run *run = &labelled->run;
    size_t first = 0, steps = aorta_measured_steps(labelled, rank, &first), count = 0;
    struct aorta_clock_sample *samples = aorta_arena_alloc(&labelled->memory, steps * sizeof *samples);
    AORTA_TRY(aorta_arena_check(&labelled->memory, "the clocks of a rank"));
    for (size_t i = first; i < first + steps; i++) {
        const struct aorta_run_step *step = &run->steps[i];
        if (step->clocked) samples[count++] = (struct aorta_clock_sample){&step->clocks, step->clocks_at_ns, true};
    }
    AORTA_TRY(aorta_clocks_make(samples, count, clocks));
    if (!count) snprintf(clocks->reason, sizeof clocks->reason, "%s", why_none(run));
    return NULL;
}

/* Ranks whose clock is not known come last. */
static bool is_lower(const struct aorta_clocks *a, const struct aorta_clocks *b) {
    double share = aorta_clocks_share(a), other = aorta_clocks_share(b);
    return !isnan(share) && (isnan(other) || share < other);
}

/* Of the rank with the lowest clock; and how fast the others are, where that makes a difference. */
static void note(const struct aorta_labelled *labelled, struct aorta_text *out) {
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

aorta_status aorta_labelled_clocks(struct aorta_labelled *labelled) {
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
    if (!status) status = aorta_verdict_note(&labelled->verdict, "clocks", text.data);
    if (aorta_clocks_at_power_limit(&labelled->clocks[labelled->lowest_clock]))
        for (size_t i = 0; i < labelled->verdict.finding_count; i++)
            if (labelled->verdict.findings[i].cause == AORTA_CAUSE_CONTENTION)
                aorta_facts_flag(&labelled->verdict.findings[i].facts, AORTA_FACT_POWER_LIMIT);
    aorta_text_free(&text);
    return status;
}
