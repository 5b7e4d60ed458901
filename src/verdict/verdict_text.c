/* The verdict as text and as JSON. In text each sentence is wrapped; none is cut. */
#include "base/lines.h"
#include "verdict/verdict_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BAR_WIDTH = 10, CAUSES_SHOWN = 8, ADVICE_SHOWN = 2 };

/* ---- the headline ---- */

/* Causes that together say more than the largest of them. */
static const struct group {
    const char *name;
    unsigned causes; /* a bit for each */
} groups[] = {
    {"communication", 1U << AORTA_CAUSE_STRAGGLER | 1U << AORTA_CAUSE_SLOW_COLLECTIVE |
                          1U << AORTA_CAUSE_SERIALIZED_STREAMS | 1U << AORTA_CAUSE_EXPOSED_COLLECTIVE},
    /* the causes of idle time, launch latency too: "host-bound" is less (aorta_idle_host) */
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
                      largest->name, 100 * cost_ms / aorta_verdict_spent_ms(verdict), unit, cost_ms,
                      aorta_verdict_spent_ms(verdict), 100 * first->share);
    return true;
}

/* All gains together below this share: the step is bound by what it computes. */
static const double BOUND = 0.05;

static bool gains_matter(const struct aorta_verdict *verdict) {
    const struct aorta_verdict_replay *replay = &verdict->replay;
    const double step_ms = aorta_verdict_gained_ms(verdict);
    return replay->known && step_ms - replay->floor_ms >= BOUND * step_ms;
}

static void headline_of_gain(const struct aorta_verdict *verdict, struct aorta_text *out) {
    const struct aorta_finding *first = &verdict->findings[0];
    aorta_text_printf(out, "Verdict: limited by %s%s", aorta_cause_plain_name(first->cause),
                      aorta_cause_has_kind(first->cause) ? aorta_collective_name(first->collective) : "");
    if (first->rank >= 0) aorta_text_printf(out, " (rank %d)", first->rank);
    aorta_text_printf(out, ": without it the %s is %.2f of %.2f ms shorter (%.0f%%)", verdict->whole ? "run" : "step",
                      first->gain_ms, aorta_verdict_gained_ms(verdict), 100 * first->gain_share);
    if (verdict->replay.floor_ms < aorta_verdict_gained_ms(verdict) - 1.05 * first->gain_ms)
        aorta_text_printf(out, "; without all causes below it takes %.2f ms", verdict->replay.floor_ms);
}

/* Each is small; together they are not. */
static void headline_of_gains(const struct aorta_verdict *verdict, struct aorta_text *out) {
    const struct aorta_finding *first = &verdict->findings[0];
    const double step_ms = aorta_verdict_gained_ms(verdict), all_ms = step_ms - verdict->replay.floor_ms;
    aorta_text_printf(
        out,
        "Verdict: several small causes: without all causes below the %s is %.2f of %.2f ms shorter (%.0f%%); "
        "the largest is %s%s",
        verdict->whole ? "run" : "step", all_ms, step_ms, 100 * all_ms / step_ms, aorta_cause_plain_name(first->cause),
        aorta_cause_has_kind(first->cause) ? aorta_collective_name(first->collective) : "");
}

/* Nobody knows whether it waits without the recording. */
static void headline_of_recording(const struct aorta_verdict *verdict, struct aorta_text *out) {
    const struct aorta_finding *first = costliest(verdict);
    aorta_text_printf(
        out,
        "Verdict: the device waits for its host in %.0f%% of the %s (%.2f of %.2f ms), but %s: it may not "
        "without",
        100 * first->share, verdict->whole ? "time" : "step", first->cost_ms, aorta_verdict_spent_ms(verdict),
        verdict->replay.unrecorded_reason);
}

void aorta_verdict_headline(const struct aorta_verdict *verdict, struct aorta_text *out) {
    if (!verdict->finding_count) {
        aorta_text_puts(out, "Verdict: nothing ran");
        return;
    }
    const bool by_gain = gains_matter(verdict) && aorta_finding_gains(&verdict->findings[0]);
    const struct aorta_finding *named = by_gain ? &verdict->findings[0] : costliest(verdict);
    if (named->cause == AORTA_CAUSE_HOST_LAUNCH && verdict->replay.unrecorded_reason && !verdict->idle_unexplained) {
        headline_of_recording(verdict, out);
        return;
    }
    if (by_gain) {
        (verdict->findings[0].gain_share >= BOUND ? headline_of_gain : headline_of_gains)(verdict, out);
        return;
    }
    const struct aorta_finding *first = costliest(verdict);
    const char *unit = verdict->whole ? "time" : "step";
    if (verdict->coarse && first->cause == AORTA_CAUSE_COMPUTE)
        aorta_text_printf(out,
                          "Verdict: these files do not show what limits: their compute ranges (%.2f of %.2f ms) may "
                          "contain gaps of the "
                          "host",
                          first->cost_ms, aorta_verdict_spent_ms(verdict));
    else if (headline_of_group(verdict, unit, out))
        return;
    else if (verdict->gaps && first->cause == AORTA_CAUSE_COMPUTE)
        aorta_text_printf(out, "Verdict: compute with the gaps between its kernels: %.0f%% of the %s (%.2f of %.2f ms)",
                          100 * first->share, unit, first->cost_ms, aorta_verdict_spent_ms(verdict));
    else if (first->cause == AORTA_CAUSE_COMPUTE && first->share < 0.5)
        aorta_text_printf(out, "Verdict: compute is the largest part, below half: %.0f%% of the %s (%.2f of %.2f ms)",
                          100 * first->share, unit, first->cost_ms, aorta_verdict_spent_ms(verdict));
    else if (first->cause == AORTA_CAUSE_COMPUTE)
        aorta_text_printf(out, "Verdict: compute-bound: %.0f%% of the %s is its operations (%.2f of %.2f ms)",
                          100 * first->share, unit, first->cost_ms, aorta_verdict_spent_ms(verdict));
    else
        aorta_text_printf(out, "Verdict: limited by %s%s: %.0f%% of the %s (%.2f of %.2f ms)",
                          first->cause == AORTA_CAUSE_HOST_LAUNCH && verdict->idle_unexplained
                              ? "an idle device (the reason is not recorded)"
                              : aorta_cause_plain_name(first->cause),
                          aorta_cause_has_kind(first->cause) ? aorta_collective_name(first->collective) : "",
                          100 * first->share, unit, first->cost_ms, aorta_verdict_spent_ms(verdict));
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

/* Where recording changed the step. */
static void without_recording(const struct aorta_verdict_replay *replay, struct aorta_text *out) {
    static const double changes = 0.03;
    if (!(replay->unrecorded_ms > 0) || replay->replayed_ms - replay->unrecorded_ms < changes * replay->replayed_ms)
        return;
    aorta_text_printf(out, "; recorded %s ms, without the recording about %s (%s to %s)",
                      aorta_brief(replay->replayed_ms).text, aorta_brief(replay->unrecorded_ms).text,
                      aorta_brief(replay->unrecorded_range_ms[0]).text,
                      aorta_brief(replay->unrecorded_range_ms[1]).text);
}

static void figures(const struct aorta_verdict *verdict, struct aorta_text *out) {
    const struct aorta_counted ranks = aorta_counted((long long)verdict->rank_count, "rank");
    const int step_digits = digits(verdict->step_ms_p50), comm_digits = digits(verdict->comm_ms);
    char warmup[48] = "";
    if (verdict->warmup) snprintf(warmup, sizeof warmup, " (%zu warm-up left out)", verdict->warmup);
    if (verdict->whole)
        aorta_text_printf(out, "no steps known: %.2f ms of %s; ", verdict->step_ms_mean, ranks.text);
    else if (verdict->recorded)
        aorta_text_printf(out, "step p50 %.*f ms over %s of %s%s; ", step_digits, verdict->step_ms_p50,
                          aorta_counted((long long)verdict->iterations, "step").text, ranks.text, warmup);
    else
        aorta_text_printf(out, "step p50 %.*f ms on the device over %s of %s (%zu warm-up left out); ", step_digits,
                          verdict->step_ms_p50, aorta_counted((long long)verdict->iterations, "iteration").text,
                          ranks.text, verdict->warmup);
    if (isnan(verdict->overlap_ratio))
        aorta_text_puts(out, "no collectives");
    else
        aorta_text_printf(out, "%s%.1f%% of %.*f ms communication hidden, %.*f ms exposed",
                          verdict->coarse || verdict->gaps ? "at most " : "", 100 * verdict->overlap_ratio, comm_digits,
                          verdict->comm_ms, comm_digits, verdict->exposed_ms);
    slowdown(&verdict->slowdown, out);
    without_recording(&verdict->replay, out);
}

/* ---- the lines ---- */

/* Wraps the text, its beginning included; frees it. */
static void put(struct aorta_text *text, int indent, int width, struct aorta_text *out) {
    const struct aorta_lines lines = {.width = width, .indent = indent};
    out->failed |= text->failed;
    aorta_text_lines(out, text->data ? text->data : "", &lines);
    aorta_text_free(text);
}

static void put_words(const char *head, const char *words, int width, struct aorta_text *out) {
    struct aorta_text text = {0};
    aorta_text_printf(&text, "%s%s", head, words);
    put(&text, 4, width, out);
}

/* Of what gains the time that the step is shorter without it, of other causes the time that they take. */
static void put_cause(const struct aorta_finding *finding, bool by_gain, int width, struct aorta_text *out) {
    struct aorta_text text = {0};
    char bar[BAR_WIDTH + 1];
    double share = by_gain ? finding->gain_share : finding->share;
    int filled = (int)lround(share * BAR_WIDTH);
    filled = filled < 0 ? 0 : filled > BAR_WIDTH ? BAR_WIDTH : filled;
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', (size_t)filled);
    bar[BAR_WIDTH] = '\0';
    aorta_text_printf(&text, "  %s %3.0f%% %s %8.3f ms  %s%s%s", bar, 100 * share, by_gain ? "saves" : "takes",
                      by_gain ? finding->gain_ms : finding->cost_ms, aorta_cause_name(finding->cause),
                      aorta_cause_has_kind(finding->cause) ? " " : "",
                      aorta_cause_has_kind(finding->cause) ? aorta_collective_name(finding->collective) : "");
    if (finding->rank >= 0 && finding->cause != AORTA_CAUSE_STRAGGLER)
        aorta_text_printf(&text, ", most on rank %d", finding->rank);
    aorta_text_printf(&text, ": %s", finding->evidence);
    put(&text, 4 + BAR_WIDTH, width, out);
}

/* Of a step with losses: what is left without them. Else what compute is made of, where no row says it. */
static void put_left(const struct aorta_verdict *verdict, int width, struct aorta_text *out) {
    struct aorta_text sentence = {0}, words = {0};
    const bool losses = gains_matter(verdict);
    const bool shown = !verdict->replay.known || costliest(verdict)->cause == AORTA_CAUSE_COMPUTE;
    if (losses ? aorta_verdict_say_left(verdict, &words) : !shown && aorta_verdict_say_compute(verdict, &words))
        aorta_text_printf(&sentence, "  %s: %s", losses ? "left" : "compute", words.data ? words.data : "");
    out->failed |= words.failed;
    aorta_text_free(&words);
    if (sentence.length) put(&sentence, 4, width, out);
}

/* What gains; without a replay what costs. Of what costs and gains nothing only the largest, where the headline names
 * it: the rest is too small to matter, or symptoms. The JSON has all. */
static bool is_shown(const struct aorta_verdict *verdict, size_t index) {
    const struct aorta_finding *finding = &verdict->findings[index];
    if (!verdict->replay.known) return index == 0 || finding->share >= 0.01;
    return aorta_finding_gains(finding) || (finding == costliest(verdict) && !gains_matter(verdict));
}

/* The order of rows and advice: that of the findings, but first what the headline names. */
static const struct aorta_finding *in_order(const struct aorta_verdict *verdict, size_t index) {
    const struct aorta_finding *first = costliest(verdict);
    if (!verdict->replay.known || gains_matter(verdict)) return &verdict->findings[index];
    const size_t place = (size_t)(first - verdict->findings);
    return index == 0 ? first : &verdict->findings[index <= place ? index - 1 : index];
}

static void put_causes(const struct aorta_verdict *verdict, int width, struct aorta_text *out) {
    for (size_t i = 0, shown = 0; i < verdict->finding_count && shown < CAUSES_SHOWN; i++) {
        const struct aorta_finding *finding = in_order(verdict, i);
        if (!is_shown(verdict, i)) continue;
        put_cause(finding, verdict->replay.known && aorta_finding_gains(finding), width, out);
        shown++;
    }
}

/* Advice for small causes helps nobody, and none is given for compute where that is not the largest part. */
static bool deserves_advice(const struct aorta_verdict *verdict, const struct aorta_finding *finding) {
    const bool rest = finding->cause == AORTA_CAUSE_COMPUTE && finding->share < 0.5 && verdict->finding_count > 1 &&
                      !verdict->coarse && !verdict->gaps;
    const bool headline = finding == costliest(verdict) && !gains_matter(verdict);
    const bool large = (verdict->replay.known ? finding->gain_share : finding->share) >= 0.02;
    return !rest && (headline || large);
}

static void put_advice(const struct aorta_verdict *verdict, int width, struct aorta_text *out) {
    const char *shown[ADVICE_SHOWN] = {0};
    int count = 0;
    for (size_t i = 0; i < verdict->finding_count && count < ADVICE_SHOWN; i++) {
        const struct aorta_finding *finding = in_order(verdict, i);
        const char *advice = finding->advice;
        if (!deserves_advice(verdict, finding) || !advice || (count && strcmp(shown[0], advice) == 0)) continue;
        put_words(count ? "  or:  " : "  try: ", advice, width, out);
        shown[count++] = advice;
    }
}

/* Who was waited for cannot be said where only some ranks were given. */
static void put_missing(const struct aorta_verdict *verdict, int width, struct aorta_text *out) {
    static const double much = 0.1; /* of the step */
    struct aorta_text sentence = {0};
    if (!verdict->ranks_missing || verdict->exposed_ms < much * verdict->step_ms_mean) return;
    aorta_text_printf(
        &sentence,
        "Give the files of all ranks: %d of %zu %s missing, and collectives that ran %.2f of %.2f ms with "
        "no compute beside them may have waited for %s",
        verdict->ranks_missing, verdict->rank_count + (size_t)verdict->ranks_missing,
        verdict->ranks_missing == 1 ? "is" : "are", verdict->exposed_ms, verdict->step_ms_mean,
        verdict->ranks_missing == 1 ? "it" : "them");
    put(&sentence, 2, width, out);
}

void aorta_verdict_text(const struct aorta_verdict *verdict, int width, struct aorta_text *out) {
    struct aorta_text sentence = {0};
    put_missing(verdict, width, out);
    aorta_verdict_headline(verdict, &sentence);
    put(&sentence, 2, width, out);
    figures(verdict, &sentence);
    put(&sentence, 2, width, out);
    if (verdict->note) put_words("  ", verdict->note, width, out);
    put_causes(verdict, width, out);
    if (verdict->finding_count) put_left(verdict, width, out);
    put_advice(verdict, width, out);
    if (verdict->simulated)
        put_words("  ", "simulated: the collectives were copies on one rank; their times say nothing about a link",
                  width, out);
}

/* ---- JSON ---- */

static void write_remedy(const struct aorta_finding *finding, struct aorta_json *json) {
    aorta_json_key_array(json, "gain_range_ms");
    aorta_json_double(json, finding->least_ms);
    aorta_json_double(json, finding->gain_ms);
    aorta_json_array_end(json);
    aorta_json_key_string(json, "remedy", finding->remedy);
    aorta_json_key_double(json, "then_ms", finding->then_ms);
}

void aorta_verdict_findings(const struct aorta_verdict *verdict, struct aorta_json *json) {
    aorta_json_key_array(json, "verdict");
    for (size_t i = 0; i < verdict->finding_count; i++) {
        const struct aorta_finding *finding = &verdict->findings[i];
        aorta_json_object(json);
        aorta_json_key_string(json, "cause", aorta_cause_name(finding->cause));
        if (aorta_cause_has_kind(finding->cause))
            aorta_json_key_string(json, "collective", aorta_collective_name(finding->collective));
        if (verdict->replay.known || verdict->replay.reason) {
            aorta_json_key_double(json, "gain_ms", verdict->replay.known ? finding->gain_ms : NAN);
            aorta_json_key_double(json, "gain_share", verdict->replay.known ? finding->gain_share : NAN);
        }
        if (finding->remedy) write_remedy(finding, json);
        aorta_json_key_double(json, "cost_ms", finding->cost_ms);
        aorta_json_key_double(json, "share", finding->share);
        aorta_json_key(json, "rank");
        if (finding->rank >= 0)
            aorta_json_int(json, finding->rank);
        else
            aorta_json_null(json);
        aorta_json_key_string(json, "evidence", finding->evidence);
        aorta_json_key_string(json, "advice", finding->advice);
        if (finding->kernel) aorta_json_key_string(json, "kernel", finding->kernel);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

void aorta_verdict_replay_write(const struct aorta_verdict *verdict, struct aorta_json *json) {
    const struct aorta_verdict_replay *replay = &verdict->replay;
    aorta_json_key_object(json, "replay");
    aorta_json_key_double(json, "measured_ms", replay->measured_ms);
    aorta_json_key_double(json, "replayed_ms", replay->replayed_ms);
    const bool unrecorded = replay->unrecorded_ms > 0;
    aorta_json_key_double(json, "unrecorded_ms", unrecorded ? replay->unrecorded_ms : NAN);
    aorta_json_key_array(json, "unrecorded_range_ms");
    for (int i = 0; i < 2; i++) aorta_json_double(json, unrecorded ? replay->unrecorded_range_ms[i] : NAN);
    aorta_json_array_end(json);
    aorta_json_key_double(json, "inferred_share", replay->inferred_share);
    aorta_json_key_double(json, "unexplained_share", replay->unexplained_share);
    aorta_json_key_string(json, "unrecorded_reason", replay->unrecorded_reason);
    aorta_json_key_string(json, "reason", replay->reason);
    aorta_json_object_end(json);
    aorta_json_key_double(json, "floor_ms", replay->known ? replay->floor_ms : NAN);
}
