#include "report/verdict_text.h"
#include "base/lines.h"
#include "report/phrases.h"
#include "verdict/causes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the first line: the cause, the step before and after, the percentage ---- */

static const double BOUND = 0.05;  /* of the step: a gain or loss that deserves the headline */
static const double FOUND = 0.02;  /* of the step: a gain that has a block */
static const double LITTLE = 0.25; /* of the step: readers subtract a smaller gain */

static const char *per_step(const struct aorta_verdict *verdict) {
    return verdict->whole ? "ms in all" : "ms per step";
}

static const char *unit_of(const struct aorta_verdict *verdict) {
    return verdict->whole ? "time" : "step";
}

static struct aorta_brief before(const struct aorta_verdict *verdict) {
    const struct aorta_verdict_replay *replay = &verdict->replay;
    const double step_ms = aorta_verdict_gained_ms(verdict);
    const double exact[2] = {step_ms, step_ms};
    const bool estimated = replay->unrecorded_ms > 0 && replay->unrecorded_range_ms[1] > 0;
    return aorta_estimated(step_ms, estimated ? replay->unrecorded_range_ms : exact);
}

static int decimals_of(const struct aorta_brief *brief) {
    const char *point = strchr(brief->text, '.');
    return point ? (int)strlen(point + 1) : 0;
}

/* With a small gain both steps get the same number of digits, so that readers can subtract. */
static struct aorta_brief after(const struct aorta_verdict *verdict, double gain_ms) {
    const double step_ms = aorta_verdict_gained_ms(verdict);
    const struct aorta_brief whole = before(verdict);
    struct aorta_brief left = aorta_about(step_ms - gain_ms);
    const int decimals = decimals_of(&whole);
    if (gain_ms < LITTLE * step_ms && decimals > decimals_of(&left))
        snprintf(left.text, sizeof left.text, "%.*f", decimals, step_ms - gain_ms);
    return left;
}

/* What happens to the cause, or to both causes: "fixed", "hidden". */
static const char *verb_of(const struct aorta_finding *finding) {
    static const char both[] = "both are fixed", fixed[] = "fixed";
    static const struct {
        enum aorta_fact_key fact;
        const char *verb;
    } verbs[] = {{AORTA_FACT_COPIES_ONCE, "faster"},         {AORTA_FACT_OVERLAP_LIMIT, "avoided"},
                 {AORTA_FACT_SMALL_COPIES, "joined"},        {AORTA_FACT_GAIN_OF_ONE, "joined"},
                 {AORTA_FACT_REDUCED_AGAIN, "reduced once"}, {AORTA_FACT_GATHERED_AGAIN, "gathered once"},
                 {AORTA_FACT_PAGE_READS, "avoided"},         {AORTA_FACT_PAGE_FAULTS, "prefetched"}};
    const char *verb = aorta_cause_row(finding->cause)->verb;
    if (finding->joint_ms > 0) return both;
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (aorta_facts_has(&finding->facts, verbs[i].fact)) return verbs[i].verb;
    return verb ? verb : fixed;
}

/* "late kernel launches: 58 -> 12 ms per step if fixed (-79%)" */
static void of_gain(const struct aorta_verdict *verdict, const struct aorta_finding *first, struct aorta_text *out) {
    const double step_ms = aorta_verdict_gained_ms(verdict), gain_ms = fmin(aorta_finding_most_ms(first), step_ms);
    double range_ms[2];
    const bool wide = aorta_finding_is_range(first, range_ms);
    aorta_finding_name(verdict, first, out);
    aorta_text_printf(out, ": %s -> ", before(verdict).text);
    const double most_ms = fmin(range_ms[1], step_ms), least_ms = fmax(range_ms[0], 0);
    struct aorta_brief_range left = aorta_about_range(step_ms - most_ms, step_ms - least_ms);
    const bool sure = most_ms - least_ms < 0.2 * (step_ms - most_ms); /* two digits are for more than ±10% */
    const struct aorta_brief low = after(verdict, most_ms), high = after(verdict, least_ms);
    if (sure && most_ms < LITTLE * step_ms && strcmp(low.text, high.text) != 0)
        snprintf(left.text, sizeof left.text, "%s to %s", low.text, high.text);
    aorta_text_printf(out, "%s %s ", wide ? left.text : after(verdict, gain_ms).text, per_step(verdict));
    if (aorta_finding_is_bound(first) && !wide) /* a range has both ends, so that "at best" is not needed */
        aorta_text_puts(out, "at best");
    else
        aorta_text_printf(out, "if %s", verb_of(first));
    if (wide)
        aorta_text_printf(out, " (-%.0f to -%.0f%%)", 100 * least_ms / step_ms, 100 * most_ms / step_ms);
    else
        aorta_text_printf(out, " (-%.0f%%)", 100 * gain_ms / step_ms);
}

/* "no single cause: largest 3% (late kernel launches); all 5: 228 -> 213 ms per step (-6%)" */
static void of_gains(const struct aorta_verdict *verdict, const struct aorta_finding *first, struct aorta_text *out) {
    static const double MORE = 1.25; /* times the sum of the gains */
    const double step_ms = aorta_verdict_gained_ms(verdict), floor_ms = verdict->replay.floor_ms;
    double together_ms = 0, range_ms[2];
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (aorta_finding_gains(&verdict->findings[i]))
            together_ms += MORE * aorta_finding_most_ms(&verdict->findings[i]);
    aorta_text_puts(out, "no single cause: largest ");
    if (aorta_finding_is_range(first, range_ms)) aorta_text_printf(out, "%.0f to ", 100 * range_ms[0] / step_ms);
    aorta_text_printf(out, "%.0f%% (", 100 * aorta_finding_most_ms(first) / step_ms);
    aorta_finding_name(verdict, first, out);
    if (together_ms < step_ms - floor_ms) /* the floor includes causes that gain nothing alone */
        aorta_text_puts(out, "); all causes together: ");
    else
        aorta_text_printf(out, "); all %d: ", aorta_verdict_gain_count(verdict));
    aorta_text_printf(out, "%s -> %s %s (-%.0f%%)", before(verdict).text, after(verdict, step_ms - floor_ms).text,
                      per_step(verdict), 100 * (step_ms - floor_ms) / step_ms);
}

static bool is_exposed(const struct aorta_verdict *verdict) {
    return verdict->overlap_ratio < 0.5 && verdict->exposed_ms >= BOUND * verdict->step_ms_mean;
}

/* "; 31.0 ms of communication exposed (62%)" where communication is much of the step. */
static void put_exposed(const struct aorta_verdict *verdict, struct aorta_text *out) {
    if (is_exposed(verdict))
        aorta_text_printf(out, "; %s ms of communication exposed (%.0f%%)", aorta_measured(verdict->exposed_ms).text,
                          100 * (1 - verdict->overlap_ratio));
}

/* The largest part besides compute without a fix. NULL: none, or collectives, which have their own text. */
static const struct aorta_finding *second_to(const struct aorta_verdict *verdict, const struct aorta_finding *compute) {
    static const double MUCH = 0.1;
    const struct aorta_finding *second = NULL;
    AORTA_EACH (const struct aorta_finding, finding, verdict->findings, verdict->finding_count)
        if (finding != compute && (!second || finding->share > second->share)) second = finding;
    return second && second->share >= MUCH && !aorta_finding_gains(second) && !is_exposed(verdict) ? second : NULL;
}

/* Whether compute is large and its fixes cannot be computed. */
static bool is_compute_unknown(const struct aorta_finding *compute) {
    static const double MUCH = 0.1;
    return compute && compute->share >= MUCH &&
           (aorta_facts_has(&compute->facts, AORTA_FACT_NO_PEAKS) ||
            aorta_facts_has(&compute->facts, AORTA_FACT_WHOLE_GRAPHS));
}

/* ", 66% in fp32" where products could be faster by an unknown factor. */
static void put_wide(const struct aorta_verdict *verdict, struct aorta_text *out) {
    const struct aorta_finding *wide = aorta_verdict_find(verdict, AORTA_CAUSE_PRECISION);
    const struct aorta_fact *touched = wide ? aorta_facts_find(&wide->facts, AORTA_FACT_TOUCHED) : NULL;
    if (touched && aorta_facts_has(&wide->facts, AORTA_FACT_GAIN_UNKNOWN))
        aorta_text_printf(out, ", %.0f%% in fp32", 100 * touched->value / aorta_verdict_spent_ms(verdict));
}

/* Whether a fix of kernels gains, as some need no peak rates. */
static bool gains_compute(const struct aorta_verdict *verdict) {
    bool any = false;
    for (size_t i = 0; i < verdict->finding_count; i++)
        any |= verdict->findings[i].remedy && aorta_finding_gains(&verdict->findings[i]);
    return any;
}

static void of_no_gain(const struct aorta_verdict *verdict, const struct aorta_finding *costliest,
                       struct aorta_text *out) {
    const struct aorta_finding *compute = aorta_verdict_find(verdict, AORTA_CAUSE_COMPUTE);
    const struct aorta_finding *first = &verdict->findings[0];
    const double found = aorta_finding_shown_ms(first) / aorta_verdict_gained_ms(verdict);
    const double most = aorta_finding_most_ms(first) / aorta_verdict_gained_ms(verdict);
    const bool bound = aorta_verdict_is_bound(verdict), unknown = is_compute_unknown(compute);
    const struct aorta_finding *named = bound ? compute : costliest, *second = second_to(verdict, compute);
    if (bound)
        aorta_text_puts(out, "compute-bound: ");
    else if (costliest != compute && costliest->share > 0.5) /* a loss of more than half of the step */
        aorta_text_puts(out, "gains unknown: ");
    else
        aorta_text_printf(out, "no fix above %d%% found: ", found >= FOUND ? 5 : 2);
    aorta_text_printf(out, "%.0f%% of the %s is ", 100 * named->share, unit_of(verdict));
    aorta_finding_name(verdict, named, out);
    if (compute && compute != named) aorta_text_printf(out, ", %.0f%% compute", 100 * compute->share);
    if (unknown) put_wide(verdict, out);
    if (unknown)
        aorta_text_printf(out, "; %sgains of compute unknown", gains_compute(verdict) ? "other " : "");
    else if (bound && found >= FOUND)
        aorta_text_printf(out, "; the largest fix gains %s%.0f%%", most > found ? "at most " : "", 100 * most);
    else if (bound && !second)
        aorta_text_puts(out, "; no fix above 2% found");
    if (second && compute == named) {
        aorta_text_printf(out, "; %.0f%% is ", 100 * second->share);
        aorta_finding_name(verdict, second, out);
        if (!unknown) aorta_text_puts(out, ", gain unknown");
    }
    put_exposed(verdict, out);
}

static void of_unknown(const struct aorta_verdict *verdict, const struct aorta_finding *costliest,
                       struct aorta_text *out) {
    aorta_text_puts(out, "gains unknown");
    if (verdict->exposed_ms > costliest->cost_ms) { /* exposed collectives, whatever the reason */
        aorta_text_printf(out, ": %.0f%% of the %s is exposed communication",
                          100 * verdict->exposed_ms / verdict->step_ms_mean, unit_of(verdict));
        return;
    }
    aorta_text_printf(out, ": %.0f%% of the %s is ", 100 * costliest->share, unit_of(verdict));
    aorta_finding_name(verdict, costliest, out);
    put_exposed(verdict, out);
}

static const char captured[] = "unknown: the program captures graphs here, which happens once; record it while it "
                               "replays them";

/* "unknown: 1911 of 1961 kernels are missing in the recording" */
static void of_incomplete(const struct aorta_verdict *verdict, struct aorta_text *out) {
    const struct aorta_trace_coverage *coverage = &verdict->coverage;
    const int64_t numbered = coverage->dispatches + coverage->lost;
    if (verdict->processes > 1)
        aorta_text_printf(out, "unknown: the file mixes events of %zu processes; name the files of the ranks instead",
                          verdict->processes);
    else if (coverage->failed && !coverage->launches)
        aorta_text_printf(out, "unknown: %zu of %zu launches failed (%s); correct this first", coverage->failed,
                          coverage->failed, aorta_cuda_error(coverage->error).text);
    else if (coverage->lost > coverage->dispatches)
        aorta_text_printf(out, "unknown: %lld of %lld kernels are missing in the recording; record all of them",
                          (long long)coverage->lost, (long long)numbered);
    else if (verdict->captures)
        aorta_text_puts(out, captured);
    else if (2 * coverage->unanswered <= coverage->launches) /* too few unanswered launches to be the reason */
        aorta_text_puts(out, "nothing to analyze: almost no work of the GPU is recorded; record steps of the program");
    else
        aorta_text_printf(out,
                          "unknown: %zu of %zu launches have no kernel in the recording; record the GPU's activity too",
                          coverage->unanswered, coverage->launches);
}

/* Names a limit of the recording instead of an answer. `named`: the finding that the line would be about. */
static bool of_limits(const struct aorta_verdict *verdict, const struct aorta_finding *named, struct aorta_text *out) {
    const struct aorta_finding *costliest = aorta_verdict_costliest(verdict);
    const char *unit = unit_of(verdict);
    if (verdict->cut_off) {
        aorta_text_puts(out, "unknown: the file ends before any work of a GPU; record again, or use the whole file");
        return true;
    }
    if (verdict->host_only) {
        const struct aorta_finding *operations = aorta_verdict_find(verdict, AORTA_CAUSE_COMPUTE);
        const double share = operations ? operations->share : 0;
        aorta_text_puts(out, "no GPU in the recording: ");
        if (verdict->host_alone > share && verdict->host_collectives.name)
            aorta_text_printf(out, "%s on the host takes %.0f%% of the %s", verdict->host_collectives.name,
                              100 * verdict->host_alone, unit);
        else
            aorta_text_printf(out, "operations of the host take %.0f%% of the %s", 100 * share, unit);
        if (verdict->host_alone >= BOUND && verdict->host_alone <= share)
            aorta_text_printf(out, ", collectives on the host alone %.0f%%", 100 * verdict->host_alone);
        return true;
    }
    if (verdict->captures) {
        aorta_text_puts(out, captured);
        return true;
    }
    const bool waits = named->cause == AORTA_CAUSE_HOST_LAUNCH && named->share >= BOUND;
    if (waits && verdict->replay.unrecorded_reason && !verdict->idle_unexplained) {
        const double gained = aorta_finding_gains(named) && aorta_verdict_gains_matter(verdict)
                                  ? aorta_finding_most_ms(named) / aorta_verdict_gained_ms(verdict)
                                  : named->share;
        aorta_text_printf(out, "unknown: late kernel launches take up to %.0f%% of the recorded %s, but %s",
                          100 * gained, unit, verdict->replay.unrecorded_reason);
        return true;
    }
    if (aorta_verdict_gains_matter(verdict) || costliest->cause != AORTA_CAUSE_COMPUTE) return false;
    if (verdict->coarse)
        aorta_text_puts(out, "unknown: these ranges of compute may contain gaps of the host; record with aorta train");
    else if (verdict->gaps)
        aorta_text_printf(
            out, "at most %.0f%% of the %s is compute, gaps between kernels included; --kernel-timing separates them",
            100 * costliest->share, unit);
    return verdict->coarse || verdict->gaps;
}

/* The finding with the largest gain, without those that gain only after another fix. */
static const struct aorta_finding *largest(const struct aorta_verdict *verdict) {
    const struct aorta_finding *best = &verdict->findings[0];
    for (size_t i = 0; i < verdict->finding_count; i++) {
        best = &verdict->findings[i];
        if (!best->only_after || best->joint_ms > 0) return best;
    }
    return best;
}

void aorta_verdict_headline(const struct aorta_verdict *verdict, struct aorta_text *out) {
    const struct aorta_finding *costliest = aorta_verdict_costliest(verdict);
    if (!costliest) {
        aorta_text_puts(out, "nothing ran");
        return;
    }
    if (verdict->incomplete) {
        of_incomplete(verdict, out);
        return;
    }
    const struct aorta_finding *first = largest(verdict);
    const bool gains = aorta_verdict_gains_matter(verdict) && aorta_finding_gains(first);
    if (of_limits(verdict, gains ? first : costliest, out)) return;
    if (!verdict->replay.known)
        of_unknown(verdict, costliest, out);
    else if (!gains)
        of_no_gain(verdict, costliest, out);
    else if (aorta_finding_shown_ms(first) >= BOUND * aorta_verdict_gained_ms(verdict))
        of_gain(verdict, first, out);
    else if (is_compute_unknown(aorta_verdict_find(verdict, AORTA_CAUSE_COMPUTE)) ||
             (aorta_verdict_is_bound(verdict) && aorta_verdict_gain_count(verdict) == 1))
        of_no_gain(verdict, costliest, out);
    else
        of_gains(verdict, first, out);
}

/* ---- the terminal ---- */

enum { NARROWEST = 80, WIDEST = 100, NAME = 11, BAR = 10, FIGURE = 9, INDENT = 6, LABEL = 7 };

static const double BARRED = 0.05, RED = 0.2, YELLOW = 0.1; /* of the step */

struct writer {
    struct aorta_text *out;
    struct aorta_arena *arena; /* of texts; its failure is that of the output */
    int width;
    bool color;
};

static void put(const struct writer *writer, enum aorta_color color, const char *text) {
    aorta_text_colored(writer->out, writer->color ? color : AORTA_PLAIN, text);
}

/* Wraps the text after `taken` columns that are written already. */
static void put_lines(const struct writer *writer, enum aorta_color color, const char *text, int taken, int indent) {
    const struct aorta_lines lines = {writer->width, taken, indent, writer->color ? color : AORTA_PLAIN};
    aorta_text_lines(writer->out, text, &lines);
}

static void put_rows(const struct writer *writer, const struct aorta_verdict_view *view) {
    for (int i = 0; i < view->row_count; i++) {
        aorta_text_printf(writer->out, "  %-*s", NAME, view->rows[i].name);
        put_lines(writer, AORTA_PLAIN, view->rows[i].text, 2 + NAME, 2 + NAME);
    }
}

static void put_bar(const struct writer *writer, double share) {
    char bar[BAR + 1];
    const bool barred = round(100 * share) >= 100 * BARRED; /* rounded like the printed percentage */
    const int filled = (int)lround(fmin(fmax(share, BARRED), 1) * BAR);
    memset(bar, barred ? '.' : ' ', BAR);
    if (barred) memset(bar, '#', (size_t)filled);
    bar[BAR] = '\0';
    put(writer, share >= RED ? AORTA_RED : share >= YELLOW ? AORTA_YELLOW : AORTA_CYAN, bar);
}

/* "  ####......  41%   10 to 14 ms  unfused pointwise kernels (fusion)" */
static void put_head(const struct writer *writer, const struct aorta_view_block *block, bool marked) {
    enum { BEFORE = 2 + BAR + 7, UNIT = 5 }; /* columns before the figure, and of " ms" and blanks after it */
    const char *figure = aorta_arena_printf(writer->arena, "%*s ms", FIGURE, block->figure);
    const char *name = aorta_arena_printf(writer->arena, "%s (%s)%s%s%s", block->name, block->key,
                                          marked ? ", cost" : "", *block->suffix ? ", " : "", block->suffix);
    if (!name) return;
    aorta_text_puts(writer->out, "  ");
    put_bar(writer, block->share);
    aorta_text_printf(writer->out, " %3.0f%%  ", 100 * block->share);
    put(writer, AORTA_BOLD, figure);
    aorta_text_puts(writer->out, "  ");
    put_lines(writer, AORTA_PLAIN, name, BEFORE + (int)strlen(figure) + 2, BEFORE + FIGURE + UNIT);
}

static void put_labelled(const struct writer *writer, const char *label, enum aorta_color color, const char *text) {
    aorta_text_printf(writer->out, "%*s%-*s", INDENT, "", LABEL, label);
    put_lines(writer, color, text, INDENT + LABEL, INDENT + LABEL);
}

/* `marked`: the figure is a cost, and other blocks have gains. */
static void put_block(const struct writer *writer, const struct aorta_view_block *block, bool marked) {
    const char *measured = block->measured;
    put_head(writer, block, marked);
    if (*block->mark)
        measured = aorta_arena_printf(writer->arena, "%s%s(%s)", measured, *measured ? " " : "", block->mark);
    if (measured && *measured) {
        aorta_text_printf(writer->out, "%*s", INDENT, "");
        put_lines(writer, AORTA_DIM, measured, INDENT, INDENT);
    }
    if (*block->worst) put_labelled(writer, "worst", AORTA_DIM, block->worst);
    for (int i = 0; i < block->fix_count; i++) put_labelled(writer, i ? "" : "fix", AORTA_GREEN, block->fix[i]);
}

static void put_details(const struct writer *writer, const struct aorta_verdict_style *style,
                        const struct aorta_verdict_view *view) {
    if (view->row_count) aorta_text_puts(writer->out, "\n");
    put_rows(writer, view);
    if (view->block_count) aorta_text_printf(writer->out, "\n  share of step      %10s\n", view->figures);
    for (int i = 0; i < view->block_count; i++)
        put_block(writer, &view->blocks[i], view->blocks[0].gains && !view->blocks[i].gains);
    if (!*view->minor) return;
    const char *minor = view->minor;
    if (!style->view.all)
        minor = aorta_arena_printf(writer->arena, "%s (%s%s--all shows %s)", minor, style->all ? style->all : "",
                                   style->all ? " " : "", view->minor_count == 1 ? "it" : "them");
    aorta_text_puts(writer->out, "\n  ");
    if (minor) put_lines(writer, AORTA_PLAIN, minor, 2, 2);
}

int aorta_verdict_width(const struct aorta_verdict_style *style) {
    if (!style || !style->width || style->width > WIDEST) return WIDEST;
    return style->width < NARROWEST ? NARROWEST : style->width;
}

void aorta_verdict_text(const struct aorta_verdict *verdict, const struct aorta_verdict_style *style,
                        struct aorta_text *out) {
    static const struct aorta_verdict_style plain = {0};
    struct aorta_verdict_view view;
    if (!style) style = &plain;
    aorta_verdict_view_make(verdict, &style->view, &view);
    const struct writer writer = {out, &view.arena, aorta_verdict_width(style), style->color};
    const char *headline = aorta_arena_printf(&view.arena, "Verdict: %s", view.headline);
    if (headline) put_lines(&writer, AORTA_BOLD, headline, 0, 2);
    if (!style->answer) put_details(&writer, style, &view);
    aorta_text_arena_end(out, &view.arena);
}

/* ---- Markdown ---- */

static void put_markdown_block(const struct aorta_view_block *block, bool marked, struct aorta_text *out) {
    aorta_text_printf(out, "| %.0f%% | %s ms | ", 100 * block->share, block->figure);
    aorta_text_markdown(out, block->name);
    aorta_text_printf(out, " (`%s`)%s%s%s | ", block->key, marked ? ", cost" : "", *block->suffix ? ", " : "",
                      block->suffix);
    aorta_text_markdown(out, block->measured);
    if (*block->mark) aorta_text_puts(out, *block->measured ? " (" : "(");
    aorta_text_markdown(out, block->mark);
    if (*block->mark) aorta_text_puts(out, ")");
    if (*block->worst) aorta_text_puts(out, *block->measured || *block->mark ? "<br>worst: " : "worst: ");
    aorta_text_markdown(out, block->worst);
    aorta_text_puts(out, " | ");
    for (int i = 0; i < block->fix_count; i++) {
        if (i) aorta_text_puts(out, "<br>");
        aorta_text_markdown(out, block->fix[i]);
    }
    aorta_text_puts(out, " |\n");
}

void aorta_verdict_markdown(const struct aorta_verdict *verdict, struct aorta_text *out) {
    struct aorta_verdict_view view;
    aorta_verdict_view_make(verdict, NULL, &view);
    aorta_text_puts(out, "**Verdict: ");
    aorta_text_markdown(out, view.headline);
    aorta_text_puts(out, "**\n\n| | |\n| --- | --- |\n");
    for (int i = 0; i < view.row_count; i++) {
        aorta_text_puts(out, "| ");
        aorta_text_markdown(out, view.rows[i].name);
        aorta_text_puts(out, " | ");
        aorta_text_markdown(out, view.rows[i].text);
        aorta_text_puts(out, " |\n");
    }
    if (view.block_count)
        aorta_text_printf(out, "\n| share of step | %s | cause | measured | fix |\n| ---: | ---: | --- | --- | --- |\n",
                          view.figures);
    for (int i = 0; i < view.block_count; i++)
        put_markdown_block(&view.blocks[i], view.blocks[0].gains && !view.blocks[i].gains, out);
    if (*view.minor) {
        aorta_text_puts(out, "\n");
        aorta_text_markdown(out, view.minor);
        aorta_text_puts(out, "\n");
    }
    aorta_text_arena_end(out, &view.arena);
}
