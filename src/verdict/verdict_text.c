/* The verdict as text and as JSON. In text each sentence is wrapped; none is cut. */
#include "base/lines.h"
#include "verdict/verdict_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BAR_WIDTH = 10, ROWS_MOST = 8, ADVICE_SHOWN = 2 };

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

/* Where recording changed the step by more than the figures show. */
static void without_recording(const struct aorta_verdict_replay *replay, struct aorta_text *out) {
    static const double changes = 0.005;
    if (!(replay->unrecorded_ms > 0) || replay->replayed_ms - replay->unrecorded_ms < changes * replay->replayed_ms)
        return;
    aorta_text_printf(out, "; without the recording about %s ms (%s to %s)", aorta_brief(replay->unrecorded_ms).text,
                      aorta_brief(replay->unrecorded_range_ms[0]).text,
                      aorta_brief(replay->unrecorded_range_ms[1]).text);
}

static bool has_host_collectives(const struct aorta_verdict *verdict) {
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (verdict->findings[i].cause == AORTA_CAUSE_HOST_COLLECTIVE) return true;
    return verdict->host_only && verdict->note;
}

/* From the end of one step to the end of the next, and how much of that the device is busy. */
static void step_time(const struct aorta_verdict *verdict, struct aorta_text *out) {
    const int decimals = digits(verdict->step_ms_p50);
    const bool several = verdict->iterations > 1;
    aorta_text_printf(out, "step to step %.*f ms", decimals, verdict->step_ms_mean);
    if (several) aorta_text_printf(out, " (p50 %.*f%s", decimals, verdict->step_ms_p50, verdict->host_only ? ")" : "");
    if (!verdict->host_only)
        aorta_text_printf(out, "%sdevice busy %.*f)", several ? ", " : " (", decimals,
                          verdict->step_ms_mean - verdict->idle_ms);
    aorta_text_printf(out, " over %s of %s",
                      aorta_counted((long long)verdict->iterations, verdict->recorded ? "step" : "iteration").text,
                      aorta_counted((long long)verdict->rank_count, "rank").text);
    if (verdict->warmup || !verdict->recorded) aorta_text_printf(out, " (%zu warm-up left out)", verdict->warmup);
    aorta_text_puts(out, "; ");
}

static void figures(const struct aorta_verdict *verdict, struct aorta_text *out) {
    const int comm_digits = digits(verdict->comm_ms);
    if (verdict->whole)
        aorta_text_printf(out, "no steps known: %.2f ms of %s; ", verdict->step_ms_mean,
                          aorta_counted((long long)verdict->rank_count, "rank").text);
    else
        step_time(verdict, out);
    if (isnan(verdict->overlap_ratio))
        aorta_text_puts(out, has_host_collectives(verdict) ? "collectives on the host" : "no collectives");
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

static void put_sentence(const char *words, int width, struct aorta_text *out) {
    struct aorta_text text = {0};
    aorta_text_puts(&text, words);
    put(&text, 2, width, out);
}

/* A gain below what steps that differ so much can show. */
static bool is_doubtful(const struct aorta_verdict *verdict, const struct aorta_finding *finding, bool by_gain) {
    return by_gain && aorta_verdict_steps_differ(verdict) &&
           finding->gain_ms < (verdict->step_ms_p90 - verdict->step_ms_p10) / 2;
}

/* Of a remedy of little the first sentence is enough; the JSON has the others. */
static int said_of(const struct aorta_finding *finding) {
    static const double LITTLE = 0.05;
    const bool little = finding->remedy && finding->gain_share < LITTLE;
    const char *more = little ? strstr(finding->evidence, "; ") : NULL;
    return (int)(more ? (size_t)(more - finding->evidence) : strlen(finding->evidence));
}

/* Of what gains the time that the step is shorter without it, of other causes the time that they take. */
static void put_cause(const struct aorta_verdict *verdict, const struct aorta_finding *finding, bool by_gain, int width,
                      struct aorta_text *out) {
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
                      aorta_cause_has_kind(finding->cause) ? aorta_verdict_kind_name(verdict, finding->collective)
                                                           : "");
    if (finding->rank >= 0 && finding->cause != AORTA_CAUSE_STRAGGLER)
        aorta_text_printf(&text, ", most on rank %d", finding->rank);
    if (by_gain) aorta_finding_say_range(finding, &text);
    if (is_doubtful(verdict, finding, by_gain)) aorta_text_puts(&text, ", less than such steps can show");
    aorta_text_printf(&text, ": %.*s", said_of(finding), finding->evidence);
    put(&text, 4 + BAR_WIDTH, width, out);
}

/* Of the causes about collectives the one that costs most after `last`, or of all. NULL: none is left. */
static const struct aorta_finding *next_exposed(const struct aorta_verdict *verdict, const struct aorta_finding *last) {
    const struct aorta_finding *most = NULL;
    for (size_t i = 0; i < verdict->finding_count; i++) {
        const struct aorta_finding *finding = &verdict->findings[i];
        if (!aorta_cause_of_collectives(finding->cause)) continue;
        if (last && (finding->cost_ms > last->cost_ms || (!(finding->cost_ms < last->cost_ms) && finding <= last)))
            continue;
        if (!most || finding->cost_ms > most->cost_ms) most = finding;
    }
    return most;
}

/* The causes about collectives, which add up to what is exposed. */
static void put_exposed(const struct aorta_verdict *verdict, int width, struct aorta_text *out) {
    static const double much = 0.05, little = 0.02; /* of the step, of what is exposed */
    struct aorta_text text = {0};
    double rest_ms = verdict->exposed_ms;
    const struct aorta_finding *last = NULL;
    int parts = 0;
    if (!(verdict->exposed_ms >= much * verdict->step_ms_mean)) return;
    aorta_text_printf(&text, "  exposed: %.2f ms =", verdict->exposed_ms);
    for (const struct aorta_finding *finding; (finding = next_exposed(verdict, last)) != NULL; last = finding) {
        if (finding->cost_ms < little * verdict->exposed_ms) break;
        aorta_text_printf(
            &text, "%s %.2f %s%s", parts++ ? " +" : "", finding->cost_ms, aorta_cause_plain_name(finding->cause),
            aorta_cause_has_kind(finding->cause) ? aorta_verdict_kind_name(verdict, finding->collective) : "");
        rest_ms -= finding->cost_ms;
    }
    if (rest_ms >= 0.005) aorta_text_printf(&text, " + %.2f others", rest_ms);
    if (parts > 1)
        put(&text, 4, width, out);
    else
        aorta_text_free(&text);
}

/* Of a step with losses: what is left without them. Else what compute is made of, where no row says it. */
static void put_left(const struct aorta_verdict *verdict, int width, struct aorta_text *out) {
    struct aorta_text sentence = {0}, words = {0};
    const bool losses = aorta_verdict_gains_matter(verdict);
    const bool shown = !verdict->replay.known || aorta_verdict_costliest(verdict)->cause == AORTA_CAUSE_COMPUTE;
    if (losses ? aorta_verdict_say_left(verdict, &words) : !shown && aorta_verdict_say_compute(verdict, &words))
        aorta_text_printf(&sentence, "  %s: %s", losses ? "left" : "compute", words.data ? words.data : "");
    out->failed |= words.failed;
    aorta_text_free(&words);
    if (sentence.length) put(&sentence, 4, width, out);
}

/* A remedy that does what a row before does, and whose figure stands there: TF32's has that of 16 bits. */
static bool is_alternative(const struct aorta_verdict *verdict, size_t index) {
    const struct aorta_finding *finding = &verdict->findings[index];
    bool found = false;
    if (!finding->remedy || finding->cause != AORTA_CAUSE_PRECISION || !(finding->then_ms < 0.5 * finding->gain_ms))
        return false;
    for (size_t i = 0; i < index; i++)
        found |= verdict->findings[i].remedy && verdict->findings[i].cause == finding->cause;
    return found;
}

/* What gains; without a replay what costs. Of what costs and gains nothing only the largest, where the headline names
 * it: the rest is too small to matter, or symptoms. */
static bool is_shown(const struct aorta_verdict *verdict, size_t index) {
    const struct aorta_finding *finding = &verdict->findings[index];
    if (is_alternative(verdict, index)) return false;
    if (!verdict->replay.known) return index == 0 || finding->share >= 0.01;
    return aorta_finding_gains(finding) || (finding->circumstances & AORTA_OWN_WORK) ||
           (finding == aorta_verdict_costliest(verdict) && !aorta_verdict_gains_matter(verdict));
}

/* The order of rows and advice: that of the findings, but first what the headline names. */
static const struct aorta_finding *in_order(const struct aorta_verdict *verdict, size_t index) {
    const struct aorta_finding *first = aorta_verdict_costliest(verdict);
    if (!verdict->replay.known || aorta_verdict_gains_matter(verdict)) return &verdict->findings[index];
    const size_t place = (size_t)(first - verdict->findings);
    return index == 0 ? first : &verdict->findings[index <= place ? index - 1 : index];
}

/* Pauses have a row for each place: of small ones after others the JSON is enough. */
static bool is_one_more_pause(const struct aorta_verdict *verdict, size_t index) {
    static const double SMALL = 0.025;
    const struct aorta_finding *finding = in_order(verdict, index);
    bool before = false;
    for (size_t i = 0; i < index; i++) before |= in_order(verdict, i)->cause == AORTA_CAUSE_HOST_PAUSE;
    return before && finding->cause == AORTA_CAUSE_HOST_PAUSE && verdict->replay.known && finding->gain_share < SMALL;
}

/* Rows of the text: at most so many, and how many more there would be. */
static size_t list_rows(const struct aorta_verdict *verdict, const struct aorta_finding *rows[ROWS_MOST],
                        size_t *folded) {
    size_t shown = 0;
    *folded = 0;
    for (size_t i = 0; i < verdict->finding_count; i++) {
        if (!is_shown(verdict, i) || is_one_more_pause(verdict, i)) continue;
        if (shown < ROWS_MOST)
            rows[shown++] = in_order(verdict, i);
        else
            (*folded)++;
    }
    return shown;
}

static void say_folded(size_t folded, struct aorta_text *out) {
    if (folded) aorta_text_printf(out, "and %zu smaller %s", folded, folded > 1 ? "causes" : "cause");
}

static void put_causes(const struct aorta_verdict *verdict, int width, struct aorta_text *out) {
    const struct aorta_finding *rows[ROWS_MOST];
    size_t folded;
    const size_t shown = list_rows(verdict, rows, &folded);
    for (size_t i = 0; i < shown; i++)
        put_cause(verdict, rows[i], verdict->replay.known && aorta_finding_gains(rows[i]), width, out);
    struct aorta_text rest = {0};
    say_folded(folded, &rest);
    if (folded) put_words("  ", rest.data ? rest.data : "", width, out);
    out->failed |= rest.failed;
    aorta_text_free(&rest);
}

/* Advice for small causes helps nobody, and none is given for compute where that is not the largest part. */
static bool deserves_advice(const struct aorta_verdict *verdict, const struct aorta_finding *finding) {
    const bool rest = finding->cause == AORTA_CAUSE_COMPUTE && finding->share < 0.5 && verdict->finding_count > 1 &&
                      !verdict->coarse && !verdict->gaps;
    const bool headline = finding == aorta_verdict_costliest(verdict) && !aorta_verdict_gains_matter(verdict);
    const bool large = (verdict->replay.known ? finding->gain_share : finding->share) >= 0.02;
    return !rest && (headline || large);
}

/* Ranks that wait for each other's work, gradients that are reduced too often: beside the two for what gains most. */
static void put_advice_on_work(const struct aorta_verdict *verdict, int width, struct aorta_text *out) {
    static const double MUCH = 0.05;
    const bool exposed = verdict->exposed_ms >= MUCH * verdict->step_ms_mean;
    for (size_t i = 0; i < verdict->finding_count; i++) {
        const struct aorta_finding *finding = &verdict->findings[i];
        const bool repeated = finding->circumstances & AORTA_REPEATED && exposed && !deserves_advice(verdict, finding);
        if (repeated || finding->circumstances & AORTA_OWN_WORK) put_words("  and: ", finding->advice, width, out);
    }
}

static void put_advice(const struct aorta_verdict *verdict, int width, struct aorta_text *out) {
    const char *shown[ADVICE_SHOWN] = {0};
    int count = 0;
    for (size_t i = 0; i < verdict->finding_count && count < ADVICE_SHOWN && !verdict->host_only; i++) {
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

bool aorta_verdict_steps_differ(const struct aorta_verdict *verdict) {
    enum { FEWEST = 10 };           /* steps */
    static const double much = 0.4; /* of the median, between a tenth and nine tenths of the steps */
    const double spread_ms = verdict->step_ms_p90 - verdict->step_ms_p10;
    return verdict->recorded && verdict->iterations >= FEWEST && spread_ms >= much * verdict->step_ms_p50;
}

static const char *why_they_differ(const struct aorta_verdict *verdict) {
    static const double many = 0.3;
    if (verdict->steps_unlike >= many)
        return "Their work differs (other kernels, or products of other sizes), as with sequences of different "
               "lengths: "
               "what follows is of their mean; ";
    if (verdict->disturbed) return "Record again, and ";
    if (verdict->undisturbed)
        return "Nothing disturbed the machine's processors, GPUs or clocks meanwhile, so the work of the steps differs "
               "or the host's pace does: ";
    return "If they do the same work, the machine was disturbed (other processes on its processors or device, clocks): "
           "look at top and nvidia-smi or rocm-smi, record again, and ";
}

/* What one recording of steps that differ says holds as far as they do. */
static void put_spread(const struct aorta_verdict *verdict, int width, struct aorta_text *out) {
    const double spread_ms = verdict->step_ms_p90 - verdict->step_ms_p10;
    struct aorta_text sentence = {0};
    if (!aorta_verdict_steps_differ(verdict)) return;
    aorta_text_printf(
        &sentence,
        "The steps differ: a tenth of them take less than %s ms, a tenth more than %s. %strust no gain below %s ms",
        aorta_brief(verdict->step_ms_p10).text, aorta_brief(verdict->step_ms_p90).text, why_they_differ(verdict),
        aorta_brief(spread_ms / 2).text);
    put(&sentence, 2, width, out);
}

void aorta_verdict_text(const struct aorta_verdict *verdict, int width, struct aorta_text *out) {
    struct aorta_text sentence = {0};
    put_missing(verdict, width, out);
    if (verdict->disturbed) put_sentence(verdict->disturbed, width, out);
    put_spread(verdict, width, out);
    aorta_verdict_headline(verdict, &sentence);
    put(&sentence, 2, width, out);
    figures(verdict, &sentence);
    put(&sentence, 2, width, out);
    if (verdict->note) put_words("  ", verdict->note, width, out);
    put_causes(verdict, width, out);
    put_exposed(verdict, width, out);
    if (verdict->finding_count) put_left(verdict, width, out);
    put_advice(verdict, width, out);
    put_advice_on_work(verdict, width, out);
    if (verdict->simulated)
        put_words("  ", "simulated: the collectives were copies on one rank; their times say nothing about a link",
                  width, out);
}

/* ---- Markdown ---- */

enum { ONE_LINE = 1 << 20 }; /* columns */

/* A sentence of the text, made by `say`, as a paragraph, a quotation or a point of a list. */
static void put_markdown(void (*say)(const struct aorta_verdict *verdict, int width, struct aorta_text *out),
                         const struct aorta_verdict *verdict, const char *begin, struct aorta_text *out) {
    struct aorta_text text = {0};
    say(verdict, ONE_LINE, &text);
    for (const char *at = text.data ? text.data : ""; *at;) {
        at += strspn(at, " \n");
        const size_t length = strcspn(at, "\n");
        char *line = strndup(at, length);
        if (length && line) {
            aorta_text_puts(out, begin);
            aorta_text_markdown(out, line);
            aorta_text_puts(out, *begin == '-' ? "\n" : "\n\n");
        }
        out->failed |= !line;
        free(line);
        at += length;
    }
    out->failed |= text.failed;
    aorta_text_free(&text);
}

static void put_disturbed(const struct aorta_verdict *verdict, int width, struct aorta_text *out) {
    if (verdict->disturbed) put_sentence(verdict->disturbed, width, out);
}

static void put_figures(const struct aorta_verdict *verdict, int width, struct aorta_text *out) {
    struct aorta_text sentence = {0};
    figures(verdict, &sentence);
    put(&sentence, 2, width, out);
    if (verdict->note) put_words("  ", verdict->note, width, out);
}

static void put_cause_row(const struct aorta_verdict *verdict, const struct aorta_finding *finding, bool by_gain,
                          struct aorta_text *out) {
    struct aorta_text range = {0};
    aorta_text_printf(out, "| %.0f%% | %s %.3f ms", 100 * (by_gain ? finding->gain_share : finding->share),
                      by_gain ? "saves" : "takes", by_gain ? finding->gain_ms : finding->cost_ms);
    if (by_gain) aorta_finding_say_range(finding, &range);
    if (is_doubtful(verdict, finding, by_gain)) aorta_text_puts(&range, ", less than such steps can show");
    aorta_text_printf(out, "%s | `%s", range.data ? range.data : "", aorta_cause_name(finding->cause));
    if (aorta_cause_has_kind(finding->cause))
        aorta_text_printf(out, " %s", aorta_verdict_kind_name(verdict, finding->collective));
    aorta_text_puts(out, "`");
    if (finding->rank >= 0) aorta_text_printf(out, ", rank %d", finding->rank);
    aorta_text_puts(out, " | ");
    aorta_text_markdown(out, finding->evidence);
    aorta_text_puts(out, " |\n");
    out->failed |= range.failed;
    aorta_text_free(&range);
}

void aorta_verdict_markdown(const struct aorta_verdict *verdict, struct aorta_text *out) {
    struct aorta_text headline = {0};
    put_markdown(put_missing, verdict, "> ", out);
    put_markdown(put_disturbed, verdict, "> ", out);
    put_markdown(put_spread, verdict, "> ", out);
    aorta_verdict_headline(verdict, &headline);
    aorta_text_puts(out, "**");
    aorta_text_markdown(out, headline.data ? headline.data : "");
    aorta_text_puts(out, "**\n\n");
    out->failed |= headline.failed;
    aorta_text_free(&headline);
    put_markdown(put_figures, verdict, "", out);
    const struct aorta_finding *rows[ROWS_MOST];
    size_t folded;
    const size_t shown = list_rows(verdict, rows, &folded);
    if (shown) aorta_text_puts(out, "| of a step | time | cause | evidence |\n| ---: | ---: | --- | --- |\n");
    for (size_t i = 0; i < shown; i++)
        put_cause_row(verdict, rows[i], verdict->replay.known && aorta_finding_gains(rows[i]), out);
    if (folded) aorta_text_puts(out, "|  |  |  | ");
    say_folded(folded, out);
    aorta_text_puts(out, folded ? " |\n\n" : "\n");
    put_markdown(put_exposed, verdict, "- ", out);
    if (verdict->finding_count) put_markdown(put_left, verdict, "- ", out);
    put_markdown(put_advice, verdict, "- ", out);
}

/* ---- JSON ---- */

static void write_remedy(const struct aorta_finding *finding, struct aorta_json *json) {
    aorta_json_key_string(json, "remedy", finding->remedy);
    aorta_json_key_double(json, "then_ms", finding->then_ms);
}

static void write_finding(const struct aorta_verdict *verdict, const struct aorta_finding *finding,
                          struct aorta_json *json) {
    aorta_json_object(json);
    aorta_json_key_string(json, "cause", aorta_cause_name(finding->cause));
    if (aorta_cause_has_kind(finding->cause))
        aorta_json_key_string(json, "collective", aorta_collective_name(finding->collective));
    if (verdict->replay.known || verdict->replay.reason) {
        aorta_json_key_double(json, "gain_ms", verdict->replay.known ? finding->gain_ms : NAN);
        aorta_json_key_double(json, "gain_share", verdict->replay.known ? finding->gain_share : NAN);
        aorta_json_key_array(json, "gain_range_ms");
        for (int j = 0; j < 2; j++) aorta_json_double(json, verdict->replay.known ? finding->gain_range_ms[j] : NAN);
        aorta_json_array_end(json);
        aorta_json_key_double(json, "alone_ms", verdict->replay.known ? finding->alone_ms : NAN);
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

/* Whether the finding is beyond the rows that are listed: the first ones, and what costs most. */
static bool is_folded(const struct aorta_verdict *verdict, size_t index) {
    if (verdict->finding_count <= ROWS_MOST) return false;
    const size_t costliest = (size_t)(aorta_verdict_costliest(verdict) - verdict->findings);
    return index != costliest && index >= (costliest < ROWS_MOST ? ROWS_MOST : ROWS_MOST - 1);
}

void aorta_verdict_findings(const struct aorta_verdict *verdict, struct aorta_json *json) {
    int64_t folded = 0;
    double cost_ms = 0, share = 0;
    aorta_json_key_array(json, "verdict");
    for (size_t i = 0; i < verdict->finding_count; i++) {
        const struct aorta_finding *finding = &verdict->findings[i];
        if (!is_folded(verdict, i)) {
            write_finding(verdict, finding, json);
            continue;
        }
        folded++;
        cost_ms += finding->cost_ms;
        share += finding->share;
    }
    aorta_json_array_end(json);
    if (!folded) return;
    aorta_json_key_object(json, "verdict_folded");
    aorta_json_key_int(json, "rows", folded);
    aorta_json_key_double(json, "cost_ms", cost_ms);
    aorta_json_key_double(json, "share", share);
    aorta_json_object_end(json);
}

static void write_left(const struct aorta_verdict_left *left, struct aorta_json *json) {
    aorta_json_key_object(json, "left_ms");
    aorta_json_key_double(json, "compute", left->compute_ms);
    aorta_json_key_double(json, "compute_alone", left->alone_ms);
    for (int i = 0; i < AORTA_COLLECTIVE_COUNT; i++)
        if (left->collective_ms[i] > 0)
            aorta_json_key_double(json, aorta_collective_name((enum aorta_collective)i), left->collective_ms[i]);
    aorta_json_key_double(json, "copies", left->copy_ms);
    aorta_json_key_double(json, "starts", left->starts_ms);
    aorta_json_key_double(json, "host", left->host_ms);
    aorta_json_key_double(json, "unexplained", left->unexplained_ms);
    aorta_json_object_end(json);
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
    if (replay->known) write_left(&replay->left, json);
    aorta_json_object_end(json);
    aorta_json_key_double(json, "floor_ms", replay->known ? replay->floor_ms : NAN);
}
