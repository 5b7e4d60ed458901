/* The verdict on a terminal: headline, figures, up to five causes, up to two things to try; ten lines at most. */
#include "profile/verdict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BAR_WIDTH = 20, CAUSES_SHOWN = 5, ADVICE_SHOWN = 2 };

static bool about_kind(enum aorta_cause cause) {
    return cause == AORTA_CAUSE_SLOW_COLLECTIVE || cause == AORTA_CAUSE_SERIALIZED_STREAMS ||
           cause == AORTA_CAUSE_EXPOSED_COLLECTIVE;
}

static const char *plain_name(enum aorta_cause cause) {
    static const char *const names[AORTA_CAUSE_COUNT] = {"late launches",
                                                         "the host waiting for the device",
                                                         "waiting for data",
                                                         "copies",
                                                         "waiting for the last rank",
                                                         "slow ",
                                                         "compute queued behind ",
                                                         "exposed ",
                                                         "contention",
                                                         "compute"};
    return names[cause];
}

static void headline(const struct aorta_verdict *verdict, struct aorta_text *out) {
    if (!verdict->finding_count) {
        aorta_text_puts(out, "Verdict: nothing ran\n");
        return;
    }
    const struct aorta_finding *first = &verdict->findings[0];
    const char *unit = verdict->whole ? "time" : "step";
    if (verdict->coarse && first->cause == AORTA_CAUSE_COMPUTE)
        aorta_text_printf(out,
                          "Verdict: not to be had from these files: their compute ranges (%.2f of %.2f ms) may hide "
                          "host gaps\n",
                          first->cost_ms, verdict->step_ms_mean);
    else if (first->cause == AORTA_CAUSE_COMPUTE)
        aorta_text_printf(out, "Verdict: compute-bound: %.0f%% of the %s is its operations (%.2f of %.2f ms)\n",
                          100 * first->share, unit, first->cost_ms, verdict->step_ms_mean);
    else
        aorta_text_printf(out, "Verdict: limited by %s%s: %.0f%% of the %s (%.2f of %.2f ms)\n",
                          first->cause == AORTA_CAUSE_HOST_LAUNCH && verdict->idle_unexplained
                              ? "an idle device, why is not recorded"
                              : plain_name(first->cause),
                          about_kind(first->cause) ? aorta_collective_name(first->collective) : "", 100 * first->share,
                          unit, first->cost_ms, verdict->step_ms_mean);
}

static void figures(const struct aorta_verdict *verdict, struct aorta_text *out) {
    const char *ranks = verdict->rank_count == 1 ? "" : "s";
    if (verdict->whole)
        aorta_text_printf(out, "%.2f ms of %zu rank%s; ", verdict->step_ms_mean, verdict->rank_count, ranks);
    else if (verdict->recorded)
        aorta_text_printf(out, "step p50 %.2f ms over %zu step%s of %zu rank%s; ", verdict->step_ms_p50,
                          verdict->iterations, verdict->iterations == 1 ? "" : "s", verdict->rank_count, ranks);
    else
        aorta_text_printf(out, "step p50 %.2f ms over %zu iterations of %zu rank%s (%zu warm-up left out); ",
                          verdict->step_ms_p50, verdict->iterations, verdict->rank_count, ranks, verdict->warmup);
    if (isnan(verdict->overlap_ratio))
        aorta_text_puts(out, "no collectives");
    else
        aorta_text_printf(out, "%s%.1f%% of %.2f ms communication hidden, %.2f ms exposed",
                          verdict->coarse ? "at most " : "", 100 * verdict->overlap_ratio, verdict->comm_ms,
                          verdict->exposed_ms);
    double slower = 100 * (verdict->slowdown.ratio - 1);
    if (fabs(slower) < 0.5)
        aorta_text_puts(out, "; GEMMs take no longer beside it");
    else if (!isnan(slower))
        aorta_text_printf(out, "; GEMMs take %+.0f%% beside it", slower);
    aorta_text_puts(out, "\n");
}

static void cause_line(const struct aorta_finding *finding, struct aorta_text *out) {
    char bar[BAR_WIDTH + 1], name[64];
    int filled = (int)lround(finding->share * BAR_WIDTH);
    filled = filled < 0 ? 0 : filled > BAR_WIDTH ? BAR_WIDTH : filled;
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', (size_t)filled);
    bar[BAR_WIDTH] = '\0';
    snprintf(name, sizeof name, "%s%s%s", aorta_cause_name(finding->cause), about_kind(finding->cause) ? " " : "",
             about_kind(finding->cause) ? aorta_collective_name(finding->collective) : "");
    aorta_text_printf(out, "  %s %3.0f%% %9.3f ms  %s: %s", bar, 100 * finding->share, finding->cost_ms, name,
                      finding->evidence);
    if (finding->rank >= 0 && finding->cause != AORTA_CAUSE_STRAGGLER)
        aorta_text_printf(out, " (most on rank %d)", finding->rank);
    aorta_text_puts(out, "\n");
}

void aorta_verdict_text(const struct aorta_verdict *verdict, struct aorta_text *out) {
    headline(verdict, out);
    figures(verdict, out);
    for (size_t i = 0; i < verdict->finding_count && i < CAUSES_SHOWN; i++) {
        if (i && verdict->findings[i].share < 0.0005) break; /* rounds to nothing; summary.json has it */
        cause_line(&verdict->findings[i], out);
    }
    int shown = 0;
    for (size_t i = 0; i < verdict->finding_count && shown < ADVICE_SHOWN; i++) {
        const struct aorta_finding *finding = &verdict->findings[i];
        bool rest = finding->cause == AORTA_CAUSE_COMPUTE && verdict->finding_count > 1 && !verdict->coarse;
        if (rest || (shown && finding->share < 0.02)) continue; /* advice for crumbs helps nobody */
        aorta_text_printf(out, "  %s %s\n", shown ? "  or:" : "  try:", finding->advice);
        shown++;
    }
    if (verdict->simulated)
        aorta_text_puts(out,
                        "  simulated: the collectives were copies on one rank; their times say nothing about a link\n");
}
