/* The verdict on a terminal: headline, figures, a remark if there is one, up to five causes, up to two things to try.
 * Each has a line of its own; what is left of ten lines goes to those that are longer, the worst cause first. */
#include "base/lines.h"
#include "verdict/verdict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINES = 10,
    USUAL_WIDTH = 100,
    BAR_WIDTH = 10,
    CAUSES_SHOWN = 5,
    ADVICE_SHOWN = 2,
    MOST_BLOCKS = 10,
    REMARK_LINES = 2
};

/* A sentence with what stands before it. */
struct block {
    struct aorta_text head, sentence;
    int indent; /* of its further lines */
    int lines;  /* it may have */
};

struct page {
    struct block blocks[MOST_BLOCKS];
    size_t count, first_cause, cause_count, first_advice, advice_count;
};

static struct block *add_block(struct page *page, int indent) {
    struct block *block = &page->blocks[page->count++];
    *block = (struct block){.indent = indent, .lines = 1};
    return block;
}

static bool about_kind(enum aorta_cause cause) {
    return cause == AORTA_CAUSE_SLOW_COLLECTIVE || cause == AORTA_CAUSE_SERIALIZED_STREAMS ||
           cause == AORTA_CAUSE_EXPOSED_COLLECTIVE;
}

static const char *plain_name(enum aorta_cause cause) {
    static const char *const names[AORTA_CAUSE_COUNT] = {"late launches",
                                                         "late starts",
                                                         "the host waiting for the device",
                                                         "waiting for data",
                                                         "copies",
                                                         "waiting for the last rank",
                                                         "slow ",
                                                         "compute queued behind ",
                                                         "exposed ",
                                                         "contention",
                                                         "a pause of the host",
                                                         "allocation of device memory",
                                                         "compute"};
    return names[cause];
}

/* ---- the headline ---- */

/* Causes that together say more than the largest of them. */
static const struct group {
    const char *name;
    unsigned causes; /* a bit for each */
} groups[] = {
    {"communication", 1U << AORTA_CAUSE_STRAGGLER | 1U << AORTA_CAUSE_SLOW_COLLECTIVE |
                          1U << AORTA_CAUSE_SERIALIZED_STREAMS | 1U << AORTA_CAUSE_EXPOSED_COLLECTIVE},
    {"an idle device", 1U << AORTA_CAUSE_HOST_LAUNCH | 1U << AORTA_CAUSE_LAUNCH_LATENCY | 1U << AORTA_CAUSE_HOST_SYNC |
                           1U << AORTA_CAUSE_DATA_WAIT},
};

static double cost_of(const struct aorta_verdict *verdict, const struct group *group) {
    double cost_ms = 0;
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (group->causes & 1U << verdict->findings[i].cause) cost_ms += verdict->findings[i].cost_ms;
    return cost_ms;
}

static const struct aorta_finding *costliest(const struct aorta_verdict *verdict) {
    const struct aorta_finding *most = &verdict->findings[0];
    for (size_t i = 1; i < verdict->finding_count; i++)
        if (verdict->findings[i].cost_ms > most->cost_ms) most = &verdict->findings[i];
    return most;
}

/* Compute is the largest cause and less than half of the step: whether others are more than it together. */
static bool headline_of_group(const struct aorta_verdict *verdict, const char *unit, struct aorta_text *out) {
    const struct aorta_finding *first = costliest(verdict);
    const struct group *largest = NULL;
    double cost_ms = first->cost_ms;
    if (first->cause != AORTA_CAUSE_COMPUTE || first->share >= 0.5) return false;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const double own_ms = cost_of(verdict, &groups[i]);
        if (own_ms <= cost_ms) continue;
        cost_ms = own_ms;
        largest = &groups[i];
    }
    if (!largest) return false;
    aorta_text_printf(out, "Verdict: limited by %s: %.0f%% of the %s (%.2f of %.2f ms); compute is %.0f%%",
                      largest->name, 100 * cost_ms / verdict->step_ms_mean, unit, cost_ms, verdict->step_ms_mean,
                      100 * first->share);
    return true;
}

/* All gains together below this share: the step is bound by what it computes. */
static const double BOUND = 0.05;

static bool gains_matter(const struct aorta_verdict *verdict) {
    const struct aorta_verdict_replay *replay = &verdict->replay;
    return replay->known && replay->replayed_ms - replay->floor_ms >= BOUND * replay->replayed_ms;
}

static void headline_of_gain(const struct aorta_verdict *verdict, struct aorta_text *out) {
    const struct aorta_finding *first = &verdict->findings[0];
    aorta_text_printf(out, "Verdict: limited by %s%s", plain_name(first->cause),
                      about_kind(first->cause) ? aorta_collective_name(first->collective) : "");
    if (first->rank >= 0) aorta_text_printf(out, " (rank %d)", first->rank);
    aorta_text_printf(out, ": without it the %s takes %.2f ms less of %.2f (%.0f%%)", verdict->whole ? "run" : "step",
                      first->gain_ms, verdict->replay.replayed_ms, 100 * first->gain_share);
    if (verdict->replay.floor_ms < verdict->replay.replayed_ms - 1.05 * first->gain_ms)
        aorta_text_printf(out, ", without all below %.2f", verdict->replay.floor_ms);
}

static void headline(const struct aorta_verdict *verdict, struct aorta_text *out) {
    if (!verdict->finding_count) {
        aorta_text_puts(out, "Verdict: nothing ran");
        return;
    }
    if (gains_matter(verdict) && aorta_finding_gains(&verdict->findings[0])) {
        headline_of_gain(verdict, out);
        return;
    }
    const struct aorta_finding *first = costliest(verdict);
    const char *unit = verdict->whole ? "time" : "step";
    if (verdict->coarse && first->cause == AORTA_CAUSE_COMPUTE)
        aorta_text_printf(out,
                          "Verdict: not to be had from these files: their compute ranges (%.2f of %.2f ms) may hide "
                          "host gaps",
                          first->cost_ms, verdict->step_ms_mean);
    else if (headline_of_group(verdict, unit, out))
        return;
    else if (verdict->gaps && first->cause == AORTA_CAUSE_COMPUTE)
        aorta_text_printf(out, "Verdict: compute with the gaps between its kernels: %.0f%% of the %s (%.2f of %.2f ms)",
                          100 * first->share, unit, first->cost_ms, verdict->step_ms_mean);
    else if (first->cause == AORTA_CAUSE_COMPUTE && first->share < 0.5)
        aorta_text_printf(out, "Verdict: compute is most, without being half: %.0f%% of the %s (%.2f of %.2f ms)",
                          100 * first->share, unit, first->cost_ms, verdict->step_ms_mean);
    else if (first->cause == AORTA_CAUSE_COMPUTE)
        aorta_text_printf(out, "Verdict: compute-bound: %.0f%% of the %s is its operations (%.2f of %.2f ms)",
                          100 * first->share, unit, first->cost_ms, verdict->step_ms_mean);
    else
        aorta_text_printf(out, "Verdict: limited by %s%s: %.0f%% of the %s (%.2f of %.2f ms)",
                          first->cause == AORTA_CAUSE_HOST_LAUNCH && verdict->idle_unexplained
                              ? "an idle device, why is not recorded"
                              : plain_name(first->cause),
                          about_kind(first->cause) ? aorta_collective_name(first->collective) : "", 100 * first->share,
                          unit, first->cost_ms, verdict->step_ms_mean);
}

/* ---- the figures ---- */

static int digits(double ms) {
    return ms < 0.1 ? 4 : 2;
}

static void slowdown(const struct aorta_slowdown *found, struct aorta_text *out) {
    const double slower = 100 * (found->ratio - 1);
    if (fabs(slower) < 0.5)
        aorta_text_puts(out, "; GEMMs as fast beside it");
    else if (!isnan(slower))
        aorta_text_printf(out, "; GEMMs take %.0f%% %s beside it", fabs(slower), slower > 0 ? "longer" : "less");
    if (found->by_grid) aorta_text_puts(out, " (by kernel and grid)");
}

static void figures(const struct aorta_verdict *verdict, struct aorta_text *out) {
    const char *ranks = verdict->rank_count == 1 ? "" : "s";
    const int step_digits = digits(verdict->step_ms_p50), comm_digits = digits(verdict->comm_ms);
    if (verdict->whole)
        aorta_text_printf(out, "no steps known: %.2f ms of %zu rank%s; ", verdict->step_ms_mean, verdict->rank_count,
                          ranks);
    else if (verdict->recorded)
        aorta_text_printf(out, "step p50 %.*f ms over %zu step%s of %zu rank%s; ", step_digits, verdict->step_ms_p50,
                          verdict->iterations, verdict->iterations == 1 ? "" : "s", verdict->rank_count, ranks);
    else
        aorta_text_printf(
            out, "step p50 %.*f ms on the device over %zu iterations of %zu rank%s (%zu warm-up left out); ",
            step_digits, verdict->step_ms_p50, verdict->iterations, verdict->rank_count, ranks, verdict->warmup);
    if (isnan(verdict->overlap_ratio))
        aorta_text_puts(out, "no collectives");
    else
        aorta_text_printf(out, "%s%.1f%% of %.*f ms communication hidden, %.*f ms exposed",
                          verdict->coarse || verdict->gaps ? "at most " : "", 100 * verdict->overlap_ratio, comm_digits,
                          verdict->comm_ms, comm_digits, verdict->exposed_ms);
    slowdown(&verdict->slowdown, out);
}

/* What gains is shown with its gain, as time that goes (-), other causes with their cost. */
static void cause_block(struct page *page, const struct aorta_finding *finding, bool by_gain) {
    struct block *block = add_block(page, 4 + BAR_WIDTH);
    char bar[BAR_WIDTH + 1];
    double share = by_gain ? finding->gain_share : finding->share;
    int filled = (int)lround(share * BAR_WIDTH);
    filled = filled < 0 ? 0 : filled > BAR_WIDTH ? BAR_WIDTH : filled;
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', (size_t)filled);
    bar[BAR_WIDTH] = '\0';
    aorta_text_printf(&block->head, "  %s %3.0f%% %9.3f ms  %s%s%s", bar, 100 * share,
                      by_gain ? -finding->gain_ms : finding->cost_ms, aorta_cause_name(finding->cause),
                      about_kind(finding->cause) ? " " : "",
                      about_kind(finding->cause) ? aorta_collective_name(finding->collective) : "");
    if (finding->rank >= 0 && finding->cause != AORTA_CAUSE_STRAGGLER)
        aorta_text_printf(&block->head, ", most on rank %d", finding->rank);
    aorta_text_puts(&block->head, ": ");
    aorta_text_puts(&block->sentence, finding->evidence);
}

/* It has two lines for certain: half of it would mislead. */
static void remark_block(const struct aorta_verdict *verdict, struct page *page) {
    if (!verdict->remark) return;
    struct block *block = add_block(page, 4);
    block->lines = REMARK_LINES;
    aorta_text_puts(&block->head, "  ");
    aorta_text_puts(&block->sentence, verdict->remark);
}

static void cause_blocks(const struct aorta_verdict *verdict, struct page *page) {
    const int taken = (verdict->remark ? REMARK_LINES : 0) + (verdict->simulated ? 1 : 0);
    const size_t room = (size_t)(LINES - 2 - ADVICE_SHOWN - taken); /* below headline and figures */
    const size_t shown = room < CAUSES_SHOWN ? room : CAUSES_SHOWN;
    page->first_cause = page->count;
    for (size_t i = 0; i < verdict->finding_count && i < shown; i++) {
        const struct aorta_finding *finding = &verdict->findings[i];
        bool by_gain = verdict->replay.known && aorta_finding_gains(finding);
        if (!by_gain && i && (finding->share < 0.01 || gains_matter(verdict)))
            break; /* crumbs, or symptoms of the rest */
        cause_block(page, finding, by_gain);
    }
    page->cause_count = page->count - page->first_cause;
}

static bool advised(const struct page *page, const char *advice) {
    for (size_t i = 0; i < page->advice_count; i++) {
        const char *before = page->blocks[page->first_advice + i].sentence.data;
        if (before && advice && strcmp(before, advice) == 0) return true;
    }
    return false;
}

static void advice_blocks(const struct aorta_verdict *verdict, struct page *page) {
    page->first_advice = page->count;
    for (size_t i = 0; i < verdict->finding_count && page->advice_count < ADVICE_SHOWN; i++) {
        const struct aorta_finding *finding = &verdict->findings[i];
        const bool rest = finding->cause == AORTA_CAUSE_COMPUTE && finding->share < 0.5 && verdict->finding_count > 1 &&
                          !verdict->coarse && !verdict->gaps;
        const bool crumb =
            verdict->replay.known && gains_matter(verdict) ? !aorta_finding_gains(finding) : i && finding->share < 0.02;
        if (rest || crumb) continue; /* advice for crumbs helps nobody */
        if (advised(page, finding->advice)) continue;
        struct block *block = add_block(page, 4);
        aorta_text_puts(&block->head, page->advice_count ? "  or:  " : "  try: ");
        aorta_text_puts(&block->sentence, finding->advice);
        page->advice_count++;
    }
}

/* ---- laying it out ---- */

static struct aorta_lines lines_of(const struct block *block, int width) {
    return (struct aorta_lines){.width = width,
                                .taken = block->head.data ? aorta_columns(block->head.data) : 0,
                                .indent = block->indent,
                                .most = block->lines};
}

/* One line more for a block that needs it. */
static void grant(struct block *block, int width, int *spare) {
    struct aorta_lines lines = lines_of(block, width);
    if (*spare <= 0 || !block->sentence.data || aorta_lines_needed(block->sentence.data, &lines) <= block->lines)
        return;
    block->lines++;
    --*spare;
}

static void share_lines(struct page *page, int width) {
    int spare = LINES;
    for (size_t i = 0; i < page->count; i++) spare -= page->blocks[i].lines;
    for (size_t i = 0; i < page->first_cause; i++) grant(&page->blocks[i], width, &spare);
    for (int before = -1; spare > 0 && spare != before;) {
        before = spare;
        for (size_t i = 0; i < 2 && i < page->cause_count; i++)
            grant(&page->blocks[page->first_cause + i], width, &spare);
        if (page->advice_count) grant(&page->blocks[page->first_advice], width, &spare);
        for (size_t i = page->first_cause + 2; i < page->count; i++) grant(&page->blocks[i], width, &spare);
    }
}

static void put_blocks(struct page *page, int width, struct aorta_text *out) {
    for (size_t i = 0; i < page->count; i++) {
        struct block *block = &page->blocks[i];
        struct aorta_lines lines = lines_of(block, width);
        out->failed |= block->head.failed | block->sentence.failed;
        if (block->head.data) aorta_text_puts(out, block->head.data);
        aorta_text_lines(out, block->sentence.data ? block->sentence.data : "", &lines);
        aorta_text_free(&block->head);
        aorta_text_free(&block->sentence);
    }
}

void aorta_verdict_text(const struct aorta_verdict *verdict, int width, struct aorta_text *out) {
    struct page page = {0};
    headline(verdict, &add_block(&page, 2)->sentence);
    figures(verdict, &add_block(&page, 2)->sentence);
    remark_block(verdict, &page);
    cause_blocks(verdict, &page);
    advice_blocks(verdict, &page);
    if (verdict->simulated)
        aorta_text_puts(&add_block(&page, 4)->sentence,
                        "  simulated: the collectives were copies on one rank; their times say nothing about a link");
    share_lines(&page, width ? width : USUAL_WIDTH);
    put_blocks(&page, width ? width : USUAL_WIDTH, out);
}
