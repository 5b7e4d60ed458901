/* The first line of a verdict: the cause, the step before and after, the percentage. */
#include "report/phrases.h"
#include "report/verdict_view.h"
#include "verdict/causes.h"

#include <math.h>

static const double BOUND = 0.05; /* of the step: a gain or loss that deserves the headline */
static const double FOUND = 0.02; /* of the step: a gain that has a block */
static const double WIDE = 0.15;  /* of the gain: a range that is wider is shown */

static const char *per_step(const struct aorta_verdict *verdict) {
    return verdict->whole ? "ms in all" : "ms per step";
}

static const char *unit_of(const struct aorta_verdict *verdict) {
    return verdict->whole ? "time" : "step";
}

static void put_before(const struct aorta_verdict *verdict, struct aorta_text *out) {
    const struct aorta_verdict_replay *replay = &verdict->replay;
    const double step_ms = aorta_verdict_gained_ms(verdict);
    const double exact[2] = {step_ms, step_ms};
    const bool estimated = replay->unrecorded_ms > 0 && replay->unrecorded_range_ms[1] > 0;
    aorta_text_puts(out, aorta_estimated(step_ms, estimated ? replay->unrecorded_range_ms : exact).text);
}

/* "late kernel launches: 58 -> 12 ms per step if fixed (-79%)" */
static void of_gain(const struct aorta_verdict *verdict, const struct aorta_finding *first, struct aorta_text *out) {
    const double step_ms = aorta_verdict_gained_ms(verdict), gain_ms = aorta_finding_shown_ms(first);
    const bool dwarfed = aorta_facts_has(&first->facts, AORTA_FACT_OVERLAP_LIMIT);
    const char *verb = dwarfed ? "avoided" : aorta_cause_row(first->cause)->verb;
    double range_ms[2];
    aorta_finding_shown_range(first, range_ms);
    aorta_finding_name(verdict, first, out);
    aorta_text_puts(out, ": ");
    put_before(verdict, out);
    const bool wide = range_ms[1] - range_ms[0] > WIDE * gain_ms;
    const double most_ms = fmin(range_ms[1], step_ms), least_ms = fmax(range_ms[0], 0);
    const struct aorta_brief_range after = aorta_about_range(step_ms - most_ms, step_ms - least_ms);
    aorta_text_printf(out, " -> %s %s ", wide ? after.text : aorta_about(step_ms - gain_ms).text, per_step(verdict));
    if (first->at_best_ms > 0)
        aorta_text_puts(out, "at best");
    else
        aorta_text_printf(out, "if %s", verb ? verb : "fixed");
    if (wide)
        aorta_text_printf(out, " (-%.0f to -%.0f%%)", 100 * least_ms / step_ms, 100 * most_ms / step_ms);
    else
        aorta_text_printf(out, " (-%.0f%%)", 100 * gain_ms / step_ms);
}

static int count_gains(const struct aorta_verdict *verdict) {
    int count = 0;
    for (size_t i = 0; i < verdict->finding_count; i++) count += aorta_finding_gains(&verdict->findings[i]);
    return count;
}

/* "no single cause: largest 3% (late kernel launches); all 5: 228 -> 213 ms per step (-6%)" */
static void of_gains(const struct aorta_verdict *verdict, const struct aorta_finding *first, struct aorta_text *out) {
    const double step_ms = aorta_verdict_gained_ms(verdict), floor_ms = verdict->replay.floor_ms;
    aorta_text_printf(out, "no single cause: largest %.0f%% (", 100 * aorta_finding_shown_ms(first) / step_ms);
    aorta_finding_name(verdict, first, out);
    aorta_text_printf(out, "); all %d: ", count_gains(verdict));
    put_before(verdict, out);
    aorta_text_printf(out, " -> %s %s (-%.0f%%)", aorta_measured(floor_ms).text, per_step(verdict),
                      100 * (step_ms - floor_ms) / step_ms);
}

static const struct aorta_finding *compute_of(const struct aorta_verdict *verdict) {
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (verdict->findings[i].cause == AORTA_CAUSE_COMPUTE) return &verdict->findings[i];
    return NULL;
}

static bool is_exposed(const struct aorta_verdict *verdict) {
    return verdict->overlap_ratio < 0.5 && verdict->exposed_ms >= BOUND * verdict->step_ms_mean;
}

/* "; 62% of communication exposed (31.0 ms)" where communication is much of the step. */
static void put_exposed(const struct aorta_verdict *verdict, struct aorta_text *out) {
    if (is_exposed(verdict))
        aorta_text_printf(out, "; %.0f%% of communication exposed (%s ms)", 100 * (1 - verdict->overlap_ratio),
                          aorta_measured(verdict->exposed_ms).text);
}

/* ", 25% launch latency": the largest part without a fix next to compute. */
static void put_second(const struct aorta_verdict *verdict, const struct aorta_finding *compute,
                       struct aorta_text *out) {
    static const double much = 0.1;
    const struct aorta_finding *second = NULL;
    for (size_t i = 0; i < verdict->finding_count; i++) {
        const struct aorta_finding *finding = &verdict->findings[i];
        if (finding != compute && (!second || finding->share > second->share)) second = finding;
    }
    if (!second || second->share < much || aorta_finding_gains(second)) return;
    aorta_text_printf(out, ", %.0f%% ", 100 * second->share);
    aorta_finding_name(verdict, second, out);
}

static void of_no_gain(const struct aorta_verdict *verdict, const struct aorta_finding *costliest,
                       struct aorta_text *out) {
    const struct aorta_finding *compute = compute_of(verdict);
    const struct aorta_finding *first = &verdict->findings[0];
    const bool found = aorta_finding_shown_ms(first) >= FOUND * aorta_verdict_gained_ms(verdict);
    const double share = compute ? compute->share : 0;
    if (share > 1 - BOUND || (compute == costliest && share >= 0.5)) {
        aorta_text_printf(out, "compute-bound: %.0f%% of the %s is compute", 100 * share, unit_of(verdict));
        if (!is_exposed(verdict)) put_second(verdict, compute, out);
        aorta_text_printf(out, "; no fix above %d%% found", found ? 5 : 2);
    } else {
        aorta_text_printf(out, "no fix above %d%% found: %.0f%% of the %s is ", found ? 5 : 2, 100 * costliest->share,
                          unit_of(verdict));
        aorta_finding_name(verdict, costliest, out);
        if (compute && compute != costliest) aorta_text_printf(out, ", %.0f%% compute", 100 * share);
    }
    put_exposed(verdict, out);
}

/* The time of collectives that run alone, whatever the reason. */
static bool names_exposed(const struct aorta_verdict *verdict, const struct aorta_finding *costliest) {
    return verdict->exposed_ms > costliest->cost_ms;
}

static void of_unknown(const struct aorta_verdict *verdict, const struct aorta_finding *costliest,
                       struct aorta_text *out) {
    aorta_text_puts(out, "gains unknown");
    if (verdict->replay.reason) aorta_text_printf(out, " (%s)", verdict->replay.reason);
    if (names_exposed(verdict, costliest)) {
        aorta_text_printf(out, ": %.0f%% of the %s is exposed communication",
                          100 * verdict->exposed_ms / verdict->step_ms_mean, unit_of(verdict));
        return;
    }
    aorta_text_printf(out, ": %.0f%% of the %s is ", 100 * costliest->share, unit_of(verdict));
    aorta_finding_name(verdict, costliest, out);
    put_exposed(verdict, out);
}

/* "unknown: 1911 of 1961 kernels are missing in the recording" */
static void of_incomplete(const struct aorta_verdict *verdict, struct aorta_text *out) {
    const struct aorta_trace_coverage *coverage = &verdict->coverage;
    const int64_t numbered = coverage->dispatches + coverage->lost;
    if (verdict->processes > 1)
        aorta_text_printf(out, "unknown: the file mixes events of %zu processes; name the files of the ranks instead",
                          verdict->processes);
    else if (coverage->lost > coverage->dispatches)
        aorta_text_printf(out, "unknown: %lld of %lld kernels are missing in the recording; record all of them",
                          (long long)coverage->lost, (long long)numbered);
    else
        aorta_text_printf(out,
                          "unknown: %zu of %zu launches have no kernel in the recording; record the GPU's activity too",
                          coverage->unanswered, coverage->launches);
}

/* What the recording hides, instead of an answer. `named`: the finding that the line would be about. */
static bool of_limits(const struct aorta_verdict *verdict, const struct aorta_finding *named, struct aorta_text *out) {
    const struct aorta_finding *costliest = aorta_verdict_costliest(verdict);
    const char *unit = unit_of(verdict);
    if (verdict->host_only) {
        const struct aorta_finding *operations = compute_of(verdict);
        aorta_text_printf(out, "no GPU in the recording: operations of the host take %.0f%% of the %s",
                          operations ? 100 * operations->share : 0, unit);
        if (verdict->host_alone >= BOUND)
            aorta_text_printf(out, ", collectives on the host alone %.0f%%", 100 * verdict->host_alone);
        return true;
    }
    if (verdict->captures) {
        aorta_text_puts(out, "unknown: the program captures graphs here, which happens once; record it while it "
                             "replays them");
        return true;
    }
    const bool waits = named->cause == AORTA_CAUSE_HOST_LAUNCH && named->share >= BOUND;
    if (waits && verdict->replay.unrecorded_reason && !verdict->idle_unexplained) {
        aorta_text_printf(out, "unknown: the GPU waits for its host in %.0f%% of the recorded %s, but %s",
                          100 * named->share, unit, verdict->replay.unrecorded_reason);
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

/* The finding with the largest gain that needs no other fix than it names. */
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
    else
        of_gains(verdict, first, out);
}
